//! `millstream info GRAPH`.

use clap::Args;
use millstream::graph::summary::{Summary, WeightRange};
use millstream::graph::{CsrGraph, Format};
use serde::Serialize;

use crate::destination::weight_kind;
use crate::error::Error;
use crate::input::Input;
use crate::output::{answer, facts, plain_table, shortest};
use crate::progress::phase;

/// Describes a graph.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Prints one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: Input,
}

#[derive(Debug, Serialize)]
struct Report {
    graph: String,
    format: String,
    vertices: u32,
    edges: u64,
    weights: Option<WeightFacts>,
    self_loops: u64,
    duplicate_arcs: u64,
    symmetric: bool,
    degrees: Degrees,
    components: u64,
    largest: u64,
    lattice_width: Option<u32>,
    /// Whether vertices keep the ids of an edge list.
    original_ids: bool,
}

/// `min` and `max` are null in a graph without arcs.
#[derive(Debug, Serialize)]
struct WeightFacts {
    kind: &'static str,
    min: Option<Number>,
    max: Option<Number>,
}

/// A weight, as the file writes it.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
enum Number {
    Integer(u32),
    Real(f64),
}

/// Arcs that leave a vertex.
#[derive(Debug, Serialize)]
struct Degrees {
    min: u64,
    mean: f64,
    max: u64,
    histogram: Vec<Bucket>,
}

/// Vertices with a degree of `from` to `to`.
#[derive(Debug, Serialize)]
struct Bucket {
    from: u64,
    to: u64,
    vertices: u64,
}

/// Reads, counts and answers.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let (graph, format) = arguments.input.read_with_format()?;
    let summary = phase("counting", || Summary::of(&graph));
    let name = arguments.input.graph.display().to_string();
    answer(&report(name, &graph, format, &summary), arguments.json, table)
}

fn report(name: String, graph: &CsrGraph, format: Format, summary: &Summary) -> Report {
    Report {
        graph: name,
        format: format.to_string(),
        vertices: graph.vertices(),
        edges: graph.arcs(),
        weights: weights(graph, summary),
        self_loops: summary.self_loops,
        duplicate_arcs: summary.duplicate_arcs,
        symmetric: summary.symmetric,
        degrees: Degrees {
            min: summary.min_degree,
            mean: graph.arcs() as f64 / f64::from(graph.vertices().max(1)),
            max: summary.max_degree,
            histogram: histogram(&summary.degree_histogram),
        },
        components: summary.components,
        largest: summary.largest_component,
        lattice_width: graph.lattice_width(),
        original_ids: graph.original_ids().is_some(),
    }
}

fn weights(graph: &CsrGraph, summary: &Summary) -> Option<WeightFacts> {
    let (min, max) = match summary.weight_range {
        Some(WeightRange::Integer(min, max)) => {
            (Some(Number::Integer(min)), Some(Number::Integer(max)))
        }
        Some(WeightRange::Real(min, max)) => {
            let told = [min, max].map(|weight| shortest(weight.into()).map(Number::Real));
            (told[0], told[1])
        }
        None => (None, None),
    };
    graph.weights().map(|weights| WeightFacts { kind: weight_kind(weights), min, max })
}

/// Names the powers of two.
fn histogram(vertices: &[u64]) -> Vec<Bucket> {
    let bucket = |(place, &vertices): (usize, &u64)| Bucket {
        from: (1 << place) >> 1,
        to: (1 << place) - 1,
        vertices,
    };
    vertices.iter().enumerate().map(bucket).collect()
}

fn table(report: &Report) -> String {
    let number = |number: Option<Number>| match number {
        Some(Number::Integer(number)) => number.to_string(),
        Some(Number::Real(number)) => number.to_string(),
        None => "-".to_string(),
    };
    let weights = report.weights.as_ref().map_or("none".to_string(), |weights| {
        format!("{}, {} to {}", weights.kind, number(weights.min), number(weights.max))
    });
    let degrees = &report.degrees;
    let width = report.lattice_width.map_or("-".to_string(), |width| width.to_string());
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_string();
    let facts = facts(&[
        ("graph", report.graph.clone()),
        ("format", report.format.clone()),
        ("vertices", report.vertices.to_string()),
        ("arcs", report.edges.to_string()),
        ("weights", weights),
        ("self-loops", report.self_loops.to_string()),
        ("duplicate arcs", report.duplicate_arcs.to_string()),
        ("symmetric", yes_or_no(report.symmetric)),
        ("components", format!("{}, the largest of {}", report.components, report.largest)),
        ("lattice width", width),
        ("original ids", yes_or_no(report.original_ids)),
        ("degrees", format!("{} to {}, mean {:.3}", degrees.min, degrees.max, degrees.mean)),
    ]);
    format!("{facts}\n{}", degree_table(&degrees.histogram))
}

fn degree_table(histogram: &[Bucket]) -> String {
    let mut table = plain_table();
    table.set_header(["degree", "vertices"]);
    for bucket in histogram {
        let range = match bucket.to <= 1 {
            true => bucket.to.to_string(),
            false => format!("{} to {}", bucket.from, bucket.to),
        };
        table.add_row([range, bucket.vertices.to_string()]);
    }
    table.trim_fmt()
}
