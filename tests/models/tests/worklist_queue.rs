//! The two races of the queue bits and the sweep: the production queue under
//! every interleaving, with correct and with faulty users.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-worklist/src/queue.rs"]
mod queue;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        CountAfterSweep,
        ReadBeforeClear,
        SetBeforeValue,
        DeferredNotCleared,
        PutBackUncounted,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use loom::sync::Arc;
use loom::thread;
use millstream_models::{fails_with, holds};
use queue::QueueView;
use sync::{AtomicU32, Fault, Ordering, seeded};

struct Memory {
    bits: Vec<AtomicU32>,
    entries: Vec<AtomicU32>,
    control: Vec<AtomicU32>,
}

impl Memory {
    fn new(entries: usize) -> Memory {
        let words = |count| (0..count).map(|_| AtomicU32::new(0)).collect();
        Memory { bits: words(1), entries: words(entries), control: words(queue::CONTROL_WORDS) }
    }

    fn view(&self) -> QueueView<'_> {
        QueueView { bits: &self.bits, ring: &self.entries, control: &self.control }
    }
}

/// One item whose value grows; the consumer must see the largest.
struct Shared {
    ready: Memory,
    deferred: Memory,
    value: AtomicU32,
}

fn produce(shared: &Shared, value: u32) {
    if seeded(Fault::SetBeforeValue) {
        shared.ready.view().push(0);
        shared.value.fetch_max(value, Ordering::Relaxed);
    } else {
        shared.value.fetch_max(value, Ordering::Relaxed);
        shared.ready.view().push(0);
    }
}

/// Processes what is queued; returns the largest value seen.
fn consume(shared: &Shared) -> u32 {
    let mut items = Vec::new();
    shared.ready.view().take(4, &mut items);
    let mut seen = 0;
    for item in items {
        let early = shared.value.load(Ordering::Relaxed);
        if !shared.ready.view().claim(item) {
            continue;
        }
        let value = shared.value.load(Ordering::Relaxed);
        seen = seen.max(if seeded(Fault::ReadBeforeClear) { early } else { value });
    }
    seen
}

fn value_and_bit() {
    let shared = Arc::new(Shared {
        ready: Memory::new(2),
        deferred: Memory::new(1),
        value: AtomicU32::new(0),
    });
    produce(&shared, 1);
    let producer = {
        let shared = shared.clone();
        thread::spawn(move || produce(&shared, 2))
    };
    let seen = consume(&shared);
    producer.join().unwrap();
    let seen = seen.max(consume(&shared));
    assert_eq!(seen, 2, "an update is lost");
}

#[test]
fn no_update_is_lost() {
    holds(value_and_bit);
}

#[test]
fn reading_before_clearing_is_caught() {
    fails_with(Fault::ReadBeforeClear as usize, value_and_bit);
}

#[test]
fn setting_the_bit_before_the_value_is_caught() {
    fails_with(Fault::SetBeforeValue as usize, value_and_bit);
}

/// A deferred item improves and is processed while its entry is still deferred:
/// the entry may only be dropped if the current value has been processed.
fn deferral() {
    let shared = Arc::new(Shared {
        ready: Memory::new(1),
        deferred: Memory::new(2),
        value: AtomicU32::new(1),
    });
    shared.deferred.view().push(0);
    let producer = {
        let shared = shared.clone();
        thread::spawn(move || produce(&shared, 2))
    };
    // Process what is ready; that settles whatever was deferred of it.
    let mut seen = 0;
    let mut items = Vec::new();
    shared.ready.view().take(4, &mut items);
    for item in items {
        if shared.ready.view().claim(item) {
            shared.deferred.view().claim(item);
            seen = seen.max(shared.value.load(Ordering::Relaxed));
        }
    }
    let late = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.value.fetch_max(3, Ordering::Relaxed);
            shared.deferred.view().push(0);
        })
    };
    producer.join().unwrap();
    late.join().unwrap();
    seen = seen.max(consume(&shared));
    let mut items = Vec::new();
    shared.deferred.view().take(4, &mut items);
    for item in items {
        if shared.deferred.view().claim(item) {
            seen = seen.max(shared.value.load(Ordering::Relaxed));
        }
    }
    assert_eq!(seen, 3, "a deferred update is dropped");
}

#[test]
fn a_deferred_item_is_dropped_only_when_processed() {
    holds(deferral);
}

/// Three items, one entry: the others are found by sweeps.
fn sweeping() {
    let memory = Arc::new(Memory::new(1));
    let producer = {
        let memory = memory.clone();
        thread::spawn(move || {
            memory.view().push(0);
            memory.view().push(1);
            memory.view().push(2);
        })
    };
    let mut found = 0;
    let mut collect = || {
        let mut items = Vec::new();
        memory.view().take(4, &mut items);
        for item in items {
            if memory.view().claim(item) {
                found |= 1 << item;
            }
        }
    };
    collect();
    producer.join().unwrap();
    collect();
    assert_eq!(found, 7, "an item of an overflowed queue is lost");
}

#[test]
fn an_overflowed_queue_loses_nothing() {
    holds(sweeping);
}

#[test]
fn counting_after_the_sweep_is_caught() {
    fails_with(Fault::CountAfterSweep as usize, sweeping);
}

/// Settling a deferral after the value is read drops an update between the two.
fn settling() {
    let shared = Arc::new(Shared {
        ready: Memory::new(1),
        deferred: Memory::new(1),
        value: AtomicU32::new(1),
    });
    shared.ready.view().push(0);
    let producer = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.value.fetch_max(2, Ordering::Relaxed);
            shared.deferred.view().push(0);
        })
    };
    let mut seen = 0;
    if shared.ready.view().claim(0) {
        if seeded(Fault::DeferredNotCleared) {
            seen = shared.value.load(Ordering::Relaxed);
            shared.deferred.view().claim(0);
        } else {
            shared.deferred.view().claim(0);
            seen = shared.value.load(Ordering::Relaxed);
        }
    }
    producer.join().unwrap();
    if shared.deferred.view().claim(0) {
        seen = seen.max(shared.value.load(Ordering::Relaxed));
    }
    assert_eq!(seen, 2, "a deferred update is dropped");
}

#[test]
fn a_deferral_is_settled_before_the_value_is_read() {
    holds(settling);
}

#[test]
fn settling_a_deferral_too_late_is_caught() {
    fails_with(Fault::DeferredNotCleared as usize, settling);
}

/// `pack_outbox` of `host_driven.cuh` claims an item that it has no room for, and
/// `put_back` of `queue.cuh` queues it again, while a producer queues it too. Each item
/// produced must be in the queue or consumed.
fn putting_back() {
    let memory = Arc::new(Memory::new(1));
    let (produced, mut consumed) = (2, 0);
    memory.view().push(0);
    let producer = {
        let memory = memory.clone();
        thread::spawn(move || u32::from(!memory.view().push(0)))
    };
    if memory.view().claim(0) {
        // `put_back`.
        let is_new = memory.view().mark(0);
        consumed += u32::from(!is_new && !seeded(Fault::PutBackUncounted));
    }
    consumed += producer.join().unwrap();
    consumed += u32::from(memory.view().claim(0));
    assert_eq!(consumed, produced, "two items have become one, and nobody has counted that");
}

#[test]
fn items_put_back_are_counted() {
    holds(putting_back);
}

#[test]
fn items_put_back_without_counting_are_caught() {
    fails_with(Fault::PutBackUncounted as usize, putting_back);
}
