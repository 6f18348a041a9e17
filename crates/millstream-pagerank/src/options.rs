//! What is asked, and how it is computed.

use std::fmt;
use std::time::Duration;

use millstream_graph::reference;
use millstream_traversal::WorklistOptions;
use millstream_traversal::internals::PATIENCE;

use crate::Result;

/// The way to the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Full sweeps: every vertex adds up what its predecessors give.
    #[default]
    Pull,
    /// Residuals pushed along arcs on the worklist, in no particular order
    /// \[G §4.6.3\].
    Push,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Algorithm::Pull => "pull",
            Algorithm::Push => "push",
        })
    }
}

/// The type that ranks are computed in by pulling. Pushing computes them in f64, and has this
/// type for weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Precision {
    /// f64 for a tolerance below 1e-6, else f32.
    #[default]
    Auto,
    /// 32 bits.
    F32,
    /// 64 bits.
    F64,
}

/// What is asked, and how it is computed.
///
/// ```
/// use millstream_flow::{Context, Devices};
/// use millstream_graph::CsrGraph;
/// use millstream_pagerank::{PageRank, PageRankOptions};
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let cycle = CsrGraph::from_edges(3, &[(0, 1), (1, 2), (2, 0)])?;
/// let mut options = PageRankOptions::default();
/// options.personalization = vec![0];
/// options.tolerance = 1e-9;
/// let result = context.block_on(async {
///     PageRank::with_options(&context, &cycle, options).await?.run().await
/// })??;
/// assert!(result.converged && result.ranks[0] > result.ranks[1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageRankOptions {
    /// Probability to follow an arc, from 0 up to but not including 1.
    pub damping: f64,
    /// A run has converged when the L1 norm of what the last sweep has changed (pull), or of what another
    /// would change (push), is at most this, for ranks that sum to 1.
    pub tolerance: f64,
    /// The most sweeps (pull), or the most work in units of a sweep (push), converged or not. The work of
    /// a sweep is one push of every vertex, along every arc once.
    pub max_iterations: u32,
    /// The vertices that a step leads to when it follows no arc, each with a probability in proportion to
    /// how often it is listed; any vertex if empty.
    pub personalization: Vec<u32>,
    /// Whether arcs are followed with probabilities in proportion to their weights, not equal ones.
    pub weighted: bool,
    /// Whether ranks sum to the number of vertices, as in the article, not to 1.
    pub unnormalized: bool,
    /// The way to the ranks.
    pub algorithm: Algorithm,
    /// The type that ranks are computed in.
    pub precision: Precision,
    /// How the worklist runs, and in what packets links tell ranks where devices that pull do not reach each
    /// other's memory.
    pub worklist: WorklistOptions,
    /// How long a run may go on without any change before it fails. Where vertices pull: how long GPUs
    /// wait for each other. Ten seconds unless set.
    pub patience: Duration,
}

impl Default for PageRankOptions {
    fn default() -> PageRankOptions {
        let question = reference::PageRankQuestion::default();
        PageRankOptions {
            damping: question.damping,
            tolerance: question.tolerance,
            max_iterations: question.max_iterations,
            personalization: Vec::new(),
            weighted: false,
            unnormalized: false,
            algorithm: Algorithm::default(),
            precision: Precision::default(),
            worklist: WorklistOptions::default(),
            patience: PATIENCE,
        }
    }
}

impl PageRankOptions {
    /// Checks that the options have a meaning, whatever the graph is.
    ///
    /// # Errors
    /// A damping or a tolerance without a meaning.
    pub fn check(&self) -> Result<()> {
        Ok(self.question().check_numbers()?)
    }

    /// The same question for the sequential reference and the validator.
    pub fn question(&self) -> reference::PageRankQuestion {
        let mut question = reference::PageRankQuestion::default();
        question.damping = self.damping;
        question.tolerance = self.tolerance;
        question.max_iterations = self.max_iterations;
        question.personalization = self.personalization.clone();
        question.weighted = self.weighted;
        question
    }

    /// Whether ranks are computed in f64; pushing always does.
    pub fn is_double(&self) -> bool {
        self.algorithm == Algorithm::Push || self.has_double_weights()
    }

    /// Whether weights, and the ranks of sweeps, are f64.
    pub fn has_double_weights(&self) -> bool {
        match self.precision {
            Precision::Auto => self.tolerance < 1e-6,
            Precision::F32 => false,
            Precision::F64 => true,
        }
    }
}
