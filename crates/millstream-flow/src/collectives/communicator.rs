//! Communicators: the devices of a context, ready for collectives.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_device::{Awaitable, Device, FailureListener, Stream};

use super::algorithm::Algorithm;
use super::operands::Operands;
use super::operator::Operator;
use super::packets::{self, Packets};
use super::peer_words::PeerWords;
use super::peers::Peers;
use super::plan::{Pattern, signals};
use super::rank_links::RankLinks;
use super::series::Collectives;
use crate::context::Context;
use crate::statistics::LinkStatistics;
use crate::{Error, Item, Result, ways};

/// How a [`Communicator`] works.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommunicatorOptions {
    /// Who sends what to whom.
    pub algorithm: Algorithm,
    /// Bytes of a packet at most, where packets are used; at least one item.
    pub packet_bytes: usize,
    /// Between GPUs that are peers: the most blocks of each kernel; fewer where devices share a
    /// GPU. Long `reduce`s and `broadcast`s, and rings, use up to twice as many, two for each
    /// multiprocessor. For each of these `blocks`, 128 KiB are allocated on each GPU, through which
    /// such long vectors go.
    pub blocks: usize,
    /// Between GPUs that are peers: if one rank sends at most this many bytes to all others
    /// together, they go in lines, which arrive sooner but take twice the bytes. The limit is half
    /// of that for a `broadcast`, which could go along a chain; a `reduce` uses lines for vectors
    /// of the same lengths as a `broadcast`. If pieces differ in length, the longest one counts for
    /// all. Four to eight times as many bytes are allocated on each GPU.
    pub line_bytes: usize,
    /// Between GPUs that are peers: all-reduces and reduce-scatters of at least this many bytes,
    /// all ranks' parts together, go round a ring, in which links carry stores only. Exceptions are
    /// those that fit in lines, and those with a part that does not begin at a multiple of 16
    /// bytes. `None` stands for 32 MiB, from where on four GPUs gain by it; but two GPUs then never
    /// use a ring, as a single pass is about as fast or faster.
    pub ring_bytes: Option<usize>,
    /// How long a GPU waits for a packet of another before the collective fails.
    pub patience: Duration,
}

impl Default for CommunicatorOptions {
    fn default() -> CommunicatorOptions {
        CommunicatorOptions {
            algorithm: Algorithm::Auto,
            packet_bytes: 4 << 20,
            blocks: 128,
            line_bytes: 2 << 20,
            ring_bytes: None,
            patience: Duration::from_secs(10),
        }
    }
}

/// The devices of a context as ranks of collectives, in the context's order.
///
/// ```
/// use millstream_flow::{Communicator, Context, Devices, Operator};
///
/// let context = Context::builder().devices(Devices::host(3)).build()?;
/// let mut communicator = Communicator::new(&context)?;
/// let mut buffers = Vec::new();
/// for (device, value) in context.devices().iter().zip(1..) {
///     let stream = device.stream()?;
///     buffers.push(stream.uploaded(vec![value; 5])?);
///     stream.record()?.synchronize()?;
/// }
/// let sum = Operator::<u32>::sum();
/// context.block_on(async {
///     let mut collectives = communicator.begin().await?;
///     collectives.all_reduce(&mut buffers, &sum)?;
///     collectives.completed().await
/// })??;
/// let stream = context.devices()[2].stream()?;
/// assert_eq!(context.block_on(stream.download(&buffers[2])?)??, [6; 5]);
/// # Ok::<(), millstream_flow::Error>(())
/// ```
///
/// # Two ways
/// On up to eight GPUs that reach each other's memory, [`Algorithm::Direct`] is one kernel on each
/// GPU, and these kernels use each other's memory. In all other cases (other devices, other
/// algorithms, or a context that asks for another [way](Context::transfer) than a push), packets go
/// from device to device as those of links do, and are combined there, in the order of streams and
/// events. Memory for packets and for copies of inputs is kept until the communicator is dropped,
/// so only the first collective of a size waits for it.
pub struct Communicator {
    pub(super) context: Context,
    pub(super) streams: Vec<Stream>,
    /// Listeners to the streams' failures. Dropped after the streams, so that they hear of failures
    /// in what these still have to do.
    _listeners: Vec<FailureListener>,
    options: CommunicatorOptions,
    peers: Option<Peers>,
    /// Set once something goes in packets.
    links: Option<RankLinks>,
    failure: Option<Error>,
}

impl fmt::Debug for Communicator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Communicator { streams, options, failure, .. } = self;
        formatter
            .debug_struct("Communicator")
            .field("streams", streams)
            .field("options", options)
            .field("failure", failure)
            .finish_non_exhaustive()
    }
}

impl Communicator {
    /// The CUDA C++ of the kernels that move items of a type, to be compiled without running it.
    #[doc(hidden)]
    #[cfg(feature = "cuda")]
    pub fn cuda_sources<T: Item>() -> Vec<millstream_device::CudaSource> {
        super::programs::cuda_sources::<T>(None).into()
    }

    /// A communicator of all devices of `context`.
    ///
    /// # Errors
    /// As [`Communicator::with_options`].
    pub fn new(context: &Context) -> Result<Communicator> {
        Communicator::with_options(context, CommunicatorOptions::default())
    }

    /// As [`Communicator::new`], with options.
    ///
    /// # Errors
    /// No memory for the lines and tiles of GPUs; a way of the context that needs a kernel
    /// which cannot be loaded.
    pub fn with_options(context: &Context, options: CommunicatorOptions) -> Result<Communicator> {
        // Kernels of peers push, so they need a context whose kernels may push.
        let are_peers = matches!(options.algorithm, Algorithm::Auto | Algorithm::Direct)
            && context.kernels_push()
            && Peers::are_possible(context);
        let mut devices = context.devices().iter();
        devices.try_for_each(|device| ways::prepare(context.transfer(), device))?;
        let streams = match are_peers {
            true => Stream::of_gang(context.devices()),
            false => context.devices().iter().map(Device::stream).collect(),
        }?;
        let peers = are_peers.then(|| Peers::new(context, &options)).transpose()?;
        // If a stream fails, stop all kernels: they would wait for the failed rank. The kernels
        // keep the words alive, so the listener need not.
        let listen = |peers: &Peers, stream: &Stream| {
            let words = Arc::downgrade(peers.words());
            stream.on_failure(move |_| {
                if let Some(words) = words.upgrade() {
                    words.stop();
                }
            })
        };
        let _listeners = match &peers {
            None => Vec::new(),
            Some(peers) => streams.iter().map(|stream| listen(peers, stream)).collect(),
        };
        let context = context.clone();
        Ok(Communicator {
            context,
            streams,
            _listeners,
            options,
            peers,
            links: None,
            failure: None,
        })
    }

    /// Begins a series of collectives. Waits until no other gang runs on the devices, since kernels
    /// that wait for each other must all have started. Other gangs wait until the series is over:
    /// see [`Collectives`].
    ///
    /// # Errors
    /// What an earlier series failed with: a communicator does not recover.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn begin(&mut self) -> Result<Collectives<'_>> {
        self.check()?;
        let permit = match &self.peers {
            Some(_) => Some(self.context.gang_permit().await),
            None => None,
        };
        // While this waited, the series before may have failed.
        self.check()?;
        Ok(Collectives::new(self, permit))
    }

    /// Ranks: devices of the context.
    pub fn ranks(&self) -> usize {
        self.streams.len()
    }

    /// What has gone from rank to rank in packets so far, for each pair of ranks between which
    /// something has, in order. What kernels of peers write is not counted.
    ///
    /// ```
    /// use millstream_flow::{Communicator, Context, Devices, Error};
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let mut communicator = Communicator::new(&context)?;
    /// let mut vectors = Vec::new();
    /// for device in context.devices() {
    ///     vectors.push(device.buffer::<u32>(10)?);
    /// }
    /// context.block_on(async {
    ///     let mut collectives = communicator.begin().await?;
    ///     collectives.broadcast(0, &mut vectors)?;
    ///     collectives.completed().await
    /// })??;
    /// let [link] = &communicator.statistics()[..] else { unreachable!() };
    /// assert_eq!((&link.from[..], &link.to[..]), ("host:0", "host:1"));
    /// assert_eq!((link.packets, link.bytes), (1, 40));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn statistics(&self) -> Vec<LinkStatistics> {
        self.links.as_ref().map(RankLinks::statistics).unwrap_or_default()
    }

    /// Checks whether all collectives that are over have come to their results. Call it if you
    /// [go on by events](Collectives::record) of a series, since these are completed in any case.
    /// Every series checks this by itself when it begins and when it is over.
    ///
    /// # Errors
    /// What the communicator has failed with, for good: a rank that did not come within the patience, or a
    /// failed device.
    pub fn check(&mut self) -> Result<()> {
        if self.failure.is_none()
            && let Some(peers) = &self.peers
            && let Err(error) = peers.check(&self.streams)
        {
            self.failure = Some(error);
        }
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// What ends kernels of peers.
    pub(super) fn words(&self) -> Option<&Arc<PeerWords>> {
        self.peers.as_ref().map(Peers::words)
    }

    /// Fails for good: ranks may be waiting for what will not come.
    pub(super) fn fail(&mut self, cause: Error) {
        if let Some(words) = self.words() {
            words.stop();
        }
        self.failure.get_or_insert(cause);
    }

    /// Submits a collective whose operands have been checked.
    pub(super) fn submit<T: Item>(
        &mut self,
        pattern: Pattern,
        operands: Operands<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        match &mut self.peers {
            Some(peers) if Peers::carry::<T>(&pattern) => {
                peers.run(&self.streams, pattern, operands, operator)
            }
            _ => self.in_packets(&pattern, operands, operator),
        }
    }

    /// Submits a barrier, in which every rank hears from every other.
    pub(super) fn barrier(&mut self) -> Result<()> {
        if let Some(peers) = &mut self.peers {
            return peers.barrier(&self.streams);
        }
        let plan = self.options.algorithm.plan(self.context.topology(), &signals(self.ranks()));
        plan.iter().try_for_each(|round| packets::signal(&self.streams, round))
    }

    /// Makes what is submitted next, on every rank, come after an event.
    pub(super) fn wait(&self, awaitable: &impl Awaitable) -> Result<()> {
        Ok(self.streams.iter().try_for_each(|stream| stream.wait(awaitable))?)
    }

    fn in_packets<T: Item>(
        &mut self,
        pattern: &Pattern,
        operands: Operands<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        let (context, streams) = (&self.context, &self.streams);
        let topology = context.topology();
        let item = size_of::<T>();
        let most = (self.options.packet_bytes / item.max(1)).max(1);
        let items = most.min(pattern.longest()).max(1);
        let links = self.links.get_or_insert_with(|| RankLinks::new(context));
        let algorithm = match self.options.algorithm {
            Algorithm::Auto => Algorithm::fastest(topology, links, pattern, item, items),
            forced => forced,
        };
        let slices = pattern.longest().div_ceil(items);
        let mut packets = Packets { context, streams, links, items, slices };
        let mut areas = packets.areas(pattern, operands)?;
        for number in 0.. {
            let Some(slice) = pattern.slice(number, items) else { break };
            packets.run(algorithm.plan(topology, &slice), &mut areas, operator)?;
        }
        packets.finish(pattern, areas)
    }
}
