//! The real graphs of `MILLSTREAM_DATASETS`, in every way that these devices can.

use millstream::bfs::{Algorithm, Bfs, BfsOptions};
use millstream::cc::CcOptions;
use millstream::graph::{CsrGraph, generate, partition, validate};
use millstream::pagerank::PageRankOptions;
use millstream::sssp::{self as paths, SsspOptions};

use super::{context, levels as by_levels, scaled};
use crate::datasets::{REAL_GRAPHS, RealGraph, real_graph};
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
        bfs = bfs.with_options(options);
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
