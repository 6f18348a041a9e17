//! The level-synchronous BFS against the sequential reference: on awkward graphs,
//! directed ones too, device counts, partitioners, and going either way.

use millstream::bfs::{Algorithm, Bfs, BfsOptions, Error};
use millstream::flow::{Context, Devices};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, Partition, partition, source};
use millstream::traversal::LayoutKind;

use crate::awkward::graphs;
use crate::bfs::{check, run};

/// Options that go bottom-up, as usual, back and forth all the time, and only top-down.
pub(crate) fn ways() -> Vec<BfsOptions> {
    [(u32::MAX, u32::MAX), (14, 24), (u32::MAX, 0), (14, 0), (0, 24)]
        .into_iter()
        .map(|(alpha, beta)| {
            let mut options = BfsOptions::default();
            options.algorithm = Algorithm::LevelSynchronous;
            (options.alpha, options.beta) = (alpha, beta);
            options
        })
        .collect()
}

/// Everything that gives parts to devices.
pub(crate) fn partitions(graph: &CsrGraph, parts: usize) -> Vec<Partition> {
    let mut all = vec![
        partition::contiguous_blocks(graph, parts),
        partition::edge_balanced_blocks(graph, parts),
        partition::random(graph, parts, 1),
        partition::region_blocks(graph, parts),
    ];
    all.extend(partition::metis(graph, parts));
    all
}

#[test]
fn every_graph_partition_and_device_count_agrees_with_the_reference() {
    for (name, graph) in graphs() {
        for devices in [1, 2, 3, 4, 8] {
            let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
            for (round, parts) in partitions(&graph, devices).into_iter().enumerate() {
                for mut options in ways() {
                    options.predecessors = round % 2 == 0;
                    let result = run(&context, &graph, parts.clone(), options, &[0]);
                    check(name, &graph, &[0], &options, &result);
                    assert_eq!(result.statistics.work_items(), result.reached(), "{name}");
                }
            }
        }
    }
}

#[test]
fn near_and_far_piles_need_layouts() {
    let road =
        generate::road(60, 60, generate::KEEP_PERMILLE, &GenerateOptions::default()).unwrap();
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let mut options = BfsOptions::default();
    let mut bfs = context.block_on(Bfs::new(&context, &road)).unwrap().unwrap();
    assert_eq!(bfs.algorithm(), Algorithm::NearFar);
    options.layouts = false;
    bfs.set_options(options).unwrap();
    assert_eq!(bfs.algorithm(), Algorithm::LevelSynchronous);
    options.algorithm = Algorithm::NearFar;
    bfs.set_options(options).unwrap();
    let error = context.block_on(bfs.run(&[0])).unwrap().unwrap_err();
    assert!(matches!(error, Error::NearFarWithoutLayouts), "{error}");
}

/// One arc of each pair, so that going bottom-up needs other rows.
pub(crate) fn one_way(symmetric: &CsrGraph) -> CsrGraph {
    let arcs = (0..symmetric.vertices()).flat_map(|from| {
        let row = symmetric.neighbors(from).iter();
        row.filter(move |&&to| (from ^ to) % 3 != from % 3).map(move |&to| (from, to))
    });
    let arcs: Vec<_> = arcs.collect();
    CsrGraph::from_edges(symmetric.vertices(), &arcs).unwrap()
}

#[test]
fn directed_graphs_with_hubs() {
    let options = GenerateOptions::default();
    let graph = one_way(&generate::kron(10, 8, &options).unwrap());
    assert!(!graph.is_symmetric() && !partition::is_mesh_like(&graph));
    let busiest = source::max_degree(&graph).unwrap();
    for devices in [1, 3, 4] {
        let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
        for parts in partitions(&graph, devices) {
            for mut options in ways() {
                options.predecessors = true;
                let result = run(&context, &graph, parts.clone(), options, &[busiest, 5]);
                check("directed", &graph, &[busiest, 5], &options, &result);
            }
        }
    }
}

#[test]
fn where_the_arcs_that_enter_have_no_room_searches_go_top_down() {
    let graph = one_way(&generate::kron(13, 16, &GenerateOptions::default()).unwrap());
    let rows = 4 * graph.arcs() + 8 * u64::from(graph.vertices());
    for (budget, has_room) in [(rows * 3 / 2, false), (rows * 3, true)] {
        let context = Context::builder().devices(Devices::host(1)).memory_budget(budget);
        let context = context.build().unwrap();
        let bfs = context.block_on(Bfs::new(&context, &graph)).unwrap().unwrap();
        assert_eq!(bfs.algorithm(), Algorithm::LevelSynchronous);
        let is_there = bfs.layouts().iter().any(|layout| layout.kind == LayoutKind::Transpose);
        assert_eq!(is_there, has_room, "{budget}");
        let result = context.block_on(bfs.run(&[0])).unwrap().unwrap();
        check("with little room", &graph, &[0], bfs.options(), &result);
    }
}

#[test]
fn devices_that_can_go_level_by_level() {
    let graph = generate::kron(9, 8, &GenerateOptions::default()).unwrap();
    let context = Context::builder().devices(Devices::host(4)).build().unwrap();
    let mut bfs = context.block_on(Bfs::new(&context, &graph)).unwrap().unwrap();
    assert_eq!(bfs.algorithm(), Algorithm::LevelSynchronous);
    let mut options = BfsOptions::default();
    options.algorithm = Algorithm::Asynchronous;
    bfs.set_options(options).unwrap();
    assert_eq!(bfs.algorithm(), Algorithm::Asynchronous);
}

#[test]
fn devices_that_do_not_reach_each_other_cannot() {
    let builder = Context::builder().devices(Devices::host(2));
    let apart = r#"{ "links": [["memory", "host"], ["host", "memory"]] }"#;
    let context = builder.topology(apart.parse().unwrap()).build().unwrap();
    let graph = generate::kron(8, 8, &GenerateOptions::default()).unwrap();
    let mut bfs = context.block_on(Bfs::new(&context, &graph)).unwrap().unwrap();
    assert_eq!(bfs.algorithm(), Algorithm::Asynchronous);
    bfs.set_options(ways()[0]).unwrap();
    let error = context.block_on(bfs.run(&[0])).unwrap().unwrap_err();
    assert!(matches!(error, Error::NotLevelSynchronous));
}
