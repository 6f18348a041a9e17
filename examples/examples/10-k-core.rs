//! The k-core of a graph, as a program whose packets count: what is left when vertices
//! with fewer than k neighbours go, until none has fewer. An item is one that has gone.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-3` or `host:4`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use millstream::graph::{generate, partition};
use millstream::prelude::*;
use millstream::traversal::Error::Worklist;
use millstream::traversal::{Columns, DistributedGraph, Owners, Result};
use millstream::worklist::Error::NotFused;

problem! {
    /// A device's rows of the graph, the neighbours that its vertices have left, and how
    /// many neighbours of others' vertices have gone since their owners were told.
    pub struct Problem, Neighbours {
        offsets: Read<u64>,
        targets: Read<u32>,
        left: Shared<u32>,
        gone: Shared<u32>,
        owners: Read<u32>,
        k: Value<u32>,
    }
}

/// The program.
#[derive(Debug)]
pub struct KCore {
    owners: Owners,
}

impl Neighbours<'_> {
    /// Takes neighbours from an owned vertex; whether this makes them too few.
    fn take(&self, vertex: u32, count: u32) -> bool {
        let before = self.left[vertex as usize].fetch_sub(count, Relaxed);
        before >= self.k && before - count < self.k
    }
}

impl Program for KCore {
    /// A vertex, and how many of its neighbours have gone.
    type Packet = [u32; 2];
    type Problem = Problem;

    /// Takes the count: it is sent once, and what is added later goes later.
    fn pack(&self, view: &View<'_, Self>, _: &Here, vertex: u32) -> [u32; 2] {
        [vertex, view.gone[vertex as usize].swap(0, Relaxed)]
    }

    fn unpack(&self, _: &View<'_, Self>, _: &Here, &[vertex, _]: &[u32; 2]) -> u32 {
        vertex
    }

    fn on_send(&self, _: &View<'_, Self>, here: &Here, vertex: u32) -> Flags {
        if self.owners.owns(here, vertex) { Flags::Keep } else { Flags::Pass }
    }

    fn on_receive(&self, view: &View<'_, Self>, here: &Here, packet: &[u32; 2]) -> Flags {
        let [vertex, count] = *packet;
        if !self.owners.owns(here, vertex) {
            view.gone[vertex as usize].fetch_add(count, Relaxed);
            return Flags::Pass;
        }
        if view.take(vertex, count) { Flags::Keep } else { Flags::Drop }
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
        _: &mut u64,
    ) {
        for arc in self.owners.arcs(here, view.offsets, vertex) {
            let target = view.targets[arc];
            let emits = match self.owners.owns(here, target) {
                true => view.take(target, 1),
                // What is not sent yet takes this one along.
                false => view.gone[target as usize].fetch_add(1, Relaxed) == 0,
            };
            if emits {
                emit(target);
            }
        }
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        let (file, text) = ("examples/10-k-core.cuh", include_str!("10-k-core.cuh"));
        // SAFETY: its callbacks touch the program's memory, as the twins do, and nothing else.
        Some(unsafe { Trusted::new(CudaProgram { file, text, class: "KCore" }) })
    }
}

const K: u32 = 10;

/// Whether each vertex of `graph` is in its k-core.
async fn k_core(graph: &DistributedGraph, degrees: &[u32], worker: Worker) -> Result<Vec<bool>> {
    let (left, gone) = (graph.shared(degrees).await?, graph.shared(vec![0; degrees.len()]).await?);
    let (owners, mut problems) = (graph.owners(), Vec::new());
    for (part, (left, gone)) in graph.parts().iter().zip(left.iter().zip(gone)) {
        let (offsets, targets) = (Arc::clone(&part.offsets), Arc::clone(&part.targets));
        let (left, owners) = (left.clone(), Arc::clone(&part.owners));
        problems.push(Arc::new(Problem { offsets, targets, left, gone, owners, k: K }));
    }
    let few = (0..graph.vertices()).filter(|&v| degrees[v as usize] < K);
    let initial: Vec<_> = few.map(|v| (owners.owner(v), v)).collect();
    let (program, items) = (Arc::new(KCore { owners }), degrees.len());
    let worklist = DistributedWorklist::new(graph.context(), program, problems, items);
    let statistics = worklist.worker(worker).run(&initial).await?;
    println!("{worker:?}: {} of {} vertices go", statistics.work_items(), degrees.len());
    graph.gather(left.into_iter(), |left| left >= K).await
}

/// The same, one vertex after the other.
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

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    set_driver_defaults();
    let network = generate::social(12, 8, &generate::GenerateOptions::default())?;
    let degrees: Vec<u32> = (0..network.vertices()).map(|v| network.degree(v) as u32).collect();
    let context = Context::builder().devices(Devices::All).build()?;
    let parts = partition::edge_balanced_blocks(&network, context.devices().len());
    context.block_on(async {
        let graph = DistributedGraph::new(&context, &network, parts, Columns::Structure).await?;
        for worker in [Worker::HostDriven, Worker::Fused] {
            match k_core(&graph, &degrees, worker).await {
                Err(Worklist(NotFused { reason })) => println!("not fused: {reason}"),
                core => assert_eq!(core?, expected(&network, degrees.clone())),
            }
        }
        Ok(())
    })?
}
