//! All-reduces and reduce-scatters round a ring, which begins at vectors of any length here.

use std::fmt::Debug;

use millstream::flow::{Collectives, Communicator, CommunicatorOptions, Context, Item, Operator};

use super::vectors::{Combined, Vectors, remainders, runs};
use super::{context, scaled};
use crate::collective_model::{Case, download, upload};

/// With next to no lines.
fn communicator(context: &Context, blocks: usize) -> Communicator {
    let mut options = CommunicatorOptions::default();
    (options.blocks, options.line_bytes, options.ring_bytes) = (blocks, 0, Some(0));
    Communicator::with_options(context, options).unwrap()
}

fn in_bytes() -> Combined<u8> {
    remainders(("unsigned char", "251"), |one, other| {
        ((u32::from(one) + u32::from(other)) % 251) as u8
    })
}

fn in_words() -> Combined<u32> {
    remainders(("unsigned", "2147483647u"), |one, other| (one + other) % 0x7fff_ffff)
}

fn every_operation<T: Item + PartialEq + Debug>(
    communicator: &mut Communicator,
    context: &Context,
    len: usize,
    (operator, combine): Combined<T>,
    item: impl Fn(usize) -> T,
) {
    let ranks = context.devices().len();
    let of_rank = |rank| (0..len).map(|at| item(at * 7 + rank * 13)).collect();
    let inputs = (0..ranks).map(of_rank).collect();
    let case = Case { context, inputs, empty: item(1), operator, combine, root: len % ranks };
    context.block_on(case.all(communicator)).unwrap().unwrap();
}

fn every_type(context: &Context, communicator: &mut Communicator, items: usize) {
    let sum = (Operator::sum(), u32::wrapping_add as fn(u32, u32) -> u32);
    every_operation(communicator, context, items, sum, |seed| seed as u32);
    let least = (Operator::min(), std::cmp::min as fn(u64, u64) -> u64);
    every_operation(communicator, context, items / 2, least, |seed| seed as u64 * 77 % 101);
    every_operation(communicator, context, 4 * items, in_bytes(), |seed| (seed % 251) as u8);
}

/// Every operation. Parts of less than 16 bytes, and none; of one tile, and of three for two
/// channels; of five tiles for each of two channels. Those that do not begin at multiples of 16
/// bytes go in one pass.
#[test]
fn round_a_ring() {
    let context = context();
    let ranks = context.devices().len();
    for blocks in [2, 128] {
        let mut communicator = communicator(&context, blocks);
        for items in [1, ranks - 1, 4, 4 * ranks, 12 * ranks, 12 * ranks + 1] {
            every_type(&context, &mut communicator, items);
        }
    }
    every_type(&context, &mut communicator(&context, 1), 5 * 4096 * ranks);
    context.device_set().quiesce().unwrap();
}

/// One of ten operations.
fn turn<T: Item + PartialEq + Debug>(
    vectors: &mut Vectors<T>,
    by: &mut Collectives<'_>,
    draw: usize,
) {
    let (in_place, root) = (draw.is_multiple_of(2), draw / 3 % by.streams().len());
    match draw % 5 {
        0 => vectors.all_reduce(by, in_place),
        1 => vectors.reduce_scatter(by, in_place),
        2 => vectors.all_gather(by, in_place),
        3 => vectors.reduce(by, root, in_place),
        _ => vectors.broadcast(by, root, in_place),
    }
}

/// `MILLSTREAM_RUNS` (300 unless set, 24 where GPUs are emulated) operations without a pause, through
/// four channels and through more: round rings, along chains and in passes in turns, of one length
/// after the other. Between them are all-gathers of parts of all lengths, of none too.
#[test]
fn rings_between_chains_and_passes() {
    let (runs, context) = (runs(), context());
    let ranks = context.devices().len();
    let item = |seed: usize| (seed as u32).wrapping_mul(0x9e37_79b1) % 0x7fff_ffff;
    let parts = [4, 12, 1000, 8192, scaled(200_000, 40_000)];
    let aligned = parts.map(|part| Vectors::new(&context, part * ranks, in_words(), item));
    let other = Vectors::new(&context, 30_001, in_words(), item);
    let mut numbers: Vec<_> = aligned.into_iter().chain([other]).collect();
    let byte = |seed: usize| (seed % 251) as u8;
    let mut bytes = Vectors::new(&context, 20_000 * ranks, in_bytes(), byte);
    let uneven = |rank: usize| vec![item(rank + 1); [0, 4, 16_384, 40, 9004][rank * 3 % 5]];
    let uneven: Vec<_> = (0..ranks).map(uneven).collect();
    let inputs = upload(&context, &uneven).unwrap();
    let mut gathered = upload(&context, &vec![uneven.concat(); ranks]).unwrap();
    for (blocks, first) in [(2, 0), (scaled(128, 8), runs)] {
        let mut communicator = communicator(&context, blocks);
        let run = async {
            let mut collectives = communicator.begin().await?;
            for run in first..first + runs {
                // So that each length has all operations.
                let (place, draw) = (run % numbers.len(), run + run / numbers.len());
                turn(&mut numbers[place], &mut collectives, draw);
                match run % 3 {
                    0 => turn(&mut bytes, &mut collectives, run / 3),
                    1 => collectives.all_gather((&inputs, &mut gathered))?,
                    _ => {}
                }
            }
            collectives.completed().await?;
            for numbers in &numbers {
                numbers.check().await;
            }
            bytes.check().await;
            assert_eq!(download(&gathered).await?, vec![uneven.concat(); ranks]);
            Ok::<(), millstream::flow::Error>(())
        };
        context.block_on(run).unwrap().unwrap();
    }
}
