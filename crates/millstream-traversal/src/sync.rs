//! The one place the bell and locks come from, so that what twins share runs unchanged under a model
//! checker.

pub(crate) use millstream_device::Bell;
pub(crate) use parking_lot::Mutex;

/// Faults that models seed to show that they are caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The first to come to a meeting goes on.
    MeetWithoutOthers,
    /// The others are told before they may go on.
    RingBeforeMeeting,
    /// Who leaves for others of its thread is not called again.
    LeaveWithoutRing,
    /// Nobody is told that the search is over.
    EndWithoutRing,
}

/// Whether `fault` is seeded: never, outside of models.
#[inline(always)]
pub(crate) const fn seeded(_fault: Fault) -> bool {
    false
}
