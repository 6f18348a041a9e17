//! The k-core of a graph on the distributed worklist, by packets that carry counts. The k-core is
//! what remains after vertices with fewer than k neighbours have been removed repeatedly, until
//! there are none. A work item is a removed vertex.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use millstream::prelude::*;
use millstream::traversal::Result;

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
pub struct KCore;

impl VertexProgram for KCore {
    /// How many of a vertex's neighbours have been removed.
    type Value = u32;
    type Problem = Problem;

    /// Takes the count out: it is sent only once, and what is added later is sent later.
    fn value(&self, view: &VertexView<'_, Self>, vertex: u32) -> u32 {
        view.gone[vertex as usize].swap(0, Relaxed)
    }

    fn receive(&self, view: &VertexView<'_, Self>, vertex: u32, count: u32, is_own: bool) -> bool {
        if !is_own {
            // If a count for the vertex has yet to be sent, this one goes along with it.
            return view.gone[vertex as usize].fetch_add(count, Relaxed) == 0;
        }
        let before = view.left[vertex as usize].fetch_sub(count, Relaxed);
        before >= view.k && before - count < view.k
    }

    fn process(
        &self,
        view: &VertexView<'_, Self>,
        place: &Place<'_>,
        vertex: u32,
        emit: &mut impl FnMut(u32),
        _: &mut u64,
    ) {
        for arc in place.arcs(view.offsets, vertex) {
            let target = view.targets[arc];
            if self.receive(view, target, 1, place.owns(target)) {
                emit(target);
            }
        }
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        let (file, text) = ("10-k-core/k_core.cuh", include_str!("k_core.cuh"));
        // SAFETY: like the twins, the callbacks touch only the program's own memory.
        Some(unsafe { Trusted::new(CudaProgram { file, text, class: "KCore", structs: &[] }) })
    }
}

/// Whether each vertex of `graph`, with neighbours by original id, is in its k-core.
pub async fn k_core(
    graph: &DistributedGraph,
    neighbours: &[u32],
    k: u32,
    worker: Worker,
) -> Result<Vec<bool>> {
    let degree = |new| neighbours[graph.partition().to_original(new) as usize];
    let (items, owners, mut problems) = (neighbours.len(), graph.owners(), Vec::new());
    let left: Vec<_> = (0..graph.vertices()).map(degree).collect();
    let (left, gone) = (graph.shared(left).await?, graph.shared(vec![0; items]).await?);
    for (part, (left, gone)) in graph.parts().iter().zip(left.iter().zip(gone)) {
        let (offsets, targets) = (Arc::clone(&part.offsets), Arc::clone(&part.targets));
        let (left, owners) = (left.clone(), Arc::clone(&part.owners));
        problems.push(Arc::new(Problem { offsets, targets, left, gone, owners, k }));
    }
    let few = (0..graph.vertices()).filter(|&v| degree(v) < k).map(|v| (owners.owner(v), v));
    let program = Arc::new(Vertices::new(graph.owners(), KCore));
    let worklist = DistributedWorklist::new(graph.context(), program, problems, items);
    let statistics = worklist.worker(worker).run(&few.collect::<Vec<_>>()).await?;
    println!("{worker:?}: {} of {items} vertices go", statistics.work_items());
    Ok(graph.partition().restore(graph.gather(left.into_iter(), |left| left >= k).await?))
}
