//! How GPUs merge their trees: `merge.cuh`, in Rust. Host devices have one forest.

use std::ops::Range;

use crate::hooking::{hook, hook_telling, look_for_root};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What all devices tell of their trees: for each how many pairs follow, and pairs of
/// vertices that are in one tree there.
pub(crate) struct Told<'a> {
    pub(crate) pairs: Vec<&'a [AtomicU64]>,
    pub(crate) here: usize,
}

impl Told<'_> {
    fn add(&self, from: u32, to: u32) {
        let own = self.pairs[self.here];
        let place = 1 + own[0].fetch_add(1, Ordering::Relaxed);
        let pair = u64::from(to) << 32 | u64::from(from);
        own[place as usize].store(pair, Ordering::Relaxed);
    }

    /// How many pairs a device tells.
    pub(crate) fn count_of(&self, device: usize) -> usize {
        self.pairs[device][0].load(Ordering::Relaxed) as usize
    }

    /// A pair that a device tells.
    pub(crate) fn pair(&self, device: usize, at: usize) -> [u32; 2] {
        let pair = self.pairs[device][1 + at].load(Ordering::Relaxed);
        [pair as u32, (pair >> 32) as u32]
    }
}

/// Makes the trees of two vertices one, and tells of it if there are other devices.
pub(crate) fn hook_and_tell(told: &Told<'_>, parents: &[AtomicU32], from: u32, to: u32) {
    hook_telling(parents, from, to, |root, parent| {
        if told.pairs.len() > 1 {
            told.add(root, parent);
        }
    });
}

/// Tells of the trees of a range of vertices, when all hooks are over.
pub(crate) fn tell(told: &Told<'_>, parents: &[AtomicU32], range: Range<u32>) {
    for vertex in range {
        let root = look_for_root(parents, vertex);
        if root != vertex {
            told.add(vertex, root);
        }
    }
}

/// Vertices outside of `covered` that a pair names become trees.
pub(crate) fn plant(parents: &[AtomicU32], pair: [u32; 2], covered: &Range<u32>) {
    for vertex in pair.into_iter().filter(|vertex| !covered.contains(vertex)) {
        parents[vertex as usize].store(vertex, Ordering::Relaxed);
    }
}

/// Hooks along a pair.
pub(crate) fn join(parents: &[AtomicU32], [from, to]: [u32; 2]) {
    hook(parents, from, to);
}
