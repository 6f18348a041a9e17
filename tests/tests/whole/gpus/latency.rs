//! From the launch of a kernel that does nothing to the task that awaits it.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select, try_join_all};
use millstream::device::{
    CudaSource, Device, DeviceSet, Event, Kernel, Result, Shared, Stream, StreamKind, Trusted,
    Value,
};

use super::{is_gpu, is_strict, scaled, set};

const EMPTY_SOURCE: &str = "extern \"C\" __global__ void empty(unsigned int) {}";

static EMPTY: Kernel<(Value<u32>,)> = Kernel::with_source(
    "empty",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("empty.cu", "empty", EMPTY_SOURCE).blocks(1)) },
    |_, _| Ok(()),
);

const HELD_SOURCE: &str = r#"
#include "atomics.cuh"
#include "span.cuh"
extern "C" __global__ void held(millstream::Span<millstream::u32> gate) {
    if (threadIdx.x == 0) {
        while (!millstream::load_acquire_sys(&gate[0])) {}
    }
}
"#;

/// Runs until the host opens a gate.
pub(super) static HELD: Kernel<(Shared<u32>,)> = Kernel::with_source(
    "held",
    // SAFETY: the kernel keeps to its arguments as the signature says.
    unsafe { Trusted::new(CudaSource::new("held.cu", "held", HELD_SOURCE).blocks(1)) },
    |_, _| Ok(()),
);

/// Streams of the kernels in flight beside the one that is timed, and kernels on each of them:
/// fewer streams than a GPU's hardware queues, in each of which one waits for the other.
const OTHERS: [(usize, usize); 3] = [(1, 63), (3, 21), (7, 9)];

/// Far more than it takes where nothing else runs; emulated GPUs and host devices share
/// processors.
fn most(device: &Device) -> Duration {
    let of_gpu = scaled(Duration::from_micros(45), Duration::from_secs(1));
    if is_gpu(device) { of_gpu } else { Duration::from_secs(1) }
}

/// What is promised where that is asked for, of one kernel alone or beside kernels on so many
/// other streams. The driver alone takes longer with several (decision 28).
fn most_beside(device: &Device, streams: usize) -> Duration {
    match streams {
        0 | 1 if is_strict() && is_gpu(device) => Duration::from_micros(15),
        0 => most(device),
        _ => 2 * most(device),
    }
}

/// Until the task runs again, one kernel after the other; the median.
async fn median_latency(stream: &Stream) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..scaled(1000, 50) {
        let start = Instant::now();
        EMPTY.launch(stream, 1, (7,))?;
        stream.completed()?.await?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// The same while other tasks await kernels that are in flight.
async fn median_beside_others(
    set: &DeviceSet,
    device: &Device,
    (streams, on_each): (usize, usize),
) -> Result<Duration> {
    let gate = set.host().shared::<u32>(1)?;
    let mut events = Vec::new();
    for _ in 0..streams {
        let stream = device.stream_of(StreamKind::Gang)?;
        for _ in 0..on_each {
            HELD.launch(&stream, 1, (&gate,))?;
            events.push(stream.record()?);
        }
    }
    let stream = device.stream()?;
    let others = pin!(try_join_all(events.iter().map(Event::completed)));
    let timing = pin!(median_latency(&stream));
    let (median, others) = match select(others, timing).await {
        Either::Right(of_timing) => of_timing,
        Either::Left((ended, _)) => panic!("the gate is closed: {ended:?}"),
    };
    gate.store(0, 1)?;
    others.await?;
    median
}

#[test]
fn latency_of_an_empty_kernel() {
    let set = set();
    let device = &set.devices()[0];
    let alone = set.block_on(async { median_latency(&device.stream()?).await }).unwrap().unwrap();
    println!("1 in flight: {alone:?}");
    assert!(alone < most_beside(device, 0), "{alone:?}");
    if !is_gpu(device) {
        // Such a twin would have to wait.
        return;
    }
    HELD.prepare(device, 1).unwrap();
    for others in OTHERS {
        let beside = set.block_on(median_beside_others(&set, device, others)).unwrap().unwrap();
        println!(
            "{} in flight, others on {} streams: {beside:?}",
            1 + others.0 * others.1,
            others.0
        );
        assert!(beside < most_beside(device, others.0), "{beside:?}");
    }
}

/// What a kernel takes when many are launched before the first is awaited.
#[test]
fn many_empty_kernels_at_once() {
    let set = set();
    let device = &set.devices()[0];
    let streams: Vec<_> = (0..64).map(|_| device.stream().unwrap()).collect();
    let mut times = Vec::new();
    for _ in 0..scaled(50, 5) {
        let start = Instant::now();
        let launch = |stream: &Stream| {
            EMPTY.launch(stream, 1, (7,))?;
            stream.record()
        };
        let events = streams.iter().map(launch).collect::<Result<Vec<_>>>().unwrap();
        set.block_on(try_join_all(events.iter().map(Event::completed))).unwrap().unwrap();
        times.push(start.elapsed() / streams.len() as u32);
    }
    times.sort_unstable();
    let median = times[times.len() / 2];
    println!("64 at once: {median:?} a kernel");
    assert!(median < most(device), "{median:?}");
}
