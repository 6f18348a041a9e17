//! The widest path from vertex 0 to every other vertex, on the distributed worklist.
//! `docs/worklist.md` walks through it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use millstream::prelude::*;
use millstream::traversal::Result;

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
pub struct WidestPath;

impl VertexProgram for WidestPath {
    /// A width.
    type Value = u32;
    type Problem = Problem;

    fn value(&self, view: &VertexView<'_, Self>, vertex: u32) -> u32 {
        view.widths[vertex as usize].load(Relaxed)
    }

    fn receive(&self, view: &VertexView<'_, Self>, vertex: u32, width: u32, _: bool) -> bool {
        view.widths[vertex as usize].fetch_max(width, Relaxed) < width
    }

    fn priority(&self, view: &VertexView<'_, Self>, vertex: u32) -> u32 {
        !view.widths[vertex as usize].load(Relaxed)
    }

    fn process(
        &self,
        view: &VertexView<'_, Self>,
        place: &Place<'_>,
        vertex: u32,
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    ) {
        let width = view.widths[vertex as usize].load(Relaxed);
        for arc in place.arcs(view.offsets, vertex) {
            let target = view.targets[arc];
            let through = width.min(view.capacities[arc]);
            if view.widths[target as usize].fetch_max(through, Relaxed) < through {
                emit(target);
            } else if !place.owns(target) {
                *filtered += 1;
            }
        }
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        let (file, text) = ("09-widest-path/widest_path.cuh", include_str!("widest_path.cuh"));
        // SAFETY: like the twins, the callbacks touch only the program's own memory.
        Some(unsafe { Trusted::new(CudaProgram { file, text, class: "WidestPath", structs: &[] }) })
    }
}

/// The width of the widest path from vertex 0 to each; 0 where there is none.
pub async fn widest_paths(graph: &DistributedGraph, worker: Worker) -> Result<Vec<u32>> {
    let (source, items) = (graph.sources(&[0])?[0], graph.vertices() as usize);
    let mut widths = vec![0; items];
    widths[source as usize] = u32::MAX;
    let widths = graph.shared(widths).await?;
    let mut problems = Vec::new();
    for (part, widths) in graph.parts().iter().zip(&widths) {
        let (offsets, targets) = (Arc::clone(&part.offsets), Arc::clone(&part.targets));
        let Some(capacities) = part.weights.integers() else { unreachable!("integers") };
        let (capacities, owners) = (Arc::clone(capacities), Arc::clone(&part.owners));
        let widths = widths.clone();
        problems.push(Arc::new(Problem { offsets, targets, capacities, widths, owners }));
    }
    let program = Arc::new(Vertices::new(graph.owners(), WidestPath));
    let worklist = DistributedWorklist::new(graph.context(), program, problems, items);
    let initial = [(graph.owners().owner(source), source)];
    let statistics = worklist.worker(worker).delta(Some(100)).run(&initial).await?;
    println!("{worker:?}: {} work items", statistics.work_items());
    Ok(graph.partition().restore(graph.gather(widths.into_iter(), |width| width).await?))
}
