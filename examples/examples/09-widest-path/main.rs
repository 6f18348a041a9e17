//! A program of one's own on the distributed worklist: the widest path from vertex 0 to every other
//! vertex, where a path is as wide as its narrowest arc. `widest_path.rs` has all of it;
//! `docs/worklist.md` walks through it.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-3` or `host:4`.

mod widest_path;

use std::collections::BinaryHeap;

use millstream::graph::{Weights, generate, partition};
use millstream::prelude::*;
use millstream::traversal::Error::Worklist;
use millstream::worklist::Error::NotFused;
use widest_path::widest_paths;

/// The same widths, computed sequentially by Dijkstra's algorithm.
fn expected(graph: &CsrGraph) -> Vec<u32> {
    let capacities = graph.weights().and_then(Weights::as_integers).unwrap_or_default();
    let mut widths = vec![0; graph.vertices() as usize];
    widths[0] = u32::MAX;
    let mut heap = BinaryHeap::from([(u32::MAX, 0)]);
    while let Some((width, vertex)) = heap.pop() {
        for arc in graph.row(vertex) {
            let (target, through) = (graph.targets()[arc], width.min(capacities[arc]));
            if through > widths[target as usize] {
                widths[target as usize] = through;
                heap.push((through, target));
            }
        }
    }
    widths
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    set_driver_defaults();
    let options = generate::GenerateOptions { max_weight: Some(1000), seed: 0 };
    let roads = generate::road(100, 100, 605, &options)?;
    let context = Context::builder().devices(Devices::All).build()?;
    let devices = context.devices().len();
    context.block_on(async {
        for parts in [
            partition::edge_balanced_blocks(&roads, devices),
            partition::random(&roads, devices, 0),
        ] {
            let graph = DistributedGraph::new(&context, &roads, parts, Columns::Weighted).await?;
            for worker in [Worker::HostDriven, Worker::Fused] {
                match widest_paths(&graph, worker).await {
                    Err(Worklist(NotFused { reason })) => println!("not fused: {reason}"),
                    widths => assert_eq!(widths?, expected(&roads)),
                }
            }
        }
        Ok(())
    })?
}
