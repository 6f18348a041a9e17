//! Collectives as one kernel on each GPU, which use each other's memory: short vectors in
//! lines (`collective_lines.cuh`), long ones in one pass (`collective_pass.cuh`) or, to be
//! reduced, along a chain (`collective_chain.cuh`). The protocols are in `README.md`.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use millstream_device::{
    CudaSource, Device, Event, GangRead, GangWrite, Kernel, KernelFault, Parameter, Pod, Shared,
    SharedBuffer, SharedSet, Stream, Value,
};

use super::chain_settings::{self, ChainSettings, Channels};
use super::communicator::CommunicatorOptions;
use super::line_settings::{LINE_BYTES, LineSettings, fits, lines, pieces, unit};
use super::operands::Operands;
use super::operator::Operator;
use super::pass_settings::{PassSettings, jobs, swaps};
use super::plan::Pattern;
use super::programs;
use super::rank_settings::{MOST_RANKS, RANK_WORDS, RankSettings, THREADS};
use crate::context::Context;
use crate::submitters::Submitters;
use crate::{Error, Item, Result};

/// Blocks of all kernels of a GPU: they must all run at once, one a multiprocessor.
const MOST_BLOCKS: usize = 128;
/// Of a chain there are as many more, two a multiprocessor: one works while the other waits
/// until its stores are there.
const BLOCKS_OF_A_CHAIN: usize = 2;
/// The word in the host's memory that ends the kernels, `host_stop`, and what it says.
const HOST_STOP: usize = 1;
const IS_STOPPED: u32 = 1;
const PEER_IS_LATE: u32 = 2;

type Signature<T, S> = (GangRead<T>, GangWrite<T>, SharedSet<u64>, Shared<u32>, Value<S>);
type PeerKernel<T, S> = Kernel<Signature<T, S>>;

/// The kernels of a type and an operator.
struct Kernels<T: Item> {
    lines: PeerKernel<T, LineSettings>,
    pass: PeerKernel<T, PassSettings>,
    chain: PeerKernel<T, ChainSettings>,
}

impl<T: Item> Kernels<T> {
    fn new(operator: Option<&str>) -> Kernels<T> {
        let [lines, pass, chain] = programs::sources::<T>(operator);
        Kernels { lines: kernel(lines), pass: kernel(pass), chain: kernel(chain) }
    }
}

fn kernel<T: Item, S: Pod + Send + Sync>(source: CudaSource) -> PeerKernel<T, S> {
    let no_twin = |_: &_, _: <Signature<T, S> as Parameter>::View<'_>| {
        Err(KernelFault::new("collectives of peers run on GPUs only"))
    };
    Kernel::from_closure("collective", no_twin).with_cuda(source)
}

/// What kernels meet in.
pub(super) struct Peers {
    /// Of each rank: words of the others, their lines, and channels of the chain.
    memory: Vec<SharedBuffer<u64>>,
    /// What to end the kernels for.
    host: SharedBuffer<u32>,
    /// By item type and operator.
    kernels: HashMap<(TypeId, Option<Arc<str>>), Box<dyn Any + Send + Sync>>,
    submitters: Submitters,
    /// Of a kernel, at most.
    blocks: usize,
    /// Lines from one rank to another, for one collective.
    capacity: usize,
    channels: Channels,
    patience_ns: u64,
    /// Collectives in lines or one pass so far.
    epoch: u64,
}

impl Peers {
    /// Whether kernels of these devices reach each other.
    pub(super) fn are_possible(context: &Context) -> bool {
        let devices = context.devices();
        (2..=MOST_RANKS).contains(&devices.len())
            && devices.iter().all(|device| device.is_gpu())
            && context.topology().all_peers()
    }

    pub(super) fn new(context: &Context, options: &CommunicatorOptions) -> Result<Peers> {
        let ranks = context.devices().len();
        let capacity = options.line_bytes.div_ceil(LINE_BYTES).max(1);
        // Lines of two collectives, a number with each word.
        let words = RANK_WORDS + 2 * ranks * capacity * 2;
        let blocks = options.blocks.min(MOST_BLOCKS / most_sharers(context)).max(1);
        let channels = Channels::new(words, BLOCKS_OF_A_CHAIN * blocks);
        let memory = context.devices().iter().map(|device| {
            Ok(device.shared(channels.end())?.with_label(format!("collectives' words of {device}")))
        });
        Ok(Peers {
            memory: memory.collect::<Result<_>>()?,
            host: context.host().shared(2)?,
            kernels: HashMap::new(),
            submitters: Submitters::new(ranks),
            blocks,
            capacity,
            channels,
            patience_ns: u64::try_from(options.patience.as_nanos()).unwrap_or(u64::MAX),
            epoch: 0,
        })
    }

    /// Whether items of this type are something to move, and fit in what they go through.
    pub(super) fn carry<T: Item>(pattern: &Pattern) -> bool {
        match pattern {
            Pattern::Reduce { .. } => chain_settings::fits(size_of::<T>()),
            _ => size_of::<T>() > 0,
        }
    }

    /// Ends the kernels, which may wait for one that will not come.
    pub(super) fn stop(&self) {
        let _ = self.host.store(HOST_STOP, IS_STOPPED);
    }

    /// Why the kernels have ended early, if they have.
    pub(super) fn check(&self, streams: &[Stream]) -> Result<()> {
        let message = match self.host.load(HOST_STOP)? {
            0 => return Ok(()),
            PEER_IS_LATE => "a peer did not come in time",
            _ => "it was stopped",
        };
        let devices: Vec<String> = streams.iter().map(|stream| stream.device().name()).collect();
        Err(Error::from(millstream_device::Error::KernelFailed {
            kernel: "collective".into(),
            device: devices.join(", "),
            message: message.into(),
        }))
    }

    /// Submits the kernels of a collective.
    pub(super) fn run<T: Item>(
        &mut self,
        streams: &[Stream],
        pattern: &Pattern,
        mut operands: Operands<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        // What is only moved is words.
        let word = if pattern.combines() { size_of::<T>() } else { programs::word_bytes::<T>() };
        let pattern = pattern.in_words(size_of::<T>() / word);
        let in_lines = fits(word) && lines(pattern.longest(), word) <= self.capacity;
        match &pattern {
            _ if in_lines => self.in_lines(streams, &pattern, word, &mut operands, operator),
            Pattern::Reduce { root, items } => {
                self.along_a_chain(streams, *root, items.len(), &mut operands, operator)
            }
            _ => self.in_one_pass(streams, &pattern, word, &mut operands, operator),
        }
    }

    fn in_lines<T: Item>(
        &mut self,
        streams: &[Stream],
        pattern: &Pattern,
        word: usize,
        operands: &mut Operands<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        let pieces = pieces(pattern, streams.len(), operands.is_in_place());
        let capacity = self.capacity as u64;
        let settings = self.next(streams.len()).zip(pieces);
        let settings = settings.map(|(common, pieces)| LineSettings { common, pieces, capacity });
        // A thread for each unit.
        let threads = pattern.longest().div_ceil(unit(word).0).min(self.blocks * THREADS);
        let settings = settings.collect();
        self.launch(streams, threads, operands, operator, |kernels| &kernels.lines, settings)
    }

    fn in_one_pass<T: Item>(
        &mut self,
        streams: &[Stream],
        pattern: &Pattern,
        word: usize,
        operands: &mut Operands<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        let in_place = operands.is_in_place();
        let jobs = jobs(pattern, streams.len(), in_place, word);
        let longest = jobs.iter().flatten().map(|job| job.len as usize).max().unwrap_or(0);
        // A thread for each 16 bytes.
        let threads = (longest * word).div_ceil(16).min(self.blocks * THREADS);
        let swaps = swaps(pattern, in_place);
        let settings = self.next(streams.len()).zip(jobs);
        let settings =
            settings.map(|(common, jobs)| PassSettings::new(common, &jobs, in_place, swaps));
        let settings = settings.collect();
        self.launch(streams, threads, operands, operator, |kernels| &kernels.pass, settings)
    }

    fn along_a_chain<T: Item>(
        &mut self,
        streams: &[Stream],
        root: usize,
        len: usize,
        operands: &mut Operands<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        let (vector, in_place) = ((len, size_of::<T>()), operands.is_in_place());
        let settings = self.ranks(streams.len());
        let settings = settings
            .map(|common| ChainSettings::new(common, self.channels, vector, root, in_place));
        let settings: Vec<_> = settings.collect();
        // A block for each tile.
        let threads = settings[0].tiles().min(self.channels.count) * THREADS;
        self.launch(streams, threads, operands, operator, |kernels| &kernels.chain, settings)
    }

    /// Submits a pass of nothing, after which every rank comes after what all were given
    /// before.
    pub(super) fn barrier(&mut self, streams: &[Stream]) -> Result<()> {
        let mut operands = Operands::<u32> { inputs: None, outputs: &mut [] };
        let settings = self.next(streams.len());
        let settings = settings.map(|common| PassSettings::new(common, &[], true, false)).collect();
        self.launch(streams, 1, &mut operands, None, |kernels| &kernels.pass, settings)
    }

    /// Begins a collective with a number of its own: what each rank is told.
    fn next(&mut self, ranks: usize) -> impl Iterator<Item = RankSettings> + use<> {
        self.epoch += 1;
        self.ranks(ranks)
    }

    /// What each rank is told.
    fn ranks(&self, ranks: usize) -> impl Iterator<Item = RankSettings> + use<> {
        let (epoch, patience_ns) = (self.epoch, self.patience_ns);
        (0..ranks).map(move |rank| RankSettings {
            epoch,
            patience_ns,
            rank: rank as u32,
            ranks: ranks as u32,
        })
    }

    /// Submits one of an operator's kernels on each rank, with about so many threads.
    fn launch<T: Item, S: Pod + Send + Sync>(
        &mut self,
        streams: &[Stream],
        threads: usize,
        operands: &mut Operands<'_, T>,
        operator: Option<&Operator<T>>,
        kernel: fn(&Kernels<T>) -> &PeerKernel<T, S>,
        settings: Vec<S>,
    ) -> Result<()> {
        let size = threads.max(1);
        let key = (TypeId::of::<T>(), operator.map(|operator| Arc::clone(operator.cuda())));
        let kernels = self.kernels.entry(key).or_insert_with(|| {
            Box::new(Kernels::<T>::new(operator.map(|operator| &**operator.cuda())))
        });
        let kernel = kernel(kernels.downcast_ref::<Kernels<T>>().ok_or(Error::Ended)?);
        // On all devices before any waits for another's: loading may wait for kernels
        // that run.
        for stream in streams {
            kernel.prepare(stream.device(), size)?;
        }
        let memory: Vec<_> = self.memory.iter().collect();
        let mut bound = Vec::new();
        for ((rank, stream), settings) in streams.iter().enumerate().zip(settings) {
            let inputs = (operands.inputs.unwrap_or_default(), rank);
            let outputs = (&mut *operands.outputs, rank);
            let arguments = (inputs, outputs, &memory[..], &self.host, settings);
            bound.push(kernel.bind(stream, size, arguments)?);
        }
        let submitted = self.submitters.run(bound.into_iter().map(|kernel| || kernel.submit()))?;
        Ok(submitted.into_iter().collect::<millstream_device::Result<()>>()?)
    }

    /// Records an event of each rank.
    pub(super) fn record(
        &self,
        streams: &[Stream],
    ) -> Result<Vec<millstream_device::Result<Event>>> {
        let streams = streams.iter().cloned();
        self.submitters.run(streams.map(|stream| move || stream.record()))
    }
}

/// Devices that share a GPU: their kernels must all fit at once.
fn most_sharers(context: &Context) -> usize {
    let devices = context.devices();
    let sharers = |one: &Device| devices.iter().filter(|other| one.shares_gpu_with(other)).count();
    devices.iter().map(sharers).max().unwrap_or(1)
}
