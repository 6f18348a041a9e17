//! Two kernels that run at the same time, and a link between them that the host takes no
//! part in: one finds primes, the other adds them up as they come.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-1`, `cuda:0x2` or `host:2`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use millstream::device::{Shared, Step, Trusted, Value};
use millstream::flow::{DeviceLink, DeviceLinkEnd, Gang};
use millstream::prelude::*;

const SOURCE: &str = r#"
#include "device_link.cuh"
using namespace millstream;

__device__ bool is_prime(u32 number) {
    for (u32 divisor = 2; divisor * divisor <= number; ++divisor)
        if (number % divisor == 0) return false;
    return number > 1;
}

// Each packet holds the primes of as many numbers as the block has threads.
extern "C" __global__ void primes(DeviceLink<u32> link, u32 packets) {
    __shared__ u32 found[256];
    __shared__ u32 count;
    const DeviceSender<u32> out(link);
    for (u32 packet = 0; packet < packets; ++packet) {
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
        const u32 number = packet * blockDim.x + threadIdx.x;
        if (is_prime(number)) found[atomicAdd(&count, 1u)] = number;
        __syncthreads();
        if (!out.send(found, count)) return;  // the other one did not take it in time
    }
}

extern "C" __global__ void sum(DeviceLink<u32> link, u32 packets, Span<u64> total) {
    __shared__ u32 items[256];
    DeviceReceiver<u32> in(link);
    u32 count;
    for (u32 packet = 0; packet < packets; ++packet) {
        if (!in.receive(items, &count)) return;
        if (threadIdx.x < count) fetch_add_relaxed_sys(&total[0], u64(items[threadIdx.x]));
        __syncthreads();  // before the next packet takes the room
    }
}
"#;

const NUMBERS: u32 = 256;
const PACKETS: u32 = 100;

fn is_prime(number: u32) -> bool {
    number > 1 && (2..).take_while(|d| d * d <= number).all(|d| !number.is_multiple_of(d))
}

/// What GPUs run, and a twin that is called again where it had to wait.
static PRIMES: Kernel<(DeviceLinkEnd<u32>, Value<u32>)> = Kernel::of_steps(
    "primes",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe {
        Trusted::new(CudaSource::new("primes.cu", "primes", SOURCE).blocks(1).threads(NUMBERS))
    },
    |_, (link, packets)| {
        while link.sent() < *packets {
            let numbers = link.sent() * NUMBERS..(link.sent() + 1) * NUMBERS;
            if !link.try_send(&numbers.filter(|number| is_prime(*number)).collect::<Vec<_>>())? {
                return Ok(Step::Waits);
            }
        }
        Ok(Step::Done)
    },
);

static SUM: Kernel<(DeviceLinkEnd<u32>, Value<u32>, Shared<u64>)> = Kernel::of_steps(
    "sum",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("primes.cu", "sum", SOURCE).blocks(1).threads(NUMBERS)) },
    |_, (link, packets, total)| {
        while link.received() < *packets {
            let Some(items) = link.try_receive()? else { return Ok(Step::Waits) };
            let sum = items.into_iter().map(u64::from).sum();
            total[0].fetch_add(sum, Ordering::Relaxed);
        }
        Ok(Step::Done)
    },
);

fn main() -> Result<(), millstream::flow::Error> {
    let context = Context::builder().devices(Devices::All).build()?;
    let [one, other, ..] = context.devices() else {
        println!("two devices are needed");
        return Ok(());
    };
    if !one.reaches(other) || !other.reaches(one) {
        println!("kernels of {one} and {other} do not reach each other's memory");
        return Ok(());
    }
    // Room for a few packets, in the receiver's memory; nobody waits longer than 5 s.
    let room = (8, NUMBERS as usize);
    let link = DeviceLink::new(&context, one, other, room, Duration::from_secs(5))?;
    let total = context.host().shared::<u64>(1)?;
    let gang = Gang::new(&context)?;
    gang.prepare(&PRIMES)?;
    gang.prepare(&SUM)?;
    context.block_on(gang.run(|member| match member.place {
        0 => Ok(PRIMES.launch(member.stream, 1, (&link, PACKETS))?),
        1 => Ok(SUM.launch(member.stream, 1, (&link, PACKETS, &total))?),
        _ => Ok(()),
    }))??;
    // Kernels of GPUs that have waited for too long just end.
    link.check()?;
    let expected: u64 = (0..NUMBERS * PACKETS).filter(|n| is_prime(*n)).map(u64::from).sum();
    println!("the primes below {} add up to {}", NUMBERS * PACKETS, total.load(0)?);
    assert_eq!(total.load(0)?, expected);
    Ok(())
}
