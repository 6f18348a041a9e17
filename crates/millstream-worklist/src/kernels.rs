//! The worklist's kernels, as host twins: insert, process with split-send,
//! pack, split-receive and undefer \[G §4.3, Fig. 9\].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream_device::{
    CudaSource, Device, Grid, Kernel, KernelResult, Parameter, Read, Trusted, Value, Write,
};

use crate::common::{Common, CommonView, DEFERRED, READY};
use crate::coordinator::{ThresholdSteps, step_end};
use crate::device_view::DeviceView;
use crate::program::{Flags, Here, Program};
use crate::statistics::Counter;
use crate::status::{self, LOWEST_DEFERRED, OUTBOX_NEWS, READY_NEWS};

/// The kernels of one device.
pub(crate) struct Kernels<P: Program> {
    /// Queues items that the host gives.
    pub(crate) insert: Kernel<(Common<P>, Read<u32>, Value<u32>)>,
    /// Processes up to a given number of ready items up to the threshold, and splits
    /// what they emit.
    pub(crate) process: Kernel<(Common<P>, Value<u32>, Value<u32>)>,
    /// Packs an outbox into a send buffer and counts.
    pub(crate) pack: Kernel<(Common<P>, Value<u32>, Write<P::Packet>)>,
    /// Splits a packet into what stays, what goes on and what is dropped.
    pub(crate) split_receive: Kernel<(Common<P>, Read<P::Packet>, Value<u32>)>,
    /// Makes deferred items up to the threshold ready; `process` comes after it on
    /// the same stream and publishes for both.
    pub(crate) undefer: Kernel<(Common<P>, Value<u32>)>,
    /// Counts items that have been sent already: only for the fault that the harness seeds.
    pub(crate) late_count: Kernel<(Common<P>, Value<u32>)>,
}

impl<P: Program> std::fmt::Debug for Kernels<P> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Kernels")
    }
}

/// A kernel whose twin is a method of [`DeviceView`].
macro_rules! kernel {
    ($program:expr, $place:expr, $name:ident($($argument:ident: $type:ty),+)) => {{
        let (program, place) = (Arc::clone($program), $place);
        Kernel::from_closure(
            stringify!($name),
            move |_: &Grid, (common, $($argument),+): (CommonView<'_, P>, $($type),+)| {
                DeviceView::<P>::new(&program, place, common).$name($($argument),+)
            },
        )
    }};
}

impl<P: Program> Kernels<P> {
    /// For a worklist of `items` items. The kernels of a single host device raise the threshold themselves,
    /// unless it may fall back.
    pub(crate) fn new(
        program: &Arc<P>,
        (here, items): (Here, usize),
        steps: ThresholdSteps,
    ) -> Kernels<P> {
        let place = (here, items);
        let delta = steps.delta.filter(|_| here.devices == 1 && steps.falls_after.is_none());
        let process = {
            let program = Arc::clone(program);
            move |_: &Grid, (common, batch, threshold): (CommonView<'_, P>, u32, u32)| {
                DeviceView::<P>::new(&program, place, common).process(batch, threshold, delta)
            }
        };
        let split_receive = {
            let program = Arc::clone(program);
            move |grid: &Grid, arguments: (CommonView<'_, P>, &[P::Packet], u32)| {
                let (common, packets, threshold) = arguments;
                let view = DeviceView::<P>::new(&program, place, common);
                view.with_threshold(threshold).split_receive(grid, packets)
            }
        };
        let source = P::cuda().map(|cuda| Arc::<str>::from(cuda.host_driven::<P>()));
        let cuda = CudaText { file: P::cuda().map_or("", |cuda| cuda.file), text: source };
        Kernels {
            insert: cuda.add(kernel!(program, place, insert(items: &[u32], threshold: u32))),
            process: cuda.add(Kernel::from_closure("process", process)),
            pack: cuda.add(kernel!(
                program,
                place,
                pack(outbox: u32, packets: &mut [P::Packet])
            )),
            split_receive: cuda.add(Kernel::from_closure("split_receive", split_receive)),
            undefer: cuda.add(kernel!(program, place, undefer(threshold: u32))),
            late_count: kernel!(program, place, late_count(count: u32)),
        }
    }
}

impl<P: Program> Kernels<P> {
    /// Compiles and loads the kernel that queues the initial items.
    pub(crate) fn prepare_insert(&self, device: &Device) -> millstream_device::Result<()> {
        self.insert.prepare(device, 1).map(drop)
    }

    /// Compiles and loads the other kernels of a run that the host drives.
    pub(crate) fn prepare_host_driven(&self, device: &Device) -> millstream_device::Result<()> {
        self.process.prepare(device, 1)?;
        self.pack.prepare(device, 1)?;
        self.split_receive.prepare(device, 1)?;
        self.undefer.prepare(device, 1)?;
        Ok(())
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
                kernel.with_cuda(
                    // SAFETY: the code around the callbacks keeps to the signature; the program's
                    // `Trusted` vouches for them.
                    unsafe {
                        Trusted::new(CudaSource::generated(self.file, entry, Arc::clone(text)))
                    },
                )
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

    fn process(self, batch: u32, threshold: u32, delta: Option<u32>) -> KernelResult {
        let mut view = self.with_threshold(threshold);
        let (mut items, mut left) = (Vec::new(), batch as usize);
        // Goes on without round trips to the host, unless that keeps others waiting.
        loop {
            // Acquire: pairs with the release in `raise`; the queue is read after it.
            view.status[READY_NEWS].swap(0, Ordering::AcqRel);
            items.clear();
            view.queues[READY].take(left, &mut items);
            left -= items.len();
            Grid::of_shares(items.len(), ITEMS_IN_BLOCK)
                .for_each_block(|block| view.process_items(&items[block.range]))?;
            if left == 0 || view.has_outbox_news() {
                break;
            }
            if items.is_empty() {
                let Some(threshold) = delta.and_then(|delta| view.next_threshold(delta)) else {
                    break;
                };
                view = view.with_threshold(threshold);
                view.bring_back();
            }
        }
        if view.queues[READY].has_entries() {
            status::raise(&view.status[READY_NEWS]);
        }
        view.publish(0);
        Ok(())
    }

    /// The end of the step with the lowest deferred item; `None` if no item is deferred.
    fn next_threshold(&self, delta: u32) -> Option<u32> {
        // Relaxed: written at the end of a block, and all blocks are over.
        let lowest = u32::try_from(self.status[LOWEST_DEFERRED].load(Ordering::Relaxed)).ok()?;
        (lowest > self.threshold).then(|| step_end(lowest, delta))
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
        self.with_threshold(threshold).bring_back();
        Ok(())
    }

    /// Makes deferred items up to the threshold ready.
    fn bring_back(&self) {
        let mut items = Vec::new();
        while self.queues[DEFERRED].take(usize::MAX, &mut items) {}
        let mut tally = self.tally();
        for item in items {
            if self.queues[DEFERRED].claim(item) {
                tally.count(Counter::DeferredOut, 1);
                self.keep(item, &mut tally);
            }
        }
        self.tell(&tally);
    }

    fn late_count(&self, count: u32) -> KernelResult {
        let mut tally = self.tally();
        tally.count(Counter::Produced, u64::from(count));
        self.tell(&tally);
        self.publish(0);
        Ok(())
    }
}

/// The fewest items that a block processes: each may have many neighbours.
const ITEMS_IN_BLOCK: usize = 64;
