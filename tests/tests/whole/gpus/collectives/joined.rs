//! Short collectives of one kernel: some go on block by block, some find what other blocks have left.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use millstream::flow::{Collectives, Communicator, CommunicatorOptions, Gang, Item, Operator};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::vectors::{Vectors, remainders, runs};
use super::{Needs, context, scaled, skip};
use crate::collective_model::upload;

/// Collectives that become one kernel each time, of these vectors.
fn some_of_a_kind<T: Item + PartialEq + Debug>(
    all: &mut [Vectors<T>],
    by: &mut Collectives<'_>,
    draw: &mut impl FnMut(usize) -> usize,
) {
    let (ranks, reduces) = (by.streams().len(), draw(2) == 0);
    for _ in 0..8 {
        // Most often the last, so that some go on.
        let one = draw(all.len() * 2).min(all.len() - 1);
        let (vectors, in_place, root) = (&mut all[one], draw(3) > 0, draw(ranks));
        match (reduces, draw(3)) {
            (true, 0) => vectors.reduce(by, root, in_place),
            (true, 1) => vectors.all_reduce(by, in_place),
            (true, _) => vectors.reduce_scatter(by, in_place),
            (false, 0) => vectors.all_gather(by, in_place),
            (false, _) => vectors.broadcast(by, root, in_place),
        }
        if draw(5) == 0 {
            // The same again.
            match reduces {
                true => vectors.all_reduce(by, in_place),
                false => vectors.broadcast(by, root, in_place),
            }
        }
    }
}

/// `MILLSTREAM_RUNS` (300 unless set, 24 where GPUs are emulated) times some, without a pause: with as
/// many blocks as there may be, and with few, each of which has several groups of units.
#[test]
fn blocks_that_meet_and_blocks_that_go_on() {
    let context = context();
    for blocks in [128, 3, 1] {
        let combined =
            || remainders(("unsigned int", "65521u"), |one: u32, other| (one + other) % 65521);
        let of = |len| Vectors::new(&context, len, combined(), |seed| seed as u32 % 65521);
        let mut all = [of(100), of(3001), of(6000), of(5999)];
        let mut options = CommunicatorOptions::default();
        options.blocks = blocks;
        let mut communicator = Communicator::with_options(&context, options).unwrap();
        let mut random = SmallRng::seed_from_u64(blocks as u64);
        let mut draw = |count: usize| random.random_range(0..count);
        let run = async {
            let mut collectives = communicator.begin().await?;
            for _ in 0..runs() {
                some_of_a_kind(&mut all, &mut collectives, &mut draw);
            }
            collectives.completed().await
        };
        context.block_on(run).unwrap().unwrap();
        let checked = async {
            for vectors in &all {
                vectors.check().await;
            }
        };
        context.block_on(checked).unwrap();
    }
}

/// Whoever has nothing for others sends a unit all the same, also where no lines are asked for: of
/// three lines here. What lies behind them is the chain's.
#[test]
fn units_of_nothing_have_lines() {
    let context = context();
    let ranks = context.devices().len();
    let mut options = CommunicatorOptions::default();
    options.line_bytes = 0;
    let mut communicator = Communicator::with_options(&context, options).unwrap();
    let mut nothing = upload(&context, &vec![vec![[0_u64; 3]; 0]; ranks]).unwrap();
    let mut vectors =
        Vectors::new(&context, 40_000, (Operator::sum(), u32::wrapping_add), |seed| seed as u32);
    let run = async {
        let mut collectives = communicator.begin().await?;
        for root in 0..3 {
            for _ in 0..3 {
                collectives.all_to_all(&mut nothing)?;
            }
            vectors.broadcast(&mut collectives, root % ranks, false);
        }
        collectives.completed().await
    };
    context.block_on(run).unwrap().unwrap();
    context.block_on(vectors.check()).unwrap();
}

/// Each kernel says that it has begun: the next one would wait for others to join it otherwise, for a
/// hundred microseconds, however early whoever awaits it wants to go on.
#[test]
fn what_is_awaited_does_not_wait_for_others_to_join() {
    let context = context();
    if context.devices().len() == 1 {
        return skip(Needs::Several, "nobody waits");
    }
    if !Gang::is_possible(&context) {
        return skip(Needs::Peers, "kernels of peers join");
    }
    let mut communicator = Communicator::new(&context).unwrap();
    let mut vectors = upload(&context, &vec![vec![1u32; 100]; context.devices().len()]).unwrap();
    let sum = Operator::sum();
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..60 {
        let start = Instant::now();
        let run = async {
            let mut collectives = communicator.begin().await?;
            collectives.all_reduce(&mut vectors, &sum)?;
            collectives.completed().await
        };
        context.block_on(run).unwrap().unwrap();
        times.push(start.elapsed());
    }
    times.sort();
    println!(
        "awaited all-reduces of 100 items: {:.1?} at least, median {:.1?}",
        times[0], times[30]
    );
    // Emulated GPUs take longer for the kernel.
    let most = scaled(Duration::from_micros(100), Duration::MAX);
    assert!(times[0] < most, "{:?}", times[0]);
}
