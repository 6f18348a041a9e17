//! Collectives of long vectors between peers: which items each rank reads, combines and
//! writes, `PassSettings` of `collective_pass.cuh`.
//!
//! Each does as well as possible on links that carry equally much in both directions: no rank sends
//! or receives more than it must.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::plan::{Pattern, Piece};
use super::rank_settings::{MOST_RANKS, RankSettings};

millstream_device::cuda_struct! {
    /// The same items of several ranks' inputs, combined, go to several ranks' outputs (`PassJob`
    /// of the header).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(super) struct Job as "millstream::PassJob" {
        pub(super) len: u64,
        /// Where the items begin in the inputs.
        pub(super) source: u64,
        /// Where they begin in the outputs.
        pub(super) target: u64,
        /// A bit for each rank whose input is read; none for what the job before has left in the
        /// rank's own output.
        pub(super) sources: u32,
        pub(super) targets: u32,
    }
}

millstream_device::cuda_struct! {
    /// `PassSettings` of the header.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub(super) struct PassSettings as "millstream::PassSettings" {
        pub(super) common: RankSettings,
        pub(super) jobs: [Job; MOST_RANKS],
        pub(super) job_count: u32,
        pub(super) swaps: u32,
        pub(super) in_place: u32,
        in_order: u32,
        blocks: u32,
        unused: u32,
    }
}

impl PassSettings {
    /// Settings of a kernel of `blocks` blocks with these jobs.
    pub(super) fn new(
        common: RankSettings,
        blocks: usize,
        jobs: &[Job],
        in_place: bool,
        swaps: bool,
    ) -> PassSettings {
        let mut settings = PassSettings { common, ..PassSettings::zeroed() };
        settings.jobs[..jobs.len()].copy_from_slice(jobs);
        settings.job_count = jobs.len() as u32;
        settings.blocks = blocks as u32;
        (settings.in_place, settings.swaps) = (in_place.into(), swaps.into());
        settings.in_order = jobs.iter().any(|job| job.sources == 0).into();
        settings
    }
}

/// Whether items change places: in place, the piece that a rank sends to another lies where the
/// piece goes that it gets from that one.
pub(super) fn swaps(pattern: &Pattern, in_place: bool) -> bool {
    in_place && matches!(pattern, Pattern::AllToAll { .. })
}

/// The jobs of each rank's kernel, for items of `item` bytes; its threads together handle `at_once`
/// bytes at once.
pub(super) fn jobs(
    pattern: &Pattern,
    ranks: usize,
    in_place: bool,
    item: usize,
    at_once: usize,
) -> Vec<Vec<Job>> {
    let of_rank = |rank| {
        let mut jobs = jobs_of(rank, pattern, ranks, in_place, item, at_once);
        jobs.retain(|job| job.len > 0);
        jobs
    };
    (0..ranks).map(of_rank).collect()
}

/// The jobs of one rank, including some without items.
fn jobs_of(
    rank: usize,
    pattern: &Pattern,
    ranks: usize,
    in_place: bool,
    item: usize,
    at_once: usize,
) -> Vec<Job> {
    let everyone = (1 << ranks) - 1;
    let own = 1 << rank;
    let others = everyone & !own;
    let own_part = |part: &Range<usize>| if in_place { part.start } else { 0 };
    match pattern {
        Pattern::AllReduce { items } => {
            let part = aligned_part(items, ranks, rank, item);
            let is_at_once = part.len().saturating_mul(item) <= at_once;
            let reduce = |sources, targets| job(&part, part.start, part.start, sources, targets);
            // Links carry more if they carry only what is read, and then only what is written, than
            // both at once. Threads that go round only once read before they write anyway.
            if is_at_once {
                vec![reduce(everyone, everyone)]
            } else {
                vec![reduce(everyone, own), reduce(0, others)]
            }
        }
        Pattern::ReduceScatter { parts } => {
            let part = &parts[rank];
            vec![job(part, part.start, own_part(part), everyone, own)]
        }
        Pattern::AllGather { parts } => {
            let part = &parts[rank];
            let targets = if in_place { others } else { everyone };
            vec![job(part, own_part(part), part.start, own, targets)]
        }
        // These go along a chain.
        Pattern::Reduce { .. } | Pattern::Broadcast { .. } => Vec::new(),
        Pattern::AllToAll { pieces } => {
            let to = |step| exchange(pieces, rank, (rank + step) % ranks, in_place, item);
            (usize::from(in_place)..ranks).map(to).collect()
        }
    }
}

/// The job of `rank` for what it and rank `to` have for each other (`to` may be itself). In place,
/// that is one half, since their items change places.
fn exchange(pieces: &[Vec<Piece>], rank: usize, to: usize, in_place: bool, item: usize) -> Job {
    let (sent, received) = (&pieces[rank][to], &pieces[to][rank]);
    let (own, other) = (1 << rank, 1 << to);
    if !in_place {
        return job(&sent.items, sent.items.start, sent.at, own, other);
    }
    let half = round_up(sent.items.len() / 2, item).min(sent.items.len());
    let share = if rank < to { 0..half } else { half..sent.items.len() };
    let (source, target) = (sent.items.start, received.items.start);
    job(&share, source + share.start, target + share.start, own, other)
}

fn job(items: &Range<usize>, source: usize, target: usize, sources: u32, targets: u32) -> Job {
    let (source, target) = (source as u64, target as u64);
    Job { len: items.len() as u64, source, target, sources, targets }
}

/// Nearly equal parts that begin at multiples of 16 bytes, if items divide these.
pub(super) fn aligned_part(
    items: &Range<usize>,
    parts: usize,
    part: usize,
    item: usize,
) -> Range<usize> {
    let share = round_up(items.len().div_ceil(parts), item);
    let bound = |place: usize| items.end.min(items.start + place * share);
    bound(part)..bound(part + 1)
}

/// Rounds up to a multiple of 16 bytes, if items of `item` bytes divide these.
fn round_up(len: usize, item: usize) -> usize {
    let step = if item > 0 && 16 % item == 0 { 16 / item } else { 1 };
    len.next_multiple_of(step)
}
