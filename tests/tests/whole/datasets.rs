//! The graphs of `datasets/` and, where `MILLSTREAM_DATASETS` is set, the real
//! ones, against their known answers.

use std::path::{Path, PathBuf};

use millstream::bfs::Bfs;
use millstream::cc::Cc;
use millstream::flow::{Context, Devices};
use millstream::graph::read::{ReadOptions, read_graph};
use millstream::graph::{CsrGraph, generate, reference, source, validate};
use millstream::pagerank::{Algorithm, PageRankOptions};
use millstream::sssp::Sssp;

use crate::pagerank;

/// BFS over `devices` host devices, verified; reached vertices and last level.
fn answers(graph: &CsrGraph, source: u32, devices: usize) -> (u64, u32) {
    let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
    let search = async { Bfs::new(&context, graph).await?.run(&[source]).await };
    let result = context.block_on(search).unwrap().unwrap();
    validate::bfs_levels(graph, &[source], None, &result.levels).unwrap();
    // Every device that owns reached vertices processed items.
    let partition = millstream::graph::partition::edge_balanced_blocks(graph, devices);
    for (device, range) in partition.boundaries().windows(2).enumerate() {
        let owned = &result.levels[range[0] as usize..range[1] as usize];
        let reached = owned.iter().any(|&level| level != u32::MAX);
        let work_items = result.statistics.devices[device].work_items;
        assert_eq!(reached, work_items > 0, "device {device} of {devices}");
    }
    (result.reached(), result.max_level().unwrap())
}

/// Shortest paths, ranks by pulling and by pushing, and components over `devices` host devices,
/// verified.
fn everything_else(graph: &CsrGraph, devices: usize) {
    let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
    let weights = generate::random_weights(graph, 64, 1);
    let graph = graph.clone().with_weights(Some(weights)).unwrap();
    let source = source::max_degree(&graph).unwrap();
    let searches = async {
        let sssp = Sssp::new(&context, &graph).await.unwrap().run(&[source]).await.unwrap();
        (sssp, Cc::new(&context, &graph).await.unwrap().run().await.unwrap())
    };
    let (sssp, cc) = context.block_on(searches).unwrap();
    validate::sssp_distances(&graph, &[source], None, &sssp.distances).unwrap();
    validate::weak_components(&graph, &cc.labels).unwrap();
    for algorithm in pagerank::ALGORITHMS {
        let mut options = PageRankOptions::default();
        options.algorithm = algorithm;
        let question = options.question();
        let result = pagerank::run(&context, &graph, options).unwrap();
        validate::pagerank(&graph, &question, &result.ranks, 1e-4).unwrap();
    }
}

/// How many weak components there are, and vertices of the largest.
fn weak_components(graph: &CsrGraph) -> (usize, usize) {
    let mut sizes = vec![0; graph.vertices() as usize];
    for label in reference::weak_components(graph) {
        sizes[label as usize] += 1;
    }
    (sizes.iter().filter(|size| **size > 0).count(), sizes.into_iter().max().unwrap())
}

/// A graph of `datasets/`: of the repository, or beside a program that was packed.
pub(crate) fn our_graph(file: &str, symmetrize: bool) -> CsrGraph {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets");
    let folder = if folder.is_dir() { folder } else { PathBuf::from("datasets") };
    let mut options = ReadOptions::default();
    options.symmetrize = symmetrize;
    read_graph(folder.join(file), &options).unwrap()
}

#[test]
fn our_graphs_have_their_answers() {
    let cases = [
        ("karate.mtx", false, 33, (34, 4)),
        ("florentine.mtx", false, 8, (15, 3)),
        ("petersen.mtx", false, 0, (10, 2)),
        ("sluice.el", false, 2, (8, 5)),
        ("debian-dependencies.el.gz", false, 46_515, (1_234, 9)),
        ("debian-dependencies.el.gz", true, 16_821, (59_161, 8)),
    ];
    for (file, symmetrize, source, expected) in cases {
        let graph = our_graph(file, symmetrize);
        for devices in [1, 2, 3, 4, 8] {
            assert_eq!(answers(&graph, source, devices), expected, "{file} on {devices}");
            everything_else(&graph, devices);
        }
    }
}

/// Most of what one package needs ends at packages that need nothing, and there are loops on the way.
#[test]
fn ranks_near_one_package_by_pushing() {
    let graph = our_graph("debian-dependencies.el.gz", false);
    for devices in [1, 4] {
        let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
        let mut options = PageRankOptions::default();
        options.algorithm = Algorithm::Push;
        options.personalization = vec![0];
        let result = pagerank::run(&context, &graph, options.clone()).unwrap();
        pagerank::check(&format!("{devices} devices"), &graph, &options, &result);
        assert!(result.iterations < 28, "more work than by pulling: {}", result.iterations);
    }
}

/// A real graph, and what is known of it.
pub(crate) struct RealGraph {
    pub(crate) file: &'static str,
    /// Vertices and arcs.
    pub(crate) size: (u32, u64),
    /// Weak components, and vertices of the largest.
    pub(crate) components: (usize, usize),
    pub(crate) source: u32,
    /// How many vertices the source reaches.
    pub(crate) reached: u64,
    pub(crate) eccentricity: u32,
}

const fn real(
    file: &'static str,
    size: (u32, u64),
    components: (usize, usize),
    (source, reached, eccentricity): (u32, u64, u32),
) -> RealGraph {
    RealGraph { file, size, components, source, reached, eccentricity }
}

pub(crate) const REAL_GRAPHS: [RealGraph; 5] = [
    real("chesapeake.mtx", (39, 340), (1, 39), (38, 39, 2)),
    real("luxembourg_osm.mtx.gz", (114_599, 239_332), (1, 114_599), (6_397, 114_599, 951)),
    real("soc-slashdot0902.mtx.gz", (82_168, 948_464), (1, 82_168), (2_494, 82_168, 8)),
    real("email-Eu-core.csv", (1_005, 25_571), (20, 986), (160, 965, 4)),
    real("netscience.mtx", (1_589, 5_484), (396, 379), (33, 379, 10)),
];

/// Reads it, where `MILLSTREAM_DATASETS` is set; says so if not.
pub(crate) fn real_graph(facts: &RealGraph) -> Option<CsrGraph> {
    let Some(folder) = std::env::var_os("MILLSTREAM_DATASETS").map(PathBuf::from) else {
        println!("skipped: MILLSTREAM_DATASETS is not set");
        return None;
    };
    let graph = read_graph(folder.join(facts.file), &ReadOptions::default()).unwrap();
    assert_eq!((graph.vertices(), graph.arcs()), facts.size, "{}", facts.file);
    Some(graph)
}

#[test]
fn real_graphs_have_their_answers() {
    for facts in &REAL_GRAPHS {
        let Some(graph) = real_graph(facts) else {
            return;
        };
        let file = facts.file;
        assert_eq!(weak_components(&graph), facts.components, "{file}");
        for devices in [1, 2, 3, 4, 8] {
            let start = std::time::Instant::now();
            let found = answers(&graph, facts.source, devices);
            let expected = (facts.reached, facts.eccentricity);
            assert_eq!(found, expected, "{file} on {devices} devices");
            everything_else(&graph, devices);
            println!("{file}: verified on {devices} host devices in {:?}", start.elapsed());
        }
    }
}
