//! The real graphs of `MILLSTREAM_DATASETS` and of `datasets/`, in every way that these devices can.

use millstream::bfs::{Algorithm, Bfs, BfsOptions};
use millstream::cc::CcOptions;
use millstream::graph::{CsrGraph, generate, partition, source, validate};
use millstream::pagerank::{PageRank, PageRankOptions};
use millstream::sssp::{self as paths, SsspOptions};

use super::combinations::combine;
use super::{context, levels as by_levels, scaled};
use crate::datasets::{REAL_GRAPHS, RealGraph, our_graph, real_graph};
use crate::{bfs, cc, pagerank, sssp};

/// Arcs of the largest graph that emulated devices are given.
const MOST_EMULATED_ARCS: u64 = 30_000;

#[test]
fn real_graphs_have_their_answers() {
    let most_arcs = scaled(u64::MAX, MOST_EMULATED_ARCS);
    for facts in REAL_GRAPHS.iter().filter(|facts| facts.size.1 <= most_arcs) {
        let Some(graph) = real_graph(facts) else {
            return;
        };
        levels(&graph, facts);
        distances(&graph, facts);
        ranks(&graph, facts);
        components(&graph, facts);
    }
}

fn levels(graph: &CsrGraph, facts: &RealGraph) {
    let (context, source) = (context(), facts.source);
    let mut bfs = context.block_on(Bfs::new(&context, graph)).unwrap().unwrap();
    let mut ways = vec![bfs::asynchronous()];
    if by_levels::can(&context) {
        let mut options = BfsOptions::default();
        options.algorithm = Algorithm::LevelSynchronous;
        ways.push(options);
    }
    for options in ways {
        bfs.set_options(options).unwrap();
        let result = context.block_on(bfs.run(&[source])).unwrap().unwrap();
        let what = format!("{}, BFS {}", facts.file, bfs.algorithm());
        bfs::check(&what, graph, &[source], &options, &result);
        let found = (result.reached(), result.max_level().unwrap());
        assert_eq!(found, (facts.reached, facts.eccentricity), "{what}");
        println!("{what}: verified in {:?}", result.run_time);
    }
}

fn distances(graph: &CsrGraph, facts: &RealGraph) {
    let context = context();
    let graph = sssp::with_weights(graph, generate::random_weights(graph, 64, 1));
    let parts = partition::automatic(&graph, context.devices().len());
    for algorithm in [paths::Algorithm::Auto, paths::Algorithm::Asynchronous] {
        let (parts, options, sources) = (parts.clone(), SsspOptions::default(), [facts.source]);
        let result = sssp::run_as(algorithm, &context, &graph, parts, options, &sources).unwrap();
        let what = format!("{}, SSSP {algorithm:?}", facts.file);
        sssp::check(&what, &graph, &sources, &result);
        assert_eq!(result.reached(), facts.reached, "{what}");
        println!("{what}: verified in {:?}", result.run_time);
    }
}

fn ranks(graph: &CsrGraph, facts: &RealGraph) {
    // Pushed, ranks take too long on emulated devices.
    for &algorithm in scaled(&pagerank::ALGORITHMS[..], &[pagerank::ALGORITHMS[0]]) {
        let mut options = PageRankOptions::default();
        options.algorithm = algorithm;
        let result = pagerank::run(&context(), graph, options.clone()).unwrap();
        validate::pagerank(graph, &options.question(), &result.ranks, 1e-4).unwrap();
        assert!(result.converged, "{}, PageRank {algorithm:?}", facts.file);
        println!("{}, PageRank {algorithm:?}: verified in {:?}", facts.file, result.run_time);
    }
}

fn components(graph: &CsrGraph, facts: &RealGraph) {
    let (context, options) = (context(), CcOptions::default());
    let parts = partition::automatic(graph, context.devices().len());
    let result = cc::run(&context, graph, parts, options);
    cc::check(facts.file, graph, &options, &result);
    let sizes = result.sizes();
    let largest = sizes.iter().map(|&(_, size)| size as usize).max();
    assert_eq!((sizes.len(), largest), (facts.components.0, Some(facts.components.1)));
    println!("{}, CC: verified in {:?}", facts.file, result.run_time);
}

/// Graphs of at most so many arcs run with every choice of partitioner, routing and worker.
const FEW_ARCS: u64 = 30_000;

/// Each with choices of partitioner, routing and worker: large ones with so many that every choice
/// meets one of them.
#[test]
fn real_graphs_in_combinations() {
    let of_ours = [
        ("karate.mtx", false),
        ("sluice.el", false),
        ("debian-dependencies.el.gz", false),
        ("debian-dependencies.el.gz", true),
    ];
    let of_ours = of_ours.map(|(file, symmetrize)| (file, our_graph(file, symmetrize)));
    let others = REAL_GRAPHS.iter().map_while(|facts| Some((facts.file, real_graph(facts)?)));
    for (turn, (name, graph)) in of_ours.into_iter().chain(others).enumerate() {
        let is_small = graph.arcs() <= FEW_ARCS;
        if is_small || scaled(true, false) {
            in_combinations(name, &graph, turn, if is_small { scaled(1, 8) } else { 4 });
        }
    }
}

fn in_combinations(name: &str, graph: &CsrGraph, turn: usize, every: usize) {
    let source = source::max_degree(graph).unwrap();
    combine(name, graph, (turn, 0), every, |context, it| {
        let mut options = bfs::asynchronous();
        options.worklist = it.worklist;
        let result = bfs::run(context, &it.graph, it.parts, options, &[source]);
        bfs::check(&it.what, &it.graph, &[source], &options, &result);
    });
    combine(name, graph, (turn, 1), every, |context, it| {
        let graph = sssp::with_weights(&it.graph, generate::random_weights(&it.graph, 64, 1));
        let mut options = SsspOptions::default();
        options.worklist = it.worklist;
        let result = sssp::run(context, &graph, it.parts, options, &[source]).unwrap();
        sssp::check(&it.what, &graph, &[source], &result);
    });
    combine(name, graph, (turn, 2), every, |context, it| {
        let mut options = PageRankOptions::default();
        (options.algorithm, options.worklist) = (pagerank::ALGORITHMS[1], it.worklist);
        // Emulated, damped so far that few rounds are enough.
        options.damping = scaled(options.damping, 0.1);
        let ranks = PageRank::with_partition(context, &it.graph, it.parts, options.clone());
        let result = context.block_on(async { ranks.await?.run().await }).unwrap().unwrap();
        validate::pagerank(&it.graph, &options.question(), &result.ranks, 1e-4).unwrap();
        assert!(result.converged, "{}", it.what);
    });
}
