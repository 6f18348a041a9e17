//! Trees of vertices hooked together by several threads: the production file under
//! every interleaving.

#![allow(clippy::unwrap_used)]

#[path = "../../../crates/millstream-cc/src/hooking.rs"]
mod hooking;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

    /// The faults of the production file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        HookByStore,
        CompressByHalving,
        SkipAnyTree,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use hooking::{are_together, compress, find_root, hook};
use loom::sync::Arc;
use loom::thread;
use millstream_models::{fails_with, holds};
use sync::{AtomicU32, Fault};

/// Two threads hook along edges of their own; then every vertex has the root that
/// is expected.
fn hooked(
    one: &'static [(u32, u32)],
    other: &'static [(u32, u32)],
    roots: &'static [u32],
) -> impl Fn() + Sync + Send + 'static {
    move || {
        let parents: Vec<_> = (0..roots.len() as u32).map(AtomicU32::new).collect();
        let parents = Arc::new(parents);
        let beside = {
            let parents = Arc::clone(&parents);
            thread::spawn(move || other.iter().for_each(|&(from, to)| hook(&parents, from, to)))
        };
        one.iter().for_each(|&(from, to)| hook(&parents, from, to));
        beside.join().unwrap();
        for (vertex, &root) in roots.iter().enumerate() {
            assert_eq!(find_root(&parents, vertex as u32), root, "vertex {vertex}");
        }
    }
}

#[test]
fn two_hooks_of_one_root_both_count() {
    holds(hooked(&[(2, 0)], &[(2, 1)], &[0, 0, 0]));
}

#[test]
fn paths_are_halved_while_their_roots_are_hooked() {
    holds(hooked(&[(3, 2), (2, 1), (3, 1)], &[(1, 0), (3, 0)], &[0, 0, 0, 0]));
}

#[test]
fn trees_apart_stay_apart() {
    holds(hooked(&[(4, 2), (3, 1)], &[(2, 0), (4, 0)], &[0, 1, 0, 1, 0]));
}

#[test]
fn hooking_without_a_look_loses_a_tree() {
    fails_with(Fault::HookByStore as usize, hooked(&[(2, 0)], &[(2, 1)], &[0, 0, 0]));
}

/// Two threads compress vertices of the chain 5, 4, 3, 2, 1, 0, one of which lies on
/// the other's way; then their parents are the root.
fn compressed() {
    let parents: Vec<_> = [0, 0, 1, 2, 3, 4].into_iter().map(AtomicU32::new).collect();
    let parents = Arc::new(parents);
    let beside = {
        let parents = Arc::clone(&parents);
        thread::spawn(move || compress(&parents, 3))
    };
    compress(&parents, 5);
    beside.join().unwrap();
    for vertex in [3, 5] {
        assert_eq!(parents[vertex].load(sync::Ordering::Relaxed), 0, "vertex {vertex}");
    }
}

#[test]
fn compression_leaves_roots_alone() {
    holds(compressed);
}

#[test]
fn halving_beside_compression_leaves_ancestors() {
    fails_with(Fault::CompressByHalving as usize, compressed);
}

/// Edges 1-2, 2-3 and 0-3, with reverses. A sample has joined 1 (the hub) with 2 and
/// 0 with 3; now two threads go through the rows of 0 and 2, and of 1 and 3, but pass
/// over those in the hub's tree.
fn outside_of_the_hubs_tree() {
    let parents: Vec<_> = [0, 1, 1, 0].into_iter().map(AtomicU32::new).collect();
    let parents = Arc::new(parents);
    let visit = |parents: &[AtomicU32], vertex: u32, targets: &[u32]| {
        if !are_together(parents, vertex, 1) {
            targets.iter().for_each(|&target| hook(parents, vertex, target));
        }
    };
    let beside = {
        let parents = Arc::clone(&parents);
        thread::spawn(move || {
            visit(&parents, 1, &[2]);
            visit(&parents, 3, &[0, 2]);
        })
    };
    visit(&parents, 0, &[3]);
    visit(&parents, 2, &[1, 3]);
    beside.join().unwrap();
    for vertex in 0..4 {
        assert_eq!(find_root(&parents, vertex), 0, "vertex {vertex}");
    }
}

#[test]
fn vertices_in_the_hubs_tree_meet_others_on_their_side() {
    holds(outside_of_the_hubs_tree);
}

#[test]
fn passing_over_another_tree_loses_edges() {
    fails_with(Fault::SkipAnyTree as usize, outside_of_the_hubs_tree);
}
