//! BFS against the sequential reference, on awkward graphs, device counts,
//! routings, tiny queues and packets, on threads and simulated.

use millstream::bfs::{Algorithm, Bfs, BfsOptions, BfsResult, Error};
use millstream::device::Injection;
use millstream::flow::{Context, Devices};
use millstream::graph::{CsrGraph, Partition, partition, reference, validate};
use millstream::traversal;
use millstream::worklist::{DeviceStatistics, Routing};

use crate::awkward::graphs;

pub(crate) fn check(
    name: &str,
    graph: &CsrGraph,
    sources: &[u32],
    options: &BfsOptions,
    result: &BfsResult,
) {
    let expected = reference::bfs_levels(graph, sources, options.depth_limit);
    assert_eq!(result.levels, expected, "{name}, {options:?}");
    if let Some(predecessors) = &result.predecessors {
        validate::bfs_predecessors(graph, &expected, predecessors).unwrap();
    }
    let devices = &result.statistics.devices;
    let sum = |field: fn(&DeviceStatistics) -> u64| -> u64 { devices.iter().map(field).sum() };
    assert_eq!(sum(|device| device.sent), sum(|device| device.received), "{name}");
    for device in devices {
        assert_eq!(device.received, device.kept + device.passed + device.dropped, "{name}");
    }
    for link in &result.statistics.links {
        assert!(link.largest_packet_bytes <= options.worklist.packet_bytes as u64, "{name}");
    }
}

pub(crate) fn run(
    context: &Context,
    graph: &CsrGraph,
    parts: Partition,
    options: BfsOptions,
    sources: &[u32],
) -> BfsResult {
    let search = async {
        let bfs = Bfs::with_partition(context, graph, parts, options).await?;
        bfs.run(sources).await
    };
    context.block_on(search).unwrap().unwrap()
}

pub(crate) fn asynchronous() -> BfsOptions {
    let mut options = BfsOptions::default();
    options.algorithm = Algorithm::Asynchronous;
    options
}

fn tiny() -> BfsOptions {
    let mut options = asynchronous();
    options.worklist.packet_bytes = 32;
    options.worklist.queue_entries = Some(4);
    options.worklist.batch = 5;
    options
}

#[test]
fn every_graph_routing_and_device_count_agrees_with_the_reference() {
    for (name, graph) in graphs() {
        for devices in [1, 2, 3, 4, 8] {
            let parts = partition::contiguous_blocks(&graph, devices);
            for (round, routing) in [Routing::Ring, Routing::Direct].into_iter().enumerate() {
                for options in [asynchronous(), tiny()] {
                    let mut options = options;
                    options.worklist.routing = routing;
                    options.predecessors = devices % 2 == 1;
                    let builder = || Context::builder().devices(Devices::host(devices));
                    let injection = Injection { reorder: true, ..Injection::default() };
                    let seed = (devices * 2 + round) as u64;
                    for builder in [builder(), builder().simulated(seed).injection(injection)] {
                        let context = builder.build().unwrap();
                        let result = run(&context, &graph, parts.clone(), options, &[0]);
                        check(name, &graph, &[0], &options, &result);
                    }
                }
            }
        }
    }
}

#[test]
fn several_sources_and_a_depth_limit() {
    let (name, graph) = graphs().swap_remove(7);
    let context = Context::builder().devices(Devices::host(4)).build().unwrap();
    for algorithm in [Algorithm::Asynchronous, Algorithm::LevelSynchronous] {
        for depth_limit in [0, 1, 2, 5] {
            let mut options = BfsOptions::default();
            (options.algorithm, options.depth_limit) = (algorithm, Some(depth_limit));
            let parts = partition::edge_balanced_blocks(&graph, 4);
            let result = run(&context, &graph, parts, options, &[3, 250, 3]);
            check(name, &graph, &[3, 250], &options, &result);
        }
    }
}

#[test]
fn a_source_that_is_no_vertex_is_refused() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let graph = CsrGraph::from_edges(3, &[]).unwrap();
    let search = async { Bfs::new(&context, &graph).await?.run(&[3]).await };
    let error = context.block_on(search).unwrap().unwrap_err();
    let Error::Traversal(error) = error else { panic!("{error}") };
    assert!(matches!(error, traversal::Error::SourceOutOfRange { source_vertex: 3, .. }));
}

#[test]
fn one_graph_serves_two_runs_at_once() {
    let (name, graph) = graphs().swap_remove(7);
    let context = Context::builder().devices(Devices::host(3)).build().unwrap();
    let both = async {
        let bfs = Bfs::new(&context, &graph).await?;
        futures_util::try_join!(bfs.run(&[1]), bfs.run(&[200]))
    };
    let (first, second) = context.block_on(both).unwrap().unwrap();
    check(name, &graph, &[1], &BfsOptions::default(), &first);
    check(name, &graph, &[200], &BfsOptions::default(), &second);
}
