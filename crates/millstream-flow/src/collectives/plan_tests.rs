//! Every plan against a sequential model, without devices.

use std::ops::Range;

use proptest::prelude::*;

use super::algorithm::Algorithm;
use super::plan::{Pattern, Piece, Place, Plan, duration, signals};
use super::rank_links::RankLinks;
use crate::context::{Context, Devices};
use crate::segmenter;
use millstream_device::{Topology, Transfer, TransferTable, TransferWay};

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Ring, Algorithm::Tree, Algorithm::Direct];

fn topology(ranks: usize) -> Topology {
    Topology::uniform((0..ranks).map(|rank| format!("host:{rank}")))
}

/// Runs a plan: transfers of a round read what was there before it.
fn run(plan: &Plan, sources: Option<&[Vec<u64>]>, work: &mut [Vec<u64>]) {
    let mut passing = vec![vec![0; 1000]; work.len()];
    for round in plan {
        let before = sources.map_or_else(|| work.to_vec(), <[_]>::to_vec);
        let passed = passing.clone();
        for transfer in round {
            let before = if transfer.takes == Place::Own { &before } else { &passed };
            let into = if transfer.puts == Place::Own { &mut *work } else { &mut passing[..] };
            let items = &before[transfer.from][transfer.items.clone()];
            for (to, item) in into[transfer.to][transfer.at..].iter_mut().zip(items) {
                *to = if transfer.combines { *to + item } else { *item };
            }
        }
    }
}

fn run_slices(algorithm: Algorithm, pattern: &Pattern, len: usize, work: &mut [Vec<u64>]) {
    let topology = topology(work.len());
    for number in 0.. {
        let Some(slice) = pattern.slice(number, len) else { break };
        let plan = algorithm.plan(&topology, &slice);
        assert!(plan.iter().flatten().all(|transfer| transfer.items.len() <= len));
        run(&plan, None, work);
    }
}

/// Item `at` of a rank.
fn item(rank: usize, at: usize) -> u64 {
    (at as u64 * 31 + 7) << (4 * rank)
}

fn inputs(ranks: usize, len: usize) -> Vec<Vec<u64>> {
    (0..ranks).map(|rank| (0..len).map(|at| item(rank, at)).collect()).collect()
}

fn parts(len: usize, ranks: usize) -> Vec<Range<usize>> {
    segmenter::parts(len, ranks).collect()
}

proptest! {
    #[test]
    fn plans_do_what_they_are_for(
        ranks in 1usize..9,
        len in 0usize..40,
        root in 0usize..8,
        slice in 1usize..12,
    ) {
        let root = root % ranks;
        let sum: Vec<u64> = (0..len).map(|at| (0..ranks).map(|rank| item(rank, at)).sum()).collect();
        for algorithm in ALGORITHMS {
            let mut work = inputs(ranks, len);
            run_slices(algorithm, &Pattern::Broadcast { root, items: 0..len }, slice, &mut work);
            prop_assert!(work.iter().all(|work| *work == inputs(ranks, len)[root]));

            let mut work = inputs(ranks, len);
            run_slices(algorithm, &Pattern::Reduce { root, items: 0..len }, slice, &mut work);
            prop_assert_eq!(&work[root], &sum);

            let parts = parts(len, ranks);
            let mut work = inputs(ranks, len);
            let pattern = Pattern::AllReduce { items: 0..len };
            run_slices(algorithm, &pattern, slice, &mut work);
            prop_assert!(work.iter().all(|work| *work == sum));

            let mut work = inputs(ranks, len);
            let pattern = Pattern::ReduceScatter { parts: parts.clone() };
            run_slices(algorithm, &pattern, slice, &mut work);
            for (rank, part) in parts.iter().enumerate() {
                prop_assert_eq!(&work[rank][part.clone()], &sum[part.clone()]);
            }

            let mut work = inputs(ranks, len);
            run_slices(algorithm, &Pattern::AllGather { parts: parts.clone() }, slice, &mut work);
            for (rank, part) in parts.iter().enumerate() {
                let expected: Vec<u64> = part.clone().map(|at| item(rank, at)).collect();
                prop_assert!(work.iter().all(|work| work[part.clone()] == expected));
            }
        }
    }
}

#[test]
fn pieces_go_to_their_owners() {
    // From 1 to 3 items.
    let len = |from: usize, to: usize| 1 + (from + 2 * to) % 3;
    for ranks in 1..10 {
        let piece =
            |from: usize, to: usize| Piece { items: 3 * to..3 * to + len(from, to), at: 3 * from };
        let row = |from| (0..ranks).map(|to| piece(from, to)).collect();
        let pattern = Pattern::AllToAll { pieces: (0..ranks).map(row).collect() };
        for (algorithm, slice) in ALGORITHMS.into_iter().flat_map(|a| [1, 2, 3].map(|s| (a, s))) {
            let sources = inputs(ranks, 3 * ranks);
            let mut work = sources.clone();
            for number in 0.. {
                let Some(slice) = pattern.slice(number, slice) else { break };
                let plan = algorithm.plan(&topology(ranks), &slice);
                run(&plan, Some(&sources), &mut work);
            }
            for (from, to) in (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))) {
                if from == to {
                    continue;
                }
                for at in 0..len(from, to) {
                    let found = work[to][3 * from + at];
                    assert_eq!(found, item(from, 3 * to + at), "{algorithm:?}: {from} to {to}");
                }
            }
        }
    }
}

#[test]
fn trees_have_few_rounds() {
    for (ranks, rounds) in [(1, 0), (2, 1), (3, 2), (5, 3), (8, 3)] {
        let pieces = vec![vec![Piece { items: 0..1, at: 0 }; ranks]; ranks];
        let plan = Algorithm::Tree.plan(&topology(ranks), &Pattern::AllToAll { pieces });
        assert_eq!(plan.len(), rounds, "{ranks}");
    }
}

/// A barrier's plan: in the end everyone has heard of everyone.
#[test]
fn signals_reach_everyone() {
    for (ranks, algorithm) in (1..10).flat_map(|ranks| ALGORITHMS.map(|a| (ranks, a))) {
        let mut heard: Vec<u32> = (0..ranks).map(|rank| 1 << rank).collect();
        for round in algorithm.plan(&topology(ranks), &signals(ranks)) {
            let before = heard.clone();
            round.iter().for_each(|transfer| heard[transfer.to] |= before[transfer.from]);
        }
        assert_eq!(heard, vec![(1 << ranks) - 1; ranks], "{algorithm:?}");
    }
}

/// The fastest algorithm for eight ranks whose copies take 10 us plus 10 us a MiB, and whose
/// pushes, if any, take the two times of `push`.
fn fastest(push: Option<(f64, f64)>, pattern: &Pattern, packet: usize) -> Algorithm {
    let copy = (TransferWay::Copy, (10.0, 10.0));
    let ways = [copy].into_iter().chain(push.map(|times| (TransferWay::Push, times)));
    let transfers = ways.flat_map(|(way, (least_us, mib_us))| {
        [0, 1 << 30].map(|bytes: usize| {
            let (from, to) = ("host".to_string(), "host".to_string());
            let time_us = least_us + mib_us * (bytes >> 20) as f64;
            Transfer { from, to, way, bytes, time_us, latency_us: time_us }
        })
    });
    let shape = topology(8).with_transfer_table(TransferTable::new(transfers));
    let context = Context::builder().devices(Devices::host(8)).topology(shape).build().unwrap();
    Algorithm::fastest(context.topology(), &RankLinks::new(&context), pattern, 1, packet)
}

/// Short vectors take few rounds, long ones spread over the links.
#[test]
fn the_table_decides() {
    let broadcast = |len| Pattern::Broadcast { root: 0, items: 0..len };
    assert_eq!(fastest(None, &broadcast(1), 1), Algorithm::Tree);
    // Along a chain, in many packets, the root sends each packet only once.
    assert_eq!(fastest(None, &broadcast(1 << 30), 1 << 22), Algorithm::Ring);
    let all_reduce = |len| Pattern::AllReduce { items: 0..len };
    assert_eq!(fastest(None, &all_reduce(8), 8), Algorithm::Tree);
    assert_ne!(fastest(None, &all_reduce(1 << 30), 1 << 30), Algorithm::Tree);
}

/// Where packets are pushed, the times of copies do not count: pushes need no small number of rounds.
#[test]
fn the_way_that_is_taken_decides() {
    let all_reduce = Pattern::AllReduce { items: 0..1 << 20 };
    assert_eq!(fastest(None, &all_reduce, 1 << 20), Algorithm::Tree);
    assert_eq!(fastest(Some((0.1, 9.0)), &all_reduce, 1 << 20), Algorithm::Direct);
    // A push that is never taken.
    assert_eq!(fastest(Some((11.0, 50.0)), &all_reduce, 1 << 20), Algorithm::Tree);
}

#[test]
fn a_round_lasts_as_long_as_its_busiest_rank() {
    let pattern = Pattern::Broadcast { root: 0, items: 0..10 };
    let time = |_: usize, _: usize, items: usize| items as f64;
    for (algorithm, expected) in
        [(Algorithm::Direct, 30.0), (Algorithm::Tree, 20.0), (Algorithm::Ring, 30.0)]
    {
        let plan = algorithm.plan(&topology(4), &pattern);
        assert_eq!(duration(&plan, 1, time), expected, "{algorithm:?}");
    }
    let chain = Algorithm::Ring.plan(&topology(4), &pattern);
    assert_eq!(duration(&chain, 5, time), 30.0 + 4.0 * 10.0);
}
