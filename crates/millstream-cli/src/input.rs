//! The graph a command reads, and how its vertices are named outside.

use std::path::PathBuf;

use clap::Args;
use millstream::graph::read::{ReadOptions, read_graph_with_format};
use millstream::graph::{BadWeight, CsrGraph, Format, source};

use crate::error::Error;
use crate::output::Named;
use crate::progress::phase;
use crate::remark::remark;

/// The graph to read, and what to do with it. In a command, groups with a help heading, like this one,
/// must come after options without one: a heading applies to all options that follow.
#[derive(Debug, Args)]
#[command(next_help_heading = "Graph input")]
pub(crate) struct Input {
    /// Matrix Market, DIMACS, Galois, METIS, edge list or .mill; plain, .gz or .zst.
    #[arg(help_heading = None)]
    pub(crate) graph: PathBuf,
    /// Adds the reverse of every arc.
    #[arg(long)]
    symmetrize: bool,
    /// Keeps only the lightest of several arcs between the same vertices.
    #[arg(long)]
    dedupe: bool,
    /// Leaves out arcs from a vertex to itself.
    #[arg(long)]
    drop_self_loops: bool,
    /// Reverses every arc.
    #[arg(long)]
    transpose: bool,
    /// Leaves out ids that no arc of an edge list names; answers and --source keep
    /// the ids of the file.
    #[arg(long)]
    relabel: bool,
}

impl Input {
    /// What `--help` calls the graph's file, and its path.
    pub(crate) fn named(&self) -> Named<'_> {
        ("GRAPH", Some(&self.graph))
    }

    pub(crate) fn read(&self) -> Result<CsrGraph, Error> {
        Ok(self.read_with_format()?.0)
    }

    pub(crate) fn read_with_format(&self) -> Result<(CsrGraph, Format), Error> {
        let mut options = ReadOptions::default();
        options.symmetrize = self.symmetrize;
        options.dedupe = self.dedupe;
        options.drop_self_loops = self.drop_self_loops;
        options.transpose = self.transpose;
        options.relabel = self.relabel;
        let read = || read_graph_with_format(&self.graph, &options);
        let (graph, format) = phase("reading", read)?;
        if self.relabel && format != Format::EdgeList {
            let path = self.graph.display();
            remark(format_args!("--relabel does nothing here: {path} is no edge list"));
        }
        Ok((graph, format))
    }
}

/// Reads `--source`: vertex ids as the file has them, `max-degree` or `center`.
pub(crate) fn sources(text: &str, input: &Input, graph: &CsrGraph) -> Result<Vec<u32>, Error> {
    match text {
        _ if graph.vertices() == 0 => {
            let path = input.graph.display();
            Err(Error::Usage(format!("{path}: the graph has no vertex to start from")))
        }
        "max-degree" => Ok(source::max_degree(graph).into_iter().collect()),
        "center" => Ok(source::center(graph).into_iter().collect()),
        list if list.split(',').any(|name| ["max-degree", "center"].contains(&name.trim())) => {
            Err(Error::Usage(format!("source {list:?}: max-degree and center stand alone")))
        }
        list => vertices(list, graph, "source", "neither max-degree, center nor"),
    }
}

/// The vertices of a comma list of ids in the file. The error for an unknown id says what it
/// should have been, and that it is `not` that.
pub(crate) fn vertices(
    list: &str,
    graph: &CsrGraph,
    what: &str,
    not: &str,
) -> Result<Vec<u32>, Error> {
    let unknown = |name| {
        let ids = match graph.original_ids() {
            Some([first, ..]) => format!(", which keep the ids of an edge list, such as {first}"),
            _ => String::new(),
        };
        let vertices = graph.vertices();
        Error::Usage(format!("{what} {name:?} is {not} one of the {vertices} vertices{ids}"))
    };
    let names = list.split(',').map(str::trim);
    names.map(|name| vertex(name, graph).ok_or_else(|| unknown(name))).collect()
}

/// The vertex with this id in the file.
fn vertex(name: &str, graph: &CsrGraph) -> Option<u32> {
    let id = name.parse::<u64>().ok();
    id.and_then(|id| match graph.original_ids() {
        Some(ids) => ids.binary_search(&id).ok().map(|place| place as u32),
        None => u32::try_from(id).ok().filter(|&vertex| vertex < graph.vertices()),
    })
}

/// The ids that these vertices have in the file.
pub(crate) fn original_ids(graph: &CsrGraph, vertices: &[u32]) -> Vec<u64> {
    vertices.iter().map(|&vertex| original_id(graph, vertex)).collect()
}

/// The id that this vertex has in the file.
pub(crate) fn original_id(graph: &CsrGraph, vertex: u32) -> u64 {
    match graph.original_ids() {
        Some(ids) => ids[vertex as usize],
        None => vertex.into(),
    }
}

/// The error for a weight of the file that has no meaning.
pub(crate) fn bad_weight(weight: BadWeight, input: &Input, graph: &CsrGraph) -> Error {
    let BadWeight { from, to, weight } = weight;
    let (from, to) = (original_id(graph, from), original_id(graph, to));
    Error::Weight { path: input.graph.clone(), from, to, weight }
}
