//! Variables of the environment.

use std::ffi::OsString;

/// A variable that is set, and not to nothing.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
