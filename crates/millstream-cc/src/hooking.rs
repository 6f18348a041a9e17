//! Trees of vertices that any number of threads hook together: see `README.md`.
//! The twin of `hooking.cuh`.

use crate::sync::{AtomicU32, Fault, Ordering, seeded};

/// The root of a vertex's tree. Halves the path as it goes.
pub(crate) fn find_root(parents: &[AtomicU32], mut vertex: u32) -> u32 {
    // Relaxed: parents publish no other memory.
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
pub(crate) fn hook(parents: &[AtomicU32], from: u32, to: u32) {
    hook_telling(parents, from, to, |_, _| ());
}

/// As [`hook`]; calls `tell(root, parent)` if this hooks a root.
pub(crate) fn hook_telling(
    parents: &[AtomicU32],
    mut from: u32,
    mut to: u32,
    tell: impl FnOnce(u32, u32),
) {
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
        // Relaxed: as above. On failure, goes on from the parent that the other thread has set.
        let order = Ordering::Relaxed;
        match root.compare_exchange(larger, smaller, order, order) {
            Ok(_) => return tell(larger, smaller),
            Err(parent) => (from, to) = (parent, smaller),
        }
    }
}

/// `true` only if two vertices are certainly in one tree; `false` if they are not yet, or if
/// their root was hooked meanwhile.
pub(crate) fn are_together(parents: &[AtomicU32], one: u32, other: u32) -> bool {
    if seeded(Fault::SkipAnyTree) {
        return find_root(parents, one) != one;
    }
    find_root(parents, one) == find_root(parents, other)
}

/// The root of a vertex's tree, while no thread hooks. Only reads: halving a path during
/// labelling could overwrite a root that another thread has just written with an ancestor
/// that is not a root.
pub(crate) fn look_for_root(parents: &[AtomicU32], mut vertex: u32) -> u32 {
    if seeded(Fault::LookByHalving) {
        return find_root(parents, vertex);
    }
    loop {
        // Relaxed: as above; both the old and the new parent of a vertex lead to
        // its root.
        let parent = parents[vertex as usize].load(Ordering::Relaxed);
        if parent == vertex {
            return vertex;
        }
        vertex = parent;
    }
}
