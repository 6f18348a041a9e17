//! Vertices that a search from the hub has found: see `README.md`. The twin of those of `flood.cuh`.

use crate::hooking::look_for_root;
use crate::sync::{AtomicU32, Fault, Ordering, seeded};

/// A bit for each vertex: whether it is known to be in the hub's component. Empty if there is no search
/// from the hub. Each GPU has a copy of all bits; host devices share one.
pub(crate) struct Members<'a>(pub(crate) &'a [AtomicU32]);

impl Members<'_> {
    pub(crate) fn has(&self, vertex: u32) -> bool {
        // Relaxed, here and below: stale bits do no harm, and the devices' meetings publish all bits.
        let word = self.0.get(vertex as usize / 32);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (vertex % 32) & 1 != 0)
    }

    pub(crate) fn add(&self, vertex: u32) {
        self.0[vertex as usize / 32].fetch_or(1 << (vertex % 32), Ordering::Relaxed);
    }

    pub(crate) fn smallest(&self) -> Option<u32> {
        let words = self.0.iter().map(|word| word.load(Ordering::Relaxed));
        let first = words.enumerate().find(|&(_, word)| word != 0);
        first.map(|(at, word)| at as u32 * 32 + word.trailing_zeros())
    }
}

/// Makes the root of a vertex's tree its parent (for a member, the root of the hub's tree); runs when
/// all hooking is done.
pub(crate) fn label(members: &Members<'_>, parents: &[AtomicU32], vertex: u32, hub: u32) {
    let is_member = members.has(vertex) && !seeded(Fault::MembersAlone);
    let root = look_for_root(parents, if is_member { hub } else { vertex });
    parents[vertex as usize].store(root, Ordering::Relaxed);
}
