//! What a search finds.

use std::time::Duration;

use millstream_traversal::UNREACHED;
use millstream_traversal::internals::path_to;
use millstream_worklist::WorklistStatistics;

use crate::algorithm::Algorithm;

/// What a BFS found, by original vertex id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BfsResult {
    /// Arcs from the nearest source; [`UNREACHED`] where there is no path.
    pub levels: Vec<u32>,
    /// The previous vertex on such a path; [`UNREACHED`] for sources and unreached
    /// vertices. `None` unless asked for.
    pub predecessors: Option<Vec<u32>>,
    /// The algorithm that gave the answer: not [`Bfs::algorithm`](crate::Bfs::algorithm) if that gave up.
    pub algorithm: Algorithm,
    /// What the devices did.
    pub statistics: WorklistStatistics,
    /// The step of the priority threshold, or between near and far piles, in levels; `None` without.
    pub delta: Option<u32>,
    /// The time from the first item to the last, without moving values to or from the devices; it includes
    /// the attempt of [`Bfs::algorithm`](crate::Bfs::algorithm) if that gave up.
    pub run_time: Duration,
    /// The time to bring the values to the host.
    pub gather_time: Duration,
}

impl BfsResult {
    /// Whether a path leads to `vertex`; `false` if there is no such vertex.
    pub fn is_reached(&self, vertex: u32) -> bool {
        self.levels.get(vertex as usize).is_some_and(|&level| level != UNREACHED)
    }

    /// Vertices reached: the fewest work-items that any search needs.
    pub fn reached(&self) -> u64 {
        self.levels.iter().filter(|&&level| level != UNREACHED).count() as u64
    }

    /// The last level with a vertex; `None` if nothing was reached.
    pub fn max_level(&self) -> Option<u32> {
        self.levels.iter().copied().filter(|&level| level != UNREACHED).max()
    }

    /// The vertices of a shortest path from a source to `vertex`, both included; `None` if there is no path,
    /// or if [predecessors](crate::BfsOptions::predecessors) were not asked for.
    ///
    /// ```
    /// use millstream_bfs::{Bfs, BfsOptions};
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::CsrGraph;
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let graph = CsrGraph::from_edges(5, &[(0, 1), (1, 2), (0, 3)])?;
    /// let mut options = BfsOptions::default();
    /// options.predecessors = true;
    /// let result = context.block_on(async {
    ///     Bfs::with_options(&context, &graph, options).await?.run(&[0]).await
    /// })??;
    /// assert_eq!(result.path_to(2), Some(vec![0, 1, 2]));
    /// assert_eq!(result.path_to(0), Some(vec![0]));
    /// assert_eq!(result.path_to(4), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn path_to(&self, vertex: u32) -> Option<Vec<u32>> {
        let predecessors = self.predecessors.as_ref().filter(|_| self.is_reached(vertex))?;
        Some(path_to(predecessors, vertex))
    }
}
