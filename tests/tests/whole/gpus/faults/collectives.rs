//! The kernel of one rank traps in a collective that streams order: everybody hears the first
//! cause, in every later call, long before the patience of those who wait.

use std::time::Instant;

use millstream::device::DeviceBuffer;
use millstream::flow::{Algorithm, Collectives, Communicator, CommunicatorOptions, Operator};

use super::super::child::in_child_with;
use super::super::{Needs, context, scaled, skip};
use super::ranks::{PATIENCE, SOON};
use super::{Error, LIMIT, Result, builder, list, refused};
use crate::collective_model::upload;

/// Through few lines, round a ring what is longer than most here, and in many packets.
fn options(algorithm: Algorithm) -> CommunicatorOptions {
    let mut options = CommunicatorOptions::default();
    (options.algorithm, options.patience) = (algorithm, PATIENCE);
    (options.line_bytes, options.packet_bytes) = (4 << 10, 4 << 10);
    options.ring_bytes = Some(100_000);
    options
}

type Operation = fn(&mut Collectives<'_>, &mut Vec<DeviceBuffer<u32>>) -> Result<()>;

/// Launches of this kernel trap on the last rank, as emulated GPUs alone do.
fn a_rank_traps_in(
    kernel: &str,
    case: &str,
    algorithm: Algorithm,
    items: usize,
    operation: Operation,
) {
    let last = context().devices().len() - 1;
    if !scaled(false, true) || last == 0 || list().to_string() != format!("cuda:0-{last}") {
        return skip(Needs::Emulation, "the last of several emulated GPUs traps");
    }
    let trap = format!("{kernel}@{last}");
    in_child_with(case, LIMIT, &[("MILLSTREAM_EMULATOR_TRAP", &trap)], || {
        everybody_hears(options(algorithm), items, operation);
    });
}

fn everybody_hears(options: CommunicatorOptions, items: usize, operation: Operation) {
    let context = builder().build().unwrap();
    let mut communicator = Communicator::with_options(&context, options.clone()).unwrap();
    let mut vectors = upload(&context, &vec![vec![1; items]; context.devices().len()]).unwrap();
    let start = Instant::now();
    let run = async {
        let mut collectives = communicator.begin().await?;
        // Refused already, if the failure is known by then.
        let submitted = operation(&mut collectives, &mut vectors);
        submitted.and(collectives.completed().await)
    };
    let cause = context.block_on(run).unwrap().unwrap_err();
    println!("{cause}, heard after {:?}", start.elapsed());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let (text, is_device) = (cause.to_string(), matches!(cause, Error::Device(_)));
    assert!(text.contains("CUDA_ERROR_") && is_device, "{text}");
    let again = context.block_on(communicator.begin()).unwrap().unwrap_err();
    assert_eq!(again.to_string(), text);
    let other = Communicator::with_options(&context, options).unwrap_err();
    assert_eq!(other.to_string(), text);
    for device in context.devices() {
        refused(&format!("a stream of {device}"), &cause, || device.stream());
        refused(&format!("a buffer of {device}"), &cause, || device.buffer::<u32>(1));
    }
    refused("quiescence", &cause, || context.device_set().quiesce());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[test]
fn short_vectors_in_lines() {
    let case = concat!(module_path!(), "::short_vectors_in_lines");
    a_rank_traps_in("lines_of_items", case, Algorithm::Direct, 100, |collectives, vectors| {
        collectives.all_reduce(vectors, &Operator::sum())
    });
}

#[test]
fn long_vectors_in_one_pass() {
    let case = concat!(module_path!(), "::long_vectors_in_one_pass");
    a_rank_traps_in("pass_of_items", case, Algorithm::Direct, 20_000, |collectives, vectors| {
        collectives.all_reduce(vectors, &Operator::sum())
    });
}

#[test]
fn longer_vectors_round_a_ring() {
    let case = concat!(module_path!(), "::longer_vectors_round_a_ring");
    a_rank_traps_in("ring_of_items", case, Algorithm::Direct, 40_000, |collectives, vectors| {
        collectives.all_reduce(vectors, &Operator::sum())
    });
}

#[test]
fn long_vectors_along_a_chain() {
    let case = concat!(module_path!(), "::long_vectors_along_a_chain");
    a_rank_traps_in("chain_of_items", case, Algorithm::Direct, 20_000, |collectives, vectors| {
        collectives.reduce(0, vectors, &Operator::sum())
    });
}

#[test]
fn broadcasts_along_a_chain() {
    let case = concat!(module_path!(), "::broadcasts_along_a_chain");
    a_rank_traps_in("chain_of_items", case, Algorithm::Direct, 20_000, |collectives, vectors| {
        collectives.broadcast(0, vectors)
    });
}

#[test]
fn a_barrier_of_kernels() {
    let case = concat!(module_path!(), "::a_barrier_of_kernels");
    a_rank_traps_in("pass_of_items", case, Algorithm::Direct, 1, |collectives, _| {
        collectives.barrier()
    });
}

#[test]
fn packets_that_are_combined() {
    let case = concat!(module_path!(), "::packets_that_are_combined");
    a_rank_traps_in("combine_items", case, Algorithm::Ring, 20_000, |collectives, vectors| {
        collectives.all_reduce(vectors, &Operator::sum())
    });
}

/// Many of them, most of which are submitted behind the one that fails.
#[test]
fn a_series_of_collectives() {
    let case = concat!(module_path!(), "::a_series_of_collectives");
    a_rank_traps_in("chain_of_items", case, Algorithm::Direct, 20_000, |collectives, vectors| {
        for root in [0, 1, 0, 1] {
            collectives.all_reduce(&mut *vectors, &Operator::sum())?;
            collectives.reduce(root, &mut *vectors, &Operator::sum())?;
        }
        collectives.broadcast(0, vectors)
    });
}
