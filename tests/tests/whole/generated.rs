//! Generated graphs of some size over four devices: a road map's many levels, and
//! a Kronecker graph's hubs.

use millstream::bfs::{Bfs, BfsOptions};
use millstream::flow::{Context, Devices};
use millstream::graph::generate::{self, GenerateOptions, KEEP_PERMILLE};
use millstream::graph::{CsrGraph, partition, reference, source, validate};

/// BFS with predecessors over four host devices, checked by the validators and
/// against the reference; the last level.
fn last_level(graph: &CsrGraph, source: u32) -> u32 {
    let context = Context::builder().devices(Devices::host(4)).build().unwrap();
    let mut options = BfsOptions::default();
    options.predecessors = true;
    let parts = partition::region_blocks(graph, 4);
    let search = async {
        let bfs = Bfs::with_partition(&context, graph, parts, options).await?;
        bfs.run(&[source]).await
    };
    let result = context.block_on(search).unwrap().unwrap();
    validate::bfs_levels(graph, &[source], None, &result.levels).unwrap();
    let predecessors = result.predecessors.as_ref().unwrap();
    validate::bfs_predecessors(graph, &result.levels, predecessors).unwrap();
    assert!(result.levels == reference::bfs_levels(graph, &[source], None));
    assert!(result.statistics.devices.iter().all(|device| device.work_items > 0));
    result.max_level().unwrap()
}

#[test]
fn a_road_map_of_a_million_vertices() {
    let graph = generate::road(1000, 1000, KEEP_PERMILLE, &GenerateOptions::default()).unwrap();
    let center = source::center(&graph).unwrap();
    let last = last_level(&graph, center);
    // At least the way to a corner of the lattice.
    assert!(last >= 1000, "{last}");
}

#[test]
fn a_kronecker_graph_of_scale_18() {
    let graph = generate::kron(18, 16, &GenerateOptions::default()).unwrap();
    let hub = source::max_degree(&graph).unwrap();
    assert!(graph.degree(hub) > 10_000, "{}", graph.degree(hub));
    let last = last_level(&graph, hub);
    assert!((3..10).contains(&last), "{last}");
}
