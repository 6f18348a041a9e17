//! Options that commands share.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use millstream::flow::Context;
use millstream::graph::{CsrGraph, Partition, partition};
use millstream::traversal::{Delta, WorklistOptions};
use millstream::worklist::{Routing, Worker};

use crate::devices::LinkedDeviceOptions;
use crate::error::Error;
use crate::output::Named;
use crate::progress::phase;

/// The devices, and how the graph is spread over them.
#[derive(Debug, Args)]
pub(crate) struct Spread {
    #[command(flatten)]
    devices: LinkedDeviceOptions,
    /// How vertices are spread over the devices. Unless given, edges, but regions for BFS, and for SSSP other
    /// than in steps, on several devices with GPUs among them, if edges cut more than a sixteenth of the arcs of
    /// a graph like a mesh.
    #[arg(long, value_enum, help_heading = "Partition")]
    partitioner: Option<Partitioner>,
}

/// The most buffers of a link that may be given: no link is faster with more, and each takes memory.
const MOST_BUFFERS: usize = 1024;

/// How a worklist runs. Giving one of these options asks for a worklist; `auto` counts as
/// not given.
#[derive(Debug, Args)]
#[command(next_help_heading = "Worklist")]
pub(crate) struct Worklist {
    /// How packets travel.
    #[arg(long, value_enum, default_value_t = RoutingOption::Auto)]
    routing: RoutingOption,
    /// Most bytes of a packet; 262144 unless given. Packets of the fused worker hold at most
    /// 256 items.
    #[arg(long, value_name = "N")]
    packet_bytes: Option<NonZeroUsize>,
    /// Packet buffers of each link; unless given, chosen by the link, or 64 for the fused
    /// worker.
    #[arg(long, value_name = "N")]
    buffers: Option<NonZeroUsize>,
    /// Entries of each queue of a device; unless given, its share of the vertices, or, for the fused
    /// worker, as many as a queue may need.
    #[arg(long, value_name = "N")]
    queue_entries: Option<NonZeroUsize>,
    /// Who drives the worklist.
    #[arg(long, value_enum, default_value_t = WorkerOption::Auto)]
    worker: WorkerOption,
    /// Sends every change of another device's vertex, even if the local copy shows that it is no
    /// improvement.
    #[arg(long)]
    pub(crate) no_halo_filter: bool,
    #[command(flatten)]
    pub(crate) patience: Patience,
}

/// The file of predecessors.
#[derive(Debug, Args)]
pub(crate) struct Predecessors {
    /// Writes the predecessor of each vertex, in the format of --output. Sources and unreached vertices
    /// have none: inf in text, 4294967295 in .npy files, 18446744073709551615 there with --relabel.
    #[arg(long = "predecessors", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// How long devices wait.
#[derive(Debug, Args)]
#[command(next_help_heading = "Answer")]
pub(crate) struct Patience {
    /// Seconds without any change after which a run fails (on the worklist, or of GPUs that wait
    /// for each other); at least 0.001.
    #[arg(long = "patience", value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    pub(crate) time: Duration,
}

/// `--delta`, in the unit of an algorithm's distances.
pub(crate) fn delta(text: &str) -> Result<Delta, String> {
    match (text, text.parse::<f64>()) {
        ("auto", _) => Ok(Delta::Auto),
        ("off", _) => Ok(Delta::Off),
        (_, Ok(step)) if step > 0.0 && step.is_finite() => Ok(Delta::Step(step)),
        _ => Err("neither auto, off nor positive".into()),
    }
}

/// With less patience than this, runs would fail although nothing is wrong.
const LEAST_PATIENCE: Duration = Duration::from_millis(1);

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let patience = seconds.filter(|&patience| patience >= LEAST_PATIENCE);
    patience.ok_or_else(|| "not a number of seconds from 0.001 on".to_string())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WorkerOption {
    /// Fused where that is possible, else the host.
    Auto,
    /// The host, kernel by kernel.
    Host,
    /// Kernels that stay on the GPUs, which must all reach each other.
    Fused,
}

impl Worklist {
    /// The name of a given option that only a worklist uses.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let packets = [
            (self.packet_bytes.is_some(), "--packet-bytes"),
            (self.buffers.is_some(), "--buffers"),
        ];
        let packets = packets.into_iter().find_map(|(is_given, name)| is_given.then_some(name));
        self.given_beside_packets().or(packets)
    }

    /// The same, but without options of packets, for algorithms that send packets without a worklist, too.
    pub(crate) fn given_beside_packets(&self) -> Option<&'static str> {
        let options = [
            (self.routing != RoutingOption::Auto, "--routing"),
            (self.worker != WorkerOption::Auto, "--worker"),
            (self.queue_entries.is_some(), "--queue-entries"),
            (self.no_halo_filter, "--no-halo-filter"),
        ];
        options.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }

    pub(crate) fn options(&self) -> WorklistOptions {
        let mut options = WorklistOptions::default();
        options.routing = match self.routing {
            RoutingOption::Ring => Routing::Ring,
            RoutingOption::Direct => Routing::Direct,
            RoutingOption::Auto => Routing::Auto,
        };
        options.halo_filter = !self.no_halo_filter;
        options.packet_bytes = self.packet_bytes.map_or(options.packet_bytes, NonZeroUsize::get);
        options.buffers = self.buffers.map(|count| count.get().min(MOST_BUFFERS));
        options.queue_entries = self.queue_entries.map(NonZeroUsize::get);
        options.worker = match self.worker {
            WorkerOption::Auto => Worker::Auto,
            WorkerOption::Host => Worker::HostDriven,
            WorkerOption::Fused => Worker::Fused,
        };
        options
    }
}

/// The error for an algorithm that the graph or the devices do not allow.
pub(crate) fn impossible(algorithm: impl Display, reason: impl Display) -> Error {
    Error::Usage(format!("--algorithm {algorithm}: {reason}; leave --algorithm out"))
}

/// The error for an option that the algorithm would ignore.
pub(crate) fn meaningless(option: &str, algorithm: &str) -> Error {
    Error::Usage(format!("{option} has no meaning with --algorithm {algorithm}"))
}

/// How a graph is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Partitioner {
    /// Equally many consecutive vertices.
    Blocks,
    /// Consecutive vertices with equally many arcs.
    Edges,
    /// A hash of the vertex.
    Random,
    /// Neighbouring regions with equally many arcs, for meshes whose ids have no locality.
    Regions,
    /// Few arcs between parts.
    #[cfg(feature = "metis")]
    Metis,
}

impl Partitioner {
    pub(crate) fn divide(self, graph: &CsrGraph, parts: usize) -> Result<Partition, Error> {
        phase("partitioning", || match self {
            Partitioner::Blocks => Ok(partition::contiguous_blocks(graph, parts)),
            Partitioner::Edges => Ok(partition::edge_balanced_blocks(graph, parts)),
            Partitioner::Random => Ok(partition::random(graph, parts, 0)),
            Partitioner::Regions => Ok(partition::region_blocks(graph, parts)),
            #[cfg(feature = "metis")]
            Partitioner::Metis => Ok(crate::c_libraries::metis(graph, parts)?),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoutingOption {
    /// Along the ring of devices.
    Ring,
    /// Straight to the owner.
    Direct,
    /// Direct where all devices reach each other.
    Auto,
}

impl Spread {
    pub(crate) fn context(&self) -> Result<Context, Error> {
        self.devices.open()
    }

    /// The file of `--trace`.
    pub(crate) fn trace(&self) -> Option<&PathBuf> {
        self.devices.trace()
    }

    /// The file of `--topology`, with that name.
    pub(crate) fn topology(&self) -> Named<'_> {
        self.devices.topology()
    }

    /// Whether `--partitioner` is given.
    pub(crate) fn has_partitioner(&self) -> bool {
        self.partitioner.is_some()
    }

    /// The partition that `--partitioner` asks for; `None` if it is not given: the algorithm decides then.
    pub(crate) fn partition(
        &self,
        graph: &CsrGraph,
        parts: usize,
    ) -> Result<Option<Partition>, Error> {
        self.partitioner.map(|partitioner| partitioner.divide(graph, parts)).transpose()
    }

    /// The same, but `None` for edges, too: ranks may go along arcs or against them, and those are balanced.
    pub(crate) fn partition_of_ranks(
        &self,
        graph: &CsrGraph,
        parts: usize,
    ) -> Result<Option<Partition>, Error> {
        match self.partitioner {
            Some(Partitioner::Edges) => Ok(None),
            _ => self.partition(graph, parts),
        }
    }

    /// The same for shortest paths, but edges where they would take regions by themselves.
    pub(crate) fn partition_of_paths(
        &self,
        graph: &CsrGraph,
        parts: usize,
    ) -> Result<Option<Partition>, Error> {
        match self.partitioner {
            Some(Partitioner::Edges) if !partition::suits_regions(graph, parts) => Ok(None),
            _ => self.partition(graph, parts),
        }
    }
}
