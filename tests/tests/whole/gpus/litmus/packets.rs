//! Packets that are full or empty, and copies that tell.

use std::time::Instant;

use millstream::device::{
    CudaSource, Device, DeviceSet, Error, Guarded, Kernel, KernelFault, Shared, SharedBuffer,
    StreamKind, Trusted, Value,
};

use super::super::{Needs, is_gpu, set, skip};
use super::{
    Found, HOST, Litmus, PAIRS, Run, SLOT_ITEMS, TEXT, WORDS, each_place, found, places,
    share_of_rounds, side, side_of,
};

/// Of two blocks that share a packet: `line_words` of the kernels.
const LINE: usize = 32;

fn packets(name: &'static str, take: &'static str, place: usize) -> Litmus {
    let groups = PAIRS / 2;
    Litmus {
        name,
        sides: [side("packet_fill", 64), side(take, 64)],
        blocks: PAIRS,
        on_one_device: false,
        buffers: [
            (groups * LINE, 0, 0),
            (groups * LINE, 0, 1),
            (groups * (LINE + SLOT_ITEMS), 0, place),
        ],
        mirrored: false,
        faults: ["the word without a release", "emptied before it is read"],
    }
}

#[test]
fn packets_full_and_empty() {
    packets("packets", "packet_take", 1).check();
}

/// One block looks for both: what it has acquired it hands on.
#[test]
fn packets_of_the_host() {
    packets("packets of the host", "packet_take_near", HOST).check();
}

#[test]
fn a_push_that_tells() {
    Litmus {
        name: "push that tells",
        sides: [side_of("push", 1, 64), side_of("take_pushed", 1, 64)],
        blocks: 1,
        on_one_device: false,
        buffers: [(SLOT_ITEMS, 0, 0), (SLOT_ITEMS, 0, 1), (2 * LINE, 0, HOST)],
        mirrored: false,
        faults: ["told before it is copied", "taken before it is read"],
    }
    .check();
}

/// As the kernels'.
fn hash(seed: u32) -> u32 {
    let mixed = (seed ^ (seed >> 16)).wrapping_mul(0x7feb_352d);
    let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x846c_a68b);
    mixed ^ (mixed >> 16)
}

/// The host takes what a kernel pushes, when it is told.
#[test]
fn a_push_to_the_host() {
    let set = set();
    let gpus: Vec<&Device> = set.devices().iter().filter(|device| is_gpu(device)).collect();
    if gpus.is_empty() {
        return skip(Needs::Peers, "kernels that wait for the host run on GPUs only");
    }
    let rounds = share_of_rounds(gpus.len());
    let start = Instant::now();
    for device in &gpus {
        assert_eq!(pushed(&set, device, rounds).unwrap(), 0, "{device}");
    }
    println!("push to the host, {rounds} rounds of each GPU in {:?}", start.elapsed());
}

fn pushed(set: &DeviceSet, device: &Device, rounds: u32) -> Result<u32, Error> {
    let host = set.host();
    let control = host.shared::<u32>(1 + 2 * WORDS)?;
    let [source, target] = [device.shared::<u32>(SLOT_ITEMS)?, host.shared::<u32>(SLOT_ITEMS)?];
    let words = host.shared::<u32>(2 * LINE)?;
    let (stream, push) = (device.stream()?, side_of("push", 1, 64));
    let launch = |run| push.launch(&stream, 1, (&control, &source, &target, &words, run));
    launch([0, 0, 0, 1000])?;
    stream.record()?.synchronize()?;
    launch([rounds, 1, 0, 40_000])?;
    let mut wrong = 0;
    for round in 0..rounds {
        // A kernel that has given up says no more.
        while words.load(0)? != round + 1 && control.load(0)? == 0 {
            std::hint::spin_loop();
        }
        wrong += u32::from(differs(&target, round)?);
        words.store(LINE, round + 1)?;
    }
    stream.record()?.synchronize()?;
    assert_eq!(control.load(1)?, rounds, "the kernel gave up");
    Ok(wrong)
}

fn differs(target: &SharedBuffer<u32>, round: u32) -> Result<bool, Error> {
    let items = 1 + hash(round) % SLOT_ITEMS as u32;
    for item in 0..items {
        let expected = hash(round.wrapping_mul(SLOT_ITEMS as u32).wrapping_add(item));
        if target.load(item as usize)? != expected {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Contents that come one after the other: an old one is a wrong one.
const COPIES: usize = 64;

type TakeCopied = Kernel<(Shared<u32>, Guarded<u32>, Shared<u32>, Shared<u32>, Value<Run>)>;

/// A stream's copies, and the words that it writes behind each, one for each block.
#[test]
fn a_copy_and_the_streams_words() {
    let set = set();
    let places = places(&set);
    let rounds = share_of_rounds(PAIRS * places.len());
    each_place("stream's words", &places, |_, place| copied(&set, place, rounds));
}

fn copied(set: &DeviceSet, [from, to]: &[Device; 2], rounds: u32) -> Result<Found, Error> {
    let source = CudaSource::new("litmus.cu", "take_copied", TEXT);
    // SAFETY: the kernel keeps to its arguments as the signature says.
    let source = unsafe { Trusted::new(source.blocks(PAIRS as u32).threads(64)) };
    let kernel: TakeCopied = Kernel::with_source("take_copied", source, |_, _| {
        Err(KernelFault::new("runs on GPUs only"))
    });
    let host = set.host();
    let (control, taken) = (host.shared(1 + 2 * PAIRS * WORDS)?, host.shared(PAIRS)?);
    let (items, words) = (to.guarded(PAIRS * SLOT_ITEMS)?, to.shared(PAIRS * LINE)?);
    let copies = from.stream_of(StreamKind::Copy)?;
    let contents = (0..COPIES * PAIRS * SLOT_ITEMS).map(|at| {
        let (slot, block) = (at / PAIRS / SLOT_ITEMS, at / SLOT_ITEMS % PAIRS);
        hash((slot * SLOT_ITEMS + at % SLOT_ITEMS) as u32) ^ block as u32
    });
    let source = copies.uploaded(contents.collect::<Vec<u32>>())?;
    let stream = to.stream_of(StreamKind::HighPriority)?;
    let launch = |run| kernel.launch(&stream, PAIRS, (&control, &items, &words, &taken, run));
    launch([0, 0, 0, 1000])?;
    stream.record()?.synchronize()?;
    launch([rounds, 1, 0, 40_000])?;
    let len = PAIRS * SLOT_ITEMS;
    for round in 0..rounds {
        let slot = round as usize % COPIES * len;
        // SAFETY: only kernels look at the items.
        copies.copy(source.part(slot..slot + len)?, unsafe { items.part_mut(0..len)? })?;
        let written: Vec<_> = (0..PAIRS).map(|block| (&words, block * LINE, round + 1)).collect();
        copies.signal(&written)?;
        for block in 0..PAIRS {
            // A kernel that has given up says no more.
            while taken.load(block)? != round + 1 && control.load(0)? == 0 {
                std::hint::spin_loop();
            }
        }
    }
    stream.record()?.synchronize()?;
    found(&control, PAIRS)
}
