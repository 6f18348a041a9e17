//! Submitting against completing, words that wrap around, parking: the
//! production completion words under every interleaving.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-device/src/reactor/core.rs"]
mod core;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use loom::thread::{Thread, park};
    pub(crate) use millstream_models::Mutex;

    /// The faults of the production file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        PlainCompare,
        ParkWithoutRecheck,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use core::{Parking, Waiting, reached, shown};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32};
use loom::thread;
use millstream_models::{fails_with, holds};
use sync::{Fault, Ordering};

/// A stream's word, what its operation writes, and who waits for it.
struct Stream {
    word: AtomicU32,
    result: UnsafeCell<u32>,
    waiting: Waiting<&'static str>,
    parking: Parking,
}

// SAFETY: what the model is about: loom fails where a read of the result is not
// ordered after its write.
unsafe impl Sync for Stream {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Stream {}

/// A thread submits an operation, the device completes it, and the reactor, awake
/// or about to park, finishes it and sees what it wrote.
fn completion(first: u64) -> impl Fn() + Sync + Send + 'static {
    move || {
        let stream = Arc::new(Stream {
            word: AtomicU32::new(shown(first)),
            result: UnsafeCell::new(0),
            waiting: Waiting::new(),
            parking: Parking::new(),
        });
        let point = first + 1;
        let reactor = {
            let stream = Arc::clone(&stream);
            thread::spawn(move || {
                loop {
                    let word = stream.word.load(Ordering::Acquire);
                    if !stream.waiting.take_done(word, |_| true).is_empty() {
                        break;
                    }
                    match stream.waiting.is_empty() {
                        true => stream.parking.park_unless(|| !stream.waiting.is_empty()),
                        false => thread::yield_now(),
                    }
                }
                // SAFETY: the operation is done.
                assert_eq!(stream.result.with(|result| unsafe { *result }), 7);
            })
        };
        let device = {
            let stream = Arc::clone(&stream);
            thread::spawn(move || {
                // SAFETY: nobody reads before the word says so.
                stream.result.with_mut(|result| unsafe { *result = 7 });
                stream.word.store(shown(point), Ordering::Release);
            })
        };
        stream.waiting.push(point, "an event");
        stream.parking.notify(reactor.thread());
        device.join().unwrap();
        reactor.join().unwrap();
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
fn an_operation_is_finished_and_its_result_seen() {
    holds(completion(0));
}

#[test]
fn words_wrap_around() {
    const LAST: u64 = u32::MAX as u64;
    holds(completion(LAST));
    holds(completion((7 << 32) + LAST));
    assert!(reached(2, LAST) && !reached(u32::MAX, 2) && reached(5, 5));
    assert!(reached(5, (7 << 32) + 5) && !reached(4, (7 << 32) + 5));
}

#[test]
fn the_reactor_notices_who_registers_while_it_parks() {
    holds(parking);
}

#[test]
fn a_plain_compare_is_caught() {
    fails_with(Fault::PlainCompare as usize, completion(u64::from(u32::MAX)));
}

#[test]
fn parking_without_a_second_look_is_caught() {
    fails_with(Fault::ParkWithoutRecheck as usize, parking);
}
