//! Shortest paths and breadth-first search by near and far piles on host devices, against
//! Dijkstra's algorithm: awkward graphs and road maps, device counts, partitioners, delays.

use millstream::bfs::{self, Bfs, BfsOptions};
use millstream::flow::{Context, Devices};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, Partition, Weights, partition, source};
use millstream::sssp::{Algorithm, Delta, Error, Sssp, SsspOptions, SsspResult};
use millstream::traversal::Unsuitable;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::{awkward, levels, sssp};

pub(crate) fn run(
    context: &Context,
    graph: &CsrGraph,
    parts: Partition,
    options: SsspOptions,
    sources: &[u32],
) -> Result<SsspResult, Error> {
    sssp::run_as(Algorithm::NearFar, context, graph, parts, options, sources)
}

pub(crate) fn road(width: u32, height: u32, max_weight: u32) -> CsrGraph {
    let options = GenerateOptions { seed: 1, max_weight: Some(max_weight) };
    generate::road(width, height, generate::KEEP_PERMILLE, &options).unwrap()
}

pub(crate) fn deltas() -> [Delta; 4] {
    [Delta::Auto, Delta::Off, Delta::Step(3.0), Delta::Step(400.0)]
}

/// Awkward graphs with `some` kinds of weights each. How many could be searched.
pub(crate) fn check_awkward_graphs(context: &Context, some: usize) -> usize {
    let devices = context.devices().len();
    let mut searched = 0;
    for (number, (name, graph)) in awkward::graphs().into_iter().enumerate() {
        let kinds = awkward::weights(&graph);
        let some = some.min(kinds.len());
        for (round, (kind, weights)) in
            kinds.into_iter().enumerate().cycle().skip(number * 2).take(some)
        {
            let graph = sssp::with_weights(&graph, weights);
            let mut options = SsspOptions::default();
            options.predecessors = (number + round) % 2 == 0;
            options.delta = deltas()[(number + round) % 4];
            let parts = partition::contiguous_blocks(&graph, devices);
            match run(context, &graph, parts, options, &[0]) {
                // Hubs, and on GPUs what is near to all parts.
                Err(Error::NotNearFar { reason })
                    if context.all_gpus() || reason == Unsuitable::Degrees =>
                {
                    continue;
                }
                result => {
                    let what = format!("{name}, {kind}, {:?}", options.delta);
                    sssp::check(&what, &graph, &[0], &result.unwrap());
                }
            }
            searched += 1;
        }
    }
    searched
}

/// A road map of some width, height and largest weight in parts of all kinds, with all deltas or
/// one in so many. How many searches there were.
pub(crate) fn check_roads(
    context: &Context,
    (width, height, max_weight): (u32, u32, u32),
    every: usize,
) -> usize {
    let devices = context.devices().len();
    let mapped = road(width, height, max_weight);
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
    let many: Vec<u32> = (0..mapped.vertices()).step_by(701).collect();
    let mut searched = 0;
    for (round, parts) in parts.into_iter().enumerate() {
        for (turn, (name, graph)) in graphs.iter().enumerate() {
            let some = deltas().into_iter().enumerate().skip((round + turn) % every);
            for (number, delta) in some.step_by(every) {
                let mut options = SsspOptions::default();
                (options.delta, options.predecessors) = (delta, (turn + number) % 2 == 0);
                let busiest = source::max_degree(graph).unwrap();
                let sources = if number == 1 { &many[..] } else { &[busiest] };
                let what = format!("{name}, parts {round}, {delta:?}");
                match run(context, graph, parts.clone(), options, sources) {
                    Err(Error::NotNearFar { .. }) if context.all_gpus() => continue,
                    result => {
                        let result = result.unwrap();
                        sssp::check(&what, graph, sources, &result);
                        // Reals may be rounded to what they were, and zeros add nothing.
                        let is_left = context.all_gpus()
                            && devices > 1
                            && options.predecessors
                            && *name != "integers";
                        let algorithm =
                            if is_left { Algorithm::Asynchronous } else { Algorithm::NearFar };
                        assert_eq!(result.algorithm, algorithm, "{what}");
                        println!("{what}, {algorithm}: {:?}", result.run_time);
                    }
                }
                searched += 1;
            }
        }
    }
    searched
}

/// Vertices in rows and layers, with edges to those that lie as far away as `steps` say: right, down
/// and behind.
pub(crate) fn mesh([width, height, depth]: [u32; 3], steps: &[[i64; 3]]) -> CsrGraph {
    let size = [width, height, depth].map(i64::from);
    let mut arcs = Vec::new();
    for from in 0..width * height * depth {
        let at = [from % width, from / width % height, from / width / height].map(i64::from);
        for step in steps {
            let to: [i64; 3] = std::array::from_fn(|axis| at[axis] + step[axis]);
            if (0..3).all(|axis| (0..size[axis]).contains(&to[axis])) {
                let to = (to[0] + size[0] * (to[1] + size[1] * to[2])) as u32;
                arcs.extend([(from, to), (to, from)]);
            }
        }
    }
    CsrGraph::from_edges(width * height * depth, &arcs).unwrap()
}

/// Steps to all that is at most two away in rows and layers, one of two opposite ones each.
pub(crate) fn square() -> Vec<[i64; 3]> {
    let below = (1..=2).flat_map(|down| (-2..=2).map(move |right| [right, down, 0]));
    [[1, 0, 0], [2, 0, 0]].into_iter().chain(below).collect()
}

/// Meshes of more than four arcs a vertex, `scale` times as wide, each with another width of rows:
/// searched by all ways to weigh arcs, and breadth first. How many searches there were.
pub(crate) fn check_meshes(context: &Context, scale: u32) -> usize {
    let devices = context.devices().len();
    let [right, down, behind] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
    let [slope, rise, two, far] = [[1, 1, 0], [-1, 1, 0], [2, 0, 0], [0, 2, 0]];
    let meshes = [
        // Triangles, a few of them with a corner in common.
        mesh([12 * scale, 90 * scale, 1], &[right, down, slope]),
        mesh([6 * scale, 30 * scale, 6], &[right, down, behind]),
        mesh([12 * scale, 90 * scale, 1], &[right, down, slope, rise, two, far]),
        // Beyond 16, a row takes its threads several turns.
        mesh([9 * scale, 40 * scale, 3], &[right, down, slope, rise, two, far, behind, [0, 1, 1]]),
        mesh([12 * scale, 45 * scale, 1], &square()),
        // Beyond 32, too.
        mesh([900 * scale, 1, 1], &(1..=20).map(|by| [by, 0, 0]).collect::<Vec<_>>()),
    ];
    let mut searched = 0;
    for (number, mesh) in meshes.iter().enumerate() {
        let from = mesh.vertices() / 2;
        let parts = || partition::edge_balanced_blocks(mesh, devices);
        let integers = generate::random_weights(mesh, 60, number as u64);
        let Weights::Integer(weights) = &integers else { panic!("integers") };
        let reals = Weights::Real(weights.iter().map(|&weight| weight as f32 / 7.0).collect());
        for (turn, weights) in [integers.clone(), reals].into_iter().enumerate() {
            let graph = sssp::with_weights(mesh, weights);
            let mut options = SsspOptions::default();
            options.predecessors = (number + turn) % 2 == 0;
            let what = format!("mesh {number}, weights {turn}");
            match run(context, &graph, parts(), options, &[from]) {
                Err(Error::NotNearFar { reason: Unsuitable::Parts }) => continue,
                result => sssp::check(&what, &graph, &[from], &result.unwrap()),
            }
            searched += 1;
        }
        let mut options = BfsOptions::default();
        options.algorithm = bfs::Algorithm::NearFar;
        let upload = Bfs::with_partition(context, mesh, parts(), options);
        let result = context.block_on(async { upload.await?.run(&[from]).await }).unwrap();
        match result {
            Err(bfs::Error::NotNearFar { reason: Unsuitable::Parts }) => continue,
            result => {
                let what = format!("mesh {number}, breadth first");
                crate::bfs::check(&what, mesh, &[from], &options, &result.unwrap());
            }
        }
        searched += 1;
    }
    searched
}

#[test]
fn meshes_of_more_than_four_arcs_a_vertex() {
    for devices in [1, 2, 4] {
        let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
        assert_eq!(check_meshes(&context, 2), 18, "on {devices}");
    }
}

/// Level by level host devices take as long for a mesh, but for one that is a chain of its layers.
#[test]
fn meshes_go_level_by_level_on_host_devices_unless_they_are_thin() {
    use bfs::Algorithm::{LevelSynchronous, NearFar};
    let steps = [[1, 0, 0], [0, 1, 0], [1, 1, 0]];
    for (size, algorithm) in [([200, 200, 1], LevelSynchronous), ([8, 5000, 1], NearFar)] {
        let context = Context::builder().devices(Devices::host(2)).build().unwrap();
        let bfs = context.block_on(Bfs::new(&context, &mesh(size, &steps))).unwrap().unwrap();
        assert_eq!(bfs.algorithm(), algorithm, "{size:?}");
    }
}

#[test]
fn every_graph_weight_and_device_count_agrees_with_dijkstra() {
    for devices in [1, 2, 3, 4, 8] {
        let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
        let searched = check_awkward_graphs(&context, usize::MAX);
        assert!(searched > 4, "{searched} on {devices}");
        let searched = check_roads(&context, (60, 50, 100), 1);
        assert!(searched >= 24, "{searched} on {devices}");
    }
}

/// Lists of many blocks, on several threads.
#[test]
fn a_road_map_of_wide_lists() {
    let graph = road(640, 640, 100);
    let from = source::center(&graph).unwrap();
    let Some(Weights::Integer(weights)) = graph.weights() else { panic!("integers") };
    let zeros = weights.iter().map(|weight| weight % 3).collect();
    let zeros = sssp::with_weights(&graph, Weights::Integer(zeros));
    for (devices, threads) in [(1, 2), (2, 4), (4, 8)] {
        let builder = Context::builder().devices(Devices::host(devices));
        let context = builder.threads(threads).build().unwrap();
        for (graph, delta, predecessors) in
            [(&graph, Delta::Auto, false), (&graph, Delta::Off, true), (&zeros, Delta::Auto, true)]
        {
            let mut options = SsspOptions::default();
            (options.delta, options.predecessors) = (delta, predecessors);
            let parts = partition::edge_balanced_blocks(graph, devices);
            let result = run(&context, graph, parts, options, &[from]).unwrap();
            sssp::check(&format!("{delta:?} on {devices}"), graph, &[from], &result);
        }
    }
}

/// The first host device has packed rows of all: where it has no room for them, which is no error
/// unless they are asked for, another way is left.
#[test]
fn where_packed_rows_have_no_room_searches_go_another_way() {
    let graph = road(600, 600, 100);
    let from = source::center(&graph).unwrap();
    let search = |budget, algorithm| {
        let builder = Context::builder().devices(Devices::host(8)).memory_budget(budget);
        let context = builder.build().unwrap();
        let mut options = SsspOptions::default();
        options.algorithm = algorithm;
        let parts = partition::edge_balanced_blocks(&graph, 8);
        let sssp = Sssp::with_partition(&context, &graph, parts, options);
        let sssp = context.block_on(sssp).unwrap()?;
        Ok::<_, Error>((context.block_on(sssp.run(&[from])).unwrap()?, sssp.layouts().len()))
    };
    // Rows take 11.52 MB.
    let [little, much] = [11_000_000, 40_000_000];
    let failed = search(little, Algorithm::NearFar).map(drop).unwrap_err().to_string();
    assert!(failed.contains("11520000 bytes requested"), "{failed}");
    for (budget, layouts) in [(little, 0), (much, 1)] {
        let (result, its) = search(budget, Algorithm::Auto).unwrap();
        assert_eq!(its, layouts, "{budget}");
        sssp::check(&format!("{budget} bytes"), &graph, &[from], &result);
    }
}

#[test]
fn road_maps_are_searched_by_near_and_far_piles_breadth_first_too() {
    let graph = road(120, 90, 100);
    let from = source::center(&graph).unwrap();
    for devices in [1, 2, 3, 4, 8] {
        let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
        let parts = partition::edge_balanced_blocks(&graph, devices);
        let upload = Bfs::with_partition(&context, &graph, parts, BfsOptions::default());
        let mut bfs = context.block_on(upload).unwrap().unwrap();
        for (limit, predecessors, delta, step) in [
            (None, true, Delta::Auto, Some(128)),
            (Some(40), false, Delta::Step(2.5), Some(3)),
            (Some(0), true, Delta::Off, None),
        ] {
            let mut options = BfsOptions::default();
            options.algorithm = bfs::Algorithm::NearFar;
            (options.depth_limit, options.predecessors) = (limit, predecessors);
            options.delta = delta;
            bfs.set_options(options).unwrap();
            let result = context.block_on(bfs.run(&[from])).unwrap().unwrap();
            assert_eq!((result.algorithm, result.delta), (options.algorithm, step));
            let what = format!("{limit:?} on {devices}");
            crate::bfs::check(&what, &graph, &[from], &options, &result);
        }
    }
}

fn delayed(seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let graph = road(random.random_range(2..16), random.random_range(2..16), 20);
    let devices = random.random_range(1..5);
    let mut options = SsspOptions::default();
    options.predecessors = random.random();
    options.delta = deltas()[random.random_range(0..4usize)];
    let context = sssp::delaying(&mut random, seed, devices);
    let source = random.random_range(0..graph.vertices());
    let parts = partition::contiguous_blocks(&graph, devices);
    let what = format!("MILLSTREAM_SEED={seed}, {options:?}");
    let result = run(&context, &graph, parts, options, &[source]);
    sssp::check(
        &what,
        &graph,
        &[source],
        &result.unwrap_or_else(|error| panic!("{what}: {error}")),
    );
}

/// `MILLSTREAM_SEED=n` replays one.
#[test]
fn delayed_searches_by_near_and_far_are_right() {
    sssp::for_seeds(100, delayed);
}
