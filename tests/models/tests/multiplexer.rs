//! Claims, stale offers, credit and the end of a stream: the production
//! multiplexer under every interleaving.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-flow/src/multiplexer.rs"]
mod multiplexer;
mod sync {
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
    pub(crate) use millstream_models::Mutex;

    /// The faults of the production file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        ClaimWithoutExchange,
        StaleOfferKept,
        ExhaustedOfferNotAnnounced,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::Range;

use loom::future::block_on;
use loom::thread;
use millstream_models::{fails_with, holds};
use multiplexer::{Destination, Offer};
use sync::{Arc, Fault};

type TestDestination = Destination<&'static str, u8, Range<usize>>;

fn assign(
    _: &Offer<&'static str>,
    range: Range<usize>,
    _: u8,
) -> Result<(Range<usize>, ()), Infallible> {
    Ok((range, ()))
}

fn two_destinations() -> [Arc<TestDestination>; 2] {
    let destination = || {
        let destination = Destination::new(1);
        destination.seal(1);
        Arc::new(destination)
    };
    [destination(), destination()]
}

/// Offers a message of `items` to both and closes the only sender.
fn send(destinations: &[Arc<TestDestination>; 2], items: usize) {
    let offer = Arc::new(Offer::new("message", 0, 0..items));
    for (place, destination) in destinations.iter().enumerate() {
        let matched = destination.offer(Arc::clone(&offer), assign).unwrap();
        for _ in matched.exhausted {
            destinations[1 - place].offer_exhausted();
        }
    }
    destinations.iter().for_each(|destination| destination.sender_closed());
}

/// Posts `credit` buffers, one at a time, and receives to the end.
fn receive(destinations: &[Arc<TestDestination>; 2], place: usize, credit: usize) -> Vec<usize> {
    let post = || {
        let matched = destinations[place].post(0, assign).unwrap();
        for _ in matched.exhausted {
            destinations[1 - place].offer_exhausted();
        }
    };
    (0..credit).for_each(|_| post());
    let mut received = Vec::new();
    while let Some(range) =
        block_on(poll_fn(|context| destinations[place].poll_next(context.waker())))
    {
        received.extend(range);
        post();
    }
    received
}

/// Two receivers on threads of their own; the sender on this one.
fn scenario(items: usize, credits: [usize; 2]) -> impl Fn() + Sync + Send + 'static {
    move || {
        let destinations = two_destinations();
        let receivers = [0, 1].map(|place| {
            let destinations = destinations.clone();
            thread::spawn(move || receive(&destinations, place, credits[place]))
        });
        send(&destinations, items);
        let mut all: Vec<usize> =
            receivers.into_iter().flat_map(|receiver| receiver.join().unwrap()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..items).collect::<Vec<_>>());
    }
}

/// Two destinations match at once: the claim itself.
fn claims() {
    let destinations = two_destinations();
    let other = {
        let destinations = destinations.clone();
        thread::spawn(move || {
            let matched = destinations[0].post(0, assign).unwrap();
            matched.assigned.len()
        })
    };
    let offer = Arc::new(Offer::new("message", 0, 0..1));
    let first = destinations[0].offer(Arc::clone(&offer), assign).unwrap();
    destinations[1].post(0, assign).unwrap();
    let second = destinations[1].offer(offer, assign).unwrap();
    let assigned = first.assigned.len() + second.assigned.len() + other.join().unwrap();
    assert_eq!(assigned, 1);
}

#[test]
fn every_packet_is_claimed_once() {
    holds(claims);
}

#[test]
fn a_claim_without_an_exchange_is_caught() {
    fails_with(Fault::ClaimWithoutExchange as usize, claims);
}

#[test]
fn everything_arrives_and_both_streams_end() {
    holds(scenario(2, [1, 1]));
}

#[test]
fn a_destination_without_credit_still_ends() {
    holds(scenario(1, [1, 0]));
}

#[test]
fn a_stale_offer_kept_is_caught() {
    fails_with(Fault::StaleOfferKept as usize, scenario(1, [1, 1]));
}

#[test]
fn an_exhausted_offer_not_announced_is_caught() {
    fails_with(Fault::ExhaustedOfferNotAnnounced as usize, scenario(1, [1, 0]));
}

/// Two messages of one source and one of another, in packets of one item.
fn turns() {
    let destination: Arc<Destination<&'static str, u8, (&'static str, usize)>> =
        Arc::new(Destination::new(1));
    let assign = |offer: &Offer<&'static str>, range: Range<usize>, _| {
        Ok::<_, Infallible>(((offer.message, range.start), ()))
    };
    for (message, source, items) in [("long", 0, 3), ("after it", 0, 1), ("other", 1, 2)] {
        destination.offer(Arc::new(Offer::new(message, source, 0..items)), assign).unwrap();
    }
    destination.seal(0);
    let receiver = Arc::clone(&destination);
    let receiver = thread::spawn(move || {
        let mut received = Vec::new();
        while let Some(packet) = block_on(poll_fn(|context| receiver.poll_next(context.waker()))) {
            received.push(packet);
        }
        received
    });
    for _ in 0..6 {
        destination.post(0, assign).unwrap();
    }
    let expected =
        [("long", 0), ("other", 0), ("long", 1), ("other", 1), ("long", 2), ("after it", 0)];
    assert_eq!(receiver.join().unwrap(), expected);
}

#[test]
fn sources_take_turns_and_each_keeps_its_order() {
    holds(turns);
}
