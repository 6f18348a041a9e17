//! The only source of the bell and the locks, so that the code that twins share runs unchanged under a
//! model checker.

pub(crate) use millstream_device::Bell;
pub(crate) use parking_lot::Mutex;

/// Faults that models seed to show that they are caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The first device to come to a meeting goes on without waiting for the others.
    MeetWithoutOthers,
    /// The bell rings before the meeting is counted, when the others may not go on yet.
    RingBeforeMeeting,
    /// A twin that leaves, to let other work use its thread, is not called again.
    LeaveWithoutRing,
    /// The bell does not ring when the search is over.
    EndWithoutRing,
}

/// Whether `fault` is seeded: never, outside of models.
#[inline(always)]
pub(crate) const fn seeded(_fault: Fault) -> bool {
    false
}
