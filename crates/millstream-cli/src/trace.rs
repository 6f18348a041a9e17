//! `--trace`: what the devices and the command itself did, into a file.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use millstream::device::{Trace, TraceSpan};

use crate::error::Error;
use crate::output::write_file;

/// Of this process, as its devices are.
static TRACE: OnceLock<(Trace, PathBuf)> = OnceLock::new();

/// Traces from now on, for a file that can be written.
pub(crate) fn begin(path: &Path) -> &'static Trace {
    &TRACE.get_or_init(|| (Trace::new(), path.to_path_buf())).0
}

/// What the command does until this is dropped, if it is traced.
pub(crate) fn span(name: &'static str) -> Option<TraceSpan> {
    TRACE.get().map(|(trace, _)| trace.span(name))
}

/// Writes what was traced, if that is wanted, also of a command that has failed. The devices of one that
/// has not are closed: nothing is under way.
///
/// # Errors
/// What the operating system says.
pub(crate) fn write() -> Result<(), Error> {
    let Some((trace, path)) = TRACE.get() else { return Ok(()) };
    write_file(path, |writer| trace.write(writer))
}
