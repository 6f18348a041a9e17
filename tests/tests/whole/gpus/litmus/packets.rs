//! Packets that are full or empty, and copies that tell.

use std::time::Instant;

use millstream::device::{Device, DeviceSet, Error, SharedBuffer};

use super::super::{Needs, is_gpu, set, skip};
use super::{HOST, Litmus, PAIRS, SLOT_ITEMS, WORDS, rounds, side, side_of};

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
    let Some(device) = set.devices().iter().find(|device| is_gpu(device)) else {
        return skip(Needs::Peers, "kernels that wait for the host run on GPUs only");
    };
    let rounds = rounds() as u32;
    let start = Instant::now();
    let wrong = pushed(&set, device, rounds).unwrap();
    println!("push to the host, {device}, {rounds} rounds: {wrong} wrong in {:?}", start.elapsed());
    assert_eq!(wrong, 0, "{device}");
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
