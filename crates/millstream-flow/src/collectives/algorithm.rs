//! Who sends what to whom, and which algorithm is taken when the program names none.

use millstream_device::Topology;

use super::plan::{Pattern, Plan, duration};
use super::rank_links::RankLinks;
use super::{direct, ring, tree};

/// How the ranks of a collective share the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Whichever is fastest by the topology's transfer table, for this size.
    #[default]
    Auto,
    /// Each rank sends to the next one only.
    Ring,
    /// A binomial tree; for all-to-all, Bruck's algorithm, which takes as few rounds.
    Tree,
    /// Each rank sends straight to the ranks that need its items.
    Direct,
}

/// Used without a table: microseconds for a packet, and bytes per microsecond. Only their ratio
/// counts: a link reaches half of its speed with packets of 64 KiB.
const ASSUMED: (f64, f64) = (2.0, 32_768.0);

impl Algorithm {
    const ALL: [Algorithm; 3] = [Algorithm::Direct, Algorithm::Tree, Algorithm::Ring];

    /// The plan over `topology`'s devices.
    pub(super) fn plan(self, topology: &Topology, pattern: &Pattern) -> Plan {
        let ranks = topology.names().len();
        match self {
            Algorithm::Ring => ring::plan(&topology.ring_order(), pattern),
            Algorithm::Tree => tree::plan(ranks, pattern),
            // `Auto`, for those who have not asked for the fastest.
            Algorithm::Direct | Algorithm::Auto => direct::plan(ranks, pattern),
        }
    }

    /// The fastest algorithm for items of `item` bytes, with at most so many items in a packet, on
    /// the ways that packets take.
    pub(super) fn fastest(
        topology: &Topology,
        links: &RankLinks,
        pattern: &Pattern,
        item: usize,
        packet: usize,
    ) -> Algorithm {
        let slices = pattern.longest().div_ceil(packet);
        let first = pattern.slice(0, packet);
        let time = |from: usize, to: usize, items: usize| {
            let bytes = items * item;
            let known = links.time_us(topology, (from, to), bytes, bytes.saturating_mul(slices));
            // Pairs out of reach go through the host, which takes two copies.
            let times = if topology.are_peers(from, to) { 1.0 } else { 2.0 };
            known.unwrap_or(times * (ASSUMED.0 + bytes as f64 / ASSUMED.1))
        };
        let known = Algorithm::ALL.into_iter().filter_map(|algorithm| {
            let plan = algorithm.plan(topology, first.as_ref()?);
            Some((algorithm, duration(&plan, slices, time)))
        });
        let best = known.min_by(|(_, one), (_, other)| one.total_cmp(other));
        best.map_or(Algorithm::Direct, |(algorithm, _)| algorithm)
    }
}
