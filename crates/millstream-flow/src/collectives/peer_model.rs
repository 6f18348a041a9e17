//! A model of `collective_lines.cuh` and `collective_pass.cuh`: series of collectives,
//! each in one way or the other, whose threads take their steps in any order on all
//! ranks. It runs the very settings that kernels get. `README.md` maps its steps to the
//! headers' lines.

use std::collections::HashMap;
use std::ops::Range;

use proptest::prelude::*;

use super::line_settings::{LinePieces, lines, pieces, unit};
use super::pass_settings::{Job, jobs, swaps};
use super::plan::{Pattern, Piece};
use crate::segmenter;

/// Bytes of an item: one line each.
const ITEM: usize = 8;

/// What a faulty kernel leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// All collectives' lines lie in the same place.
    OneBox,
    /// Nothing is sent to those who get no items.
    Silence,
    /// A pass does not wait for the others' buffers.
    NoBegin,
    /// A pass does not wait until the others are done with its buffers.
    NoEnd,
    /// Items that change places are sent like others.
    NoSwap,
}

/// One collective, for all ranks.
struct Collective {
    pieces: Vec<LinePieces>,
    jobs: Vec<Vec<Job>>,
    swaps: bool,
    in_lines: bool,
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
    /// What was read: the combined item, or the two that change places.
    Write(Job, u64, u64),
}

/// The steps that a rank may take next, and those that come after all of them.
struct Rank {
    collective: usize,
    now: Vec<Step>,
    later: Vec<Vec<Step>>,
}

struct Model {
    collectives: Vec<Collective>,
    /// `None` in place.
    inputs: Option<Vec<Vec<u64>>>,
    outputs: Vec<Vec<u64>>,
    /// By receiver, box, sender and place: the collective's number and the item.
    lines: HashMap<(usize, usize, usize, u64), (usize, u64)>,
    /// By receiver and sender: the last number heard, of begun and of ended ones.
    words: HashMap<(usize, usize, bool), usize>,
    fault: Fault,
}

fn is_sent(len: u64, unit: u64, fault: Fault) -> bool {
    unit < len || (unit == 0 && fault != Fault::Silence)
}

impl Model {
    fn ranks(&self) -> usize {
        self.outputs.len()
    }

    fn input(&self, rank: usize, at: u64) -> u64 {
        self.inputs.as_ref().unwrap_or(&self.outputs)[rank][at as usize]
    }

    /// All steps of a rank's kernel, in groups that follow each other.
    fn steps(&self, number: usize, rank: usize) -> Vec<Vec<Step>> {
        let Collective { pieces, jobs, in_lines, .. } = &self.collectives[number];
        if *in_lines {
            let LinePieces { sends, receives, .. } = &pieces[rank];
            let most = sends.iter().chain(receives).map(|piece| piece.len).max().unwrap_or(0);
            return vec![(0..most.max(1)).map(Step::Send).collect()];
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
            // More order than the kernel's, where each thread goes on by itself; that it
            // finds its own items again is for the GPUs' cases.
            steps.extend(reads);
        } else {
            steps.push(reads.concat());
        }
        steps.push(vec![Step::Tell { ended: true }]);
        steps.push(vec![Step::Hear { ended: true }]);
        steps
    }

    fn box_of(&self, number: usize) -> usize {
        if self.fault == Fault::OneBox { 0 } else { number % 2 }
    }

    /// Takes a step; what the same thread does next, or `None` if it must wait.
    fn advance(&mut self, rank: usize, number: usize, step: &Step) -> Option<Option<Step>> {
        match step {
            Step::Send(unit) => {
                self.send(rank, number, *unit);
                Some(Some(Step::Receive(*unit)))
            }
            Step::Receive(unit) => self.receive(rank, number, *unit).then_some(None),
            Step::Tell { ended } => {
                for other in 0..self.ranks() {
                    self.words.insert((other, rank, *ended), number + 1);
                }
                Some(None)
            }
            Step::Hear { ended } => {
                let skipped = if *ended { Fault::NoEnd } else { Fault::NoBegin };
                let heard = |other: usize| {
                    self.words.get(&(rank, other, *ended)).is_some_and(|heard| *heard > number)
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
        }
    }

    fn send(&mut self, rank: usize, number: usize, unit: u64) {
        let LinePieces { sends, .. } = self.collectives[number].pieces[rank];
        for to in (0..self.ranks()).filter(|to| *to != rank) {
            if is_sent(sends[to].len, unit, self.fault) {
                let is_item = unit < sends[to].len;
                let item = if is_item { self.input(rank, sends[to].start + unit) } else { 0 };
                self.lines.insert((to, self.box_of(number), rank, unit), (number, item));
            }
        }
    }

    fn receive(&mut self, rank: usize, number: usize, unit: u64) -> bool {
        let LinePieces { sends, receives, combines, .. } = self.collectives[number].pieces[rank];
        let mut arrived = Vec::new();
        for from in 0..self.ranks() {
            let piece = if from == rank { sends[from] } else { receives[from] };
            let item = if from == rank {
                (unit < piece.len).then(|| self.input(rank, piece.start + unit))
            } else if is_sent(piece.len, unit, self.fault) {
                let line = self.lines.get(&(rank, self.box_of(number), from, unit));
                let Some((_, item)) = line.filter(|line| line.0 == number) else { return false };
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
            state.now = state.later.pop().unwrap_or_default();
        }
        true
    }

    /// Runs all ranks, the next step chosen by `choose` among so many; false if all that
    /// are left wait.
    fn run(&mut self, mut choose: impl FnMut(usize) -> usize) -> bool {
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
                    let number = ranks[rank].collective - 1;
                    let step = ranks[rank].now[place].clone();
                    self.advance(rank, number, &step).map(|next| (rank, place, next))
                },
            );
            let Some((rank, place, next)) = taken else { return false };
            match next {
                Some(next) => ranks[rank].now[place] = next,
                None => drop(ranks[rank].now.swap_remove(place)),
            }
        }
    }
}

fn parts(len: usize, ranks: usize) -> Vec<Range<usize>> {
    segmenter::parts(len, ranks).collect()
}

/// One of all patterns, on vectors of a multiple of `ranks` items.
fn pattern(kind: usize, ranks: usize, len: usize, root: usize) -> Pattern {
    let items = 0..len;
    match kind {
        0 => Pattern::Broadcast { root, items },
        1 => Pattern::Reduce { root, items },
        2 => Pattern::AllReduce { items },
        3 => Pattern::ReduceScatter { parts: parts(len, ranks) },
        4 => Pattern::AllGather { parts: parts(len, ranks) },
        _ => {
            let parts = parts(len, ranks);
            let piece =
                |from: usize, to: usize| Piece { items: parts[to].clone(), at: parts[from].start };
            let row = |from| (0..ranks).map(|to| piece(from, to)).collect();
            Pattern::AllToAll { pieces: (0..ranks).map(row).collect() }
        }
    }
}

/// What a collective does, all at once.
fn apply(pattern: &Pattern, inputs: &[Vec<u64>], outputs: &mut [Vec<u64>], in_place: bool) {
    let ranks = inputs.len();
    let sum = |at: usize| inputs.iter().fold(0, |sum: u64, input| sum.wrapping_add(input[at]));
    let start = |part: &Range<usize>| if in_place { part.start } else { 0 };
    match pattern {
        Pattern::Broadcast { root, .. } => outputs.fill(inputs[*root].clone()),
        Pattern::Reduce { root, items } => outputs[*root] = items.clone().map(sum).collect(),
        Pattern::AllReduce { items } => outputs.fill(items.clone().map(sum).collect()),
        Pattern::ReduceScatter { parts } => {
            for (output, part) in outputs.iter_mut().zip(parts) {
                for at in part.clone() {
                    output[start(part) + at - part.start] = sum(at);
                }
            }
        }
        Pattern::AllGather { parts } => {
            for (input, part) in inputs.iter().zip(parts) {
                let items = &input[start(part)..start(part) + part.len()];
                outputs.iter_mut().for_each(|to| to[part.clone()].copy_from_slice(items));
            }
        }
        Pattern::AllToAll { pieces } => {
            for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))) {
                let Piece { items, at } = &pieces[from][to];
                outputs[to][*at..at + items.len()].copy_from_slice(&inputs[from][items.clone()]);
            }
        }
    }
}

/// Runs a series; whether it ends, and with the right items.
fn is_right(
    (ranks, len): (usize, usize),
    in_place: bool,
    series: &[(Pattern, bool)],
    fault: Fault,
    seed: u64,
) -> bool {
    let inputs: Vec<Vec<u64>> = (0..ranks)
        .map(|rank| (0..len).map(|at| (at as u64 * 31 + 7) << (4 * rank)).collect())
        .collect();
    let outputs = if in_place { inputs.clone() } else { vec![vec![0; len]; ranks] };
    let mut expected = outputs.clone();
    for (pattern, _) in series {
        let before = if in_place { expected.clone() } else { inputs.clone() };
        apply(pattern, &before, &mut expected, in_place);
    }
    let collective = |(pattern, in_lines): &(Pattern, bool)| Collective {
        pieces: pieces(pattern, ranks, in_place),
        jobs: jobs(pattern, ranks, in_place, ITEM),
        swaps: swaps(pattern, in_place),
        in_lines: *in_lines,
    };
    let mut model = Model {
        collectives: series.iter().map(collective).collect(),
        inputs: (!in_place).then_some(inputs),
        outputs,
        lines: HashMap::new(),
        words: HashMap::new(),
        fault,
    };
    let mut state = seed;
    let ends = model.run(|count| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % count
    });
    ends && model.outputs == expected
}

proptest! {
    #[test]
    fn every_order_of_steps_is_right(
        ranks in 2usize..9,
        share in 0usize..6,
        series in proptest::collection::vec((0usize..6, any::<bool>(), 0usize..8), 1..6),
        seed: u64,
    ) {
        let size = (ranks, ranks * share);
        let collective = |(kind, in_lines, root): &(usize, bool, usize)| {
            (pattern(*kind, ranks, size.1, root % ranks), *in_lines)
        };
        let series: Vec<_> = series.iter().map(collective).collect();
        prop_assert!(is_right(size, true, &series, Fault::None, seed));
    }

    #[test]
    fn inputs_may_be_elsewhere(
        ranks in 2usize..9,
        len in 0usize..40,
        kind in 0usize..5,
        in_lines: bool,
        root in 0usize..8,
        seed: u64,
    ) {
        let series = [(pattern(kind, ranks, len, root % ranks), in_lines)];
        prop_assert!(is_right((ranks, len), false, &series, Fault::None, seed));
        let len = len * ranks;
        let series = [(pattern(5, ranks, len, 0), in_lines)];
        prop_assert!(is_right((ranks, len), false, &series, Fault::None, seed));
    }
}

#[test]
fn faults_are_seen() {
    let broadcast = |in_lines| (pattern(0, 3, 6, 0), in_lines);
    let reduce = |in_lines| (pattern(1, 3, 6, 0), in_lines);
    let all_to_all = (pattern(5, 3, 6, 0), false);
    let all_reduce = |in_lines| (pattern(2, 3, 6, 0), in_lines);
    for (fault, series) in [
        (Fault::OneBox, vec![all_reduce(true); 3]),
        // The root may be several collectives ahead.
        (
            Fault::Silence,
            vec![broadcast(true), reduce(true), broadcast(true), broadcast(true), broadcast(true)],
        ),
        (Fault::NoBegin, vec![all_reduce(true), all_reduce(false)]),
        (Fault::NoEnd, vec![all_reduce(false), all_reduce(true)]),
        (Fault::NoSwap, vec![all_to_all]),
    ] {
        let right = |fault| (0..300).all(|seed| is_right((3, 6), true, &series, fault, seed));
        assert!(!right(fault), "{fault:?}");
        assert!(right(Fault::None), "{fault:?}");
    }
}

#[test]
fn units_are_whole_items_in_whole_lines() {
    for (item, expected) in [
        (1, (8, 1)),
        (2, (4, 1)),
        (3, (8, 3)),
        (4, (2, 1)),
        (8, (1, 1)),
        (12, (2, 3)),
        (16, (1, 2)),
    ] {
        assert_eq!(unit(item), expected);
        assert_eq!(expected.0 * item, expected.1 * 8);
    }
    assert_eq!([lines(0, 4), lines(1, 4), lines(3, 4), lines(3, 12)], [0, 1, 2, 6]);
}
