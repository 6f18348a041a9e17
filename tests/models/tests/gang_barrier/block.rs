//! The devices' words and the blocks, step by step as in `kernels/src/gang_barrier.cuh`: what
//! each does, and which faults may be seeded.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use millstream_models::is_seeded;

#[derive(Clone, Copy)]
pub(crate) enum Fault {
    ArrivalWithoutFence,
    WaitWithoutAcquire,
    FirstIsAll,
    TwoTurns,
    ClearAtOnce,
    ClearBeforeWait,
    ClearLate,
    MostStays,
    ArrivalsStay,
    MoreUnsaid,
    HereWithoutRelease,
    HereForOneOnly,
    HereSaysAgain,
    HereOnceInARound,
    StopUntold,
    WaitWithoutLook,
    WaitForOthersOnly,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

pub(crate) const MOST_DEVICES: usize = 2;
const MOST_STEPS: usize = 4;
const TURNS: usize = 3;
/// Of a word of arrivals, as there, but with fewer bits: what the first counter has, blocks that have
/// more, and blocks.
const MORE_SHIFT: u32 = 16;
const BLOCK_SHIFT: u32 = 24;
const ALL_SHIFT: u32 = 32;
const MOST_BLOCKS: u64 = 1 << (BLOCK_SHIFT - MORE_SHIFT);
/// What the first counter has goes along if it is less than this.
const MOST_ALONG: u64 = (1 << MORE_SHIFT) / MOST_BLOCKS;

/// Of a round, what a device's blocks have counted, and their largest offer.
#[derive(Default)]
struct Sums {
    /// By the first counter, of blocks with which it does not go along.
    counted: AtomicU64,
    places: AtomicU64,
    most: AtomicU64,
}

#[derive(Default)]
pub(crate) struct Tally {
    /// Of three rounds, in turns, here and below.
    arrivals: [AtomicU64; TURNS],
    sums: [Sums; TURNS],
}

#[derive(Default)]
pub(crate) struct Device {
    /// From each device.
    pub(crate) tallies: [Tally; MOST_DEVICES],
    /// Places of its list, which its blocks fill together.
    pub(crate) taken: AtomicU64,
    /// Where blocks meet by themselves: how many have come, and their places.
    pub(crate) here: AtomicU64,
    pub(crate) stop: AtomicU64,
}

pub(crate) struct Gang {
    pub(crate) devices: Vec<Device>,
    /// Of each device.
    pub(crate) blocks: [u64; MOST_DEVICES],
    /// Whether blocks meet by themselves before each round.
    pub(crate) meets_here: bool,
    /// The host's stop word, where there is a host.
    pub(crate) host: Option<AtomicU64>,
    /// What each block has written in each step: each round, or twice by themselves in each.
    pub(crate) cells: Vec<[UnsafeCell<u64>; MOST_STEPS]>,
}

// SAFETY: loom checks each access to a cell.
unsafe impl Sync for Gang {}
// SAFETY: as above.
unsafe impl Send for Gang {}

/// What a round has decided.
pub(crate) struct Verdict {
    /// By the first counter, in this round.
    pub(crate) counted: u64,
    /// Of all devices and of this one, since the start.
    pub(crate) total: u64,
    pub(crate) own: u64,
    /// Of this round.
    pub(crate) most: u64,
}

pub(crate) struct Block {
    gang: Arc<Gang>,
    here: usize,
    is_first: bool,
    round: u64,
    /// Since it last met, until then, and those of both that it has said by themselves.
    places: u64,
    places_before: u64,
    places_said: u64,
    /// How often all blocks of the device came when they have met by themselves.
    come_here: u64,
    /// By the first counter.
    counted: u64,
    offer: u64,
    /// Since the start: of all devices, and of this one.
    total: u64,
    own: u64,
    /// Once it has arrived.
    leaves: bool,
}

impl Block {
    /// One of all blocks, those of the first device before the other's; whether it leaves once it has
    /// arrived.
    pub(crate) fn new(gang: &Arc<Gang>, place: u64, leaves: bool) -> Block {
        let blocks = gang.blocks[0];
        let (here, is_first) = (usize::from(place >= blocks), place == 0 || place == blocks);
        let (round, counted, offer, total, own) = Default::default();
        let (places, places_before, places_said, come_here) = Default::default();
        Block {
            gang: Arc::clone(gang),
            here,
            is_first,
            round,
            places,
            places_before,
            places_said,
            come_here,
            counted,
            offer,
            total,
            own,
            leaves,
        }
    }

    fn device(&self) -> &Device {
        &self.gang.devices[self.here]
    }

    pub(crate) fn take_places(&mut self, count: u64) {
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
    pub(crate) fn arrive(&mut self) {
        let turn = Self::turn_of(self.round);
        let tallies = || self.gang.devices.iter().map(|to| &to.tallies[self.here]);
        let along = if self.counted < MOST_ALONG { self.counted } else { 0 };
        let has_more = self.places != 0 || self.offer != 0 || along < self.counted;
        for tally in tallies().filter(|_| has_more) {
            let sums = &tally.sums[turn];
            sums.counted.fetch_add(self.counted - along, Ordering::Relaxed);
            sums.places.fetch_add(self.places, Ordering::Relaxed);
            sums.most.fetch_max(self.offer, Ordering::Relaxed);
        }
        if !seeded(Fault::ArrivalWithoutFence) {
            fence(Ordering::AcqRel);
        }
        let one = match self.is_first {
            true if seeded(Fault::FirstIsAll) => 1 << ALL_SHIFT,
            true => (1 << ALL_SHIFT) - ((self.gang.blocks[self.here] - 1) << BLOCK_SHIFT),
            false => 1 << BLOCK_SHIFT,
        };
        let more = u64::from(has_more && !seeded(Fault::MoreUnsaid)) << MORE_SHIFT;
        for tally in tallies() {
            tally.arrivals[turn].fetch_add(one + more + along, Ordering::Relaxed);
        }
        self.places_before += self.places;
        self.places = 0;
    }

    /// Waits for all blocks of all devices, and takes what they have counted.
    pub(crate) fn hear(&mut self) -> Option<Verdict> {
        if self.is_first && seeded(Fault::ClearBeforeWait) {
            self.clear(self.round + 2);
        }
        let turn = Self::turn_of(self.round);
        let gang = Arc::clone(&self.gang);
        let tallies = &gang.devices[self.here].tallies[..gang.devices.len()];
        let (mut counted, mut has_more) = (0, false);
        for (from, tally) in tallies.iter().enumerate() {
            if from == self.here && seeded(Fault::WaitForOthersOnly) {
                continue;
            }
            let come = self.wait(&tally.arrivals[turn], |come| come >> ALL_SHIFT > 0)?;
            counted += come & ((1 << MORE_SHIFT) - 1);
            has_more |= !(come >> MORE_SHIFT).is_multiple_of(MOST_BLOCKS);
        }
        if self.is_first && self.is_told_to_stop() {
            return None;
        }
        let mut most = 0;
        for (from, tally) in tallies.iter().enumerate().filter(|_| has_more) {
            counted += tally.sums[turn].counted.load(Ordering::Relaxed);
            let places = tally.sums[turn].places.load(Ordering::Relaxed);
            most = most.max(tally.sums[turn].most.load(Ordering::Relaxed));
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
        Some(Verdict { counted, total: self.total, own: self.own, most })
    }

    /// Clears what is to be the arrivals and sums of a round. Those of the next but one are still
    /// those of the round before, which all had read when they came to the present one.
    fn clear(&self, round: u64) {
        for tally in &self.device().tallies[..self.gang.devices.len()] {
            let sums = &tally.sums[Self::turn_of(round)];
            sums.counted.store(0, Ordering::Relaxed);
            sums.places.store(0, Ordering::Relaxed);
            if !seeded(Fault::ArrivalsStay) {
                tally.arrivals[Self::turn_of(round)].store(0, Ordering::Relaxed);
            }
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

    /// In each turn of a wait, before its load.
    fn gives_up(&self) -> bool {
        let looks = self.gang.host.is_some() && !seeded(Fault::WaitWithoutLook);
        looks && self.device().stop.load(Ordering::Relaxed) != 0
    }

    /// Until a word says enough: what it says.
    fn wait(&self, word: &AtomicU64, is_enough: impl Fn(u64) -> bool) -> Option<u64> {
        let is_relaxed = seeded(Fault::WaitWithoutAcquire);
        let order = if is_relaxed { Ordering::Relaxed } else { Ordering::Acquire };
        loop {
            let gives_up = self.gives_up();
            let now = word.load(order);
            if gives_up {
                return None;
            }
            if is_enough(now) {
                return Some(now);
            }
            thread::yield_now();
        }
    }

    /// Meets the blocks of the same device; its places.
    fn meet_here(&mut self) -> Option<u64> {
        let news = self.places_before + self.places - self.places_said;
        if !seeded(Fault::HereSaysAgain) {
            self.places_said += news;
        }
        let blocks = self.gang.blocks[self.here];
        self.come_here = match seeded(Fault::HereOnceInARound) {
            true => (self.round + 1) * blocks,
            false => self.come_here + blocks,
        };
        let is_relaxed = seeded(Fault::HereWithoutRelease);
        let order = if is_relaxed { Ordering::Relaxed } else { Ordering::Release };
        self.device().here.fetch_add(news << 32 | 1, order);
        let said = self.wait(&self.device().here, |said| {
            let come = said & 0xffff_ffff;
            match seeded(Fault::HereForOneOnly) {
                true => come == self.come_here,
                // They may have come again.
                false => come >= self.come_here,
            }
        })?;
        Some(said >> 32)
    }

    pub(crate) fn run(mut self, place: usize, rounds: u64) {
        let all = self.gang.cells.len() as u64;
        let blocks = self.gang.blocks[self.here];
        for round in 0..rounds {
            // In the second round nobody has more than what goes along.
            let has_more = round != 1 || self.gang.meets_here;
            self.take_places(has_more.into());
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
            // In the third it is too much to go along.
            self.counted = if round == 2 { MOST_ALONG } else { MOST_ALONG - 1 - round };
            // Each round offers less than the one before.
            let offer = |place| if has_more { 10 - 3 * round + place } else { 0 };
            self.offer = offer(place as u64);
            let Some(verdict) = self.meet() else { return };
            // Every block's places, of all rounds so far.
            let rounds = if self.gang.meets_here { round + 1 } else { round.max(1) };
            assert_eq!(verdict.counted, self.counted * all, "a count is missing");
            assert_eq!(verdict.total, rounds * all, "a sum is missing");
            assert_eq!(verdict.own, rounds * blocks, "a sum of another device");
            assert_eq!(verdict.most, offer(all - 1), "a maximum of another round");
            if !self.gang.meets_here {
                self.look(round);
            }
        }
    }

    pub(crate) fn write(&self, place: usize, step: u64) {
        // SAFETY: only this block writes its cell, once in a step.
        self.gang.cells[place][step as usize].with_mut(|cell| unsafe { *cell = step + 7 });
    }

    /// Looks at what all blocks have written in a step.
    pub(crate) fn look(&self, step: u64) {
        for cells in &self.gang.cells {
            // SAFETY: nobody writes it any more; loom checks.
            let cell = cells[step as usize].with(|cell| unsafe { *cell });
            assert_eq!(cell, step + 7);
        }
    }
}
