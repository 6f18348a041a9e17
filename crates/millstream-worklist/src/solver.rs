//! The host's side of one device: launches its kernels and moves its packets,
//! and sees nothing but counters \[G §4.6.2\].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream_device::{Device, SharedBuffer, Stream, StreamKind};
use millstream_flow::{Error, Graph, Receiver, Result, Sender};

use crate::coordinator::{Coordinator, Launch, Signals};
use crate::kernels::{CommonArgument, Place, SCRATCH_WORDS};
use crate::program::Program;
use crate::statistics::COUNTERS;
use crate::status::{FAULT, LOWEST_DEFERRED, OUTBOX_NEWS, PACKED, READY_NEWS, fault_text};
use crate::sync::{Fault, seeded};
use crate::worklist::{Ends, WorklistDevice};

/// Drives one device: a worker, a receiver for each input, a sender for each
/// outbox \[G Fig. 9\], as tasks that wait for each other's signals.
pub(crate) struct Solver<P: Program> {
    pub(crate) device: WorklistDevice<P>,
    pub(crate) host: Device,
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) place: usize,
    pub(crate) packet_items: usize,
    pub(crate) batch: u32,
}

/// What the kernels of one task have to themselves: a stream, words on the
/// device and a report on the host.
struct Task {
    stream: Stream,
    scratch: SharedBuffer<u64>,
    report: SharedBuffer<u64>,
}

impl<P: Program> Solver<P> {
    /// Queues the initial items and waits for that.
    pub(crate) async fn insert(&self, items: Vec<u32>) -> Result<()> {
        let task = self.task(StreamKind::Compute)?;
        let lowest = LOWEST_DEFERRED..LOWEST_DEFERRED + 1;
        task.stream.fill_shared(&self.device.status, lowest, u64::from(u32::MAX))?;
        let buffer = task.stream.uploaded(items)?;
        let launch = self.coordinator.launch();
        let arguments = (self.common(&task), &buffer);
        self.device.kernels.insert.launch(&task.stream, buffer.len(), arguments)?;
        self.over(&task, launch).await
    }

    /// Adds this device's tasks to the graph.
    pub(crate) fn spawn(self: &Arc<Self>, graph: &Graph, ends: Ends<P::Packet>) -> Result<()> {
        let task = self.task(StreamKind::Compute)?;
        let solver = Arc::clone(self);
        graph.spawn(async move { solver.work(task).await });
        for input in ends.inputs {
            let task = self.task(StreamKind::HighPriority)?;
            let solver = Arc::clone(self);
            graph.spawn(async move { solver.receive(input, task).await });
        }
        for (outbox, output) in ends.outputs.into_iter().enumerate() {
            let task = self.task(StreamKind::Compute)?;
            let solver = Arc::clone(self);
            graph.spawn(async move { solver.send(outbox, output, task).await });
        }
        Ok(())
    }

    /// Processes ready items until the run is over.
    async fn work(&self, task: Task) -> Result<()> {
        let kernels = &self.device.kernels;
        loop {
            self.signals().worker.notified().await;
            if self.coordinator.is_finished() {
                return Ok(());
            }
            let threshold = self.coordinator.threshold();
            if self.signals().undefer.swap(false, Ordering::AcqRel) {
                let launch = self.coordinator.launch();
                let arguments = (self.common(&task), threshold);
                kernels.undefer.launch(&task.stream, self.batch as usize, arguments)?;
                self.over(&task, launch).await?;
                self.signals()
                    .lowest_deferred
                    .store(self.lowest_deferred(&task)?, Ordering::Release);
                self.coordinator.undeferred();
            }
            let launch = self.coordinator.launch();
            let arguments = (self.common(&task), self.batch, threshold);
            kernels.process.launch(&task.stream, self.batch as usize, arguments)?;
            self.over(&task, launch).await?;
            self.signals().lowest_deferred.store(self.lowest_deferred(&task)?, Ordering::Release);
            self.coordinator.check();
        }
    }

    /// Splits what arrives until every sender has shut down.
    async fn receive(&self, mut input: Receiver<P::Packet>, task: Task) -> Result<()> {
        while let Some(pending) = input.recv().await? {
            let launch = self.coordinator.launch();
            task.stream.wait(&pending)?;
            let arguments = (self.common(&task), &pending);
            self.device.kernels.split_receive.launch(&task.stream, pending.len(), arguments)?;
            pending.release_after(&task.stream)?;
            self.over(&task, launch).await?;
            self.coordinator.check();
        }
        Ok(())
    }

    /// Packs and sends what is in an outbox until the run is over. A link
    /// without credit holds up this task alone: items stay in the outbox and
    /// later ones merge with them.
    async fn send(&self, outbox: usize, mut output: Sender<P::Packet>, task: Task) -> Result<()> {
        loop {
            self.signals().outboxes[outbox].notified().await;
            if self.coordinator.is_finished() {
                return output.shutdown();
            }
            let mut packets = output.buffer(self.packet_items).await?;
            let launch = self.coordinator.launch();
            let arguments = (self.common(&task), outbox as u32, &mut packets);
            self.device.kernels.pack.launch(&task.stream, self.packet_items, arguments)?;
            self.over(&task, launch).await?;
            let count = task.report.load(PACKED)? as usize;
            if count == 0 {
                self.coordinator.check();
                continue;
            }
            packets.truncate(count);
            output.send(packets, &task.stream)?;
            if seeded(Fault::CountAfterPublish) {
                let arguments = (self.common(&task), count as u32);
                let launch = self.coordinator.launch();
                self.device.kernels.late_count.launch(&task.stream, 1, arguments)?;
                self.over(&task, launch).await?;
            }
            self.coordinator.check();
        }
    }

    /// Waits for a task's kernel, takes its report in, and wakes whom its news
    /// concerns. Every kernel that queues items is followed by this, so no item
    /// waits unnoticed.
    async fn over(&self, task: &Task, launch: Launch<'_>) -> Result<()> {
        task.stream.record()?.completed().await?;
        let word = |place| task.report.load(place).unwrap_or(0);
        if let Some(message) = fault_text(word(FAULT)) {
            return Err(Error::Device(millstream_device::Error::KernelFailed {
                kernel: "the worklist's".into(),
                device: self.device.device.name(),
                message: message.into(),
            }));
        }
        self.coordinator.counters[self.place].update((0..COUNTERS).map(word));
        let signals = self.signals();
        if word(READY_NEWS) != 0 {
            signals.worker.notify();
        }
        for (outbox, signal) in signals.outboxes.iter().enumerate() {
            if word(OUTBOX_NEWS + outbox) != 0 {
                signal.notify();
            }
        }
        // Only now may the coordinator believe the counters.
        drop(launch);
        Ok(())
    }

    fn lowest_deferred(&self, task: &Task) -> Result<u32> {
        Ok(task.report.load(LOWEST_DEFERRED)? as u32)
    }

    fn signals(&self) -> &Signals {
        &self.coordinator.signals[self.place]
    }

    fn task(&self, kind: StreamKind) -> Result<Task> {
        let device = &self.device.device;
        let report = self.host.shared(self.device.status.len())?;
        let scratch = device.shared(SCRATCH_WORDS)?;
        Ok(Task { stream: device.stream_of(kind)?, scratch, report })
    }

    fn common<'a>(&'a self, task: &'a Task) -> CommonArgument<'a, P> {
        CommonArgument {
            problem: &self.device.problem,
            queues: &self.device.queues,
            status: &self.device.status,
            scratch: &task.scratch,
            report: &task.report,
            place: Place::new(&self.device.here),
        }
    }
}
