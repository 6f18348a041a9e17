//! The host's side of one device: launches its kernels and moves its packets,
//! and sees nothing but counters \[G §4.6.2\].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream_device::{SharedBuffer, Stream, StreamKind};
use millstream_flow::{Counter, Graph, Receiver, Result, Sender};

use crate::coordinator::{Coordinator, Signals};
use crate::kernels::{CommonArgument, REPORT_DEFERRED, REPORT_OUTBOXES, REPORT_READY};
use crate::program::Program;
use crate::sync::{Fault, seeded};
use crate::worklist::{Ends, WorklistDevice};

/// Drives one device: a worker, a receiver for each input, a sender for each
/// outbox \[G Fig. 9\], as tasks that wait for each other's signals.
pub(crate) struct Solver<P: Program> {
    pub(crate) device: WorklistDevice<P>,
    /// Words that kernels raise and the host takes down.
    pub(crate) report: SharedBuffer<u32>,
    /// How many items were packed, for each outbox.
    pub(crate) counts: Vec<Counter>,
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) place: usize,
    pub(crate) packet_items: usize,
    pub(crate) batch: u32,
}

impl<P: Program> Solver<P> {
    /// Queues the initial items and waits for that.
    pub(crate) async fn insert(&self, items: Vec<u32>) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let stream = self.device.device.stream()?;
        let buffer = stream.uploaded(items)?;
        self.device.kernels.insert.launch(&stream, buffer.len(), (self.common(), &buffer))?;
        stream.record()?.completed().await?;
        self.spread_the_news()
    }

    /// Adds this device's tasks to the graph.
    pub(crate) fn spawn(self: &Arc<Self>, graph: &Graph, ends: Ends<P::Packet>) -> Result<()> {
        let device = &self.device.device;
        let stream = device.stream()?;
        let solver = Arc::clone(self);
        graph.spawn(async move { solver.work(stream).await });
        for input in ends.inputs {
            let stream = device.stream_of(StreamKind::HighPriority)?;
            let solver = Arc::clone(self);
            graph.spawn(async move { solver.receive(input, stream).await });
        }
        for (outbox, output) in ends.outputs.into_iter().enumerate() {
            let stream = device.stream()?;
            let solver = Arc::clone(self);
            graph.spawn(async move { solver.send(outbox, output, stream).await });
        }
        Ok(())
    }

    /// Processes ready items until the run is over.
    async fn work(&self, stream: Stream) -> Result<()> {
        let kernels = &self.device.kernels;
        loop {
            self.signals().worker.notified().await;
            if self.coordinator.is_finished() {
                return Ok(());
            }
            let threshold = self.coordinator.threshold();
            if self.signals().undefer.swap(false, Ordering::AcqRel) {
                kernels.undefer.launch(&stream, 1, (self.common(), threshold))?;
                stream.record()?.completed().await?;
                self.spread_the_news()?;
                self.coordinator.undeferred();
            }
            let size = self.batch as usize;
            kernels.process.launch(&stream, size, (self.common(), self.batch, threshold))?;
            stream.record()?.completed().await?;
            self.spread_the_news()?;
            self.coordinator.check();
        }
    }

    /// Splits what arrives until every sender has shut down.
    async fn receive(&self, mut input: Receiver<P::Packet>, stream: Stream) -> Result<()> {
        while let Some(pending) = input.recv().await? {
            stream.wait(&pending)?;
            let arguments = (self.common(), &pending);
            self.device.kernels.split_receive.launch(&stream, pending.len(), arguments)?;
            let done = stream.record()?;
            pending.release_after(&stream)?;
            done.completed().await?;
            self.spread_the_news()?;
            self.coordinator.check();
        }
        Ok(())
    }

    /// Packs and sends what is in an outbox until the run is over. A link
    /// without credit holds up this task alone: items stay in the outbox and
    /// later ones merge with them.
    async fn send(
        &self,
        outbox: usize,
        mut output: Sender<P::Packet>,
        stream: Stream,
    ) -> Result<()> {
        let host_word = Counter::clone(&self.counts[outbox]);
        loop {
            self.signals().outboxes[outbox].notified().await;
            if self.coordinator.is_finished() {
                return output.shutdown();
            }
            let mut packets = output.buffer(self.packet_items).await?;
            let arguments = (self.common(), outbox as u32, &mut packets, &host_word);
            self.device.kernels.pack.launch(&stream, self.packet_items, arguments)?;
            stream.record()?.completed().await?;
            let count = host_word.load(0)?;
            self.spread_the_news()?;
            if count == 0 {
                continue;
            }
            packets.truncate(count as usize);
            output.send(packets, &stream)?;
            if seeded(Fault::CountAfterPublish) {
                self.device.kernels.late_count.launch(&stream, 1, (self.common(), count))?;
                stream.record()?.completed().await?;
                self.coordinator.check();
            }
        }
    }

    /// Takes the report down and wakes whom it concerns. Every kernel that
    /// queues items is followed by this, so no item waits unnoticed.
    fn spread_the_news(&self) -> Result<()> {
        let signals = self.signals();
        let lowest = self.report.load(REPORT_DEFERRED)?;
        signals.lowest_deferred.store(lowest, Ordering::Release);
        for word in [REPORT_READY].into_iter().chain(REPORT_OUTBOXES..self.report.len()) {
            // In one step: what a kernel raises beside it is seen here or after
            // that kernel.
            if self.report.swap(word, 0)? == 0 {
                continue;
            }
            match word {
                REPORT_READY => signals.worker.notify(),
                outbox => signals.outboxes[outbox - REPORT_OUTBOXES].notify(),
            }
        }
        Ok(())
    }

    fn signals(&self) -> &Signals {
        &self.coordinator.signals[self.place]
    }

    fn common(&self) -> CommonArgument<'_, P> {
        CommonArgument {
            problem: &self.device.problem,
            queues: &self.device.queues,
            counters: &self.device.counters.0,
            report: &self.report,
        }
    }
}
