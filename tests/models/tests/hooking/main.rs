//! Trees of vertices hooked together by several threads, in one forest: the production files under
//! every interleaving. And merged by several GPUs, as `merge.cuh` does.

#![allow(clippy::unwrap_used)]

#[path = "../../../../crates/millstream-cc/src/hooking.rs"]
mod hooking;
#[path = "../../../../crates/millstream-cc/src/members.rs"]
mod members;
mod merging;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    /// The faults of the production files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        HookByStore,
        LookByHalving,
        SkipAnyTree,
        MembersAlone,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use hooking::{are_together, find_root, hook, look_for_root};
use loom::sync::Arc;
use loom::thread;
use members::{Members, label};
use merging::{Told, hook_and_tell, join, plant, tell};
use millstream_models::{fails_with, holds};
use sync::{AtomicU32, AtomicU64, Fault, Ordering};

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

/// Two threads label vertices of the chain 5, 4, 3, 2, 1, 0, one of which lies on the
/// other's way; then their parents are the root.
fn labelled() {
    let parents: Vec<_> = [0, 0, 1, 2, 3, 4].into_iter().map(AtomicU32::new).collect();
    let parents = Arc::new(parents);
    let name = |parents: &[AtomicU32], vertex: u32| {
        label(&Members(&[]), parents, vertex, 0);
    };
    let beside = {
        let parents = Arc::clone(&parents);
        thread::spawn(move || name(&parents, 3))
    };
    name(&parents, 5);
    beside.join().unwrap();
    for vertex in [3, 5] {
        assert_eq!(parents[vertex].load(Ordering::Relaxed), 0, "vertex {vertex}");
    }
}

#[test]
fn labels_are_roots() {
    holds(labelled);
}

#[test]
fn halving_beside_labelling_leaves_ancestors() {
    fails_with(Fault::LookByHalving as usize, labelled);
}

/// Two devices, the first with the rows of 0 to 2, the other with those of 3 to 6. Edges
/// 1-4 and 1-5 make 1, 4 and 5 members of the hub 1's tree, with which each device has
/// hooked 1 itself. The first hooks 2 with 3 and the other 0 with 3, and 6 with the
/// hub. Both tell of that, as they hook or of all vertices afterwards; two threads of each
/// device join what they tell.
fn merged(tells_of_hooks: bool) -> impl Fn() + Sync + Send + 'static {
    const HUB: u32 = 1;
    move || {
        let devices = [0, 1].map(|_| Arc::new([0, 1, 2, 3, 4, 5, 6].map(AtomicU32::new)));
        let words = [AtomicU32::new(0)];
        let members = Members(&words);
        for vertex in [1, 4, 5] {
            members.add(vertex);
        }
        let lists = Arc::new([0, 1].map(|_| [0; 9].map(AtomicU64::new)));
        let told = |here| Told { pairs: lists.iter().map(|list| &list[..]).collect(), here };
        let edges = [&[(2, 3)][..], &[(0, 3), (6, HUB)]];
        for ((here, parents), edges) in devices.iter().enumerate().zip(edges) {
            hook(&parents[..], members.smallest().unwrap(), HUB);
            for &(from, to) in edges {
                match tells_of_hooks {
                    true => hook_and_tell(&told(here), &parents[..], from, to),
                    false => hook(&parents[..], from, to),
                }
            }
            if !tells_of_hooks {
                tell(&told(here), &parents[..], 0..7);
            }
        }
        // As if the first device did not cover 6.
        assert_eq!(told(0).pair(1, 1), [6, HUB]);
        plant(&devices[0][..], told(0).pair(1, 1), &(0..6));
        assert_eq!(look_for_root(&devices[0][..], 6), 6);
        let own = [0..3, 3..7];
        for (parents, own) in devices.iter().zip(own) {
            let beside = {
                let (lists, parents) = (Arc::clone(&lists), Arc::clone(parents));
                thread::spawn(move || join_list(&lists, &parents[..], 0))
            };
            join_list(&lists, &parents[..], 1);
            beside.join().unwrap();
            for vertex in own {
                label(&members, &parents[..], vertex, HUB);
                let expected = [0, 1, 0, 0, 1, 1, 1][vertex as usize];
                assert_eq!(parents[vertex as usize].load(Ordering::Relaxed), expected, "{vertex}");
            }
        }
    }
}

fn join_list(lists: &[[AtomicU64; 9]; 2], parents: &[AtomicU32], device: usize) {
    let told = Told { pairs: lists.iter().map(|list| &list[..]).collect(), here: 0 };
    for at in 0..told.count_of(device) {
        join(parents, told.pair(device, at));
    }
}

#[test]
fn devices_label_alike() {
    holds(merged(false));
}

#[test]
fn devices_that_tell_as_they_hook_label_alike() {
    holds(merged(true));
}

#[test]
fn members_without_their_hub_have_labels_of_their_own() {
    fails_with(Fault::MembersAlone as usize, merged(false));
    fails_with(Fault::MembersAlone as usize, in_one_forest);
}

/// Two host devices: 1, 4 and 5 are members of the hub 4's tree. Its owner hooks it with the smallest,
/// and the other one 3 with it, whose arc leads to a member; then both label.
fn in_one_forest() {
    const HUB: u32 = 4;
    let parents = Arc::new([0, 1, 2, 3, 4, 5].map(AtomicU32::new));
    let words = Arc::new([AtomicU32::new(0)]);
    [1, 4, 5].into_iter().for_each(|vertex| Members(&words[..]).add(vertex));
    let beside = {
        let parents = Arc::clone(&parents);
        thread::spawn(move || hook(&parents[..], 3, HUB))
    };
    hook(&parents[..], Members(&words[..]).smallest().unwrap(), HUB);
    beside.join().unwrap();
    let name = |words: &[AtomicU32], parents: &[AtomicU32], vertices: [u32; 3]| {
        vertices.into_iter().for_each(|vertex| label(&Members(words), parents, vertex, HUB));
    };
    let beside = {
        let (words, parents) = (Arc::clone(&words), Arc::clone(&parents));
        thread::spawn(move || name(&words[..], &parents[..], [3, 4, 5]))
    };
    name(&words[..], &parents[..], [0, 1, 2]);
    beside.join().unwrap();
    let labels = parents.each_ref().map(|parent| parent.load(Ordering::Relaxed));
    assert_eq!(labels, [0, 1, 2, 1, 1, 1]);
}

#[test]
fn host_devices_label_in_one_forest() {
    holds(in_one_forest);
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
