//! Kernels that say themselves that they are over.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use millstream::device::{
    BoundKernel, Completion, CudaSource, DeviceSet, Error, InjectedFault, Injection, Kernel,
    KernelResult, Shared, Stream, StreamKind, Tell, Trusted, Value, Write,
};

use super::{is_gpu, list, litmus, scaled, set};

pub(super) const ITEMS: usize = 1000;

const SOURCE: &str = r#"
#include "span.cuh"
#include "tell.cuh"
using namespace millstream;

__device__ void set_all(Span<u32> items) {
    for (u64 at = threadIdx.x; at < items.len; at += blockDim.x) items[at] += 7;
    __syncthreads();
}

extern "C" __global__ void tells(Span<u32> items, Tell tell) {
    set_all(items);
    if (threadIdx.x == 0) tell.say();
}

extern "C" __global__ void says_nothing(Span<u32> items) { set_all(items); }

// Tells before its end, which is no good but for who wants to know what is heard.
extern "C" __global__ void tells_early(Span<u32> stop, Tell tell) {
    tell.say();
    while (load_relaxed_sys(&stop[0]) == 0) __nanosleep(1000);
}

extern "C" __global__ void waits(Span<u32> stop) {
    while (load_relaxed_sys(&stop[0]) == 0) __nanosleep(1000);
}

// Many blocks, of which the last one tells.
extern "C" __global__ void fills(Span<u32> items, Span<u64> left, u32 value, Tell tell) {
    for (u64 at = thread_in_grid(); at < items.len; at += threads_in_grid()) items[at] = value;
    say_last(tell, left.items);
}
"#;

const fn source(entry: &'static str) -> CudaSource {
    CudaSource::new("telling.cu", entry, SOURCE).blocks(1)
}

fn add_seven(items: &mut [u32]) -> KernelResult {
    items.iter_mut().for_each(|item| *item += 7);
    Ok(())
}

pub(super) static TELLS: Kernel<(Write<u32>, Tell)> = Kernel::with_source(
    "tells",
    // SAFETY: it keeps to its arguments, and tells when its only block is done.
    unsafe { Trusted::new(source("tells")) },
    |_, (items, ())| add_seven(items),
);

static SAYS_NOTHING: Kernel<(Write<u32>,)> = Kernel::with_source(
    "says nothing",
    // SAFETY: it keeps to its arguments.
    unsafe { Trusted::new(source("says_nothing")) },
    |_, (items,)| add_seven(items),
);

pub(super) static TELLS_EARLY: Kernel<(Shared<u32>, Tell)> = Kernel::with_source(
    "tells early",
    // SAFETY: what it uses is kept until it is over, by who launches it.
    unsafe { Trusted::new(source("tells_early").block_each()) },
    |_, _| Ok(()),
);

/// Says nothing, and waits for as long.
pub(super) static WAITS: Kernel<(Shared<u32>,)> = Kernel::with_source(
    "waits",
    // SAFETY: as above.
    unsafe { Trusted::new(source("waits").block_each()) },
    |_, _| Ok(()),
);

static FILLS: Kernel<(Write<u32>, Shared<u64>, Value<u32>, Tell)> = Kernel::with_source(
    "fills",
    // SAFETY: it keeps to its arguments, and the last block, which comes after all others, tells.
    unsafe { Trusted::new(CudaSource::new("telling.cu", "fills", SOURCE)) },
    |_, (items, _, value, ())| {
        items.fill(value);
        Ok(())
    },
);

#[test]
fn completions_of_kernels_that_tell_and_that_do_not() {
    let set = set();
    for device in set.devices() {
        TELLS.prepare(device, 1).unwrap();
        SAYS_NOTHING.prepare(device, 1).unwrap();
        let stream = device.stream().unwrap();
        let mut items = stream.uploaded(vec![0; ITEMS]).unwrap();
        for round in 1..=50 {
            let tells = TELLS.bind(&stream, 1, (&mut items, Tell)).unwrap();
            set.block_on(tells.submit_soon_with_completion().unwrap()).unwrap().unwrap();
            // Of two nobody hears.
            TELLS.launch(&stream, 1, (&mut items, Tell)).unwrap();
            let other = SAYS_NOTHING.bind(&stream, 1, (&mut items,)).unwrap();
            set.block_on(other.submit_soon_with_completion().unwrap()).unwrap().unwrap();
            let found = set.block_on(stream.download(&items).unwrap()).unwrap().unwrap();
            assert_eq!(found, vec![21 * round; ITEMS], "{device}");
        }
    }
    set.quiesce().unwrap();
}

/// Submits a kernel, and says how its end is heard of.
type Way = fn(&Stream, BoundKernel) -> Result<Completion, Error>;

/// It is the kernel that is heard, and not the stream behind it.
#[test]
fn a_kernel_is_heard_before_its_end() {
    let ways: [(&str, Way); 5] = [
        ("together", |_, kernel| kernel.submit_soon_with_completion()),
        ("completed", |stream, kernel| kernel.submit().and_then(|()| stream.completed())),
        ("left, completed", |stream, kernel| {
            kernel.submit_soon().and_then(|()| stream.completed())
        }),
        ("recorded", |stream, kernel| {
            kernel.submit().and_then(|()| Ok(stream.record()?.completed()))
        }),
        ("held", |stream, kernel| {
            let mut held = kernel.enter()?;
            let completion = stream.completed()?;
            held.begin().map(|()| completion)
        }),
    ];
    let set = set();
    for device in set.devices() {
        TELLS_EARLY.prepare(device, 1).unwrap();
        for (name, way) in ways {
            let stream = device.stream().unwrap();
            let stop = set.host().shared::<u32>(1).unwrap();
            let tells = TELLS_EARLY.bind(&stream, 1, (&stop, Tell)).unwrap();
            let mut told = way(&stream, tells).unwrap();
            let is_told = heard(&mut told, Duration::from_secs(10));
            stop.store(0, 1).unwrap();
            is_told.unwrap_or_else(|| panic!("{device}, {name}: not heard before its end"));
            // The kernel itself is over, too: its memory may go.
            set.quiesce().unwrap();
            stream.record().unwrap().synchronize().unwrap();
        }
    }
}

/// What comes after a kernel that tells is over when it is, and no sooner.
#[test]
fn what_comes_behind_a_kernel_that_tells_is_not_heard_before_its_end() {
    let set = set();
    for device in set.devices() {
        TELLS_EARLY.prepare(device, 1).unwrap();
        SAYS_NOTHING.prepare(device, 1).unwrap();
        let stream = device.stream().unwrap();
        let stop = set.host().shared::<u32>(1).unwrap();
        let mut items = device.buffer(ITEMS).unwrap();
        TELLS_EARLY.launch(&stream, 1, (&stop, Tell)).unwrap();
        SAYS_NOTHING.launch(&stream, 1, (&mut items,)).unwrap();
        let mut end = stream.completed().unwrap();
        let is_over = heard(&mut end, Duration::from_millis(50));
        stop.store(0, 1).unwrap();
        // A twin does not wait.
        assert!(!is_gpu(device) || is_over.is_none(), "{device}: heard before it has begun");
        if is_over.is_none() {
            set.block_on(end).unwrap().unwrap();
        }
    }
    set.quiesce().unwrap();
}

/// What fails behind a kernel that tells is no more over for it than anything else.
#[test]
fn a_launch_that_fails_behind_a_kernel_that_tells() {
    let ways: [Way; 2] = [
        |_, kernel| kernel.submit_soon_with_completion(),
        |stream, kernel| kernel.submit().and_then(|()| stream.completed()),
    ];
    for way in ways {
        let faults = vec![InjectedFault::new("says nothing")];
        let injection = Injection { faults, ..Injection::default() };
        let set = DeviceSet::builder().devices(list()).injection(injection).build().unwrap();
        let device = &set.devices()[0];
        TELLS.prepare(device, 1).unwrap();
        SAYS_NOTHING.prepare(device, 1).unwrap();
        let stream = device.stream().unwrap();
        let mut items = stream.uploaded(vec![0; ITEMS]).unwrap();
        TELLS.launch(&stream, 1, (&mut items, Tell)).unwrap();
        let fails = SAYS_NOTHING.bind(&stream, 1, (&mut items,)).unwrap();
        let error = way(&stream, fails).and_then(|end| set.block_on(end).unwrap()).unwrap_err();
        assert!(error.to_string().contains("injected failure of says nothing"), "{error}");
        assert!(stream.check().is_err());
        set.quiesce().unwrap();
        let other = device.stream().unwrap();
        let found = set.block_on(other.download(&items).unwrap()).unwrap().unwrap();
        assert_eq!(found, [7; ITEMS]);
    }
}

/// Whether something is complete within so long, without a failure.
fn heard(completion: &mut Completion, within: Duration) -> Option<()> {
    let deadline = Instant::now() + within;
    loop {
        match completion.now_or_never() {
            None if Instant::now() < deadline => std::thread::yield_now(),
            heard => return heard.map(Result::unwrap),
        }
    }
}

/// Read by a stream that waits for nothing but the host, and given back to be written anew.
#[test]
fn what_all_blocks_have_written_is_there_when_the_last_one_tells() {
    let set = set();
    for device in set.devices() {
        FILLS.prepare(device, 1).unwrap();
        let (stream, other) =
            (device.stream().unwrap(), device.stream_of(StreamKind::Copy).unwrap());
        let left = device.shared(1).unwrap();
        let items = scaled(1 << 17, 1 << 13);
        // A hundredth of the rounds of other litmus cases: in each of them the host waits for a launch
        // and looks at a copy, so that as many would take minutes. These took 1.6 s on an H200; in
        // each of them 512 blocks publish.
        let rounds = if is_gpu(device) { litmus::rounds().div_ceil(100) } else { 1000 };
        for value in 0..rounds as u32 {
            let mut filled = device.buffer_to_overwrite(items).unwrap();
            let fills = FILLS.bind(&stream, items, (&mut filled, &left, value, Tell)).unwrap();
            set.block_on(fills.submit_soon_with_completion().unwrap()).unwrap().unwrap();
            let found = set.block_on(other.download(&filled).unwrap()).unwrap().unwrap();
            let wrong = found.iter().position(|found| *found != value);
            assert_eq!(wrong, None, "{device}, round {value}");
        }
    }
    set.quiesce().unwrap();
}
