//! Side effects of C libraries on the whole process, which this command undoes.

use millstream::graph::CsrGraph;
use millstream::graph::partition::{self, Partition, PartitionError};

/// METIS's partition. For some graphs METIS prints remarks on standard output, where only the answer
/// belongs: they are discarded.
pub(crate) fn metis(graph: &CsrGraph, parts: usize) -> Result<Partition, PartitionError> {
    let divide = || partition::metis(graph, parts);
    #[cfg(unix)]
    return without_output(divide);
    #[cfg(not(unix))]
    divide()
}

/// Does some work with standard output discarded. Nothing else needs it meanwhile: this command prints its
/// answer at its end.
#[cfg(unix)]
fn without_output<T>(work: impl FnOnce() -> T) -> T {
    use nix::unistd::{dup, dup2_stdout};
    let kept = dup(std::io::stdout());
    let nowhere = std::fs::File::options().write(true).open("/dev/null");
    let is_away = kept.is_ok() && nowhere.is_ok_and(|nowhere| dup2_stdout(nowhere).is_ok());
    let result = work();
    if let (true, Ok(kept)) = (is_away, kept) {
        // C buffers its output until it is flushed or the process ends.
        // SAFETY: it flushes all of C's streams, and touches nothing else.
        unsafe { nix::libc::fflush(std::ptr::null_mut()) };
        // If this fails, the answer is discarded as well, and printing it reports no error.
        let _ = dup2_stdout(kept);
    }
    result
}
