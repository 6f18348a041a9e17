//! A series of operations that is timed as a whole.

/// Operations one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Items of each rank's vector, a multiple of the ranks.
    pub len: usize,
    /// How many operations.
    pub rounds: usize,
    /// Whether the host waits for each before the next.
    pub awaited: bool,
}
