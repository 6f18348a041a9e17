//! Trees of vertices that any number of threads hook together: see `README.md`.
//! The twin of `find_root` and `hook` in `cc.cuh`.

use crate::sync::{AtomicU32, Fault, Ordering, seeded};

/// The root of a vertex's tree. Halves the path on its way.
pub(crate) fn find_root(parents: &[AtomicU32], mut vertex: u32) -> u32 {
    // Relaxed: parents say nothing of other memory.
    let parent_of = |vertex: u32| parents[vertex as usize].load(Ordering::Relaxed);
    loop {
        let parent = parent_of(vertex);
        let grandparent = parent_of(parent);
        if parent == grandparent {
            return parent;
        }
        parents[vertex as usize].store(grandparent, Ordering::Relaxed);
        vertex = grandparent;
    }
}

/// Makes the trees of two vertices one.
pub(crate) fn hook(parents: &[AtomicU32], mut from: u32, mut to: u32) {
    loop {
        (from, to) = (find_root(parents, from), find_root(parents, to));
        if from == to {
            return;
        }
        let (larger, smaller) = (from.max(to), from.min(to));
        let root = &parents[larger as usize];
        if seeded(Fault::HookByStore) {
            return root.store(smaller, Ordering::Relaxed);
        }
        // Relaxed: as above. Whoever fails has seen that it is no root any more.
        let order = Ordering::Relaxed;
        if root.compare_exchange(larger, smaller, order, order).is_ok() {
            return;
        }
    }
}
