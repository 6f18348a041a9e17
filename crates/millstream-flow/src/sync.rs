//! The one place atomics and locks come from, so that the protocol cores run
//! unchanged under a model checker (the models include the production files
//! and bring their own `sync`).

pub(crate) use parking_lot::Mutex;
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Faults that the models seed to show that they would be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Two destinations may claim the same packet of a message.
    ClaimWithoutExchange,
    /// An offer that others used up stays at the head of a queue.
    StaleOfferKept,
    /// The claimer of the last packet does not look after the other destinations.
    ExhaustedOfferNotAnnounced,
    /// Two submit packets of one destination at once.
    AssignSideBySide,
    /// A stream ends while its last packet is being submitted.
    EndWhileAssigning,
    /// A packet that already lies in its destination's buffer waits behind another source's message
    /// that needs a free one.
    WaitForABuffer,
    /// A packet that waits for another one stays when those that were under way have arrived.
    ArrivalUnheard,
    /// A packet that was filled in an earlier epoch counts as full.
    AnyEpochIsFull,
    /// The last writer is not ordered after the others' items.
    ArrivalWithoutOrder,
    /// Arrivals of an epoch in which not all writers came count in the next epoch.
    ArrivalsOfAnyEpoch,
    /// A writer that begins an epoch takes back the arrival of another that began it, too.
    ForgetByStore,
    /// The first of many writers publishes.
    FirstArrivalFills,
    /// A packet is full before its items are there.
    MarkFullWithoutRelease,
    /// A packet is empty before its items are read.
    MarkEmptyWithoutRelease,
    /// Two use a packet at once, although one of them writes.
    ClaimBesideOthers,
    /// Whoever was refused a packet is not told when it is free.
    GiveBackInSilence,
    /// The watcher is woken before it can see that somebody waits.
    UnparkBeforeCounting,
    /// Two blocks may claim the same slot of a peer ring.
    ClaimByStore,
    /// A claim relies on a head that is older than other claims of the same sender.
    ClaimBesideOldHead,
    /// A slot is full before its payload is there.
    EpochBeforePayload,
    /// The same, through weak orderings of its words.
    EpochWithoutRelease,
    /// A slot is free before its payload is read.
    CreditWithoutRelease,
    /// A task registers its waker some time after it has looked.
    WakerAfterTheLook,
    /// Two offer messages of one sender at once.
    OfferSideBySide,
    /// Whoever offers stops some time after it has looked for more.
    StopAfterTheLook,
    /// A sender is closed while messages are held up.
    CloseBeforeTheLast,
    /// The lines of all collectives use the same set.
    OneSetOfLines,
    /// The epoch of a line is there before its word.
    EpochBeforeWord,
    /// The same, through weak orderings of its words.
    LineWithoutRelease,
}

/// Whether `fault` is seeded: never, outside the models.
#[inline(always)]
pub(crate) const fn seeded(_fault: Fault) -> bool {
    false
}
