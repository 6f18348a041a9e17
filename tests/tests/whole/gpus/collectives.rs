//! Collectives, every operation in every way, with contents checked: one kernel on
//! each GPU where they reach each other, and in packets.

use std::time::Duration;

use millstream::flow::{Algorithm, Communicator, CommunicatorOptions, Operator};

use super::context;
use crate::collective_model::{Case, all_types, download, upload};

#[test]
fn every_collective() {
    let context = context();
    for (len, packet_bytes) in [(0, 64), (1, 64), (7, 8), (1003, 400), (100_003, 1 << 16)] {
        context.block_on(all_types(&context, len, packet_bytes)).unwrap().unwrap();
    }
    context.device_set().quiesce().unwrap();
}

/// More than all rings hold, several times around them.
#[test]
fn long_vectors() {
    let context = context();
    let ranks = context.devices().len();
    let len = if context.devices()[0].is_gpu() { ranks * 6_000_000 } else { 200_000 };
    let item = |rank: usize, at: usize| (at as u32).wrapping_mul(31) ^ ((rank as u32) << 28);
    let inputs = (0..ranks).map(|rank| (0..len).map(|at| item(rank, at)).collect()).collect();
    let (operator, combine) = (Operator::sum(), u32::wrapping_add as fn(u32, u32) -> u32);
    let case = Case { context: &context, inputs, empty: 0, operator, combine, root: ranks - 1 };
    let mut communicator = Communicator::new(&context).unwrap();
    context.block_on(case.all(&mut communicator, Algorithm::Automatic)).unwrap().unwrap();
    context.device_set().quiesce().unwrap();
}

/// `MILLSTREAM_RUNS` (500 unless set) operations one after the other, of changing
/// lengths and types, without the host waiting between them.
#[test]
fn many_collectives_without_a_pause() {
    let runs = std::env::var("MILLSTREAM_RUNS").map_or(500, |runs| runs.parse().unwrap());
    let context = context();
    let ranks = context.devices().len();
    let mut communicator = Communicator::new(&context).unwrap();
    let (narrow, wide) = (Operator::<u32>::sum(), Operator::<u64>::max());
    let lens = [1usize, 33, 4096, 70_001];
    let vectors = lens.map(|len| {
        let items: Vec<Vec<u32>> = (0..ranks).map(|rank| vec![rank as u32 + 1; len]).collect();
        let wider: Vec<Vec<u64>> = (0..ranks).map(|rank| vec![rank as u64; len]).collect();
        (upload(&context, &items).unwrap(), upload(&context, &wider).unwrap())
    });
    let mut vectors = vectors;
    let run = async {
        let mut collectives = communicator.begin().await?;
        for run in 0..runs {
            let (items, wider) = &mut vectors[run % lens.len()];
            collectives.all_reduce(&mut *items, &narrow)?;
            collectives.all_reduce(&mut *wider, &wide)?;
            collectives.broadcast(run % ranks, &mut *items)?;
        }
        collectives.completed().await
    };
    context.block_on(run).unwrap().unwrap();
    // Sums of sums: all ranks hold the same, multiplied with each run.
    let first = (1..=ranks as u32).sum::<u32>();
    for (at, (items, wider)) in vectors.iter().enumerate() {
        let rounds = (at..runs).step_by(lens.len()).count();
        let expected = (1..rounds).fold(first, |sum, _| sum.wrapping_mul(ranks as u32));
        let items = context.block_on(download(items)).unwrap().unwrap();
        assert!(rounds == 0 || items.iter().flatten().all(|item| *item == expected), "{at}");
        let wider = context.block_on(download(wider)).unwrap().unwrap();
        assert!(rounds == 0 || wider.iter().flatten().all(|item| *item == ranks as u64 - 1));
    }
}

/// Runs of the fused kind take turns with collectives: one that was begun first ends
/// first, and one that is dropped does not keep the devices.
#[test]
fn collectives_take_turns_with_others() {
    let context = context();
    let ranks = context.devices().len() as u32;
    let sum = Operator::<u32>::sum();
    let mut one = Communicator::new(&context).unwrap();
    let mut other = Communicator::new(&context).unwrap();
    let run = async {
        let ones: Vec<Vec<u32>> = (0..ranks).map(|_| vec![1; 10_000]).collect();
        let mut vectors = upload(&context, &ones)?;
        for _ in 0..5 {
            let mut collectives = one.begin().await?;
            collectives.all_reduce(&mut vectors, &sum)?;
            let events = collectives.record()?;
            drop(collectives);
            let mut collectives = other.begin().await?;
            for event in &events {
                collectives.wait(event)?;
            }
            collectives.all_reduce(&mut vectors, &sum)?;
            collectives.completed().await?;
        }
        download(&vectors).await
    };
    let vectors = context.block_on(run).unwrap().unwrap();
    let expected = ranks.wrapping_pow(10);
    assert!(vectors.iter().flatten().all(|item| *item == expected));
}

/// The algorithms that work in packets, on devices that need none.
#[test]
fn packets_between_all_devices() {
    let context = context();
    for algorithm in [Algorithm::Ring, Algorithm::Tree] {
        let mut options = CommunicatorOptions::default();
        options.algorithm = algorithm;
        options.packet_bytes = 1 << 20;
        options.patience = Duration::from_secs(5);
        let mut communicator = Communicator::with_options(&context, options).unwrap();
        let ranks = context.devices().len();
        let items: Vec<Vec<f64>> = (0..ranks).map(|rank| vec![rank as f64; 400_000]).collect();
        let mut vectors = upload(&context, &items).unwrap();
        let run = async {
            let mut collectives = communicator.begin().await?;
            collectives.all_reduce(&mut vectors, &Operator::sum())?;
            collectives.completed().await?;
            download(&vectors).await
        };
        let vectors = context.block_on(run).unwrap().unwrap();
        let expected = (0..ranks).sum::<usize>() as f64;
        assert!(vectors.iter().flatten().all(|item| *item == expected), "{algorithm:?}");
    }
}
