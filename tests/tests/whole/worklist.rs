//! The worklist by way of BFS: random graphs over one to eight devices, with
//! queues and packets of a few entries, against the reference. Schedules are
//! simulated, so that a failure shrinks to a small case that can be replayed.

use millstream::bfs::{Bfs, BfsOptions, BfsResult, Delta};
use millstream::flow::{Context, Devices};
use millstream::graph::{CsrGraph, Partition, partition, reference, validate};
use millstream::worklist::Routing;
use proptest::prelude::*;

/// A run, but for its options.
#[derive(Debug)]
struct Case {
    graph: CsrGraph,
    sources: Vec<u32>,
    devices: usize,
    divide: fn(&CsrGraph, usize) -> Partition,
    schedule: u64,
}

fn graphs() -> impl Strategy<Value = (CsrGraph, Vec<u32>)> {
    (1..80u32).prop_flat_map(|vertices| {
        let vertex = 0..vertices;
        let arcs = prop::collection::vec((vertex.clone(), vertex.clone()), 0..240);
        let graph = arcs.prop_map(move |arcs| CsrGraph::from_edges(vertices, &arcs).unwrap());
        (graph, prop::collection::vec(vertex, 1..4))
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let random = |graph: &CsrGraph, parts| partition::random(graph, parts, 0);
    let divisions: [fn(&CsrGraph, usize) -> Partition; 3] =
        [partition::contiguous_blocks, partition::edge_balanced_blocks, random];
    let division = (0..divisions.len()).prop_map(move |place| divisions[place]);
    (graphs(), 1..=8usize, division, any::<u64>()).prop_map(
        |((graph, sources), devices, divide, schedule)| Case {
            graph,
            sources,
            devices,
            divide,
            schedule,
        },
    )
}

fn options() -> impl Strategy<Value = BfsOptions> {
    let sizes = (1..=8usize, 16..80usize, 1..=3usize, 1..=16u32);
    let routing = prop_oneof![Just(Routing::Ring), Just(Routing::Direct), Just(Routing::Auto)];
    let delta =
        prop_oneof![Just(Delta::Off), (1..4u32).prop_map(|levels| Delta::Step(levels.into()))];
    let depth_limit = prop_oneof![Just(None), (0..6u32).prop_map(Some)];
    (sizes, routing, delta, depth_limit, any::<bool>(), any::<bool>()).prop_map(
        |((entries, bytes, buffers, batch), routing, delta, depth_limit, halo, predecessors)| {
            let mut options = crate::bfs::asynchronous();
            options.worklist.queue_entries = Some(entries);
            options.worklist.packet_bytes = bytes;
            options.worklist.buffers = Some(buffers);
            options.worklist.batch = batch;
            options.worklist.routing = routing;
            options.delta = delta;
            options.depth_limit = depth_limit;
            options.worklist.halo_filter = halo;
            options.predecessors = predecessors;
            options
        },
    )
}

fn run(case: &Case, options: BfsOptions) -> BfsResult {
    let builder = Context::builder().devices(Devices::host(case.devices));
    let context = builder.simulated(case.schedule).build().unwrap();
    let parts = (case.divide)(&case.graph, case.devices);
    let search = async {
        let bfs = Bfs::with_partition(&context, &case.graph, parts, options).await?;
        bfs.run(&case.sources).await
    };
    context.block_on(search).unwrap().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tiny_queues_and_packets_change_no_answer(case in cases(), options in options()) {
        let result = run(&case, options);
        let levels = reference::bfs_levels(&case.graph, &case.sources, options.depth_limit);
        prop_assert_eq!(&result.levels, &levels);
        prop_assert_eq!(result.predecessors.is_some(), options.predecessors);
        if let Some(predecessors) = &result.predecessors {
            validate::bfs_predecessors(&case.graph, &levels, predecessors).unwrap();
        }
        for link in &result.statistics.links {
            prop_assert!(link.largest_packet_bytes <= options.worklist.packet_bytes as u64, "{:?}", link);
        }
    }
}
