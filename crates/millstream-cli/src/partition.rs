//! `millstream partition GRAPH --parts N`.

use clap::Args;
use millstream::graph::{CsrGraph, Partition};
use serde::Serialize;

use crate::error::Error;
use crate::options::{Input, Partitioner};
use crate::output::{facts, write_values};

/// Divides a graph.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// How many parts.
    #[arg(long)]
    parts: usize,
    /// Who divides.
    #[arg(long, value_enum)]
    partitioner: Partitioner,
    /// Prints one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Writes the part of each vertex; .npy by extension.
    #[arg(long)]
    output: Option<std::path::PathBuf>,
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
}

/// Reads, divides and answers.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    if arguments.parts == 0 {
        return Err(Error::Usage("a graph cannot be divided into 0 parts".into()));
    }
    let graph = arguments.input.read()?;
    let partition = arguments.partitioner.divide(&graph, arguments.parts)?;
    if let Some(path) = &arguments.output {
        write_values(path, &parts_of(&graph, &partition))?;
    }
    let renumbered = partition.renumber(&graph);
    let report = Report {
        graph: arguments.input.graph.display().to_string(),
        vertices: graph.vertices(),
        edges: graph.arcs(),
        parts: partition.parts(),
        edge_cut: partition.edge_cut(&graph),
        vertex_balance: partition.vertex_balance(),
        arc_balance: partition.arc_balance(&graph),
    };
    if arguments.json {
        println!("{}", serde_json::json!(report));
        return Ok(());
    }
    let share = report.edge_cut as f64 / report.edges.max(1) as f64 * 100.0;
    let table = facts(&[
        ("graph", format!("{}, {} vertices, {} arcs", report.graph, report.vertices, report.edges)),
        ("edge cut", format!("{} arcs ({share:.2} %)", report.edge_cut)),
        ("balance of vertices", format!("{:.3}", report.vertex_balance)),
        ("balance of arcs", format!("{:.3}", report.arc_balance)),
    ]);
    println!("{table}");
    for part in 0..partition.parts() {
        let range = partition.range(part);
        let arcs =
            renumbered.offsets()[range.end as usize] - renumbered.offsets()[range.start as usize];
        println!("part {part}: {} vertices, {arcs} arcs", range.len());
    }
    Ok(())
}

fn parts_of(graph: &CsrGraph, partition: &Partition) -> Vec<u32> {
    (0..graph.vertices()).map(|vertex| partition.owner(partition.to_new(vertex)) as u32).collect()
}
