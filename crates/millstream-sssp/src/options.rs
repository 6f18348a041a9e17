//! How a search goes.

use std::time::Duration;

use millstream_traversal::internals::{NearFar, PATIENCE};
use millstream_traversal::{Delta, WorklistOptions};

use crate::algorithm::Algorithm;
use crate::rule::IntegerDistances;
use crate::{Error, Result};

/// How a search for shortest paths runs.
///
/// ```
/// use millstream_flow::{Context, Devices};
/// use millstream_graph::CsrGraph;
/// use millstream_sssp::{Distances, Sssp, SsspOptions};
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let graph = CsrGraph::from_weighted_edges(3, &[(0, 1, 0.5f32), (1, 2, 2.0)])?;
/// let mut options = SsspOptions::default();
/// options.cutoff = Some(1.0);
/// let result = context.block_on(async {
///     Sssp::with_options(&context, &graph, options).await?.run(&[0]).await
/// })??;
/// assert_eq!(result.distances, Distances::Real(vec![0.0, 0.5, f32::INFINITY]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SsspOptions {
    /// Which way to search. Each needs rows of its own on the devices, so it is chosen when the
    /// graph is uploaded.
    pub algorithm: Algorithm,
    /// How the worklist of an asynchronous search runs.
    pub worklist: WorklistOptions,
    /// How long a run may go on without any change before it fails. Where devices search without a
    /// worklist: how long GPUs wait for each other. Ten seconds unless set.
    pub patience: Duration,
    /// Vertices farther than this, in the unit of the weights, are not reached; at least 0.
    pub cutoff: Option<f64>,
    /// Whether to find predecessors too; packets are twice as large then.
    pub predecessors: bool,
    /// Steps of the priority threshold \[G §4.4\], or those of a search in steps, in the unit of the
    /// weights. Automatic ones come from the mean weight, the mean degree and, in space, the lightest weight; those
    /// of a search in steps from the degrees and from how many arcs are light.
    pub delta: Delta,
    /// Stepping search only: once a step is settled, the vertices that are left pull if the arcs that enter
    /// them are fewer than those that enter the step's vertices, times `pull`; otherwise the step's vertices
    /// push. 0 never pulls; values above 2^27 are treated as 2^27.
    pub pull: u32,
    /// Stepping search only: all that is left is one last step, without an order, if the arcs that enter it,
    /// times `rest`, are fewer than all arcs. With 0 the second step is the last; values above 2^27 are
    /// treated as 2^27.
    pub rest: u32,
    /// Near-far search on GPUs only: how many vertices may wait on a GPU at a time. Twice as many may be in
    /// its far piles, of which each block has an equal part. Each takes 40 to 48 bytes; values above 2^26
    /// are treated as 2^26. If a block runs out of room, the search starts again with a quarter of the step,
    /// three times at most and only if the step is automatic, then asynchronously. Later searches with no
    /// more room skip the steps that failed.
    pub waiting: usize,
}

impl Default for SsspOptions {
    fn default() -> SsspOptions {
        SsspOptions {
            algorithm: Algorithm::Auto,
            worklist: WorklistOptions::default(),
            patience: PATIENCE,
            cutoff: None,
            predecessors: false,
            delta: Delta::default(),
            // Both measured: see `docs/decisions/0015-shortest-paths-in-steps.md`.
            pull: 4,
            rest: 4,
            waiting: NearFar::<IntegerDistances>::WAITING,
        }
    }
}

impl SsspOptions {
    /// Checks that the options have a meaning, whatever the graph is.
    ///
    /// # Errors
    /// A cutoff that is not a distance; a step that is not usable.
    pub fn check(&self) -> Result<()> {
        self.delta.check()?;
        match self.cutoff {
            Some(cutoff) if cutoff.is_nan() || cutoff < 0.0 => Err(Error::Cutoff { cutoff }),
            _ => Ok(()),
        }
    }
}
