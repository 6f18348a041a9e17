//! Devices that reach each other's memory merge their trees: see `README.md`. The twin
//! of `merge.cuh`.

use std::ops::Range;

use crate::hooking::{hook, look_for_root};
use crate::sync::{AtomicU32, AtomicU64, Fault, Ordering, seeded};

/// What all devices tell of their trees.
pub(crate) struct Told<'a> {
    /// For each device a bit for each vertex: whether it is in the hub's tree there.
    /// Empty if there is no hub.
    pub(crate) members: Vec<&'a [AtomicU32]>,
    /// For each device how many pairs follow, and pairs of a vertex and its root there.
    pub(crate) pairs: Vec<&'a [AtomicU64]>,
    pub(crate) here: usize,
}

impl Told<'_> {
    fn has_hub(&self) -> bool {
        !self.members[self.here].is_empty()
    }

    /// Whether a vertex is in the hub's tree on any device.
    fn is_member(&self, vertex: u32) -> bool {
        // Relaxed, here and below: the meetings of the devices publish what is told.
        self.has_hub()
            && self.members.iter().any(|members| {
                members[vertex as usize / 32].load(Ordering::Relaxed) >> (vertex % 32) & 1 != 0
            })
    }

    fn add(&self, vertex: u32, root: u32) {
        let own = self.pairs[self.here];
        let place = 1 + own[0].fetch_add(1, Ordering::Relaxed);
        let pair = u64::from(root) << 32 | u64::from(vertex);
        own[place as usize].store(pair, Ordering::Relaxed);
    }

    /// How many pairs a device tells.
    pub(crate) fn pairs_of(&self, device: usize) -> usize {
        self.pairs[device][0].load(Ordering::Relaxed) as usize
    }

    /// A pair that a device tells.
    pub(crate) fn pair(&self, device: usize, at: usize) -> [u32; 2] {
        let pair = self.pairs[device][1 + at].load(Ordering::Relaxed);
        [pair as u32, (pair >> 32) as u32]
    }
}

/// Tells of the trees of a range of vertices, when all hooks are over.
pub(crate) fn tell(told: &Told<'_>, parents: &[AtomicU32], range: Range<u32>, hub: u32) {
    let hub_root = told.has_hub().then(|| look_for_root(parents, hub));
    for vertex in range {
        let root = look_for_root(parents, vertex);
        if Some(root) == hub_root {
            told.members[told.here][vertex as usize / 32]
                .fetch_or(1 << (vertex % 32), Ordering::Relaxed);
        } else if root != vertex {
            told.add(vertex, root);
        }
    }
}

/// Tells of the hub's root.
pub(crate) fn tell_of_hub(told: &Told<'_>, parents: &[AtomicU32], hub: u32) {
    if told.has_hub() && !seeded(Fault::HubUntold) {
        told.add(hub, look_for_root(parents, hub));
    }
}

/// Vertices outside of `covered` that a pair names become trees.
pub(crate) fn plant(parents: &[AtomicU32], pair: [u32; 2], covered: &Range<u32>) {
    for vertex in pair.into_iter().filter(|vertex| !covered.contains(vertex)) {
        parents[vertex as usize].store(vertex, Ordering::Relaxed);
    }
}

/// Hooks along a pair; what others have in the hub's tree comes into it.
pub(crate) fn join(told: &Told<'_>, parents: &[AtomicU32], [vertex, root]: [u32; 2], hub: u32) {
    hook(parents, vertex, root);
    for end in [vertex, root] {
        if told.is_member(end) && !seeded(Fault::MembersApart) {
            hook(parents, end, hub);
        }
    }
}

/// Makes the root of a vertex its parent, when all hooks are over.
pub(crate) fn label(told: &Told<'_>, parents: &[AtomicU32], vertex: u32, hub: u32) {
    let from = if told.is_member(vertex) { hub } else { vertex };
    let root = look_for_root(parents, from);
    parents[vertex as usize].store(root, Ordering::Relaxed);
}
