//! Shortest paths against Dijkstra's algorithm.

use std::ops::Range;
use std::time::Duration;

use millstream::device::Injection;
use millstream::flow::{Context, Devices};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{BadWeight, CsrGraph, Partition, Weights, partition, reference, validate};
use millstream::sssp::{Algorithm, Delta, Distances, Error, Sssp, SsspOptions, SsspResult};
use millstream::traversal::Error as TraversalError;
use millstream::worklist::{DeviceStatistics, Routing};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::awkward;

/// On the worklist.
pub(crate) fn run(
    context: &Context,
    graph: &CsrGraph,
    parts: Partition,
    options: SsspOptions,
    sources: &[u32],
) -> Result<SsspResult, Error> {
    run_as(Algorithm::Asynchronous, context, graph, parts, options, sources)
}

pub(crate) fn run_as(
    algorithm: Algorithm,
    context: &Context,
    graph: &CsrGraph,
    parts: Partition,
    mut options: SsspOptions,
    sources: &[u32],
) -> Result<SsspResult, Error> {
    options.algorithm = algorithm;
    let search =
        async { Sssp::with_partition(context, graph, parts, options).await?.run(sources).await };
    context.block_on(search).unwrap()
}

/// Compares with the reference, and has the validators look at it.
pub(crate) fn check(what: &str, graph: &CsrGraph, sources: &[u32], result: &SsspResult) {
    let expected = reference::dijkstra(graph, sources).unwrap();
    assert!(result.distances == expected, "{what}: {:?} not {expected:?}", result.distances);
    validate::sssp_distances(graph, sources, None, &result.distances).unwrap();
    if let Some(predecessors) = &result.predecessors {
        validate::sssp_predecessors(graph, sources, &result.distances, predecessors)
            .unwrap_or_else(|fault| panic!("{what}: {fault}"));
    }
    let devices = &result.statistics.devices;
    let sum = |field: fn(&DeviceStatistics) -> u64| devices.iter().map(field).sum::<u64>();
    assert_eq!(sum(|device| device.sent), sum(|device| device.received), "{what}");
}

pub(crate) fn with_weights(graph: &CsrGraph, weights: Weights) -> CsrGraph {
    graph.clone().with_weights(Some(weights)).unwrap()
}

/// Queues, packets and batches that are always too small.
pub(crate) fn tiny() -> SsspOptions {
    let mut options = SsspOptions::default();
    options.worklist.packet_bytes = 32;
    options.worklist.queue_entries = Some(4);
    options.worklist.batch = 5;
    options
}

#[test]
fn every_graph_weight_routing_and_device_count_agrees_with_dijkstra() {
    for devices in [1, 2, 3, 4, 8] {
        let builder = || Context::builder().devices(Devices::host(devices));
        let injection = Injection { reorder: true, ..Injection::default() };
        let simulated = builder().simulated(devices as u64).injection(injection);
        let contexts = [builder().build().unwrap(), simulated.build().unwrap()];
        for (name, graph) in awkward::graphs() {
            let parts = partition::contiguous_blocks(&graph, devices);
            for (round, (kind, weights)) in awkward::weights(&graph).into_iter().enumerate() {
                let graph = with_weights(&graph, weights);
                for (number, routing) in [Routing::Ring, Routing::Direct].into_iter().enumerate() {
                    let turn = devices + round + number;
                    let mut options = if turn % 2 == 0 { tiny() } else { SsspOptions::default() };
                    options.worklist.routing = routing;
                    options.predecessors = turn / 2 % 2 == 0;
                    options.delta = [Delta::Auto, Delta::Off, Delta::Step(3.0)][turn % 3];
                    let what = format!("{name}, {kind} weights, {devices} devices, {options:?}");
                    let context = &contexts[turn / 2 % 2];
                    let result = run(context, &graph, parts.clone(), options, &[0]);
                    check(&what, &graph, &[0], &result.unwrap());
                }
            }
        }
    }
}

fn path(weights: Weights) -> CsrGraph {
    let edges: Vec<_> = (0..weights.len() as u32).map(|vertex| (vertex, vertex + 1)).collect();
    let graph = CsrGraph::from_edges(weights.len() as u32 + 1, &edges).unwrap();
    with_weights(&graph, weights)
}

fn host(devices: usize) -> Context {
    Context::builder().devices(Devices::host(devices)).build().unwrap()
}

fn search(graph: &CsrGraph, options: SsspOptions, sources: &[u32]) -> Result<SsspResult, Error> {
    run(&host(2), graph, partition::contiguous_blocks(graph, 2), options, sources)
}

#[test]
fn several_sources_and_a_cutoff() {
    let random = awkward::graphs().swap_remove(7).1;
    for weights in [
        generate::random_weights(&random, 50, 3),
        Weights::Real((0..900u32).map(|arc| (arc * 31 % 97) as f32 / 7.0).collect()),
    ] {
        let graph = with_weights(&random, weights);
        let sources = [3, 250, 3];
        let result = search(&graph, SsspOptions::default(), &sources).unwrap();
        check("several sources", &graph, &sources, &result);
        let mut options = SsspOptions::default();
        options.cutoff = Some(40.0);
        let cut = search(&graph, options, &sources).unwrap();
        let expected = match result.distances {
            Distances::Integer(all) => {
                let near = |distance| if distance > 40 { u32::MAX } else { distance };
                Distances::Integer(all.into_iter().map(near).collect())
            }
            Distances::Real(all) => {
                let near = |distance| if distance > 40.0 { f32::INFINITY } else { distance };
                Distances::Real(all.into_iter().map(near).collect())
            }
        };
        assert!(cut.distances == expected);
        assert!((1..300).contains(&cut.reached()), "{}", cut.reached());
        assert!(cut.max_distance().unwrap() <= 40.0);
    }
}

/// Of a path whose third vertex is too far, and the largest distances.
pub(crate) fn weights_that_overflow() -> [(Weights, f64); 2] {
    let most = u32::MAX - 2;
    [
        (Weights::Integer(vec![most - 8, 9, 0]), f64::from(most)),
        (Weights::Real(vec![f32::MAX, f32::MAX, 0.0]), f64::from(f32::MAX)),
    ]
}

#[test]
fn overflow_is_an_error_unless_a_shorter_path_or_a_nearer_cutoff_avoids_it() {
    let too_far = |error| matches!(error, Error::Overflow { vertex: 2 });
    let options = SsspOptions::default();
    for (weights, most) in weights_that_overflow() {
        let graph = path(weights);
        assert!(too_far(search(&graph, options, &[0]).unwrap_err()));
        let mut cut = options;
        cut.cutoff = Some(most);
        assert_eq!(search(&graph, cut, &[0]).unwrap().reached(), 2);
        // What overflows may be within these.
        for beyond in [most * 1.1, f64::MAX, f64::INFINITY] {
            cut.cutoff = Some(beyond);
            assert!(too_far(search(&graph, cut, &[0]).unwrap_err()), "{beyond}");
        }
    }
    let edges = [(0, 1, u32::MAX - 9), (1, 2, 9), (0, 3, 5), (3, 2, 5)];
    let graph = CsrGraph::from_weighted_edges(4, &edges).unwrap();
    check("a shorter path", &graph, &[0], &search(&graph, options, &[0]).unwrap());
}

#[test]
fn what_has_no_answer_is_refused() {
    let graph = path(Weights::Real(vec![1.0, -0.5]));
    let options = SsspOptions::default();
    let negative = search(&graph, options, &[0]);
    assert!(matches!(negative, Err(Error::Weight(BadWeight { from: 1, to: 2, .. }))));
    let graph = path(Weights::Integer(vec![1, 1]));
    let refused = |options, sources: &[u32]| search(&graph, options, sources).unwrap_err();
    assert!(refused(options, &[3]).to_string().contains("source 3"));
    let mut wrong = options;
    wrong.delta = Delta::Step(0.0);
    assert!(matches!(refused(wrong, &[0]), Error::Traversal(TraversalError::Delta { .. })));
    wrong = options;
    wrong.cutoff = Some(f64::NAN);
    assert!(matches!(refused(wrong, &[0]), Error::Cutoff { .. }));
    let unweighted = graph.with_weights(None).unwrap();
    assert!(matches!(search(&unweighted, options, &[0]), Err(Error::NoWeights)));
}

/// Sparse or dense, with light weights, many of them 0.
pub(crate) fn random_graph(random: &mut SmallRng) -> CsrGraph {
    let vertices = random.random_range(1..=60u32);
    let arcs = random.random_range(0..=vertices * 4);
    let edges: Vec<(u32, u32, u32)> = (0..arcs)
        .map(|_| {
            let ends = (random.random_range(0..vertices), random.random_range(0..vertices));
            (ends.0, ends.1, random.random_range(0..4))
        })
        .collect();
    CsrGraph::from_weighted_edges(vertices, &edges).unwrap()
}

/// Host devices, simulated, whose operations are held up and overtake each other as the seed has
/// it.
pub(crate) fn delaying(random: &mut SmallRng, seed: u64, devices: usize) -> Context {
    let delay = Duration::ZERO..=Duration::from_micros(random.random_range(1..50));
    let injection =
        Injection { seed, delay: Some(delay), reorder: random.random(), ..Injection::default() };
    let builder = Context::builder().devices(Devices::host(devices)).injection(injection);
    builder.simulated(seed).build().unwrap()
}

/// The seed that `MILLSTREAM_SEED` names, or so many.
pub(crate) fn seeds(count: u64) -> Range<u64> {
    match std::env::var("MILLSTREAM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    }
}

/// Runs a case for each of [`seeds`].
pub(crate) fn for_seeds(count: u64, case: fn(u64)) {
    seeds(count).for_each(case);
}

fn delayed(seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let graph = random_graph(&mut random);
    let devices = random.random_range(1..=8usize);
    let mut options = SsspOptions::default();
    let routings = [Routing::Ring, Routing::Direct];
    options.worklist.routing = routings[random.random_range(0..2usize)];
    options.worklist.halo_filter = random.random_ratio(3, 4);
    options.worklist.packet_bytes = 16 * random.random_range(1..=4usize);
    options.worklist.buffers = Some(random.random_range(1..=3));
    options.worklist.queue_entries = Some(random.random_range(1..=8));
    options.worklist.batch = random.random_range(1..=16);
    options.predecessors = random.random();
    options.delta = [Delta::Off, Delta::Auto, Delta::Step(2.0)][random.random_range(0..3usize)];
    let context = delaying(&mut random, seed, devices);
    let source = random.random_range(0..graph.vertices());
    let parts = partition::contiguous_blocks(&graph, devices);
    let result = run(&context, &graph, parts, options, &[source]);
    let what = format!("MILLSTREAM_SEED={seed}, {options:?}");
    check(&what, &graph, &[source], &result.unwrap_or_else(|error| panic!("{what}: {error}")));
}

/// `MILLSTREAM_SEED=n` replays one.
#[test]
fn delayed_searches_are_right_and_never_stuck() {
    for_seeds(200, delayed);
}

#[test]
fn roads_and_kronecker_graphs() {
    let options = GenerateOptions { seed: 1, max_weight: Some(100) };
    for (name, graph) in [
        ("road", generate::road(150, 150, generate::KEEP_PERMILLE, &options).unwrap()),
        ("kron", generate::kron(12, 16, &options).unwrap()),
    ] {
        let source = millstream::graph::source::max_degree(&graph).unwrap();
        for delta in [Delta::Off, Delta::Auto] {
            let mut options = SsspOptions::default();
            options.delta = delta;
            options.predecessors = delta == Delta::Auto;
            let parts = partition::region_blocks(&graph, 4);
            let result = run(&host(4), &graph, parts, options, &[source]).unwrap();
            check(name, &graph, &[source], &result);
            println!(
                "{name}, {delta:?}, step {:?}: {} work items for {} vertices in {:?}",
                result.delta,
                result.statistics.work_items(),
                result.reached(),
                result.run_time
            );
        }
    }
}
