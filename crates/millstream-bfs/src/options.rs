//! How a search goes.

use std::time::Duration;

use millstream_traversal::internals::{NearFar, PATIENCE};
use millstream_traversal::{Delta, WorklistOptions};

use crate::Result;
use crate::algorithm::Algorithm;
use crate::rule::Levels;

/// How a BFS runs.
///
/// ```
/// use millstream_bfs::{Bfs, BfsOptions};
/// use millstream_flow::{Context, Devices};
/// use millstream_graph::CsrGraph;
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let path = CsrGraph::from_edges(4, &[(0, 1), (1, 2), (2, 3)])?;
/// let mut options = BfsOptions::default();
/// options.depth_limit = Some(2);
/// options.predecessors = true;
/// let result = context.block_on(async {
///     Bfs::with_options(&context, &path, options).await?.run(&[0]).await
/// })??;
/// assert_eq!(result.levels, [0, 1, 2, u32::MAX]);
/// assert_eq!(result.predecessors.unwrap_or_default()[..3], [u32::MAX, 0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BfsOptions {
    /// Which way to search.
    pub algorithm: Algorithm,
    /// How the worklist of an asynchronous search runs.
    pub worklist: WorklistOptions,
    /// How long a run may go on without any change before it fails. Where devices search without a
    /// worklist: how long GPUs wait for each other. Ten seconds unless set.
    pub patience: Duration,
    /// Last level to reach; all unless set.
    pub depth_limit: Option<u32>,
    /// Whether to find predecessors too; the packets of an asynchronous search are
    /// twice as large then.
    pub predecessors: bool,
    /// Steps of the priority threshold \[G §4.4\], or between near and far piles, in levels, rounded up.
    /// A search level by level has none.
    pub delta: Delta,
    /// Level-synchronous search only: the next level is searched bottom-up if the vertices of the frontier,
    /// times `alpha`, outnumber those not visited yet, and the frontier has grown by at least an eighth. 0
    /// never goes bottom-up; values above 2^25 are treated as 2^25.
    pub alpha: u32,
    /// Level-synchronous search only: from bottom-up the search returns to top-down when the vertices of the
    /// frontier, times `beta`, are fewer than those not visited yet.
    pub beta: u32,
    /// Whether [the upload](crate::Bfs::with_options) makes, and searches read, layouts beside the graph's
    /// rows: the degree order, packed rows (which a near-far search needs) and hubs (for a level-synchronous
    /// one). The transpose is made in any case, if there is room. Without layouts uploads are faster and
    /// searches, as a rule, slower.
    pub layouts: bool,
    /// Near-far search on GPUs only: how many vertices may wait on a GPU at a time. Twice as many may be in
    /// its far piles, of which each block has an equal part. Each takes 40 to 48 bytes; values above 2^26
    /// are treated as 2^26. If a block runs out of room, the search starts again level by level, and later
    /// searches with no more room start that way.
    pub waiting: usize,
}

impl Default for BfsOptions {
    fn default() -> BfsOptions {
        BfsOptions {
            algorithm: Algorithm::Auto,
            worklist: WorklistOptions::default(),
            patience: PATIENCE,
            depth_limit: None,
            predecessors: false,
            delta: Delta::default(),
            alpha: 14,
            beta: 24,
            layouts: true,
            waiting: NearFar::<Levels>::WAITING,
        }
    }
}

impl BfsOptions {
    /// Checks that the options have a meaning, whatever the graph is.
    ///
    /// # Errors
    /// A step that is not usable.
    pub fn check(&self) -> Result<()> {
        Ok(self.delta.check()?)
    }
}
