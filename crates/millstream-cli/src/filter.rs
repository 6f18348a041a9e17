//! `millstream filter`: predicate-based filtering \[G §3, Fig. 5 and 6\].

use std::sync::atomic::Ordering;
use std::time::Instant;

use clap::{Args, ValueEnum};
use futures_util::try_join;
use millstream::device::CudaSource;
use millstream::flow::{Counter, Error as FlowError, GraphStatistics, first_available, scatter};
use millstream::prelude::*;
use serde::Serialize;

use crate::devices::DeviceOptions;
use crate::error::Error;
use crate::interrupt::run_interruptibly;
use crate::output::{Link, answer, facts, link_table, links};
use crate::progress::phase;

/// Filters numbers: keeps the multiples of a divisor.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many numbers: 0, 1, 2 and so on.
    #[arg(long, default_value_t = 10_000_000)]
    items: u32,
    /// Keeps its multiples.
    #[arg(long, default_value_t = 7)]
    divisor: u32,
    #[command(flatten)]
    devices: DeviceOptions,
    /// Who gets which segment.
    #[arg(long, value_enum, default_value_t = Scheduling::FirstAvailable)]
    scheduling: Scheduling,
    /// Bytes of a packet at most.
    #[arg(long, default_value_t = 1 << 20)]
    packet_bytes: usize,
    /// Packet buffers of each link; chosen by the link unless given.
    #[arg(long)]
    buffers: Option<usize>,
    /// Compares the answer with a sequential filter.
    #[arg(long)]
    verify: bool,
    /// Prints one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scheduling {
    /// Each packet to the first device with a free buffer.
    FirstAvailable,
    /// An equal part for each device.
    Static,
}

#[derive(Debug, Serialize)]
struct Report {
    algorithm: &'static str,
    items: u32,
    kept: usize,
    devices: Vec<String>,
    time_ms: f64,
    items_per_second: f64,
    verified: Option<bool>,
    links: Vec<Link>,
}

type FilterSignature = (Read<u32>, Write<u32>, Shared<u32>, Shared<u32>, Value<u32>);

const SOURCE: &str = r#"
#include "filter.cuh"
using namespace millstream;
extern "C" __global__ void filter(Span<const u32> input, Span<u32> kept, Span<u32> scratch,
                                  Span<u32> count, u32 divisor) {
    filter(input, kept, scratch, count, [=](u32 item) { return item % divisor == 0; });
}
"#;

static FILTER: Kernel<FilterSignature> = Kernel::with_source(
    "filter",
    CudaSource::new("filter.cu", "filter", SOURCE),
    |_, (input, kept, _, count, divisor)| {
        let matching = input.iter().filter(|item| *item % divisor == 0);
        let number = kept.iter_mut().zip(matching).map(|(to, item)| *to = *item).count();
        count[0].store(number as u32, Ordering::Release);
        Ok(())
    },
);

/// Filters, checks and answers.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    if arguments.divisor == 0 {
        return Err(Error::Usage("0 has no multiples to keep".into()));
    }
    let context = arguments.devices.open()?;
    let start = Instant::now();
    let filtering = filter(&context, arguments);
    let (mut kept, statistics) = phase("filtering", || run_interruptibly(&context, filtering))??;
    let time = start.elapsed().as_secs_f64();
    kept.sort_unstable();
    let expected = (0..arguments.items).step_by(arguments.divisor as usize);
    let verified = arguments.verify.then(|| kept.iter().copied().eq(expected));
    let report = Report {
        algorithm: "filter",
        items: arguments.items,
        kept: kept.len(),
        devices: context.devices().iter().map(ToString::to_string).collect(),
        time_ms: time * 1e3,
        items_per_second: f64::from(arguments.items) / time,
        verified,
        links: links(&statistics.links()),
    };
    answer(&report, arguments.json, table)?;
    match verified {
        Some(false) => Err(Error::NotVerified("a sequential filter keeps others".into())),
        _ => Ok(()),
    }
}

async fn filter(
    context: &Context,
    arguments: &Arguments,
) -> Result<(Vec<u32>, GraphStatistics), FlowError> {
    let buffers = Buffers::bytes(arguments.packet_bytes);
    let buffers = arguments.buffers.map_or(buffers, |count| buffers.count(count));
    let graph = Graph::new(context);
    let policy = match arguments.scheduling {
        Scheduling::FirstAvailable => first_available(),
        Scheduling::Static => scatter(),
    };
    let scatter = graph.router(policy)?;
    let gather = graph.router(first_available())?;
    let mut feed = scatter.sender(context.host())?;
    let results = gather.receiver(context.host(), buffers)?;
    for device in context.devices() {
        let input = scatter.receiver(device, buffers)?;
        let output = gather.sender(device)?;
        graph.spawn(worker(context.host().clone(), input, output, arguments.divisor));
    }
    let statistics = graph.statistics();
    let numbers: Vec<u32> = (0..arguments.items).collect();
    let feeding = async move {
        feed.send_all(numbers).await?;
        feed.shutdown()
    };
    let (_, kept) = graph.run(async { try_join!(feeding, results.collect()) }).await?;
    Ok((kept, statistics))
}

async fn worker(
    host: Device,
    mut input: Receiver<u32>,
    mut output: Sender<u32>,
    divisor: u32,
) -> Result<(), FlowError> {
    let stream = input.device().stream()?;
    let scratch = input.device().shared(2)?;
    while let Some(pending) = input.recv().await? {
        stream.wait(&pending)?;
        let mut kept = output.buffer(pending.len()).await?;
        let count: Counter = host.shared(1)?;
        FILTER.launch(&stream, pending.len(), (&pending, &mut kept, &scratch, &count, divisor))?;
        pending.release_after(&stream)?;
        output.send_counted(kept, count, &stream)?;
    }
    output.shutdown()
}

fn table(report: &Report) -> String {
    let facts = facts(&[
        ("items", format!("{}, {} kept", report.items, report.kept)),
        ("devices", report.devices.join(" ")),
        ("time", format!("{:.3} ms", report.time_ms)),
        ("items a second", format!("{:.3e}", report.items_per_second)),
    ]);
    let verified = if report.verified == Some(true) { "\nverified" } else { "" };
    format!("{facts}\n{}{verified}", link_table(&report.links))
}
