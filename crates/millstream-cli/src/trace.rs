//! `--trace`: what the devices and the command itself did, into a file.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use millstream::device::{Trace, TraceSpan};

use crate::error::Error;
use crate::output::write_file;

/// One for the whole process, like its devices.
static TRACE: OnceLock<(Trace, PathBuf)> = OnceLock::new();

/// Starts to trace, for a file that has been checked to be writable.
pub(crate) fn begin(path: &Path) -> &'static Trace {
    &TRACE.get_or_init(|| (Trace::new(), path.to_path_buf())).0
}

/// A span of the trace, if there is one, that lasts until the result is dropped.
pub(crate) fn span(name: &'static str) -> Option<TraceSpan> {
    TRACE.get().map(|(trace, _)| trace.span(name))
}

/// Writes the trace, if requested, even if the command has failed. If it has not, its devices are closed, so
/// nothing is under way.
///
/// # Errors
/// What the operating system says.
pub(crate) fn write() -> Result<(), Error> {
    let Some((trace, path)) = TRACE.get() else { return Ok(()) };
    write_file(path, |writer| trace.write(writer))
}
