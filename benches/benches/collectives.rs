//! The speed of collectives by operation and size, of `f32`, `f16` or `bf16`, in place except for all-to-all:
//! microseconds of one operation, and its bus bandwidth in GB/s, which is what each link would
//! carry if the algorithm were optimal (as NCCL's own tests count). Uses the devices that
//! `MILLSTREAM_DEVICES` names; otherwise all GPUs or, if there are none, host devices.
//!
//! With `--nccl libnccl.so.2`, also measures NCCL, in the same process on the same GPUs. Its series
//! and Millstream's alternate, are equally many and equally long, and the best of each counts.
//! Prints Millstream's share of NCCL's bandwidth, too. `NCCL_NVLS_ENABLE` must be 0, since
//! Millstream does not use NVLink's multicast.

#![allow(missing_docs)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::RangedU64ValueParser;
use clap::{Parser, ValueEnum};
use millstream::device::{
    CudaSource, Kernel, KernelFault, Shared, Trusted, Value, set_driver_defaults,
};
use millstream::flow::{
    Algorithm, Collectives, Communicator, CommunicatorOptions, Context, Devices, Gang, Operator,
    ResidentCollectives, ResidentRank, Result, bf16, f16,
};
use millstream::prelude::DeviceBuffer;
use millstream_benches::collective::{Collective, Element};
use millstream_benches::nccl::{Nccl, Series};
use report::{Cell, Times};

#[path = "collectives/report.rs"]
mod report;

#[derive(Clone, Copy, ValueEnum)]
enum ElementType {
    F32,
    F16,
    Bf16,
}

#[derive(Parser)]
struct Arguments {
    /// What vectors are of.
    #[arg(long = "type", default_value = "f32")]
    element_type: ElementType,
    /// Bytes of the smallest vector.
    #[arg(long, default_value_t = 1 << 10, value_parser = at_least(4))]
    least: usize,
    /// Bytes of the largest; by default 1 GiB on GPUs, 4 MiB on host devices.
    #[arg(long, value_parser = at_least(4))]
    most: Option<usize>,
    /// How much larger each is than the one before.
    #[arg(long, default_value_t = 4, value_parser = at_least(2))]
    step: usize,
    /// automatic, ring, tree or direct.
    #[arg(long, default_value = "automatic", value_parser = algorithm)]
    algorithm: Algorithm,
    /// Bytes of a packet, where packets are used.
    #[arg(long, value_parser = at_least(4))]
    packet_bytes: Option<usize>,
    /// Blocks of a kernel, between GPUs that are peers.
    #[arg(long, value_parser = at_least(1))]
    blocks: Option<usize>,
    /// Bytes from one rank to all others together that go in lines.
    #[arg(long)]
    line_bytes: Option<usize>,
    /// Bytes of vectors that go round a ring, at least.
    #[arg(long)]
    ring_bytes: Option<usize>,
    /// Waits for each operation before the next.
    #[arg(long)]
    awaited: bool,
    /// The file of NCCL's library, to measure it beside Millstream.
    #[arg(long, value_name = "FILE")]
    nccl: Option<PathBuf>,
    /// One thread submits NCCL's operations for all GPUs, not one for each.
    #[arg(long, requires = "nccl")]
    nccl_grouped: bool,
    /// Rounds of an all-reduce of 1 KiB in a resident kernel, beside the table.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    resident_rounds: u32,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

fn at_least(least: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..)
}

fn algorithm(name: &str) -> std::result::Result<Algorithm, String> {
    Ok(match name {
        "automatic" => Algorithm::Auto,
        "ring" => Algorithm::Ring,
        "tree" => Algorithm::Tree,
        "direct" => Algorithm::Direct,
        _ => return Err("automatic, ring, tree or direct".to_string()),
    })
}

/// The operands of operations, which are in place except for all-to-all.
struct Vectors<T: Element> {
    buffers: Vec<DeviceBuffer<T>>,
    /// Equally long: where all-to-all puts its results.
    others: Vec<DeviceBuffer<T>>,
}

impl<T: Element> Vectors<T> {
    fn new(context: &Context, len: usize) -> Result<Vectors<T>> {
        let mut vectors = Vectors { buffers: Vec::new(), others: Vec::new() };
        for device in context.devices() {
            vectors.buffers.push(device.buffer(len)?);
            vectors.others.push(device.buffer(len)?);
        }
        Ok(vectors)
    }
}

fn submit<T: Element>(
    collective: Collective,
    collectives: &mut Collectives<'_>,
    vectors: &mut Vectors<T>,
    sum: &Operator<T>,
) -> Result<()> {
    let Vectors { buffers, others } = vectors;
    match collective {
        Collective::Broadcast => collectives.broadcast(0, buffers),
        Collective::Reduce => collectives.reduce(0, buffers, sum),
        Collective::AllReduce => collectives.all_reduce(buffers, sum),
        Collective::ReduceScatter => collectives.reduce_scatter(buffers, sum),
        Collective::AllGather => collectives.all_gather(buffers),
        Collective::AllToAll => collectives.all_to_all((&*buffers, others)),
    }
}

/// Seconds of one of Millstream's operations in a series, after one that is not counted.
async fn seconds<T: Element>(
    communicator: &mut Communicator,
    vectors: &mut Vectors<T>,
    collective: Collective,
    series: Series,
) -> Result<f64> {
    let sum = Operator::sum();
    let mut collectives = communicator.begin().await?;
    // The first operation loads kernels.
    submit(collective, &mut collectives, vectors, &sum)?;
    collectives.completed().await?;
    collectives = communicator.begin().await?;
    let start = Instant::now();
    for round in 0..series.rounds {
        submit(collective, &mut collectives, vectors, &sum)?;
        if series.awaited && round + 1 < series.rounds {
            collectives.completed().await?;
            collectives = communicator.begin().await?;
        }
    }
    collectives.completed().await?;
    Ok(start.elapsed().as_secs_f64() / series.rounds as f64)
}

/// The least seconds of one operation, over series that take a while; Millstream's series alternate
/// with NCCL's, if that is measured.
async fn measure<T: Element>(
    communicator: &mut Communicator,
    mut nccl: Option<&mut Nccl<T>>,
    vectors: &mut Vectors<T>,
    collective: Collective,
    awaited: bool,
) -> Result<Times> {
    let len = vectors.buffers[0].len();
    let rounds = ((256 << 20) / (len * size_of::<T>()).max(1)).clamp(20, 200);
    let series = Series { len, rounds, awaited };
    let mut times = Times { millstream: f64::INFINITY, nccl: None };
    for _ in 0..4 {
        let time = seconds(communicator, vectors, collective, series).await?;
        times.millstream = times.millstream.min(time);
        times.nccl = nccl.as_deref_mut().map(|nccl| {
            let time = nccl.seconds(collective, series);
            times.nccl.map_or(time, |least| least.min(time))
        });
    }
    Ok(times)
}

type Resident = (Shared<u32>, ResidentRank, Shared<u64>, Value<u32>);

const RESIDENT: &str = include_str!("collectives/resident.cu");

/// Nanoseconds of an all-reduce of `bytes` bytes that one block of a resident kernel calls on each
/// device: the mean over many.
async fn resident(context: &Context, bytes: usize, rounds: u32) -> Result<f64> {
    let source = CudaSource::new("resident.cu", "resident_sums", RESIDENT).blocks(1);
    let kernel: Kernel<Resident> = Kernel::with_source(
        "resident",
        // SAFETY: the kernel uses its arguments only as the signature says.
        unsafe { Trusted::new(source) },
        |_, _| Err(KernelFault::new("runs on GPUs only")),
    );
    let items = context.devices().iter().map(|device| device.shared::<u32>(bytes / 4));
    let items = items.collect::<std::result::Result<Vec<_>, _>>()?;
    let collectives = ResidentCollectives::new(context, 1, bytes, Duration::from_secs(5))?;
    let report = context.host().shared::<u64>(1)?;
    let gang = Gang::new(context)?;
    gang.prepare(&kernel)?;
    let host = gang.words().clone();
    gang.run(|member| {
        let rank = (&collectives, &host, member.place);
        let arguments = (&items[member.place], rank, &report, rounds);
        Ok(kernel.launch(member.stream, 1, arguments)?)
    })
    .await?;
    Ok(report.load(0)? as f64 / f64::from(rounds))
}

fn communicator(context: &Context, arguments: &Arguments) -> Result<Communicator> {
    let mut options = CommunicatorOptions::default();
    options.algorithm = arguments.algorithm;
    options.packet_bytes = arguments.packet_bytes.unwrap_or(options.packet_bytes);
    options.blocks = arguments.blocks.unwrap_or(options.blocks);
    options.line_bytes = arguments.line_bytes.unwrap_or(options.line_bytes);
    options.ring_bytes = arguments.ring_bytes;
    Communicator::with_options(context, options)
}

/// Measures every operation at every size.
async fn cells<T: Element>(
    context: &Context,
    arguments: &Arguments,
    sizes: &[usize],
    mut nccl: Option<&mut Nccl<T>>,
) -> Result<Vec<Cell>> {
    let mut communicator = communicator(context, arguments)?;
    let ranks = context.devices().len();
    let mut cells = Vec::new();
    for &bytes in sizes {
        let len = items::<T>(bytes, ranks);
        let mut vectors = Vectors::<T>::new(context, len)?;
        for collective in Collective::ALL {
            let traffic = collective.share(ranks) * (len * size_of::<T>()) as f64;
            let times = measure(
                &mut communicator,
                nccl.as_deref_mut(),
                &mut vectors,
                collective,
                arguments.awaited,
            );
            cells.push(Cell { bytes, collective, traffic, times: times.await? });
        }
    }
    Ok(cells)
}

/// The items of each rank's vector, such that all have equal parts.
fn items<T>(bytes: usize, ranks: usize) -> usize {
    (bytes / size_of::<T>()).next_multiple_of(ranks)
}

fn sizes(context: &Context, arguments: &Arguments) -> Vec<usize> {
    let usual = if context.devices()[0].is_gpu() { 1 << 30 } else { 4 << 20 };
    let most = arguments.most.unwrap_or(usual);
    let sizes =
        std::iter::successors(Some(arguments.least), |size| size.checked_mul(arguments.step));
    sizes.take_while(|&size| size <= most).collect()
}

fn run<T: Element>(arguments: &Arguments) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let context = Context::builder().devices(Devices::All).build()?;
    let names: Vec<String> = context.devices().iter().map(ToString::to_string).collect();
    println!("{} of {} on {}", env!("CARGO_CRATE_NAME"), T::NAME, names.join(", "));
    let sizes = sizes(&context, arguments);
    if sizes.is_empty() {
        return Err(format!("the largest vector is smaller than {} bytes", arguments.least).into());
    }
    let longest = items::<T>(sizes.last().copied().unwrap_or(0), names.len());
    let mut nccl = match &arguments.nccl {
        Some(path) => Some(Nccl::<T>::load(path, &names, longest, arguments.nccl_grouped)?),
        None => None,
    };
    if let Some(nccl) = &nccl {
        println!("NCCL {}, and Millstream's share of its bandwidth", nccl.version());
    }
    let cells = context.block_on(cells(&context, arguments, &sizes, nccl.as_mut()))??;
    println!("{}", report::table(&cells));
    if let Some(worst) = report::worst(&cells) {
        println!("{worst}");
    }
    if Gang::is_possible(&context) && context.devices().len() > 1 {
        let time = context.block_on(resident(&context, 1 << 10, arguments.resident_rounds))??;
        println!("all-reduce of 1 KiB from a resident kernel: {:.2} us", time / 1e3);
    }
    Ok(())
}

fn main() -> ExitCode {
    set_driver_defaults();
    let arguments = Arguments::parse();
    let run = match arguments.element_type {
        ElementType::F32 => run::<f32>,
        ElementType::F16 => run::<f16>,
        ElementType::Bf16 => run::<bf16>,
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
