//! Collectives as one kernel on each GPU, which use each other's memory: short vectors in
//! lines (`collective_lines.cuh`), longer ones in one pass (`collective_pass.cuh`) or, to or from
//! one rank, along a chain (`collective_chain.cuh`), the longest round a ring
//! (`collective_ring.cuh`). The protocols are in `README.md`.

use std::any::{Any, TypeId};
use std::sync::{Arc, OnceLock};

use millstream_device::{
    Argument, BoundKernel, CudaSource, Device, GangParts, GangPartsMut, GangRead, GangWrite,
    Kernel, Launching, Parameter, Pod, Stream, Trusted, Value, patience_ns,
};
use smallvec::SmallVec;

use super::chain_settings::{Chain, ChainSettings};
use super::channel_settings::{self, Channels};
use super::communicator::CommunicatorOptions;
use super::line_operations::{LineArguments, LineCollective, LineOperations};
use super::line_settings::{LineSettings, capacity, fits, lines, unit};
use super::operands::Operands;
use super::operator::Operator;
use super::pass_settings::{PassSettings, jobs, swaps};
use super::peer_words::PeerWords;
use super::plan::Pattern;
use super::programs;
use super::rank_settings::{
    MOST_BLOCKS, MOST_RANKS, MOST_SHARED_BLOCKS, RANK_WORDS, RankSettings, THREADS,
};
use super::ring_settings::{Ring, RingSettings};
use crate::context::Context;
use crate::{Error, Item, Result};

/// The shortest vectors that go round a ring, unless the options say otherwise; from measurements.
const RING_BYTES: usize = 32 << 20;

type Signature<T, S> = (GangRead<T>, GangWrite<T>, PeerWords, Value<S>);

/// The kernels for an item type and an operator.
struct Kernels<T: Item> {
    lines: PeerKernel<LineOperations<T>>,
    pass: PeerKernel<Signature<T, PassSettings>>,
    chain: PeerKernel<Signature<T, ChainSettings>>,
    ring: PeerKernel<Signature<T, RingSettings>>,
}

struct PeerKernel<S: Parameter> {
    kernel: Kernel<S>,
    /// Set once the kernel is loaded on all devices.
    is_prepared: OnceLock<()>,
}

impl<T: Item> Kernels<T> {
    fn new(operator: Option<&str>) -> Kernels<T> {
        let [lines, pass, chain, ring] = programs::cuda_sources::<T>(operator);
        Kernels {
            lines: kernel(lines),
            pass: kernel(pass),
            chain: kernel(chain),
            ring: kernel(ring),
        }
    }
}

fn kernel<S: Parameter>(source: CudaSource) -> PeerKernel<S> {
    // SAFETY: the kernel keeps to its arguments as the signature says.
    let source = unsafe { Trusted::new(source) };
    let kernel =
        Kernel::without_twin("collective", source, "collectives of peers run on GPUs only");
    PeerKernel { kernel, is_prepared: OnceLock::new() }
}

/// Kernels of an item type and an operator.
struct KnownKernels {
    item: TypeId,
    operator: Option<Arc<str>>,
    kernels: Box<dyn Any + Send + Sync>,
}

/// What the kernels of peers need to meet.
pub(super) struct Peers {
    words: Arc<PeerWords>,
    /// As a rule only a few.
    kernels: Vec<KnownKernels>,
    /// The most blocks of a kernel.
    blocks: usize,
    /// Lines from one rank to another, for one collective. Collectives that could go along a chain
    /// use only half of them.
    capacity: usize,
    channels: Channels,
    /// The shortest vector that goes round a ring, in bytes.
    ring_bytes: usize,
    patience_ns: u64,
    /// Collectives submitted so far, in lines or in one pass.
    epoch: u64,
}

impl Peers {
    /// Whether kernels of these devices reach each other.
    pub(super) fn are_possible(context: &Context) -> bool {
        let devices = context.devices();
        (2..=MOST_RANKS).contains(&devices.len())
            && context.all_gpus()
            && context.topology().all_peers()
    }

    pub(super) fn new(context: &Context, options: &CommunicatorOptions) -> Result<Peers> {
        let ranks = context.devices().len();
        let capacity = capacity(options.line_bytes, ranks);
        // Lines of two collectives, with a number beside each word. A capacity that cannot be
        // counted becomes more than there is memory.
        let words = capacity.saturating_mul(4 * ranks).saturating_add(RANK_WORDS);
        let most = match most_sharers(context) {
            1 => MOST_BLOCKS,
            sharers => MOST_SHARED_BLOCKS / sharers,
        };
        let blocks = options.blocks.min(most).max(1);
        let channels = Channels::new(words, blocks);
        Ok(Peers {
            words: Arc::new(PeerWords::new(context, channels.end())?),
            kernels: Vec::new(),
            blocks,
            capacity,
            channels,
            ring_bytes: options.ring_bytes.unwrap_or(if ranks > 2 {
                RING_BYTES
            } else {
                usize::MAX
            }),
            patience_ns: patience_ns(options.patience),
            epoch: 0,
        })
    }

    /// Whether these kernels can handle items of this type: they have bytes to move and, where they
    /// are combined, are small enough for threads to hold.
    pub(super) fn carry<T: Item>(pattern: &Pattern) -> bool {
        match pattern.combines() {
            true => channel_settings::fits(size_of::<T>()),
            false => size_of::<T>() > 0,
        }
    }

    /// The words by which kernels are ended.
    pub(super) fn words(&self) -> &Arc<PeerWords> {
        &self.words
    }

    /// Why the kernels have ended early, if they have.
    pub(super) fn check(&self, streams: &[Stream]) -> Result<()> {
        // A device's own failure says more than that the other kernels were stopped because of it.
        streams.iter().try_for_each(Stream::check)?;
        let Some(message) = self.words.why_stopped()? else { return Ok(()) };
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
        pattern: Pattern,
        mut operands: Operands<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        // Items that are only moved are moved as words.
        let word = if pattern.combines() { size_of::<T>() } else { programs::word_bytes::<T>() };
        let pattern = pattern.in_words(size_of::<T>() / word);
        let most = match pattern {
            Pattern::Broadcast { .. } | Pattern::Reduce { .. } => self.capacity / 2,
            _ => self.capacity,
        };
        let in_lines = fits(word) && lines(pattern.longest(), word) <= most;
        if in_lines {
            return self.in_lines(streams, pattern, word, &mut operands, operator);
        }
        if let Some(chain) = Chain::of(&pattern, streams.len()) {
            return self.along_a_chain(streams, chain, word, &mut operands, operator);
        }
        let ring = Ring::of(&pattern, streams.len(), operands.is_in_place(), word);
        match ring.filter(|ring| ring.is_aligned(word) && ring.items() * word >= self.ring_bytes) {
            Some(ring) => self.round_a_ring(streams, &ring, word, &mut operands, operator),
            None => self.in_one_pass(streams, &pattern, word, &mut operands, operator),
        }
    }

    fn in_lines<T: Item>(
        &mut self,
        streams: &[Stream],
        pattern: Pattern,
        word: usize,
        operands: &mut Operands<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        // One thread for each unit.
        let units = pattern.longest().div_ceil(unit(word).0).max(1);
        let threads = units.min(self.blocks * THREADS);
        self.epoch += 1;
        let collective = Arc::new(LineCollective {
            pattern,
            in_place: operands.is_in_place(),
            words: Arc::clone(&self.words),
            units,
            settings: LineSettings {
                common: self.first_rank(streams.len()),
                capacity: self.capacity as u64,
            },
        });
        let inputs = operands.inputs;
        let outputs = operands.outputs.iter_mut().enumerate();
        let arguments = outputs.map(|(rank, output)| LineArguments {
            collective: Arc::clone(&collective),
            rank: rank as u32,
            input: inputs.map(|inputs| &inputs[rank]),
            output,
        });
        let kernels = kernels(&mut self.kernels, operator)?;
        launch(&kernels.lines, streams, threads, arguments)
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
        // One thread for each 16 bytes.
        let most = self.blocks * THREADS;
        let jobs = jobs(pattern, streams.len(), in_place, word, most * 16);
        let longest = jobs.iter().flatten().map(|job| job.len as usize).max().unwrap_or(0);
        let threads = (longest * word).div_ceil(16).min(most);
        let (blocks, swaps) = (threads.div_ceil(THREADS).max(1), swaps(pattern, in_place));
        let settings = self.next(streams.len()).zip(jobs);
        let settings = settings
            .map(|(common, jobs)| PassSettings::new(common, blocks, &jobs, in_place, swaps));
        let settings = settings.collect();
        self.run_together(streams, threads, operands, operator, |kernels| &kernels.pass, settings)
    }

    fn along_a_chain<T: Item>(
        &mut self,
        streams: &[Stream],
        chain: Chain,
        word: usize,
        operands: &mut Operands<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        let in_place = operands.is_in_place();
        let settings = self.ranks(streams.len());
        let settings =
            settings.map(|common| ChainSettings::new(common, self.channels, chain, word, in_place));
        let settings: Vec<_> = settings.collect();
        let threads = settings[0].blocks() * THREADS;
        self.run_together(streams, threads, operands, operator, |kernels| &kernels.chain, settings)
    }

    fn round_a_ring<T: Item>(
        &mut self,
        streams: &[Stream],
        ring: &Ring,
        word: usize,
        operands: &mut Operands<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        let in_place = operands.is_in_place();
        let settings = self.ranks(streams.len());
        let settings =
            settings.map(|common| RingSettings::new(common, self.channels, ring, word, in_place));
        let settings: Vec<_> = settings.collect();
        let threads = settings[0].blocks() * THREADS;
        self.run_together(streams, threads, operands, operator, |kernels| &kernels.ring, settings)
    }

    /// Submits a pass without items, after which every rank comes after what all ranks were given before.
    pub(super) fn barrier(&mut self, streams: &[Stream]) -> Result<()> {
        let mut operands = Operands::<u32> { inputs: None, outputs: &mut [] };
        let settings = self.next(streams.len());
        let settings =
            settings.map(|common| PassSettings::new(common, 1, &[], true, false)).collect();
        self.run_together(streams, 1, &mut operands, None, |kernels| &kernels.pass, settings)
    }

    /// Begins a collective with a new number. Returns the settings of each rank.
    fn next(&mut self, ranks: usize) -> impl Iterator<Item = RankSettings> + use<> {
        self.epoch += 1;
        self.ranks(ranks)
    }

    /// The settings of each rank.
    fn ranks(&self, ranks: usize) -> impl Iterator<Item = RankSettings> + use<> {
        let first = self.first_rank(ranks);
        (0..first.ranks).map(move |rank| RankSettings { rank, ..first })
    }

    /// The settings of the first rank.
    fn first_rank(&self, ranks: usize) -> RankSettings {
        let (epoch, patience_ns) = (self.epoch, self.patience_ns);
        RankSettings { epoch, patience_ns, rank: 0, ranks: ranks as u32 }
    }

    /// Submits one of an operator's kernels on each rank, with about this many threads.
    fn run_together<T: Item, S: Pod + Send + Sync>(
        &mut self,
        streams: &[Stream],
        threads: usize,
        operands: &mut Operands<'_, T>,
        operator: Option<&Operator<T>>,
        kernel: fn(&Kernels<T>) -> &PeerKernel<Signature<T, S>>,
        settings: Vec<S>,
    ) -> Result<()> {
        let inputs = GangParts::from(operands.inputs.unwrap_or_default());
        let outputs = GangPartsMut::from(&mut *operands.outputs);
        let kernel = kernel(kernels(&mut self.kernels, operator)?);
        let arguments = settings.into_iter().enumerate();
        let arguments = arguments
            .map(|(rank, settings)| ((&inputs, rank), (&outputs, rank), &self.words, settings));
        launch(kernel, streams, threads, arguments)
    }
}

/// The kernels of an operator.
fn kernels<'a, T: Item>(
    known: &'a mut Vec<KnownKernels>,
    operator: Option<&Operator<T>>,
) -> Result<&'a Kernels<T>> {
    let (item, operator) = (TypeId::of::<T>(), operator.map(Operator::cuda));
    let is_it = |known: &KnownKernels| known.item == item && known.operator.as_ref() == operator;
    let place = known.iter().position(is_it).unwrap_or_else(|| {
        let kernels = Box::new(Kernels::<T>::new(operator.map(|cuda| &**cuda)));
        known.push(KnownKernels { item, operator: operator.cloned(), kernels });
        known.len() - 1
    });
    known[place].kernels.downcast_ref().ok_or(Error::Ended)
}

/// Submits a kernel on each rank, with about this many threads.
fn launch<S: Parameter + 'static>(
    PeerKernel { kernel, is_prepared }: &PeerKernel<S>,
    streams: &[Stream],
    threads: usize,
    arguments: impl Iterator<Item = impl Argument<S>>,
) -> Result<()> {
    let size = threads.max(1);
    // Load the kernel on all devices before one waits for another's: loading may wait for running kernels.
    if is_prepared.get().is_none() {
        for stream in streams {
            kernel.prepare(stream.device(), size)?;
        }
        is_prepared.get_or_init(|| ());
    }
    // On the stack: no operation allocates more than it must.
    let mut bound = SmallVec::<[BoundKernel; MOST_RANKS]>::new();
    for (stream, arguments) in streams.iter().zip(arguments) {
        bound.push(kernel.bind(stream, size, arguments)?);
    }
    let _launching = Launching::begin();
    Ok(bound.drain(..).try_for_each(BoundKernel::submit_soon)?)
}

/// The most devices that share one GPU: their kernels must all fit on it at once.
fn most_sharers(context: &Context) -> usize {
    let devices = context.devices();
    let sharers = |one: &Device| devices.iter().filter(|other| one.shares_gpu_with(other)).count();
    devices.iter().map(sharers).max().unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Devices;

    /// Refused on any device, even one on which no kernel would use the lines.
    #[test]
    fn lines_that_cannot_be_counted_are_refused() {
        let context = Context::builder().devices(Devices::host(3)).build().unwrap();
        for line_bytes in [usize::MAX, usize::MAX / 2 + 1, usize::MAX / 4, usize::MAX / 32] {
            let options = CommunicatorOptions { line_bytes, ..CommunicatorOptions::default() };
            let error = Peers::new(&context, &options).err().map(|error| error.to_string());
            let error = error.expect("no memory");
            assert!(error.contains("memory"), "{line_bytes}: {error}");
        }
        let options = CommunicatorOptions { line_bytes: 0, ..CommunicatorOptions::default() };
        assert!(Peers::new(&context, &options).is_ok());
    }
}
