//! Every algorithm with every partitioner, and on the worklist with every routing and
//! worker: all combinations on eight devices; on fewer, so many that every two choices
//! meet.

use millstream::bfs::BfsOptions;
use millstream::cc::CcOptions;
use millstream::flow::Context;
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, Partition, Weights, partition, source};
use millstream::pagerank::{Algorithm, PageRank, PageRankOptions};
use millstream::sssp::{Delta, SsspOptions};
use millstream::traversal::WorklistOptions;
use millstream::worklist::{Routing, Worker};

use super::{context, fused, levels as by_levels, scaled, steps as in_steps};
use crate::datasets::our_graph;
use crate::{awkward, bfs, cc, levels, pagerank, sssp, steps};

type Partitioner = (&'static str, fn(&CsrGraph, usize) -> Partition);

const PARTITIONERS: [Partitioner; 5] = [
    ("blocks", partition::contiguous_blocks),
    ("edges", partition::edge_balanced_blocks),
    ("random", |graph, parts| partition::random(graph, parts, 1)),
    ("regions", partition::region_blocks),
    ("metis", |graph, parts| partition::metis(graph, parts).unwrap()),
];

/// The awkward graphs, one of each that is generated, and two of `datasets/`. No shortest path
/// has as many arcs as `awkward::weights` allows.
fn graphs() -> Vec<(&'static str, CsrGraph)> {
    let options = GenerateOptions::default();
    let side = scaled(19, 12);
    let more = [
        ("road", generate::road(side, side, generate::KEEP_PERMILLE, &options).unwrap()),
        ("kron", generate::kron(scaled(11, 6), 16, &options).unwrap()),
        ("social", generate::social(scaled(10, 6), 9, &options).unwrap()),
        ("karate", our_graph("karate.mtx", false)),
        ("florentine", our_graph("florentine.mtx", false)),
    ];
    awkward::graphs().into_iter().chain(more).collect()
}

/// A graph with one of the awkward kinds of weights, by turns.
fn weighted(graph: &CsrGraph, turn: usize) -> (&'static str, CsrGraph) {
    let mut weights: Vec<(&str, Weights)> = awkward::weights(graph);
    let (kind, weights) = weights.swap_remove(turn % weights.len());
    (kind, sssp::with_weights(graph, weights))
}

/// How a worklist runs, and on what.
pub(super) struct Combination {
    /// Of the graph and the choices, so that other choices take turns too.
    number: usize,
    pub(super) graph: CsrGraph,
    pub(super) parts: Partition,
    pub(super) worklist: WorklistOptions,
    pub(super) what: String,
}

/// Of partitioners, routings and workers. Those whose numbers have an even sum are half of
/// all, and every two choices meet in one of them.
fn choices(context: &Context) -> Vec<(Partitioner, Routing, Worker)> {
    let mut workers = vec![Worker::HostDriven, fused(context)];
    workers.dedup();
    let wants_all = context.devices().len() == 8 || workers.len() == 1;
    let mut choices = Vec::new();
    for (first, partitioner) in PARTITIONERS.into_iter().enumerate() {
        for (second, routing) in [Routing::Ring, Routing::Direct].into_iter().enumerate() {
            for (third, &worker) in workers.iter().enumerate() {
                if wants_all || (first + second + third).is_multiple_of(2) {
                    choices.push((partitioner, routing, worker));
                }
            }
        }
    }
    choices
}

/// Runs the combinations: all with each graph, or, emulated, one with each, in turns that
/// begin with `first`.
fn on_the_worklist(first: usize, run: impl Fn(&Context, Combination)) {
    for (turn, (name, graph)) in graphs().iter().enumerate() {
        let every = scaled(1, usize::MAX);
        combine(name, graph, (turn, first), every, &run);
    }
}

/// Runs one of so many combinations, at least one, with a graph; which ones, the numbers of the
/// graph and the algorithm tell.
pub(super) fn combine(
    name: &str,
    graph: &CsrGraph,
    (turn, first): (usize, usize),
    every: usize,
    run: impl Fn(&Context, Combination),
) {
    let context = context();
    let choices = choices(&context);
    let some = choices.len().div_ceil(every);
    let numbered = choices.iter().enumerate().cycle().skip(first + turn * some).take(some);
    for (choice, &((partitioner, divide), routing, worker)) in numbered {
        let mut worklist = WorklistOptions::default();
        (worklist.routing, worklist.worker) = (routing, worker);
        run(
            &context,
            Combination {
                number: turn + choice,
                graph: graph.clone(),
                parts: divide(graph, context.devices().len()),
                worklist,
                what: format!("{name} by {partitioner}, {routing:?}, {worker:?}"),
            },
        );
    }
}

#[test]
fn bfs_on_the_worklist() {
    on_the_worklist(0, |context, it| {
        let mut options = bfs::asynchronous();
        options.worklist = it.worklist;
        options.predecessors = it.number.is_multiple_of(3);
        let source = source::max_degree(&it.graph).unwrap();
        let result = bfs::run(context, &it.graph, it.parts, options, &[0, source]);
        bfs::check(&it.what, &it.graph, &[0, source], &options, &result);
    });
}

#[test]
fn sssp_on_the_worklist() {
    on_the_worklist(3, |context, it| {
        let (kind, graph) = weighted(&it.graph, it.number);
        let mut options = SsspOptions::default();
        options.worklist = it.worklist;
        options.predecessors = it.number.is_multiple_of(3);
        options.delta = [Delta::Auto, Delta::Off][it.number / 2 % 2];
        let source = source::max_degree(&graph).unwrap();
        let result = sssp::run(context, &graph, it.parts, options, &[0, source]).unwrap();
        sssp::check(&format!("{}, {kind} weights", it.what), &graph, &[0, source], &result);
    });
}

/// Emulated, damped so far that few rounds are enough.
fn exact(algorithm: Algorithm) -> PageRankOptions {
    let mut options = pagerank::exact(algorithm);
    options.damping = scaled(options.damping, 0.1);
    options.tolerance = scaled(options.tolerance, 1e-6);
    options
}

fn rank(
    context: &Context,
    graph: &CsrGraph,
    parts: Partition,
    options: PageRankOptions,
    what: &str,
) {
    let ranks = PageRank::with_partition(context, graph, parts, options.clone());
    let result = context.block_on(async { ranks.await?.run().await }).unwrap().unwrap();
    pagerank::check(what, graph, &options, &result);
    println!("{what}: {} iterations in {:?}", result.iterations, result.run_time);
}

#[test]
fn pagerank_on_the_worklist() {
    on_the_worklist(6, |context, it| {
        let mut options = exact(Algorithm::Push);
        options.worklist = it.worklist;
        rank(context, &it.graph, it.parts, options, &it.what);
    });
}

/// What has no worklist, with each partitioner, or, emulated, with one for each graph;
/// numbered.
fn with_each_partitioner(run: impl Fn(&Context, usize, &str, &CsrGraph, Partition)) {
    let context = context();
    for (turn, (name, graph)) in graphs().iter().enumerate() {
        for (place, (partitioner, divide)) in PARTITIONERS.into_iter().enumerate() {
            if (turn + place).is_multiple_of(scaled(1, PARTITIONERS.len())) {
                let (number, what) = (4 * turn + place, format!("{name} by {partitioner}"));
                run(&context, number, &what, graph, divide(graph, context.devices().len()));
            }
        }
    }
}

#[test]
fn bfs_by_levels() {
    if !by_levels::can(&context()) {
        return;
    }
    let ways: Vec<BfsOptions> = levels::ways();
    with_each_partitioner(|context, number, what, graph, parts| {
        let mut options = ways[number % ways.len()];
        options.predecessors = number.is_multiple_of(3);
        let result = bfs::run(context, graph, parts, options, &[0]);
        bfs::check(what, graph, &[0], &options, &result);
    });
}

#[test]
fn sssp_in_steps() {
    if !in_steps::can(&context()) {
        return;
    }
    let ways: Vec<SsspOptions> = steps::ways();
    with_each_partitioner(|context, number, what, graph, parts| {
        let (kind, graph) = weighted(graph, number);
        let mut options = ways[number % ways.len()];
        options.predecessors = number.is_multiple_of(3);
        let result = steps::run(context, &graph, parts, options, &[0]).unwrap();
        sssp::check(&format!("{what}, {kind} weights"), &graph, &[0], &result);
    });
}

#[test]
fn pagerank_by_pulling() {
    with_each_partitioner(|context, _, what, graph, parts| {
        rank(context, graph, parts, exact(Algorithm::Pull), what);
    });
}

#[test]
fn components() {
    with_each_partitioner(|context, number, what, graph, parts| {
        let options = if number.is_multiple_of(3) { cc::tiny() } else { CcOptions::default() };
        cc::check(what, graph, &options, &cc::run(context, graph, parts, options));
    });
}
