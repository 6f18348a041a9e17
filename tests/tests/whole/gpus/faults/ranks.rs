//! A kernel traps on one rank while kernels of the others wait for it, or for packets: all of
//! them end, long before their patience, and everybody hears the first cause.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use millstream::bfs::{Algorithm as BfsAlgorithm, Bfs};
use millstream::cc::{Cc, Method};
use millstream::device::{CudaSource, KernelFault, Step, Stream, StreamKind, Trusted};
use millstream::flow::{
    Communicator, CommunicatorOptions, FullEmpty, FullEmptyPackets, FullEmptySegment, Gang,
    Operator, PacketShape, ResidentCollectives, ResidentRank,
};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, partition, source};
use millstream::pagerank::{Algorithm as RankAlgorithm, PageRank, PageRankOptions};
use millstream::sssp::{Algorithm, Sssp, SsspOptions};
use millstream::worklist::Worker;

use super::super::child::in_child;
use super::super::{Needs, is_gpu, scaled, skip};
use super::{Context, Device, Kernel, LIMIT, Shared, Value, builder, kernel, refused};
use crate::collective_model::upload;
use crate::full_empty_kernels::SCALE;

/// Of whoever waits; nobody should.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Less than the patience of a search, too.
pub(super) const SOON: Duration = Duration::from_secs(9);

/// A context whose devices can run gangs, and meet.
fn context() -> Option<Context> {
    let context = builder().build().unwrap();
    if Gang::can_meet(&context) {
        return Some(context);
    }
    skip(Needs::Peers, "only GPUs with NVLink between all meet");
    None
}

/// Who traps: the last, so that the first, which leads the fused worklist, waits, too.
fn culprit(context: &Context) -> &Device {
    context.devices().last().unwrap()
}

/// The result of one search.
type Searched = Result<(), String>;

/// Searches again and again, until a kernel beside them traps.
fn ends_a_search(context: &Context, search: impl Fn() -> Searched) {
    // Loads what it needs.
    search().unwrap();
    let stop = context.host().shared::<u32>(1).unwrap();
    let stream = culprit(context).stream().unwrap();
    kernel("traps", 1).launch(&stream, 1, (&stop, 60_000)).unwrap();
    let event = stream.record().unwrap();
    let trapping = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        stop.store(0, 1).unwrap();
        Instant::now()
    });
    let error = loop {
        if let Err(error) = search() {
            break error;
        }
        assert!(!event.is_complete() || event.synchronize().is_err(), "the kernel did not trap");
    };
    let trapped = trapping.join().unwrap();
    let cause = event.synchronize().unwrap_err();
    println!("{cause}, heard after {:?}", trapped.elapsed());
    assert!(trapped.elapsed() < SOON, "{:?}", trapped.elapsed());
    assert!(cause.to_string().contains("CUDA_ERROR_"), "{cause}");
    assert!(error.contains(&cause.to_string()), "{error}");
    for device in context.devices() {
        refused("a stream", &cause.clone().into(), || device.stream());
    }
    // Those of other graphs and of this one.
    let again = search().unwrap_err();
    assert!(again.contains(&cause.to_string()), "{again}");
}

fn of<T, E: ToString, F: ToString>(result: Result<Result<T, E>, F>) -> Searched {
    let result = result.map_err(|error| error.to_string())?;
    result.map(drop).map_err(|error| error.to_string())
}

fn bfs(algorithm: BfsAlgorithm) {
    let Some(context) = context() else { return };
    let graph = generate::kron(scaled(12, 8), 8, &GenerateOptions::default()).unwrap();
    let busiest = source::max_degree(&graph).unwrap();
    let mut options = crate::levels::ways()[0];
    if algorithm == BfsAlgorithm::Asynchronous {
        options = crate::bfs::asynchronous();
        options.worklist.worker = Worker::Fused;
    }
    let upload = Bfs::with_options(&context, &graph, options);
    let bfs = context.block_on(upload).unwrap().unwrap();
    assert_eq!(bfs.algorithm(), algorithm);
    ends_a_search(&context, || of(context.block_on(bfs.run(&[busiest]))));
}

fn sssp(graph: &CsrGraph, algorithm: Algorithm) {
    let Some(context) = context() else { return };
    let from = source::max_degree(graph).unwrap();
    let parts = partition::edge_balanced_blocks(graph, context.devices().len());
    let mut options = SsspOptions::default();
    options.algorithm = algorithm;
    let upload = Sssp::with_partition(&context, graph, parts, options);
    let sssp = context.block_on(upload).unwrap().unwrap();
    assert_eq!(sssp.algorithm(), algorithm);
    ends_a_search(&context, || of(context.block_on(sssp.run(&[from]))));
}

fn ranks(tolerance: f64) {
    let Some(context) = context() else { return };
    let graph = generate::kron(scaled(12, 8), 8, &GenerateOptions::default()).unwrap();
    let mut options = PageRankOptions::default();
    (options.algorithm, options.tolerance) = (RankAlgorithm::Pull, tolerance);
    let upload = PageRank::with_options(&context, &graph, options);
    let ranks = context.block_on(upload).unwrap().unwrap();
    ends_a_search(&context, || of(context.block_on(ranks.run())));
}

fn components(graph: &CsrGraph, method: Method) {
    let Some(context) = context() else { return };
    let components = context.block_on(Cc::new(&context, graph)).unwrap().unwrap();
    let result = context.block_on(components.run()).unwrap().unwrap();
    assert_eq!(result.method, Some(method));
    ends_a_search(&context, || of(context.block_on(components.run())));
}

/// A series of collectives that streams order: in lines, in one pass, along a chain and round a ring.
fn series() {
    let Some(context) = context() else { return };
    let ranks = context.devices().len();
    if ranks == 1 {
        return skip(Needs::Several, "nobody waits");
    }
    let mut options = CommunicatorOptions::default();
    (options.patience, options.line_bytes) = (PATIENCE, 4 << 10);
    options.ring_bytes = Some(100_000);
    let communicator = Communicator::with_options(&context, options).unwrap();
    let vectors = |items| upload(&context, &vec![vec![1u32; items]; ranks]).unwrap();
    let state = RefCell::new((communicator, vectors(100 * ranks), vectors(40_000)));
    ends_a_search(&context, || {
        let (communicator, short, long) = &mut *state.borrow_mut();
        of(context.block_on(async {
            let mut collectives = communicator.begin().await?;
            for root in [0, ranks - 1] {
                collectives.all_reduce(&mut *short, &Operator::sum())?;
                collectives.all_to_all(&mut *short)?;
                collectives.reduce(root, &mut *long, &Operator::sum())?;
                collectives.reduce_scatter(&mut *long, &Operator::sum())?;
                collectives.all_reduce(&mut *long, &Operator::sum())?;
                collectives.barrier()?;
            }
            collectives.completed().await
        }))
    });
}

#[test]
fn collectives_in_a_series() {
    in_child(concat!(module_path!(), "::collectives_in_a_series"), LIMIT, series);
}

#[test]
fn a_search_by_levels() {
    let case = concat!(module_path!(), "::a_search_by_levels");
    in_child(case, LIMIT, || bfs(BfsAlgorithm::LevelSynchronous));
}

#[test]
fn a_fused_search() {
    let case = concat!(module_path!(), "::a_fused_search");
    in_child(case, LIMIT, || bfs(BfsAlgorithm::Asynchronous));
}

#[test]
fn paths_in_steps() {
    in_child(concat!(module_path!(), "::paths_in_steps"), LIMIT, || {
        let options = GenerateOptions { seed: 1, max_weight: Some(20) };
        let graph = generate::kron(scaled(12, 8), 8, &options).unwrap();
        sssp(&graph, Algorithm::Stepping);
    });
}

#[test]
fn paths_by_near_and_far() {
    in_child(concat!(module_path!(), "::paths_by_near_and_far"), LIMIT, || {
        sssp(&crate::near_far::road(24, scaled(800, 80), 9), Algorithm::NearFar);
    });
}

#[test]
fn sweeps_of_ranks() {
    in_child(concat!(module_path!(), "::sweeps_of_ranks"), LIMIT, || ranks(1e-4));
}

#[test]
fn sweeps_of_ranks_in_f64() {
    in_child(concat!(module_path!(), "::sweeps_of_ranks_in_f64"), LIMIT, || ranks(1e-12));
}

#[test]
fn components_outside_a_hub() {
    in_child(concat!(module_path!(), "::components_outside_a_hub"), LIMIT, || {
        let graph = generate::kron(scaled(12, 8), 8, &GenerateOptions::default()).unwrap();
        components(&graph, Method::OutsideHub);
    });
}

#[test]
fn components_of_a_road() {
    in_child(concat!(module_path!(), "::components_of_a_road"), LIMIT, || {
        components(&crate::near_far::road(24, scaled(800, 80), 9), Method::TowardsSmaller);
    });
}

const RESIDENT: &str = r#"
#include "block_collectives.cuh"
using namespace millstream;

// Until a rank traps.
extern "C" __global__ void sums(const __grid_constant__ ResidentCollectives resident,
                                Span<u32> report, u32 culprit) {
    __shared__ u32 item;
    BlockCollectives collectives(resident);
    const auto add = [](u32 one, u32 other) { return one + other; };
    for (u32 round = 0;; ++round) {
        if (collectives.rank() == culprit && round == 100) asm volatile("trap;");
        if (threadIdx.x == 0) item = 1;
        __syncthreads();
        if (!collectives.all_reduce(&item, &item, 1, add)) break;
    }
    if (threadIdx.x == 0) store_relaxed_sys(&report[collectives.rank()], 1u);
}
"#;

/// Kernels on other GPUs leave their collective, and say so.
#[test]
fn collectives_of_resident_kernels() {
    type Signature = (ResidentRank, Shared<u32>, Value<u32>);
    in_child(concat!(module_path!(), "::collectives_of_resident_kernels"), LIMIT, || {
        let Some(context) = context() else { return };
        let source = CudaSource::new("sums.cu", "sums", RESIDENT).blocks(1).threads(64);
        // SAFETY: it uses its spans and collectives.
        let kernel = Gang::kernel::<Signature>("sums", unsafe { Trusted::new(source) });
        let ranks = context.devices().len();
        let collectives = ResidentCollectives::new(&context, 1, 1 << 10, PATIENCE).unwrap();
        let report = context.host().shared::<u32>(ranks).unwrap();
        let start = Instant::now();
        let run = Gang::run_kernel(&context, &kernel, |host, member| {
            let rank = (&collectives, host, member.place);
            let arguments = (rank, &report, ranks as u32 - 1);
            Ok(kernel.bind(member.stream, member.sharers, arguments)?)
        });
        let error = context.block_on(run).unwrap().unwrap_err().to_string();
        println!("{error}, after {:?}", start.elapsed());
        assert!(error.contains("CUDA_ERROR_"), "{error}");
        for (rank, device) in context.devices().iter().enumerate() {
            assert_eq!(device.stream().unwrap_err().to_string(), error, "{device}");
            let is_alone = !device.shares_gpu_with(culprit(&context));
            while is_alone && report.load(rank).unwrap() == 0 {
                assert!(start.elapsed() < SOON, "{device} waits");
            }
        }
    });
}

const PACKETS: &str = r#"
#include "full_empty.cuh"
using namespace millstream;

extern "C" __global__ void trap_when_full(FullEmptySegment<u32> input,
                                          FullEmptySegment<u32> output, u32) {
    if (input.wait_full(blockIdx.x)) asm volatile("trap;");
}
"#;

type Packets = FullEmptyPackets<u32>;

static TRAP: Kernel<(Packets, Packets, Value<u32>)> = Kernel::of_steps(
    "trap_when_full",
    // SAFETY: it waits for packets, and touches nothing.
    unsafe { Trusted::new(CudaSource::new("trap.cu", "trap_when_full", PACKETS).block_each()) },
    |packet, (input, _, _)| match input.items(packet)? {
        Some(_) => Err(KernelFault::new("a fault on purpose")),
        None => Ok(Step::Waits),
    },
);

/// Kernels of all devices wait for packets; that of one finds one, and traps.
#[test]
fn kernels_that_wait_for_packets() {
    in_child(concat!(module_path!(), "::kernels_that_wait_for_packets"), LIMIT, || {
        let context = builder().build().unwrap();
        context.block_on(packets_do_not_come(&context)).unwrap().unwrap();
    });
}

async fn packets_do_not_come(context: &Context) -> super::Result<()> {
    let group = FullEmpty::new(context, PATIENCE)?;
    let shape = PacketShape::new(10, 5);
    let mut segments: Vec<(FullEmptySegment<u32>, FullEmptySegment<u32>)> = Vec::new();
    let mut data = context.host().buffer::<u32>(10)?;
    data.host_view_mut()?.fill(3);
    for device in context.devices() {
        SCALE.prepare(device, 2)?;
        TRAP.prepare(device, 2)?;
        let input = group.segment(device, shape.clone())?;
        segments.push((input, group.segment(context.host(), shape.clone())?));
    }
    let copy = culprit(context).stream_of(StreamKind::Copy)?;
    let mut ended = Vec::new();
    let streams = Stream::of_gang(context.devices())?;
    for (place, (stream, (input, output))) in streams.iter().zip(&segments).enumerate() {
        let traps = place + 1 == segments.len();
        let kernel = if traps { &TRAP } else { &SCALE };
        ended.push(group.launch_early(stream, kernel, 2, (input, output, 3)).await?);
    }
    let start = Instant::now();
    let Some((input, _)) = segments.last() else { return Ok(()) };
    input.fill_from(&copy, 0, data.part(shape.range(0))?)?;
    let Some(last) = ended.last() else { return Ok(()) };
    let cause = last.completed().await.unwrap_err().to_string();
    let expected = if is_gpu(culprit(context)) { "CUDA_ERROR_" } else { "a fault on purpose" };
    assert!(cause.contains(expected), "{cause}");
    for (device, (_, output)) in context.devices().iter().zip(&segments) {
        let error = output.wait_full(0..1).await.unwrap_err().to_string();
        assert_eq!(error, cause, "{device}");
    }
    for event in &ended {
        // A kernel of a GPU that is well leaves, a twin fails.
        let _ = event.completed().await;
    }
    println!("{cause}, heard after {:?}", start.elapsed());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    Ok(())
}
