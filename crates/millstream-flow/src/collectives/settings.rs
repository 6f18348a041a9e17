//! What the kernel of each rank does in an exchange: `ExchangeSettings` of
//! `collective_exchange.cuh`.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use millstream_device::SharedSet;

use super::plan::{Pattern, Piece};

/// Slots of a ring; four are enough to go on.
pub(super) const SLOTS: usize = 8;
pub(super) const EVERYONE: u32 = u32::MAX;
/// Entries of the settings' lists.
const LISTED: usize = SharedSet::<u32>::MOST;

/// What all exchanges of a communicator have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    pub(super) ranks: usize,
    /// A multiple of 16.
    pub(super) tile_bytes: usize,
    /// Vectors up to this many bytes in all go to everyone.
    pub(super) whole_bytes: usize,
    pub(super) patience_ns: u64,
}

/// Items of a buffer, as kernels take them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Items {
    pub(super) start: u64,
    pub(super) len: u64,
}

impl From<&Range<usize>> for Items {
    fn from(range: &Range<usize>) -> Items {
        Items { start: range.start as u64, len: range.len() as u64 }
    }
}

/// `ExchangeSettings` of the header.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Settings {
    pub(super) sends: [Items; LISTED],
    pub(super) receives: [Items; LISTED],
    pub(super) gathers: [Items; LISTED],
    pub(super) patience_ns: u64,
    pub(super) rank: u32,
    pub(super) ranks: u32,
    pub(super) slots: u32,
    pub(super) slot_bytes: u32,
    pub(super) in_place: u32,
    pub(super) combines: u32,
    pub(super) is_gathered: u32,
    pub(super) gatherer: u32,
}

impl Settings {
    /// Of a kernel that does nothing.
    pub(super) fn idle(rank: usize, tuning: Tuning) -> Settings {
        Settings {
            patience_ns: tuning.patience_ns,
            rank: rank as u32,
            ranks: tuning.ranks as u32,
            slots: SLOTS as u32,
            slot_bytes: tuning.tile_bytes as u32,
            gatherer: EVERYONE,
            ..Settings::zeroed()
        }
    }
}

/// What each rank's kernel does.
pub(super) fn settings(
    pattern: &Pattern,
    tuning: Tuning,
    in_place: bool,
    item: usize,
) -> Vec<Settings> {
    let Tuning { ranks, whole_bytes, .. } = tuning;
    let idle = (0..ranks)
        .map(|rank| Settings { in_place: u32::from(in_place), ..Settings::idle(rank, tuning) });
    let mut all: Vec<Settings> = idle.collect();
    match pattern {
        Pattern::AllReduce { items } => {
            if items.len() * item * (ranks - 1) <= whole_bytes {
                to_everyone(&mut all, items, |_| true);
            } else {
                to_owners(&mut all, &aligned_parts(items, ranks, item), |_| true, EVERYONE);
            }
        }
        Pattern::Reduce { root, items } => {
            to_owners(&mut all, &aligned_parts(items, ranks, item), |_| true, *root as u32);
        }
        Pattern::Broadcast { root, items } => {
            if ranks == 2 || items.len() * item * (ranks - 1) <= whole_bytes {
                to_everyone(&mut all, items, |from| from == *root);
            } else {
                let parts = aligned_parts(items, ranks, item);
                to_owners(&mut all, &parts, |from| from == *root, EVERYONE);
            }
        }
        Pattern::ReduceScatter { parts } => reduce_scatter(&mut all, parts, in_place),
        Pattern::AllGather { parts } => all_gather(&mut all, parts, in_place),
        Pattern::AllToAll { pieces } => all_to_all(&mut all, pieces),
    }
    all
}

/// Those who contribute send all items to everyone, who combines them.
fn to_everyone(all: &mut [Settings], items: &Range<usize>, contributes: impl Fn(usize) -> bool) {
    let ranks = all.len();
    for (rank, settings) in all.iter_mut().enumerate() {
        settings.combines = 1;
        for other in 0..ranks {
            let empty = items.start..items.start;
            settings.sends[other] = if contributes(rank) { items } else { &empty }.into();
            settings.receives[other] =
                if contributes(other) || other == rank { items } else { &empty }.into();
        }
    }
}

/// Those who contribute send each part to its owner, who combines them for `gatherer`.
fn to_owners(
    all: &mut [Settings],
    parts: &[Range<usize>],
    contributes: impl Fn(usize) -> bool,
    gatherer: u32,
) {
    for (rank, settings) in all.iter_mut().enumerate() {
        (settings.combines, settings.is_gathered, settings.gatherer) = (1, 1, gatherer);
        let own = &parts[rank];
        for (other, part) in parts.iter().enumerate() {
            let sent = if contributes(rank) { part.clone() } else { part.start..part.start };
            let received = if contributes(other) || other == rank { own.end } else { own.start };
            settings.sends[other] = (&sent).into();
            settings.receives[other] = (&(own.start..received)).into();
            settings.gathers[other] = part.into();
        }
    }
}

/// Where a rank's part is in the buffer that has only that, or, in place, all parts.
fn own_part(part: &Range<usize>, in_place: bool) -> Items {
    let start = if in_place { part.start } else { 0 };
    (&(start..start + part.len())).into()
}

fn reduce_scatter(all: &mut [Settings], parts: &[Range<usize>], in_place: bool) {
    for (settings, own) in all.iter_mut().zip(parts) {
        settings.combines = 1;
        for (other, part) in parts.iter().enumerate() {
            settings.sends[other] = part.into();
            settings.receives[other] = own_part(own, in_place);
        }
    }
}

fn all_gather(all: &mut [Settings], parts: &[Range<usize>], in_place: bool) {
    for (settings, own) in all.iter_mut().zip(parts) {
        for (other, part) in parts.iter().enumerate() {
            settings.sends[other] = own_part(own, in_place);
            settings.receives[other] = part.into();
        }
    }
}

fn all_to_all(all: &mut [Settings], pieces: &[Vec<Piece>]) {
    for (rank, settings) in all.iter_mut().enumerate() {
        for (other, sent) in pieces[rank].iter().enumerate() {
            settings.sends[other] = (&sent.items).into();
            let Piece { items, at } = &pieces[other][rank];
            settings.receives[other] = (&(*at..at + items.len())).into();
        }
    }
}

/// Nearly equal parts that begin at multiples of 16 bytes, as items allow.
fn aligned_parts(items: &Range<usize>, ranks: usize, item: usize) -> Vec<Range<usize>> {
    let step = if item > 0 && 16 % item == 0 { 16 / item } else { 1 };
    let share = items.len().div_ceil(ranks).next_multiple_of(step);
    let bound = |place: usize| items.end.min(items.start + place * share);
    (0..ranks).map(|rank| bound(rank)..bound(rank + 1)).collect()
}
