//! What kernels publish, other kernels and the host see: each publish/consume pair
//! of the project's kernels, a million rounds, as many in each direction between each two
//! devices. The faulty variants are only reported: hardware may not show what the model allows.

use std::sync::atomic::Ordering;
use std::time::Instant;

use millstream::device::{
    CudaSource, Device, DeviceSet, Error, Kernel, KernelFault, Shared, SharedBuffer, SharedSet,
    Stream, Trusted, Value,
};
use millstream::flow::{Gang, GangMember};

use super::{Needs, is_gpu, scaled, set, skip};

mod collectives;
mod packets;
mod service;

const TEXT: &str = concat!(include_str!("litmus.cuh"), include_str!("litmus/packets.cuh"));

/// Pairs of blocks, each with memory of its own.
const PAIRS: usize = 16;

/// Neither side's place: the host.
const HOST: usize = 2;

/// Words that a block leaves for the host: rounds, failures, the first failed
/// round, whether it gave up.
const WORDS: usize = 4;

const SLOTS: usize = 4;
const SLOT_ITEMS: usize = 96;
const ENTRIES: usize = 8;

/// Rounds of a block, seed, variant, milliseconds until it gives up.
type Run = [u32; 4];
type Side = Kernel<(Shared<u32>, Shared<u32>, Shared<u32>, Shared<u32>, Value<Run>)>;

fn side(entry: &'static str, threads: u32) -> Side {
    side_of(entry, PAIRS, threads)
}

fn side_of(entry: &'static str, blocks: usize, threads: u32) -> Side {
    let source = CudaSource::new("litmus.cu", entry, TEXT).blocks(blocks as u32).threads(threads);
    // A twin must not wait for another; the models in tests/models cover hosts.
    Kernel::with_source(
        entry,
        // SAFETY: the kernel keeps to its arguments as the signature says.
        unsafe { Trusted::new(source) },
        |_, _| Err(KernelFault::new("runs on GPUs only")),
    )
}

/// Two kernels and the memory between them.
struct Litmus {
    name: &'static str,
    sides: [Side; 2],
    /// Of each side.
    blocks: usize,
    /// Whether both run on the first device: what they do has that scope.
    on_one_device: bool,
    /// Words of the three buffers, with what they hold at the start, and whose
    /// they are: a side's or the [`HOST`]'s.
    buffers: [(usize, u32, usize); 3],
    /// Whether the second side takes the first two buffers the other way round.
    mirrored: bool,
    /// What the faulty variants leave out.
    faults: [&'static str; 2],
}

fn peer_ring() -> Litmus {
    Litmus {
        name: "peer ring",
        sides: [side("ring_send", 64), side("ring_receive", 64)],
        blocks: PAIRS,
        on_one_device: false,
        buffers: [(2 * PAIRS, 0, 0), (4 * SLOTS * PAIRS, 0, 1), (SLOTS * SLOT_ITEMS * PAIRS, 0, 1)],
        mirrored: false,
        faults: ["the epoch without a release", "the head before the payload is read"],
    }
}

fn queue_bit() -> Litmus {
    Litmus {
        name: "queue bit",
        sides: [side("queue_produce", 64), side("queue_consume", 32)],
        blocks: PAIRS,
        on_one_device: true,
        buffers: [((16 + ENTRIES) * PAIRS, 0, 0), (64 * PAIRS, u32::MAX, 0), (1, 0, 0)],
        mirrored: false,
        faults: ["the value read before the bit is cleared", "the bit set before the value"],
    }
}

fn counters() -> Litmus {
    Litmus {
        name: "counters",
        sides: [side("count_first", 64), side("count_second", 64)],
        blocks: PAIRS,
        on_one_device: false,
        buffers: [(8 * PAIRS, 0, 0), (8 * PAIRS, 0, 1), (1, 0, 0)],
        mirrored: true,
        faults: ["produced read before consumed", "counted after it is published"],
    }
}

/// What all blocks have found.
#[derive(Debug, Default)]
struct Found {
    failures: u32,
    first: Option<u32>,
    gave_up: u32,
}

impl Litmus {
    /// Runs both sides beside each other.
    fn run(&self, set: &DeviceSet, places: &[Device; 2], run: Run) -> Result<Found, Error> {
        let control = set.host().shared::<u32>(1 + 2 * self.blocks * WORDS)?;
        let second = &places[usize::from(!self.on_one_device)];
        let places = [&places[0], second, set.host()];
        let mut buffers = Vec::new();
        for (words, value, place) in self.buffers {
            let buffer = places[place].shared::<u32>(words)?;
            let stream = places[place].stream()?;
            stream.fill_shared(&buffer, 0..words, value)?;
            stream.record()?.synchronize()?;
            buffers.push(buffer);
        }
        let streams = Stream::of_gang(&[places[0].clone(), places[1].clone()])?;
        let launch = |place: usize, run: Run| {
            let [first, second, third] = [0, 1, 2].map(|at: usize| match (place, self.mirrored) {
                (1, true) if at < 2 => &buffers[1 - at],
                _ => &buffers[at],
            });
            let arguments = (&control, first, second, third, run);
            self.sides[place].launch(&streams[place], self.blocks, arguments)
        };
        // Loads both kernels: neither may wait for that while the other spins.
        for (place, stream) in streams.iter().enumerate() {
            launch(place, [0, 0, 0, 1000])?;
            stream.record()?.synchronize()?;
        }
        launch(0, run)?;
        launch(1, run)?;
        for stream in &streams {
            stream.record()?.synchronize()?;
        }
        found(&control, self.blocks)
    }

    fn check(&self) {
        let set = set();
        let mut places = places(&set);
        if self.on_one_device {
            places.dedup_by(|other, place| other[0] == place[0]);
        }
        let rounds = share_of_rounds(self.blocks * places.len());
        each_place(self.name, &places, |seed, place| {
            self.run(&set, place, [rounds, seed, 0, 40_000])
        });
        let Some(place) = places.first() else { return };
        for (variant, fault) in (1..).zip(self.faults) {
            // Emulated GPUs' clocks are slow.
            let found = self.run(&set, place, [rounds, 2, variant, scaled(2000, 20)]).unwrap();
            println!("{}, {fault}: {found:?}", self.name);
        }
    }
}

fn found(control: &SharedBuffer<u32>, blocks: usize) -> Result<Found, Error> {
    let mut found = Found::default();
    for block in 0..2 * blocks {
        let word = |place: usize| control.load(1 + block * WORDS + place);
        let failures = word(1)?;
        found.failures += failures;
        if failures > 0 {
            found.first = Some(found.first.unwrap_or(u32::MAX).min(word(2)?));
        }
        found.gave_up += word(3)?;
    }
    Ok(found)
}

/// Each GPU with each other one that it reaches, in both directions, those with the same first
/// one behind each other; one that reaches none with itself.
fn places(set: &DeviceSet) -> Vec<[Device; 2]> {
    let gpus: Vec<&Device> = set.devices().iter().filter(|device| is_gpu(device)).collect();
    let mut places = Vec::new();
    for &one in &gpus {
        let others = gpus.iter().filter(|&&other| other != one);
        let peers = others.filter(|other| one.reaches(other) && other.reaches(one));
        let mut pairs: Vec<_> = peers.map(|&other| [one.clone(), other.clone()]).collect();
        if pairs.is_empty() {
            pairs.push([one.clone(), one.clone()]);
        }
        places.append(&mut pairs);
    }
    places
}

/// Runs a case in all places, and says so; it must find nothing wrong anywhere.
fn each_place(
    name: &str,
    places: &[[Device; 2]],
    run: impl Fn(u32, &[Device; 2]) -> Result<Found, Error>,
) {
    if places.is_empty() {
        return skip(Needs::Peers, "kernels that wait for each other run on GPUs only");
    }
    let start = Instant::now();
    for (seed, place) in (1..).zip(places) {
        let found = run(seed, place).unwrap();
        let what = format!("{name}, {} to {}: {found:?}", place[0], place[1]);
        assert_eq!((found.failures, found.gave_up), (0, 0), "{what}");
    }
    println!(
        "{name}, {} rounds in {} places: nothing wrong in {:?}",
        rounds(),
        places.len(),
        start.elapsed()
    );
}

/// Rounds of each of so many parts: all of them together are at least [`rounds`].
fn share_of_rounds(parts: usize) -> u32 {
    rounds().div_ceil(parts.max(1)) as u32
}

pub(super) fn rounds() -> usize {
    std::env::var("MILLSTREAM_LITMUS_ROUNDS")
        .map_or(scaled(1_000_000, 3200), |rounds| rounds.parse().unwrap())
}

#[test]
fn peer_ring_slots_and_heads() {
    peer_ring().check();
}

#[test]
fn queue_bits_and_values() {
    queue_bit().check();
}

#[test]
fn produced_and_consumed() {
    counters().check();
}

/// Blocks of a device in the barrier's case: all of them run at once.
fn gang_blocks() -> usize {
    scaled(24, 5)
}

type GangRounds = (SharedSet<u64>, SharedSet<u32>, Shared<u32>, Shared<u64>, Value<[u32; 4]>);

/// Everything before the gang's barrier is visible after it, on all devices.
#[test]
fn gang_barrier_rounds() {
    let context = super::context();
    if !Gang::can_meet(&context) {
        return skip(Needs::Peers, "only GPUs with NVLink between all meet");
    }
    let blocks = gang_blocks();
    let source = CudaSource::new("litmus.cu", "gang_rounds", TEXT).blocks(blocks as u32);
    let kernel: Kernel<GangRounds> = Kernel::with_source(
        "gang_rounds",
        // SAFETY: the kernel keeps to its arguments as the signature says.
        unsafe { Trusted::new(source) },
        |_, _| Err(KernelFault::new("runs on GPUs only")),
    );
    let devices = context.devices().len();
    let all = context.devices().iter();
    let words: Vec<_> = all.clone().map(|device| device.shared::<u64>(512).unwrap()).collect();
    let cells = all.map(|device| device.shared::<u32>(2 * devices * blocks).unwrap());
    let cells: Vec<_> = cells.collect();
    let (words, cells) = (words.iter().collect::<Vec<_>>(), cells.iter().collect::<Vec<_>>());
    // Two words of each device: adding to the host's memory is atomic on one GPU alone.
    let report = context.host().shared::<u64>(2 * devices).unwrap();
    // A round of one device takes a microsecond, of several three.
    let rounds = rounds() as u32;
    let gang = Gang::new(&context).unwrap();
    gang.prepare(&kernel).unwrap();
    let host = gang.words().clone();
    let start = Instant::now();
    let run = gang.run(|GangMember { place, stream, .. }| {
        let run = [place as u32, devices as u32, rounds, 7];
        Ok(kernel.launch(stream, 1, (&words[..], &cells[..], &host, &report, run))?)
    });
    context.block_on(run).unwrap().unwrap();
    let total = |word| (0..devices).map(|place| report.load(2 * place + word).unwrap()).sum();
    let (failures, met): (u64, u64) = (total(0), total(1));
    println!(
        "gang barrier, {devices} devices, {rounds} rounds: {failures} failures in {:?}",
        start.elapsed()
    );
    assert_eq!((failures, met), (0, u64::from(rounds) * (devices * blocks) as u64));
}

type ReportSignature = (Shared<u32>, Shared<u32>, Shared<u32>, Value<u32>, Value<u32>);

/// The host reads what the last block of a kernel left in its memory, after the
/// kernel's event.
#[test]
fn reports_to_the_host() {
    let source = CudaSource::new("litmus.cu", "report", TEXT).blocks(PAIRS as u32).threads(32);
    let kernel: Kernel<ReportSignature> = Kernel::with_source(
        "report",
        // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
        unsafe { Trusted::new(source) },
        |_, (_, _, report, round, _)| {
            report.iter().for_each(|word| word.store(round, Ordering::Release));
            Ok(())
        },
    );
    let set = set();
    for device in set.devices() {
        let launches = match is_gpu(device) {
            true => rounds() / PAIRS / set.devices().len(),
            false => 1000,
        };
        for variant in [0, 1] {
            let wrong = stale_reports(&set, device, &kernel, launches as u32, variant).unwrap();
            let name = ["report", "report, the ticket without its order"][variant as usize];
            println!("{name}, {device}, {launches} launches: {wrong} stale words");
            assert!(variant > 0 || wrong == 0, "{device}");
        }
    }
}

fn stale_reports(
    set: &DeviceSet,
    device: &Device,
    kernel: &Kernel<ReportSignature>,
    launches: u32,
    variant: u32,
) -> Result<usize, Error> {
    let stream = device.stream()?;
    let (words, ticket) = (device.shared(PAIRS)?, device.shared(1)?);
    let report = set.host().shared(PAIRS)?;
    let mut wrong = 0;
    for round in 1..=launches {
        kernel.launch(&stream, PAIRS, (&words, &ticket, &report, round, variant))?;
        set.block_on(stream.completed()?)??;
        for place in 0..PAIRS {
            wrong += usize::from(report.load(place)? != round);
        }
    }
    Ok(wrong)
}

/// Needs NVRTC, and no GPU.
#[cfg(feature = "cuda")]
#[test]
fn litmus_kernels_compile() {
    // What the compiler has in a cache of its own has no log: so the code is a new one.
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    for (text, entries) in [(TEXT, 14), (collectives::TEXT, 3), (service::TEXT, 2)] {
        let text = format!("{text}\n__device__ unsigned new_at_{now};\n");
        for architecture in [80, 90, 100] {
            match CudaSource::generated("litmus.cu", "report", text.as_str()).compile(architecture)
            {
                Ok((code, log)) => {
                    assert!(!code.is_empty());
                    assert_eq!(log.matches("Compiling entry function").count(), entries, "{log}");
                }
                Err(Error::DriverUnavailable { reason, .. })
                    if std::env::var_os("MILLSTREAM_REQUIRE_NVRTC").is_none() =>
                {
                    return println!("not compiled: {reason}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
