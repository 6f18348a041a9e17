//! What C libraries do to the whole process, and this command undoes.

use millstream::graph::CsrGraph;
use millstream::graph::partition::{self, Partition, PartitionError};

/// METIS's partition. Of some graphs it prints remarks, on standard output, which is the answer's:
/// what it prints goes nowhere.
pub(crate) fn metis(graph: &CsrGraph, parts: usize) -> Result<Partition, PartitionError> {
    let divide = || partition::metis(graph, parts);
    #[cfg(unix)]
    return without_output(divide);
    #[cfg(not(unix))]
    divide()
}

/// Standard output is nobody's meanwhile: this command prints its answer at its end.
#[cfg(unix)]
fn without_output<T>(work: impl FnOnce() -> T) -> T {
    use nix::unistd::{dup, dup2_stdout};
    let kept = dup(std::io::stdout());
    let nowhere = std::fs::File::options().write(true).open("/dev/null");
    let is_away = kept.is_ok() && nowhere.is_ok_and(|nowhere| dup2_stdout(nowhere).is_ok());
    let result = work();
    if let (true, Ok(kept)) = (is_away, kept) {
        // C keeps what it prints until somebody asks, or the process ends.
        // SAFETY: it flushes all of C's streams, and touches nothing else.
        unsafe { nix::libc::fflush(std::ptr::null_mut()) };
        // Refused, nothing is printed at all, of which the answer's printing hears nothing.
        let _ = dup2_stdout(kept);
    }
    result
}
