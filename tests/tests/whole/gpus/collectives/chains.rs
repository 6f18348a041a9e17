//! Reductions and broadcasts whose root changes from one to the next.

use std::fmt::Debug;

use millstream::flow::{Collectives, Communicator, CommunicatorOptions, Item};

use super::vectors::{Vectors, bytes, numbers, runs, words};
use super::{context, scaled};
use crate::collective_model::upload;

/// Some of both, one after the other.
fn broadcast_and_reduce<T: Item + PartialEq + Debug>(
    vectors: &mut Vectors<T>,
    by: &mut Collectives<'_>,
    draw: usize,
) {
    let ranks = by.streams().len();
    let (one, other) = (draw % ranks, (draw + draw / ranks + 1) % ranks);
    vectors.reduce(by, one, true);
    vectors.broadcast(by, one, false);
    if !draw.is_multiple_of(3) {
        vectors.reduce(by, other, false);
        vectors.broadcast(by, if draw.is_multiple_of(2) { one } else { other }, true);
    }
}

/// `MILLSTREAM_RUNS` (300 unless set, 24 where GPUs are emulated) times: reductions to one
/// root after the other, of items that do and do not fill 16 bytes, with other collectives in
/// between and no pause. Few blocks, each of which has several tiles.
#[test]
fn reductions_to_changing_roots() {
    let runs = runs();
    let context = context();
    let ranks = context.devices().len();
    let mut short = Vectors::new(&context, 100, numbers(), |seed| seed as u32);
    let mut long = Vectors::new(&context, scaled(1_000_003, 40_003), numbers(), |seed| seed as u32);
    let mut bytes = Vectors::new(&context, 50_001, bytes(), |seed| [seed as u8, 1, 2]);
    let mut words = Vectors::new(&context, 1003, words(), |seed| [seed as u64; 9]);
    // Only in the way.
    let mut moved = upload(&context, &vec![vec![1u32; 3000]; ranks]).unwrap();
    for blocks in [2, 128] {
        let mut options = CommunicatorOptions::default();
        (options.blocks, options.line_bytes) = (blocks, 1 << 10);
        let mut communicator = Communicator::with_options(&context, options).unwrap();
        let run = async {
            let mut collectives = communicator.begin().await?;
            for run in 0..runs {
                let (root, in_place) = ((run + run / 7) % ranks, run % 5 < 3);
                match run % 6 {
                    0 | 3 => short.reduce(&mut collectives, root, in_place),
                    1 | 4 => long.reduce(&mut collectives, root, in_place),
                    2 => bytes.reduce(&mut collectives, root, in_place),
                    _ => words.reduce(&mut collectives, root, in_place),
                }
                if run % 4 == 1 {
                    collectives.broadcast(root, &mut moved)?;
                }
            }
            collectives.completed().await
        };
        context.block_on(run).unwrap().unwrap();
        let checked = async {
            short.check().await;
            long.check().await;
            bytes.check().await;
            words.check().await;
        };
        context.block_on(checked).unwrap();
    }
}

/// A sixth as often: broadcasts and reductions in turns, each from or to another root, of lengths
/// around those that take one more tile or channel. Four channels, two of them for short vectors.
#[test]
fn broadcasts_between_reductions() {
    let context = context();
    let item = |seed: usize| (seed as u32).wrapping_mul(0x9e37_79b1);
    let lens = [1, 4095, 8192, 8193, 12_288, 12_289, 16_384, 16_385, 40_003];
    let mut numbers = lens.map(|len| Vectors::new(&context, len, numbers(), item));
    let mut bytes = Vectors::new(&context, 21_847, bytes(), |seed| [seed as u8, 1, 2]);
    let mut words = Vectors::new(&context, 1003, words(), |seed| [seed as u64; 9]);
    let mut options = CommunicatorOptions::default();
    (options.blocks, options.line_bytes) = (2, 0);
    let mut communicator = Communicator::with_options(&context, options).unwrap();
    let run = async {
        for run in 0..runs().div_ceil(6) {
            let mut collectives = communicator.begin().await?;
            for (place, numbers) in numbers.iter_mut().enumerate() {
                broadcast_and_reduce(numbers, &mut collectives, 7 * run + place);
                match (run + place) % 3 {
                    0 => broadcast_and_reduce(&mut bytes, &mut collectives, run + place),
                    1 => broadcast_and_reduce(&mut words, &mut collectives, run + place),
                    _ => {}
                }
            }
            collectives.completed().await?;
            for numbers in &numbers {
                numbers.check().await;
            }
            bytes.check().await;
            words.check().await;
        }
        Ok::<(), millstream::flow::Error>(())
    };
    context.block_on(run).unwrap().unwrap();
}
