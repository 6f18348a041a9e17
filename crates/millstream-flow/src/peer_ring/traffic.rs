//! What was sent on a channel, in words that only the sender writes: `TrafficWord` of the header.

use std::sync::atomic::{AtomicU64, Ordering};

/// Words of each channel: one line of a GPU's cache.
pub(super) const TRAFFIC_WORDS: usize = 16;
const PACKETS: usize = 0;
const ITEMS: usize = 1;
const LARGEST: usize = 2;

/// The number of packets, the items in all of them, and the items of the largest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    pub(super) packets: u64,
    pub(super) items: u64,
    pub(super) largest: u64,
}

impl Traffic {
    /// What a channel's words say.
    pub(super) fn of(words: &[u64]) -> Traffic {
        let word = |place: usize| words.get(place).copied().unwrap_or(0);
        Traffic { packets: word(PACKETS), items: word(ITEMS), largest: word(LARGEST) }
    }
}

/// Counts one more packet in a channel's words.
pub(super) fn count(words: &[AtomicU64], items: usize) {
    let items = items as u64;
    // Relaxed: those who read them come after the kernel.
    for (place, more) in [(PACKETS, 1), (ITEMS, items)] {
        if let Some(word) = words.get(place) {
            word.fetch_add(more, Ordering::Relaxed);
        }
    }
    if let Some(word) = words.get(LARGEST) {
        word.fetch_max(items, Ordering::Relaxed);
    }
}
