//! Runs code of the program on threads that others rely on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the program. If it panics, the thread goes on.
pub(crate) fn contain(work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        // The payload's drop might panic again: leak it.
        std::mem::forget(panic);
    }
}

/// What a caught panic said, if that was a text.
pub fn panic_text(panic: Box<dyn Any + Send>) -> Option<String> {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    // Dropping the panic payload may panic, too.
    contain(|| drop(panic));
    text
}
