//! The gang's barrier, step by step as in `kernels/src/gang_barrier.cuh`, under every
//! interleaving: two blocks of one device, and two devices of one block each, meet four times, so
//! that each turn of the sums comes again; blocks of one device meet twice after they have met by
//! themselves twice each time; three blocks of one device or of two meet once. Where the host stops
//! the gang, all blocks leave, also those that did not look.
//!
//! | here | there |
//! |---|---|
//! | `Block::meet` | `GangBarrier::meet` |
//! | `Block::arrive`, `Block::hear`, `Block::clear` | the same |
//! | `Block::wait` | `await`, and the wait in `hear_here` |
//! | `Block::meet_here` | `GangBarrier::hear_here` |
//! | `Block::is_told_to_stop`, `Block::gives_up` | the same |
//! | `Tally`, `arrivals`, `Sums` | `tally`, `arrivals`, `sums` |
//!
//! A block is one thread; what it sends is one more count, and is left out. A device's first
//! block looks for a stop of the host in each round, as if a millisecond had passed; each block at
//! its device's word in each turn of a wait. By themselves blocks come so rarely that
//! nothing carries over, and take no places between two meetings without a round. What blocks do between rounds are
//! plain writes, of which loom knows whether they come before the reads of others. Loom knows no
//! scopes: to it a device alone is as one of several.

#![allow(clippy::unwrap_used)]

mod block;

use block::{Block, Device, Fault, Gang, MOST_DEVICES};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use millstream_models::{fails_with, holds, holds_within_two};

/// Blocks of each device, and how often they meet.
#[derive(Clone, Copy, Default)]
struct Case {
    blocks: [u64; MOST_DEVICES],
    rounds: u64,
    meets_here: bool,
    /// Whether the host may stop them.
    may_stop: bool,
    /// Of three one waits, and the others leave once they have arrived: loom takes no two that
    /// spin beside a third.
    waiter: Option<u64>,
}

fn meet(case: Case) {
    let Case { blocks, rounds, meets_here, may_stop, waiter } = case;
    let all: u64 = blocks.iter().sum();
    let devices = blocks.iter().filter(|&&blocks| blocks > 0).map(|_| Device::default()).collect();
    let cells = (0..all).map(|_| std::array::from_fn(|_| UnsafeCell::new(0))).collect();
    let host = may_stop.then(AtomicU64::default);
    let gang = Arc::new(Gang { devices, blocks, meets_here, host, cells });
    let run = move |place: u64, gang: Arc<Gang>| {
        let leaves = waiter.is_some_and(|waiter| waiter != place);
        Block::new(&gang, place, leaves).run(place as usize, rounds);
    };
    let others = (1..all).map(|place| {
        let gang = Arc::clone(&gang);
        thread::spawn(move || run(place, gang))
    });
    let others: Vec<_> = others.collect();
    let host = gang.host.is_some().then(|| {
        let gang = Arc::clone(&gang);
        thread::spawn(move || gang.host.iter().for_each(|stop| stop.store(1, Ordering::Relaxed)))
    });
    run(0, gang);
    host.into_iter().for_each(|thread| thread.join().unwrap());
    others.into_iter().for_each(|thread| thread.join().unwrap());
}

fn two_blocks_four_times() {
    meet(Case { blocks: [2, 0], rounds: 4, ..Case::default() });
}

fn two_blocks_by_themselves() {
    meet(Case { blocks: [2, 0], rounds: 2, meets_here: true, ..Case::default() });
}

fn two_devices_four_times() {
    meet(Case { blocks: [1, 1], rounds: 4, ..Case::default() });
}

fn three_blocks_once(blocks: [u64; MOST_DEVICES], waiter: u64) {
    meet(Case { blocks, rounds: 1, waiter: Some(waiter), ..Case::default() });
}

fn two_blocks_until_they_are_stopped() {
    meet(Case { blocks: [2, 0], rounds: 2, may_stop: true, ..Case::default() });
}

fn two_blocks_by_themselves_until_they_are_stopped() {
    let blocks = [2, 0];
    meet(Case { blocks, rounds: 2, meets_here: true, may_stop: true, ..Case::default() });
}

fn two_devices_until_they_are_stopped() {
    meet(Case { blocks: [1, 1], rounds: 2, may_stop: true, ..Case::default() });
}

#[test]
fn everything_before_is_visible_after() {
    holds(two_blocks_four_times);
}

#[test]
fn rounds_do_not_mix() {
    holds(two_devices_four_times);
}

#[test]
fn what_all_blocks_did_is_visible_to_each() {
    holds(|| three_blocks_once([3, 0], 0));
    holds(|| three_blocks_once([3, 0], 1));
}

#[test]
fn what_all_blocks_did_is_visible_to_other_devices() {
    holds(|| three_blocks_once([2, 1], 0));
    holds(|| three_blocks_once([2, 1], 1));
    holds(|| three_blocks_once([2, 1], 2));
}

#[test]
fn waiting_for_other_devices_only_is_caught() {
    fails_with(Fault::WaitForOthersOnly as usize, || three_blocks_once([2, 1], 0));
}

#[test]
fn blocks_of_a_device_meet_by_themselves() {
    holds(two_blocks_by_themselves);
}

#[test]
fn blocks_that_are_stopped_leave() {
    holds(two_blocks_until_they_are_stopped);
}

#[test]
fn blocks_by_themselves_that_are_stopped_leave() {
    holds_within_two(two_blocks_by_themselves_until_they_are_stopped);
}

#[test]
fn devices_that_are_stopped_leave() {
    holds_within_two(two_devices_until_they_are_stopped);
}

#[test]
fn an_arrival_without_its_fence_is_caught() {
    fails_with(Fault::ArrivalWithoutFence as usize, two_blocks_four_times);
}

#[test]
fn waiting_without_an_acquire_is_caught() {
    fails_with(Fault::WaitWithoutAcquire as usize, two_devices_four_times);
}

#[test]
fn a_first_block_that_counts_for_all_is_caught() {
    fails_with(Fault::FirstIsAll as usize, two_blocks_four_times);
}

#[test]
fn a_first_block_that_counts_for_all_is_caught_by_another_device() {
    fails_with(Fault::FirstIsAll as usize, || three_blocks_once([2, 1], 2));
}

#[test]
fn sums_that_take_two_turns_only_are_caught() {
    fails_with(Fault::TwoTurns as usize, two_devices_four_times);
}

#[test]
fn sums_cleared_at_once_are_caught() {
    fails_with(Fault::ClearAtOnce as usize, two_blocks_four_times);
}

#[test]
fn sums_cleared_before_all_have_come_are_caught() {
    fails_with(Fault::ClearBeforeWait as usize, two_blocks_four_times);
}

#[test]
fn sums_cleared_a_round_late_are_caught() {
    fails_with(Fault::ClearLate as usize, two_devices_four_times);
}

#[test]
fn a_maximum_that_stays_is_caught() {
    fails_with(Fault::MostStays as usize, two_devices_four_times);
}

#[test]
fn arrivals_that_stay_are_caught() {
    fails_with(Fault::ArrivalsStay as usize, two_devices_four_times);
}

#[test]
fn blocks_that_do_not_say_that_they_have_more_are_caught() {
    fails_with(Fault::MoreUnsaid as usize, two_blocks_four_times);
}

#[test]
fn a_stop_that_others_are_not_told_is_caught() {
    fails_with(Fault::StopUntold as usize, two_devices_until_they_are_stopped);
}

#[test]
fn waiting_without_a_look_is_caught() {
    fails_with(Fault::WaitWithoutLook as usize, two_devices_until_they_are_stopped);
}

#[test]
fn an_arrival_by_themselves_without_its_release_is_caught() {
    fails_with(Fault::HereWithoutRelease as usize, two_blocks_by_themselves);
}

#[test]
fn waiting_by_themselves_for_one_meeting_only_is_caught() {
    fails_with(Fault::HereForOneOnly as usize, two_blocks_by_themselves);
}

#[test]
fn places_that_are_said_again_are_caught() {
    fails_with(Fault::HereSaysAgain as usize, two_blocks_by_themselves);
}

#[test]
fn meeting_by_themselves_once_in_a_round_only_is_caught() {
    fails_with(Fault::HereOnceInARound as usize, two_blocks_by_themselves);
}
