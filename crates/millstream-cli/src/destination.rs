//! The file a graph goes to.

use std::io::ErrorKind;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use millstream::graph::write::{WriteError, format_of_file, write_graph};
use millstream::graph::{CsrGraph, Format, Weights};
use serde::Serialize;

use crate::error::Error;
use crate::output::{answer, check_writable, facts};
use crate::progress::phase;
use crate::remark::remark;

/// Where a graph is written to, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = None)]
pub(crate) struct Destination {
    /// The file: .mtx, .gr, .graph, .el, .wel, .txt, .csv, .tsv or .mill; also with
    /// .gz or .zst.
    out: PathBuf,
    /// The format, if the extension leaves a choice: .gr is DIMACS unless given, and an
    /// unknown extension may be any format except METIS.
    #[arg(long, value_enum)]
    format: Option<FormatOption>,
    /// Prints one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatOption {
    /// Matrix Market, text.
    MatrixMarket,
    /// The shortest-paths format of the ninth DIMACS challenge, text.
    Dimacs,
    /// Galois version 1, binary.
    Galois,
    /// METIS and the tenth DIMACS challenge, text.
    Metis,
    /// A line for each arc, text.
    EdgeList,
    /// Ours, binary.
    Millstream,
}

impl From<FormatOption> for Format {
    fn from(option: FormatOption) -> Format {
        match option {
            FormatOption::MatrixMarket => Format::MatrixMarket,
            FormatOption::Dimacs => Format::Dimacs,
            FormatOption::Galois => Format::Galois,
            FormatOption::Metis => Format::Metis,
            FormatOption::EdgeList => Format::EdgeList,
            FormatOption::Millstream => Format::Millstream,
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    graph: String,
    vertices: u32,
    edges: u64,
    weights: Option<&'static str>,
}

impl Destination {
    /// Checks early that the file can be written, and in which format.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.format()?;
        check_writable(&self.out)
    }

    /// The requested format, unless the extension is that of another.
    fn format(&self) -> Result<Format, Error> {
        let format = format_of_file(&self.out, self.format.map(Format::from))?;
        match Format::from_path(&self.out) {
            // Galois has the extension of DIMACS.
            Some(Format::Dimacs) if format == Format::Galois => Ok(format),
            Some(named) if named != format => {
                let out = self.out.display();
                Err(Error::Usage(format!(
                    "{out}: the extension is that of {named}, --format that of {format}"
                )))
            }
            _ => Ok(format),
        }
    }

    /// Writes a graph and says what it is.
    pub(crate) fn write(&self, graph: &CsrGraph) -> Result<(), Error> {
        let format = self.format()?;
        match phase("writing", || write_graph(&self.out, graph, Some(format))) {
            // A pipe whose reader has closed it is no failure, as for answers.
            Err(WriteError::Io { source, .. }) if source.kind() == ErrorKind::BrokenPipe => {}
            written => written?,
        }
        if graph.original_ids().is_some()
            && !matches!(format, Format::EdgeList | Format::Millstream)
        {
            let out = self.out.display();
            remark(format_args!("{out}: {format} has no place for the original ids of vertices"));
        }
        let report = Report {
            graph: self.out.display().to_string(),
            vertices: graph.vertices(),
            edges: graph.arcs(),
            // DIMACS has a weight for each arc: 1 if the graph has none.
            weights: (graph.weights().map(weight_kind))
                .or((format == Format::Dimacs).then_some("integer")),
        };
        answer(&report, self.json, table)
    }
}

/// The type of weights, in a word.
pub(crate) fn weight_kind(weights: &Weights) -> &'static str {
    match weights {
        Weights::Integer(_) => "integer",
        Weights::Real(_) => "real",
    }
}

fn table(report: &Report) -> String {
    facts(&[
        ("graph", report.graph.clone()),
        ("vertices", report.vertices.to_string()),
        ("arcs", report.edges.to_string()),
        ("weights", report.weights.unwrap_or("none").to_string()),
    ])
}
