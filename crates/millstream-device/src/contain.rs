//! Code of the program on threads that others rely on.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the program. A panic is its own, and the thread goes on.
pub(crate) fn contain(work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        // What was thrown may panic when it is dropped.
        std::mem::forget(panic);
    }
}
