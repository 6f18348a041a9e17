//! Collectives, every operation in every way, with contents checked: one kernel on
//! each GPU where they reach each other, and in packets.

use std::time::{Duration, Instant};

use millstream::device::{
    CudaSource, DeviceBuffer, InjectedFault, Injection, Kernel, TransferWay, Trusted,
};
use millstream::flow::{
    Algorithm, Collectives, Communicator, CommunicatorOptions, Context, Devices, Gang, Operator,
    ResidentCollectives, Result,
};

use super::{Needs, by, context, list, scaled, skip};
use resident_twin::Resident;

use crate::collective_model::{Case, all_types, download, odd_types, upload};

mod chains;
mod halves;
mod joined;
mod lent;
mod resident;
mod resident_twin;
mod rings;
mod vectors;

#[test]
fn every_collective() {
    let context = context();
    let usual = &[(0, 64), (1, 64), (7, 8), (1003, 400), (100_003, 1 << 16)][..];
    for &(len, packet_bytes) in scaled(usual, &[(0, 64), (7, 8), (1003, 2000)]) {
        context.block_on(all_types(&context, len, packet_bytes)).unwrap().unwrap();
    }
    context.device_set().quiesce().unwrap();
}

/// Items of 3 and 72 bytes, and of more than a slot of a chain, in lines, in one pass, along a
/// chain and in packets.
#[test]
fn items_of_odd_sizes() {
    let context = context();
    for &len in scaled(&[1, 40, 1003, 100_002][..], &[5, 203]) {
        context.block_on(odd_types(&context, len)).unwrap().unwrap();
    }
    context.device_set().quiesce().unwrap();
}

/// Everything that fits in lines, in one pass.
#[test]
fn short_vectors_in_one_pass() {
    let context = context();
    let ranks = context.devices().len();
    for len in [0, 1, 5, 1003, 4096] {
        let item = |rank: usize, at: usize| (at as u64) << (4 * rank);
        let inputs = (0..ranks).map(|rank| (0..len).map(|at| item(rank, at)).collect()).collect();
        let (operator, combine) = (Operator::sum(), u64::wrapping_add as fn(u64, u64) -> u64);
        let case = Case { context: &context, inputs, empty: 0, operator, combine, root: 0 };
        let mut options = CommunicatorOptions::default();
        options.line_bytes = 0;
        let mut communicator = Communicator::with_options(&context, options).unwrap();
        context.block_on(case.all(&mut communicator)).unwrap().unwrap();
    }
    context.device_set().quiesce().unwrap();
}

/// Long vectors, whose parts do not begin at multiples of 16 bytes: `MILLSTREAM_ITEMS` of
/// each rank (1,500,000 unless set; checking them takes far longer than the collectives).
#[test]
fn long_vectors() {
    let context = context();
    let ranks = context.devices().len();
    let usual = scaled(1_500_000, 10_000);
    let items = std::env::var("MILLSTREAM_ITEMS").map_or(usual, |items| items.parse().unwrap());
    let len = if context.devices()[0].is_gpu() { ranks * items + 1 } else { 200_000 };
    let item = |rank: usize, at: usize| (at as u32).wrapping_mul(31) ^ ((rank as u32) << 28);
    let inputs = (0..ranks).map(|rank| (0..len).map(|at| item(rank, at)).collect()).collect();
    let (operator, combine) = (Operator::sum(), u32::wrapping_add as fn(u32, u32) -> u32);
    let case = Case { context: &context, inputs, empty: 0, operator, combine, root: ranks - 1 };
    let mut communicator = Communicator::with_options(&context, few_lines()).unwrap();
    context.block_on(case.all(&mut communicator)).unwrap().unwrap();
    context.device_set().quiesce().unwrap();
}

/// So that vectors are long also where GPUs are emulated.
fn few_lines() -> CommunicatorOptions {
    let mut options = CommunicatorOptions::default();
    options.line_bytes = scaled(options.line_bytes, 64 << 10);
    options
}

/// `MILLSTREAM_RUNS` (500 unless set, 40 where GPUs are emulated) operations one after the other, of changing
/// lengths and types, without the host waiting between them.
#[test]
fn many_collectives_without_a_pause() {
    let runs =
        std::env::var("MILLSTREAM_RUNS").map_or(scaled(500, 40), |runs| runs.parse().unwrap());
    let context = context();
    let ranks = context.devices().len();
    // The longest go in one pass, and along a chain.
    let mut options = CommunicatorOptions::default();
    options.line_bytes = 128 << 10;
    let mut communicator = Communicator::with_options(&context, options).unwrap();
    let (narrow, wide) = (Operator::<u32>::sum(), Operator::<u64>::sum());
    let lens = [1usize, 33, 4096, 70_001];
    let item = |rank: usize, at: usize| (at * ranks + rank + 1) as u32;
    let mut vectors = lens.map(|len| {
        let items = |rank| (0..len).map(|at| item(rank, at)).collect();
        let items: Vec<Vec<u32>> = (0..ranks).map(items).collect();
        let wider = |items: &Vec<u32>| items.iter().map(|&item| u64::from(item)).collect();
        let wider: Vec<Vec<u64>> = items.iter().map(wider).collect();
        let [from, to, sums] = [(); 3].map(|()| upload(&context, &items).unwrap());
        (from, to, sums, upload(&context, &wider).unwrap())
    });
    let run = async {
        let mut collectives = communicator.begin().await?;
        for run in 0..runs {
            let (from, to, sums, wider) = &mut vectors[run % lens.len()];
            collectives.all_reduce(&mut *sums, &narrow)?;
            collectives.all_reduce(&mut *wider, &wide)?;
            collectives.broadcast(run % ranks, (&*from, to))?;
        }
        collectives.completed().await
    };
    context.block_on(run).unwrap().unwrap();
    for (at, (_, to, sums, wider)) in vectors.iter().enumerate() {
        let rounds: Vec<usize> = (at..runs).step_by(lens.len()).collect();
        let Some(last) = rounds.last() else { continue };
        let to = context.block_on(download(to)).unwrap().unwrap();
        let root = |(place, &its): (usize, &u32)| its == item(last % ranks, place);
        assert!(to.iter().all(|items| items.iter().enumerate().all(root)), "{at}");
        // Sums of sums: all ranks hold the same, multiplied with each run.
        let expected: Vec<u64> = (0..lens[at])
            .map(|place| (0..ranks).map(|rank| u64::from(item(rank, place))).sum())
            .map(|sum: u64| rounds[1..].iter().fold(sum, |sum, _| sum.wrapping_mul(ranks as u64)))
            .collect();
        let wider = context.block_on(download(wider)).unwrap().unwrap();
        assert!(wider.iter().all(|items| *items == expected), "{at}");
        let sums = context.block_on(download(sums)).unwrap().unwrap();
        let narrow: Vec<u32> = expected.iter().map(|&sum| sum as u32).collect();
        assert!(sums.iter().all(|items| *items == narrow), "{at}");
    }
}

/// Between collectives that are not waited for, everything for which the driver may wait for a
/// GPU: new memory, kernels that are compiled and loaded, copies from the program's memory.
#[test]
fn whatever_waits_for_devices_between_collectives() {
    let context = context();
    let ranks = context.devices().len() as u32;
    let mut communicator = Communicator::new(&context).unwrap();
    let run = async {
        let inputs: Vec<Vec<u32>> = (1..=ranks).map(|rank| (rank..rank + 5000).collect()).collect();
        let inputs = upload(&context, &inputs)?;
        let mut outputs = upload(&context, &vec![vec![0; 5000]; inputs.len()])?;
        let rounds = scaled(12, 3);
        let mut collectives = communicator.begin().await?;
        for round in 0..rounds {
            let text = format!(
                "using Element = unsigned;\n__device__ Element combine(Element one, Element other) \
                 {{ return one + other + {round} - {round}; }}"
            );
            // SAFETY: it touches its arguments only.
            let text = unsafe { Trusted::new(text) };
            let sum = Operator::new(format!("sum {round}"), text, u32::wrapping_add);
            for _ in 0..20 {
                collectives.all_reduce((&inputs, &mut outputs), &sum)?;
            }
            for device in context.devices() {
                // More than a page each time, so that no block fits again.
                let items = vec![round as u64; (round + 1) << 19];
                let stream = device.stream()?;
                drop((stream.uploaded(items)?, context.host().shared::<u32>(4096 << round)?));
            }
        }
        collectives.completed().await?;
        let of_ranks = (1..=ranks).sum::<u32>();
        let expected: Vec<u32> = (0..5000).map(|at| of_ranks + ranks * at).collect();
        assert!(download(&outputs).await?.iter().all(|items| *items == expected));
        Ok::<(), millstream::flow::Error>(())
    };
    context.block_on(run).unwrap().unwrap();
    context.device_set().quiesce().unwrap();
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

/// The algorithms that work in packets, on devices that need none, on every way.
#[test]
fn packets_between_all_devices() {
    let ways = TransferWay::ALL.map(Some).into_iter().chain([None]);
    for (way, algorithm) in
        ways.flat_map(|way| [Algorithm::Ring, Algorithm::Tree].map(|a| (way, a)))
    {
        let context = by(way);
        let mut options = CommunicatorOptions::default();
        options.algorithm = algorithm;
        options.packet_bytes = scaled(1 << 20, 1 << 14);
        options.patience = Duration::from_secs(5);
        let mut communicator = Communicator::with_options(&context, options).unwrap();
        let ranks = context.devices().len();
        let item = |rank: usize, at: usize| (rank * 3 + at) as f64;
        let items = |rank| (0..scaled(400_000, 20_000)).map(|at| item(rank, at)).collect();
        let items: Vec<Vec<f64>> = (0..ranks).map(items).collect();
        let mut vectors = upload(&context, &items).unwrap();
        let run = async {
            let mut collectives = communicator.begin().await?;
            collectives.all_reduce(&mut vectors, &Operator::sum())?;
            collectives.completed().await?;
            download(&vectors).await
        };
        let vectors = context.block_on(run).unwrap().unwrap();
        let sum = |at| (0..ranks).map(|rank| item(rank, at)).sum::<f64>();
        let are_sums = |items: &Vec<f64>| items.iter().enumerate().all(|(at, &it)| it == sum(at));
        assert!(vectors.iter().all(are_sums), "{algorithm:?}, {way:?}");
    }
}

/// GPUs that reach each other, but are asked not to push: packets there, too.
#[test]
fn every_collective_on_other_ways() {
    for way in [TransferWay::Copy, TransferWay::Host] {
        let context = by(Some(way));
        for &(len, packet_bytes) in scaled(&[(7, 8), (1003, 400)][..], &[(7, 8)]) {
            context.block_on(all_types(&context, len, packet_bytes)).unwrap().unwrap();
        }
        context.device_set().quiesce().unwrap();
    }
}

/// One rank's kernel is not launched: the others are stopped and do not wait for their
/// patience to end, and everyone hears the first cause.
#[test]
fn a_rank_that_does_not_come() {
    let long = scaled(1_000_000, 50_000);
    a_rank_is_missed_by(long, |collectives, vectors, _| {
        collectives.all_reduce(vectors, &Operator::sum())
    });
    // GPUs miss who stands first in the chain, other devices who combines.
    a_rank_is_missed_by(long, |collectives, vectors, are_gpus| {
        collectives.reduce(usize::from(!are_gpus), vectors, &Operator::sum())
    });
    // Who stands first gets nothing from anybody; other devices combine nothing in a broadcast.
    a_rank_is_missed_by(long, |collectives, vectors, are_gpus| match are_gpus {
        true => collectives.broadcast(1, vectors),
        false => collectives.reduce(1, vectors, &Operator::sum()),
    });
    // Several in a kernel, while the driver gives the context before up.
    a_rank_is_missed_by(1000, |collectives, vectors, _| {
        (0..20).try_for_each(|_| collectives.all_reduce(&mut *vectors, &Operator::sum()))
    });
}

/// A context whose second device fails the first time that it combines or launches, and what
/// it says then; none of one device.
fn with_a_faulty_rank() -> Option<(Context, bool, String)> {
    let devices = list();
    let names: Vec<String> =
        context().devices().iter().map(millstream::device::Device::name).collect();
    let Some(name) = names.get(1) else {
        skip(Needs::Several, "nobody waits for the only rank");
        return None;
    };
    let are_gpus = context().devices().iter().all(millstream::device::Device::is_gpu);
    let kernel = if are_gpus { "collective" } else { "combine" };
    let fault = InjectedFault::new(kernel).on(name.clone()).occurrence(0);
    let injection = Injection { faults: vec![fault], ..Injection::default() };
    let builder = Context::builder().devices(Devices::List(devices)).injection(injection);
    let failure = format!("injected failure of {kernel} on {name}");
    Some((builder.build().unwrap(), are_gpus, failure))
}

/// One rank's kernel is held up by what never comes, as is heard when the others have begun: they
/// are stopped, although nobody calls anything meanwhile.
#[test]
fn a_rank_waits_for_what_does_not_come() {
    let context = context();
    let mut communicator = Communicator::new(&context).unwrap();
    let mut vectors = upload(&context, &vec![vec![1u32; 1000]; context.devices().len()]).unwrap();
    let promise = context.device_set().promise("dinner");
    let start = Instant::now();
    let run = async {
        let mut collectives = communicator.begin().await?;
        collectives.streams()[0].wait(promise.event())?;
        collectives.all_reduce(&mut vectors, &Operator::sum())?;
        let giving_up = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(promise);
        });
        let end = collectives.completed().await;
        giving_up.join().unwrap();
        end
    };
    let cause = context.block_on(run).unwrap().unwrap_err().to_string();
    assert!(cause.contains("dinner will not come"), "{cause}");
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
}

/// Nobody waits for the series in which a rank's kernel is not launched: the others are
/// stopped nevertheless, and the next series does not begin.
#[test]
fn a_dropped_series_without_a_rank() {
    let Some((context, are_gpus, _)) = with_a_faulty_rank() else { return };
    let mut communicator = Communicator::new(&context).unwrap();
    let mut vectors = upload(&context, &vec![vec![1u32; 1000]; context.devices().len()]).unwrap();
    let start = Instant::now();
    let run = async {
        let mut collectives = communicator.begin().await?;
        // Refused already, if the failure is known by then.
        let _ = collectives.all_reduce(&mut vectors, &Operator::sum());
        drop(collectives);
        communicator.begin().await.map(drop)
    };
    let next = context.block_on(run).unwrap();
    assert!(next.is_err() || !are_gpus);
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
}

fn a_rank_is_missed_by(
    len: usize,
    operation: fn(&mut Collectives<'_>, &mut Vec<DeviceBuffer<u32>>, bool) -> Result<()>,
) {
    let Some((context, are_gpus, failure)) = with_a_faulty_rank() else { return };
    // In a tree the leaves combine nothing, and nothing would fail on host devices.
    let mut options = few_lines();
    options.algorithm = Algorithm::Direct;
    let mut communicator = Communicator::with_options(&context, options).unwrap();
    let mut vectors = upload(&context, &vec![vec![1u32; len]; context.devices().len()]).unwrap();
    let start = Instant::now();
    let run = async {
        let mut collectives = communicator.begin().await?;
        // Refused already, if the failure is known by then.
        let submitted = operation(&mut collectives, &mut vectors, are_gpus);
        submitted.and(collectives.completed().await)
    };
    let first = context.block_on(run).unwrap().unwrap_err().to_string();
    assert!(first.contains(&failure), "{first}");
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    let later = context.block_on(communicator.begin()).unwrap().unwrap_err().to_string();
    assert_eq!(later, first);
}

/// Blocks of each resident kernel, each with collectives of its own.
const BLOCKS: usize = 8;
/// Items of their vectors: more than fit in the lines.
const MOST: usize = 1500;

/// Resident kernels call every collective, in two launches, the second of which goes on
/// with the first one's lines. Twins do, too.
#[test]
fn resident_kernels() {
    let context = context();
    if !ResidentCollectives::are_possible(&context) {
        return skip(Needs::Peers, "resident kernels run on peers, or on host devices alone");
    }
    let text = include_str!("block_collectives.cu");
    let source = CudaSource::new("block_collectives.cu", "block_collectives", text);
    let kernel: Kernel<Resident> = Kernel::of_steps(
        "block_collectives",
        // SAFETY: the kernel keeps to its arguments as the signature says.
        unsafe { Trusted::new(source.blocks(BLOCKS as u32).threads(128)) },
        |block, view| resident_twin::twin(block, view),
    );
    let ranks = context.devices().len();
    let words = BLOCKS * (2 * MOST + 8);
    let areas = context.devices().iter().map(|device| device.shared::<u32>(words).unwrap());
    let areas: Vec<_> = areas.collect();
    let areas: Vec<_> = areas.iter().collect();
    let patience = Duration::from_secs(5);
    let collectives = ResidentCollectives::new(&context, BLOCKS, 1 << 10, patience).unwrap();
    let report = context.host().shared::<u32>(2 * ranks * BLOCKS).unwrap();
    // Each round takes some microseconds.
    let rounds = resident::rounds(&context) / BLOCKS as u32;
    let start = Instant::now();
    for seed in [1, 2] {
        let gang = Gang::new(&context).unwrap();
        gang.prepare(&kernel).unwrap();
        let host = gang.words().clone();
        let run = gang.run(|member| {
            let run = [rounds, MOST as u32, seed, 0];
            let rank = (&collectives, &host, member.place);
            let arguments = (rank, &areas[..], &report, run);
            Ok(kernel.launch(member.stream, BLOCKS, arguments)?)
        });
        context.block_on(run).unwrap().unwrap();
        let word = |place: usize| report.load(place).unwrap();
        let found: Vec<_> =
            (0..ranks * BLOCKS).map(|at| (word(2 * at), word(2 * at + 1))).collect();
        println!("{rounds} rounds, {ranks} ranks, after {:?}", start.elapsed());
        assert_eq!(found, vec![(0, rounds); ranks * BLOCKS]);
    }
}
