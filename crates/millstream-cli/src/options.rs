//! Options that commands share.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use futures_util::future::{Either, select};
use millstream::device::DeviceList;
use millstream::flow::{Context, Devices};
use millstream::graph::read::{ReadOptions, read_graph};
use millstream::graph::{CsrGraph, Partition, partition, source};
use millstream::worklist::Routing;

use crate::error::Error;

/// The graph to read, and what to do with it.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Edge list or Matrix Market, plain or gzip.
    pub(crate) graph: PathBuf,
    /// Adds the reverse of every arc.
    #[arg(long)]
    symmetrize: bool,
    /// Keeps one arc of several between the same vertices, the lightest.
    #[arg(long)]
    dedupe: bool,
    /// Leaves out arcs from a vertex to itself.
    #[arg(long)]
    drop_self_loops: bool,
}

impl Input {
    pub(crate) fn read(&self) -> Result<CsrGraph, Error> {
        let mut options = ReadOptions::default();
        options.symmetrize = self.symmetrize;
        options.dedupe = self.dedupe;
        options.drop_self_loops = self.drop_self_loops;
        Ok(read_graph(&self.graph, &options)?)
    }
}

/// The devices, and how the graph is spread over them.
#[derive(Debug, Args)]
pub(crate) struct Spread {
    /// A comma list: host:4 (four host devices), host:2x3 (two, three virtual
    /// devices each).
    #[arg(long, default_value = "host:4")]
    devices: String,
    /// How vertices are spread over the devices; METIS for mesh-like graphs and
    /// edges for all others unless given.
    #[arg(long, value_enum)]
    partitioner: Option<Partitioner>,
    /// How packets travel.
    #[arg(long, value_enum, default_value_t = RoutingOption::Auto)]
    routing: RoutingOption,
}

/// Who divides a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Partitioner {
    /// Equally many consecutive vertices.
    Blocks,
    /// Consecutive vertices with equally many arcs.
    Edges,
    /// A hash of the vertex.
    Random,
    /// Few arcs between parts.
    Metis,
}

impl Partitioner {
    pub(crate) fn divide(self, graph: &CsrGraph, parts: usize) -> Result<Partition, Error> {
        match self {
            Partitioner::Blocks => Ok(partition::contiguous_blocks(graph, parts)),
            Partitioner::Edges => Ok(partition::edge_balanced_blocks(graph, parts)),
            Partitioner::Random => Ok(partition::random(graph, parts, 0)),
            Partitioner::Metis => partition::metis(graph, parts).map_err(|error| usage(&error)),
        }
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
        context(&self.devices)
    }

    pub(crate) fn partition(&self, graph: &CsrGraph, parts: usize) -> Result<Partition, Error> {
        match self.partitioner {
            Some(partitioner) => partitioner.divide(graph, parts),
            None => Ok(partition::automatic(graph, parts)),
        }
    }

    pub(crate) fn routing(&self) -> Routing {
        match self.routing {
            RoutingOption::Ring => Routing::Ring,
            RoutingOption::Direct => Routing::Direct,
            RoutingOption::Auto => Routing::Auto,
        }
    }
}

/// Opens the devices of `--devices`.
pub(crate) fn context(devices: &str) -> Result<Context, Error> {
    if Path::new("/dev/nvidia0").exists() && !devices.contains("cuda") {
        eprintln!("millstream: this build has no GPU support; running on host devices");
    }
    let list: DeviceList = devices.parse().map_err(|error| usage(&error))?;
    let context = Context::builder().devices(Devices::List(list)).build();
    context.map_err(|error| usage(&error))
}

fn usage(error: &dyn std::error::Error) -> Error {
    Error::Usage(error.to_string())
}

/// Reads `--source`: vertex ids, `max-degree` or `center`.
pub(crate) fn sources(text: &str, graph: &CsrGraph) -> Result<Vec<u32>, Error> {
    let vertices = graph.vertices();
    match text {
        _ if vertices == 0 => Err(Error::Usage("the graph has no vertex to start from".into())),
        "max-degree" => Ok(source::max_degree(graph).into_iter().collect()),
        "center" => match source::center(graph) {
            Some(center) => Ok(vec![center]),
            None => Err(Error::Usage("no vertex of degree 3 in the center".into())),
        },
        list => list
            .split(',')
            .map(|vertex| match vertex.trim().parse() {
                Ok(vertex) if vertex < vertices => Ok(vertex),
                _ => Err(Error::Usage(format!(
                    "source {vertex:?} is neither max-degree, center nor one of the {vertices} vertices"
                ))),
            })
            .collect(),
    }
}

/// Runs a future until it ends or Ctrl-C is pressed, which drops it and so stops
/// the devices.
pub(crate) fn run_interruptibly<F: Future>(
    context: &Context,
    future: F,
) -> Result<F::Output, Error> {
    let pressed = Arc::new(Pressed::default());
    let handler = Arc::clone(&pressed);
    // Without a handler Ctrl-C ends the process at once, which is as well.
    let _ = ctrlc::set_handler(move || handler.press());
    let interrupted = std::future::poll_fn(move |context| pressed.poll(context));
    let future = std::pin::pin!(future);
    match context.block_on(select(future, std::pin::pin!(interrupted)))? {
        Either::Left((output, _)) => Ok(output),
        Either::Right(_) => Err(Error::Interrupted),
    }
}

#[derive(Debug, Default)]
struct Pressed {
    pressed: std::sync::atomic::AtomicBool,
    waker: futures_util::task::AtomicWaker,
}

impl Pressed {
    fn press(&self) {
        self.pressed.store(true, std::sync::atomic::Ordering::Release);
        self.waker.wake();
    }

    fn poll(&self, context: &std::task::Context<'_>) -> std::task::Poll<()> {
        self.waker.register(context.waker());
        match self.pressed.load(std::sync::atomic::Ordering::Acquire) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    }
}
