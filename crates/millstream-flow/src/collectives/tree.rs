//! The binomial tree: the fewest possible rounds, for short vectors among many ranks.

use std::ops::Range;

use super::bruck;
use super::plan::{Pattern, Plan, Round, Transfer};

/// The plan. An all-to-all has no root, but takes equally few rounds.
pub(super) fn plan(ranks: usize, pattern: &Pattern) -> Plan {
    let first = Tree { ranks, root: 0 };
    match pattern {
        Pattern::Broadcast { root, items } => {
            Tree { ranks, root: *root }.down(|_| vec![items.clone()])
        }
        Pattern::Reduce { root, items } => {
            Tree { ranks, root: *root }.up(true, |_| vec![items.clone()])
        }
        Pattern::AllReduce { items } => {
            let mut plan = first.up(true, |_| vec![items.clone()]);
            plan.extend(first.down(|_| vec![items.clone()]));
            plan
        }
        // The parts of a subtree go up; all parts go down.
        Pattern::AllGather { parts } => {
            let mut plan = first.up(false, |subtree| of(parts, subtree));
            plan.extend(first.down(|_| parts.clone()));
            plan
        }
        Pattern::ReduceScatter { parts } => {
            let mut plan = first.up(true, |_| parts.clone());
            plan.extend(first.down(|subtree| of(parts, subtree)));
            plan
        }
        Pattern::AllToAll { pieces } => bruck::plan(pieces),
    }
}

fn of(parts: &[Range<usize>], ranks: Range<usize>) -> Vec<Range<usize>> {
    parts[ranks].to_vec()
}

/// Places count from the root. A place's parent is the place without its lowest set bit; its
/// subtree is the range of places up to the next multiple of that bit.
struct Tree {
    ranks: usize,
    root: usize,
}

impl Tree {
    fn rank(&self, place: usize) -> usize {
        (place + self.root) % self.ranks
    }

    /// For each level, from the leaves up: each place, its parent, and its subtree.
    fn levels(&self) -> impl DoubleEndedIterator<Item = Vec<(usize, usize, Range<usize>)>> {
        let levels = self.ranks.next_power_of_two().trailing_zeros();
        (0..levels).map(|level| {
            let bit = 1 << level;
            let places = (bit..self.ranks).step_by(2 * bit);
            places.map(|place| (place, place - bit, place..self.ranks.min(place + bit))).collect()
        })
    }

    fn up(&self, combines: bool, items: impl Fn(Range<usize>) -> Vec<Range<usize>>) -> Plan {
        let round = |level: Vec<(usize, usize, Range<usize>)>| -> Round {
            let edge = |(place, parent, subtree): (usize, usize, Range<usize>)| {
                let (from, to) = (self.rank(place), self.rank(parent));
                let transfers = items(subtree).into_iter();
                transfers.map(move |items| Transfer::new(from, to, &items, combines))
            };
            level.into_iter().flat_map(edge).collect()
        };
        self.levels().map(round).collect()
    }

    fn down(&self, items: impl Fn(Range<usize>) -> Vec<Range<usize>>) -> Plan {
        let round = |level: Vec<(usize, usize, Range<usize>)>| -> Round {
            let edge = |(place, parent, subtree): (usize, usize, Range<usize>)| {
                let (from, to) = (self.rank(parent), self.rank(place));
                let transfers = items(subtree).into_iter();
                transfers.map(move |items| Transfer::new(from, to, &items, false))
            };
            level.into_iter().flat_map(edge).collect()
        };
        self.levels().rev().map(round).collect()
    }
}
