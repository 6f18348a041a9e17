//! A model of `collective_lines.cuh`, `collective_pass.cuh`, `collective_chain.cuh` and
//! `collective_ring.cuh`: series of collectives, each in one of these ways, whose threads take
//! their steps in any order on all ranks. It runs the very settings that kernels get; tiles have one item. `README.md`
//! maps its steps to the headers' lines.

use std::collections::HashMap;

use super::chain_settings::Chain;
use super::channel_model::Channel;
use super::line_settings::LinePieces;
use super::pass_settings::Job;
use super::ring_settings::Ring;

/// Units that a block's threads handle at once in lines: a group.
const GROUP: u64 = 2;

/// What a faulty kernel leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// All collectives' lines lie in the same place.
    OneBox,
    /// Nothing is sent to those who get no items.
    Silence,
    /// Only the first block sends to those who get no items.
    OneSpeaks,
    /// Blocks go on to a collective that uses what other blocks have left.
    OtherItems,
    /// Blocks go on to a collective that has another number of blocks.
    OtherBlocks,
    /// A pass does not wait for the others' buffers.
    NoBegin,
    /// A pass does not wait until the others are done with its buffers.
    NoEnd,
    /// Items that change places are sent like others.
    NoSwap,
    /// Tiles overwrite earlier ones that have not been taken.
    NoRoom,
    /// Counts of tiles begin anew in each collective.
    Forgetful,
    /// A chain takes a collective's number, like collectives in which all ranks hear from all.
    CountedChain,
    /// As many tiles of each part go round a ring together as a channel has slots.
    Crowded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Lines,
    Pass,
    /// Along a chain, through this many channels.
    Chain(Chain, u64),
    Ring(Ring, u64),
}

/// One collective, for all ranks.
pub(super) struct Collective {
    /// The number that its lines and words carry.
    pub(super) epoch: usize,
    pub(super) pieces: Vec<LinePieces>,
    pub(super) jobs: Vec<Vec<Job>>,
    pub(super) swaps: bool,
    pub(super) way: Way,
    /// For each rank, whether all its blocks, or threads, meet before this collective. If not, both
    /// this one and the one before go in lines.
    pub(super) meets: Vec<bool>,
}

impl Collective {
    /// Units of the longest piece of all ranks.
    fn units(&self) -> u64 {
        let pieces = self.pieces.iter().flat_map(|its| its.sends.iter().chain(&its.receives));
        pieces.map(|piece| piece.len).max().unwrap_or(0).max(1)
    }

    pub(super) fn groups(&self) -> u64 {
        self.units().div_ceil(GROUP)
    }

    /// The first steps of a block. Its threads have the same steps of other groups to do after these.
    fn sends(&self, block: u64) -> impl Iterator<Item = Step> {
        (block * GROUP..self.units().min((block + 1) * GROUP)).map(Step::Send)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(u64),
    Receive(u64),
    Tell {
        ended: bool,
    },
    Hear {
        ended: bool,
    },
    Read(Job),
    /// After the read: the combined item, or the two items that change places.
    Write(Job, u64, u64),
    /// Takes a tile, which is this item.
    Take(u64),
    /// Passes on the item at this place: combined with those of the ranks before, or the first rank's.
    Give(u64, u64),
    /// This many tiles have gone through this channel of a ring.
    Pass(u64, usize),
}

/// The steps that a rank may take next, each of a collective, and the groups of steps that come
/// after all of them.
struct Rank {
    /// Collectives begun so far.
    collective: usize,
    now: Vec<(usize, Step)>,
    later: Vec<Vec<Step>>,
}

pub(super) struct Model {
    pub(super) collectives: Vec<Collective>,
    /// `None` in place.
    inputs: Option<Vec<Vec<u64>>>,
    pub(super) outputs: Vec<Vec<u64>>,
    /// For each receiver, set of lines, sender and place: the collective's number and the item.
    lines: HashMap<(usize, usize, usize, u64), (usize, u64)>,
    /// For each receiver, sender, and whether it is about ends: the last number heard, of begun or
    /// of ended collectives.
    words: HashMap<(usize, usize, bool), usize>,
    /// For each rank and channel number.
    pub(super) channels: HashMap<(usize, u64), Channel>,
    /// The most blocks of a kernel in lines.
    grid: u64,
    pub(super) fault: Fault,
}

fn is_sent(len: u64, unit: u64, fault: Fault) -> bool {
    let is_told = match fault {
        Fault::Silence => false,
        Fault::OneSpeaks => unit == 0,
        _ => unit.is_multiple_of(GROUP),
    };
    unit < len || is_told
}

impl Model {
    pub(super) fn new(
        collectives: Vec<Collective>,
        inputs: Option<Vec<Vec<u64>>>,
        outputs: Vec<Vec<u64>>,
        grid: u64,
        fault: Fault,
    ) -> Model {
        let (lines, words, channels) = (HashMap::new(), HashMap::new(), HashMap::new());
        Model { collectives, inputs, outputs, lines, words, channels, grid, fault }
    }

    pub(super) fn ranks(&self) -> usize {
        self.outputs.len()
    }

    pub(super) fn input(&self, rank: usize, at: u64) -> u64 {
        self.inputs.as_ref().unwrap_or(&self.outputs)[rank][at as usize]
    }

    /// All steps of a rank's kernel, in groups; each group comes after the one before.
    fn steps(&self, number: usize, rank: usize) -> Vec<Vec<Step>> {
        let collective = &self.collectives[number];
        let Collective { jobs, way, .. } = collective;
        if let Way::Chain(_, channels) = way {
            let len = self.outputs[rank].len() as u64;
            return vec![(0..len.min(*channels)).map(Step::Take).collect()];
        }
        if let Way::Ring(_, channels) = way {
            return vec![(0..*channels).map(|channel| Step::Pass(channel, 0)).collect()];
        }
        if *way == Way::Lines {
            let blocks = collective.groups().min(self.grid);
            return vec![(0..blocks).flat_map(|block| collective.sends(block)).collect()];
        }
        let item = |job: &Job, at: u64| Job {
            len: 1,
            source: job.source + at,
            target: job.target + at,
            ..*job
        };
        let items = |job: &'_ Job| (0..job.len).map(|at| Step::Read(item(job, at))).collect();
        let reads: Vec<Vec<Step>> = jobs[rank].iter().map(items).collect();
        let mut steps = vec![vec![Step::Tell { ended: false }], vec![Step::Hear { ended: false }]];
        if jobs[rank].iter().any(|job| job.sources == 0) {
            // This is more order than the kernel has, where each thread goes on by itself. That a
            // thread finds its own items again is left to the tests on GPUs.
            steps.extend(reads);
        } else {
            steps.push(reads.concat());
        }
        steps.push(vec![Step::Tell { ended: true }]);
        steps.push(vec![Step::Hear { ended: true }]);
        steps
    }

    fn epoch(&self, number: usize) -> usize {
        self.collectives[number].epoch
    }

    fn box_of(&self, number: usize) -> usize {
        if self.fault == Fault::OneBox { 0 } else { self.epoch(number) % 2 }
    }

    /// Takes a step. Returns what the same thread does next, or `None` if it must wait.
    fn advance(&mut self, rank: usize, number: usize, step: &Step) -> Option<Option<Step>> {
        match step {
            Step::Send(unit) => {
                self.send(rank, number, *unit);
                Some(Some(Step::Receive(*unit)))
            }
            Step::Receive(unit) => self.receive(rank, number, *unit).then(|| {
                let next = unit.saturating_add(self.grid.saturating_mul(GROUP));
                (next < self.collectives[number].units()).then_some(Step::Send(next))
            }),
            Step::Tell { ended } => {
                for other in 0..self.ranks() {
                    self.words.insert((other, rank, *ended), self.epoch(number));
                }
                Some(None)
            }
            Step::Hear { ended } => {
                let epoch = self.epoch(number);
                let skipped = if *ended { Fault::NoEnd } else { Fault::NoBegin };
                let heard = |other: usize| {
                    self.words.get(&(rank, other, *ended)).is_some_and(|heard| *heard >= epoch)
                };
                (self.fault == skipped || (0..self.ranks()).all(heard)).then_some(None)
            }
            Step::Read(job) => {
                let [here, there] = self.read(rank, number, job);
                Some(Some(Step::Write(*job, here, there)))
            }
            Step::Write(job, here, there) => {
                self.write(rank, number, job, [*here, *there]);
                Some(None)
            }
            Step::Take(at) => self.take(rank, number, *at).map(|item| Some(Step::Give(*at, item))),
            Step::Give(at, item) => {
                self.give(rank, number, *at, *item);
                let next = at + self.channels_of(number);
                Some((next < self.outputs[rank].len() as u64).then_some(Step::Take(next)))
            }
            Step::Pass(channel, turn) => match self.passages(number, *channel).get(*turn) {
                Some(&(step, at)) => self
                    .pass(rank, number, *channel, step, at)
                    .then_some(Some(Step::Pass(*channel, turn + 1))),
                None => Some(None),
            },
        }
    }

    fn send(&mut self, rank: usize, number: usize, unit: u64) {
        let LinePieces { sends, .. } = self.collectives[number].pieces[rank];
        for to in (0..self.ranks()).filter(|to| *to != rank) {
            if is_sent(sends[to].len, unit, self.fault) {
                let is_item = unit < sends[to].len;
                let item = if is_item { self.input(rank, sends[to].start + unit) } else { 0 };
                let line = (to, self.box_of(number), rank, unit);
                self.lines.insert(line, (self.epoch(number), item));
            }
        }
    }

    fn receive(&mut self, rank: usize, number: usize, unit: u64) -> bool {
        let LinePieces { sends, receives, combines, .. } = self.collectives[number].pieces[rank];
        let epoch = self.epoch(number);
        let mut arrived = Vec::new();
        for from in 0..self.ranks() {
            let piece = if from == rank { sends[from] } else { receives[from] };
            let item = if from == rank {
                (unit < piece.len).then(|| self.input(rank, piece.start + unit))
            } else if is_sent(piece.len, unit, self.fault) {
                let line = self.lines.get(&(rank, self.box_of(number), from, unit));
                let Some((_, item)) = line.filter(|line| line.0 == epoch) else { return false };
                (unit < piece.len).then_some(*item)
            } else {
                None
            };
            arrived.extend(item.map(|item| (from, item)));
        }
        if combines == 1 {
            let sum = arrived.iter().fold(0, |sum: u64, (_, item)| sum.wrapping_add(*item));
            let own = receives[rank];
            if unit < own.len {
                self.outputs[rank][(own.start + unit) as usize] = sum;
            }
        } else {
            for (from, item) in arrived.into_iter().filter(|(from, _)| unit < receives[*from].len) {
                self.outputs[rank][(receives[from].start + unit) as usize] = item;
            }
        }
        true
    }

    fn is_swapped(&self, number: usize) -> bool {
        self.collectives[number].swaps && self.fault != Fault::NoSwap
    }

    fn read(&self, rank: usize, number: usize, job: &Job) -> [u64; 2] {
        if self.is_swapped(number) {
            let other = job.targets.trailing_zeros() as usize;
            return [self.input(rank, job.source), self.outputs[other][job.target as usize]];
        }
        if job.sources == 0 {
            return [self.outputs[rank][job.source as usize], 0];
        }
        let sources = (0..self.ranks()).filter(|from| job.sources >> from & 1 == 1);
        let items = sources.map(|from| self.input(from, job.source));
        [items.fold(0, u64::wrapping_add), 0]
    }

    fn write(&mut self, rank: usize, number: usize, job: &Job, [here, there]: [u64; 2]) {
        if self.is_swapped(number) {
            self.outputs[rank][job.source as usize] = there;
        }
        for to in (0..self.ranks()).filter(|to| job.targets >> to & 1 == 1) {
            self.outputs[to][job.target as usize] = here;
        }
    }

    /// Begins the rank's next collective; false after the last.
    fn begin(&self, rank: usize, state: &mut Rank) -> bool {
        while state.now.is_empty() {
            if state.later.is_empty() {
                if state.collective == self.collectives.len() {
                    return false;
                }
                state.later = self.steps(state.collective, rank);
                state.later.reverse();
                state.collective += 1;
            }
            let number = state.collective - 1;
            let steps = state.later.pop().unwrap_or_default().into_iter();
            state.now = steps.map(|step| (number, step)).collect();
        }
        true
    }

    /// A thread of a rank has done its part of a collective. After its last thread, a block goes on
    /// to the next collective, if blocks may.
    fn end(&self, rank: usize, state: &mut Rank, (number, step): (usize, Step)) {
        let Step::Receive(unit) = step else { return };
        let block = |unit: u64| unit / GROUP % self.grid;
        let is_of_block = |(its, step): &(usize, Step)| match step {
            Step::Send(other) | Step::Receive(other) => {
                *its == number && block(*other) == block(unit)
            }
            _ => false,
        };
        if state.now.iter().any(is_of_block) {
            return;
        }
        let follows = self.collectives[number + 1..].iter().take_while(|next| !next.meets[rank]);
        // A block that has nothing to do there goes on at once.
        for (number, next) in (number + 1..).zip(follows) {
            state.collective = state.collective.max(number + 1);
            state.now.extend(next.sends(block(unit)).map(|step| (number, step)));
            if block(unit) < next.groups() {
                return;
            }
        }
    }

    /// Runs all ranks; `choose` picks the next step among so many. Returns false if all remaining steps wait.
    pub(super) fn run(&mut self, mut choose: impl FnMut(usize) -> usize) -> bool {
        let rank = |_| Rank { collective: 0, now: Vec::new(), later: Vec::new() };
        let mut ranks: Vec<Rank> = (0..self.ranks()).map(rank).collect();
        loop {
            let mut all = Vec::new();
            for (rank, state) in ranks.iter_mut().enumerate() {
                if self.begin(rank, state) {
                    all.extend((0..state.now.len()).map(|step| (rank, step)));
                }
            }
            if all.is_empty() {
                return true;
            }
            let first = choose(all.len());
            let taken = (0..all.len()).map(|turn| all[(first + turn) % all.len()]).find_map(
                |(rank, place)| {
                    let (number, step) = ranks[rank].now[place].clone();
                    self.advance(rank, number, &step).map(|next| (rank, place, next))
                },
            );
            let Some((rank, place, next)) = taken else { return false };
            let state = &mut ranks[rank];
            match next {
                Some(next) => state.now[place].1 = next,
                None => {
                    let ended = state.now.swap_remove(place);
                    self.end(rank, state, ended);
                }
            }
        }
    }
}
