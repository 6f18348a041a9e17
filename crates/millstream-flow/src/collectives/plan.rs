//! What an algorithm does: transfers in rounds.

use std::ops::Range;

use crate::segmenter;

/// Memory of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The rank's work area: its own items at first, its results in the end.
    Own,
    /// Memory for what passes through the rank on the way to another.
    Passing,
}

/// Items that go from one rank to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Items at the source.
    pub(super) items: Range<usize>,
    /// Where they begin at the destination.
    pub(super) at: usize,
    /// The source's memory that they are taken from.
    pub(super) takes: Place,
    /// The destination's memory that they are put into.
    pub(super) puts: Place,
    /// Whether they are combined with what is there, instead of replacing it.
    pub(super) combines: bool,
}

impl Transfer {
    /// Items that keep their place.
    pub(super) fn new(from: usize, to: usize, items: &Range<usize>, combines: bool) -> Transfer {
        let (items, at, place) = (items.clone(), items.start, Place::Own);
        Transfer { from, to, items, at, takes: place, puts: place, combines }
    }

    /// A piece that goes straight to its final place.
    pub(super) fn of_piece(from: usize, to: usize, piece: &Piece) -> Transfer {
        Transfer { at: piece.at, ..Transfer::new(from, to, &piece.items, false) }
    }
}

/// Transfers of a round read what was there before it.
pub(super) type Round = Vec<Transfer>;

/// Rounds, one after the other.
pub(super) type Plan = Vec<Round>;

/// What a collective does to the work areas of its ranks, which all have equally many items; parts
/// of them belong to the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Everyone gets these items of the root.
    Broadcast { root: usize, items: Range<usize> },
    /// The root gets these items of everyone, combined.
    Reduce { root: usize, items: Range<usize> },
    /// Everyone gets these items of everyone, combined.
    AllReduce { items: Range<usize> },
    /// Everyone gets each rank's part.
    AllGather { parts: Vec<Range<usize>> },
    /// Each rank gets everyone's items of its part, combined.
    ReduceScatter { parts: Vec<Range<usize>> },
    /// Each rank sends a piece to each.
    AllToAll { pieces: Vec<Vec<Piece>> },
}

/// Items that one rank has for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Where they are at the source.
    pub(super) items: Range<usize>,
    /// Where they begin at the destination.
    pub(super) at: usize,
}

/// The first, second, ... `len` items of a range, for pipelining.
pub(super) fn slice(items: &Range<usize>, number: usize, len: usize) -> Range<usize> {
    let start = items.end.min(items.start.saturating_add(number.saturating_mul(len)));
    start..items.end.min(start.saturating_add(len))
}

impl Pattern {
    /// Slice `number` of the same pattern, at most `len` items of each part: slices
    /// follow each other like packets. `None` if nothing is left.
    pub(super) fn slice(&self, number: usize, len: usize) -> Option<Pattern> {
        let one = |items: &Range<usize>| slice(items, number, len);
        let pattern = self.map(one, |piece| {
            let items = one(&piece.items);
            Piece { at: piece.at + (items.start - piece.items.start), items }
        });
        (pattern.longest() > 0).then_some(pattern)
    }

    /// Items of the longest part.
    pub(super) fn longest(&self) -> usize {
        let longest = match self {
            Pattern::Broadcast { items, .. }
            | Pattern::Reduce { items, .. }
            | Pattern::AllReduce { items } => Some(items.len()),
            Pattern::AllGather { parts } | Pattern::ReduceScatter { parts } => {
                parts.iter().map(Range::len).max()
            }
            Pattern::AllToAll { pieces } => {
                pieces.iter().flatten().map(|piece| piece.items.len()).max()
            }
        };
        longest.unwrap_or(0)
    }

    /// Whether items are combined, not only moved.
    pub(super) fn combines(&self) -> bool {
        matches!(
            self,
            Pattern::Reduce { .. } | Pattern::AllReduce { .. } | Pattern::ReduceScatter { .. }
        )
    }

    /// The same pattern for items that consist of this many words each.
    pub(super) fn in_words(self, words: usize) -> Pattern {
        if words == 1 {
            return self;
        }
        let one = |items: &Range<usize>| items.start * words..items.end * words;
        self.map(one, |piece| Piece { items: one(&piece.items), at: piece.at * words })
    }

    fn map(
        &self,
        one: impl Fn(&Range<usize>) -> Range<usize>,
        piece: impl Fn(&Piece) -> Piece,
    ) -> Pattern {
        let all = |parts: &[Range<usize>]| parts.iter().map(&one).collect::<Vec<_>>();
        match self {
            Pattern::Broadcast { root, items } => {
                Pattern::Broadcast { root: *root, items: one(items) }
            }
            Pattern::Reduce { root, items } => Pattern::Reduce { root: *root, items: one(items) },
            Pattern::AllReduce { items } => Pattern::AllReduce { items: one(items) },
            Pattern::AllGather { parts } => Pattern::AllGather { parts: all(parts) },
            Pattern::ReduceScatter { parts } => Pattern::ReduceScatter { parts: all(parts) },
            Pattern::AllToAll { pieces } => {
                let row = |row: &Vec<Piece>| row.iter().map(&piece).collect();
                Pattern::AllToAll { pieces: pieces.iter().map(row).collect() }
            }
        }
    }
}

/// The pieces of a barrier: empty ones from every rank to every other.
pub(super) fn signals(ranks: usize) -> Pattern {
    Pattern::AllGather { parts: vec![0..0; ranks] }
}

/// Nearly equal parts of some items, one for each rank to combine.
pub(super) fn shares(items: &Range<usize>, ranks: usize) -> Vec<Range<usize>> {
    let parts = segmenter::parts(items.len(), ranks);
    parts.map(|part| items.start + part.start..items.start + part.end).collect()
}

/// How long `slices` copies of a plan take, one after another, if each rank sends and receives one
/// packet at a time, and `time` is that of a number of items between two ranks. The first copy
/// takes all its rounds; the others follow at the pace of the rank that has most to do.
pub(super) fn duration(
    plan: &Plan,
    slices: usize,
    time: impl Fn(usize, usize, usize) -> f64,
) -> f64 {
    let ends = plan.iter().flatten().map(|transfer| transfer.from.max(transfer.to) + 1);
    let ranks = ends.max().unwrap_or(0);
    let (mut first, mut whole) = (0.0, vec![(0.0, 0.0); ranks]);
    for round in plan {
        let mut busy = vec![(0.0, 0.0); ranks];
        for transfer in round {
            let time = time(transfer.from, transfer.to, transfer.items.len());
            busy[transfer.from].0 += time;
            busy[transfer.to].1 += time;
        }
        first += busiest(&busy);
        for (whole, busy) in whole.iter_mut().zip(busy) {
            *whole = (whole.0 + busy.0, whole.1 + busy.1);
        }
    }
    first + busiest(&whole) * slices.saturating_sub(1) as f64
}

fn busiest(ranks: &[(f64, f64)]) -> f64 {
    ranks.iter().fold(0.0, |most: f64, (sends, receives)| most.max(*sends).max(*receives))
}
