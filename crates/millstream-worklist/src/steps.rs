//! The kernels of a host-driven worklist \[G Fig. 9\], one by one.

use std::sync::Arc;

use millstream_device::{Device, SharedBuffer, Stream};
use millstream_flow::Context;

use crate::common::{CommonArgument, DEFERRED, OUTBOXES, Place, READY, WORKER_SCRATCH_WORDS};
use crate::coordinator::ThresholdSteps;
use crate::initial::check_initial;
use crate::program::{Here, Program};
use crate::queue::bit_words;
use crate::queue_size::QueueSize;
use crate::statistics::{COUNTERS, Counters, DeviceStatistics};
use crate::status::{FAULT, PACKED, fault_text};
use crate::worklist::{WorklistDevice, check_items};
use crate::{Error, Result};

/// One device's part of a host-driven worklist, whose kernels run one at a time, when they are
/// called for. With two of these, on a GPU and on a host device, you can compare a program's CUDA
/// C++ with its host twins on any items.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use millstream_flow::Context;
/// # use millstream_worklist::{Here, Program, Result, Steps};
/// # async fn run<P: Program>(
/// #     (gpu, host): (Context, Context),
/// #     program: Arc<P>,
/// #     problems: [Arc<P::Problem>; 2],
/// # ) -> Result<()> {
/// // Alone, in place of the second of four devices with direct routing.
/// let here = Here { device: 1, devices: 4, next: None };
/// let mut queued = Vec::new();
/// for (context, problem) in [gpu, host].iter().zip(problems) {
///     let device = &context.devices()[0];
///     let steps = Steps::new(context, device, Arc::clone(&program), problem, here, 1000)?;
///     steps.insert(vec![300, 301], u32::MAX).await?;
///     steps.process(2, u32::MAX).await?;
///     queued.push(steps.queued().await?);
/// }
/// assert_eq!(queued[0], queued[1]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Steps<P: Program> {
    device: WorklistDevice<P>,
    program: Arc<P>,
    items: usize,
    stream: Stream,
    scratch: SharedBuffer<u64>,
    report: SharedBuffer<u64>,
    host: Device,
}

/// Outboxes that kernels have room to count in: `Tally::most_devices` in `split.cuh`.
const MOST_DEVICES: usize = 1024;

/// Items that wait on a device, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queued {
    /// To be processed.
    pub ready: Vec<u32>,
    /// Until the threshold rises.
    pub deferred: Vec<u32>,
    /// To be packed: for the next device of a ring, or for each other device.
    pub outboxes: Vec<Vec<u32>>,
}

impl<P: Program> Steps<P> {
    /// The worklist of `device` in the place given by `here`; the other devices need not exist.
    /// `problem` must lie on `device`.
    ///
    /// # Errors
    /// A place that does not exist, or that is among more than 1,024 devices; more items than
    /// 32-bit numbers can name; no memory on the device.
    pub fn new(
        context: &Context,
        device: &Device,
        program: Arc<P>,
        problem: Arc<P::Problem>,
        here: Here,
        items: usize,
    ) -> Result<Steps<P>> {
        for place in [Some(here.device), here.next].into_iter().flatten() {
            check_number("device", place, here.devices)?;
        }
        check_number("device", here.devices.saturating_sub(1), MOST_DEVICES)?;
        check_items(items)?;
        // The caller passes the threshold to each step.
        let ways = (outboxes(&here), ThresholdSteps::default());
        let size = QueueSize { items, most: items, entries: items };
        let device = WorklistDevice::new(device, &program, problem, here, ways, size)?;
        let stream = device.device.stream()?;
        let scratch = device.device.shared(WORKER_SCRATCH_WORDS)?;
        let host = context.host().clone();
        let report = host.shared(device.status.len())?;
        Ok(Steps { device, program, items, stream, scratch, report, host })
    }

    /// Queues items whose values are in place; those above the threshold are deferred.
    ///
    /// # Errors
    /// An item that does not exist, or that another device owns; the first cause of a failure on the
    /// device.
    ///
    /// # Cancel safety
    /// Dropping the future stops nothing: the kernel goes on to its end.
    pub async fn insert(&self, items: Vec<u32>, threshold: u32) -> Result<()> {
        let Here { device, devices, .. } = self.device.here;
        let initial: Vec<_> = items.iter().map(|&item| (device, item)).collect();
        check_initial(&*self.program, &initial, self.items, devices)?;
        let items = self.stream.uploaded(items)?;
        let arguments = (self.common(), &items, threshold);
        self.device.kernels.insert.launch(&self.stream, items.len(), arguments)?;
        self.over().await
    }

    /// Processes up to `most` ready items, and splits what they emit.
    ///
    /// # Errors
    /// The first cause of a failure on the device.
    ///
    /// # Cancel safety
    /// Dropping the future stops nothing: the kernel goes on to its end.
    pub async fn process(&self, most: u32, threshold: u32) -> Result<()> {
        let arguments = (self.common(), most, threshold);
        self.device.kernels.process.launch(&self.stream, most.max(1) as usize, arguments)?;
        self.over().await
    }

    /// Splits received packets. Their items must exist, since the program's callbacks are given
    /// whatever the packets say.
    ///
    /// # Errors
    /// The first cause of a failure on the device.
    ///
    /// # Cancel safety
    /// Dropping the future stops nothing: the kernel goes on to its end.
    pub async fn split_receive(&self, packets: Vec<P::Packet>, threshold: u32) -> Result<()> {
        let packets = self.stream.uploaded(packets)?;
        let arguments = (self.common(), &packets, threshold);
        self.device.kernels.split_receive.launch(&self.stream, packets.len(), arguments)?;
        self.over().await
    }

    /// Makes deferred items up to the threshold ready.
    ///
    /// # Errors
    /// The first cause of a failure on the device.
    ///
    /// # Cancel safety
    /// Dropping the future stops nothing: the kernel goes on to its end.
    pub async fn undefer(&self, threshold: u32) -> Result<()> {
        let arguments = (self.common(), threshold);
        self.device.kernels.undefer.launch(&self.stream, self.items, arguments)?;
        self.over().await
    }

    /// Packs up to `most` items of an outbox; in no particular order.
    ///
    /// # Errors
    /// An outbox that does not exist; the first cause of a failure on the device.
    ///
    /// # Cancel safety
    /// Not cancel safe: what was packed is lost.
    pub async fn pack(&self, outbox: u32, most: usize) -> Result<Vec<P::Packet>> {
        check_number("outbox", outbox as usize, outboxes(&self.device.here))?;
        let mut packets = self.device.device.buffer(most)?;
        // A report of this call's own: concurrent calls write to the shared one.
        let report = self.host.shared(self.report.len())?;
        let common = CommonArgument { report: &report, ..self.common() };
        let arguments = (common, outbox, &mut packets);
        self.device.kernels.pack.launch(&self.stream, most, arguments)?;
        self.over().await?;
        let mut packed = self.stream.download(&packets)?.await?;
        packed.truncate(report.load(PACKED)? as usize);
        Ok(packed)
    }

    /// The items that wait.
    ///
    /// # Errors
    /// The first cause of a failure on the device.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn queued(&self) -> Result<Queued> {
        let bits = &self.device.queues.bits;
        let bits = self.stream.download_shared(bits, 0..bits.len())?.await?;
        let mut queues = bits.chunks_exact(bit_words(self.items)).map(items_of);
        let mut next = || queues.next().unwrap_or_default();
        debug_assert_eq!([READY, DEFERRED, OUTBOXES], [0, 1, 2]);
        let (ready, deferred) = (next(), next());
        Ok(Queued { ready, deferred, outboxes: queues.collect() })
    }

    /// What the kernels have counted so far.
    ///
    /// # Errors
    /// The first cause of a failure on the device.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn statistics(&self) -> Result<DeviceStatistics> {
        let status = self.stream.download_shared(&self.device.status, 0..COUNTERS)?.await?;
        let counters = Counters::default();
        counters.update(status.iter().copied());
        Ok(counters.statistics())
    }

    fn common(&self) -> CommonArgument<'_, P> {
        CommonArgument {
            problem: &self.device.problem,
            queues: &self.device.queues,
            status: &self.device.status,
            scratch: &self.scratch,
            report: &self.report,
            place: Place::new(&self.device.here),
        }
    }

    async fn over(&self) -> Result<()> {
        let fault = self.stream.download_shared(&self.device.status, FAULT..FAULT + 1)?.await?;
        let entries = self.device.queue_entries();
        match fault.first().and_then(|&fault| fault_text(fault, entries)) {
            None => Ok(()),
            Some(message) => Err(Error::from(millstream_device::Error::KernelFailed {
                kernel: "the worklist's".into(),
                device: self.device.device.name(),
                message: message.into(),
            })),
        }
    }
}

/// The number of outboxes: one to the next device of a ring, or one to each other device.
fn outboxes(here: &Here) -> usize {
    here.next.map_or(here.devices - 1, |_| 1)
}

fn check_number(what: &'static str, number: usize, count: usize) -> Result<()> {
    match number < count {
        true => Ok(()),
        false => Err(Error::NoSuch { what, number, count }),
    }
}

/// The items whose bits are set.
fn items_of(bits: &[u32]) -> Vec<u32> {
    let items = bits.iter().zip((0..).step_by(32));
    let items = items.flat_map(|(&word, first)| {
        (0..32).filter(move |bit| word >> bit & 1 != 0).map(move |bit| first + bit)
    });
    items.collect()
}
