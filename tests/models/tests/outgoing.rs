//! What a sender sends, between the sender, those who produce messages and those who assign their
//! packets: the production queue under every interleaving, and how tasks wait for it.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-flow/src/outgoing.rs"]
mod outgoing;
#[allow(dead_code)]
#[path = "../../../crates/millstream-flow/src/watched.rs"]
mod watched;
mod sync {
    pub(crate) use millstream_models::Mutex;

    /// The faults of the production files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        WakerAfterTheLook,
        OfferSideBySide,
        StopAfterTheLook,
        CloseBeforeTheLast,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use std::future::poll_fn;

use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use millstream_models::{Mutex, fails_with, holds};
use outgoing::Outgoing;
use sync::Fault;

/// A sender, and what its destinations have seen of it.
struct Link {
    outgoing: Outgoing<&'static str>,
    offered: Mutex<Vec<(&'static str, usize)>>,
    /// How often it was closed.
    closed: AtomicUsize,
    failed: AtomicBool,
}

impl Link {
    fn new() -> Arc<Link> {
        Arc::new(Link {
            outgoing: Outgoing::new(),
            offered: Mutex::new(Vec::new()),
            closed: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        })
    }

    /// As `SenderShared::offer_ready`.
    fn offer_ready(&self) {
        let closes = self.outgoing.offer_ready(|offered| {
            // To submit takes time.
            thread::yield_now();
            self.offered.lock().push((offered.message, offered.items));
        });
        if closes {
            assert_eq!(self.offered.lock().len(), 2, "closed with messages left");
            self.closed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&self) -> Result<(), &'static str> {
        // Relaxed: the queue's lock orders it.
        let cause = || self.failed.load(Ordering::Relaxed).then_some("failed");
        block_on(poll_fn(|context| self.outgoing.poll_flushed(context.waker(), cause)))
    }

    /// As the thread that assigns packets: both messages, once they are offered.
    fn assign(&self) {
        for message in 0..2 {
            while self.offered.lock().len() <= message {
                thread::yield_now();
            }
            self.outgoing.assigned();
        }
    }
}

/// The first message is held up until another thread has produced it, and the second goes behind
/// it.
fn held_up() {
    let link = Link::new();
    let first = link.outgoing.push("first", None);
    let producer = {
        let link = Arc::clone(&link);
        thread::spawn(move || {
            link.outgoing.produced(first, 7);
            link.offer_ready();
        })
    };
    link.outgoing.push("second", Some(3));
    link.offer_ready();
    link.outgoing.shut_down();
    link.offer_ready();
    producer.join().unwrap();
    assert_eq!(*link.offered.lock(), [("first", 7), ("second", 3)]);
    assert_eq!(link.closed.load(Ordering::Relaxed), 1);
}

/// The sender waits until others have assigned both messages.
fn flushed() {
    let link = Link::new();
    let assigning = {
        let link = Arc::clone(&link);
        thread::spawn(move || link.assign())
    };
    for message in ["first", "second"] {
        link.outgoing.push(message, Some(1));
        link.offer_ready();
    }
    assert_eq!(link.flush(), Ok(()));
    assert_eq!(link.offered.lock().len(), 2);
    assigning.join().unwrap();
}

/// The graph fails while the sender waits for a message that nobody produces; what is produced
/// later goes nowhere.
fn failed() {
    let link = Link::new();
    let first = link.outgoing.push("first", None);
    let failing = {
        let link = Arc::clone(&link);
        thread::spawn(move || {
            link.failed.store(true, Ordering::Relaxed);
            link.outgoing.wake();
        })
    };
    assert_eq!(link.flush(), Err("failed"));
    link.outgoing.clear();
    link.outgoing.produced(first, 7);
    link.offer_ready();
    assert!(link.offered.lock().is_empty());
    failing.join().unwrap();
}

#[test]
fn messages_leave_in_their_order_and_the_last_one_closes() {
    holds(held_up);
}

#[test]
fn a_flush_ends_when_all_is_assigned() {
    holds(flushed);
}

#[test]
fn a_flush_ends_when_the_graph_fails() {
    holds(failed);
}

#[test]
fn two_who_offer_side_by_side_are_caught() {
    fails_with(Fault::OfferSideBySide as usize, held_up);
}

#[test]
fn a_message_that_is_left_is_caught() {
    fails_with(Fault::StopAfterTheLook as usize, held_up);
}

#[test]
fn closing_before_the_last_message_is_caught() {
    fails_with(Fault::CloseBeforeTheLast as usize, held_up);
}

#[test]
fn a_waker_that_comes_late_is_caught() {
    fails_with(Fault::WakerAfterTheLook as usize, flushed);
}

#[test]
fn a_failure_that_is_not_heard_is_caught() {
    fails_with(Fault::WakerAfterTheLook as usize, failed);
}
