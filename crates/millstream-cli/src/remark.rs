//! Remarks beside the answer, on standard error.

use std::fmt::Display;
use std::io::Write;

/// Prints a remark on a line of its own. If standard error cannot be written, the exit code says
/// enough.
pub(crate) fn remark(text: impl Display) {
    // One write, so that lines of several threads stay whole.
    let line = format!("millstream: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
