//! The CUDA driver's side of the device layer.
//!
//! | file | what |
//! |---|---|
//! | `driver`, `advice` | whether the driver is there, its errors, what to do about them |
//! | `context` | a GPU's context, peers, events |
//! | `gpu_clock` | when operations begin and end, if they are traced |
//! | `machine` | the machine's GPUs and where they sit |
//! | `management` | NVIDIA's management library, if it is there |
//! | `pool` | memory of GPUs, pinned memory of the host |
//! | `words` | words that streams write |
//! | `stream`, `stream_queue` | our streams, which share the driver's |
//! | `lane`, `lane_stream`, `submission`, `large_copies` | the driver's streams, and what they are given |
//! | `operation`, `pending` | what they do, and what happens when they have |
//! | `in_order`, `submitter`, `settle` | what waits to be submitted, and who does: see `README.md` |
//! | `reactor` | who sees that streams have come to their points |
//! | `nvrtc`, `compile`, `module`, `by_context` | kernels from source to launch |

mod advice;
mod by_context;
mod compile;
mod context;
mod driver;
mod free_blocks;
mod gpu_clock;
mod in_order;
#[cfg(test)]
mod in_order_tests;
mod lane;
mod lane_stream;
mod large_copies;
mod machine;
mod management;
mod module;
mod nvrtc;
mod operation;
mod pending;
mod pinned;
mod pool;
mod reactor;
mod settle;
mod stream;
mod stream_queue;
mod submission;
mod submitter;
mod words;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

pub(crate) use by_context::{ByContext, ContextId};
pub(crate) use compile::compile_with_log;
pub(crate) use context::{GpuContext, NativeEvent};
pub(crate) use driver::{copies_batches, count, fault};
pub(crate) use lane_stream::LaneStream;
pub(crate) use module::Function;
pub(crate) use operation::Submitted;
pub(crate) use pinned::{Pinned, PinnedPool};
pub(crate) use pool::GpuMemory;
pub(crate) use reactor::stay_awake;
pub(crate) use settle::settle;
pub(crate) use stream::CudaStream;

use context::Peer;
use lane::Lane;
use management::Management;
use pool::GpuPool;
use reactor::{Reactor, ReactorHandle};
use submitter::Submitter;
use words::Words;

use crate::block::Contents;
use crate::cuda_source::CudaSource;
use crate::launching::while_nobody_launches;
use crate::location::Location;
use crate::poison::Poison;
use crate::stream_kind::StreamKind;
use crate::task::Place;
use crate::topology::LinkKind;
use crate::trace::Trace;
use crate::{Error, Result};

/// Lanes of each kind. For how many of them may be held up at once, see decision 5.
const COMPUTE: usize = 4;
const HIGH_PRIORITY: usize = 2;
const COPY: usize = 4;
const GANG: usize = 8;
const SMALL_COPY: usize = 2;

/// The lanes of a kind. Each kind is dealt to streams in turns of its own, so that even a program
/// that keeps making streams of two kinds gets all lanes of both.
struct Lanes {
    all: Vec<Arc<Lane>>,
    next: AtomicUsize,
}

impl Lanes {
    /// Takes `count` consecutive turns. Returns the first.
    fn take_turns(&self, count: usize) -> usize {
        // Relaxed: the numbers need only differ.
        self.next.fetch_add(count, Ordering::Relaxed)
    }

    /// The lane whose turn it is.
    fn of_turn(&self, turn: usize) -> &Arc<Lane> {
        &self.all[turn % self.all.len()]
    }
}

/// A GPU in use.
pub(crate) struct Gpu {
    context: Arc<GpuContext>,
    pool: Arc<GpuPool>,
    compute: Lanes,
    high_priority: Lanes,
    copy: Lanes,
    /// The lanes of one gang must all be different.
    gang: Lanes,
    small_copy: Lanes,
    submitter: Arc<Submitter>,
    /// How many devices are this GPU or parts of it.
    devices: AtomicUsize,
    /// GPUs whose memory its kernels reach.
    peers: OnceLock<Vec<usize>>,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Gpu({})", self.context.name)
    }
}

impl Gpu {
    /// Counts a device. To be called before any stream of the device is made.
    pub(crate) fn add_device(&self) {
        // Relaxed: whoever has the device comes after this.
        self.devices.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes consecutive turns at the gang's lanes, so that as many streams as there are lanes get
    /// one each. Returns the first.
    pub(crate) fn take_turns_of_gang(&self, count: usize) -> usize {
        self.gang.take_turns(count)
    }

    /// A new stream with an order of its own, on the lane whose turn it is, or on the lane of this turn.
    pub(crate) fn stream(&self, kind: StreamKind, turn: Option<usize>) -> Result<CudaStream> {
        let lanes = match kind {
            StreamKind::Compute => &self.compute,
            StreamKind::HighPriority => &self.high_priority,
            StreamKind::Copy => &self.copy,
            StreamKind::Gang => &self.gang,
            StreamKind::SmallCopy => &self.small_copy,
        };
        let lane = lanes.of_turn(turn.unwrap_or_else(|| lanes.take_turns(1)));
        let stream = CudaStream::new(Arc::clone(lane), self.is_shared());
        stream.check().map(|()| stream)
    }

    /// Wakes the thread that launches are left to, unless callers launch themselves.
    pub(crate) fn expect_launches(&self) {
        if !self.is_shared() {
            self.submitter.wake();
        }
    }

    /// Whether large copies are under way, which engines finish before they serve others.
    pub(crate) fn is_copying(&self) -> bool {
        self.context.large_copies.is_any()
    }

    /// Whether other devices are parts of this GPU, too.
    fn is_shared(&self) -> bool {
        // Relaxed: see `add_device`.
        self.devices.load(Ordering::Relaxed) > 1
    }

    /// Identifies the GPU among all contexts of the process.
    pub(crate) fn id(&self) -> ContextId {
        self.context.id()
    }

    /// The kernel, compiled and loaded.
    pub(crate) fn load(&self, kernel: &str, source: &CudaSource) -> Result<Function> {
        self.context.bind()?;
        self.context.load(kernel, source)
    }

    fn lanes(&self) -> impl Iterator<Item = &Arc<Lane>> {
        let kinds = [&self.compute, &self.high_priority, &self.copy, &self.gang, &self.small_copy];
        kinds.into_iter().flat_map(|lanes| &lanes.all)
    }

    /// Memory with these contents; `None` if there is not enough.
    pub(crate) fn allocate(&self, bytes: usize, contents: Contents) -> Result<Option<GpuMemory>> {
        self.pool.allocate(bytes, contents)
    }

    pub(crate) fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// Bytes of memory that no process uses, if the driver says so.
    pub(crate) fn free_memory(&self) -> Option<u64> {
        self.context.free_memory()
    }

    /// Bytes that the GPU has.
    pub(crate) fn total_memory(&self) -> Result<u64> {
        self.context.total_memory()
    }

    /// Whether kernels of this GPU may touch memory of `owner`.
    pub(crate) fn reaches(&self, owner: &GpuContext) -> bool {
        owner.ordinal == self.context.ordinal
            || self.peers.get().is_some_and(|peers| peers.contains(&owner.ordinal))
    }
}

/// The GPUs of one device set, and the threads that watch them.
#[derive(Debug)]
pub(crate) struct Runtime {
    gpus: Vec<Arc<Gpu>>,
    pinned: Arc<PinnedPool>,
    poison: Poison,
    links: Vec<Vec<LinkKind>>,
    locations: Vec<Location>,
    // Declared last: dropped once everything above has ended.
    _reactors: Vec<Reactor>,
}

impl Runtime {
    /// Opens these GPUs, each once.
    ///
    /// # Errors
    /// What [`driver::start`] says; a GPU that is not there.
    pub(crate) fn open(ordinals: &[usize], trace: Option<&Trace>) -> Result<Arc<Runtime>> {
        while_nobody_launches(|| Runtime::open_now(ordinals, trace))
    }

    fn open_now(ordinals: &[usize], trace: Option<&Trace>) -> Result<Arc<Runtime>> {
        let first = ordinals.first().copied().unwrap_or(0);
        driver::start(&format!("cuda:{first}"))?;
        let poison = Poison::default();
        let is_alone = ordinals.len() == 1;
        let contexts = ordinals.iter().map(|&ordinal| GpuContext::new(ordinal, is_alone, &poison));
        let contexts = contexts.collect::<Result<Vec<_>>>()?;
        let Some(first) = contexts.first() else {
            return Err(Error::Start { reason: "no GPU is asked for".to_string() });
        };
        if let Some(trace) = trace {
            contexts.iter().try_for_each(|context| context.trace(trace))?;
        }
        let pinned = PinnedPool::new(first);
        let words = Words::new(&pinned);
        let reactors: Vec<_> = contexts.iter().map(|_| ReactorHandle::new(&poison)).collect();
        let gpus = contexts.iter().zip(&reactors);
        let gpus = gpus.map(|(context, reactor)| open_gpu(context, &words, reactor));
        let gpus = gpus.collect::<Result<Vec<_>>>()?;
        let identities = contexts.iter().map(|context| machine::identity(context.device));
        let identities = identities.collect::<Result<Vec<_>>>()?;
        let management = Management::get();
        let over_nvlink = |from: usize, to: usize| {
            management?.over_nvlink(&identities[from].bus, &identities[to].bus)
        };
        let links = connect(&gpus, over_nvlink)?;
        let reactors = reactors.iter().zip(&gpus);
        let reactors = reactors.map(|(reactor, gpu)| reactor.start(gpu.lanes().cloned().collect()));
        let reactors = reactors.collect::<Result<Vec<_>>>()?;
        let locations =
            identities.into_iter().map(|identity| identity.location(management)).collect();
        Ok(Arc::new(Runtime { gpus, pinned, poison, links, locations, _reactors: reactors }))
    }

    pub(crate) fn gpu(&self, ordinal: usize) -> Option<&Arc<Gpu>> {
        self.gpus.iter().find(|gpu| gpu.context.ordinal == ordinal)
    }

    pub(crate) fn pinned(&self) -> &Arc<PinnedPool> {
        &self.pinned
    }

    /// The record of the first fault of one of these GPUs.
    pub(crate) fn poison(&self) -> &Poison {
        &self.poison
    }

    fn place(&self, ordinal: usize) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.context.ordinal == ordinal)
    }

    /// Where a GPU sits.
    pub(crate) fn location(&self, ordinal: usize) -> Option<Location> {
        self.place(ordinal).map(|place| self.locations[place].clone())
    }

    /// The driver and all GPUs of the machine.
    pub(crate) fn machine(&self) -> Result<String> {
        machine::describe()
    }

    /// How two GPUs are connected.
    pub(crate) fn link(&self, from: usize, to: usize) -> LinkKind {
        match (self.place(from), self.place(to)) {
            (Some(from), Some(to)) => self.links[from][to],
            _ => LinkKind::Host,
        }
    }

    /// Waits until everything submitted so far is over.
    pub(crate) fn quiesce(&self) -> Result<()> {
        for gpu in &self.gpus {
            for lane in gpu.lanes() {
                lane.synchronize()?;
            }
        }
        Ok(())
    }

    /// Gives unused memory back to the driver.
    pub(crate) fn give_back_unused(&self) -> Result<()> {
        self.pinned.give_back_unused();
        while_nobody_launches(|| {
            self.gpus.iter().try_for_each(|gpu| {
                gpu.context.bind()?;
                gpu.context.give_back_unused()
            })
        })
    }

    /// The number of points that streams have not come to yet.
    pub(crate) fn outstanding(&self) -> usize {
        self.gpus.iter().flat_map(|gpu| gpu.lanes()).filter(|lane| !lane.is_idle()).count()
    }
}

fn open_gpu(
    context: &Arc<GpuContext>,
    words: &Arc<Words>,
    reactor: &ReactorHandle,
) -> Result<Arc<Gpu>> {
    let submitter = Arc::<Submitter>::default();
    let lanes = |kind, first: usize, count: usize| -> Result<Lanes> {
        // Numbers are unique among all GPUs.
        let number = |place| context.ordinal << 8 | (first + place);
        let threads = || (Arc::clone(&submitter), reactor.clone());
        let lane = |place| Lane::new(context, number(place), kind, words, threads());
        let all = (0..count).map(lane).collect::<Result<_>>()?;
        Ok(Lanes { all, next: AtomicUsize::new(0) })
    };
    Ok(Arc::new(Gpu {
        context: Arc::clone(context),
        pool: GpuPool::new(context)?,
        compute: lanes(StreamKind::Compute, 0, COMPUTE)?,
        high_priority: lanes(StreamKind::HighPriority, COMPUTE, HIGH_PRIORITY)?,
        copy: lanes(StreamKind::Copy, COMPUTE + HIGH_PRIORITY, COPY)?,
        gang: lanes(StreamKind::Gang, COMPUTE + HIGH_PRIORITY + COPY, GANG)?,
        small_copy: lanes(
            StreamKind::SmallCopy,
            COMPUTE + HIGH_PRIORITY + COPY + GANG,
            SMALL_COPY,
        )?,
        submitter: Arc::clone(&submitter),
        devices: AtomicUsize::new(0),
        peers: OnceLock::new(),
    }))
}

/// Enables peer access wherever it is possible. The management library tells whether a link is
/// NVLink; if it does not know, the presence of atomics decides.
fn connect(
    gpus: &[Arc<Gpu>],
    over_nvlink: impl Fn(usize, usize) -> Option<bool>,
) -> Result<Vec<Vec<LinkKind>>> {
    let mut links = Vec::new();
    for (here, from) in gpus.iter().enumerate() {
        let (mut row, mut peers) = (Vec::new(), Vec::new());
        for (there, to) in gpus.iter().enumerate() {
            row.push(match from.context.ordinal == to.context.ordinal {
                true => LinkKind::Memory,
                false => match from.context.peer(&to.context)? {
                    Some(peer) if from.context.enable_peer(&to.context)? => {
                        peers.push(to.context.ordinal);
                        let nvlink = over_nvlink(here, there).unwrap_or(peer == Peer::WithAtomics);
                        if nvlink { LinkKind::NvLink } else { LinkKind::Pcie }
                    }
                    _ => LinkKind::Host,
                },
            });
        }
        links.push(row);
        let _ = from.peers.set(peers);
    }
    Ok(links)
}

/// Copies on the calling thread, for a host device's stream.
pub(crate) fn copy_now(from: &Place, to: &Place) -> Result<()> {
    let owner = from.allocation().gpu().or_else(|| to.allocation().gpu());
    let Some(context) = owner else {
        return Ok(());
    };
    let (target, source) = (to.address() as u64, from.address() as u64);
    // SAFETY: the ledger has ordered the copy, and the caller holds both places.
    let copied = unsafe { context.copy_now(target, source, from.bytes()) };
    if copied.is_err() && context.poison.get().is_some() {
        // The GPU may be using them as long as the process lives: leak them.
        std::mem::forget([from, to].map(|place| Arc::clone(place.allocation())));
    }
    copied
}
