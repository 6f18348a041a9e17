//! How fast collectives are, by operation and size, on `f32`, in place but for all-to-all:
//! microseconds of one, and its bus bandwidth in GB/s, what each link would carry if
//! the algorithm were the best there is (as NCCL's own tests count). On all GPUs, on
//! host devices where there are none, or on those that `MILLSTREAM_DEVICES` names.

#![allow(missing_docs)]

use std::time::{Duration, Instant};

use clap::Parser;
use comfy_table::Table;
use millstream::device::{CudaSource, Kernel, KernelFault, Shared, SharedSet, Value};
use millstream::flow::{
    Algorithm, BlockSettings, Collectives, Communicator, CommunicatorOptions, Context, Devices,
    Error, Gang, Operator, ResidentCollectives, Result,
};
use millstream::prelude::DeviceBuffer;

#[derive(Parser)]
struct Arguments {
    /// Bytes of the smallest vector.
    #[arg(long, default_value_t = 1 << 10)]
    least: usize,
    /// Bytes of the largest; by default 1 GiB on GPUs, 4 MiB on host devices.
    #[arg(long)]
    most: Option<usize>,
    /// How much larger each is than the one before.
    #[arg(long, default_value_t = 4)]
    step: usize,
    /// automatic, ring, tree or direct.
    #[arg(long, default_value = "automatic", value_parser = algorithm)]
    algorithm: Algorithm,
    /// Bytes of a packet, where packets are used.
    #[arg(long)]
    packet_bytes: Option<usize>,
    /// Blocks of a kernel, between GPUs that are peers.
    #[arg(long)]
    blocks: Option<usize>,
    /// Bytes from one rank to another that go in lines.
    #[arg(long)]
    line_bytes: Option<usize>,
    /// Waits for each operation before the next.
    #[arg(long)]
    awaited: bool,
    /// Rounds of an all-reduce of 1 KiB in a resident kernel, beside the table.
    #[arg(long, default_value_t = 1000)]
    resident_rounds: u32,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

fn algorithm(name: &str) -> std::result::Result<Algorithm, String> {
    Ok(match name {
        "automatic" => Algorithm::Automatic,
        "ring" => Algorithm::Ring,
        "tree" => Algorithm::Tree,
        "direct" => Algorithm::Direct,
        _ => return Err("automatic, ring, tree or direct".to_string()),
    })
}

type Buffers = Vec<DeviceBuffer<f32>>;
type Operation = fn(&mut Collectives<'_>, &mut Vectors, &Operator<f32>) -> Result<()>;

/// What operations work on, in place but for all-to-all.
struct Vectors {
    buffers: Buffers,
    /// As long, where all-to-all puts its results.
    others: Buffers,
}

/// Name, what of a vector each link carries among `n` ranks, and the call.
const OPERATIONS: [(&str, fn(f64) -> f64, Operation); 6] = [
    ("broadcast", |_| 1.0, |all, vectors, _| all.broadcast(0, &mut vectors.buffers)),
    ("reduce", |_| 1.0, |all, vectors, sum| all.reduce(0, &mut vectors.buffers, sum)),
    (
        "all-reduce",
        |n| 2.0 * (n - 1.0) / n,
        |all, vectors, sum| all.all_reduce(&mut vectors.buffers, sum),
    ),
    (
        "reduce-scatter",
        |n| (n - 1.0) / n,
        |all, vectors, sum| all.reduce_scatter(&mut vectors.buffers, sum),
    ),
    ("all-gather", |n| (n - 1.0) / n, |all, vectors, _| all.all_gather(&mut vectors.buffers)),
    (
        "all-to-all",
        |n| (n - 1.0) / n,
        |all, vectors, _| all.all_to_all((&vectors.buffers, &mut vectors.others)),
    ),
];

/// Seconds of one operation, among as many as take a while: back to back, the host
/// waiting for the last, or each waited for.
async fn measure(
    communicator: &mut Communicator,
    vectors: &mut Vectors,
    operation: Operation,
    awaited: bool,
) -> Result<f64> {
    let sum = Operator::sum();
    let bytes = vectors.buffers[0].len() * 4;
    let rounds = ((256 << 20) / bytes.max(1)).clamp(20, 200);
    let mut best = f64::INFINITY;
    // The first loads kernels.
    for _ in 0..4 {
        let mut collectives = communicator.begin().await?;
        operation(&mut collectives, vectors, &sum)?;
        collectives.completed().await?;
        collectives = communicator.begin().await?;
        let start = Instant::now();
        for round in 0..rounds {
            operation(&mut collectives, vectors, &sum)?;
            if awaited && round + 1 < rounds {
                collectives.completed().await?;
                collectives = communicator.begin().await?;
            }
        }
        collectives.completed().await?;
        best = best.min(start.elapsed().as_secs_f64() / rounds as f64);
    }
    Ok(best)
}

type Resident =
    (Shared<u32>, SharedSet<u64>, Shared<u32>, Shared<u64>, Value<BlockSettings>, Value<u32>);

/// Sums `rounds` times, and says how many nanoseconds that took.
const RESIDENT: &str = r#"
#include "block_collectives.cuh"
using namespace millstream;
extern "C" __global__ void resident_sums(
    Span<u32> items, const __grid_constant__ SpanSet<u64> memory, Span<u32> host,
    Span<u64> report, const __grid_constant__ BlockCollectiveSettings settings, u32 rounds) {
    BlockCollectives collectives(memory, host, settings);
    float* const vector = reinterpret_cast<float*>(items.items);
    const auto add = [](float one, float other) { return one + other; };
    if (!collectives.barrier()) return;
    const u64 start = nanoseconds();
    for (u32 round = 0; round < rounds; ++round)
        if (!collectives.all_reduce(vector, vector, items.len, add)) return;
    if (threadIdx.x == 0 && settings.rank == 0) store_relaxed_sys(&report[0], nanoseconds() - start);
    collectives.leave();
}
"#;

/// Nanoseconds of an all-reduce of `bytes` that one block of a resident kernel on each
/// device calls, the mean of many.
async fn resident(context: &Context, bytes: usize, rounds: u32) -> Result<f64> {
    let source = CudaSource::new("resident.cu", "resident_sums", RESIDENT).blocks(1);
    let kernel: Kernel<Resident> =
        Kernel::with_source("resident", source, |_, _| Err(KernelFault::new("runs on GPUs only")));
    let items = context.devices().iter().map(|device| device.shared::<u32>(bytes / 4));
    let items = items.collect::<std::result::Result<Vec<_>, _>>()?;
    let collectives = ResidentCollectives::new(context, 1, bytes, Duration::from_secs(5))?;
    let (memory, report) = (collectives.memory(), context.host().shared::<u64>(1)?);
    let gang = Gang::new(context)?;
    gang.prepare(&kernel)?;
    let host = gang.words().clone();
    gang.run(|member| {
        let settings = collectives.settings(member.place);
        let arguments = (&items[member.place], &memory[..], &host, &report, settings, rounds);
        Ok(kernel.launch(member.stream, 1, arguments)?)
    })
    .await?;
    Ok(report.load(0)? as f64 / f64::from(rounds))
}

async fn table(context: &Context, arguments: &Arguments) -> Result<Table> {
    let devices = context.devices();
    let ranks = devices.len();
    let usual = if devices[0].is_gpu() { 1 << 30 } else { 4 << 20 };
    let mut options = CommunicatorOptions::default();
    options.algorithm = arguments.algorithm;
    options.packet_bytes = arguments.packet_bytes.unwrap_or(options.packet_bytes);
    options.blocks = arguments.blocks.unwrap_or(options.blocks);
    options.line_bytes = arguments.line_bytes.unwrap_or(options.line_bytes);
    let mut communicator = Communicator::with_options(context, options)?;
    let mut table = Table::new();
    let names = OPERATIONS.map(|(name, ..)| format!("{name} us, GB/s"));
    table.set_header(["bytes".to_string()].into_iter().chain(names));
    let mut bytes = arguments.least;
    while bytes <= arguments.most.unwrap_or(usual) {
        let len = (bytes / 4).next_multiple_of(ranks);
        let mut vectors = Vectors { buffers: Vec::new(), others: Vec::new() };
        for device in devices {
            vectors.buffers.push(device.buffer(len)?);
            vectors.others.push(device.buffer(len)?);
        }
        let mut row = vec![bytes.to_string()];
        for (_, share, operation) in OPERATIONS {
            row.push(
                match measure(&mut communicator, &mut vectors, operation, arguments.awaited).await {
                    Ok(time) => {
                        let bandwidth = share(ranks as f64) * (len * 4) as f64 / time / 1e9;
                        format!("{:.1} {bandwidth:.1}", time * 1e6)
                    }
                    Err(Error::NoAlgorithm { .. }) => "-".to_string(),
                    Err(error) => return Err(error),
                },
            );
        }
        table.add_row(row);
        bytes *= arguments.step.max(2);
    }
    Ok(table)
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let context = Context::builder().devices(Devices::All).build()?;
    let names: Vec<String> = context.devices().iter().map(ToString::to_string).collect();
    println!("{} on {}", env!("CARGO_CRATE_NAME"), names.join(", "));
    println!("{}", context.block_on(table(&context, &arguments))??);
    if Gang::is_possible(&context) && context.devices().len() > 1 {
        let time = context.block_on(resident(&context, 1 << 10, arguments.resident_rounds))??;
        println!("all-reduce of 1 KiB from a resident kernel: {:.2} us", time / 1e3);
    }
    Ok(())
}
