//! Runs in which nothing changes for longer than their patience: kernels that never
//! return end with an error, also where they wait for a device that is silent; kernels that the
//! host launches may take any time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::bfs::{self, Bfs, BfsOptions};
use millstream::cc::{Cc, CcOptions};
use millstream::device::{
    CudaSource, Device, Kernel, KernelFault, Shared, StreamKind, Trusted, Value,
};
use millstream::flow::{Context, Gang};
use millstream::graph::{CsrGraph, partition};
use millstream::pagerank::{PageRank, PageRankOptions};
use millstream::sssp::{self, Sssp, SsspOptions};
use millstream::worklist::{CudaProgram, Flags, Here, View, problem};
use millstream::worklist::{DistributedWorklist, Program, Worker, WorklistStatistics};

use super::{Needs, context, fused, scaled, skip};
use crate::near_far::road;

/// Every item is kept; the last one takes long.
const SLOW: &str = r#"
#include "gang.cuh"
#include "worklist.cuh"
using namespace millstream;
struct Slow {
    struct Problem { Span<u32> slow; };
    struct Arc { u32 target; };
    using State = u32;
    using Packet = u32;
    __device__ static u32 unpack(const Problem&, const Here&, u32 packet) { return packet; }
    __device__ static u32 pack(const Problem&, const Here&, u32 item) { return item; }
    __device__ static Flags on_send(const Problem&, const Here&, u32) { return Flags::keep; }
    __device__ static Flags on_receive(const Problem&, const Here&, u32) { return Flags::keep; }
    __device__ static u32 priority(const Problem&, u32) { return 0; }
    __device__ static u32 owner(const Problem&, u32) { return 0; }
    __device__ static u32 begin(const Problem& problem, const Here&, u32 item, u64* first,
                                u64* last) {
        const u64 milliseconds = item == 2 ? problem.slow[0] : 0;
        const u64 start = nanoseconds();
        while (nanoseconds() - start < milliseconds * 1000000) __nanosleep(10000);
        *first = item;
        *last = item < 2 ? item + 1 : item;
        return 0;
    }
    __device__ static Arc arc(const Problem&, u64 at) { return {u32(at) + 1}; }
    __device__ static bool visit(const Problem&, const Here&, u32, const Arc&, u32*, u32*) {
        return true;
    }
};
"#;

problem! {
    struct SlowProblem, SlowView {
        /// Milliseconds that the last item takes.
        slow: Shared<u32>,
    }
}

#[derive(Debug)]
struct Slow;

impl Program for Slow {
    type Packet = u32;
    type Problem = SlowProblem;

    fn pack(&self, _: &View<'_, Self>, _: &Here, item: u32) -> u32 {
        item
    }

    fn unpack(&self, _: &View<'_, Self>, _: &Here, packet: &u32) -> u32 {
        *packet
    }

    fn on_send(&self, _: &View<'_, Self>, _: &Here, _: u32) -> Flags {
        Flags::Keep
    }

    fn on_receive(&self, _: &View<'_, Self>, _: &Here, _: &u32) -> Flags {
        Flags::Keep
    }

    fn owner(&self, _: u32) -> Option<usize> {
        Some(0)
    }

    fn process(
        &self,
        view: &View<'_, Self>,
        _: &Here,
        item: u32,
        emit: &mut impl FnMut(u32),
        _: &mut u64,
    ) {
        if item < 2 {
            return emit(item + 1);
        }
        let milliseconds = view.slow[0].load(std::sync::atomic::Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(milliseconds.into()));
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        // SAFETY: as the twins.
        Some(unsafe {
            Trusted::new(CudaProgram { file: "slow.cuh", text: SLOW, class: "Slow", structs: &[] })
        })
    }
}

/// Three items one after the other, the last of which takes so long.
fn run(milliseconds: u32, patience: Duration) -> Result<WorklistStatistics, String> {
    let context = context();
    let problem = |device: &millstream::device::Device| {
        let slow = device.shared(1).unwrap();
        let stream = device.stream().unwrap();
        stream.upload_shared(Arc::from([milliseconds]), &slow, 0..1).unwrap();
        context.block_on(stream.record().unwrap().completed()).unwrap().unwrap();
        Arc::new(SlowProblem { slow })
    };
    let problems = context.devices().iter().map(problem).collect();
    let worklist = DistributedWorklist::new(&context, Arc::new(Slow), problems, 3);
    let worklist = worklist.worker(fused(&context)).patience(patience);
    worklist.prepare().unwrap();
    let result = context.block_on(async { worklist.run(&[(0, 0)]).await });
    // A flow error is that of the worklist's own future.
    result.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

#[test]
fn a_run_out_of_patience() {
    let patience = Duration::from_millis(scaled(200, 20));
    let slow = 5 * patience.as_millis() as u32;
    let start = Instant::now();
    let result = run(slow, patience);
    if fused(&context()) == Worker::HostDriven {
        assert_eq!(result.unwrap().work_items(), 3);
        return;
    }
    let error = result.unwrap_err();
    // Not before, and once the item is done: kernels do not end in the middle of one.
    assert!(start.elapsed() >= patience, "{error}");
    let name = context().devices()[0].name();
    let named = format!("; {name}: ");
    for part in ["nothing has changed", &named, "produced", "work items", "threshold", "patience"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    println!("{error}");
    // The devices are as good as new.
    assert_eq!(run(1, Duration::from_secs(10)).unwrap().work_items(), 3);
}

const SLEEP: &str = r#"
#include "gang.cuh"
extern "C" __global__ void sleep(millstream::u32 milliseconds) {
    const millstream::u64 start = millstream::nanoseconds();
    while (millstream::nanoseconds() - start < milliseconds * 1000000ull) __nanosleep(10000);
}
"#;

static SLEEP_ON_GPU: Kernel<(Value<u32>,)> = Kernel::with_source(
    "sleep",
    // SAFETY: it only waits.
    unsafe { Trusted::new(CudaSource::new("sleep.cu", "sleep", SLEEP)) },
    |_, _| Err(KernelFault::new("GPUs only")),
);

/// Nothing of a gang begins on the device for so long.
fn keep_silent(device: &Device, milliseconds: u32) {
    for _ in 0..Gang::MOST {
        let stream = device.stream_of(StreamKind::Gang).unwrap();
        SLEEP_ON_GPU.launch(&stream, 1, (milliseconds,)).unwrap();
    }
}

/// Uploads a graph and searches it by the gang that a word names; calls `silence` between.
async fn search(
    context: &Context,
    road: &CsrGraph,
    gang: &str,
    patience: Duration,
    silence: impl Fn(),
) -> Result<(), Box<dyn std::error::Error>> {
    let parts = partition::edge_balanced_blocks(road, context.devices().len());
    match gang {
        "level" | "fused" => {
            let mut options = BfsOptions::default();
            options.algorithm = match gang {
                "level" => bfs::Algorithm::LevelSynchronous,
                _ => bfs::Algorithm::Asynchronous,
            };
            options.patience = patience;
            let bfs = Bfs::with_options(context, road, options).await?;
            silence();
            bfs.run(&[0]).await?;
        }
        "step" | "threshold" => {
            let mut options = SsspOptions::default();
            options.algorithm = match gang {
                "step" => sssp::Algorithm::Stepping,
                _ => sssp::Algorithm::NearFar,
            };
            options.patience = patience;
            let sssp = Sssp::with_partition(context, road, parts, options).await?;
            silence();
            sssp.run(&[0]).await?;
        }
        "components" => {
            let mut options = CcOptions::default();
            options.patience = patience;
            let cc = Cc::with_options(context, road, options).await?;
            silence();
            cc.run().await?;
        }
        _ => {
            let mut options = PageRankOptions::default();
            options.patience = patience;
            let ranks = PageRank::with_partition(context, road, parts, options).await?;
            silence();
            ranks.run().await?;
        }
    }
    Ok(())
}

/// The others do not wait for longer than their patience, and say where each device stood.
#[test]
fn a_device_that_is_silent() {
    let context = context();
    let devices = context.devices();
    let [first, .., last] = devices else { return skip(Needs::Several, "nobody waits") };
    if !Gang::can_meet(&context) {
        return skip(Needs::Peers, "these devices are no gang");
    }
    if first.shares_gpu_with(last) {
        return skip(Needs::SeveralGpus, "neither of two devices on one GPU can be silent alone");
    }
    let road = road(24, 80, 9);
    let run = |gang, patience, silence: &dyn Fn()| {
        let search = async {
            let result = search(&context, &road, gang, patience, silence).await;
            Ok::<_, millstream::flow::Error>(result.map_err(|error| error.to_string()))
        };
        context.block_on(search).unwrap().unwrap()
    };
    let (patience, usual) = (Duration::from_millis(20), Duration::from_secs(10));
    let not_met = format!("not met for {patience:?}");
    let gangs = [
        ("level", "level 1", &*not_met),
        ("step", "step 1", &not_met),
        ("threshold", "threshold 1", &not_met),
        ("components", "met 0 times", &not_met),
        ("sweeps", "met 0 times", &not_met),
        ("fused", "patience 20ms", "nothing has changed"),
    ];
    // The first leads where one does.
    for ((gang, place, late), silent) in gangs.into_iter().flat_map(|it| [(it, last), (it, first)])
    {
        // Whatever would wait for the silent device is there after this.
        assert_eq!(run(gang, usual, &|| {}), Ok(()), "{gang}");
        let error = run(gang, patience, &|| keep_silent(silent, scaled(300, 100))).unwrap_err();
        println!("{error}");
        for part in [late, place] {
            assert!(error.contains(part), "{part}, {silent} silent: {error}");
        }
        for device in devices {
            assert!(error.contains(&format!("; {device}: ")), "{device}: {error}");
        }
        assert_eq!(run(gang, usual, &|| {}), Ok(()), "{gang}");
    }
}
