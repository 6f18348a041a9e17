//! A program of one's own on the distributed worklist: the widest path from vertex 0
//! to every other, as wide as its narrowest arc. `docs/worklist.md` walks through it.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-3` or `host:4`.

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use millstream::graph::{Weights, generate, partition};
use millstream::prelude::*;
use millstream::traversal::Error::Worklist;
use millstream::traversal::{Columns, DistributedGraph, Owners, PartWeights, Result};
use millstream::worklist::Error::NotFused;

problem! {
    /// A device's rows of the graph, and what it knows of the width to every vertex.
    pub struct Problem, Widths {
        offsets: Read<u64>,
        targets: Read<u32>,
        capacities: Read<u32>,
        widths: Shared<u32>,
        owners: Read<u32>,
    }
}

/// The program.
#[derive(Debug)]
pub struct WidestPath {
    owners: Owners,
}

impl Program for WidestPath {
    /// A vertex and its width.
    type Packet = [u32; 2];
    type Problem = Problem;

    fn pack(&self, view: &View<'_, Self>, _: &Here, vertex: u32) -> [u32; 2] {
        [vertex, view.widths[vertex as usize].load(Relaxed)]
    }

    fn unpack(&self, _: &View<'_, Self>, _: &Here, &[vertex, _]: &[u32; 2]) -> u32 {
        vertex
    }

    fn on_send(&self, _: &View<'_, Self>, here: &Here, vertex: u32) -> Flags {
        if self.owners.owns(here, vertex) { Flags::Keep } else { Flags::Pass }
    }

    fn on_receive(&self, view: &View<'_, Self>, here: &Here, packet: &[u32; 2]) -> Flags {
        let [vertex, width] = *packet;
        let before = view.widths[vertex as usize].fetch_max(width, Relaxed);
        match self.owners.owns(here, vertex) {
            _ if before >= width => Flags::Drop,
            true => Flags::Keep,
            false => Flags::Pass,
        }
    }

    fn priority(&self, view: &View<'_, Self>, vertex: u32) -> u32 {
        !view.widths[vertex as usize].load(Relaxed)
    }

    fn owner(&self, vertex: u32) -> Option<usize> {
        Some(self.owners.owner(vertex))
    }

    fn process(
        &self,
        view: &View<'_, Self>,
        here: &Here,
        vertex: u32,
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    ) {
        let width = view.widths[vertex as usize].load(Relaxed);
        for arc in self.owners.arcs(here, view.offsets, vertex) {
            let target = view.targets[arc];
            let through = width.min(view.capacities[arc]);
            if view.widths[target as usize].fetch_max(through, Relaxed) < through {
                emit(target);
            } else if !self.owners.owns(here, target) {
                *filtered += 1;
            }
        }
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        let (file, text) = ("examples/09-widest-path.cuh", include_str!("09-widest-path.cuh"));
        // SAFETY: its callbacks touch the program's memory, as the twins do, and nothing else.
        Some(unsafe { Trusted::new(CudaProgram { file, text, class: "WidestPath" }) })
    }
}

/// The width of the widest path from vertex 0 to each; 0 where there is none.
async fn widest_paths(graph: &DistributedGraph, worker: Worker) -> Result<Vec<u32>> {
    let (source, items) = (graph.sources(&[0])?[0], graph.vertices() as usize);
    let mut widths = vec![0; items];
    widths[source as usize] = u32::MAX;
    let widths = graph.shared(widths).await?;
    let mut problems = Vec::new();
    for (part, widths) in graph.parts().iter().zip(&widths) {
        let (offsets, targets) = (Arc::clone(&part.offsets), Arc::clone(&part.targets));
        let PartWeights::Integer(capacities) = &part.weights else { unreachable!("integers") };
        let (capacities, owners) = (Arc::clone(capacities), Arc::clone(&part.owners));
        let widths = widths.clone();
        problems.push(Arc::new(Problem { offsets, targets, capacities, widths, owners }));
    }
    let program = Arc::new(WidestPath { owners: graph.owners() });
    let worklist = DistributedWorklist::new(graph.context(), program, problems, items);
    let initial = [(graph.owners().owner(source), source)];
    let statistics = worklist.worker(worker).delta(Some(100)).run(&initial).await?;
    println!("{worker:?}: {} work items", statistics.work_items());
    Ok(graph.partition().restore(graph.gather(widths.into_iter(), |width| width).await?))
}

/// The same, one vertex after the other: Dijkstra's algorithm.
fn expected(graph: &CsrGraph) -> Vec<u32> {
    let Some(Weights::Integer(capacities)) = graph.weights() else { unreachable!("integers") };
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

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    set_driver_defaults();
    let options = generate::GenerateOptions { max_weight: Some(1000), seed: 0 };
    let roads = generate::road(100, 100, 605, &options)?;
    let context = Context::builder().devices(Devices::All).build()?;
    let parts = partition::edge_balanced_blocks(&roads, context.devices().len());
    context.block_on(async {
        let graph = DistributedGraph::new(&context, &roads, parts, Columns::Weighted).await?;
        for worker in [Worker::HostDriven, Worker::Fused] {
            match widest_paths(&graph, worker).await {
                Err(Worklist(NotFused { reason })) => println!("not fused: {reason}"),
                widths => assert_eq!(widths?, expected(&roads)),
            }
        }
        Ok(())
    })?
}
