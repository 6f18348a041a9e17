//! The host's side of one device: launches its kernels and moves its packets,
//! and sees nothing but counters \[G §4.6.2\].

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, TryStreamExt};
use millstream_device::{Completion, Device, SharedBuffer, Stream, StreamKind};
use millstream_flow::{Error, Graph, Receiver, Result, Sender};

use crate::common::{CommonArgument, Place, SCRATCH_WORDS, WORKER_SCRATCH_WORDS};
use crate::coordinator::{Coordinator, Launch, Signals};
use crate::program::Program;
use crate::statistics::COUNTERS;
use crate::status::{
    self, DEFERRED_ENTRIES, FAULT, LOWEST_DEFERRED, OUTBOX_NEWS, PACKED, READY_ENTRIES, READY_NEWS,
    fault_text,
};
use crate::sync::{Fault, seeded};
use crate::worklist::{Ends, WorklistDevice};

/// Drives one device: a worker, a receiver for each input and a sender for each outbox \[G Fig. 9\], as
/// tasks that wait for each other's signals. The thread that polls them leaves launches to the GPU's
/// thread.
pub(crate) struct Solver<P: Program> {
    pub(crate) device: Arc<WorklistDevice<P>>,
    pub(crate) host: Device,
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) place: usize,
    pub(crate) packet_items: usize,
    pub(crate) batch: u32,
}

/// What the kernels of one task share with no other task: a stream, and words on
/// the device.
pub(crate) struct Task {
    pub(crate) stream: Stream,
    scratch: SharedBuffer<u64>,
}

/// Whether a report says that there are ready items. Any round after the kernel finds them.
#[must_use]
pub(crate) struct ReadyNews(pub(crate) bool);

impl<P: Program> Solver<P> {
    /// Queues the initial items, and waits until they are queued.
    pub(crate) async fn insert(&self, items: Vec<u32>) -> Result<()> {
        let (task, report) = (self.task(StreamKind::Compute, SCRATCH_WORDS)?, self.report()?);
        let buffer = task.stream.uploaded(items)?;
        let launch = self.coordinator.launch();
        let arguments = (self.common(&task, &report), &buffer, self.coordinator.threshold());
        self.device.kernels.insert.launch(&task.stream, buffer.len(), arguments)?;
        self.over(task.stream.completed()?, &report, launch).await
    }

    /// Adds this device's tasks to the graph. Each of several GPUs gets a thread of its own for them, since
    /// rounds are too short for one thread to poll the tasks of all.
    pub(crate) fn spawn(self: &Arc<Self>, graph: &Graph, ends: Ends<P::Packet>) -> Result<()> {
        let tasks = self.tasks(ends)?;
        if self.device.device.is_gpu() && self.device.here.devices > 1 {
            graph.spawn_on_thread(tasks.try_for_each(|()| ready(Ok(()))));
        } else {
            tasks.into_iter().for_each(|task| graph.spawn(task));
        }
        Ok(())
    }

    fn tasks(
        self: &Arc<Self>,
        ends: Ends<P::Packet>,
    ) -> Result<FuturesUnordered<BoxFuture<'static, Result<()>>>> {
        let tasks = FuturesUnordered::new();
        let task = self.task(StreamKind::Compute, WORKER_SCRATCH_WORDS)?;
        let solver = Arc::clone(self);
        tasks.push(async move { solver.work(task).await }.boxed());
        for input in ends.inputs {
            let task = self.task(StreamKind::HighPriority, SCRATCH_WORDS)?;
            let solver = Arc::clone(self);
            tasks.push(async move { solver.receive(input, task).await }.boxed());
        }
        for (outbox, output) in ends.outputs.into_iter().enumerate() {
            let task = self.task(StreamKind::Compute, SCRATCH_WORDS)?;
            let solver = Arc::clone(self);
            tasks.push(async move { solver.send(outbox, output, task).await }.boxed());
        }
        Ok(tasks)
    }

    /// Splits what arrives until every sender has shut down.
    async fn receive(&self, mut input: Receiver<P::Packet>, task: Task) -> Result<()> {
        let report = self.report()?;
        while let Some(pending) = input.recv().await? {
            let launch = self.coordinator.launch();
            task.stream.wait(&pending)?;
            let arguments = (self.common(&task, &report), &pending, self.coordinator.threshold());
            let kernel = &self.device.kernels.split_receive;
            let bound = kernel.bind(&task.stream, pending.len(), arguments)?;
            let over = bound.submit_soon_with_completion()?;
            pending.release_after(&task.stream)?;
            self.over(over, &report, launch).await?;
            self.coordinator.check();
        }
        Ok(())
    }

    /// Packs and sends the items of an outbox until the run is over. A link
    /// without credit holds up only this task: items stay in the outbox, and
    /// later ones merge with them.
    async fn send(&self, outbox: usize, mut output: Sender<P::Packet>, task: Task) -> Result<()> {
        let report = self.report()?;
        loop {
            self.signals().outboxes[outbox].notified().await;
            if self.coordinator.is_finished() {
                return output.shutdown();
            }
            let mut packets = output.buffer(self.packet_items).await?;
            let launch = self.coordinator.launch();
            let arguments = (self.common(&task, &report), outbox as u32, &mut packets);
            let kernel = &self.device.kernels.pack;
            let bound = kernel.bind(&task.stream, self.packet_items, arguments)?;
            self.over(bound.submit_soon_with_completion()?, &report, launch).await?;
            let count = report.load(PACKED)? as usize;
            if count == 0 {
                self.coordinator.check();
                continue;
            }
            packets.truncate(count);
            output.send(packets, &task.stream)?;
            if seeded(Fault::CountAfterPublish) {
                let arguments = (self.common(&task, &report), count as u32);
                let launch = self.coordinator.launch();
                self.device.kernels.late_count.launch(&task.stream, 1, arguments)?;
                self.over(task.stream.completed()?, &report, launch).await?;
            }
            self.coordinator.check();
        }
    }

    /// Waits for a task's kernel, takes in its report, and wakes the tasks that its news concerns.
    async fn over(
        &self,
        over: Completion,
        report: &SharedBuffer<u64>,
        launch: Launch<'_>,
    ) -> Result<()> {
        over.await?;
        let ReadyNews(is_ready) = self.take_in(report, launch)?;
        if is_ready {
            self.signals().worker.notify();
        }
        Ok(())
    }

    /// Takes in the report of a kernel that is over, and wakes the senders that its news concerns. Every
    /// kernel that queues items is followed by this, so no item waits unnoticed.
    pub(crate) fn take_in(
        &self,
        report: &SharedBuffer<u64>,
        launch: Launch<'_>,
    ) -> Result<ReadyNews> {
        let word = |place| report.load(place).unwrap_or(0);
        if let Some(message) = fault_text(word(FAULT), self.device.queue_entries()) {
            return Err(Error::Device(millstream_device::Error::KernelFailed {
                kernel: "the worklist's".into(),
                device: self.device.device.name(),
                message: message.into(),
            }));
        }
        self.coordinator.counters[self.place].update((0..COUNTERS).map(word));
        let signals = self.signals();
        // Relaxed: hints.
        signals.ready_entries.store(word(READY_ENTRIES), Ordering::Relaxed);
        signals.deferred_entries.store(word(DEFERRED_ENTRIES), Ordering::Relaxed);
        let (lowest, threshold) = (word(LOWEST_DEFERRED), self.coordinator.threshold().into());
        if lowest > threshold {
            status::lower(&signals.lowest_deferred, lowest, threshold);
        }
        for (outbox, signal) in signals.outboxes.iter().enumerate() {
            if word(OUTBOX_NEWS + outbox) != 0 {
                signal.notify();
            }
        }
        // Last: from now on the coordinator may trust the counters.
        drop(launch);
        Ok(ReadyNews(word(READY_NEWS) != 0))
    }

    pub(crate) fn signals(&self) -> &Signals {
        &self.coordinator.signals[self.place]
    }

    fn task(&self, kind: StreamKind, scratch_words: usize) -> Result<Task> {
        let device = &self.device.device;
        let scratch = device.shared(scratch_words)?;
        Ok(Task { stream: device.stream_of(kind)?, scratch })
    }

    /// A report for kernels that run one after the other.
    pub(crate) fn report(&self) -> Result<SharedBuffer<u64>> {
        Ok(self.host.shared(self.device.status.len())?)
    }

    pub(crate) fn common<'a>(
        &'a self,
        task: &'a Task,
        report: &'a SharedBuffer<u64>,
    ) -> CommonArgument<'a, P> {
        CommonArgument {
            problem: &self.device.problem,
            queues: &self.device.queues,
            status: &self.device.status,
            scratch: &task.scratch,
            report,
            place: Place::new(&self.device.here),
        }
    }
}
