//! Shortest paths by near and far piles: graphs of few arcs a vertex, lists that are too small,
//! many runs, and runs that nobody waits for.

use std::pin::pin;
use std::task::{Context as TaskContext, Waker};
use std::time::{Duration, Instant};

use millstream::flow::Context;
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, Partition, Weights, partition, reference, source, validate};
use millstream::sssp::{Algorithm, Delta, Error, Sssp, SsspOptions, SsspResult};

use super::levels::lattice_with_shortcuts;
use super::{context, scaled, skip};
use crate::{awkward, levels, sssp};

fn run(
    context: &Context,
    graph: &CsrGraph,
    parts: Partition,
    options: SsspOptions,
    sources: &[u32],
) -> Result<SsspResult, Error> {
    sssp::run_as(Algorithm::NearFar, context, graph, parts, options, sources)
}

fn road(width: u32, height: u32, max_weight: u32) -> CsrGraph {
    let options = GenerateOptions { seed: 1, max_weight: Some(max_weight) };
    generate::road(width, height, generate::KEEP_PERMILLE, &options).unwrap()
}

/// Whether the devices can; says so if not.
fn can(context: &Context) -> bool {
    let graph = CsrGraph::from_weighted_edges(2, &[(0, 1, 1u32), (1, 0, 1)]).unwrap();
    let parts = partition::contiguous_blocks(&graph, context.devices().len());
    let upload = Sssp::with_algorithm(context, &graph, parts, Algorithm::Stepping);
    let steps = context.block_on(upload).unwrap();
    let are_gpus = context.devices().iter().all(millstream::device::Device::is_gpu);
    if steps.is_ok() && are_gpus {
        return true;
    }
    skip("these devices have no near and far piles");
    let road = road(20, 20, 9);
    let parts = partition::contiguous_blocks(&road, context.devices().len());
    let error = run(context, &road, parts, SsspOptions::default(), &[0]).unwrap_err();
    assert!(matches!(error, Error::NotNearFar), "{error}");
    false
}

fn deltas() -> [Delta; 4] {
    [Delta::Auto, Delta::Off, Delta::Step(3.0), Delta::Step(400.0)]
}

#[test]
fn near_and_far_on_awkward_graphs() {
    let context = context();
    if !can(&context) {
        return;
    }
    let devices = context.devices().len();
    let mut searched = 0;
    for (number, (name, graph)) in awkward::graphs().into_iter().enumerate() {
        let kinds = awkward::weights(&graph);
        let some = scaled(kinds.len(), 2);
        for (round, (kind, weights)) in
            kinds.into_iter().enumerate().cycle().skip(number * 2).take(some)
        {
            let graph = sssp::with_weights(&graph, weights);
            let mut options = SsspOptions::default();
            options.predecessors = (number + round) % 2 == 0;
            options.delta = deltas()[(number + round) % 4];
            let parts = partition::contiguous_blocks(&graph, devices);
            match run(&context, &graph, parts, options, &[0]) {
                // Hubs, and what is near to all parts.
                Err(Error::NotNearFar) => continue,
                result => {
                    let what = format!("{name}, {kind}, {:?}", options.delta);
                    sssp::check(&what, &graph, &[0], &result.unwrap());
                }
            }
            searched += 1;
        }
    }
    assert!(searched > 4, "{searched}");
}

#[test]
fn near_and_far_on_roads() {
    let context = context();
    if !can(&context) {
        return;
    }
    let devices = context.devices().len();
    let (width, height) = scaled((260, 240), (45, 40));
    let mapped = road(width, height, 100);
    let Some(Weights::Integer(weights)) = mapped.weights() else { panic!("integers") };
    let reals = weights.iter().map(|&weight| weight as f32 / 7.0).collect();
    let zeros = weights.iter().map(|&weight| weight % 3).collect();
    let graphs = [
        ("reals", sssp::with_weights(&mapped, Weights::Real(reals))),
        ("zeros", sssp::with_weights(&mapped, Weights::Integer(zeros))),
        ("integers", mapped.clone()),
    ];
    let strips: Vec<_> =
        (0..width * height).map(|vertex| vertex % width * devices as u32 / width).collect();
    let mut parts = levels::partitions(&mapped, devices);
    parts.push(Partition::from_parts(devices, &strips).unwrap());
    let many: Vec<u32> = (0..mapped.vertices()).step_by(scaled(701, 331)).collect();
    let mut searched = 0;
    for (round, parts) in parts.into_iter().enumerate() {
        for (turn, (name, graph)) in graphs.iter().enumerate() {
            let some = deltas().into_iter().enumerate().skip((round + turn) % scaled(1, 3));
            for (number, delta) in some.step_by(scaled(1, 3)) {
                let mut options = SsspOptions::default();
                (options.delta, options.predecessors) = (delta, (turn + number) % 2 == 0);
                let busiest = source::max_degree(graph).unwrap();
                let sources = if number == 1 { &many[..] } else { &[busiest] };
                let what = format!("{name}, parts {round}, {delta:?}");
                match run(&context, graph, parts.clone(), options, sources) {
                    Err(Error::NotNearFar) => continue,
                    result => sssp::check(&what, graph, sources, &result.unwrap()),
                }
                searched += 1;
            }
        }
    }
    assert!(searched >= scaled(24, 9), "{searched}");
}

/// Rows that are not packed, arcs that have no reverse, limits.
#[test]
fn near_and_far_of_long_rows_and_one_way_streets() {
    let context = context();
    if !can(&context) {
        return;
    }
    let devices = context.devices().len();
    let shortcuts = lattice_with_shortcuts(scaled(200, 50));
    let weights = generate::random_weights(&shortcuts, 50, 3);
    let shortcuts = sssp::with_weights(&shortcuts, weights);
    let parts = partition::contiguous_blocks(&shortcuts, devices);
    for (cutoff, predecessors) in [(None, true), (Some(100.0), false), (Some(0.0), true)] {
        let mut options = SsspOptions::default();
        (options.cutoff, options.predecessors) = (cutoff, predecessors);
        let result = run(&context, &shortcuts, parts.clone(), options, &[7]).unwrap();
        validate::sssp_distances(&shortcuts, &[7], cutoff, &result.distances).unwrap();
    }
    let row = |from: u32| shortcuts.row(from).map(move |arc| (from, arc));
    let Some(Weights::Integer(weights)) = shortcuts.weights() else { panic!("integers") };
    let arcs = (0..shortcuts.vertices())
        .flat_map(row)
        .filter(|(from, arc)| !(from + *arc as u32).is_multiple_of(5));
    let arcs: Vec<_> =
        arcs.map(|(from, arc)| (from, shortcuts.targets()[arc], weights[arc])).collect();
    let one_way = CsrGraph::from_weighted_edges(shortcuts.vertices(), &arcs).unwrap();
    match run(&context, &one_way, parts, SsspOptions::default(), &[7]) {
        Err(Error::NotNearFar) if devices > 1 => {}
        result => sssp::check("one way", &one_way, &[7], &result.unwrap()),
    }
}

#[test]
fn distances_that_overflow_by_near_and_far() {
    let context = context();
    if !can(&context) {
        return;
    }
    let path: Vec<_> = (0..63).flat_map(|at| [(at, at + 1), (at + 1, at)]).collect();
    let path = CsrGraph::from_edges(64, &path).unwrap();
    let path = sssp::with_weights(&path, Weights::Integer(vec![1 << 30; 126]));
    let parts = partition::contiguous_blocks(&path, context.devices().len());
    let upload = Sssp::with_algorithm(&context, &path, parts, Algorithm::NearFar);
    let sssp = context.block_on(upload).unwrap().unwrap();
    let error = context.block_on(sssp.run(&[0])).unwrap().unwrap_err();
    assert!(matches!(error, Error::Overflow { .. }), "{error}");
}

/// Where too many vertices have to wait, the answer comes from the worklist.
#[test]
fn lists_that_are_too_short_are_not_needed() {
    let context = context();
    if !can(&context) {
        return;
    }
    let side = scaled(300, 60);
    let graph = road(side, side, 100);
    let busiest = source::max_degree(&graph).unwrap();
    let all: Vec<u32> = (0..graph.vertices()).collect();
    for waiting in [0, 1, 64, 1 << 19] {
        for (sources, delta) in [(&[busiest][..], Delta::Auto), (&all, Delta::Off)] {
            let mut options = SsspOptions::default();
            (options.waiting, options.delta) = (waiting, delta);
            let parts = partition::contiguous_blocks(&graph, context.devices().len());
            let result = run(&context, &graph, parts, options, sources).unwrap();
            sssp::check(&format!("{waiting} wait"), &graph, sources, &result);
        }
    }
}

/// `MILLSTREAM_RUNS` searches (100 unless set, or 20) of a graph small enough to race hard.
#[test]
fn many_runs_by_near_and_far() {
    let runs = scaled(100, 20);
    let runs = std::env::var("MILLSTREAM_RUNS").map_or(runs, |runs| runs.parse().unwrap());
    let context = context();
    if !can(&context) {
        return;
    }
    let graph = road(24, 80, 9);
    let from = source::center(&graph).unwrap();
    let expected = reference::dijkstra(&graph, &[from]).unwrap();
    for delta in deltas() {
        let parts = partition::edge_balanced_blocks(&graph, context.devices().len());
        let upload = Sssp::with_algorithm(&context, &graph, parts, Algorithm::NearFar);
        let mut options = SsspOptions::default();
        options.delta = delta;
        let sssp = context.block_on(upload).unwrap().unwrap().with_options(options);
        for run in 0..runs / 4 {
            let result = context.block_on(sssp.run(&[from])).unwrap().unwrap();
            assert!(result.distances == expected, "{delta:?}, run {run}");
        }
    }
}

/// Dropping the future stops the devices, at whatever point; the next run is right.
#[test]
fn a_run_by_near_and_far_that_is_given_up() {
    let context = context();
    if !can(&context) {
        return;
    }
    let side = scaled(400, 40);
    let graph = road(side, side, 100);
    let busiest = source::max_degree(&graph).unwrap();
    let expected = reference::dijkstra(&graph, &[busiest]).unwrap();
    let parts = partition::contiguous_blocks(&graph, context.devices().len());
    let upload = Sssp::with_algorithm(&context, &graph, parts, Algorithm::NearFar);
    let sssp = context.block_on(upload).unwrap().unwrap();
    assert_eq!(sssp.algorithm(), Algorithm::NearFar);
    assert!(sssp.layout().is_some_and(|layout| layout.bytes >= 32 * u64::from(graph.vertices())));
    for microseconds in [0, 50, 200, 1000, 3000] {
        {
            let sources = [busiest];
            let mut run = pin!(sssp.run(&sources));
            let mut task = TaskContext::from_waker(Waker::noop());
            let deadline = Instant::now() + Duration::from_micros(microseconds);
            while Instant::now() < deadline && run.as_mut().poll(&mut task).is_pending() {}
        }
        let result = context.block_on(sssp.run(&[busiest])).unwrap().unwrap();
        assert!(result.distances == expected, "after {microseconds} us");
    }
    context.device_set().quiesce().unwrap();
}
