//! The only source of atomics, so that the core of the protocol runs unchanged under a
//! model checker.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

/// Faults that models seed to show that they are caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A root is hooked without checking that it still is a root.
    HookByStore,
    /// Paths are halved while other threads label.
    LookByHalving,
    /// Vertices of any tree are skipped, not only those of the hub's tree.
    SkipAnyTree,
    /// Members are labelled as if they were not members.
    MembersAlone,
}

/// Whether `fault` is seeded: never, outside of models.
#[inline(always)]
pub(crate) const fn seeded(_fault: Fault) -> bool {
    false
}
