//! Two kernels that run at the same time, joined by a link in which the host takes no part: one
//! finds primes, the other adds them up as they come.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-1`, `cuda:0x2` or `host:2`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use millstream::flow::{DeviceLinkEnd, LinkRoom};
use millstream::prelude::*;

const SOURCE: &str = r#"
#include "device_link.cuh"
using namespace millstream;

__device__ bool is_prime(u32 number) {
    for (u32 divisor = 2; divisor * divisor <= number; ++divisor)
        if (number % divisor == 0) return false;
    return number > 1;
}

// Each packet holds the primes of as many numbers as the block has threads. They are written
// where the other kernel reads them: nothing is copied.
extern "C" __global__ void primes(DeviceLink<u32> link, u32 packets) {
    __shared__ u32 count;
    const DeviceSender<u32> out(link, {}, blockIdx.x);
    for (u32 packet = 0; packet < packets; ++packet) {
        if (threadIdx.x == 0) count = 0;
        const LinkSlot<u32> slot = out.claim();
        if (!slot) return;  // the other one did not give one back in time
        const u32 number = (blockIdx.x * packets + packet) * blockDim.x + threadIdx.x;
        if (is_prime(number)) slot[atomicAdd(&count, 1u)] = number;
        __syncthreads();
        out.publish(slot, count);
        __syncthreads();  // before the count is that of the next packet
    }
}

extern "C" __global__ void sum(DeviceLink<u32> link, u32 packets, Span<u64> total) {
    DeviceReceiver<u32> in(link, {}, blockIdx.x);
    for (u32 taken = 0; taken < packets; ++taken) {
        const LinkPacket<u32> packet = in.take();
        if (!packet) return;
        if (threadIdx.x < packet.len)
            fetch_add_relaxed_sys(&total[0], u64(packet[threadIdx.x]));
        in.give_back();
    }
}
"#;

/// Numbers that a packet covers.
const NUMBERS: u32 = 256;
/// Packets of a channel.
const PACKETS: u32 = 25;
/// Blocks at each end; each has a channel of its own.
const CHANNELS: usize = 4;

fn is_prime(number: u32) -> bool {
    number > 1 && (2..).take_while(|d| d * d <= number).all(|d| !number.is_multiple_of(d))
}

/// The kernel for GPUs, and a twin that is called again, block by block, if it had to wait.
static PRIMES: Kernel<(DeviceLinkEnd<u32>, Value<u32>)> = Kernel::of_steps(
    "primes",
    // SAFETY: like its twin, the kernel uses its arguments only as the signature says.
    unsafe {
        Trusted::new(CudaSource::new("primes.cu", "primes", SOURCE).block_each().threads(NUMBERS))
    },
    |block, (link, packets)| {
        let link = link.channel(block)?;
        while link.sent() < *packets {
            let first = (block as u32 * packets + link.sent()) * NUMBERS;
            let claimed = link.try_claim(|slot| {
                let primes = (first..first + NUMBERS).filter(|number| is_prime(*number));
                slot.iter_mut().zip(primes).map(|(to, prime)| *to = prime).count()
            })?;
            if !claimed {
                return Ok(Step::Waits);
            }
        }
        Ok(Step::Done)
    },
);

static SUM: Kernel<(DeviceLinkEnd<u32>, Value<u32>, Shared<u64>)> = Kernel::of_steps(
    "sum",
    // SAFETY: like its twin, the kernel uses its arguments only as the signature says.
    unsafe {
        Trusted::new(CudaSource::new("primes.cu", "sum", SOURCE).block_each().threads(NUMBERS))
    },
    |block, (link, packets, total)| {
        let link = link.channel(block)?;
        while link.received() < *packets {
            let sum = link.try_take(|primes| primes.iter().copied().map(u64::from).sum())?;
            let Some(sum) = sum else { return Ok(Step::Waits) };
            total[0].fetch_add(sum, Ordering::Relaxed);
        }
        Ok(Step::Done)
    },
);

fn main() -> Result<(), millstream::flow::Error> {
    set_driver_defaults();
    let context = Context::builder().devices(Devices::All).build()?;
    let [one, other, ..] = context.devices() else {
        println!("two devices are needed");
        return Ok(());
    };
    if one.is_gpu() != other.is_gpu() {
        println!("the first two devices must be GPUs, or host devices");
        return Ok(());
    }
    // Room in the receiver's memory for a few packets of each channel. Nobody waits longer than 5 s.
    let room = LinkRoom::new(8, NUMBERS as usize).channels(CHANNELS);
    let link = DeviceLink::new(&context, one, other, room, Duration::from_secs(5))?;
    let total = context.host().shared::<u64>(1)?;
    let gang = Gang::new(&context)?;
    gang.prepare(&PRIMES)?;
    gang.prepare(&SUM)?;
    context.block_on(gang.run(|member| match member.place {
        0 => Ok(PRIMES.launch(member.stream, CHANNELS, (&link, PACKETS))?),
        1 => Ok(SUM.launch(member.stream, CHANNELS, (&link, PACKETS, &total))?),
        _ => Ok(()),
    }))??;
    // GPUs' kernels that have waited for too long simply end, so ask the link.
    link.check()?;
    let numbers = NUMBERS * PACKETS * CHANNELS as u32;
    let expected: u64 = (0..numbers).filter(|number| is_prime(*number)).map(u64::from).sum();
    println!("the primes below {numbers} add up to {}", total.load(0)?);
    assert_eq!(total.load(0)?, expected);
    Ok(())
}
