//! How fast collectives are, by operation and size, back to back in place on `f32`:
//! microseconds of one, and its bus bandwidth in GB/s, what each link would carry if
//! the algorithm were the best there is (as NCCL's own tests count). On all GPUs, on
//! host devices where there are none, or on those that `MILLSTREAM_DEVICES` names.

#![allow(missing_docs)]

use std::time::Instant;

use clap::Parser;
use comfy_table::Table;
use millstream::flow::{
    Algorithm, Collectives, Communicator, CommunicatorOptions, Context, Devices, Error, Operator,
    Result,
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
    /// Bytes that a block sends at a time.
    #[arg(long)]
    tile_bytes: Option<usize>,
    /// Bytes that go to everyone as they are.
    #[arg(long)]
    whole_bytes: Option<usize>,
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
type Operation = fn(&mut Collectives<'_>, &mut Buffers, &Operator<f32>) -> Result<()>;

/// Name, what of a vector each link carries among `n` ranks, and the call.
const OPERATIONS: [(&str, fn(f64) -> f64, Operation); 6] = [
    ("broadcast", |_| 1.0, |collectives, buffers, _| collectives.broadcast(0, buffers)),
    ("reduce", |_| 1.0, |collectives, buffers, sum| collectives.reduce(0, buffers, sum)),
    (
        "all-reduce",
        |n| 2.0 * (n - 1.0) / n,
        |collectives, buffers, sum| collectives.all_reduce(buffers, sum),
    ),
    (
        "reduce-scatter",
        |n| (n - 1.0) / n,
        |collectives, buffers, sum| collectives.reduce_scatter(buffers, sum),
    ),
    ("all-gather", |n| (n - 1.0) / n, |collectives, buffers, _| collectives.all_gather(buffers)),
    ("all-to-all", |n| (n - 1.0) / n, |collectives, buffers, _| collectives.all_to_all(buffers)),
];

/// Seconds of one operation, among as many as take a while.
async fn measure(
    communicator: &mut Communicator,
    buffers: &mut Buffers,
    operation: Operation,
) -> Result<f64> {
    let sum = Operator::sum();
    let bytes = buffers[0].len() * 4;
    let rounds = ((256 << 20) / bytes.max(1)).clamp(5, 200);
    let mut best = f64::INFINITY;
    // The first loads kernels.
    for _ in 0..4 {
        let mut collectives = communicator.begin().await?;
        operation(&mut collectives, buffers, &sum)?;
        collectives.barrier()?;
        let start = Instant::now();
        for _ in 0..rounds {
            operation(&mut collectives, buffers, &sum)?;
        }
        collectives.completed().await?;
        best = best.min(start.elapsed().as_secs_f64() / rounds as f64);
    }
    Ok(best)
}

async fn table(context: &Context, arguments: &Arguments) -> Result<Table> {
    let devices = context.devices();
    let ranks = devices.len();
    let usual = if devices[0].is_gpu() { 1 << 30 } else { 4 << 20 };
    let mut options = CommunicatorOptions::default();
    options.algorithm = arguments.algorithm;
    options.packet_bytes = arguments.packet_bytes.unwrap_or(options.packet_bytes);
    options.blocks = arguments.blocks.unwrap_or(options.blocks);
    options.tile_bytes = arguments.tile_bytes.unwrap_or(options.tile_bytes);
    options.whole_bytes = arguments.whole_bytes.unwrap_or(options.whole_bytes);
    let mut communicator = Communicator::with_options(context, options)?;
    let mut table = Table::new();
    let names = OPERATIONS.map(|(name, ..)| format!("{name} us, GB/s"));
    table.set_header(["bytes".to_string()].into_iter().chain(names));
    let mut bytes = arguments.least;
    while bytes <= arguments.most.unwrap_or(usual) {
        let len = (bytes / 4).next_multiple_of(ranks);
        let mut buffers = Vec::new();
        for device in devices {
            buffers.push(device.buffer(len)?);
        }
        let mut row = vec![bytes.to_string()];
        for (_, share, operation) in OPERATIONS {
            row.push(match measure(&mut communicator, &mut buffers, operation).await {
                Ok(time) => {
                    let bandwidth = share(ranks as f64) * (len * 4) as f64 / time / 1e9;
                    format!("{:.1} {bandwidth:.1}", time * 1e6)
                }
                Err(Error::NoAlgorithm { .. }) => "-".to_string(),
                Err(error) => return Err(error),
            });
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
    Ok(())
}
