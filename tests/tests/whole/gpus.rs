//! The case list of GPUs: transfers, events, kernels, links, routers and BFS on
//! the devices that `MILLSTREAM_TEST_DEVICES` names (`cuda:0x4`, `cuda:0-3`,
//! `cuda:0,host:1`). Without it the cases run on four host devices.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::try_join;
use millstream::bfs::{Bfs, BfsOptions, Delta};
use millstream::device::{
    CudaSource, Device, DeviceList, DeviceSet, Kernel, Read, Shared, TransferWay, Trusted, Write,
};
use millstream::flow::{Buffers, Context, Devices, Graph, first_available, scatter};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, reference, validate};
use millstream::worklist::{Routing, Worker};

use crate::link_cases::{forwarded, in_place, spread, unready};

mod algorithms;
mod child;
mod collectives;
mod combinations;
mod command;
mod device;
mod device_links;
mod faults;
mod foreign;
mod full_empty;
mod fused;
mod fused_flags;
mod given_up;
mod joined;
mod large;
mod latency;
mod levels;
mod limits;
mod links;
mod litmus;
mod memory;
mod mixed;
mod near_far;
mod odd_packets;
mod patience;
mod real;
mod rows;
mod steps;
mod telling;
mod topology;
mod trace;
mod transfers;
mod turns;
mod twins;

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

/// A context whose packets all go this way, or choose.
fn by(way: Option<TransferWay>) -> Context {
    // Held for all cases: it keeps the GPUs' contexts, which take a second to make.
    let automatic = context();
    let Some(way) = way else { return automatic };
    Context::builder().devices(Devices::List(list())).transfer(way).build().unwrap()
}

fn set() -> DeviceSet {
    context().device_set().clone()
}

/// How large or how often: less where GPUs are emulated (`scripts/emulate.sh`).
fn scaled<T>(usual: T, emulated: T) -> T {
    if std::env::var_os("MILLSTREAM_EMULATED").is_some() { emulated } else { usual }
}

/// How often a case that races hard repeats what it does: `MILLSTREAM_RUNS`, or `usual`.
fn runs(usual: u32) -> u32 {
    std::env::var("MILLSTREAM_RUNS").map_or(usual, |runs| runs.parse().unwrap())
}

/// Whether GPUs have to be as fast as is promised of H200s that nobody else uses
/// (`MILLSTREAM_STRICT=1`), not just of that order.
fn is_strict() -> bool {
    scaled(std::env::var("MILLSTREAM_STRICT").is_ok_and(|value| value == "1"), false)
}

/// What a case needs that these devices are not.
enum Needs {
    /// GPUs alone, all of them peers.
    Peers,
    /// More than one device.
    Several,
    /// More than one GPU: virtual devices of one are not enough.
    SeveralGpus,
    /// Eight devices.
    Eight,
    /// Emulated GPUs.
    Emulation,
    /// Something else.
    More,
}

/// Says why a case does not run on these devices. `run-tests.sh` fails when one says so, but for
/// emulation and what a list with host devices lacks, or one of other than eight devices, or one
/// device alone, or one GPU.
fn skip(needs: Needs, reason: &str) {
    let needs = match needs {
        Needs::Peers => "needs peers",
        Needs::Several => "needs several",
        Needs::SeveralGpus => "needs several GPUs",
        Needs::Eight => "needs eight",
        Needs::Emulation => "needs emulation",
        Needs::More => "needs more",
    };
    // On a line of its own, also behind the name of a case in a child.
    println!("\nskipped, {needs}: {reason}");
}

fn is_gpu(device: &Device) -> bool {
    device.name().starts_with("cuda")
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
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("keep.cu", "keep", KEEP_SOURCE)) },
    |_, (input, kept, _, count)| {
        let matching = input.iter().filter(|item| *item % 7 == 0);
        let number = kept.iter_mut().zip(matching).map(|(to, item)| *to = *item).count();
        count[0].store(number as u32, Ordering::Release);
        Ok(())
    },
);

#[test]
fn a_small_message_that_is_not_there_yet_holds_up_no_other() {
    let context = context();
    for (device, place) in
        context.devices().iter().flat_map(|device| (0..3).map(move |at| (device, at)))
    {
        context.block_on(unready(&context, device, place)).unwrap().unwrap();
    }
}

#[test]
fn packets_are_sent_on_out_of_the_buffers_they_came_in() {
    let context = context();
    for items in [3, 20_000] {
        context.block_on(forwarded(&context, 10, items)).unwrap().unwrap();
        context.block_on(spread(&context, 10, items)).unwrap().unwrap();
    }
}

#[test]
fn packets_are_written_where_they_are_received() {
    let context = context();
    let (host, devices) = (context.host(), context.devices());
    for from in devices {
        for to in devices.iter().chain([host]).filter(|to| *to != from) {
            let run = in_place(&context, (from, to), 20);
            let (written, pushed) = context.block_on(run).unwrap().unwrap();
            // Small messages may be pushed, too, where an engine is busy.
            assert!(written <= pushed, "{written} of {pushed}");
            assert_eq!(written > 0, from.reaches(to), "{from} to {to}");
        }
    }
}

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
            graph.spawn(async move {
                let stream = input.device().stream()?;
                let scratch = input.device().shared(2)?;
                while let Some(pending) = input.recv().await? {
                    stream.wait(&pending)?;
                    let mut kept = output.buffer(pending.len()).await?;
                    let count = output.counter()?;
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
    echo(1000, 200_000);
}

/// What engines cannot read goes through pinned memory.
#[test]
fn memory_of_the_program_in_large_packets() {
    echo(20_000, 500_001);
}

/// A message goes from the host to each device in packets of so many items, and comes back.
fn echo(packet: usize, items: u64) {
    let context = context();
    for device in context.devices() {
        let graph = Graph::new(&context);
        let (buffers, statistics) = (Buffers::items(packet).count(2), graph.statistics());
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
                feed.send_all((0..items).collect::<Vec<u64>>()).await?;
                feed.shutdown()
            };
            let (_, echoed) = try_join!(feeding, results.collect())?;
            Ok::<_, millstream::flow::Error>(echoed)
        }));
        assert!(echoed.unwrap().unwrap().into_iter().eq(0..items), "{device}");
        let links = statistics.links();
        let fed = links.iter().find(|link| link.to == device.name()).unwrap();
        let is_staged = is_gpu(device) && packet * 8 > 64 << 10;
        assert_eq!(fed.packets_through_host > fed.packets / 2, is_staged, "{fed:?}");
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
    let run = async { Bfs::with_options(context, graph, options).await?.run(sources).await };
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
    let (side, vertices, length) = scaled((100, 5000_u32, 300), (10, 100, 30));
    let path: Vec<_> = (1..length).map(|vertex| (vertex - 1, vertex)).collect();
    let graphs = [
        ("kron", generate::kron(scaled(12, 6), 16, &options).unwrap()),
        ("road", generate::road(side, side, generate::KEEP_PERMILLE, &options).unwrap()),
        ("random", generate::random(vertices, u64::from(2 * vertices), &options).unwrap()),
        ("path", CsrGraph::from_edges(length, &path).unwrap()),
        ("alone", CsrGraph::from_edges(1, &[]).unwrap()),
    ];
    // Emulated, every tenth case: all of them with some graph.
    let (every, number) = (scaled(1, 10), Cell::new(0_u32));
    for (name, graph) in &graphs {
        let busiest = millstream::graph::source::max_degree(graph).unwrap();
        for (routing, worker) in ways(&context) {
            let mut base = crate::bfs::asynchronous();
            (base.worklist.routing, base.worklist.worker) = (routing, worker);
            let case = |change: &dyn Fn(&mut BfsOptions), what: &str| {
                number.set(number.get() + 1);
                if !number.get().is_multiple_of(every) {
                    return;
                }
                let mut options = base;
                change(&mut options);
                let what = format!("{name} {routing:?} {worker:?} {what}");
                search(&context, graph, &[busiest], options, &what);
            };
            case(&|_| {}, "as usual");
            case(&|options| options.predecessors = true, "with predecessors");
            case(&|options| options.worklist.halo_filter = false, "without the halo filter");
            case(&|options| options.delta = Delta::Step(1.0), "level by level");
            case(&|options| options.delta = Delta::Step(8.0), "eight levels at a time");
            case(&|options| options.depth_limit = Some(3), "three levels");
            case(&|options| options.worklist.packet_bytes = 64, "tiny packets");
            case(&|options| options.worklist.queue_entries = Some(16), "tiny queues");
            case(&|options| options.worklist.batch = 33, "small batches");
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
            let mut options = crate::bfs::asynchronous();
            (options.worklist.routing, options.worklist.worker) = (routing, worker);
            options.predecessors = predecessors;
            options.worklist.packet_bytes = 256;
            options.worklist.queue_entries = Some(32);
            let what = format!("small {routing:?} {worker:?}, predecessors {predecessors}");
            search(&context, &graph, &[busiest], options, &what);
        }
    }
}

#[test]
fn bfs_on_larger_graphs() {
    let context = context();
    let options = GenerateOptions::default();
    let (scale, side) = scaled((16, 700), (9, 40));
    for (name, graph) in [
        (format!("kron {scale}"), generate::kron(scale, 16, &options).unwrap()),
        (
            format!("road {side}"),
            generate::road(side, side, generate::KEEP_PERMILLE, &options).unwrap(),
        ),
    ] {
        let busiest = millstream::graph::source::max_degree(&graph).unwrap();
        for (routing, worker) in ways(&context) {
            let mut options = crate::bfs::asynchronous();
            (options.worklist.routing, options.worklist.worker) = (routing, worker);
            let what = format!("{name} {routing:?} {worker:?}");
            let time = search(&context, &graph, &[busiest], options, &what);
            println!("{what}: {:.3} ms", time.as_secs_f64() * 1e3);
        }
    }
}

/// The worklist with the host in the loop, whatever the devices are by themselves: half of
/// `MILLSTREAM_RUNS` searches with each routing.
#[test]
fn many_runs_on_one_graph() {
    let context = context();
    let graph = generate::kron(scaled(9, 7), 8, &GenerateOptions::default()).unwrap();
    let runs = runs(scaled(20, 4));
    for routing in [Routing::Ring, Routing::Direct] {
        let mut options = crate::bfs::asynchronous();
        (options.worklist.routing, options.worklist.worker) = (routing, Worker::HostDriven);
        let bfs = context.block_on(Bfs::with_options(&context, &graph, options)).unwrap().unwrap();
        for run in 0..runs.div_ceil(2) {
            let source = run * 31 % graph.vertices();
            let result = context.block_on(bfs.run(&[source])).unwrap().unwrap();
            let expected = reference::bfs_levels(&graph, &[source], None);
            assert!(result.levels == expected, "{routing:?}, run {run}");
        }
    }
}
