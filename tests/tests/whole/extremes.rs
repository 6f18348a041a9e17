//! Graphs of one extreme shape, searched with default options: the way that is chosen must
//! be one whose time does not grow with the square of the vertices.

use std::time::{Duration, Instant};

use millstream::bfs::{self, Bfs, BfsOptions};
use millstream::cc::{CcOptions, Method};
use millstream::flow::{Context, Devices};
use millstream::graph::{CsrGraph, generate, partition};
use millstream::sssp::{self, Sssp};

use crate::bfs::check as check_levels;
use crate::cc::{check as check_components, run as find_components};
use crate::sssp::{check as check_distances, with_weights};

const VERTICES: u32 = 50_000;
/// Vertices of a clique.
const CLIQUE: u32 = 50;
/// Each search takes a tenth of a second or so; in steps that of the barbell would take four on
/// one device and sixteen on four.
const LIMIT: Duration = Duration::from_secs(3);

/// A graph, and the ways that are chosen for it, on one device and on four.
struct Shape {
    name: &'static str,
    graph: CsrGraph,
    bfs: [bfs::Algorithm; 2],
    sssp: [sssp::Algorithm; 2],
    cc: Method,
}

fn shapes() -> [Shape; 5] {
    use bfs::Algorithm as Bfs;
    use sssp::Algorithm as Sssp;

    let both = |edges: &[(u32, u32)]| -> Vec<(u32, u32)> {
        edges.iter().flat_map(|&(one, other)| [(one, other), (other, one)]).collect()
    };
    let graph = |edges: &[(u32, u32)]| CsrGraph::from_edges(VERTICES, edges).unwrap();
    let chain: Vec<_> = (1..VERTICES).map(|vertex| (vertex - 1, vertex)).collect();
    let cliques = [0, VERTICES - CLIQUE].into_iter().flat_map(|first| {
        let pairs = (0..CLIQUE).flat_map(|one| (0..one).map(move |other| (one, other)));
        pairs.map(move |(one, other)| (first + one, first + other))
    });
    let path = chain[CLIQUE as usize - 1..(VERTICES - CLIQUE) as usize].iter().copied();
    let barbell: Vec<_> = cliques.chain(path).collect();
    let star: Vec<_> = (1..VERTICES).map(|leaf| (0, leaf)).collect();
    let in_star: Vec<_> = star.iter().map(|&(hub, leaf)| (leaf, hub)).collect();
    [
        Shape {
            name: "chain",
            graph: graph(&both(&chain)),
            bfs: [Bfs::NearFar; 2],
            sssp: [Sssp::NearFar; 2],
            cc: Method::TowardsSmaller,
        },
        Shape {
            name: "chain in one direction",
            graph: graph(&chain),
            bfs: [Bfs::NearFar; 2],
            sssp: [Sssp::NearFar; 2],
            cc: Method::EveryArc,
        },
        Shape {
            name: "barbell",
            graph: graph(&both(&barbell)),
            bfs: [Bfs::NearFar; 2],
            sssp: [Sssp::NearFar; 2],
            cc: Method::TowardsSmaller,
        },
        Shape {
            name: "star",
            graph: graph(&both(&star)),
            bfs: [Bfs::LevelSynchronous; 2],
            sssp: [Sssp::Stepping; 2],
            cc: Method::TowardsSmaller,
        },
        Shape {
            name: "star of arcs into the hub",
            graph: graph(&in_star),
            bfs: [Bfs::NearFar; 2],
            sssp: [Sssp::Stepping; 2],
            cc: Method::EveryArc,
        },
    ]
}

/// One device and four.
fn contexts() -> [Context; 2] {
    [1, 4].map(|count| Context::builder().devices(Devices::host(count)).build().unwrap())
}

/// Runs a search, which may take so long.
fn within_limit<T>(what: &str, search: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let answer = search();
    let time = start.elapsed();
    println!("{what}: {time:?}");
    assert!(time < LIMIT, "{what}: {time:?}");
    answer
}

#[test]
fn breadth_first_searches() {
    for (place, context) in contexts().iter().enumerate() {
        for Shape { name, graph, bfs, .. } in shapes() {
            for source in [1, VERTICES / 2, VERTICES - 1] {
                let what = format!("{name} from {source} on {}", context.devices().len());
                let search = async { Bfs::new(context, &graph).await?.run(&[source]).await };
                let result = within_limit(&what, || context.block_on(search).unwrap().unwrap());
                assert_eq!(result.algorithm, bfs[place], "{what}");
                check_levels(&what, &graph, &[source], &BfsOptions::default(), &result);
            }
        }
    }
}

#[test]
fn shortest_paths() {
    for (place, context) in contexts().iter().enumerate() {
        for Shape { name, graph, sssp, .. } in shapes() {
            let weights = [generate::unit_weights(&graph), generate::random_weights(&graph, 64, 1)];
            for (kind, weights) in ["unit", "random"].into_iter().zip(weights) {
                let graph = with_weights(&graph, weights);
                let what = format!("{name}, {kind} weights, on {}", context.devices().len());
                let search = async { Sssp::new(context, &graph).await?.run(&[1]).await };
                let result = within_limit(&what, || context.block_on(search).unwrap().unwrap());
                assert_eq!(result.algorithm, sssp[place], "{what}");
                check_distances(&what, &graph, &[1], &result);
            }
        }
    }
}

#[test]
fn components() {
    for context in contexts() {
        for Shape { name, graph, cc, .. } in shapes() {
            let (what, options) =
                (format!("{name} on {}", context.devices().len()), CcOptions::default());
            let parts = partition::automatic(&graph, context.devices().len());
            let found = || find_components(&context, &graph, parts, options);
            let result = within_limit(&what, found);
            assert_eq!(result.method, Some(cc), "{what}");
            check_components(&what, &graph, &options, &result);
        }
    }
}
