//! Counting and the end: the production check under every interleaving, with
//! two devices and an item that moves between them.

#![allow(clippy::unwrap_used)]

#[path = "../../../crates/millstream-worklist/src/termination.rs"]
mod termination;
mod sync {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        WrongReadingOrder,
        CountAfterPublish,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds};
use sync::{Fault, seeded};
use termination::{WorkCounters, nothing_ready};

#[derive(Default)]
struct Device {
    produced: AtomicU64,
    consumed: AtomicU64,
}

impl WorkCounters for Device {
    fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Acquire)
    }

    fn produced(&self) -> u64 {
        self.produced.load(Ordering::Acquire)
    }
}

/// Processes one item that makes `children` items.
fn process(device: &Device, publish: impl Fn(), children: u64) {
    if seeded(Fault::CountAfterPublish) {
        publish();
        device.consumed.fetch_add(1, Ordering::AcqRel);
        device.produced.fetch_add(children, Ordering::AcqRel);
    } else {
        device.produced.fetch_add(children, Ordering::AcqRel);
        publish();
        device.consumed.fetch_add(1, Ordering::AcqRel);
    }
}

/// Device 0 processes the first item, which makes one for device 1.
fn item_moves_on() {
    let devices = Arc::new([Device::default(), Device::default()]);
    devices[0].produced.store(1, Ordering::Relaxed);
    let mailbox = Arc::new(AtomicUsize::new(0));
    let processed = Arc::new(AtomicUsize::new(0));
    let first = {
        let (devices, mailbox, processed) = (devices.clone(), mailbox.clone(), processed.clone());
        thread::spawn(move || {
            processed.fetch_add(1, Ordering::Relaxed);
            process(&devices[0], || mailbox.store(1, Ordering::Release), 1);
        })
    };
    let second = {
        let (devices, processed) = (devices.clone(), processed.clone());
        thread::spawn(move || {
            while mailbox.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            processed.fetch_add(1, Ordering::Relaxed);
            process(&devices[1], || (), 0);
        })
    };
    if nothing_ready(&*devices) {
        assert_eq!(processed.load(Ordering::Relaxed), 2, "the end came too early");
    }
    first.join().unwrap();
    second.join().unwrap();
    assert!(nothing_ready(&*devices), "the end is never seen");
}

#[test]
fn the_end_is_neither_early_nor_missed() {
    holds(item_moves_on);
}

#[test]
fn counting_after_publishing_is_caught() {
    fails_with(Fault::CountAfterPublish as usize, item_moves_on);
}

#[test]
fn reading_produced_first_is_caught() {
    fails_with(Fault::WrongReadingOrder as usize, item_moves_on);
}
