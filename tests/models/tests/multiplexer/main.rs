//! Claims, stale offers, credit and the end of a stream: the production
//! multiplexer under every interleaving.

#![allow(clippy::unwrap_used)]

mod joined;
#[path = "../../../../crates/millstream-flow/src/joining.rs"]
mod joining;
#[allow(dead_code)]
#[path = "../../../../crates/millstream-flow/src/multiplexer.rs"]
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
        AssignSideBySide,
        EndWhileAssigning,
        WaitForABuffer,
        ArrivalUnheard,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use joining::Joining;
use loom::future::block_on;
use loom::thread;
use millstream_models::{fails_with, holds, holds_within_two};
use multiplexer::{Claim, Destination, Offer};
use sync::{Arc, Fault};

type TestDestination = Destination<&'static str, u8, Range<usize>>;

type TestClaim = Claim<&'static str, u8>;

/// A destination with so many buffers of an item, each as large as keeps an engine busy.
fn destination_of<P>(buffers: usize) -> Destination<&'static str, u8, P> {
    Destination::new(1, Joining::of(buffers, 16 << 20))
}

/// Waits for the next packet, or for the end.
fn next<P>(destination: &Destination<&'static str, u8, P>) -> Option<P> {
    block_on(poll_fn(|context| destination.poll_next(context.waker())))
}

/// Submits nothing; others go on meanwhile.
fn submit(claim: TestClaim) -> Result<Vec<Range<usize>>, Infallible> {
    thread::yield_now();
    Ok(claim.packets.into_iter().map(|(range, _)| range).collect())
}

/// The buffer of a claim's only packet.
fn buffer(claim: &TestClaim) -> u8 {
    assert_eq!(claim.packets.len(), 1);
    claim.packets[0].1
}

/// Assigns at one of two destinations.
fn assign(
    destinations: &[Arc<TestDestination>; 2],
    place: usize,
) -> impl Fn(TestClaim) -> Result<Vec<Range<usize>>, Infallible> {
    move |claim| {
        if claim.is_last {
            let other = 1 - place;
            destinations[other].offer_exhausted(assign(destinations, other))?;
        }
        submit(claim)
    }
}

fn two_destinations() -> [Arc<TestDestination>; 2] {
    let destination = || {
        let destination = destination_of(2);
        destination.seal(1);
        Arc::new(destination)
    };
    [destination(), destination()]
}

/// Offers a message of `items` to both and closes the only sender.
fn send(destinations: &[Arc<TestDestination>; 2], items: usize) {
    let offer = Arc::new(Offer::new("message", 0, 0..items));
    for (place, destination) in destinations.iter().enumerate() {
        destination.offer(Arc::clone(&offer), false, assign(destinations, place)).unwrap();
    }
    destinations.iter().for_each(|destination| destination.sender_closed());
}

/// Posts `credit` buffers, one at a time, and receives to the end.
fn receive(destinations: &[Arc<TestDestination>; 2], place: usize, credit: usize) -> Vec<usize> {
    let post = || destinations[place].post(0, assign(destinations, place)).unwrap();
    (0..credit).for_each(|_| post());
    let mut received = Vec::new();
    while let Some(range) = next(&destinations[place]) {
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
    // Not loom's: it only counts.
    let assigned = std::sync::Arc::new(AtomicUsize::new(0));
    let count = || {
        let assigned = std::sync::Arc::clone(&assigned);
        move |claim| {
            assigned.fetch_add(1, Ordering::Relaxed);
            submit(claim)
        }
    };
    let other = {
        let (destinations, count) = (destinations.clone(), count());
        thread::spawn(move || destinations[0].post(0, count).unwrap())
    };
    let offer = Arc::new(Offer::new("message", 0, 0..1));
    destinations[0].offer(Arc::clone(&offer), false, count()).unwrap();
    destinations[1].post(0, count()).unwrap();
    destinations[1].offer(offer, false, count()).unwrap();
    other.join().unwrap();
    assert_eq!(assigned.load(Ordering::Relaxed), 1);
}

/// Two post buffers for two packets, and one receives: in order, and to the end.
fn posted_by_others() {
    let destination: Arc<TestDestination> = Arc::new(destination_of(2));
    destination.seal(1);
    let post = || {
        let destination = Arc::clone(&destination);
        thread::spawn(move || destination.post(0, submit).unwrap())
    };
    destination.offer(Arc::new(Offer::new("message", 0, 0..2)), false, submit).unwrap();
    let others = [post(), post()];
    destination.sender_closed();
    let mut received = Vec::new();
    while let Some(range) = next(&destination) {
        received.extend(range);
    }
    assert_eq!(received, [0, 1]);
    others.into_iter().for_each(|other| other.join().unwrap());
}

#[test]
fn every_packet_is_claimed_once() {
    holds(claims);
}

#[test]
fn a_claim_without_an_exchange_is_caught() {
    fails_with(Fault::ClaimWithoutExchange as usize, claims);
}

/// To submit may mean to call who posts buffers, or who hears of failures.
fn assigned_by_who_posts() {
    let destination: TestDestination = destination_of(2);
    destination.seal(0);
    let again = |claim: TestClaim| {
        destination.interrupt();
        if buffer(&claim) == 0 {
            destination.post(1, submit)?;
        }
        submit(claim)
    };
    destination.offer(Arc::new(Offer::new("message", 0, 0..2)), false, submit).unwrap();
    destination.post(0, again).unwrap();
    for expected in [Some(0..1), Some(1..2), None] {
        assert_eq!(next(&destination), expected);
    }
}

#[test]
fn whoever_assigns_may_come_back() {
    holds(assigned_by_who_posts);
}

#[test]
fn packets_are_assigned_in_the_order_of_their_claims() {
    holds(posted_by_others);
}

#[test]
fn assigning_side_by_side_is_caught() {
    fails_with(Fault::AssignSideBySide as usize, posted_by_others);
}

#[test]
fn an_end_while_somebody_assigns_is_caught() {
    fails_with(Fault::EndWhileAssigning as usize, posted_by_others);
}

#[test]
fn everything_arrives_and_both_streams_end() {
    holds_within_two(scenario(2, [1, 1]));
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
        Arc::new(destination_of(2));
    let assign = |claim: TestClaim| {
        Ok::<_, Infallible>(Some((claim.offer.message, claim.packets[0].0.start)))
    };
    for (message, source, items) in [("long", 0, 3), ("after it", 0, 1), ("other", 1, 2)] {
        destination.offer(Arc::new(Offer::new(message, source, 0..items)), false, assign).unwrap();
    }
    destination.seal(0);
    let receiver = Arc::clone(&destination);
    let receiver = thread::spawn(move || {
        let mut received = Vec::new();
        while let Some(packet) = next(&receiver) {
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

/// What a source has written into one of a destination's two buffers, and another one's message of
/// two packets, for which there is only the other.
fn in_place() {
    let destination: Arc<Destination<&'static str, u8, (&'static str, u8)>> =
        Arc::new(destination_of(2));
    // The one that reserves keeps the buffer.
    let reserved = std::sync::Arc::new(AtomicUsize::new(usize::MAX));
    let assign = {
        let reserved = std::sync::Arc::clone(&reserved);
        move |claim: TestClaim| {
            if claim.offer.message == "reservation" {
                reserved.store(buffer(&claim).into(), Ordering::Relaxed);
                return Ok(None);
            }
            Ok::<_, Infallible>(Some((claim.offer.message, buffer(&claim))))
        }
    };
    let offer = |message, source, items| Arc::new(Offer::new(message, source, 0..items));
    destination.offer(offer("reservation", usize::MAX, 1), false, &assign).unwrap();
    destination.post(7, &assign).unwrap();
    assert_eq!(reserved.load(Ordering::Relaxed), 7);
    destination.seal(2);
    let sender = {
        let (destination, assign) = (Arc::clone(&destination), assign.clone());
        thread::spawn(move || {
            destination.offer_in_place(offer("in place", 0, 1), 7, &assign).unwrap();
            destination.sender_closed();
        })
    };
    destination.offer(offer("copied", 1, 2), false, &assign).unwrap();
    destination.sender_closed();
    let mut received = Vec::new();
    while let Some(packet) = next(&destination) {
        received.push(packet);
        // The other buffer comes only when what is there has been received.
        let next = if received.len() == 1 { 8 } else { packet.1 };
        destination.post(next, &assign).unwrap();
    }
    sender.join().unwrap();
    assert_eq!(received.len(), 3);
    assert_eq!(received[0], ("in place", 7));
    assert_eq!(received.iter().filter(|packet| packet.0 == "copied").count(), 2);
}

#[test]
fn what_lies_in_place_waits_for_no_buffer() {
    holds(in_place);
}

#[test]
fn waiting_for_a_buffer_in_place_is_caught() {
    fails_with(Fault::WaitForABuffer as usize, in_place);
}

/// A reservation that is given up at any time neither keeps a stream from ending nor a buffer.
fn given_up() {
    let destination: Arc<TestDestination> = Arc::new(destination_of(2));
    destination.seal(0);
    let freed = std::sync::Arc::new(AtomicUsize::new(0));
    let assign = {
        let freed = std::sync::Arc::clone(&freed);
        move |claim: TestClaim| {
            freed.fetch_add(usize::from(buffer(&claim)), Ordering::Relaxed);
            Ok::<_, Infallible>(None::<Range<usize>>)
        }
    };
    let offer = Arc::new(Offer::new("reservation", usize::MAX, 0..1));
    destination.offer(Arc::clone(&offer), false, &assign).unwrap();
    let poster = {
        let destination = Arc::clone(&destination);
        thread::spawn(move || destination.post(7, assign).unwrap())
    };
    let is_given_up = offer.claim(1).is_some();
    if is_given_up {
        destination.offer_exhausted(submit).unwrap();
    }
    assert_eq!(next(&destination), None);
    poster.join().unwrap();
    assert_eq!(freed.load(Ordering::Relaxed), if is_given_up { 0 } else { 7 });
}

#[test]
fn a_reservation_may_be_given_up() {
    holds(given_up);
}

/// What lies in place arrives while another reservation of its source waits for a buffer, which the
/// receiver keeps until then; and when that is given up.
fn behind_a_reservation() {
    let destination: Arc<TestDestination> = Arc::new(destination_of(2));
    destination.seal(1);
    let waiting = Arc::new(Offer::new("reservation", usize::MAX, 0..1));
    destination.offer(Arc::clone(&waiting), false, submit).unwrap();
    let sender = {
        let destination = Arc::clone(&destination);
        thread::spawn(move || {
            let offer = Arc::new(Offer::new("in place", 0, 0..1));
            destination.offer_in_place(offer, 7, submit).unwrap();
            assert!(waiting.claim(1).is_some());
            destination.offer_exhausted(submit).unwrap();
            destination.sender_closed();
        })
    };
    for expected in [Some(0..1), None] {
        assert_eq!(next(&destination), expected);
    }
    sender.join().unwrap();
}

#[test]
fn a_reservation_holds_up_nothing_that_is_sent() {
    holds(behind_a_reservation);
}
