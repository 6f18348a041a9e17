//! The gang's barrier, step by step as in `kernels/src/gang_barrier.cuh`, under every
//! interleaving: two blocks of one device meet twice, also after they have met by themselves
//! twice each time, or as those of one of several devices do; and two devices of one block three times. Where the host stops the gang, all
//! blocks leave, also those that did not look.
//!
//! | here | there |
//! |---|---|
//! | `Block::meet`: arrive, lead or wait | `GangBarrier::meet` |
//! | `Block::meet_here` | `GangBarrier::meet_here` |
//! | `Block::exchange` | `GangBarrier::exchange` |
//! | `Block::wait` | `GangBarrier::wait` |
//! | `Block::is_told_to_stop`, `Block::gives_up` | the same |
//!
//! A block is one thread. A leader looks for a stop in each round, as if a millisecond had passed,
//! and a wait in each turn. What blocks do between rounds are plain writes, of which loom
//! knows whether they come before the reads of others.

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use millstream_models::{fails_with, holds, holds_within_two, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    LeadWithoutFence,
    LetterWithoutFence,
    ArrivalWithoutAcquire,
    ArrivalWithoutFence,
    OneLetter,
    OneLineAlone,
    HearWithoutAcquire,
    OneMost,
    HereWithoutFence,
    HereStaysArrived,
    HereResetLate,
    HereOnceInARound,
    StopUntold,
    ExchangeWithoutLook,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const MOST_STEPS: usize = 4;
const ONE_BLOCK: u64 = 1 << 40;

/// Of two lines, each one word: its upper half the round.
#[derive(Default)]
struct Letter {
    count: AtomicU64,
    most: AtomicU64,
}

#[derive(Default)]
struct Device {
    arrived: AtomicU64,
    verdict: AtomicU64,
    /// The same for blocks that meet by themselves.
    arrived_here: AtomicU64,
    here: AtomicU64,
    /// The largest that was offered in a round, in turns.
    most: [AtomicU64; 2],
    /// From the other device, in turns.
    letters: [Letter; 2],
    stop: AtomicU64,
}

struct Gang {
    is_alone: bool,
    devices: [Device; 2],
    /// Of each device.
    blocks: [u64; 2],
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

struct Block {
    gang: Arc<Gang>,
    here: usize,
    round: u64,
    /// Where it does not lead.
    leaves: bool,
}

impl Block {
    /// Meets the others with `count` places taken by this block, and an offer; the total
    /// of both devices, and the largest offer. `None` if the gang is stopped, as below.
    fn meet(&mut self, count: u64, offer: u64) -> Option<(u64, u64)> {
        let device = &self.gang.devices[self.here];
        self.most().fetch_max(offer, Ordering::Relaxed);
        device.arrived.fetch_add(count, Ordering::Relaxed);
        if !seeded(Fault::ArrivalWithoutFence) {
            fence(Ordering::AcqRel);
        }
        // Alone, the leader's fence acquires.
        let is_relaxed = self.gang.is_alone || seeded(Fault::ArrivalWithoutAcquire);
        let order = if is_relaxed { Ordering::Relaxed } else { Ordering::Acquire };
        let before = device.arrived.fetch_add(ONE_BLOCK, order);
        let verdict = match before / ONE_BLOCK == (self.round + 1) * self.gang.blocks[self.here] - 1
        {
            true => self.lead(before % ONE_BLOCK),
            false if self.leaves => None,
            false => self.wait(&device.verdict, self.round + 1),
        };
        self.round += 1;
        verdict
    }

    /// A leader's look, at its own word and the host's.
    fn is_told_to_stop(&self) -> bool {
        let Some(host) = &self.gang.host else { return false };
        if self.gang.devices[self.here].stop.load(Ordering::Relaxed) != 0 {
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
        let stop = &self.gang.devices[self.here].stop;
        self.gang.host.is_some() && stop.load(Ordering::Relaxed) != 0
    }

    /// Meets the blocks of the same device; its places.
    fn meet_here(&self) -> u64 {
        let device = &self.gang.devices[self.here];
        let tag = match seeded(Fault::HereOnceInARound) {
            true => self.round + 1,
            false => (device.here.load(Ordering::Relaxed) >> 32) + 1,
        };
        if !seeded(Fault::HereWithoutFence) {
            fence(Ordering::AcqRel);
        }
        let before = device.arrived_here.fetch_add(1, Ordering::Relaxed);
        let leads = before == self.gang.blocks[self.here] - 1;
        let is_late = seeded(Fault::HereStaysArrived) || seeded(Fault::HereResetLate);
        fence(Ordering::AcqRel);
        if !leads {
            return self.wait(&device.here, tag).unwrap().0;
        }
        if !is_late {
            device.arrived_here.store(0, Ordering::Relaxed);
        }
        fence(Ordering::AcqRel);
        let places = device.arrived.load(Ordering::Relaxed) % ONE_BLOCK;
        device.here.store(tag << 32 | places, Ordering::Relaxed);
        if seeded(Fault::HereResetLate) {
            device.arrived_here.store(0, Ordering::Relaxed);
        }
        places
    }

    /// What this round's offers go to.
    fn most(&self) -> &AtomicU64 {
        let turn = if seeded(Fault::OneMost) { 0 } else { (self.round % 2) as usize };
        &self.gang.devices[self.here].most[turn]
    }

    fn lead(&self, places: u64) -> Option<(u64, u64)> {
        if self.gang.is_alone && !seeded(Fault::LeadWithoutFence) {
            fence(Ordering::AcqRel);
        }
        // Then nobody gets a letter or a verdict of this round.
        if self.is_told_to_stop() {
            return None;
        }
        let device = &self.gang.devices[self.here];
        let mut most = self.most().load(Ordering::Relaxed);
        let mut total = places;
        if !self.gang.is_alone {
            let (places, offered) = self.exchange(places, most)?;
            total += places;
            most = most.max(offered);
            // The verdict's: of one lane, so it acquires nothing for the others.
            fence(Ordering::Release);
        }
        let word = (self.round + 1) << 32 | most << 16 | total;
        device.verdict.store(word, Ordering::Relaxed);
        // There it stands before the verdict, but nothing orders the two.
        self.most().store(0, Ordering::Relaxed);
        Some((total, most))
    }

    fn exchange(&self, places: u64, most: u64) -> Option<(u64, u64)> {
        let turn = if seeded(Fault::OneLetter) { 0 } else { (self.round % 2) as usize };
        let out = &self.gang.devices[1 - self.here].letters[turn];
        // Of the lanes that write, of which one alone has seen the arrivals: it acquires nothing.
        if !seeded(Fault::LetterWithoutFence) {
            fence(Ordering::Release);
        }
        // Whoever is not modelled has nothing to say.
        if self.gang.blocks[1] == 0 {
            return Some((0, 0));
        }
        let tag = (self.round + 1) << 32;
        out.count.store(tag | places, Ordering::Relaxed);
        out.most.store(tag | most, Ordering::Relaxed);
        let letter = &self.gang.devices[self.here].letters[turn];
        let hear = |line: &AtomicU64, is_enough: bool| loop {
            let word = line.load(match seeded(Fault::HearWithoutAcquire) {
                true => Ordering::Relaxed,
                false => Ordering::Acquire,
            });
            if word >> 32 == self.round + 1 || is_enough {
                break Some(word & 0xffff_ffff);
            }
            if !seeded(Fault::ExchangeWithoutLook) && self.gives_up() {
                break None;
            }
            thread::yield_now();
        };
        let count = hear(&letter.count, false)?;
        let most = hear(&letter.most, seeded(Fault::OneLineAlone))?;
        Some((count, most))
    }

    fn wait(&self, verdict: &AtomicU64, tag: u64) -> Option<(u64, u64)> {
        loop {
            let word = verdict.load(Ordering::Acquire);
            if word >> 32 == tag {
                return Some((word & 0xffff, word >> 16 & 0xffff));
            }
            if self.gives_up() {
                return None;
            }
            thread::yield_now();
        }
    }

    fn run(mut self, place: usize, rounds: u64) {
        let blocks = self.gang.cells.len();
        for round in 0..rounds {
            if self.gang.meets_here {
                self.gang.devices[self.here].arrived.fetch_add(1, Ordering::Relaxed);
                for step in 2 * round..2 * round + 2 {
                    self.write(place, step);
                    let places = self.meet_here();
                    assert_eq!(places, (round + 1) * blocks as u64, "a place is missing");
                    self.look(step);
                }
            } else {
                self.write(place, round);
            }
            // Each round offers less than the one before.
            let count = u64::from(!self.gang.meets_here);
            let verdict = self.meet(count, 10 - 3 * round + place as u64);
            let Some((total, most)) = verdict else { return };
            // Every block's places, of all rounds so far.
            assert_eq!(total, (round + 1) * blocks as u64, "a count is missing");
            assert_eq!(most, 9 - 3 * round + blocks as u64, "a maximum of another round");
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

fn meet(blocks: [u64; 2], rounds: u64, meets_here: bool) {
    meet_until(blocks, rounds, meets_here, false);
}

/// The same; the host may stop it.
fn meet_until(blocks: [u64; 2], rounds: u64, meets_here: bool, may_stop: bool) {
    meet_among(blocks[1] == 0, blocks, rounds, meets_here, may_stop);
}

/// The same; where a device is not alone the other may be one that is not modelled.
fn meet_among(is_alone: bool, blocks: [u64; 2], rounds: u64, meets_here: bool, may_stop: bool) {
    let all = blocks[0] + blocks[1];
    let cells = (0..all).map(|_| std::array::from_fn(|_| UnsafeCell::new(0))).collect();
    let host = may_stop.then(AtomicU64::default);
    let gang =
        Arc::new(Gang { is_alone, devices: Default::default(), blocks, meets_here, host, cells });
    let run = move |place: u64, gang: Arc<Gang>| {
        let here = usize::from(place >= blocks[0]);
        // Of three one may wait for a verdict, or two for letters: loom takes no two that spin
        // beside a third.
        let leaves = all == 3 && (place > 0 || blocks[1] > 0);
        Block { gang, here, round: 0, leaves }.run(place as usize, rounds);
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

fn two_blocks_twice() {
    meet([2, 0], 2, false);
}

fn three_blocks_once() {
    meet([3, 0], 1, false);
}

fn three_blocks_of_two_devices_once() {
    meet([2, 1], 1, false);
}

fn two_blocks_by_themselves() {
    meet([2, 0], 2, true);
}

fn two_devices_three_times() {
    meet([1, 1], 3, false);
}

fn two_blocks_of_one_of_several_devices() {
    meet_among(false, [2, 0], 2, false, false);
}

fn two_blocks_until_they_are_stopped() {
    meet_until([2, 0], 2, false, true);
}

fn two_devices_until_they_are_stopped() {
    meet_until([1, 1], 2, false, true);
}

#[test]
fn blocks_that_are_stopped_leave() {
    holds(two_blocks_until_they_are_stopped);
}

#[test]
fn devices_that_are_stopped_leave() {
    holds_within_two(two_devices_until_they_are_stopped);
}

#[test]
fn a_stop_that_others_are_not_told_is_caught() {
    fails_with(Fault::StopUntold as usize, two_devices_until_they_are_stopped);
}

#[test]
fn waiting_for_letters_without_a_look_is_caught() {
    fails_with(Fault::ExchangeWithoutLook as usize, two_devices_until_they_are_stopped);
}

#[test]
fn everything_before_is_visible_after() {
    holds(two_blocks_twice);
}

#[test]
fn rounds_do_not_mix() {
    holds(two_devices_three_times);
}

#[test]
fn blocks_of_a_device_meet_by_themselves() {
    holds(two_blocks_by_themselves);
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

#[test]
fn what_all_blocks_did_is_visible_to_each() {
    holds(three_blocks_once);
}

#[test]
fn what_all_blocks_did_is_visible_to_other_devices() {
    holds(three_blocks_of_two_devices_once);
}

#[test]
fn a_letter_without_a_fence_is_caught() {
    fails_with(Fault::LetterWithoutFence as usize, three_blocks_of_two_devices_once);
}

#[test]
fn blocks_of_one_of_several_devices_meet() {
    holds(two_blocks_of_one_of_several_devices);
}

#[test]
fn an_arrival_without_its_acquire_is_caught() {
    fails_with(Fault::ArrivalWithoutAcquire as usize, two_blocks_of_one_of_several_devices);
}

#[test]
fn an_arrival_without_its_fence_is_caught() {
    fails_with(Fault::ArrivalWithoutFence as usize, two_blocks_twice);
}

#[test]
fn leading_without_a_fence_is_caught() {
    fails_with(Fault::LeadWithoutFence as usize, three_blocks_once);
}

#[test]
fn maxima_that_take_no_turns_are_caught() {
    fails_with(Fault::OneMost as usize, two_blocks_twice);
}

#[test]
fn lines_without_a_round_each_are_caught() {
    fails_with(Fault::OneLineAlone as usize, two_devices_three_times);
}

#[test]
fn hearing_without_an_acquire_is_caught() {
    fails_with(Fault::HearWithoutAcquire as usize, two_devices_three_times);
}

#[test]
fn letters_that_take_no_turns_are_caught() {
    fails_with(Fault::OneLetter as usize, two_devices_three_times);
}
