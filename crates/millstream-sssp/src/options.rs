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
    /// weights; automatic ones come from the mean weight and the mean degree.
    pub delta: Delta,
    /// In steps: once a step is settled, vertices that are left pull if the arcs that
    /// enter them are less than those that enter the step's, times this; else the step's
    /// vertices push. 0 never pulls, and values above 2^27 count as that.
    pub pull: u32,
    /// In steps: all that is left is one step, without an order, if the arcs that enter
    /// it, times this, are less than all arcs. 0 makes every step but the first the
    /// last, and values above 2^27 count as that.
    pub rest: u32,
    /// By near and far piles: for how many vertices that wait at a time a GPU has room; for far ones
    /// twice as many, of which each of its blocks has its part. 40 to 48 bytes each, and no more than
    /// 2^26 of them. As soon as a block needs more, this search begins again with a quarter of the
    /// step, if that is automatic, three times at most, or goes asynchronously. Later ones with no more
    /// room begin where it ended.
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
    /// Whether they have a meaning, whatever the graph is.
    ///
    /// # Errors
    /// A cutoff that is no distance; a step that is none.
    pub fn check(&self) -> Result<()> {
        self.delta.check()?;
        match self.cutoff {
            Some(cutoff) if cutoff.is_nan() || cutoff < 0.0 => Err(Error::Cutoff { cutoff }),
            _ => Ok(()),
        }
    }
}
