//! Collectives of short vectors between peers: what each rank sends and receives,
//! `LineSettings` of `collective_lines.cuh`.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::plan::{Pattern, Piece};
use super::rank_settings::{MOST_RANKS, RankSettings};

/// Bytes of a line that carry items.
pub(super) const LINE_BYTES: usize = 8;

/// The most lines of a unit, limited by registers.
pub(super) const MOST_UNIT_LINES: usize = 4;

millstream_device::cuda_struct! {
    /// A range of a buffer's items, in the form that kernels take.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub(super) struct Items as "millstream::LinePiece" {
        pub(super) start: u64,
        pub(super) len: u64,
    }
}

impl From<&Range<usize>> for Items {
    fn from(range: &Range<usize>) -> Items {
        Items { start: range.start as u64, len: range.len() as u64 }
    }
}

millstream_device::cuda_struct! {
    /// `LinePieces` of the header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(super) struct LinePieces as "millstream::LinePieces" {
        /// Pieces of the input, one for each rank; the rank's own piece stays.
        pub(super) sends: [Items; MOST_RANKS],
        /// Pieces of the output, one from each rank.
        pub(super) receives: [Items; MOST_RANKS],
        pub(super) in_place: u32,
        pub(super) combines: u32,
    }
}

millstream_device::cuda_struct! {
    /// `LineSettings` of the header.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub(super) struct LineSettings as "millstream::LineSettings" {
        /// Settings of all kernels, with the number of the first collective.
        pub(super) common: RankSettings,
        pub(super) capacity: u64,
    }
}

/// The smallest unit: the fewest whole items that fill whole lines. Returns how many items and
/// lines those are.
pub(super) fn unit(item: usize) -> (usize, usize) {
    let divisor = 1 << item.trailing_zeros().min(LINE_BYTES.trailing_zeros());
    (LINE_BYTES / divisor, item / divisor)
}

/// Whether items of this size can go in lines.
pub(super) fn fits(item: usize) -> bool {
    unit(item).1 <= MOST_UNIT_LINES
}

/// The lines that `items` items take.
pub(super) fn lines(items: usize, item: usize) -> usize {
    let (count, lines) = unit(item);
    items.div_ceil(count) * lines
}

/// Lines from one rank to another, for one collective, such that those to all other ranks together
/// carry this many bytes; at least those of one unit, which ranks send each other even if they have
/// no items.
pub(super) fn capacity(line_bytes: usize, ranks: usize) -> usize {
    let most = line_bytes / ranks.saturating_sub(1).max(1);
    most.div_ceil(LINE_BYTES).max(MOST_UNIT_LINES)
}

/// For each of `count` collectives of a kernel, whether all blocks of a rank meet before it. They
/// must if some collective since they last met does not go on to it (`goes_on(before, next)`).
pub(super) fn meetings(
    count: usize,
    goes_on: impl Fn(usize, usize) -> bool,
) -> impl Iterator<Item = bool> {
    let mut since = 0;
    (0..count).map(move |next| {
        let meets = !(since..next).all(|before| goes_on(before, next));
        if meets {
            since = next;
        }
        meets
    })
}

/// What the kernel of a rank sends and receives.
pub(super) fn pieces(pattern: &Pattern, rank: usize, ranks: usize, in_place: bool) -> LinePieces {
    let mut pieces = LinePieces { in_place: in_place.into(), ..LinePieces::zeroed() };
    for other in 0..ranks {
        let (sends, receives) = between(pattern, rank, other, in_place);
        pieces.sends[other] = (&sends).into();
        pieces.receives[other] = (&receives).into();
    }
    pieces.combines = pattern.combines().into();
    pieces
}

/// What `rank` sends to `other`, and where it puts what it gets from `other`.
pub(super) fn between(
    pattern: &Pattern,
    rank: usize,
    other: usize,
    in_place: bool,
) -> (Range<usize>, Range<usize>) {
    let when = |items: &Range<usize>, is_so: bool| {
        if is_so { items.clone() } else { items.start..items.start }
    };
    let own_part = |part: &Range<usize>| if in_place { part.clone() } else { 0..part.len() };
    match pattern {
        Pattern::AllReduce { items } => (items.clone(), items.clone()),
        Pattern::Reduce { root, items } => {
            (when(items, other == *root), when(items, rank == *root))
        }
        Pattern::Broadcast { root, items } => {
            (when(items, rank == *root), when(items, other == *root))
        }
        Pattern::ReduceScatter { parts } => (parts[other].clone(), own_part(&parts[rank])),
        Pattern::AllGather { parts } => (own_part(&parts[rank]), parts[other].clone()),
        Pattern::AllToAll { pieces } => {
            let Piece { items, at } = &pieces[other][rank];
            (pieces[rank][other].items.clone(), *at..at + items.len())
        }
    }
}
