//! Packets that are copied together, and those that wait for others to be copied with.

use loom::thread;
use millstream_models::{fails_with, holds};

use super::joining::Joining;
use super::multiplexer::{Destination, Offer};
use super::sync::{Arc, Fault};
use super::{TestClaim, TestDestination, assign, destination_of, next, submit};

/// Five packets for four buffers: the first goes alone, two together, and the next waits for the last, for
/// which there is no buffer yet, as long as the others are under way.
fn joined(posts_late: bool) {
    let destination: Arc<TestDestination> = Arc::new(destination_of(4));
    destination.seal(0);
    (0..4).for_each(|buffer| destination.post(buffer, submit).unwrap());
    let offer = Arc::new(Offer::new("message", 0, 0..5));
    destination.offer(Arc::clone(&offer), true, submit).unwrap();
    let arriving = Arc::clone(&destination);
    let arrivals = thread::spawn(move || {
        [1, 2].map(|packets| arriving.arrived(&offer, packets, submit).unwrap())
    });
    if !posts_late {
        destination.post(0, submit).unwrap();
    }
    for packet in 0..5 {
        assert_eq!(next(&destination), Some(packet..packet + 1));
        if posts_late && packet == 3 {
            destination.post(0, submit).unwrap();
        }
    }
    assert_eq!(next(&destination), None);
    arrivals.join().unwrap();
}

#[test]
fn packets_that_wait_for_each_other_arrive_in_order() {
    holds(|| joined(false));
}

#[test]
fn a_packet_waits_for_no_buffer_of_another() {
    holds(|| joined(true));
}

#[test]
fn an_arrival_that_nobody_hears_of_is_caught() {
    fails_with(Fault::ArrivalUnheard as usize, || joined(true));
}

/// Nothing runs beside it: which packets are copied together.
fn claims_of_several() {
    let destination: TestDestination = destination_of(8);
    let claims = std::cell::RefCell::new(Vec::new());
    let assign = |claim: TestClaim| {
        claims.borrow_mut().push(claim.packets.len());
        submit(claim)
    };
    let offer = |source| Arc::new(Offer::new("message", source, 0..20));
    let (first, second) = (offer(0), offer(1));
    (0..8).for_each(|buffer| destination.post(buffer, assign).unwrap());
    destination.offer(Arc::clone(&first), true, assign).unwrap();
    // One more than are under way, and four at most; the last one waits for another.
    assert_eq!(claims.take(), [1, 2, 4]);
    destination.post(0, assign).unwrap();
    assert_eq!(claims.take(), [2]);
    destination.arrived(&first, 7, assign).unwrap();
    assert!(claims.borrow().is_empty());
    destination.post(0, assign).unwrap();
    assert!(claims.borrow().is_empty());
    destination.arrived(&first, 1, assign).unwrap();
    assert_eq!(claims.take(), [1]);
    // A message whose packets do not join ends the wait of what is before it.
    destination.post(0, assign).unwrap();
    assert!(claims.borrow().is_empty());
    let other = Arc::new(Offer::new("message", 1, 0..1));
    destination.offer_in_place(other, 0, assign).unwrap();
    assert_eq!(claims.take(), [1, 1]);
    // Nor does a packet wait for those of another source, which may come only after it.
    destination.offer(Arc::clone(&second), true, assign).unwrap();
    for _ in 0..2 {
        destination.post(0, assign).unwrap();
        destination.post(0, assign).unwrap();
        assert_eq!(claims.take(), [1, 1]);
    }
    // Packets that were submitted before another source's are over as well.
    destination.arrived(&first, 3, assign).unwrap();
    destination.arrived(&second, 2, assign).unwrap();
    assert!(claims.borrow().is_empty());
}

#[test]
fn packets_are_copied_together_while_others_are_under_way() {
    holds(claims_of_several);
}

/// Too few of them to keep an engine busy.
fn claims_of_small_packets() {
    let destination: TestDestination = Destination::new(1, Joining::of(10, 2 << 20));
    (0..7).for_each(|buffer| destination.post(buffer, submit).unwrap());
    let assign = |claim: TestClaim| {
        assert_eq!(claim.packets.len(), 1);
        submit(claim)
    };
    let offer = Arc::new(Offer::new("message", 0, 0..20));
    destination.offer(Arc::clone(&offer), true, assign).unwrap();
    for _ in 0..13 {
        destination.arrived(&offer, 1, assign).unwrap();
        destination.post(0, assign).unwrap();
    }
    destination.seal(0);
    for packet in 0..20 {
        assert_eq!(next(&destination), Some(packet..packet + 1));
    }
}

#[test]
fn small_packets_wait_for_nothing() {
    holds(claims_of_small_packets);
}

/// The last of five packets goes to another destination: what waits for it goes alone, though nothing arrives.
fn waits_for_what_goes_elsewhere() {
    let destinations = [4, 4].map(|buffers| Arc::new(destination_of(buffers)));
    let [waiting, other] = &destinations;
    waiting.seal(0);
    other.seal(0);
    (0..4).for_each(|buffer| waiting.post(buffer, assign(&destinations, 0)).unwrap());
    let offer = Arc::new(Offer::new("message", 0, 0..5));
    for (place, destination) in destinations.iter().enumerate() {
        destination.offer(Arc::clone(&offer), true, assign(&destinations, place)).unwrap();
    }
    let poster = {
        let destinations = destinations.clone();
        thread::spawn(move || destinations[1].post(0, assign(&destinations, 1)).unwrap())
    };
    for (destination, packets) in [(waiting, 0..4), (other, 4..5)] {
        for packet in packets {
            assert_eq!(next(destination), Some(packet..packet + 1));
        }
        assert_eq!(next(destination), None);
    }
    poster.join().unwrap();
}

#[test]
fn a_packet_waits_for_none_that_goes_elsewhere() {
    holds(waits_for_what_goes_elsewhere);
}

#[test]
fn an_exhausted_offer_not_announced_to_who_waits_is_caught() {
    fails_with(Fault::ExhaustedOfferNotAnnounced as usize, waits_for_what_goes_elsewhere);
}

/// However many are submitted together, no buffer is missing.
fn buffers_while_packets_are_submitted() {
    let destination: TestDestination = destination_of(8);
    (0..8).for_each(|buffer| destination.post(buffer, submit).unwrap());
    let offer = Arc::new(Offer::new("message", 0, 0..20));
    let assign = |claim: TestClaim| {
        let standing = destination.standing();
        assert_eq!(standing.buffers + standing.arrived, 8);
        submit(claim)
    };
    destination.offer(offer, true, assign).unwrap();
}

#[test]
fn buffers_are_counted_while_packets_are_submitted() {
    holds(buffers_while_packets_are_submitted);
}
