//! What a search finds.

use std::time::Duration;

use millstream_graph::reference::Distances;
use millstream_traversal::UNREACHED;
use millstream_traversal::internals::path_to;
use millstream_worklist::WorklistStatistics;

use crate::algorithm::Algorithm;

/// What was found, by original vertex id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SsspResult {
    /// Distances from the nearest source, in the weights' own type.
    pub distances: Distances,
    /// The previous vertex on a shortest path; [`UNREACHED`] for sources and unreached
    /// vertices. `None` unless asked for.
    pub predecessors: Option<Vec<u32>>,
    /// The algorithm that gave the answer: not [`Sssp::algorithm`](crate::Sssp::algorithm) if that gave up.
    pub algorithm: Algorithm,
    /// What the devices did.
    pub statistics: WorklistStatistics,
    /// The step of the priority threshold, or of the search, as a value of the weights' type: for
    /// integers, at least 1. `None` if there were no steps.
    pub delta: Option<f64>,
    /// The time from the first item to the last, without moving values to or from the devices; it includes
    /// the attempt of [`Sssp::algorithm`](crate::Sssp::algorithm) if that gave up.
    pub run_time: Duration,
    /// The time to bring the values to the host.
    pub gather_time: Duration,
}

impl SsspResult {
    /// Whether a path leads to `vertex`; `false` if there is no such vertex.
    pub fn is_reached(&self, vertex: u32) -> bool {
        let vertex = vertex as usize;
        match &self.distances {
            Distances::Integer(all) => all.get(vertex).is_some_and(|&d| d != UNREACHED),
            Distances::Real(all) => all.get(vertex).is_some_and(|d| d.is_finite()),
        }
    }

    /// Vertices reached: the fewest work-items that any search needs.
    pub fn reached(&self) -> u64 {
        let count = match &self.distances {
            Distances::Integer(all) => all.iter().filter(|&&d| d != UNREACHED).count(),
            Distances::Real(all) => all.iter().filter(|d| d.is_finite()).count(),
        };
        count as u64
    }

    /// The largest distance of a vertex that is reached; `None` if none is.
    pub fn max_distance(&self) -> Option<f64> {
        let finite: Box<dyn Iterator<Item = f64>> = match &self.distances {
            Distances::Integer(all) => {
                Box::new(all.iter().filter(|&&d| d != UNREACHED).map(|&d| f64::from(d)))
            }
            Distances::Real(all) => {
                Box::new(all.iter().filter(|d| d.is_finite()).map(|&d| f64::from(d)))
            }
        };
        finite.max_by(f64::total_cmp)
    }

    /// The vertices of a shortest path from a source to `vertex`, both included; `None` if there is no path,
    /// or if [predecessors](crate::SsspOptions::predecessors) were not asked for.
    ///
    /// ```
    /// use millstream_sssp::{Sssp, SsspOptions};
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::CsrGraph;
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let graph = CsrGraph::from_weighted_edges(5, &[(0, 1, 4u32), (1, 2, 3), (0, 2, 9), (0, 3, 1)])?;
    /// let mut options = SsspOptions::default();
    /// options.predecessors = true;
    /// let result = context.block_on(async {
    ///     Sssp::with_options(&context, &graph, options).await?.run(&[0]).await
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
