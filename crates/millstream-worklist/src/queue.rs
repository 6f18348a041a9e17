//! Queues of work-items in which a bit for each item says whether it is queued \[G §4.3\].
//!
//! An item is a number below `items`. Its bit says that it is queued; the ring
//! of entries beside the bits only says where to look. If the ring is full, the
//! bit stays set, and a count asks the consumer to sweep the bits: a queue of any
//! capacity loses nothing. `README.md` beside this file explains the races.

use crate::sync::{AtomicU32, Fault, Ordering, seeded};

/// Next entry to take; changed by the consumer only.
const HEAD: usize = 0;
/// Next entry to reserve; changed by producers.
const TAIL: usize = 1;
/// How often a bit was set without room for an entry; wraps around.
const OVERFLOWED: usize = 2;
/// The value that [`OVERFLOWED`] had before the last complete sweep of the bits;
/// changed by the consumer only.
const SWEPT: usize = 3;

/// Words of control that a queue needs.
pub(crate) const CONTROL_WORDS: usize = 4;

/// Words of bits for `items` items.
pub(crate) fn bit_words(items: usize) -> usize {
    items.div_ceil(32).max(1)
}

/// A queue as a kernel sees it: any number of producers, one consumer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueView<'a> {
    /// Bit `item % 32` of word `item / 32` is set if the item is queued.
    pub(crate) bits: &'a [AtomicU32],
    /// A ring whose entries are items plus one; 0 is an entry that is empty or not written yet.
    pub(crate) ring: &'a [AtomicU32],
    pub(crate) control: &'a [AtomicU32],
}

impl QueueView<'_> {
    /// Queues an item whose value is already written; `false` if it is queued
    /// already, in which case its consumer will see that value.
    #[inline]
    pub(crate) fn push(&self, item: u32) -> bool {
        let is_new = self.mark(item);
        if is_new {
            self.add_entries(&[item]);
        }
        is_new
    }

    /// The first half of [`push`](QueueView::push): sets the bit. If it was clear, the item
    /// needs an entry, which may be added later, together with others.
    #[inline]
    pub(crate) fn mark(&self, item: u32) -> bool {
        // Release: the value is written before the bit; pairs with `claim`.
        let before = self.word(item).fetch_or(mask(item), Ordering::Release);
        before & mask(item) == 0
    }

    /// Takes an item out of the queue: clears its bit, after which its value
    /// must be read. `false` if the entry is stale.
    #[inline]
    pub(crate) fn claim(&self, item: u32) -> bool {
        // Acquire: pairs with the release that set the bit; whoever writes a value
        // later sets the bit again.
        self.word(item).fetch_and(!mask(item), Ordering::Acquire) & mask(item) != 0
    }

    /// Whether an item is queued; relaxed, so the answer orders nothing.
    #[inline]
    pub(crate) fn has(&self, item: u32) -> bool {
        self.word(item).load(Ordering::Relaxed) & mask(item) != 0
    }

    /// The approximate number of entries.
    pub(crate) fn entries(&self) -> u32 {
        let tail = self.control[TAIL].load(Ordering::Relaxed);
        tail.wrapping_sub(self.control[HEAD].load(Ordering::Relaxed))
    }

    /// Collects up to `most` entries, including stale ones, without touching their
    /// bits. Says whether there may be more. Consumer only.
    pub(crate) fn take(&self, most: usize, taken: &mut Vec<u32>) -> bool {
        let first = self.control[HEAD].load(Ordering::Relaxed);
        let mut head = first;
        while taken.len() < most {
            let entry = &self.ring[self.place(head)];
            // Acquire: pairs with the release in `add_entries`.
            match entry.load(Ordering::Acquire) {
                0 => break,
                item => taken.push(item - 1),
            }
            entry.store(0, Ordering::Relaxed);
            head = head.wrapping_add(1);
        }
        if head != first {
            // Release: the entries are empty before a producer may reserve them.
            self.control[HEAD].store(head, Ordering::Release);
        }
        if taken.len() < most {
            self.sweep(most, taken);
        }
        self.has_entries()
    }

    /// Whether entries or unswept bits are left. Consumer only.
    pub(crate) fn has_entries(&self) -> bool {
        let head = self.control[HEAD].load(Ordering::Relaxed);
        self.control[TAIL].load(Ordering::Acquire) != head
            || self.control[OVERFLOWED].load(Ordering::Acquire)
                != self.control[SWEPT].load(Ordering::Relaxed)
    }

    /// Collects items that have a bit and perhaps no entry.
    fn sweep(&self, most: usize, taken: &mut Vec<u32>) {
        // Read before the bits: a producer sets its bit, then counts. Acquire pairs with
        // the producer's release, so its bit is visible to the sweep below.
        let mut overflowed = self.control[OVERFLOWED].load(Ordering::Acquire);
        if overflowed == self.control[SWEPT].load(Ordering::Relaxed) {
            return;
        }
        for (place, word) in self.bits.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                if taken.len() >= most {
                    return;
                }
                taken.push((place * 32) as u32 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
        if seeded(Fault::CountAfterSweep) {
            overflowed = self.control[OVERFLOWED].load(Ordering::Acquire);
        }
        self.control[SWEPT].store(overflowed, Ordering::Relaxed);
    }

    /// Adds entries for items whose bits are set, as far as there is room.
    pub(crate) fn add_entries(&self, items: &[u32]) {
        let capacity = self.ring.len() as u32;
        let mut tail = self.control[TAIL].load(Ordering::Relaxed);
        let count = loop {
            // Acquire: pairs with the consumer's release of the head.
            let head = self.control[HEAD].load(Ordering::Acquire);
            // 0 if the tail that was read is so old that it is behind the head.
            let room = capacity.saturating_sub(tail.wrapping_sub(head));
            let count = items.len().min(room as usize);
            if count == 0 {
                break 0;
            }
            let reserved = self.control[TAIL].compare_exchange_weak(
                tail,
                tail.wrapping_add(count as u32),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            match reserved {
                Ok(_) => break count,
                Err(current) => tail = current,
            }
        };
        for (place, &item) in items[..count].iter().enumerate() {
            let place = self.place(tail.wrapping_add(place as u32));
            // Release: pairs with the acquire in `take`.
            self.ring[place].store(item + 1, Ordering::Release);
        }
        if count < items.len() {
            // Release: the bits are set before the count is raised.
            self.control[OVERFLOWED].fetch_add(1, Ordering::Release);
        }
    }

    /// The index in the ring of the entry at a position.
    #[inline]
    fn place(&self, position: u32) -> usize {
        // The ring's length is a power of two, so positions may wrap around at 2^32.
        position as usize & (self.ring.len() - 1)
    }

    #[inline]
    fn word(&self, item: u32) -> &AtomicU32 {
        &self.bits[(item / 32) as usize]
    }
}

#[inline]
fn mask(item: u32) -> u32 {
    1 << (item % 32)
}
