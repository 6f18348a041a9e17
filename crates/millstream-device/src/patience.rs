//! How long kernels wait.

use std::time::Duration;

/// A patience as kernels take it: its nanoseconds, or as many as a word holds, which is for ever.
///
/// ```
/// use std::time::Duration;
///
/// use millstream_device::patience_ns;
///
/// assert_eq!(patience_ns(Duration::from_micros(5)), 5000);
/// assert_eq!(patience_ns(Duration::MAX), u64::MAX);
/// ```
#[doc(hidden)]
pub fn patience_ns(patience: Duration) -> u64 {
    u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX)
}
