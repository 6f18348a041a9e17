//! `millstream partition GRAPH --parts N`.

use std::path::PathBuf;

use clap::Args;
use millstream::graph::{CsrGraph, Partition};
use serde::Serialize;

use crate::error::Error;
use crate::input::Input;
use crate::options::Partitioner;
use crate::output::{answer, check_all_writable, facts, write_values};
use crate::progress::phase;

/// Divides a graph.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many parts.
    #[arg(long, value_name = "N")]
    parts: usize,
    /// How to divide it.
    #[arg(long, value_enum)]
    partitioner: Partitioner,
    /// Prints one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Writes the part of each vertex; .npy by extension, .gz and .zst compress it.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    input: Input,
}

#[derive(Debug, Serialize)]
struct Report {
    graph: String,
    vertices: u32,
    edges: u64,
    parts: usize,
    edge_cut: u64,
    vertex_balance: f64,
    arc_balance: f64,
    sizes: Vec<Size>,
}

/// The size of a part.
#[derive(Debug, Serialize)]
struct Size {
    vertices: u32,
    arcs: u64,
}

/// Reads, divides and answers.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    if arguments.parts == 0 {
        return Err(Error::Usage("a graph cannot be divided into 0 parts".into()));
    }
    let output = ("--output", arguments.output.as_ref());
    check_all_writable(&[output], &[arguments.input.named()])?;
    let graph = arguments.input.read()?;
    // Memory grows with the number of parts, so it must be limited.
    if arguments.parts > graph.vertices().max(1) as usize {
        let (parts, vertices) = (arguments.parts, graph.vertices());
        return Err(Error::Usage(format!(
            "{vertices} vertices cannot be divided into {parts} parts"
        )));
    }
    let partition = arguments.partitioner.divide(&graph, arguments.parts)?;
    let write = |path: &PathBuf| {
        let parts = parts_of(&graph, &partition);
        phase("writing", || write_values(path, graph.original_ids(), &parts))
    };
    let written = arguments.output.as_ref().map_or(Ok(()), write);
    let report = Report {
        graph: arguments.input.graph.display().to_string(),
        vertices: graph.vertices(),
        edges: graph.arcs(),
        parts: partition.parts(),
        edge_cut: partition.edge_cut(&graph),
        vertex_balance: partition.vertex_balance(),
        arc_balance: partition.arc_balance(&graph),
        sizes: sizes(&graph, &partition),
    };
    answer(&report, arguments.json, table)?;
    written
}

fn sizes(graph: &CsrGraph, partition: &Partition) -> Vec<Size> {
    let mut sizes: Vec<Size> =
        (0..partition.parts()).map(|_| Size { vertices: 0, arcs: 0 }).collect();
    for vertex in 0..graph.vertices() {
        let size = &mut sizes[partition.owner(partition.to_new(vertex))];
        size.vertices += 1;
        size.arcs += graph.degree(vertex);
    }
    sizes
}

fn table(report: &Report) -> String {
    let share = report.edge_cut as f64 / report.edges.max(1) as f64 * 100.0;
    let mut text = facts(&[
        ("graph", format!("{}, {} vertices, {} arcs", report.graph, report.vertices, report.edges)),
        ("edge cut", format!("{} arcs ({share:.2} %)", report.edge_cut)),
        ("balance of vertices", format!("{:.3}", report.vertex_balance)),
        ("balance of arcs", format!("{:.3}", report.arc_balance)),
    ]);
    for (part, size) in report.sizes.iter().enumerate() {
        text += &format!("\npart {part}: {} vertices, {} arcs", size.vertices, size.arcs);
    }
    text
}

fn parts_of(graph: &CsrGraph, partition: &Partition) -> Vec<u32> {
    (0..graph.vertices()).map(|vertex| partition.owner(partition.to_new(vertex)) as u32).collect()
}
