//! The worklist's kernels, as host twins: insert, process with split-send,
//! pack, split-receive and undefer \[G §4.3, Fig. 9\].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    Accesses, Argument, CudaSource, Grid, Kernel, KernelFault, KernelResult, Parameter, Read,
    Result, Shared, SharedBuffer, Value, Write,
};

use crate::problem::Problem;
use crate::program::{Flags, Here, Program, View};
use crate::queue::{CONTROL_WORDS, QueueView};
use crate::statistics::{COUNTERS, Counter};
use crate::status::{self, LOWEST_DEFERRED, OUTBOX_NEWS, READY_NEWS};
use crate::sync::{Fault, seeded};

/// Place of the queue of ready items.
const READY: usize = 0;
/// Place of the queue of deferred items.
const DEFERRED: usize = 1;
/// Place of the first outbox.
pub(crate) const OUTBOXES: usize = 2;

/// What every kernel takes: problem; bits, entries and control of all queues,
/// one after the other; status; scratch memory and report of the task; where it
/// runs.
pub(crate) type Common<P> = (
    <P as Program>::Problem,
    (Shared<u32>, Shared<u32>, Shared<u32>),
    Shared<u64>,
    Shared<u64>,
    Shared<u64>,
    Value<Place>,
);

/// What a twin sees of [`Common`].
type CommonView<'a, P> = <Common<P> as Parameter>::View<'a>;

/// [`Here`] as kernels take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Place {
    device: u32,
    devices: u32,
    /// `u32::MAX` without a ring.
    next: u32,
}

impl Place {
    pub(crate) fn new(here: &Here) -> Place {
        let next = here.next.map_or(u32::MAX, |next| next as u32);
        Place { device: here.device as u32, devices: here.devices as u32, next }
    }
}

/// All queues of one device, each as long as the others.
#[derive(Clone, Debug)]
pub(crate) struct QueueBuffers {
    pub(crate) bits: SharedBuffer<u32>,
    pub(crate) entries: SharedBuffer<u32>,
    pub(crate) control: SharedBuffer<u32>,
}

/// Words that a task's kernels use among themselves; zero between launches.
pub(crate) const SCRATCH_WORDS: usize = 3;
/// Those of a worker: also for 16384 items whose arcs all warps share.
pub(crate) const WORKER_SCRATCH_WORDS: usize = SCRATCH_WORDS + 1 + 3 * 16384;

/// What a launch passes for [`Common`].
pub(crate) struct CommonArgument<'a, P: Program> {
    pub(crate) problem: &'a P::Problem,
    pub(crate) queues: &'a QueueBuffers,
    pub(crate) status: &'a SharedBuffer<u64>,
    pub(crate) scratch: &'a SharedBuffer<u64>,
    pub(crate) report: &'a SharedBuffer<u64>,
    pub(crate) place: Place,
}

impl<P: Program> Argument<Common<P>> for CommonArgument<'_, P> {
    fn bind(self, accesses: &mut Accesses) -> Result<<Common<P> as Parameter>::Bound> {
        let problem = self.problem.bind(accesses)?;
        let queues = (&self.queues.bits, &self.queues.entries, &self.queues.control);
        let queues = Argument::<(Shared<u32>, Shared<u32>, Shared<u32>)>::bind(queues, accesses)?;
        let mut words = |words| Argument::<Shared<u64>>::bind(words, accesses);
        let (status, scratch) = (words(self.status)?, words(self.scratch)?);
        Ok((problem, queues, status, scratch, words(self.report)?, self.place))
    }
}

/// One device's worklist as its kernels see it.
struct DeviceView<'p, 'a, P: Program> {
    program: &'p P,
    here: Here,
    problem: View<'a, P>,
    queues: Vec<QueueView<'a>>,
    status: &'a [AtomicU64],
    report: &'a [AtomicU64],
    /// Items of a higher priority value are deferred.
    threshold: u32,
}

impl<'p, 'a, P: Program> DeviceView<'p, 'a, P> {
    fn new(program: &'p P, here: Here, common: CommonView<'a, P>) -> Self {
        let (problem, (bits, entries, control), status, _, report, _) = common;
        let count = control.len() / CONTROL_WORDS;
        let bits = bits.chunks_exact(bits.len() / count);
        let entries = entries.chunks_exact(entries.len() / count);
        let queues = bits.zip(entries).zip(control.chunks_exact(CONTROL_WORDS));
        let view = |((bits, ring), control)| QueueView { bits, ring, control };
        let queues = queues.map(view).collect();
        let threshold = u32::MAX;
        DeviceView { program, here, problem, queues, status, report, threshold }
    }

    fn with_threshold(self, threshold: u32) -> Self {
        DeviceView { threshold, ..self }
    }

    /// What a block has counted and queued, nothing yet.
    fn tally(&self) -> Tally {
        Tally {
            counts: [0; COUNTERS],
            queued: [const { Vec::new() }; OUTBOXES],
            lowest_deferred: None,
            news: vec![false; self.outboxes().len()],
        }
    }

    /// Ends a block: tells the device what it counted, then what it queued. Counts may
    /// follow what is visible already: the host believes them only between kernels.
    fn tell(&self, tally: &Tally) {
        for (queue, items) in self.queues.iter().zip(&tally.queued) {
            queue.add_entries(items);
        }
        if let Some(priority) = tally.lowest_deferred {
            let (word, threshold) = (&self.status[LOWEST_DEFERRED], self.threshold.into());
            status::lower(word, priority.into(), threshold);
        }
        for (word, &count) in self.status.iter().zip(&tally.counts) {
            if count > 0 {
                // Release: pairs with the acquire of whoever publishes it.
                word.fetch_add(count, Ordering::AcqRel);
            }
        }
        let has_ready = !tally.queued[READY].is_empty();
        let news = std::iter::once(&has_ready).chain(&tally.news);
        for (word, _) in self.status[READY_NEWS..].iter().zip(news).filter(|&(_, &is)| is) {
            // Release: pairs with the swap of whoever takes it down; whoever is told
            // finds the items.
            word.store(1, Ordering::Release);
        }
    }

    /// Ends a kernel: with what it packed, if it packs.
    fn publish(&self, packed: usize) {
        let entries = [READY, DEFERRED].map(|queue| self.queues[queue].entries() as u64);
        status::publish(self.status, self.report, packed as u64, entries);
    }

    fn outboxes(&self) -> &[QueueView<'a>] {
        &self.queues[OUTBOXES..]
    }

    /// The outboxes for a flag: the next device's, the owner's or everybody's.
    fn targets(
        &self,
        item: u32,
        flags: Flags,
    ) -> std::result::Result<std::ops::Range<usize>, KernelFault> {
        match flags {
            Flags::Keep | Flags::Drop => Ok(0..0),
            Flags::Both if self.outboxes().is_empty() => Ok(0..0),
            _ if self.outboxes().is_empty() => Err(KernelFault::new(format!(
                "item {item} is passed on, but there is one device only"
            ))),
            _ if self.here.next.is_some() => Ok(0..1),
            Flags::Both => Ok(0..self.outboxes().len()),
            Flags::Pass => match self.program.owner(item) {
                Some(owner) if owner < self.here.devices && owner != self.here.device => {
                    let outbox = owner - usize::from(owner > self.here.device);
                    Ok(outbox..outbox + 1)
                }
                owner => Err(KernelFault::new(format!(
                    "device {} passes item {item} on to its owner {owner:?}",
                    self.here.device
                ))),
            },
        }
    }

    /// Sends emitted items where their flags say.
    fn split_send(&self, emitted: &[(u32, Flags)], tally: &mut Tally) -> KernelResult {
        for &(item, flags) in emitted {
            if matches!(flags, Flags::Keep | Flags::Both) {
                tally.count(Counter::Produced, 1);
                self.keep(item, tally);
            }
            for outbox in self.targets(item, flags)? {
                let is_new = self.post(outbox, item, tally);
                // Only the harness's fault leaves remote items to be counted later.
                if !seeded(Fault::CountAfterPublish) {
                    tally.count(Counter::Produced, 1);
                    tally.count(Counter::Consumed, u64::from(!is_new));
                }
            }
        }
        Ok(())
    }

    /// Queues an item for another device; `false` if it merged with one queued before.
    fn post(&self, outbox: usize, item: u32, tally: &mut Tally) -> bool {
        tally.news[outbox] = true;
        self.outboxes()[outbox].push(item)
    }

    /// Makes an item ready, or defers it; it may merge with one queued before.
    fn keep(&self, item: u32, tally: &mut Tally) {
        if let Some(priority) = self.too_high(item) {
            return self.defer(item, priority, tally);
        }
        let is_new = self.queue(READY, item, tally);
        tally.count(Counter::Consumed, u64::from(!is_new));
    }

    /// The priority of an item that has to wait.
    fn too_high(&self, item: u32) -> Option<u32> {
        if self.threshold == u32::MAX {
            return None;
        }
        let priority = self.program.priority(&self.problem, item);
        (priority > self.threshold).then_some(priority)
    }

    /// Defers an item, which may merge with one deferred before.
    fn defer(&self, item: u32, priority: u32, tally: &mut Tally) {
        let is_new = self.queue(DEFERRED, item, tally);
        tally.count(Counter::DeferredIn, is_new.into());
        tally.count(Counter::Consumed, u64::from(!is_new));
        let lowest = tally.lowest_deferred.get_or_insert(priority);
        *lowest = priority.min(*lowest);
    }

    /// Puts an item into a queue of this device; `false` if it is there already. It gets
    /// its entry at the block's end.
    fn queue(&self, queue: usize, item: u32, tally: &mut Tally) -> bool {
        let is_new = self.queues[queue].mark(item);
        if is_new {
            tally.queued[queue].push(item);
        }
        is_new
    }

    /// Processes a block of items. All are taken out of their queues first and what
    /// they emit is queued last: in between nothing keeps the processor from fetching
    /// the values of some while it works on others.
    fn process_items(&self, items: &[u32]) -> KernelResult {
        let mut tally = self.tally();
        let mut claimed = Vec::with_capacity(items.len());
        claimed.extend(items.iter().copied().filter(|&item| self.claim(item, &mut tally)));
        let (mut emitted, mut filtered) = (Vec::new(), 0);
        let mut emit = |item| {
            emitted.push((item, self.program.on_send(&self.problem, &self.here, item)));
        };
        for &item in &claimed {
            self.program.process(&self.problem, &self.here, item, &mut emit, &mut filtered);
        }
        self.split_send(&emitted, &mut tally)?;
        tally.count(Counter::WorkItems, claimed.len() as u64);
        tally.count(Counter::Filtered, filtered);
        tally.count(Counter::Consumed, claimed.len() as u64);
        self.tell(&tally);
        Ok(())
    }

    /// Takes a ready item out of its queue; `false` if it is not there any more.
    fn claim(&self, item: u32, tally: &mut Tally) -> bool {
        if !self.queues[READY].claim(item) {
            return false;
        }
        // Whatever was deferred of this item is processed with it, and before its value
        // is read. A look first: few are.
        if self.queues[DEFERRED].has(item) && self.queues[DEFERRED].claim(item) {
            tally.count(Counter::DeferredOut, 1);
            tally.count(Counter::Consumed, 1);
        }
        true
    }

    fn receive_packet(&self, packet: &P::Packet, tally: &mut Tally) -> KernelResult {
        let flags = self.program.on_receive(&self.problem, &self.here, packet);
        let item = self.program.unpack(&self.problem, &self.here, packet);
        // Direct: everybody has a copy of its own already.
        let passes = matches!(flags, Flags::Pass)
            || (matches!(flags, Flags::Both) && self.here.next.is_some());
        let keeps = matches!(flags, Flags::Keep | Flags::Both);
        let targets = if passes { self.targets(item, Flags::Pass)? } else { 0..0 };
        tally.count(Counter::Received, 1);
        tally.count(Counter::Kept, u64::from(keeps));
        tally.count(Counter::Passed, u64::from(passes));
        tally.count(Counter::Dropped, u64::from(!keeps && !passes));
        // The packet's own count goes on with one of its successors.
        let successors = u64::from(keeps) + targets.len() as u64;
        tally.count(Counter::Produced, successors.saturating_sub(1));
        tally.count(Counter::Consumed, u64::from(successors == 0));
        if keeps {
            self.keep(item, tally);
        }
        for outbox in targets {
            let is_new = self.post(outbox, item, tally);
            tally.count(Counter::Consumed, u64::from(!is_new));
        }
        Ok(())
    }
}

/// What a block has counted and queued, told to the device at its end.
struct Tally {
    counts: [u64; COUNTERS],
    /// Items that are new in the queues of ready and of deferred items.
    queued: [Vec<u32>; OUTBOXES],
    /// Lowest priority of an item deferred.
    lowest_deferred: Option<u32>,
    /// Whether there are items for each outbox.
    news: Vec<bool>,
}

impl Tally {
    #[inline]
    fn count(&mut self, counter: Counter, by: u64) {
        self.counts[counter as usize] += by;
    }
}

/// The kernels of one device.
pub(crate) struct Kernels<P: Program> {
    /// Queues items that the host gives.
    pub(crate) insert: Kernel<(Common<P>, Read<u32>, Value<u32>)>,
    /// Processes up to so many ready items up to the threshold, and splits what
    /// they emit.
    pub(crate) process: Kernel<(Common<P>, Value<u32>, Value<u32>)>,
    /// Packs an outbox into a send buffer and counts.
    pub(crate) pack: Kernel<(Common<P>, Value<u32>, Write<P::Packet>)>,
    /// Splits a packet into what stays, what goes on and what is dropped.
    pub(crate) split_receive: Kernel<(Common<P>, Read<P::Packet>, Value<u32>)>,
    /// Makes deferred items up to the threshold ready; `process` comes after it on
    /// the same stream and publishes for both.
    pub(crate) undefer: Kernel<(Common<P>, Value<u32>)>,
    /// Counts items already sent: the harness's fault.
    pub(crate) late_count: Kernel<(Common<P>, Value<u32>)>,
}

impl<P: Program> std::fmt::Debug for Kernels<P> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Kernels")
    }
}

/// A kernel whose twin is a method of [`DeviceView`].
macro_rules! kernel {
    ($program:expr, $here:expr, $name:ident($($argument:ident: $type:ty),+)) => {{
        let (program, here) = (Arc::clone($program), $here);
        Kernel::from_closure(
            stringify!($name),
            move |_: &Grid, (common, $($argument),+): (CommonView<'_, P>, $($type),+)| {
                DeviceView::<P>::new(&program, here, common).$name($($argument),+)
            },
        )
    }};
}

impl<P: Program> Kernels<P> {
    pub(crate) fn new(program: &Arc<P>, here: Here) -> Kernels<P> {
        let split_receive = {
            let program = Arc::clone(program);
            move |grid: &Grid, arguments: (CommonView<'_, P>, &[P::Packet], u32)| {
                let (common, packets, threshold) = arguments;
                let view = DeviceView::<P>::new(&program, here, common);
                view.with_threshold(threshold).split_receive(grid, packets)
            }
        };
        let source = P::cuda().map(|cuda| Arc::<str>::from(cuda.host_driven::<P>()));
        let cuda = CudaText { file: P::cuda().map_or("", |cuda| cuda.file), text: source };
        Kernels {
            insert: cuda.add(kernel!(program, here, insert(items: &[u32], threshold: u32))),
            process: cuda.add(kernel!(program, here, process(batch: u32, threshold: u32))),
            pack: cuda.add(kernel!(
                program,
                here,
                pack(outbox: u32, packets: &mut [P::Packet])
            )),
            split_receive: cuda.add(Kernel::from_closure("split_receive", split_receive)),
            undefer: cuda.add(kernel!(program, here, undefer(threshold: u32))),
            late_count: kernel!(program, here, late_count(count: u32)),
        }
    }
}

/// A program's CUDA source, if it has one.
struct CudaText {
    file: &'static str,
    text: Option<Arc<str>>,
}

impl CudaText {
    /// Adds the kernel's code, which has its name.
    fn add<S: Parameter>(&self, kernel: Kernel<S>) -> Kernel<S> {
        match &self.text {
            None => kernel,
            Some(text) => {
                let entry: Arc<str> = kernel.name().into();
                kernel.with_cuda(CudaSource::generated(self.file, entry, Arc::clone(text)))
            }
        }
    }
}

impl<P: Program> DeviceView<'_, '_, P> {
    fn insert(self, items: &[u32], threshold: u32) -> KernelResult {
        let kept: Vec<_> = items.iter().map(|&item| (item, Flags::Keep)).collect();
        let view = self.with_threshold(threshold);
        let mut tally = view.tally();
        view.split_send(&kept, &mut tally)?;
        view.tell(&tally);
        view.publish(0);
        Ok(())
    }

    fn process(self, batch: u32, threshold: u32) -> KernelResult {
        let view = self.with_threshold(threshold);
        let ready = &view.queues[READY];
        let (mut items, mut left) = (Vec::new(), batch as usize);
        loop {
            // Acquire: pairs with the release of whoever raised it; the look is after it.
            view.status[READY_NEWS].swap(0, Ordering::AcqRel);
            items.clear();
            ready.take(left, &mut items);
            left -= items.len();
            Grid::of_blocks(items.len(), ITEMS_IN_BLOCK)
                .for_each_block(|block| view.process_items(&items[block.range]))?;
            // On and on, without a round trip to the host, unless others are kept waiting.
            if items.is_empty() || left == 0 || view.has_outbox_news() {
                break;
            }
        }
        if ready.has_entries() {
            // Release: as a block's news.
            view.status[READY_NEWS].store(1, Ordering::Release);
        }
        view.publish(0);
        Ok(())
    }

    fn has_outbox_news(&self) -> bool {
        let mut words = self.status[OUTBOX_NEWS..].iter().take(self.outboxes().len());
        // Relaxed: a hint.
        words.any(|word| word.load(Ordering::Relaxed) != 0)
    }

    fn pack(&self, outbox: u32, packets: &mut [P::Packet]) -> KernelResult {
        let queue = &self.outboxes()[outbox as usize];
        let (mut items, mut packed, mut more) = (Vec::new(), 0, true);
        while more && packed < packets.len() {
            items.clear();
            more = queue.take(packets.len() - packed, &mut items);
            if items.is_empty() {
                break;
            }
            for &item in &items {
                if queue.claim(item) {
                    packets[packed] = self.program.pack(&self.problem, &self.here, item);
                    packed += 1;
                }
            }
        }
        let mut tally = self.tally();
        tally.news[outbox as usize] = more;
        tally.count(Counter::Sent, packed as u64);
        self.tell(&tally);
        self.publish(packed);
        Ok(())
    }

    fn split_receive(&self, grid: &Grid, packets: &[P::Packet]) -> KernelResult {
        grid.for_each_block(|block| {
            let mut tally = self.tally();
            for packet in &packets[block.range] {
                self.receive_packet(packet, &mut tally)?;
            }
            self.tell(&tally);
            Ok(())
        })?;
        self.publish(0);
        Ok(())
    }

    fn undefer(self, threshold: u32) -> KernelResult {
        let view = self.with_threshold(threshold);
        let mut items = Vec::new();
        while view.queues[DEFERRED].take(usize::MAX, &mut items) {}
        let mut tally = view.tally();
        for item in items {
            if view.queues[DEFERRED].claim(item) {
                tally.count(Counter::DeferredOut, 1);
                view.keep(item, &mut tally);
            }
        }
        view.tell(&tally);
        Ok(())
    }

    fn late_count(&self, count: u32) -> KernelResult {
        let mut tally = self.tally();
        tally.count(Counter::Produced, u64::from(count));
        self.tell(&tally);
        self.publish(0);
        Ok(())
    }
}

/// Items a block processes: each may have many neighbours.
const ITEMS_IN_BLOCK: usize = 64;
