//! Variables of the environment.

use std::ffi::OsString;

/// The value of a variable, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
