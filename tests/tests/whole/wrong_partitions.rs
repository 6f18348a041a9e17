//! Partitions of other graphs, and for other devices, are errors of every algorithm.

use millstream::bfs::{Bfs, BfsOptions};
use millstream::cc::{Cc, CcOptions};
use millstream::flow::{Context, Devices};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::partition;
use millstream::pagerank::{PageRank, PageRankOptions};
use millstream::sssp::{Algorithm, Sssp, SsspOptions};

#[test]
fn every_algorithm_refuses_them() {
    let weighted = GenerateOptions { max_weight: Some(9), ..GenerateOptions::default() };
    let graph = generate::kron(7, 4, &weighted).unwrap();
    let smaller = generate::kron(6, 4, &weighted).unwrap();
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    for parts in [partition::random(&smaller, 2, 1), partition::random(&graph, 3, 1)] {
        let parts = || parts.clone();
        let refusals = async {
            let bfs = Bfs::with_partition(&context, &graph, parts(), BfsOptions::default());
            let bfs = bfs.await.map(drop).unwrap_err().to_string();
            let cc = Cc::with_partition(&context, &graph, parts(), CcOptions::default());
            let cc = cc.await.map(drop).unwrap_err().to_string();
            let ranks = PageRankOptions::default();
            let ranks = PageRank::with_partition(&context, &graph, parts(), ranks);
            let ranks = ranks.await.map(drop).unwrap_err().to_string();
            let mut all = vec![bfs, cc, ranks];
            for algorithm in [Algorithm::Stepping, Algorithm::Asynchronous] {
                let mut options = SsspOptions::default();
                options.algorithm = algorithm;
                let paths = Sssp::with_partition(&context, &graph, parts(), options).await;
                all.push(paths.map(drop).unwrap_err().to_string());
            }
            all
        };
        for said in context.block_on(refusals).unwrap() {
            assert!(said.contains("partition"), "{said}");
        }
    }
}
