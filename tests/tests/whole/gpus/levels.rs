//! The level-synchronous BFS: graphs that have every phase, many runs, and runs that
//! nobody waits for.

use std::pin::pin;
use std::task::{Context as TaskContext, Waker};
use std::time::{Duration, Instant};

use millstream::bfs::{Algorithm, Bfs, BfsOptions, Error, LayoutKind};
use millstream::cc::Cc;
use millstream::device::Device;
use millstream::flow::Context;
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, Partition, partition, reference, source};

use super::{Needs, context, runs, scaled, search, skip};
use crate::{awkward, bfs, levels, near_far};

/// Whether the devices can; says so if not.
pub(super) fn can(context: &Context) -> bool {
    let graph = CsrGraph::from_edges(2, &[(0, 1), (1, 0)]).unwrap();
    let search = async {
        let bfs = Bfs::with_options(context, &graph, levels::ways()[1]).await?;
        bfs.run(&[0]).await
    };
    match context.block_on(search).unwrap() {
        Err(Error::NotLevelSynchronous) => {
            skip(Needs::Peers, "these devices cannot go level by level");
            false
        }
        result => result.map(|_| true).unwrap(),
    }
}

#[test]
fn levels_of_awkward_graphs() {
    let context = context();
    if !can(&context) {
        return;
    }
    let devices = context.devices().len();
    // Emulated, one way with each graph, by turns.
    let every = scaled(1, levels::ways().len());
    for (number, (name, graph)) in awkward::graphs().into_iter().enumerate() {
        let ways = levels::ways().into_iter().enumerate().skip(number % every);
        for (round, mut options) in ways.step_by(every) {
            options.predecessors = round % 2 == 0;
            let parts = partition::random(&graph, devices, round as u64);
            let result = bfs::run(&context, &graph, parts, options, &[0]);
            bfs::check(name, &graph, &[0], &options, &result);
        }
    }
}

#[test]
fn levels_of_generated_graphs() {
    let context = context();
    if !can(&context) {
        return;
    }
    let options = GenerateOptions::default();
    let scale = scaled(15, 8);
    let kron = generate::kron(scale, 24, &options).unwrap();
    let side = scaled(300, 16);
    // Frontiers have many arcs, but hardly grow.
    let wide = scaled(300, 40);
    let graphs = [
        ("directed", levels::one_way(&kron)),
        ("kron", kron),
        ("social", generate::social(scale, 9, &options).unwrap()),
        ("road", generate::road(side, side, generate::KEEP_PERMILLE, &options).unwrap()),
        ("mesh", near_far::mesh([wide, wide, 1], &near_far::square())),
        ("small world", small_world(scaled(40_000, 3_000))),
    ];
    for (name, graph) in &graphs {
        let busiest = source::max_degree(graph).unwrap();
        for mut options in levels::ways() {
            for (predecessors, layouts, depth_limit) in [
                (false, true, None),
                (false, false, None),
                (true, true, None),
                (true, false, Some(2)),
                (false, true, Some(2)),
                (false, true, Some(1)),
                (true, false, Some(1)),
                (false, true, Some(0)),
            ] {
                (options.predecessors, options.layouts) = (predecessors, layouts);
                options.depth_limit = depth_limit;
                let what = format!("{name} {options:?}");
                let time = search(&context, graph, &[busiest], options, &what);
                let (alpha, beta) = (options.alpha, options.beta);
                println!("{name}, {alpha} and {beta}: {:.3} ms", time.as_secs_f64() * 1e3);
            }
        }
        let sources: Vec<u32> = (0..graph.vertices()).step_by(97).collect();
        search(&context, graph, &sources, levels::ways()[1], &format!("{name}, many sources"));
    }
}

/// A ring of eight arcs a vertex, and shortcuts: frontiers grow by a third or a half, and are rushed, but find
/// too few for a sweep.
fn small_world(vertices: u32) -> CsrGraph {
    let near = (0..vertices).flat_map(|from| (1..=4).map(move |by| (from, (from + by) % vertices)));
    let far = (0..vertices)
        .step_by(25)
        .map(|from| (from, (from.wrapping_mul(0x9E37_79B9) >> 8) % vertices));
    let edges = near.chain(far).flat_map(|(from, to)| [(from, to), (to, from)]);
    CsrGraph::from_edges(vertices, &edges.collect::<Vec<_>>()).unwrap()
}

/// On GPUs, but not where neighbours have ids near each other.
#[test]
fn vertices_of_graphs_with_hubs_are_in_degree_order() {
    let context = context();
    if !can(&context) {
        return;
    }
    let are_gpus = context.devices().iter().all(Device::is_gpu);
    let options = GenerateOptions::default();
    let kron = generate::kron(9, 8, &options).unwrap();
    let road = generate::road(40, 40, generate::KEEP_PERMILLE, &options).unwrap();
    for (name, graph, has_hubs) in [("kron", kron, true), ("road", road, false)] {
        let bfs = context.block_on(Bfs::new(&context, &graph)).unwrap().unwrap();
        let components = context.block_on(Cc::new(&context, &graph)).unwrap().unwrap();
        for layouts in [bfs.layouts(), components.layouts()] {
            let is_ordered = layouts.iter().any(|layout| layout.kind == LayoutKind::DegreeOrder);
            assert_eq!(is_ordered, are_gpus && has_hubs, "{name}: {layouts:?}");
        }
    }
}

/// A way of five vertices to the last of a hub's many neighbours; another hub reached in the middle of its
/// row; and, out of reach, hubs by the hundred that share their neighbours.
fn hubs_far_from_the_source(far_hubs: u32, leaves: u32) -> CsrGraph {
    let mut edges: Vec<(u32, u32)> = (0..5).map(|vertex| (vertex, vertex + 1)).collect();
    let mut count = 6;
    let mut take = |vertices: u32| {
        count += vertices;
        count - vertices..count
    };
    let [near, middle] = [take(1).start, take(1).start];
    // The way's end comes last in the row of the first, which has smaller numbers else.
    edges.extend(take(leaves).map(|leaf| (near, leaf)));
    let end = take(1).start;
    edges.extend([(5, end), (end, near)]);
    edges.extend(take(leaves).map(|leaf| (middle, leaf)));
    let leaf = take(1).start;
    edges.extend([(end, leaf), (leaf, middle)]);
    edges.extend(take(leaves).map(|leaf| (middle, leaf)));
    let (hubs, shared) = (take(far_hubs), take(leaves));
    edges.extend(hubs.flat_map(|hub| shared.clone().map(move |leaf| (hub, leaf))));
    both_ways(count, edges)
}

#[test]
fn long_rows_far_from_the_source() {
    let context = context();
    if !can(&context) {
        return;
    }
    let graph = hubs_far_from_the_source(scaled(320, 8), scaled(5000, 400));
    for mut options in levels::ways() {
        for (layouts, predecessors) in [(false, true), (true, true), (true, false)] {
            (options.layouts, options.predecessors) = (layouts, predecessors);
            search(&context, &graph, &[0], options, &format!("far hubs {options:?}"));
        }
    }
}

/// A lattice with rows of up to eight arcs here and there.
pub(super) fn lattice_with_shortcuts(side: u32) -> CsrGraph {
    let vertex = |row: u32, column: u32| row * side + column;
    let mut edges = Vec::new();
    for (row, column) in (0..side).flat_map(|row| (0..side).map(move |column| (row, column))) {
        let here = vertex(row, column);
        edges.extend((column + 1 < side).then(|| (here, vertex(row, column + 1))));
        edges.extend((row + 1 < side).then(|| (here, vertex(row + 1, column))));
        if row % 16 == 3 && column % 16 == 5 {
            let ends = [(row + 1, column + 1), (row + 1, column - 1), (row + 9, column + 2)];
            let inside = ends.into_iter().filter(|&(row, column)| row < side && column < side);
            edges.extend(inside.map(|(row, column)| (here, vertex(row, column))));
        }
    }
    both_ways(side * side, edges)
}

/// Two binary trees that share their leaves: thin at both ends, and wide between.
fn trees_leaf_to_leaf(depth: u32) -> CsrGraph {
    let inner = (1 << depth) - 1;
    let leaves = 1 << depth;
    let mut edges = Vec::new();
    for parent in 0..inner {
        for child in [2 * parent + 1, 2 * parent + 2] {
            edges.push((parent, child));
            // The other tree's inner vertices come after the leaves.
            let mirrored = |vertex| if vertex < inner { inner + leaves + vertex } else { vertex };
            edges.push((mirrored(parent), mirrored(child)));
        }
    }
    both_ways(2 * inner + leaves, edges)
}

fn both_ways(vertices: u32, edges: Vec<(u32, u32)>) -> CsrGraph {
    let arcs: Vec<_> = edges.into_iter().flat_map(|(from, to)| [(from, to), (to, from)]).collect();
    CsrGraph::from_edges(vertices, &arcs).unwrap()
}

/// The part of each vertex of `trees_leaf_to_leaf`: of subtrees that hardly touch.
fn subtrees(depth: u32, parts: usize) -> Partition {
    let inner = (1 << depth) - 1;
    let leaves = 1 << depth;
    let part_of = |vertex: u32| {
        let place = if vertex < inner + leaves { vertex } else { vertex - inner - leaves } + 1;
        let below = place.ilog2();
        // Those near the roots belong to the first part.
        let subtree = if below < 3 { 0 } else { (place >> (below - 3)) - 8 };
        subtree * parts as u32 / 8
    };
    let part_of: Vec<_> = (0..2 * inner + leaves).map(part_of).collect();
    Partition::from_parts(parts, &part_of).unwrap()
}

/// Whether a graph can be searched by near and far piles.
fn has_piles(bfs: &Bfs) -> bool {
    bfs.layouts().iter().any(|layout| layout.kind == LayoutKind::PackedRows)
}

/// In the way of `options`, by near and far piles where the graph and the devices allow that.
fn with_piles(bfs: &Bfs, mut options: BfsOptions) -> BfsOptions {
    if has_piles(bfs) {
        options.algorithm = Algorithm::NearFar;
    }
    options
}

/// Frontiers that blocks keep to themselves, hand on when they have too much, and grow wide; on
/// host devices they are frontiers as all others.
#[test]
fn levels_through_thin_frontiers() {
    let context = context();
    if !can(&context) {
        return;
    }
    let options = GenerateOptions::default();
    let are_gpus = context.devices().iter().all(Device::is_gpu);
    // Host devices have no thin frontiers, and emulated ones few blocks.
    let size = |gpus, small| if are_gpus { scaled(gpus, small) } else { small };
    let (side, depth) = (size(700, 60), size(17, 12));
    let graphs = [
        ("road", generate::road(side, side, generate::KEEP_PERMILLE, &options).unwrap()),
        ("shortcuts", lattice_with_shortcuts(size(500, 70))),
        ("trees", trees_leaf_to_leaf(depth)),
    ];
    let devices = context.devices().len();
    for (name, graph) in &graphs {
        let parts = match *name {
            "trees" => subtrees(depth, devices),
            _ => partition::edge_balanced_blocks(graph, devices),
        };
        let upload = Bfs::with_partition(&context, graph, parts, BfsOptions::default());
        let mut bfs = context.block_on(upload).unwrap().unwrap();
        assert!(has_piles(&bfs) || *name == "trees", "{name}");
        assert_eq!(!bfs.layouts().is_empty(), are_gpus || has_piles(&bfs), "{name}");
        let mut ways = levels::ways();
        ways.truncate(scaled(4, 1));
        ways.push(with_piles(&bfs, levels::ways()[0]));
        for mut options in ways {
            for (layouts, depth_limit) in [(true, None), (false, None), (true, Some(20))] {
                if !layouts && options.algorithm == Algorithm::NearFar {
                    continue;
                }
                (options.layouts, options.depth_limit) = (layouts, depth_limit);
                options.predecessors = depth_limit == Some(20) || options.alpha == 0;
                bfs.set_options(options).unwrap();
                let result = context.block_on(bfs.run(&[0])).unwrap().unwrap();
                bfs::check(name, graph, &[0], &options, &result);
                let milliseconds = result.run_time.as_secs_f64() * 1e3;
                let (way, alpha) = (options.algorithm, options.alpha);
                println!("{name}, {way}, {alpha}, layouts {layouts}: {milliseconds:.3} ms");
            }
        }
    }
}

/// Parts that touch in few places, in many, and all over; limits before, at and after
/// thresholds.
#[test]
fn thin_levels_of_parts_of_all_shapes() {
    let context = context();
    if !can(&context) {
        return;
    }
    let devices = context.devices().len();
    let (width, height) = scaled((260, 240), (60, 50));
    let road = generate::road(width, height, generate::KEEP_PERMILLE, &GenerateOptions::default());
    let road = road.unwrap();
    let strips: Vec<_> =
        (0..width * height).map(|vertex| vertex % width * devices as u32 / width).collect();
    let mut parts = levels::partitions(&road, devices);
    parts.push(Partition::from_parts(devices, &strips).unwrap());
    let many: Vec<u32> = (0..road.vertices()).step_by(scaled(7001, 331)).collect();
    let limits = scaled(&[Some(1), Some(63), Some(64), Some(65), Some(100), None][..], &[Some(65)]);
    for (round, parts) in parts.into_iter().enumerate() {
        let upload = Bfs::with_partition(&context, &road, parts, BfsOptions::default());
        let mut bfs = context.block_on(upload).unwrap().unwrap();
        for &depth_limit in limits {
            for sources in [&[source::max_degree(&road).unwrap()][..], &many] {
                let mut options = with_piles(&bfs, levels::ways()[3]);
                options.predecessors = true;
                options.depth_limit = depth_limit;
                bfs.set_options(options).unwrap();
                let result = context.block_on(bfs.run(sources)).unwrap().unwrap();
                bfs::check(&format!("parts {round}"), &road, sources, &options, &result);
            }
        }
    }
}

/// Many searches in which devices meet a few times only.
#[test]
fn many_runs_through_thin_levels() {
    let runs = runs(scaled(200, 10));
    let context = context();
    if !can(&context) {
        return;
    }
    let options = GenerateOptions::default();
    let (width, height) = scaled((80, 320), (20, 80));
    let road = generate::road(width, height, generate::KEEP_PERMILLE, &options).unwrap();
    let from = source::center(&road).unwrap();
    let expected = reference::bfs_levels(&road, &[from], None);
    let mut bfs = context.block_on(Bfs::new(&context, &road)).unwrap().unwrap();
    let options = with_piles(&bfs, levels::ways()[3]);
    bfs.set_options(options).unwrap();
    for run in 0..runs {
        let result = context.block_on(bfs.run(&[from])).unwrap().unwrap();
        assert!(result.levels == expected, "run {run}");
    }
}

#[test]
fn roads_in_compact_parts_are_searched_by_near_and_far_piles() {
    let context = context();
    if !can(&context) {
        return;
    }
    let road =
        generate::road(300, 300, generate::KEEP_PERMILLE, &GenerateOptions::default()).unwrap();
    let devices = context.devices().len();
    let algorithm = |parts| {
        let mut options = BfsOptions::default();
        let upload = Bfs::with_partition(&context, &road, parts, options);
        let mut bfs = context.block_on(upload).unwrap().unwrap();
        let algorithm = bfs.algorithm();
        options.layouts = false;
        bfs.set_options(options).unwrap();
        (algorithm, bfs.algorithm())
    };
    let have_halos = context.all_gpus() && devices > 1;
    let piles = Algorithm::NearFar;
    let otherwise = match have_halos {
        true => Algorithm::Asynchronous,
        false => Algorithm::LevelSynchronous,
    };
    assert_eq!(algorithm(partition::edge_balanced_blocks(&road, devices)), (piles, otherwise));
    let scattered = algorithm(partition::random(&road, devices, 1));
    assert_eq!(scattered, (if have_halos { otherwise } else { piles }, otherwise));
}

/// `MILLSTREAM_RUNS` searches (100 unless set, or 20) of a graph small enough to race hard.
#[test]
fn many_runs_by_levels() {
    let runs = runs(scaled(100, 20));
    let context = context();
    if !can(&context) {
        return;
    }
    let graph = generate::kron(8, 8, &GenerateOptions::default()).unwrap();
    let busiest = source::max_degree(&graph).unwrap();
    let expected = reference::bfs_levels(&graph, &[busiest], None);
    for options in levels::ways() {
        let bfs = context.block_on(Bfs::with_options(&context, &graph, options)).unwrap().unwrap();
        assert_eq!(bfs.algorithm(), Algorithm::LevelSynchronous);
        for run in 0..runs.div_ceil(5) {
            let result = context.block_on(bfs.run(&[busiest])).unwrap().unwrap();
            assert!(result.levels == expected, "{options:?}, run {run}");
        }
    }
}

/// Dropping the future stops the devices, at whatever point; the next run is right.
#[test]
fn a_run_by_levels_that_is_given_up() {
    let context = context();
    if !can(&context) {
        return;
    }
    let options = GenerateOptions::default();
    let side = scaled(400, 30);
    let graph = generate::road(side, side, generate::KEEP_PERMILLE, &options).unwrap();
    let busiest = source::max_degree(&graph).unwrap();
    let expected = reference::bfs_levels(&graph, &[busiest], None);
    let bfs =
        context.block_on(Bfs::with_options(&context, &graph, levels::ways()[1])).unwrap().unwrap();
    for microseconds in [0, 50, 200, 1000, 3000] {
        {
            let sources = [busiest];
            let mut run = pin!(bfs.run(&sources));
            let mut task = TaskContext::from_waker(Waker::noop());
            let deadline = Instant::now() + Duration::from_micros(microseconds);
            while Instant::now() < deadline && run.as_mut().poll(&mut task).is_pending() {}
        }
        let result = context.block_on(bfs.run(&[busiest])).unwrap().unwrap();
        assert!(result.levels == expected, "after {microseconds} us");
    }
    context.device_set().quiesce().unwrap();
}
