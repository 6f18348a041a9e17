//! PageRank against the sequential reference in f64.

use std::time::Duration;

use millstream::device::Injection;
use millstream::flow::{Context, Devices};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, Weights, partition, reference, validate};
use millstream::pagerank::{
    Algorithm, Error, PageRank, PageRankOptions, PageRankResult, Precision,
};
use millstream::worklist::{DeviceStatistics, Routing};

use crate::awkward;

pub(crate) const ALGORITHMS: [Algorithm; 2] = [Algorithm::Pull, Algorithm::Push];

pub(crate) fn run(
    context: &Context,
    graph: &CsrGraph,
    options: PageRankOptions,
) -> Result<PageRankResult, Error> {
    let ranks = async { PageRank::with_options(context, graph, options).await?.run().await };
    context.block_on(ranks).unwrap()
}

/// Options with a tolerance of 1e-9, so in f64.
pub(crate) fn exact(algorithm: Algorithm) -> PageRankOptions {
    let mut options = PageRankOptions::default();
    options.algorithm = algorithm;
    options.tolerance = 1e-9;
    options
}

/// L1 distance to ranks that are converged as far as f64 goes.
pub(crate) fn distance(graph: &CsrGraph, options: &PageRankOptions, ranks: &[f64]) -> f64 {
    let mut question = options.question();
    question.tolerance = 1e-14;
    let expected = reference::pagerank(graph, &question).unwrap().ranks;
    assert_eq!(expected.len(), ranks.len());
    expected.iter().zip(ranks).map(|(expected, rank)| (expected - rank).abs()).sum()
}

/// The bound of the contract: 1e-6 for a tolerance of 1e-9.
pub(crate) fn check(
    what: &str,
    graph: &CsrGraph,
    options: &PageRankOptions,
    result: &PageRankResult,
) {
    assert!(result.converged && result.change <= options.tolerance, "{what}: {}", result.change);
    let error = distance(graph, options, &result.ranks);
    let bound = if options.tolerance < 1e-6 { 1e-6 } else { 1e-4 };
    assert!(error <= bound, "{what}: {error}");
    validate::pagerank(graph, &options.question(), &result.ranks, bound).unwrap();
    let sum: f64 = result.ranks.iter().sum();
    let drift = if options.tolerance < 1e-6 { 1e-9 } else { 1e-4 };
    assert!((sum - 1.0).abs() < drift, "{what}: sum {sum}");
    let sent: u64 = result.statistics.devices.iter().map(|device| device.sent).sum();
    let received: u64 = result.statistics.devices.iter().map(|device| device.received).sum();
    assert_eq!(sent, received, "{what}");
}

fn host(devices: usize) -> Context {
    Context::builder().devices(Devices::host(devices)).build().unwrap()
}

#[test]
fn every_graph_algorithm_and_device_count_agrees_with_the_reference() {
    for devices in [1, 2, 3, 4, 8] {
        let delay = Some(Duration::ZERO..=Duration::from_micros(20));
        let injection = Injection { reorder: true, delay, ..Injection::default() };
        let builder = Context::builder().devices(Devices::host(devices));
        let simulated = builder.simulated(devices as u64).injection(injection);
        let contexts = [host(devices), simulated.build().unwrap()];
        for (round, (name, graph)) in awkward::graphs().into_iter().enumerate() {
            for algorithm in ALGORITHMS {
                let mut options = exact(algorithm);
                options.worklist.routing = [Routing::Ring, Routing::Direct][round % 2];
                if (round + devices) % 2 == 0 {
                    options.worklist.packet_bytes = 64;
                    options.worklist.queue_entries = Some(4);
                    options.worklist.batch = 5;
                }
                let context = &contexts[(round + devices / 2) % 2];
                let result = run(context, &graph, options.clone()).unwrap();
                let what = format!("{name}, {algorithm:?}, {devices} devices");
                check(&what, &graph, &options, &result);
            }
        }
    }
}

#[test]
fn weights_personalization_damping_and_single_precision() {
    let graph = awkward::graphs().swap_remove(7).1;
    let integers = Weights::Integer((0..900).map(|arc| arc * 7 % 5).collect());
    let reals = Weights::Real((0..900).map(|arc| (arc * 7 % 5) as f32 / 4.0).collect());
    for algorithm in ALGORITHMS {
        for weights in [integers.clone(), reals.clone()] {
            let graph = graph.clone().with_weights(Some(weights)).unwrap();
            for damping in [0.0, 0.5, 0.95] {
                let mut options = exact(algorithm);
                options.weighted = true;
                options.damping = damping;
                options.personalization = vec![3, 250, 3];
                let result = run(&host(3), &graph, options.clone()).unwrap();
                check(&format!("{algorithm:?}, damping {damping}"), &graph, &options, &result);
            }
        }
        let mut options = PageRankOptions::default();
        options.algorithm = algorithm;
        check("f32", &graph, &options, &run(&host(3), &graph, options.clone()).unwrap());
        options.unnormalized = true;
        let unnormalized = run(&host(3), &graph, options.clone()).unwrap();
        assert!((unnormalized.ranks.iter().sum::<f64>() - 300.0).abs() < 1e-2);
    }
}

#[test]
fn an_uploaded_graph_answers_other_questions() {
    let graph = awkward::graphs().swap_remove(7).1;
    for algorithm in ALGORITHMS {
        let context = host(3);
        let run = async {
            let mut ranks = PageRank::with_options(&context, &graph, exact(algorithm)).await?;
            for (damping, personalization) in
                [(0.85, vec![]), (0.5, vec![3, 250]), (0.95, vec![0]), (0.85, vec![])]
            {
                let mut options = exact(algorithm);
                (options.damping, options.personalization) = (damping, personalization);
                ranks.set_options(options.clone())?;
                check(&format!("{algorithm:?} {options:?}"), &graph, &options, &ranks.run().await?);
            }
            for change in [
                |options: &mut PageRankOptions| options.damping = 1.0,
                |options: &mut PageRankOptions| options.tolerance = -1.0,
                |options: &mut PageRankOptions| options.personalization = vec![300],
                |options: &mut PageRankOptions| options.weighted = true,
                |options: &mut PageRankOptions| {
                    options.algorithm = match options.algorithm {
                        Algorithm::Pull => Algorithm::Push,
                        _ => Algorithm::Pull,
                    };
                },
                |options: &mut PageRankOptions| options.precision = Precision::F32,
            ] {
                let mut options = exact(algorithm);
                change(&mut options);
                // A push of arcs that count once each has nothing of any precision.
                let is_refused =
                    algorithm == Algorithm::Pull || options.precision != Precision::F32;
                assert_eq!(ranks.set_options(options).is_err(), is_refused);
            }
            ranks.set_options(exact(algorithm))?;
            check("after refusals", &graph, &exact(algorithm), &ranks.run().await?);
            Ok::<_, Error>(())
        };
        context.block_on(run).unwrap().unwrap();
    }
}

/// One vertex whose rank is a sum over all others, which lead there and back, or only there.
pub(crate) fn stars(context: &Context, leaves: u32) {
    let all = [(leaves / 80, true), (leaves, true), (leaves, false)];
    // Of lengths that a GPU gives a thread, too.
    for (leaves, is_symmetric) in [(129, true), (199, true)].into_iter().chain(all) {
        let arcs = (1..=leaves).map(|leaf| (leaf, 0));
        let back = (1..=leaves).filter(|_| is_symmetric).map(|leaf| (0, leaf));
        let arcs: Vec<_> = arcs.chain(back).collect();
        let graph = CsrGraph::from_edges(leaves + 1, &arcs).unwrap();
        for algorithm in ALGORITHMS {
            let mut options = PageRankOptions::default();
            options.algorithm = algorithm;
            let result = run(context, &graph, options.clone()).unwrap();
            let what = format!("{leaves} leaves, {is_symmetric}, {algorithm:?}: {}", result.change);
            assert!(result.converged, "{what}");
            // Sweeps; the hub may be pushed after each leaf.
            assert!(algorithm == Algorithm::Push || result.iterations < 200, "{what}");
            // What the tolerance leaves, and what f32 does.
            let error = distance(&graph, &options, &result.ranks);
            assert!(error <= 1e-5, "{what}, {error}");
        }
    }
}

#[test]
fn stars_converge_in_single_precision() {
    for devices in [1, 3] {
        stars(&host(devices), 20_000);
    }
}

/// Weights near the ends of f32: ranks are those of moderate ones.
#[test]
fn weights_that_are_tiny_or_huge() {
    let graph = awkward::graphs().swap_remove(7).1;
    let moderate: Vec<f32> = (0..900).map(|arc| (arc * 7 % 5) as f32 / 4.0).collect();
    for algorithm in ALGORITHMS {
        for scale in [1e-38, 1e-30, 1e30, 2e38] {
            let weights = moderate.iter().map(|weight| weight * scale).collect();
            let graph = graph.clone().with_weights(Some(Weights::Real(weights))).unwrap();
            for mut options in [PageRankOptions::default(), exact(algorithm)] {
                (options.algorithm, options.weighted) = (algorithm, true);
                let result = run(&host(2), &graph, options.clone()).unwrap();
                check(&format!("{algorithm:?}, weights by {scale}"), &graph, &options, &result);
            }
        }
    }
    let arcs = [(0, 1, 1e-40f32), (1, 0, 1.0), (2, 0, 1.0)];
    let graph = CsrGraph::from_weighted_edges(3, &arcs).unwrap();
    for algorithm in ALGORITHMS {
        let mut options = PageRankOptions::default();
        (options.algorithm, options.weighted) = (algorithm, true);
        check("tiny", &graph, &options, &run(&host(1), &graph, options.clone()).unwrap());
    }
}

/// Of all rounds and sweeps together, however many devices there are.
#[test]
fn work_adds_up() {
    let graph = awkward::graphs().swap_remove(7).1;
    for devices in [1, 3] {
        let mut options = exact(Algorithm::Push);
        options.personalization = vec![3];
        let mut before = 0;
        for rounds in [0, 1, 3, 9] {
            options.max_iterations = rounds;
            let result = run(&host(devices), &graph, options.clone()).unwrap();
            let work =
                result.statistics.devices.iter().map(|device| device.work_items).sum::<u64>();
            assert!(work >= before, "{work} items in {rounds} rounds, {before} in fewer");
            assert_eq!(result.statistics.devices.len(), devices);
            before = work;
        }
        for rounds in [0, 2, 1000] {
            let mut options = exact(Algorithm::Pull);
            options.max_iterations = rounds;
            let result = run(&host(devices), &graph, options).unwrap();
            let sum = |count: fn(&DeviceStatistics) -> u64| {
                result.statistics.devices.iter().map(count).sum()
            };
            let work: u64 = sum(|device| device.work_items);
            assert_eq!(result.statistics.devices.len(), devices);
            assert_eq!(work, u64::from(graph.vertices()) * u64::from(result.iterations));
            // All that is told is ranks in f64.
            let bytes: u64 = result.statistics.links.iter().map(|link| link.bytes).sum();
            let counted: [u64; 2] = [sum(|device| device.sent), sum(|device| device.received)];
            assert_eq!(counted, [bytes / 8; 2]);
            assert_eq!(bytes > 0, devices > 1 && rounds > 0);
        }
    }
}

#[test]
fn what_does_not_converge_says_so() {
    let graph = awkward::graphs().swap_remove(4).1;
    let mut options = exact(Algorithm::Pull);
    options.max_iterations = 3;
    let result = run(&host(2), &graph, options.clone()).unwrap();
    assert!(!result.converged && result.iterations == 3 && result.change > options.tolerance);
    // With a personalization, what vertices without arcs give must be spread, too.
    options.algorithm = Algorithm::Push;
    options.max_iterations = 1;
    options.personalization = vec![0];
    let dangling = CsrGraph::from_edges(100, &[(0, 1)]).unwrap();
    let result = run(&host(2), &dangling, options).unwrap();
    assert!(!result.converged && result.iterations == 1);
}

/// Pushing goes on for long where nearly nothing is lost on the way.
#[test]
fn the_work_of_pushing_is_limited() {
    let graph = generate::kron(8, 8, &GenerateOptions::default()).unwrap();
    let sweep = graph.arcs() + u64::from(graph.vertices());
    let mut options = exact(Algorithm::Push);
    options.damping = 0.9999;
    for (devices, personalization) in [(1, vec![]), (2, vec![]), (8, vec![3])] {
        options.personalization = personalization;
        for most in [0, 1, 20] {
            options.max_iterations = most;
            let result = run(&host(devices), &graph, options.clone()).unwrap();
            assert!(!result.converged && result.iterations == most, "{most}: {result:?}");
            let items = result.statistics.work_items();
            assert!(items > 0 || most == 0);
            assert!((result.ranks.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            // More only by what is refused, each item at most once in each of few passes.
            assert!(items <= sweep * u64::from(most + 1), "{most}: {items}");
        }
    }
    let options = exact(Algorithm::Push);
    let result = run(&host(2), &graph, options.clone()).unwrap();
    assert!(result.converged && (1..1000).contains(&result.iterations), "{}", result.iterations);
}

/// A vertex is pushed as often as it takes: one with a loop, one that all others lead to.
#[test]
fn pushing_converges_however_often_it_pushes_a_vertex() {
    let arcs = (0..2000).flat_map(|vertex| [(vertex, (7 * vertex + 1) % 2000), (vertex, 0)]);
    let hub = CsrGraph::from_edges(2000, &arcs.collect::<Vec<_>>()).unwrap();
    let mut options = exact(Algorithm::Push);
    for devices in [1, 4, 8] {
        let result = run(&host(devices), &hub, options.clone()).unwrap();
        check(&format!("hub, {devices} devices"), &hub, &options, &result);
    }
    options.personalization = vec![1];
    let loops = CsrGraph::from_edges(100, &[(0, 0), (1, 99)]).unwrap();
    for devices in [1, 4] {
        let result = run(&host(devices), &loops, options.clone()).unwrap();
        check(&format!("loop, {devices} devices"), &loops, &options, &result);
    }
    options.personalization = Vec::new();
    options.damping = 0.95;
    let kron = generate::kron(12, 16, &GenerateOptions::default()).unwrap();
    for devices in [1, 4] {
        let result = run(&host(devices), &kron, options.clone()).unwrap();
        check(&format!("kron, {devices} devices"), &kron, &options, &result);
    }
}

/// What pushing says of its ranks is what a sweep would change, whatever they were scaled by.
#[test]
fn a_push_knows_what_a_sweep_would_change() {
    let star = CsrGraph::from_edges(4, &[(0, 1), (1, 0), (0, 2), (2, 0), (0, 3), (3, 0)]).unwrap();
    let pairs = CsrGraph::from_edges(100, &[(0, 1), (1, 0), (0, 2), (99, 0)]).unwrap();
    let random = awkward::graphs().swap_remove(7).1;
    for (name, graph) in [("star", star), ("pairs", pairs), ("random", random)] {
        for (damping, tolerance) in [(0.99, 0.1), (0.85, 1e-2), (0.85, 1e300), (0.5, 1e-5)] {
            for personalization in [vec![], vec![0], vec![0, 2, 2]] {
                let what = format!("{name}, {damping}, {tolerance:e}, {personalization:?}");
                let mut options = PageRankOptions::default();
                options.algorithm = Algorithm::Push;
                (options.damping, options.tolerance) = (damping, tolerance);
                options.personalization = personalization;
                let result = run(&host(2), &graph, options.clone()).unwrap();
                assert!(result.converged && result.change <= tolerance, "{what}: {result:?}");
                assert!((result.ranks.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{what}");
                let question = options.question();
                let bound = validate::pagerank(&graph, &question, &result.ranks, 1e9).unwrap();
                let change = bound * (1.0 - damping);
                assert!((change - result.change).abs() < 1e-12, "{what}: {change:e} {result:?}");
            }
        }
    }
}

#[test]
fn what_has_no_answer_is_refused() {
    let graph = CsrGraph::from_edges(3, &[(0, 1)]).unwrap();
    let refused = |change: fn(&mut PageRankOptions)| {
        let mut options = PageRankOptions::default();
        change(&mut options);
        run(&host(1), &graph, options).unwrap_err().to_string()
    };
    assert!(refused(|options| options.damping = 1.0).contains("damping 1"));
    assert!(refused(|options| options.tolerance = f64::NAN).contains("tolerance NaN"));
    assert!(refused(|options| options.personalization = vec![3]).contains("names 3"));
    assert!(refused(|options| options.weighted = true).contains("no weights"));
    let nothing = CsrGraph::from_edges(0, &[]).unwrap();
    let result = run(&host(2), &nothing, PageRankOptions::default()).unwrap();
    assert!(result.converged && result.ranks.is_empty() && result.statistics.devices.len() == 2);
}

#[test]
fn roads_and_kronecker_graphs() {
    let options = GenerateOptions::default();
    for (name, graph) in [
        ("road", generate::road(150, 150, generate::KEEP_PERMILLE, &options).unwrap()),
        ("kron", generate::kron(12, 16, &options).unwrap()),
    ] {
        for algorithm in ALGORITHMS {
            for precision in [Precision::F32, Precision::F64] {
                let mut options = PageRankOptions::default();
                options.algorithm = algorithm;
                options.precision = precision;
                let parts = partition::region_blocks(&graph, 4);
                let context = host(4);
                let result = context.block_on(async {
                    let graph =
                        PageRank::with_partition(&context, &graph, parts, options.clone()).await?;
                    graph.run().await
                });
                let result = result.unwrap().unwrap();
                let what = format!("{name}, {algorithm:?}, {precision:?}");
                check(&what, &graph, &options, &result);
                println!("{what}: {} iterations, {:?}", result.iterations, result.run_time);
            }
        }
    }
}
