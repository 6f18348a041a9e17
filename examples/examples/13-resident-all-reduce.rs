//! Kernels that stay on their devices and repeatedly sum over all of them, without the host: they
//! find the median of numbers that are spread over the devices, bit by bit.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-3`, `cuda:0x4` or `host:4`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use millstream::flow::{ResidentCollectives, ResidentRank};
use millstream::prelude::*;

const SOURCE: &str = r#"
#include "block_collectives.cuh"
using namespace millstream;

// As many numbers of all devices are smaller than the median as `smaller` says.
extern "C" __global__ void median(const __grid_constant__ ResidentCollectives resident,
                                  Span<const u32> numbers, u32 smaller, Span<u32> found) {
    __shared__ u32 count;
    BlockCollectives collectives(resident);
    const auto add = [](u32 one, u32 other) { return one + other; };
    u32 median = 0;
    for (u32 bit = 1u << 31; bit != 0; bit >>= 1) {
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
        u32 own = 0;
        for (u64 at = threadIdx.x; at < numbers.len; at += blockDim.x)
            own += numbers[at] < (median | bit);
        atomicAdd(&count, own);
        if (!collectives.all_reduce(&count, &count, 1, add)) return;  // one did not come in time
        if (count <= smaller) median |= bit;
        __syncthreads();  // before the next count
    }
    collectives.leave();
    if (threadIdx.x == 0) found[collectives.rank()] = median;
}
"#;

/// The kernel for GPUs, and a twin that is called again if it had to wait; so it keeps what it
/// knows in `found`.
static MEDIAN: Kernel<(ResidentRank, Read<u32>, Value<u32>, Shared<u32>)> = Kernel::of_steps(
    "median",
    // SAFETY: like its twin, the kernel uses its arguments only as the signature says.
    unsafe { Trusted::new(CudaSource::new("median.cu", "median", SOURCE).blocks(1)) },
    |block, (resident, numbers, smaller, found)| {
        let mut collectives = resident.block(block)?;
        let found = &found[resident.rank()];
        while collectives.completed() < 32 {
            let middle = found.load(Ordering::Relaxed) | 1 << (31 - collectives.completed());
            let own = numbers.iter().filter(|number| **number < middle).count() as u32;
            let Some(count) = collectives.all_reduce(&[own], |one, other| one + other)? else {
                return Ok(Step::Waits);
            };
            if count[0] <= *smaller {
                found.store(middle, Ordering::Relaxed);
            }
        }
        collectives.leave();
        Ok(Step::Done)
    },
);

/// How many numbers each device has.
const NUMBERS: u32 = 10_000;

fn main() -> Result<(), millstream::flow::Error> {
    set_driver_defaults();
    let context = Context::builder().devices(Devices::All).build()?;
    if !ResidentCollectives::are_possible(&context) {
        println!(
            "the devices must be up to {} that are all peers, GPUs or host devices",
            Gang::MOST
        );
        return Ok(());
    }
    let ranks = context.devices().len() as u32;
    let mut all: Vec<u32> = (0..ranks * NUMBERS).map(|n| n.wrapping_mul(2_654_435_761)).collect();
    let mut numbers = Vec::new();
    for (device, own) in context.devices().iter().zip(all.chunks(NUMBERS as usize)) {
        let stream = device.stream()?;
        numbers.push(stream.uploaded(own.to_vec())?);
        stream.record()?.synchronize()?;
    }
    let found = context.host().shared::<u32>(ranks as usize)?;
    let smaller = ranks * NUMBERS / 2;

    // One block of each kernel calls the collectives. Nobody waits longer than 5 s.
    let collectives = ResidentCollectives::new(&context, 1, 4096, Duration::from_secs(5))?;
    let gang = Gang::new(&context)?;
    gang.prepare(&MEDIAN)?;
    let words = gang.words().clone();
    let run = gang.run(|member| {
        let resident = (&collectives, &words, member.place);
        let arguments = (resident, &numbers[member.place], smaller, &found);
        Ok(MEDIAN.launch(member.stream, 1, arguments)?)
    });
    let time = context.block_on(run)??;

    all.sort_unstable();
    let expected = all[smaller as usize];
    println!(
        "the median of {} numbers on {ranks} devices is {expected}, after {time:?}",
        all.len()
    );
    for rank in 0..ranks as usize {
        assert_eq!(found.load(rank)?, expected, "rank {rank}");
    }
    Ok(())
}
