//! `millstream cc GRAPH`.

use std::path::{Path, PathBuf};

use clap::Args;
use millstream::cc::{Cc, CcOptions, sends_packets};
use millstream::flow::Context;
use millstream::graph::{CsrGraph, validate};
use serde::Serialize;

use crate::error::Error;
use crate::input::Input;
use crate::job::Job;
use crate::options::{Patience, Spread};
use crate::output::{PerDevice, check_all_writable, links, write_values};
use crate::progress::phase;
use crate::remark::remark;
use crate::report::{Answer, Clock, Common, LayoutReport};

/// Weak components: directions of arcs do not count.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Scatters rows of arcs from the host while the devices work, instead of uploading
    /// the graph first; not together with --partitioner, since nothing is divided.
    #[arg(long)]
    streamed: bool,
    /// Most bytes of a packet, at least 8; 1048576 unless given. Packets are used if rows are streamed
    /// (then at least 16 bytes), if devices do not reach each other's memory (GPUs: over NVLink), or with
    /// --transfer copy or host.
    #[arg(long, value_name = "N")]
    packet_bytes: Option<usize>,
    /// Packet buffers of each device and router; 2 unless given.
    #[arg(long, value_name = "N")]
    buffers: Option<usize>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    spread: Spread,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    answer: Answer,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    common: Common,
    components: usize,
    largest: u32,
    method: String,
    layouts: Vec<LayoutReport>,
}

/// Reads, searches, checks and answers.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments { input, spread, answer: how, streamed, .. } = arguments;
    if *streamed && spread.has_partitioner() {
        let reason = "rows that are streamed go to whichever device is free";
        return Err(Error::Usage(format!("--partitioner does not go with --streamed: {reason}")));
    }
    let mut options = CcOptions::default();
    options.packet_bytes = arguments.packet_bytes.unwrap_or(options.packet_bytes);
    options.buffers = arguments.buffers;
    options.patience = arguments.patience.time;
    options.check()?;
    let outputs = [("--output", how.output.as_ref()), ("--trace", spread.trace())];
    check_all_writable(&outputs, &[input.named(), spread.topology()])?;
    let context = spread.context()?;
    remark_on_packets(arguments, &context);
    let clock = Clock::start();
    let graph = input.read()?;
    let mut job = Job::new("cc", (input, how), (&context, &graph), clock);
    let (result, layouts) = if *streamed {
        let run = async || Cc::run_streamed_graph(&context, &graph, options).await;
        (job.run_streamed("searching", run)??, Vec::new())
    } else {
        let partition = spread.partition(&graph, context.devices().len())?;
        job.partitioned();
        let upload = async {
            match partition {
                Some(partition) => Cc::with_partition(&context, &graph, partition, options).await,
                None => Cc::with_options(&context, &graph, options).await,
            }
        };
        job.run("searching", upload, Cc::layouts, async |cc: &Cc| cc.run().await)??
    };
    job.verify(|| validate::weak_components(&graph, &result.labels));
    let write = |path: &PathBuf| phase("writing", || write(path, &graph, &result.labels));
    let written = how.output.as_ref().map_or(Ok(()), write);
    job.went_along(graph.arcs());
    job.common.links = links(&result.statistics.links);
    let device = |device: &millstream::cc::DeviceStatistics| PerDevice {
        work_items: device.hooked,
        sent: device.sent,
        received: device.received,
        filtered: 0,
    };
    job.common.per_device = result.statistics.devices.iter().map(device).collect();
    job.common.work_items = result.statistics.hooked();
    let sizes = result.sizes();
    // The arcs of a spanning forest.
    let forest = u64::from(graph.vertices()) - sizes.len() as u64;
    job.common.useful_work_items = Some(job.common.work_items.min(forest));
    let largest = sizes.iter().map(|&(_, size)| size).max().unwrap_or(0);
    let method = result.method.map_or("streamed".to_string(), |method| method.to_string());
    let report = |common| Report { common, components: sizes.len(), largest, method, layouts };
    job.answer(report, table, written)
}

/// Remarks on packet options that have no effect because no packets are sent.
fn remark_on_packets(arguments: &Arguments, context: &Context) {
    let options = [
        (arguments.packet_bytes.is_some(), "--packet-bytes"),
        (arguments.buffers.is_some(), "--buffers"),
    ];
    let given = options.into_iter().find_map(|(is_given, name)| is_given.then_some(name));
    if let Some(option) = given.filter(|_| !arguments.streamed && !sends_packets(context)) {
        let reason = "the devices reach each other's memory, and send no packets";
        let unless = "unless --transfer is copy or host, or rows are --streamed";
        remark(format_args!("{option} does nothing here: {reason}, {unless}"));
    }
}

/// Writes labels, which are vertices, by their ids in the file.
fn write(path: &Path, graph: &CsrGraph, labels: &[u32]) -> Result<(), Error> {
    match graph.original_ids() {
        None => write_values(path, None, labels),
        Some(ids) => {
            let labels: Vec<u64> = labels.iter().map(|&label| ids[label as usize]).collect();
            write_values(path, Some(ids), &labels)
        }
    }
}

fn table(report: &Report) -> String {
    let components = format!("{}, the largest of {}", report.components, report.largest);
    report.common.table(&[("method", report.method.clone()), ("components", components)])
}
