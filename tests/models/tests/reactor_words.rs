//! Registering against completing, words that wrap around, parking: the
//! production completion words under every interleaving.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-device/src/reactor/core.rs"]
mod core;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    pub(crate) use loom::thread::{Thread, park};
    pub(crate) use millstream_models::Mutex;

    /// The faults of the production file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        PlainCompare,
        RegisterWithoutRecheck,
        ParkWithoutRecheck,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use std::future::poll_fn;

use core::{Parking, Word, reached};
use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;
use millstream_models::{fails_with, holds};
use sync::{Fault, Ordering};

/// A word and what its operations write.
struct Stream {
    word: Word,
    result: UnsafeCell<u32>,
}

// SAFETY: what the model is about: loom fails where a read of the result is not
// ordered after its write.
unsafe impl Sync for Stream {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Stream {}

/// A host device completes an operation and sweeps once, as another thread waits
/// for it: the waiter is woken and sees the result.
fn completion(first: u32) -> impl Fn() + Sync + Send + 'static {
    move || {
        let stream = Arc::new(Stream { word: Word::new(first), result: UnsafeCell::new(0) });
        let target = first.wrapping_add(1);
        let device = {
            let stream = Arc::clone(&stream);
            thread::spawn(move || {
                // SAFETY: nobody reads before the word says so.
                stream.result.with_mut(|result| unsafe { *result = 7 });
                stream.word.complete(target);
                stream.word.sweep();
            })
        };
        block_on(poll_fn(|context| stream.word.poll(target, context)));
        // SAFETY: the operation is done.
        assert_eq!(stream.result.with(|result| unsafe { *result }), 7);
        device.join().unwrap();
    }
}

/// The reactor parks or not as a waiter registers: it gets to know the waiter.
fn parking() {
    struct Shelf {
        armed: millstream_models::Mutex<bool>,
        parking: Parking,
        noticed: AtomicBool,
    }
    let shelf = Arc::new(Shelf {
        armed: millstream_models::Mutex::new(false),
        parking: Parking::new(),
        noticed: AtomicBool::new(false),
    });
    let reactor = {
        let shelf = Arc::clone(&shelf);
        thread::spawn(move || {
            while !*shelf.armed.lock() {
                shelf.parking.park_unless(|| *shelf.armed.lock());
            }
            shelf.noticed.store(true, Ordering::Relaxed);
        })
    };
    *shelf.armed.lock() = true;
    shelf.parking.notify(reactor.thread());
    reactor.join().unwrap();
    assert!(shelf.noticed.load(Ordering::Relaxed));
}

#[test]
fn a_waiter_is_woken_and_sees_the_result() {
    holds(completion(0));
}

#[test]
fn words_wrap_around() {
    holds(completion(u32::MAX));
    assert!(reached(2, u32::MAX) && !reached(u32::MAX, 2) && reached(5, 5));
}

#[test]
fn the_reactor_notices_who_registers_while_it_parks() {
    holds(parking);
}

#[test]
fn a_plain_compare_is_caught() {
    fails_with(Fault::PlainCompare as usize, completion(u32::MAX));
}

#[test]
fn a_registration_without_a_second_look_is_caught() {
    fails_with(Fault::RegisterWithoutRecheck as usize, completion(0));
}

#[test]
fn parking_without_a_second_look_is_caught() {
    fails_with(Fault::ParkWithoutRecheck as usize, parking);
}
