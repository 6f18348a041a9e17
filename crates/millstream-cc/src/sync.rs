//! The one place atomics come from, so that the protocol core runs unchanged under
//! a model checker.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

/// Faults that models seed to show that they are caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A root is hooked without looking whether it still is one.
    HookByStore,
    /// Paths are halved while others are labelled.
    LookByHalving,
    /// Vertices of any tree are passed over, not of the hub's alone.
    SkipAnyTree,
    /// Members are labelled as if they were not.
    MembersAlone,
}

/// Whether `fault` is seeded: never, outside of models.
#[inline(always)]
pub(crate) const fn seeded(_fault: Fault) -> bool {
    false
}
