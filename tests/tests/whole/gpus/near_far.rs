//! Shortest paths by near and far piles: graphs of few arcs a vertex, lists that are too small,
//! many runs, and runs that nobody waits for.

use std::pin::pin;
use std::task::{Context as TaskContext, Waker};
use std::time::{Duration, Instant};

use millstream::bfs::{self, Bfs, Levels};
use millstream::flow::{Context, Gang};
use millstream::graph::{CsrGraph, Weights, generate, partition, reference, source, validate};
use millstream::sssp::{Algorithm, Delta, Error, Sssp, SsspOptions};
use millstream::traversal::internals::{Attempt, NearFar, NearRows, RowWidth};
use millstream::traversal::{self, Columns, DistributedGraph, LayoutKind, Unsuitable};

use super::levels::lattice_with_shortcuts;
use super::{Needs, context, is_gpu, scaled, skip};
use crate::near_far::{check_awkward_graphs, check_meshes, check_roads, deltas, mesh, road, run};
use crate::{cc, sssp};

fn by_piles() -> SsspOptions {
    let mut options = SsspOptions::default();
    options.algorithm = Algorithm::NearFar;
    options
}

/// Whether the devices can; says so if not.
fn can(context: &Context) -> bool {
    // Long enough for eight parts that touch few others.
    let road = road(24, 80, 9);
    let parts = partition::edge_balanced_blocks(&road, context.devices().len());
    match run(context, &road, parts, SsspOptions::default(), &[0]) {
        Ok(_) => true,
        Err(Error::NotNearFar { .. }) => {
            skip(Needs::Peers, "these devices have no near and far piles");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn near_and_far_on_awkward_graphs() {
    let context = context();
    if !can(&context) {
        return;
    }
    let searched = check_awkward_graphs(&context, scaled(usize::MAX, 2));
    assert!(searched > 4, "{searched}");
}

#[test]
fn near_and_far_on_roads() {
    let context = context();
    if !can(&context) {
        return;
    }
    let searched = match scaled(true, false) {
        true => check_roads(&context, (260, 240, 100), 1),
        // Each of a great many thresholds takes long there: weights that short steps pass soon.
        false => check_roads(&context, (45, 40, 12), 3),
    };
    assert!(searched >= scaled(24, 9), "{searched}");
}

#[test]
fn near_and_far_on_meshes() {
    let context = context();
    if !can(&context) {
        return;
    }
    let searched = check_meshes(&context, scaled(4, 1));
    let least = if context.devices().len() == 1 { 18 } else { 3 };
    assert!(searched >= least, "{searched}");
    // Also if nobody asks for that, where halos are a small part; but not where rows in space are so wide
    // that there are few levels.
    if context.devices().len() <= 2 && is_gpu(&context.devices()[0]) {
        let band = mesh([20, 1000, 1], &[[1, 0, 0], [0, 1, 0], [1, 1, 0]]);
        let cube = mesh([40; 3], &[[1, 0, 0], [0, 1, 0], [0, 0, 1]]);
        let wide = mesh([40; 3], &cc::cube());
        use bfs::Algorithm::{LevelSynchronous, NearFar};
        for (graph, algorithm) in [(band, NearFar), (cube, NearFar), (wide, LevelSynchronous)] {
            let bfs = context.block_on(Bfs::new(&context, &graph)).unwrap().unwrap();
            assert_eq!(bfs.algorithm(), algorithm);
        }
    }
}

/// Where ids say nothing of where vertices lie, several GPUs get parts that seldom meet.
#[test]
fn scattered_meshes_are_divided_into_regions() {
    let context = context();
    let devices = context.devices();
    if devices.len() < 2 {
        return skip(Needs::Several, "one device has one part");
    }
    if !devices.iter().all(is_gpu) || !Gang::is_possible(&context) {
        return skip(Needs::Peers, "devices must be able to meet");
    }
    // Long enough for parts that are larger than what is around them.
    let (devices, thick) = (devices.len() as u32, scaled(40, 20));
    let beam = mesh([thick, thick, 60 * devices], &[[1, 0, 0], [0, 1, 0], [0, 0, 1]]);
    let strip = mesh([250, scaled(250, 125) * devices, 1], &[[1, 0, 0], [0, 1, 0]]);
    for graph in [beam, strip] {
        let graph = partition::random(&graph, graph.vertices() as usize, 1).renumber(&graph);
        let graph = sssp::with_weights(&graph, generate::random_weights(&graph, 1000, 1));
        let sssp = context.block_on(Sssp::new(&context, &graph)).unwrap().unwrap();
        let bfs = context.block_on(Bfs::new(&context, &graph)).unwrap().unwrap();
        assert_eq!(sssp.algorithm(), Algorithm::NearFar);
        assert_eq!(bfs.algorithm(), bfs::Algorithm::NearFar);
        for layouts in [sssp.layouts(), bfs.layouts()] {
            let kinds: Vec<_> = layouts.iter().map(|layout| layout.kind).collect();
            assert_eq!(kinds[..2], [LayoutKind::Regions, LayoutKind::PackedRows]);
        }
        let result = context.block_on(sssp.run(&[0])).unwrap().unwrap();
        sssp::check("regions", &graph, &[0], &result);
        let result = context.block_on(bfs.run(&[0])).unwrap().unwrap();
        validate::bfs_levels(&graph, &[0], None, &result.levels).unwrap();
    }
}

/// Where the automatic step makes too many vertices wait, a shorter one does not, and the next search
/// begins with it.
#[test]
fn steps_that_make_too_many_wait_become_shorter() {
    let context = context();
    if !can(&context) {
        return;
    }
    // In three dimensions much is near at a time, and steps are wide where weights are alike.
    let side = scaled(64, 24);
    let cube = mesh([side; 3], &[[1, 0, 0], [0, 1, 0], [0, 0, 1]]);
    let Weights::Integer(mut weights) = generate::random_weights(&cube, 1000, 1) else {
        panic!("no integers")
    };
    weights.iter_mut().for_each(|weight| *weight += 1000);
    let graph = sssp::with_weights(&cube, Weights::Integer(weights));
    let center = graph.vertices() / 2;
    let parts = || partition::contiguous_blocks(&graph, context.devices().len());
    let mut found = Vec::new();
    let is_shorter = |found: &[Option<f64>]| found.last() < found.first();
    // Less and less room, which host devices do not look at, until the step is not the first search's.
    let are_gpus = context.devices().iter().all(is_gpu);
    for bits in (0..20).rev().take(if are_gpus { 20 } else { 2 }) {
        let mut options = by_piles();
        options.waiting = 1 << bits;
        let upload = Sssp::with_partition(&context, &graph, parts(), options);
        let sssp = context.block_on(upload).unwrap().unwrap();
        for _ in 0..2 {
            let result = context.block_on(sssp.run(&[center])).unwrap().unwrap();
            sssp::check(&format!("{} wait", options.waiting), &graph, &[center], &result);
            found.extend((result.algorithm == Algorithm::NearFar).then_some(result.delta));
        }
        if is_shorter(&found) {
            break;
        }
    }
    assert!(is_shorter(&found) == are_gpus, "{found:?}");
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
    let options = SsspOptions::default();
    let one_way_result = run(&context, &one_way, parts, options, &[7]);
    let scattered = partition::random(&shortcuts, devices, 1);
    let scattered_result = run(&context, &shortcuts, scattered, options, &[7]);
    if context.all_gpus() && devices > 1 {
        let reason = |result| match result {
            Err(Error::NotNearFar { reason }) => Some(reason),
            _ => None,
        };
        let reasons = [one_way_result, scattered_result].map(reason);
        assert_eq!(reasons, [Unsuitable::Directed, Unsuitable::Parts].map(Some));
    } else {
        sssp::check("one way", &one_way, &[7], &one_way_result.unwrap());
        sssp::check("scattered", &shortcuts, &[7], &scattered_result.unwrap());
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
    let upload = Sssp::with_partition(&context, &path, parts, by_piles());
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

/// The piles of a block have room for a few items, for one to begin with, and overflow at any
/// point: where a threshold is raised, too.
#[test]
fn piles_of_a_few_places() {
    let context = context();
    if !can(&context) {
        return;
    }
    let side = scaled(100, 20);
    let graph = road(side, side, 100);
    let center = source::center(&graph).unwrap();
    // Of two piles, from one place for each block to eight.
    for &waiting in scaled(&[66, 132, 264, 528][..], &[24]) {
        // The worklist, which answers in the end, raises the threshold as often.
        for delta in [Delta::Auto, Delta::Step(scaled(3.0, 60.0))] {
            let mut options = SsspOptions::default();
            (options.waiting, options.delta) = (waiting, delta);
            let parts = partition::contiguous_blocks(&graph, context.devices().len());
            let result = run(&context, &graph, parts, options, &[center]).unwrap();
            sssp::check(&format!("{waiting} wait, {delta:?}"), &graph, &[center], &result);
        }
    }
}

/// An attempt that is given up has taken time, and is not made again without more room.
#[test]
fn attempts_that_are_given_up() {
    let context = context();
    if !can(&context) {
        return;
    }
    let road = road(24, 80, 9);
    let parts = partition::edge_balanced_blocks(&road, context.devices().len());
    let attempts = context.block_on(async {
        let graph = DistributedGraph::new(&context, &road, parts, Columns::Structure).await?;
        let rows =
            NearRows::new::<Levels>(&road, &graph, RowWidth::of(&road), true).await?.unwrap();
        let (graph, rows) = (&graph, &rows);
        let (limit, delta, grows, waiting) = (u32::MAX - 1, Some(256), true, 0);
        let patience = Duration::from_secs(10);
        let search = NearFar::<Levels> { graph, rows, limit, delta, grows, waiting, patience };
        let all: Vec<u32> = (0..road.vertices()).collect();
        let attempts = [search.run::<u32>(&all).await?, search.run::<u32>(&all).await?];
        // With more room it is made again.
        let search = NearFar { waiting: NearFar::<Levels>::WAITING, ..search };
        let found = search.run::<u32>(&all).await?;
        assert!(matches!(found, Attempt::Found(_)), "{found:?}");
        Ok::<_, traversal::Error>(attempts)
    });
    match attempts.unwrap().unwrap() {
        [Attempt::GivenUp(first), Attempt::GivenUp(again)] => {
            assert!(first > Duration::ZERO && again == Duration::ZERO, "{first:?}, {again:?}");
        }
        // Host devices have no limit.
        attempts => assert!(!context.devices().iter().all(is_gpu), "{attempts:?}"),
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
        let mut options = by_piles();
        options.delta = delta;
        let upload = Sssp::with_partition(&context, &graph, parts, options);
        let sssp = context.block_on(upload).unwrap().unwrap();
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
    let upload = Sssp::with_partition(&context, &graph, parts, by_piles());
    let sssp = context.block_on(upload).unwrap().unwrap();
    assert_eq!(sssp.algorithm(), Algorithm::NearFar);
    let [layout] = sssp.layouts()[..] else { panic!("packed rows") };
    assert!(layout.bytes >= 32 * u64::from(graph.vertices()), "{layout:?}");
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
