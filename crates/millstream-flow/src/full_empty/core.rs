//! A packet that is full or empty, without its devices. States, orderings and the map
//! to `kernels/src/full_empty.cuh` are in `README.md`.

use crate::sync::{AtomicU32, AtomicU64, Fault, Ordering, seeded};

/// No epoch: the word of a packet at the start, and after it has been emptied.
const EMPTY: u32 = 0;

/// The words of one packet in one epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketWords<'a> {
    /// The epoch in which the packet was last filled. Written by those who fill or empty it.
    pub(crate) word: &'a AtomicU32,
    /// How many writers have arrived, below the epoch in which they have arrived; 0 once the last has.
    pub(crate) arrivals: &'a AtomicU64,
    pub(crate) epoch: u32,
    /// The number of writers that fill the packet together.
    pub(crate) writers: u32,
}

/// The epoch after this one.
pub(crate) fn next_epoch(epoch: u32) -> u32 {
    match epoch.wrapping_add(1) {
        EMPTY => 1,
        next => next,
    }
}

impl PacketWords<'_> {
    /// Whether the packet is full; its items may then be read.
    pub(crate) fn is_full(&self) -> bool {
        // Pairs with `mark_full`.
        let value = self.word.load(Ordering::Acquire);
        match seeded(Fault::AnyEpochIsFull) {
            true => value != EMPTY,
            false => value == self.epoch,
        }
    }

    /// Whether nobody reads the packet any more; it may then be filled.
    pub(crate) fn is_empty(&self) -> bool {
        // Pairs with `mark_empty`.
        self.word.load(Ordering::Acquire) != self.epoch
    }

    /// A writer's items are there. Returns whether it is the last writer, which may read what all
    /// have written, and must mark the packet full.
    pub(crate) fn arrive(&self) -> bool {
        if self.writers == 1 {
            return true;
        }
        let order = match seeded(Fault::ArrivalWithoutOrder) {
            true => Ordering::Relaxed,
            // AcqRel: each arrival pairs with all later ones, so the last comes after all writers' items.
            false => Ordering::AcqRel,
        };
        if !seeded(Fault::ArrivalsOfAnyEpoch) {
            self.forget_other_epochs();
        }
        let before = self.arrivals.fetch_add(1, order) as u32;
        let is_last = match seeded(Fault::FirstArrivalFills) {
            true => before == 0,
            false => before + 1 == self.writers,
        };
        if is_last {
            // Relaxed: `mark_full` publishes it, and nobody arrives again in this epoch.
            self.arrivals.store(0, Ordering::Relaxed);
        }
        is_last
    }

    /// Discards the arrivals of another epoch, in which not all writers came.
    fn forget_other_epochs(&self) {
        let none = u64::from(self.epoch) << 32;
        // Relaxed: everything here is about this one word.
        let mut before = self.arrivals.load(Ordering::Relaxed);
        // Compared for being different, not for being less, since epochs wrap around. Whoever loses
        // the exchange finds this epoch there.
        while before >> 32 != u64::from(self.epoch) {
            let exchanged = self.exchange_arrivals(before, none);
            before = exchanged.map_or_else(|now| now, |_| none);
        }
    }

    fn exchange_arrivals(&self, before: u64, none: u64) -> Result<u64, u64> {
        if seeded(Fault::ForgetByStore) {
            self.arrivals.store(none, Ordering::Relaxed);
            return Ok(before);
        }
        self.arrivals.compare_exchange(before, none, Ordering::Relaxed, Ordering::Relaxed)
    }

    /// Makes the items visible to whoever finds the packet full.
    pub(crate) fn mark_full(&self) {
        // Pairs with `is_full`: the items come before the epoch.
        let order = match seeded(Fault::MarkFullWithoutRelease) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.word.store(self.epoch, order);
    }

    /// The packet's items have been read and may be replaced.
    pub(crate) fn mark_empty(&self) {
        // Pairs with `is_empty`: the reads come before the next fill.
        let order = match seeded(Fault::MarkEmptyWithoutRelease) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.word.store(EMPTY, order);
    }
}
