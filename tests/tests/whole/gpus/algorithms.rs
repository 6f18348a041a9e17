//! Every algorithm on the devices that `MILLSTREAM_TEST_DEVICES` names
//! (`cuda:0x4`, `cuda:0-3`, `cuda:0,host:1`); on four host devices without it.

use millstream::cc::{CcOptions, sends_packets};
use millstream::flow::{Context, Devices};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, Weights, partition, reference, source};
use millstream::pagerank::{Algorithm, PageRank, PageRankOptions, Precision};
use millstream::sssp::{Delta, SsspOptions};
use millstream::worklist::Routing;

use super::{Needs, scaled, skip};
use crate::{awkward, cc, pagerank, sssp};

fn context() -> Context {
    let list = std::env::var("MILLSTREAM_TEST_DEVICES").unwrap_or("host:4".into());
    let list = list.parse().unwrap();
    Context::builder().devices(Devices::List(list)).build().unwrap()
}

/// A road map and a Kronecker graph of 2^scale vertices, with integer weights.
fn generated(scale: u32) -> Vec<(&'static str, CsrGraph)> {
    let options = GenerateOptions { seed: 1, max_weight: Some(100) };
    let side = scaled(100, 12);
    vec![
        ("road", generate::road(side, side, generate::KEEP_PERMILLE, &options).unwrap()),
        ("kron", generate::kron(scale, 16, &options).unwrap()),
    ]
}

#[test]
fn sssp_on_awkward_graphs() {
    let context = context();
    // Emulated, every third case: all weights with some graph.
    let every = scaled(1, 3);
    for (number, (name, graph)) in awkward::graphs().into_iter().enumerate() {
        let parts = partition::contiguous_blocks(&graph, context.devices().len());
        for (round, (kind, weights)) in awkward::weights(&graph).into_iter().enumerate() {
            if !(number + round).is_multiple_of(every) {
                continue;
            }
            let graph = graph.clone().with_weights(Some(weights)).unwrap();
            let mut options = if round % 3 == 0 { sssp::tiny() } else { SsspOptions::default() };
            options.worklist.routing = [Routing::Ring, Routing::Direct][round % 2];
            options.predecessors = round % 4 > 1;
            let result = sssp::run(&context, &graph, parts.clone(), options, &[0]).unwrap();
            sssp::check(&format!("{name}, {kind} weights"), &graph, &[0], &result);
        }
    }
}

#[test]
fn sssp_on_generated_graphs() {
    let context = context();
    for (name, graph) in generated(scaled(12, 5)) {
        let real = Weights::Real(match graph.weights().unwrap() {
            Weights::Integer(weights) => weights.iter().map(|&w| w as f32 / 7.0).collect(),
            Weights::Real(weights) => weights.clone(),
        });
        for graph in [graph.clone(), graph.clone().with_weights(Some(real)).unwrap()] {
            let source = source::max_degree(&graph).unwrap();
            for (round, routing) in [Routing::Ring, Routing::Direct].into_iter().enumerate() {
                for delta in [Delta::Auto, Delta::Off] {
                    let mut options = SsspOptions::default();
                    options.worklist.routing = routing;
                    options.delta = delta;
                    options.predecessors = round == 0;
                    let parts = partition::region_blocks(&graph, context.devices().len());
                    let result = sssp::run(&context, &graph, parts, options, &[source]).unwrap();
                    let what = format!("{name}, {routing:?}, {delta:?}");
                    sssp::check(&what, &graph, &[source], &result);
                    let items = result.statistics.work_items();
                    println!("{what}: {:?}, {items} work items", result.run_time);
                }
            }
        }
    }
}

#[test]
fn pagerank_on_awkward_graphs() {
    let context = context();
    for (round, (name, graph)) in awkward::graphs().into_iter().enumerate() {
        for algorithm in pagerank::ALGORITHMS {
            let mut options = pagerank::exact(algorithm);
            options.worklist.routing = [Routing::Ring, Routing::Direct][round % 2];
            options.worklist.packet_bytes = [64, 1 << 18][round / 2 % 2];
            let result = pagerank::run(&context, &graph, options.clone()).unwrap();
            pagerank::check(&format!("{name}, {algorithm:?}"), &graph, &options, &result);
        }
    }
}

#[test]
fn pagerank_on_generated_graphs() {
    let context = context();
    for (name, graph) in generated(scaled(12, 5)) {
        for algorithm in pagerank::ALGORITHMS {
            for (weighted, tolerance) in [(false, 1e-6), (true, 1e-6), (false, 1e-9)] {
                let mut options = pagerank::exact(algorithm);
                (options.weighted, options.tolerance) = (weighted, tolerance);
                let result = pagerank::run(&context, &graph, options.clone()).unwrap();
                let what = format!("{name}, {algorithm:?}, weighted {weighted}, to {tolerance:e}");
                pagerank::check(&what, &graph, &options, &result);
                let items: u64 =
                    result.statistics.devices.iter().map(|device| device.work_items).sum();
                let (iterations, time) = (result.iterations, result.run_time);
                println!("{what}: {iterations} iterations, {items} work items in {time:?}");
            }
        }
    }
}

/// A Kronecker graph whose arcs lead to the smaller end, so that many rows are long
/// and many vertices dangle.
fn downhill() -> CsrGraph {
    let kron = generate::kron(scaled(11, 8), 40, &GenerateOptions::default()).unwrap();
    let edges = (0..kron.vertices()).flat_map(|from| {
        let targets = kron.neighbors(from).iter();
        targets.filter(move |&&to| to < from).map(move |&to| (from, to))
    });
    CsrGraph::from_edges(kron.vertices(), &edges.collect::<Vec<_>>()).unwrap()
}

#[test]
fn pagerank_of_stars_in_single_precision() {
    pagerank::stars(&context(), scaled(100_000, 400));
}

/// Rows so long that all blocks of a GPU share them, a few beside others: after each sweep ranks are
/// what the reference has.
#[test]
fn pagerank_of_rows_that_blocks_share() {
    let context = context();
    let leaves = scaled(600_000, 300_000);
    // How many of the leaves lead to each: all, half of them, and so on.
    let hubs = [(0, 1), (1, 2), (2, 2), (3, 20), (4, 3_000)];
    let arcs = (5..leaves).flat_map(|leaf| {
        let up = hubs.into_iter().filter(move |(hub, every)| (leaf + hub) % every == 0);
        up.map(move |(hub, _)| (leaf, hub)).chain((leaf % 3 == 0).then_some((leaf % 5, leaf)))
    });
    let graph = CsrGraph::from_edges(leaves, &arcs.collect::<Vec<_>>()).unwrap();
    let weights = Weights::Integer((0..graph.arcs() as u32).map(|arc| 1 + arc * 7 % 5).collect());
    let weighted = graph.clone().with_weights(Some(weights)).unwrap();
    let lattice = lattice_with_sink(scaled(512, 160));
    for graph in [&graph, &weighted, &lattice] {
        for precision in [Precision::F32, Precision::F64] {
            let mut options = pagerank::exact(Algorithm::Pull);
            (options.precision, options.weighted) = (precision, graph.weights().is_some());
            options.max_iterations = scaled(9, 2);
            let result = pagerank::run(&context, graph, options.clone()).unwrap();
            let expected = reference::pagerank(graph, &options.question()).unwrap();
            let pairs = expected.ranks.iter().zip(&result.ranks);
            let distance: f64 = pairs.map(|(expected, rank)| (expected - rank).abs()).sum();
            let bound = if precision == Precision::F32 { 1e-5 } else { 1e-10 };
            assert!(distance < bound, "{precision:?}: {distance}");
        }
    }
}

/// A deep graph, whose vertices keep their places but for one in the middle that all others lead to.
fn lattice_with_sink(side: u32) -> CsrGraph {
    let lattice = generate::grid(side, side, &GenerateOptions::default()).unwrap();
    let sink = lattice.vertices() / 2 + 3;
    let others = (0..lattice.vertices()).filter(|&vertex| vertex != sink);
    let arcs = others.flat_map(|from| {
        let near = lattice.neighbors(from).iter().filter(|&&to| to != sink);
        near.chain([&sink]).map(move |&to| (from, to))
    });
    CsrGraph::from_edges(lattice.vertices(), &arcs.collect::<Vec<_>>()).unwrap()
}

#[test]
fn pagerank_by_pulling_as_asked() {
    let context = context();
    let graph = downhill();
    let arcs = 0..graph.arcs() as u32;
    let weights = Weights::Integer(arcs.map(|arc| arc * 7 % 5).collect());
    let weighted = graph.clone().with_weights(Some(weights)).unwrap();
    for damping in [0.0, 0.85] {
        for personalization in [vec![], vec![3, 250, 3]] {
            for graph in [&graph, &weighted] {
                let mut options = pagerank::exact(Algorithm::Pull);
                (options.damping, options.personalization) = (damping, personalization.clone());
                options.weighted = graph.weights().is_some();
                let expected = reference::pagerank(graph, &options.question()).unwrap();
                let parts = partition::random(graph, context.devices().len(), 1);
                for options in [options.clone(), single(&options)] {
                    let ranks =
                        PageRank::with_partition(&context, graph, parts.clone(), options.clone());
                    let ranks = async { ranks.await?.run().await };
                    let result = context.block_on(ranks).unwrap().unwrap();
                    let what = format!("{options:?}");
                    pagerank::check(&what, graph, &options, &result);
                    if options.tolerance < 1e-6 {
                        assert_eq!(result.iterations, expected.iterations, "{what}");
                    }
                }
            }
        }
    }
    for most in [0, 1, 2, 7] {
        let mut options = pagerank::exact(Algorithm::Pull);
        options.max_iterations = most;
        let result = pagerank::run(&context, &graph, options.clone()).unwrap();
        assert!(!result.converged && result.iterations == most && result.change > 1e-9);
        let expected = reference::pagerank(&graph, &options.question()).unwrap();
        let pairs = expected.ranks.iter().zip(&result.ranks);
        let distance: f64 = pairs.map(|(expected, rank)| (expected - rank).abs()).sum();
        assert!(distance < 1e-12, "{most} sweeps: {distance}");
    }
}

/// The same in f32.
fn single(options: &PageRankOptions) -> PageRankOptions {
    let mut options = options.clone();
    (options.tolerance, options.precision) = (1e-6, Precision::F32);
    options
}

#[test]
fn components_of_awkward_graphs() {
    let context = context();
    for (name, graph) in awkward::graphs() {
        for options in [CcOptions::default(), cc::tiny()] {
            let parts = partition::random(&graph, context.devices().len(), 1);
            cc::check(name, &graph, &options, &cc::run(&context, &graph, parts, options));
            let streamed = cc::run_streamed(&context, &graph, options).unwrap();
            cc::check(&format!("{name}, streamed"), &graph, &options, &streamed);
        }
    }
}

#[test]
fn components_of_awkward_graphs_merge_few_pairs() {
    let context = context();
    let devices = context.devices().len() as u64;
    match (sends_packets(&context), context.all_gpus()) {
        _ if devices == 1 => skip(Needs::Several, "a device alone merges nothing"),
        // The last device tells all others of a vertex that one of them has, too.
        (false, true) => cc::check_merged_pairs(&context, devices - 1),
        // One forest.
        (false, false) => cc::check_merged_pairs(&context, 0),
        // The last one sends two vertices that are no roots to the device above it.
        (true, _) if devices == 2 => cc::check_merged_pairs(&context, 2),
        (true, _) => skip(Needs::Peers, "how many pairs go up a tree depends on its shape"),
    }
}

#[test]
fn components_of_generated_graphs() {
    let context = context();
    let devices = context.devices().len();
    // Of several tiles.
    let options = GenerateOptions::default();
    let side = scaled(300, 120);
    let roads = generate::road(side, side, generate::KEEP_PERMILLE, &options).unwrap();
    let far = [("far members", cc::far_members()), ("stars apart", cc::stars_apart())];
    let more = far.into_iter().chain([("roads", roads)]).chain(cc::directed());
    let more = more.chain(cc::few_arcs()).chain(cc::meshes());
    for (name, graph) in generated(12).into_iter().chain(more) {
        let options = CcOptions::default();
        for parts in [
            partition::contiguous_blocks(&graph, devices),
            partition::edge_balanced_blocks(&graph, devices),
            partition::random(&graph, devices, 1),
            partition::region_blocks(&graph, devices),
        ] {
            let resident = cc::run(&context, &graph, parts, options);
            cc::check(name, &graph, &options, &resident);
            println!("{name}: {:?} hooked in {:?}", resident.method, resident.run_time);
        }
        let streamed = cc::run_streamed(&context, &graph, options).unwrap();
        cc::check(&format!("{name}, streamed"), &graph, &options, &streamed);
    }
}
