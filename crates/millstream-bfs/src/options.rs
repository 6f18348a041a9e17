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
    /// Steps of the priority threshold \[G §4.4\], or between near and far piles, in levels, of
    /// which a part counts as a whole one. A search level by level has none.
    pub delta: Delta,
    /// Level by level: a level is bottom-up if the frontier, times this, is more than the vertices that are not
    /// visited, and has grown by an eighth at least; 0: never; values above 2^25 count as that.
    pub alpha: u32,
    /// Level by level: and top-down again if the frontier, times this, is less.
    pub beta: u32,
    /// Whether to make, [at the upload](crate::Bfs::with_options), and to read what speeds up searches beside
    /// the graph's rows, if there is anything: the order of degrees, the packed rows, without which no
    /// search goes by near and far piles, and the hubs of one that goes level by level. The arcs that
    /// enter vertices are there in any case, if there is room. Without, uploads are faster, and searches
    /// slower as a rule.
    pub layouts: bool,
    /// By near and far piles: for how many vertices that wait at a time a GPU has room; for far ones
    /// twice as many, of which each of its blocks has its part. 40 to 48 bytes each, and no more than
    /// 2^26 of them. As soon as a block needs more, this search goes level by level, and so do later
    /// ones with no more room.
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
    /// Whether they have a meaning, whatever the graph is.
    ///
    /// # Errors
    /// A step that is none.
    pub fn check(&self) -> Result<()> {
        Ok(self.delta.check()?)
    }
}
