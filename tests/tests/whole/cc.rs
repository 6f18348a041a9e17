//! Connected components against union-find.

use std::time::Duration;

use millstream::cc::{Cc, CcOptions, CcResult, DeviceStatistics, Error, Method};
use millstream::device::Injection;
use millstream::flow::{Context, Devices};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, Partition, partition, reference, validate};

use crate::{awkward, near_far};

pub(crate) fn run(
    context: &Context,
    graph: &CsrGraph,
    parts: Partition,
    options: CcOptions,
) -> CcResult {
    let search = async { Cc::with_partition(context, graph, parts, options).await?.run().await };
    context.block_on(search).unwrap().unwrap()
}

pub(crate) fn run_streamed(
    context: &Context,
    graph: &CsrGraph,
    options: CcOptions,
) -> Result<CcResult, Error> {
    let search = Cc::run_streamed(context, graph.vertices(), arcs(graph), options);
    let result = context.block_on(search).unwrap()?;
    let of_rows = context.block_on(Cc::run_streamed_graph(context, graph, options)).unwrap()?;
    assert_eq!(of_rows.labels, result.labels);
    assert_eq!(of_rows.statistics.hooked(), result.statistics.hooked());
    Ok(result)
}

fn arcs(graph: &CsrGraph) -> Vec<(u32, u32)> {
    let rows = (0..graph.vertices()).map(|from| (from, graph.neighbors(from)));
    rows.flat_map(|(from, targets)| targets.iter().map(move |&to| (from, to))).collect()
}

/// Compares with the reference, and has the validator look at it.
pub(crate) fn check(what: &str, graph: &CsrGraph, options: &CcOptions, result: &CcResult) {
    let expected = reference::weak_components(graph);
    assert!(result.labels == expected, "{what}: {:?} not {expected:?}", result.labels);
    validate::weak_components(graph, &result.labels).unwrap();
    let sizes = result.sizes();
    assert_eq!(sizes.iter().map(|(_, size)| size).sum::<u32>(), graph.vertices(), "{what}");
    // Without these, no search is right.
    let needs_reverses = [Method::OutsideHub, Method::TowardsSmaller].map(Some);
    let has_reverses = needs_reverses.contains(&result.method) && !graph.is_symmetric();
    let arcs = if has_reverses { 2 * graph.arcs() } else { graph.arcs() };
    assert_eq!(result.statistics.hooked(), arcs, "{what}");
    for link in &result.statistics.links {
        assert!(link.largest_packet_bytes <= options.packet_bytes as u64, "{what}");
    }
}

/// Packets that are always too small.
pub(crate) fn tiny() -> CcOptions {
    let mut options = CcOptions::default();
    (options.packet_bytes, options.buffers) = (32, Some(1));
    options
}

fn host(devices: usize) -> Context {
    Context::builder().devices(Devices::host(devices)).build().unwrap()
}

/// Devices that do not reach each other's memory.
fn strangers(devices: usize) -> Context {
    let link = |from: usize, to: usize| if from == to { "\"memory\"" } else { "\"host\"" };
    let row = |from: usize| (0..devices).map(move |to| link(from, to)).collect::<Vec<_>>();
    let rows: Vec<_> = (0..devices).map(|from| format!("[{}]", row(from).join(", "))).collect();
    let topology = format!("{{ \"links\": [{}] }}", rows.join(", "));
    let builder = Context::builder().devices(Devices::host(devices));
    builder.topology(topology.parse().unwrap()).build().unwrap()
}

#[test]
fn every_graph_and_device_count_agrees_with_union_find() {
    for devices in [1, 2, 3, 4, 8] {
        let delay = Some(Duration::ZERO..=Duration::from_micros(20));
        let injection = Injection { reorder: true, delay, ..Injection::default() };
        let builder = Context::builder().devices(Devices::host(devices));
        let simulated = builder.simulated(devices as u64).injection(injection);
        let contexts = [host(devices), strangers(devices), simulated.build().unwrap()];
        for (turn, context) in contexts.into_iter().enumerate() {
            for (name, graph) in awkward::graphs().into_iter().chain(directed()) {
                let small = (graph.vertices() < 1000).then(tiny);
                for options in [Some(CcOptions::default()), small].into_iter().flatten() {
                    let what = format!("{name}, {devices} devices, {options:?}");
                    let parts = match (devices + turn) % 2 {
                        0 => partition::edge_balanced_blocks(&graph, devices),
                        _ => partition::random(&graph, devices, 1),
                    };
                    check(&what, &graph, &options, &run(&context, &graph, parts, options));
                    let streamed = run_streamed(&context, &graph, options).unwrap();
                    check(&format!("{what}, streamed"), &graph, &options, &streamed);
                }
            }
        }
    }
}

#[test]
fn only_pairs_that_say_something_are_merged() {
    // Host devices that reach each other's memory have one forest.
    check_merged_pairs(&host(2), 0);
    check_merged_pairs(&strangers(2), 2);
}

/// Devices of which the last names vertices of another merge so many pairs.
pub(crate) fn check_merged_pairs(context: &Context, pairs: u64) {
    let graph = CsrGraph::from_edges(1000, &[(0, 1), (999, 450), (999, 400)]).unwrap();
    let parts = partition::contiguous_blocks(&graph, context.devices().len());
    let result = run(context, &graph, parts, CcOptions::default());
    let sum = |count: fn(&DeviceStatistics) -> u64| {
        result.statistics.devices.iter().map(count).sum::<u64>()
    };
    let counts = [sum(|its| its.merged), sum(|its| its.sent), sum(|its| its.received)];
    assert_eq!(counts, [pairs; 3]);
    assert_eq!(result.statistics.links.iter().map(|link| link.bytes).sum::<u64>(), 8 * pairs);
    assert_eq!(result.sizes().len(), 997);
}

/// A hub whose component has members far from it, in front of which is a vertex of another.
pub(crate) fn far_members() -> CsrGraph {
    let clique = (64..128).flat_map(|one| (one + 1..128).map(move |other| (one, other)));
    let edges = clique.chain([(100, 40), (3, 40), (1, 2)]);
    let both: Vec<_> = edges.flat_map(|(one, other)| [(one, other), (other, one)]).collect();
    CsrGraph::from_edges(128, &both).unwrap()
}

/// Two stars whose leaves are next to each other in rings, and one edge between leaves of both: in
/// the smaller one no vertex has its hub in the other.
pub(crate) fn stars_apart() -> CsrGraph {
    let star = |hub: u32, leaves: u32| {
        let leaf = move |at: u32| hub + 1 + at % leaves;
        (0..leaves).flat_map(move |at| [hub, leaf(at + 1), leaf(at + 2)].map(|to| (leaf(at), to)))
    };
    let edges: Vec<_> = star(0, 2047).chain(star(2048, 1999)).chain([(1000, 3000)]).collect();
    let both: Vec<_> =
        edges.into_iter().flat_map(|(one, other)| [(one, other), (other, one)]).collect();
    CsrGraph::from_edges(4048, &both).unwrap()
}

#[test]
fn the_hub_is_hooked_with_the_smallest_member() {
    let options = CcOptions::default();
    for (name, graph) in [("far members", far_members()), ("stars apart", stars_apart())] {
        for devices in [1, 2, 3, 4, 8] {
            let parts = partition::contiguous_blocks(&graph, devices);
            let result = run(&host(devices), &graph, parts, options);
            assert_eq!(result.method, Some(Method::OutsideHub));
            check(name, &graph, &options, &result);
        }
    }
}

/// Graphs whose components would fall apart if an arc were left to its reverse, which
/// is not there.
pub(crate) fn directed() -> Vec<(&'static str, CsrGraph)> {
    let hub = (1..40).map(|to| (0, to));
    let away = hub.clone().chain([(40, 0), (41, 5), (50, 49), (50, 48)]);
    let dense = (0..60u32).flat_map(|from| (0..6).map(move |by| (from, (from * 7 + by) % 61)));
    let path = (0..30_000u32).map(|from| (from, from + 1));
    let back = (0..30_000u32).map(|from| (from + 1, from));
    // A row that warps share, of arcs without reverses; the next one is elsewhere.
    let long = (1..5000).map(|to| (0, to * 2)).chain([(1, 3)]);
    let graph = |vertices, edges: Vec<_>| CsrGraph::from_edges(vertices, &edges).unwrap();
    vec![
        ("directed hub", graph(61, away.collect())),
        ("directed dense", graph(61, dense.collect())),
        ("directed long row", graph(10_000, long.collect())),
        ("directed path", graph(30_001, path.collect())),
        ("reversed path", graph(30_001, back.collect())),
    ]
}

/// Graphs of few arcs, of several tiles also where tiles are small; rows of all lengths.
pub(crate) fn few_arcs() -> Vec<(&'static str, CsrGraph)> {
    const VERTICES: u32 = 9000;
    let random = |number: u32| number.wrapping_mul(0x9E37_79B1).rotate_left(15);
    let below = |number: u32, most: u32| random(number) % most;
    let star = |hub: u32| -> Vec<(u32, u32)> {
        (0..VERTICES).filter(|leaf| leaf % 7 > 0).map(|leaf| (hub, leaf)).collect()
    };
    // Chains of neighbours, which others cross.
    let near = (50..VERTICES).flat_map(|from| {
        let way = |number, chance, by| (below(4 * from + number, 10) < chance, by);
        let ways = [way(0, 6, 1), way(1, 4, 2), way(2, 2, 3), way(3, 2, below(from, 50))];
        ways.into_iter().filter_map(move |(is_edge, by)| is_edge.then_some((from, from - by)))
    });
    let far = (0..VERTICES).map(|edge| (below(2 * edge, VERTICES), below(2 * edge + 1, VERTICES)));
    // Rows of up to 60 arcs, of neighbours and of others; an arc in three is there twice.
    let rows = (0..100).flat_map(|hub| {
        let from = hub * 89 + 50;
        let to = move |arc| match arc % 3 {
            0 => from - arc % 50,
            1 => from + arc % 50,
            _ => below(60 * hub + arc, VERTICES),
        };
        (0..hub * 3 / 5).flat_map(move |arc| vec![(from, to(arc)); 1 + (arc % 3 / 2) as usize])
    });
    let graph = |edges: Vec<(u32, u32)>| {
        // A loop is its own reverse.
        let back = edges.iter().filter(|(from, to)| from != to).map(|&(from, to)| (to, from));
        let both: Vec<_> = edges.iter().copied().chain(back).collect();
        CsrGraph::from_edges(VERTICES, &both).unwrap()
    };
    vec![
        ("star of the first", graph(star(0))),
        ("star of one between", graph(star(VERTICES / 2 + 77))),
        ("star of the last", graph(star(VERTICES - 1))),
        ("near", graph(near.collect())),
        ("far", graph(far.collect())),
        ("rows of all lengths", graph(rows.collect())),
    ]
}

/// Steps to all that is beside a vertex in space, one of two opposite ones each.
pub(crate) fn cube() -> Vec<[i64; 3]> {
    let (row, layer) = ([[1, 0, 0]], (-1..=1).map(|right| [right, 1, 0]));
    let behind = (-1..=1).flat_map(|down| (-1..=1).map(move |right| [right, down, 1]));
    row.into_iter().chain(layer).chain(behind).collect()
}

/// Meshes of many arcs a vertex, one in three of which is not there, so that some lie apart; rows of up to 40.
pub(crate) fn meshes() -> Vec<(&'static str, CsrGraph)> {
    let band: Vec<_> = (1..=20).map(|by| [by, 0, 0]).collect();
    let mesh = |size, steps: &[[i64; 3]]| {
        let mesh = near_far::mesh(size, steps);
        let arcs = arcs(&mesh).into_iter();
        let stays = |(from, to): &(u32, u32)| !(from ^ to ^ ((from + to) / 7)).is_multiple_of(3);
        CsrGraph::from_edges(mesh.vertices(), &arcs.filter(stays).collect::<Vec<_>>()).unwrap()
    };
    vec![
        ("triangles", mesh([90, 70, 1], &[[1, 0, 0], [0, 1, 0], [1, 1, 0]])),
        ("square", mesh([70, 60, 1], &near_far::square())),
        ("cube", mesh([60, 12, 12], &cube())),
        ("band", mesh([4000, 1, 1], &band)),
    ]
}

#[test]
fn graphs_of_few_arcs_and_meshes_are_hooked_towards_smaller_vertices() {
    for (name, graph) in few_arcs().into_iter().chain(meshes()) {
        for devices in [1, 3] {
            for parts in [
                partition::contiguous_blocks(&graph, devices),
                partition::random(&graph, devices, 1),
            ] {
                let options = CcOptions::default();
                for context in [host(devices), strangers(devices)] {
                    let result = run(&context, &graph, parts.clone(), options);
                    assert_eq!(result.method, Some(Method::TowardsSmaller), "{name}");
                    check(name, &graph, &options, &result);
                }
            }
        }
    }
}

#[test]
fn the_method_follows_from_the_shape() {
    let options = GenerateOptions::default();
    let kron = generate::kron(10, 16, &options).unwrap();
    let road = generate::road(200, 200, generate::KEEP_PERMILLE, &options).unwrap();
    let one_way = CsrGraph::from_edges(3, &[(0, 1), (1, 2), (2, 0)]).unwrap();
    let cube = near_far::mesh([40; 3], &cube());
    // A search from one would find no other.
    let cliques = near_far::mesh([8, 8, 8], &[[1, 0, 0], [2, 0, 0], [3, 0, 0], [4, 0, 0]]);
    for (graph, method) in [
        (kron, Method::OutsideHub),
        (road, Method::TowardsSmaller),
        (cliques, Method::TowardsSmaller),
        (cube, Method::OutsideHub),
        (one_way, Method::EveryArc),
    ] {
        for parts in [partition::contiguous_blocks(&graph, 3), partition::random(&graph, 3, 1)] {
            let context = host(3);
            let upload = Cc::with_partition(&context, &graph, parts.clone(), CcOptions::default());
            assert_eq!(context.block_on(upload).unwrap().unwrap().method(), method);
            let result = run(&context, &graph, parts, CcOptions::default());
            assert_eq!(result.method, Some(method));
            check("method", &graph, &CcOptions::default(), &result);
        }
    }
}

#[test]
fn an_edge_of_no_vertex_ends_a_stream_with_an_error() {
    let context = host(2);
    // What comes after the first does not count.
    let edges = [(0, 1), (1, 5), (2, 0), (7, 7)];
    let search = Cc::run_streamed(&context, 5, edges, CcOptions::default());
    let error = context.block_on(search).unwrap().unwrap_err();
    assert!(matches!(error, Error::VertexOutOfRange { edge: 1, vertex: 5, vertices: 5 }));
    let nothing = CsrGraph::from_edges(0, &[]).unwrap();
    assert!(run_streamed(&context, &nothing, CcOptions::default()).unwrap().labels.is_empty());
}

#[test]
fn roads_and_kronecker_graphs() {
    let options = GenerateOptions::default();
    for (name, graph) in [
        ("road", generate::road(300, 300, generate::KEEP_PERMILLE, &options).unwrap()),
        ("kron", generate::kron(14, 16, &options).unwrap()),
    ] {
        let (context, options) = (host(4), CcOptions::default());
        let resident = run(&context, &graph, partition::region_blocks(&graph, 4), options);
        check(name, &graph, &options, &resident);
        // Many more segments than one device has buffers.
        let mut options = options;
        options.packet_bytes = 1 << 12;
        let streamed = run_streamed(&context, &graph, options).unwrap();
        check(name, &graph, &options, &streamed);
        assert!(streamed.statistics.devices.iter().filter(|device| device.hooked > 0).count() > 1);
        println!("{name}: {:?} resident, {:?} streamed", resident.run_time, streamed.run_time);
    }
}
