//! Loops that all threads share, in pieces that are worth waking a thread for.

use rayon::iter::{IndexedParallelIterator, MinLen};

/// Vertices or arcs that one thread takes at least. To wake one that sleeps takes up to 50
/// microseconds, on machines with many cores for as many threads as there are pieces: loops of tens
/// of thousands of vertices took milliseconds there, without this.
const LEAST: usize = 1 << 14;

/// Parallel loops over vertices or arcs.
///
/// ```
/// use millstream_graph::pieces::InPieces;
/// use rayon::prelude::*;
///
/// let squares: u64 = (0..1000_u64).into_par_iter().in_pieces().map(|at| at * at).sum();
/// assert_eq!(squares, 332_833_500);
/// ```
pub trait InPieces: IndexedParallelIterator {
    /// The same, in pieces of some thousands at least: small loops stay on one thread.
    fn in_pieces(self) -> MinLen<Self> {
        self.with_min_len(LEAST)
    }
}

impl<I: IndexedParallelIterator> InPieces for I {}
