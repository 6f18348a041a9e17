//! The gang's barrier, step by step as in `kernels/src/gang_barrier.cuh`, under every
//! interleaving: two blocks of one device, and two devices of one block each, meet four times, so
//! that each turn of the sums comes again; blocks of one device meet twice after they have met by
//! themselves twice each time; and three blocks of one device or of two meet once. Where the host
//! stops the gang, all blocks leave, also those that did not look.
//!
//! | here | there |
//! |---|---|
//! | `Block::meet` | `GangBarrier::meet` |
//! | `Block::arrive`, `Block::hear`, `Block::clear` | the same |
//! | `Block::wait` | `await`, and the wait in `meet_here_after` |
//! | `Block::meet_here` | `GangBarrier::meet_here` |
//! | `Block::is_told_to_stop`, `Block::gives_up` | the same |
//! | `Tally`, `Sums` | `tally`, `sums` |
//!
//! A block is one thread; what it sends is one more count, and is left out. A device's first
//! block looks for a stop of the host in each round, as if a millisecond had passed; each block at its
//! device's word after the wait, and in each turn of it. What blocks do between rounds are plain writes, of which loom
//! knows whether they come before the reads of others. Loom knows no scopes: to it a device alone
//! is as one of several.

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use millstream_models::{fails_with, holds, holds_within_two, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    ArrivalWithoutFence,
    WaitWithoutAcquire,
    WaitForOneRoundOnly,
    FirstIsAll,
    TwoTurns,
    ClearAtOnce,
    ClearBeforeWait,
    ClearLate,
    MostStays,
    HereWithoutFence,
    HereStaysArrived,
    HereResetLate,
    HereOnceInARound,
    StopUntold,
    WaitWithoutLook,
    WaitForOthersOnly,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const MOST_DEVICES: usize = 2;
const MOST_STEPS: usize = 4;
const TURNS: usize = 3;
const ROUND_SHIFT: u32 = 24;

/// Of a round, what a device's blocks have counted, and their largest offer.
#[derive(Default)]
struct Sums {
    places: AtomicU64,
    most: AtomicU64,
}

#[derive(Default)]
struct Tally {
    /// Blocks that have come since the start.
    come: AtomicU64,
    /// Of three rounds, in turns.
    sums: [Sums; TURNS],
}

#[derive(Default)]
struct Device {
    /// From each device.
    tallies: [Tally; MOST_DEVICES],
    /// Places of its list, which its blocks fill together.
    taken: AtomicU64,
    /// Where blocks meet by themselves.
    arrived_here: AtomicU64,
    here: AtomicU64,
    stop: AtomicU64,
}

struct Gang {
    devices: Vec<Device>,
    /// Of each device.
    blocks: [u64; MOST_DEVICES],
    /// Whether blocks meet by themselves before each round.
    meets_here: bool,
    /// The host's stop word, where there is a host.
    host: Option<AtomicU64>,
    /// What each block has written in each step: each round, or twice by themselves in each.
    cells: Vec<[UnsafeCell<u64>; MOST_STEPS]>,
}

// SAFETY: loom checks each access to a cell.
unsafe impl Sync for Gang {}
// SAFETY: as above.
unsafe impl Send for Gang {}

/// What a round has decided.
struct Verdict {
    /// Of all devices and of this one, since the start.
    total: u64,
    own: u64,
    /// Of this round.
    most: u64,
}

struct Block {
    gang: Arc<Gang>,
    here: usize,
    is_first: bool,
    round: u64,
    /// Since it last met.
    places: u64,
    offer: u64,
    /// Since the start: of all devices, and of this one.
    total: u64,
    own: u64,
    /// Once it has arrived.
    leaves: bool,
}

impl Block {
    fn device(&self) -> &Device {
        &self.gang.devices[self.here]
    }

    fn take_places(&mut self, count: u64) {
        self.places += count;
        self.device().taken.fetch_add(count, Ordering::Relaxed);
    }

    /// Meets the others. `None` if the gang is stopped, as below.
    fn meet(&mut self) -> Option<Verdict> {
        self.arrive();
        if self.leaves { None } else { self.hear() }
    }

    /// Which of its sums are those of a round.
    fn turn_of(round: u64) -> usize {
        let turns = if seeded(Fault::TwoTurns) { 2 } else { TURNS as u64 };
        (round % turns) as usize
    }

    /// Adds what it has counted on each device, and then itself.
    fn arrive(&mut self) {
        let tallies = || self.gang.devices.iter().map(|to| &to.tallies[self.here]);
        for tally in tallies() {
            let sums = &tally.sums[Self::turn_of(self.round)];
            sums.places.fetch_add(self.places, Ordering::Relaxed);
            sums.most.fetch_max(self.offer, Ordering::Relaxed);
        }
        if !seeded(Fault::ArrivalWithoutFence) {
            fence(Ordering::AcqRel);
        }
        let one = match self.is_first {
            true if seeded(Fault::FirstIsAll) => 1 << ROUND_SHIFT,
            true => (1 << ROUND_SHIFT) - (self.gang.blocks[self.here] - 1),
            false => 1,
        };
        for tally in tallies() {
            tally.come.fetch_add(one, Ordering::Relaxed);
        }
        self.places = 0;
    }

    /// Waits for all blocks of all devices, and takes what they have counted.
    fn hear(&mut self) -> Option<Verdict> {
        if self.is_first && seeded(Fault::ClearBeforeWait) {
            self.clear(self.round + 2);
        }
        let devices = self.gang.devices.len();
        for from in 0..devices {
            if from == self.here && seeded(Fault::WaitForOthersOnly) {
                continue;
            }
            self.wait(&self.device().tallies[from].come, |come| {
                match seeded(Fault::WaitForOneRoundOnly) {
                    true => come >> ROUND_SHIFT == self.round + 1,
                    // They may have come again.
                    false => come >> ROUND_SHIFT > self.round,
                }
            })?;
        }
        if self.gives_up() || self.is_first && self.is_told_to_stop() {
            return None;
        }
        let mut most = 0;
        for from in 0..devices {
            let sums = &self.device().tallies[from].sums[Self::turn_of(self.round)];
            let places = sums.places.load(Ordering::Relaxed);
            most = most.max(sums.most.load(Ordering::Relaxed));
            self.total += places;
            if from == self.here {
                self.own += places;
            }
        }
        if self.is_first && !seeded(Fault::ClearBeforeWait) {
            self.clear(match () {
                () if seeded(Fault::ClearAtOnce) => self.round,
                () if seeded(Fault::TwoTurns) || seeded(Fault::ClearLate) => self.round + 1,
                () => self.round + 2,
            });
        }
        self.round += 1;
        Some(Verdict { total: self.total, own: self.own, most })
    }

    /// Clears what is to be the sums of a round. Those of the next but one are still those of the
    /// round before, which all had read when they came to the present one.
    fn clear(&self, round: u64) {
        for tally in &self.device().tallies[..self.gang.devices.len()] {
            let sums = &tally.sums[Self::turn_of(round)];
            sums.places.store(0, Ordering::Relaxed);
            if !seeded(Fault::MostStays) {
                sums.most.store(0, Ordering::Relaxed);
            }
        }
    }

    /// The look of a device's first block, at its own word and the host's.
    fn is_told_to_stop(&self) -> bool {
        let Some(host) = &self.gang.host else { return false };
        if self.device().stop.load(Ordering::Relaxed) != 0 {
            return true;
        }
        if host.load(Ordering::Relaxed) == 0 {
            return false;
        }
        for (place, device) in self.gang.devices.iter().enumerate() {
            if place == self.here || !seeded(Fault::StopUntold) {
                device.stop.store(1, Ordering::Relaxed);
            }
        }
        true
    }

    /// In each turn of a wait.
    fn gives_up(&self) -> bool {
        let looks = self.gang.host.is_some() && !seeded(Fault::WaitWithoutLook);
        looks && self.device().stop.load(Ordering::Relaxed) != 0
    }

    /// Until a word says enough: what it says.
    fn wait(&self, word: &AtomicU64, is_enough: impl Fn(u64) -> bool) -> Option<u64> {
        let is_relaxed = seeded(Fault::WaitWithoutAcquire);
        let order = if is_relaxed { Ordering::Relaxed } else { Ordering::Acquire };
        loop {
            let now = word.load(order);
            if is_enough(now) {
                return Some(now);
            }
            if self.gives_up() {
                return None;
            }
            thread::yield_now();
        }
    }

    /// Meets the blocks of the same device; its places.
    fn meet_here(&self) -> Option<u64> {
        let device = self.device();
        let next = match seeded(Fault::HereOnceInARound) {
            true => self.round + 1,
            false => (device.here.load(Ordering::Relaxed) >> 32) + 1,
        };
        if !seeded(Fault::HereWithoutFence) {
            fence(Ordering::AcqRel);
        }
        let before = device.arrived_here.fetch_add(1, Ordering::Relaxed);
        let is_last = before == self.gang.blocks[self.here] - 1;
        let is_late = seeded(Fault::HereStaysArrived) || seeded(Fault::HereResetLate);
        fence(Ordering::AcqRel);
        if !is_last {
            return Some(self.wait(&device.here, |said| said >> 32 == next)? & 0xffff_ffff);
        }
        if !is_late {
            device.arrived_here.store(0, Ordering::Relaxed);
        }
        fence(Ordering::AcqRel);
        let places = device.taken.load(Ordering::Relaxed);
        device.here.store(next << 32 | places, Ordering::Relaxed);
        if seeded(Fault::HereResetLate) {
            device.arrived_here.store(0, Ordering::Relaxed);
        }
        Some(places)
    }

    fn run(mut self, place: usize, rounds: u64) {
        let all = self.gang.cells.len() as u64;
        let blocks = self.gang.blocks[self.here];
        for round in 0..rounds {
            self.take_places(1);
            if self.gang.meets_here {
                for step in 2 * round..2 * round + 2 {
                    self.write(place, step);
                    let Some(places) = self.meet_here() else { return };
                    assert_eq!(places, (round + 1) * blocks, "a place is missing");
                    self.look(step);
                }
            } else {
                self.write(place, round);
            }
            // Each round offers less than the one before.
            self.offer = 10 - 3 * round + place as u64;
            let Some(verdict) = self.meet() else { return };
            // Every block's places, of all rounds so far.
            assert_eq!(verdict.total, (round + 1) * all, "a count is missing");
            assert_eq!(verdict.own, (round + 1) * blocks, "a count of another device");
            assert_eq!(verdict.most, 9 - 3 * round + all, "a maximum of another round");
            if !self.gang.meets_here {
                self.look(round);
            }
        }
    }

    fn write(&self, place: usize, step: u64) {
        // SAFETY: only this block writes its cell, once in a step.
        self.gang.cells[place][step as usize].with_mut(|cell| unsafe { *cell = step + 7 });
    }

    /// Looks at what all blocks have written in a step.
    fn look(&self, step: u64) {
        for cells in &self.gang.cells {
            // SAFETY: nobody writes it any more; loom checks.
            let cell = cells[step as usize].with(|cell| unsafe { *cell });
            assert_eq!(cell, step + 7);
        }
    }
}

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
        let here = usize::from(place >= blocks[0]);
        let is_first = place == 0 || place == blocks[0];
        let leaves = waiter.is_some_and(|waiter| waiter != place);
        let (round, places, offer, total, own) = Default::default();
        Block { gang, here, is_first, round, places, offer, total, own, leaves }
            .run(place as usize, rounds);
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

/// The first of two blocks of a device hears of the other one here, and comes again, perhaps before
/// the other one's addition is seen elsewhere: the block of another device, which looks once, then has
/// what both did all the same.
fn a_block_that_comes_again() {
    let cells = (0..3).map(|_| std::array::from_fn(|_| UnsafeCell::new(0))).collect();
    let (devices, blocks) = ((0..2).map(|_| Device::default()).collect(), [2, 1]);
    let gang = Arc::new(Gang { devices, blocks, meets_here: false, host: None, cells });
    let block = |place: usize| {
        let (here, is_first) = (usize::from(place == 2), place != 1);
        let (round, total, own, leaves) = Default::default();
        let gang = Arc::clone(&gang);
        let mut block =
            Block { gang, here, is_first, round, places: 0, offer: 7, total, own, leaves };
        block.take_places(1);
        block.write(place, 0);
        block
    };
    let mut elsewhere = block(2);
    elsewhere.arrive();
    let (mut first, mut late) = (block(0), block(1));
    let late = thread::spawn(move || late.arrive());
    let first = thread::spawn(move || {
        first.arrive();
        first.hear().unwrap();
        first.arrive();
    });
    let come = &gang.devices[1].tallies[0].come;
    if come.load(Ordering::Acquire) >> ROUND_SHIFT > 0 {
        let verdict = elsewhere.hear().unwrap();
        assert_eq!(verdict.total, 3, "a count is missing");
        elsewhere.look(0);
    }
    late.join().unwrap();
    first.join().unwrap();
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
fn who_comes_again_speaks_for_the_late() {
    holds(a_block_that_comes_again);
}

#[test]
fn waiting_for_other_devices_only_is_caught() {
    fails_with(Fault::WaitForOthersOnly as usize, a_block_that_comes_again);
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
    holds(two_blocks_by_themselves_until_they_are_stopped);
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
fn waiting_for_one_round_only_is_caught() {
    fails_with(Fault::WaitForOneRoundOnly as usize, two_devices_four_times);
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
fn a_stop_that_others_are_not_told_is_caught() {
    fails_with(Fault::StopUntold as usize, two_devices_until_they_are_stopped);
}

#[test]
fn waiting_without_a_look_is_caught() {
    fails_with(Fault::WaitWithoutLook as usize, two_devices_until_they_are_stopped);
}

#[test]
fn an_arrival_by_themselves_without_its_fence_is_caught() {
    fails_with(Fault::HereWithoutFence as usize, two_blocks_by_themselves);
}

#[test]
fn arrivals_by_themselves_that_stay_are_caught() {
    fails_with(Fault::HereStaysArrived as usize, two_blocks_by_themselves);
}

#[test]
fn arrivals_by_themselves_set_back_late_are_caught() {
    fails_with(Fault::HereResetLate as usize, two_blocks_by_themselves);
}

#[test]
fn meeting_by_themselves_once_in_a_round_only_is_caught() {
    fails_with(Fault::HereOnceInARound as usize, two_blocks_by_themselves);
}
