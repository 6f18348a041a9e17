//! The case list of GPUs: transfers, events, kernels, links, routers and BFS on
//! the devices that `MILLSTREAM_TEST_DEVICES` names (`cuda:0x4`, `cuda:0-3`,
//! `cuda:0,host:1`). Without it the cases run on four host devices.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::try_join;
use millstream::bfs::{Bfs, BfsOptions};
use millstream::device::{
    CudaSource, Device, DeviceList, DeviceSet, Error, Kernel, Read, Shared, Stream, StreamKind,
    Value, Write,
};
use millstream::flow::{Buffers, Context, Counter, Devices, Graph, first_available, scatter};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, reference, validate};
use millstream::worklist::{Routing, Worker};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

mod algorithms;
mod child;
mod collectives;
mod command;
mod faults;
mod fused;
mod large;
mod links;
mod litmus;
mod topology;

fn list() -> DeviceList {
    match std::env::var("MILLSTREAM_TEST_DEVICES") {
        Ok(list) => list.parse().unwrap(),
        Err(_) => DeviceList::host(4),
    }
}

/// One context for all cases of a process: a GPU's takes a second to make.
fn context() -> Context {
    static CONTEXT: LazyLock<Context> =
        LazyLock::new(|| Context::builder().devices(Devices::List(list())).build().unwrap());
    CONTEXT.clone()
}

fn set() -> DeviceSet {
    context().device_set().clone()
}

/// Says why a case does not run on these devices; `run-tests.sh` fails when one
/// says so.
fn skip(reason: &str) {
    println!("skipped: {reason}");
}

fn is_gpu(device: &Device) -> bool {
    device.name().starts_with("cuda")
}

fn random_bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(seed);
    (0..count).map(|_| random.random()).collect()
}

#[test]
fn copies_between_all_endpoints() {
    let set = set();
    let endpoints: Vec<Device> = set.devices().iter().chain([set.host()]).cloned().collect();
    for (seed, from) in endpoints.iter().enumerate() {
        for to in &endpoints {
            for count in [1, 1000, (1 << 20) + 3] {
                let data = random_bytes(seed as u64, count);
                let stream = from.stream_of(StreamKind::Copy).unwrap();
                let source = from.buffer::<u8>(count).unwrap();
                let mut source = source.with_label("source");
                stream.upload(data.clone(), &mut source).unwrap();
                let mut target = to.buffer::<u8>(count + 2).unwrap();
                stream.copy(&source, target.part_mut(1..count + 1).unwrap()).unwrap();
                let there = to.stream().unwrap();
                there.wait(&stream.record().unwrap()).unwrap();
                let download = there.download(&target).unwrap();
                let received = set.block_on(download).unwrap().unwrap();
                assert_eq!(received[1..count + 1], data, "{from} to {to}");
                assert_eq!((received[0], received[count + 1]), (0, 0), "{from} to {to}");
            }
        }
    }
    set.quiesce().unwrap();
}

fn filled<T>(set: &DeviceSet, device: &Device, value: T) -> Vec<T>
where
    T: millstream::device::Pod + Send + Sync + PartialEq + std::fmt::Debug,
{
    let stream = device.stream().unwrap();
    let mut buffer = device.buffer::<T>(1001).unwrap();
    stream.fill(buffer.part_mut(1..1000).unwrap(), value).unwrap();
    set.block_on(stream.download(&buffer).unwrap()).unwrap().unwrap()
}

#[test]
fn fills_of_every_width() {
    fn check<T>(set: &DeviceSet, device: &Device, value: T)
    where
        T: millstream::device::Pod + Send + Sync + PartialEq + std::fmt::Debug,
    {
        let items = filled(set, device, value);
        assert!(items[1..1000].iter().all(|item| *item == value), "{device}: {value:?}");
        let zero: T = millstream::device::Zeroable::zeroed();
        assert!(items[0] == zero && items[1000] == zero, "{device}: {value:?}");
    }
    let set = set();
    for device in set.devices() {
        check(&set, device, 7u8);
        check(&set, device, 0x1234u16);
        check(&set, device, [1u8, 2, 3]);
        check(&set, device, 0x1234_5678u32);
        check(&set, device, u64::MAX);
        check(&set, device, 0x1234_5678_9abc_def0u64);
        check(&set, device, [1u32, 2, 3]);
        check(&set, device, [1u8, 2, 3, 4, 5, 6]);
    }
}

const SCALE_SOURCE: &str = r#"
#include "span.cuh"
using namespace millstream;
extern "C" __global__ void scale(Span<const u32> input, Span<u32> output, u32 factor) {
    for (u64 at = thread_in_grid(); at < input.len; at += threads_in_grid())
        output[at] = input[at] * factor;
}
extern "C" __global__ void wrong_size(Span<const u32> input, Span<u32> output, u64 factor) {}
extern "C" __global__ void too_few(Span<const u32> input, Span<u32> output) {}
extern "C" __global__ void too_many(Span<const u32> input, Span<u32> output, u32 a, u32 b) {}
"#;

type ScaleSignature = (Read<u32>, Write<u32>, Value<u32>);

fn scale_kernel(entry: &'static str, text: &'static str) -> Kernel<ScaleSignature> {
    let twin = |_: &millstream::device::Grid,
                (input, output, factor): (&[u32], &mut [u32], u32)| {
        output.iter_mut().zip(input).for_each(|(to, from)| *to = from.wrapping_mul(factor));
        Ok(())
    };
    Kernel::from_closure(entry, twin).with_cuda(CudaSource::new("scale.cu", entry, text))
}

fn launch_scale(
    set: &DeviceSet,
    device: &Device,
    kernel: &Kernel<ScaleSignature>,
) -> Result<Vec<u32>, Error> {
    let stream = device.stream()?;
    let input = stream.uploaded((0..100_000u32).collect::<Vec<_>>())?;
    let mut output = device.buffer(input.len())?;
    kernel.launch(&stream, input.len(), (&input, &mut output, 3))?;
    set.block_on(stream.download(&output)?)?
}

#[test]
fn kernels_and_their_mistakes() {
    let set = set();
    for device in set.devices() {
        let output = launch_scale(&set, device, &scale_kernel("scale", SCALE_SOURCE)).unwrap();
        assert!(output.iter().enumerate().all(|(at, item)| *item == at as u32 * 3), "{device}");
        if !is_gpu(device) {
            continue;
        }
        for (entry, text, expected) in [
            ("wrong_size", SCALE_SOURCE, "parameter 2 of its CUDA source has 8 bytes, not 4"),
            ("too_few", SCALE_SOURCE, "takes 2 parameters, not 3"),
            ("too_many", SCALE_SOURCE, "takes more than 3 parameters"),
            ("missing", SCALE_SOURCE, "scale.cu has no kernel extern \"C\" missing"),
            ("scale", "\nthis is no CUDA", "scale.cu(2)"),
        ] {
            let error = launch_scale(&set, device, &scale_kernel(entry, text)).unwrap_err();
            assert!(error.to_string().contains(expected), "{expected:?}: {error}");
        }
        let twin_only: Kernel<ScaleSignature> = Kernel::new("twin", |_, _| Ok(()));
        let error = launch_scale(&set, device, &twin_only).unwrap_err();
        assert!(matches!(error, Error::NoDeviceCode { .. }), "{error}");
    }
}

#[test]
fn uses_that_are_not_ordered_are_refused() {
    let set = set();
    for device in set.devices() {
        let (one, other) = (device.stream().unwrap(), device.stream().unwrap());
        let mut buffer = device.buffer::<u32>(1 << 20).unwrap().with_label("shared by two");
        one.fill(&mut buffer, 1).unwrap();
        let error = other.fill(&mut buffer, 2).unwrap_err();
        assert!(matches!(error, Error::Hazard { .. }), "{error}");
        assert!(error.to_string().contains("shared by two"), "{error}");
        other.wait(&one.record().unwrap()).unwrap();
        other.fill(&mut buffer, 2).unwrap();
        let items = set.block_on(other.download(&buffer).unwrap()).unwrap().unwrap();
        assert!(items.iter().all(|item| *item == 2));
    }
}

#[test]
fn events_order_streams_of_all_devices() {
    let set = set();
    let streams: Vec<Stream> =
        set.devices().iter().flat_map(|device| (0..3).map(|_| device.stream().unwrap())).collect();
    let count = 1 << 16;
    let mut buffers: Vec<_> =
        streams.iter().map(|stream| stream.device().buffer::<u32>(count).unwrap()).collect();
    let first = random_bytes(5, count).into_iter().map(u32::from).collect::<Vec<_>>();
    streams[0].upload(first.clone(), &mut buffers[0]).unwrap();
    let mut event = streams[0].record().unwrap();
    // Around all streams, many times, without the host waiting.
    for step in 0..streams.len() * 20 {
        let (from, to) = (step % streams.len(), (step + 1) % streams.len());
        streams[to].wait(&event).unwrap();
        let [source, target] = buffers.get_disjoint_mut([from, to]).unwrap();
        streams[to].copy(&*source, target).unwrap();
        event = streams[to].record().unwrap();
    }
    let last = (streams.len() * 20) % streams.len();
    let items = set.block_on(streams[last].download(&buffers[last]).unwrap()).unwrap().unwrap();
    assert_eq!(items, first);
}

#[test]
fn memory_has_an_end() {
    // Its own: nobody else may allocate.
    let set = DeviceSet::builder().devices(list()).open().unwrap();
    for device in set.devices().iter().filter(|device| is_gpu(device)) {
        let error = device.buffer::<u8>(1 << 45).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        let before = device.memory().in_use;
        let buffer = device.buffer::<u8>(1 << 20).unwrap();
        assert_eq!(device.memory().in_use, before + (1 << 20));
        drop(buffer);
        assert_eq!(device.memory().in_use, before);
    }
    let tight = DeviceSet::builder().devices(list()).memory_budget(1000).open().unwrap();
    assert!(tight.devices()[0].buffer::<u8>(1001).is_err());
}

const KEEP_SOURCE: &str = r#"
#include "filter.cuh"
using namespace millstream;
extern "C" __global__ void keep(Span<const u32> input, Span<u32> kept, Span<u32> scratch,
                                Span<u32> count) {
    filter(input, kept, scratch, count, [](u32 item) { return item % 7 == 0; });
}
"#;

static KEEP: Kernel<(Read<u32>, Write<u32>, Shared<u32>, Shared<u32>)> = Kernel::with_source(
    "keep",
    CudaSource::new("keep.cu", "keep", KEEP_SOURCE),
    |_, (input, kept, _, count)| {
        let matching = input.iter().filter(|item| *item % 7 == 0);
        let number = kept.iter_mut().zip(matching).map(|(to, item)| *to = *item).count();
        count[0].store(number as u32, Ordering::Release);
        Ok(())
    },
);

#[test]
fn filtering_over_two_routers() {
    let context = context();
    for (policy, buffers) in
        [(first_available(), Buffers::bytes(1 << 16)), (scatter(), Buffers::bytes(1000).count(3))]
    {
        let graph = Graph::new(&context);
        let input = graph.router(policy).unwrap();
        let gather = graph.router(first_available()).unwrap();
        let mut feed = input.sender(context.host()).unwrap();
        let results = gather.receiver(context.host(), buffers).unwrap();
        for device in context.devices() {
            let mut input = input.receiver(device, buffers).unwrap();
            let mut output = gather.sender(device).unwrap();
            let host = context.host().clone();
            graph.spawn(async move {
                let stream = input.device().stream()?;
                let scratch = input.device().shared(2)?;
                while let Some(pending) = input.recv().await? {
                    stream.wait(&pending)?;
                    let mut kept = output.buffer(pending.len()).await?;
                    let count: Counter = host.shared(1)?;
                    KEEP.launch(&stream, pending.len(), (&pending, &mut kept, &scratch, &count))?;
                    pending.release_after(&stream)?;
                    output.send_counted(kept, count, &stream)?;
                }
                output.shutdown()
            });
        }
        let numbers: Vec<u32> = (0..300_000).collect();
        let feeding = async move {
            feed.send_all(numbers).await?;
            feed.shutdown()
        };
        let run = graph.run(async { try_join!(feeding, results.collect()) });
        let (_, mut kept) = context.block_on(run).unwrap().unwrap();
        kept.sort_unstable();
        assert!(kept.iter().copied().eq((0..300_000).step_by(7)));
    }
}

#[test]
fn a_message_larger_than_all_buffers() {
    let context = context();
    for device in context.devices() {
        let graph = Graph::new(&context);
        let buffers = Buffers::items(1000).count(2);
        let (mut feed, mut input) = graph.link::<u64>(context.host(), device, buffers).unwrap();
        let (mut output, results) = graph.link::<u64>(device, context.host(), buffers).unwrap();
        let stream = device.stream().unwrap();
        graph.spawn(async move {
            while let Some(pending) = input.recv().await? {
                let mut echo = output.buffer(pending.len()).await?;
                stream.wait(&pending)?;
                stream.copy(pending.part()?, echo.part_mut()?)?;
                pending.release_after(&stream)?;
                output.send(echo, &stream)?;
            }
            output.shutdown()
        });
        let echoed = context.block_on(graph.run(async move {
            let feeding = async {
                feed.send_all((0..200_000).collect::<Vec<u64>>()).await?;
                feed.shutdown()
            };
            let (_, echoed) = try_join!(feeding, results.collect())?;
            Ok::<_, millstream::flow::Error>(echoed)
        }));
        assert!(echoed.unwrap().unwrap().into_iter().eq(0..200_000), "{device}");
    }
}

/// The fused worker, where it can run.
fn fused(context: &Context) -> Worker {
    let are_gpus = context.devices().iter().all(Device::is_gpu);
    let is_possible = are_gpus && context.topology().all_peers() && context.devices().len() <= 8;
    if is_possible { Worker::Fused } else { Worker::HostDriven }
}

/// Every way to run a worklist.
fn ways(context: &Context) -> Vec<(Routing, Worker)> {
    let mut workers = vec![Worker::HostDriven, fused(context)];
    workers.dedup();
    let routings = [Routing::Ring, Routing::Direct];
    workers.into_iter().flat_map(|worker| routings.map(|routing| (routing, worker))).collect()
}

/// BFS with these options, verified against the reference; how long it ran.
fn search(
    context: &Context,
    graph: &CsrGraph,
    sources: &[u32],
    options: BfsOptions,
    what: &str,
) -> Duration {
    let limit = options.depth_limit;
    let run = async { Bfs::new(context, graph).await?.with_options(options).run(sources).await };
    let result = context.block_on(run).unwrap().unwrap_or_else(|error| panic!("{what}: {error}"));
    let expected = reference::bfs_levels(graph, sources, limit);
    assert!(result.levels == expected, "{what}: wrong levels");
    if let Some(predecessors) = &result.predecessors {
        validate::bfs_predecessors(graph, &expected, predecessors).unwrap();
    }
    let sent: u64 = result.statistics.devices.iter().map(|device| device.sent).sum();
    let received: u64 = result.statistics.devices.iter().map(|device| device.received).sum();
    assert_eq!(sent, received, "{what}");
    for link in &result.statistics.links {
        assert!(link.largest_packet_bytes <= 1 << 18, "{what}");
    }
    result.run_time
}

#[test]
fn bfs_whatever_the_options() {
    let context = context();
    let options = GenerateOptions::default();
    let graphs = [
        ("kron", generate::kron(12, 16, &options).unwrap()),
        ("road", generate::road(100, 100, generate::KEEP_PERMILLE, &options).unwrap()),
        ("random", generate::random(5000, 10_000, &options).unwrap()),
        (
            "path",
            CsrGraph::from_edges(300, &(1..300).map(|v| (v - 1, v)).collect::<Vec<_>>()).unwrap(),
        ),
        ("alone", CsrGraph::from_edges(1, &[]).unwrap()),
    ];
    for (name, graph) in &graphs {
        let busiest = millstream::graph::source::max_degree(graph).unwrap();
        for (routing, worker) in ways(&context) {
            let mut base = BfsOptions::default();
            (base.routing, base.worker) = (routing, worker);
            let case = |change: &dyn Fn(&mut BfsOptions), what: &str| {
                let mut options = base;
                change(&mut options);
                let what = format!("{name} {routing:?} {worker:?} {what}");
                search(&context, graph, &[busiest], options, &what);
            };
            case(&|_| {}, "as usual");
            case(&|options| options.predecessors = true, "with predecessors");
            case(&|options| options.halo_filter = false, "without the halo filter");
            case(&|options| options.delta = Some(1), "level by level");
            case(&|options| options.delta = Some(8), "eight levels at a time");
            case(&|options| options.depth_limit = 3, "three levels");
            case(&|options| options.packet_bytes = 64, "tiny packets");
            case(&|options| options.queue_entries = Some(16), "tiny queues");
            case(&|options| options.batch = 33, "small batches");
        }
        let sources: Vec<u32> = (0..graph.vertices()).step_by(97).collect();
        search(&context, graph, &sources, BfsOptions::default(), &format!("{name} many sources"));
    }
}

/// Every kernel of BFS, in few and small launches: what memory checkers run.
#[test]
fn bfs_of_small_graphs() {
    let context = context();
    let graph = generate::kron(7, 8, &GenerateOptions::default()).unwrap();
    let busiest = millstream::graph::source::max_degree(&graph).unwrap();
    for (routing, worker) in ways(&context) {
        for predecessors in [false, true] {
            let mut options = BfsOptions::default();
            (options.routing, options.worker) = (routing, worker);
            options.predecessors = predecessors;
            options.packet_bytes = 256;
            options.queue_entries = (worker == Worker::HostDriven).then_some(32);
            let what = format!("small {routing:?} {worker:?}, predecessors {predecessors}");
            search(&context, &graph, &[busiest], options, &what);
        }
    }
}

#[test]
fn bfs_on_larger_graphs() {
    let context = context();
    let options = GenerateOptions::default();
    for (name, graph) in [
        ("kron 16", generate::kron(16, 16, &options).unwrap()),
        ("road 700", generate::road(700, 700, generate::KEEP_PERMILLE, &options).unwrap()),
    ] {
        let busiest = millstream::graph::source::max_degree(&graph).unwrap();
        for (routing, worker) in ways(&context) {
            let mut options = BfsOptions::default();
            (options.routing, options.worker) = (routing, worker);
            let what = format!("{name} {routing:?} {worker:?}");
            let time = search(&context, &graph, &[busiest], options, &what);
            println!("{what}: {:.3} ms", time.as_secs_f64() * 1e3);
        }
    }
}

#[test]
fn many_runs_on_one_graph() {
    let context = context();
    let graph = generate::kron(9, 8, &GenerateOptions::default()).unwrap();
    let runs: u32 = std::env::var("MILLSTREAM_RUNS").map_or(20, |runs| runs.parse().unwrap());
    context
        .block_on(async {
            let bfs = Bfs::new(&context, &graph).await.unwrap();
            for run in 0..runs {
                let source = run * 31 % graph.vertices();
                let result = bfs.run(&[source]).await.unwrap();
                let expected = reference::bfs_levels(&graph, &[source], u32::MAX);
                assert!(result.levels == expected, "run {run}");
            }
        })
        .unwrap();
}

/// From the launch of a kernel that does nothing to the awaiting task.
#[test]
fn latency_of_an_empty_kernel() {
    const SOURCE: &str = "extern \"C\" __global__ void empty(unsigned int) {}";
    let kernel: Kernel<(Value<u32>,)> = Kernel::new("empty", |_, _| Ok(()))
        .with_cuda(CudaSource::new("empty.cu", "empty", SOURCE).blocks(1));
    let set = set();
    let device = &set.devices()[0];
    for in_flight in [1, 64] {
        let streams: Vec<_> = (0..in_flight).map(|_| device.stream().unwrap()).collect();
        let mut times = Vec::new();
        for _ in 0..2000 / in_flight {
            let start = Instant::now();
            let events: Vec<_> = streams
                .iter()
                .map(|stream| {
                    kernel.launch(stream, 1, (7,)).unwrap();
                    stream.record().unwrap()
                })
                .collect();
            for event in events {
                set.block_on(event.completed()).unwrap().unwrap();
            }
            times.push(start.elapsed() / in_flight as u32);
        }
        times.sort_unstable();
        let median = times[times.len() / 2];
        println!("{in_flight} in flight: {median:?} a kernel at the median");
        assert!(median < Duration::from_millis(50));
    }
}
