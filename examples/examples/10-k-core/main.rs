//! The k-core of a graph, by a program of one's own on the distributed worklist: `k_core.rs` has
//! all of it. `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-3` or `host:4`.

mod k_core;

use k_core::k_core;
use millstream::graph::{generate, partition};
use millstream::prelude::*;
use millstream::traversal::Error::Worklist;
use millstream::worklist::Error::NotFused;

const K: u32 = 10;

/// The same core, computed sequentially.
fn expected(graph: &CsrGraph, mut left: Vec<u32>) -> Vec<bool> {
    let mut few: Vec<_> = (0..graph.vertices()).filter(|&v| left[v as usize] < K).collect();
    while let Some(vertex) = few.pop() {
        for &neighbour in graph.neighbors(vertex) {
            left[neighbour as usize] -= 1;
            if left[neighbour as usize] + 1 == K {
                few.push(neighbour);
            }
        }
    }
    left.into_iter().map(|left| left >= K).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    set_driver_defaults();
    let network = generate::social(12, 8, &generate::GenerateOptions::default())?;
    let degrees: Vec<u32> = (0..network.vertices()).map(|v| network.degree(v) as u32).collect();
    let context = Context::builder().devices(Devices::All).build()?;
    let devices = context.devices().len();
    context.block_on(async {
        for parts in [
            partition::edge_balanced_blocks(&network, devices),
            partition::random(&network, devices, 0),
        ] {
            let columns = Columns::Structure;
            let graph = DistributedGraph::new(&context, &network, parts, columns).await?;
            for worker in [Worker::HostDriven, Worker::Fused] {
                match k_core(&graph, &degrees, K, worker).await {
                    Err(Worklist(NotFused { reason })) => println!("not fused: {reason}"),
                    core => assert_eq!(core?, expected(&network, degrees.clone())),
                }
            }
        }
        Ok(())
    })?
}
