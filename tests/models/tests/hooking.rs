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
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use hooking::{find_root, hook};
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
