//! Every plan against a sequential model, without devices.

use std::ops::Range;

use proptest::prelude::*;

use super::algorithm::Algorithm;
use super::plan::{Pattern, Piece, Plan, duration};
use crate::segmenter;
use millstream_device::{Topology, Transfer, TransferTable, TransferWay};

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Ring, Algorithm::Tree, Algorithm::Direct];

fn topology(ranks: usize) -> Topology {
    Topology::uniform((0..ranks).map(|rank| format!("host:{rank}")))
}

/// Runs a plan: transfers of a round read what was there before it.
fn run(plan: &Plan, sources: Option<&[Vec<u64>]>, work: &mut [Vec<u64>]) {
    for round in plan {
        let before = sources.map_or_else(|| work.to_vec(), <[_]>::to_vec);
        for transfer in round {
            let items = &before[transfer.from][transfer.items.clone()];
            for (to, item) in work[transfer.to][transfer.at..].iter_mut().zip(items) {
                *to = if transfer.combines { *to + item } else { *item };
            }
        }
    }
}

fn run_slices(algorithm: Algorithm, pattern: &Pattern, len: usize, work: &mut [Vec<u64>]) {
    let topology = topology(work.len());
    for number in 0.. {
        let Some(slice) = pattern.slice(number, len) else { break };
        let plan = algorithm.plan(&topology, &slice).unwrap();
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
    for ranks in 1..6 {
        let piece = |from: usize, to: usize| Piece { items: 2 * to..2 * to + 2, at: 2 * from };
        let row = |from| (0..ranks).map(|to| piece(from, to)).collect();
        let pattern = Pattern::AllToAll { pieces: (0..ranks).map(row).collect() };
        for algorithm in [Algorithm::Ring, Algorithm::Direct] {
            let plan = algorithm.plan(&topology(ranks), &pattern).unwrap();
            let sources = inputs(ranks, 2 * ranks);
            let mut work = sources.clone();
            run(&plan, Some(&sources), &mut work);
            for (to, work) in work.iter().enumerate() {
                for from in 0..ranks {
                    let expected = [item(from, 2 * to), item(from, 2 * to + 1)];
                    assert_eq!(work[2 * from..2 * from + 2], expected, "{from} to {to}");
                }
            }
        }
        assert!(Algorithm::Tree.plan(&topology(ranks), &pattern).is_none());
    }
}

/// Short vectors take few rounds, long ones spread over the links.
#[test]
fn the_table_decides() {
    let ranks = 8;
    let mut transfers = Vec::new();
    for from in 0..ranks {
        for to in (0..ranks).filter(|to| *to != from) {
            for (bytes, time_us) in [(0, 10.0), (1 << 30, 10_000.0)] {
                let (from, to) = (format!("cuda:{from}"), format!("cuda:{to}"));
                let way = TransferWay::Copy;
                transfers.push(Transfer { from, to, way, bytes, time_us, latency_us: time_us });
            }
        }
    }
    let names = (0..ranks).map(|rank| format!("cuda:{rank}"));
    let topology = Topology::uniform(names).with_transfer_table(TransferTable::new(transfers));
    let broadcast = |len| Pattern::Broadcast { root: 0, items: 0..len };
    let fastest = |pattern: &Pattern, packet| Algorithm::fastest(&topology, pattern, 1, packet);
    assert_eq!(fastest(&broadcast(1), 1), Algorithm::Tree);
    // In many packets along a chain, the root sends each only once.
    assert_eq!(fastest(&broadcast(1 << 30), 1 << 22), Algorithm::Ring);
    let all_reduce = |len| Pattern::AllReduce { items: 0..len };
    assert_eq!(fastest(&all_reduce(8), 8), Algorithm::Tree);
    assert_ne!(fastest(&all_reduce(1 << 30), 1 << 30), Algorithm::Tree);
}

#[test]
fn a_round_lasts_as_long_as_its_busiest_rank() {
    let pattern = Pattern::Broadcast { root: 0, items: 0..10 };
    let time = |_: usize, _: usize, items: usize| items as f64;
    for (algorithm, expected) in
        [(Algorithm::Direct, 30.0), (Algorithm::Tree, 20.0), (Algorithm::Ring, 30.0)]
    {
        let plan = algorithm.plan(&topology(4), &pattern).unwrap();
        assert_eq!(duration(&plan, 1, time), expected, "{algorithm:?}");
    }
    let chain = Algorithm::Ring.plan(&topology(4), &pattern).unwrap();
    assert_eq!(duration(&chain, 5, time), 30.0 + 4.0 * 10.0);
}
