//! Series of collectives between peers: the model of their kernels against what they should do.

use std::ops::Range;

use proptest::prelude::*;

use super::chain_settings::Chain;
use super::line_settings::{MOST_UNIT_LINES, capacity, lines, meetings, pieces, unit};
use super::pass_settings::{jobs, swaps};
use super::peer_model::{Collective, Fault, Model, Way};
use super::plan::{Pattern, Piece};
use super::ring_settings::Ring;
use crate::segmenter;

/// Bytes of an item: one line each.
const ITEM: usize = 8;

fn parts(items: &Range<usize>, ranks: usize) -> Vec<Range<usize>> {
    let of = |part: Range<usize>| items.start + part.start..items.start + part.end;
    segmenter::parts(items.len(), ranks).map(of).collect()
}

/// The pattern with this number, on vectors whose length is a multiple of `ranks`.
fn pattern(kind: usize, ranks: usize, len: usize, root: usize) -> Pattern {
    pattern_of(kind, ranks, 0..len, root)
}

/// The same, on some of the vectors' items.
fn pattern_of(kind: usize, ranks: usize, items: Range<usize>, root: usize) -> Pattern {
    match kind {
        0 => Pattern::Broadcast { root, items },
        1 => Pattern::Reduce { root, items },
        2 => Pattern::AllReduce { items },
        3 => Pattern::ReduceScatter { parts: parts(&items, ranks) },
        4 => Pattern::AllGather { parts: parts(&items, ranks) },
        _ => {
            let parts = parts(&items, ranks);
            let piece =
                |from: usize, to: usize| Piece { items: parts[to].clone(), at: parts[from].start };
            let row = |from| (0..ranks).map(|to| piece(from, to)).collect();
            Pattern::AllToAll { pieces: (0..ranks).map(row).collect() }
        }
    }
}

/// Kinds of lengths, by which a collective takes a way if it may.
#[derive(Clone, Copy)]
enum Length {
    Short,
    /// Long enough for a chain, through this many channels.
    Long(u64),
    /// Long enough for a ring, too.
    Longest(u64),
}

impl Length {
    fn new(draw: u64) -> Length {
        match draw {
            0 => Length::Short,
            1..4 => Length::Long(draw),
            _ => Length::Longest(draw - 3),
        }
    }

    fn way(self, pattern: &Pattern, ranks: usize, in_place: bool) -> Way {
        let chain = Chain::of(pattern, ranks);
        match (self, chain, Ring::of(pattern, ranks, in_place, ITEM)) {
            (Length::Short, ..) => Way::Lines,
            (Length::Long(channels) | Length::Longest(channels), Some(chain), _) => {
                Way::Chain(chain, channels)
            }
            (Length::Longest(channels), _, Some(ring)) => Way::Ring(ring, channels),
            _ => Way::Pass,
        }
    }
}

/// What a collective does, in a single step.
fn apply(pattern: &Pattern, inputs: &[Vec<u64>], outputs: &mut [Vec<u64>], in_place: bool) {
    let ranks = inputs.len();
    let sum = |at: usize| inputs.iter().fold(0, |sum: u64, input| sum.wrapping_add(input[at]));
    let start = |part: &Range<usize>| if in_place { part.start } else { 0 };
    match pattern {
        Pattern::Broadcast { root, items } => {
            let sent = &inputs[*root][items.clone()];
            outputs.iter_mut().for_each(|output| output[items.clone()].copy_from_slice(sent));
        }
        Pattern::Reduce { root, items } => {
            items.clone().for_each(|at| outputs[*root][at] = sum(at));
        }
        Pattern::AllReduce { items } => {
            items.clone().for_each(|at| outputs.iter_mut().for_each(|to| to[at] = sum(at)));
        }
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

/// Lets a rank's blocks go on to the next collective without meeting where they may, but not where
/// a kernel ends (`ends`): `BoundOperation::goes_on_to`, with items in place of buffers.
fn leave_out_meetings(
    rank: usize,
    collectives: &mut [Collective],
    patterns: &[&Pattern],
    ends: impl Fn(usize) -> bool,
    fault: Fault,
) {
    let goes_on = |before: usize, next: usize| {
        let (one, other) = (used(patterns[before]), used(patterns[next]));
        let is_again = patterns[before] == patterns[next];
        let is_apart = one.end <= other.start || other.end <= one.start;
        let [one, other] = [before, next].map(|number| &collectives[number]);
        !ends(next)
            && one.way == Way::Lines
            && other.way == Way::Lines
            && (one.groups() == other.groups() || fault == Fault::OtherBlocks)
            && (is_again || is_apart || fault == Fault::OtherItems)
    };
    let meets: Vec<bool> = meetings(collectives.len(), goes_on).collect();
    for (collective, meets) in collectives.iter_mut().zip(meets) {
        collective.meets[rank] = meets;
    }
}

/// The range of items that a pattern reads or writes, on any rank.
fn used(pattern: &Pattern) -> Range<usize> {
    let of = |parts: &[Range<usize>]| {
        let start = parts.iter().map(|part| part.start).min().unwrap_or(0);
        start..parts.iter().map(|part| part.end).max().unwrap_or(0)
    };
    match pattern {
        Pattern::Broadcast { items, .. }
        | Pattern::Reduce { items, .. }
        | Pattern::AllReduce { items } => items.clone(),
        Pattern::AllGather { parts } | Pattern::ReduceScatter { parts } => of(parts),
        Pattern::AllToAll { pieces } => {
            let pieces = pieces.iter().flatten().map(|piece| piece.items.clone());
            of(&pieces.collect::<Vec<_>>())
        }
    }
}

/// Runs a series. Returns whether it ends with the right items.
fn is_right(
    (ranks, len): (usize, usize),
    in_place: bool,
    series: &[(Pattern, Way)],
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
    let at_once = if seed.is_multiple_of(2) { 0 } else { usize::MAX };
    let mut epoch = 0;
    let collective = |(pattern, way): &(Pattern, Way)| {
        let is_chain = matches!(way, Way::Chain(..) | Way::Ring(..));
        epoch += usize::from(!is_chain || fault == Fault::CountedChain);
        Collective {
            epoch,
            pieces: (0..ranks).map(|rank| pieces(pattern, rank, ranks, in_place)).collect(),
            jobs: jobs(pattern, ranks, in_place, ITEM, at_once),
            swaps: swaps(pattern, in_place),
            way: *way,
            meets: vec![true; ranks],
        }
    };
    let mut collectives: Vec<_> = series.iter().map(collective).collect();
    let patterns: Vec<_> = series.iter().map(|(pattern, _)| pattern).collect();
    for rank in 0..ranks {
        let ends = |number: usize| seed >> (number * ranks + rank) & 1 == 1;
        leave_out_meetings(rank, &mut collectives, &patterns, ends, fault);
    }
    // As many blocks as there are groups of units, or so few that some have several.
    let grid = [u64::MAX, 2, 1][(seed >> 40) as usize % 3];
    let mut model = Model::new(collectives, (!in_place).then_some(inputs), outputs, grid, fault);
    let mut state = seed;
    let mut draw = |count| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % count
    };
    // Most seeds take the last ranks' steps more often.
    let draws = seed % 6;
    let ends = model.run(|count| (0..draws).fold(draw(count), |most, _| most.max(draw(count))));
    ends && model.outputs == expected
}

proptest! {
    #[test]
    fn every_order_of_steps_is_right(
        ranks in 2usize..9,
        share in 0usize..6,
        series in proptest::collection::vec((0usize..6, 0u64..7, 0usize..8), 1..6),
        seed: u64,
    ) {
        let size = (ranks, ranks * share);
        let collective = |(kind, length, root): &(usize, u64, usize)| {
            let pattern = pattern(*kind, ranks, size.1, root % ranks);
            let way = Length::new(*length).way(&pattern, ranks, true);
            (pattern, way)
        };
        let series: Vec<_> = series.iter().map(collective).collect();
        prop_assert!(is_right(size, true, &series, Fault::None, seed));
    }

    #[test]
    fn blocks_go_on_by_themselves(
        ranks in 2usize..5,
        share in 1usize..4,
        series in proptest::collection::vec((0usize..6, 0usize..3, 0usize..2, 0usize..8), 2..9),
        seed: u64,
    ) {
        // Vectors lie beside each other; they have one length or half of it.
        let len = 2 * ranks * share;
        let collective = |(kind, place, half, root): &(usize, usize, usize, usize)| {
            let items = place * len..place * len + (len >> half);
            (pattern_of(*kind, ranks, items, root % ranks), Way::Lines)
        };
        let series: Vec<_> = series.iter().map(collective).collect();
        prop_assert!(is_right((ranks, 3 * len), true, &series, Fault::None, seed));
    }

    #[test]
    fn inputs_may_be_elsewhere(
        ranks in 2usize..9,
        len in 0usize..40,
        kind in 0usize..5,
        length in 0u64..7,
        root in 0usize..8,
        seed: u64,
    ) {
        let moved = pattern(kind, ranks, len, root % ranks);
        let series = [(moved.clone(), Length::new(length).way(&moved, ranks, false))];
        prop_assert!(is_right((ranks, len), false, &series, Fault::None, seed));
        let len = len * ranks;
        let moved = pattern(5, ranks, len, 0);
        let series = [(moved.clone(), Length::new(length).way(&moved, ranks, false))];
        prop_assert!(is_right((ranks, len), false, &series, Fault::None, seed));
    }
}

/// Checks that a series on three ranks is right without the fault, and wrong with it in some order of steps.
fn is_seen(fault: Fault, len: usize, series: &[(Pattern, Way)]) {
    let right = |fault| (0..300).all(|seed| is_right((3, len), true, series, fault, seed));
    assert!(!right(fault), "{fault:?}");
    assert!(right(Fault::None), "{fault:?}");
}

#[test]
fn faults_are_seen() {
    use Way::{Lines, Pass};
    let of = |kind, root| pattern(kind, 3, 6, root);
    let in_lines = |kind, root| (of(kind, root), Lines);
    let along = |kind, root| (of(kind, root), Length::Long(2).way(&of(kind, root), 3, true));
    let [broadcast, reduce, all_reduce, all_to_all] = [0, 1, 2, 5];
    let from_first = in_lines(broadcast, 1);
    for (fault, series) in [
        (Fault::OneBox, vec![in_lines(all_reduce, 0); 3]),
        // The root may be several collectives ahead of the others.
        (
            Fault::Silence,
            vec![
                in_lines(broadcast, 0),
                in_lines(reduce, 0),
                in_lines(broadcast, 0),
                in_lines(broadcast, 0),
                in_lines(broadcast, 0),
            ],
        ),
        // So may the root's second block, if only the first block hears from others.
        (Fault::OneSpeaks, vec![in_lines(broadcast, 0); 5]),
        (Fault::NoBegin, vec![in_lines(all_reduce, 0), (of(all_reduce, 0), Pass)]),
        (Fault::NoEnd, vec![(of(all_reduce, 0), Pass), in_lines(all_reduce, 0)]),
        (Fault::NoSwap, vec![(of(all_to_all, 0), Pass)]),
        // The first in the chain is done before others have read their lines.
        (Fault::CountedChain, vec![from_first.clone(), along(reduce, 0), from_first.clone()]),
        (Fault::CountedChain, vec![from_first.clone(), along(broadcast, 1), from_first]),
    ] {
        is_seen(fault, 6, &series);
    }
    let some = |kind, items| (pattern_of(kind, 3, items, 0), Lines);
    // The first item of the second block belongs to the first block in the next collective.
    is_seen(Fault::OtherItems, 12, &[some(all_reduce, 2..6), some(3, 0..12)]);
    // In between, only the first block hears from others.
    let short = some(all_reduce, 8..9);
    is_seen(Fault::OtherBlocks, 12, &[in_lines(all_reduce, 0), short, in_lines(all_reduce, 0)]);
}

/// One channel, and more tiles than it has slots.
#[test]
fn faults_of_channels_are_seen() {
    let long = |kind, root| {
        let pattern = pattern(kind, 3, 12, root);
        let way = Length::Longest(1).way(&pattern, 3, true);
        (pattern, way)
    };
    let [broadcast, reduce, all_reduce, scatter, gather] = [0, 1, 2, 3, 4];
    for (fault, series) in [
        (Fault::NoRoom, vec![long(reduce, 0)]),
        (Fault::NoRoom, vec![long(broadcast, 1)]),
        (Fault::NoRoom, vec![long(scatter, 0), long(gather, 0)]),
        (Fault::Forgetful, vec![long(reduce, 0); 2]),
        (Fault::Forgetful, vec![long(broadcast, 1); 2]),
        (Fault::Forgetful, vec![long(broadcast, 0), long(reduce, 1)]),
        (Fault::Forgetful, vec![long(all_reduce, 0); 2]),
        (Fault::Crowded, vec![long(all_reduce, 0)]),
    ] {
        is_seen(fault, 12, &series);
    }
}

#[test]
fn broadcasts_and_reductions_have_the_same_neighbours() {
    let ends = |pattern: Pattern| {
        let chain = Chain::of(&pattern, 4).expect("a chain");
        ((chain.last + 1) % 4, chain.last)
    };
    assert_eq!([0, 1, 3].map(|root| ends(pattern(0, 4, 4, root))), [(0, 3), (1, 0), (3, 2)]);
    assert_eq!([0, 1, 3].map(|root| ends(pattern(1, 4, 4, root))), [(1, 0), (2, 1), (0, 3)]);
    assert!((2..6).all(|kind| Chain::of(&pattern(kind, 4, 4, 0), 4).is_none()));
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

#[test]
fn lines_are_shared_among_the_others() {
    let bytes = |ranks| 8 * capacity(1 << 20, ranks);
    assert_eq!([2, 3, 5].map(bytes), [1 << 20, 1 << 19, 1 << 18]);
    assert!((2..9).all(|ranks| bytes(ranks) * (ranks - 1) <= (1 << 20) + 8 * ranks));
    assert_eq!([1, 2, 8].map(|ranks| capacity(0, ranks)), [MOST_UNIT_LINES; 3]);
    // Lines of 16 bytes for each rank, in two sets.
    let allocated = |ranks: usize| 2 * ranks * 2 * bytes(ranks);
    assert_eq!([2, 3].map(allocated), [8 << 20, 6 << 20]);
    assert!((2..9).all(|ranks| (4 << 20..=8 << 20).contains(&allocated(ranks))));
}
