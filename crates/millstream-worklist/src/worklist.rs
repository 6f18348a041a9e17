//! The distributed worklist: its settings, and a run from beginning to end
//! \[G §4.3\].

use std::sync::Arc;
use std::time::Duration;

use millstream_device::{Device, SharedBuffer};
use millstream_flow::{Context, Graph, Receiver, Sender};

use crate::common::{OUTBOXES, QueueBuffers};
use crate::coordinator::{Coordinator, ThresholdSteps};
use crate::fused::{self, FusedGang, FusedRun, Rings};
use crate::initial::check_initial;
use crate::kernels::Kernels;
use crate::program::{Here, Program, Routing, Worker};
use crate::queue::{CONTROL_WORDS, bit_words};
use crate::queue_size::{MOST_FUSED_ITEMS, QueueSize, SPARE_ENTRIES, fused_entries, ring_entries};
use crate::solver::Solver;
use crate::statistics::{Counters, WorklistStatistics};
use crate::status;
use crate::watch::{self, Watch};
use crate::{Error, Result, packets};

/// Work-items spread over the devices of a context, and how they are run. [`Program`] has an
/// example with a program.
///
/// ```no_run
/// # use millstream_worklist::{DistributedWorklist, Program, Routing};
/// # async fn run<P: Program>(
/// #     context: millstream_flow::Context,
/// #     program: std::sync::Arc<P>,
/// #     problems: Vec<std::sync::Arc<P::Problem>>,
/// # ) -> millstream_worklist::Result<()> {
/// let statistics = DistributedWorklist::new(&context, program, problems, 1000)
///     .routing(Routing::Direct)
///     .packet_bytes(1 << 16)
///     .run(&[(0, 17)])
///     .await?;
/// println!("{} items processed", statistics.work_items());
/// # Ok(())
/// # }
/// ```
pub struct DistributedWorklist<P: Program> {
    context: Context,
    program: Arc<P>,
    problems: Vec<Arc<P::Problem>>,
    items: usize,
    routing: Routing,
    buffers: Option<usize>,
    packet_bytes: usize,
    queue_entries: Option<usize>,
    batch: u32,
    delta: Option<u32>,
    falls_after: Option<u64>,
    worker: Worker,
    patience: Duration,
}

impl<P: Program> std::fmt::Debug for DistributedWorklist<P> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("DistributedWorklist")
            .field("items", &self.items)
            .field("routing", &self.routing)
            .field("packet_bytes", &self.packet_bytes)
            .field("queue_entries", &self.queue_entries)
            .field("batch", &self.batch)
            .field("delta", &self.delta)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

/// One device of a run.
pub(crate) struct WorklistDevice<P: Program> {
    pub(crate) device: Device,
    pub(crate) problem: Arc<P::Problem>,
    pub(crate) kernels: Kernels<P>,
    pub(crate) here: Here,
    pub(crate) queues: QueueBuffers,
    pub(crate) status: SharedBuffer<u64>,
}

impl<P: Program> WorklistDevice<P> {
    /// With empty queues.
    pub(crate) fn new(
        device: &Device,
        program: &Arc<P>,
        problem: Arc<P::Problem>,
        here: Here,
        (outboxes, steps): (usize, ThresholdSteps),
        QueueSize { items, most, entries }: QueueSize,
    ) -> Result<WorklistDevice<P>> {
        let (queues, entries) = (OUTBOXES + outboxes, ring_entries(entries));
        let queue_buffers = QueueBuffers {
            bits: device.shared(queues * bit_words(items))?,
            entries: device.shared(queues * entries)?,
            control: device.shared(queues * CONTROL_WORDS)?,
            most: most as u32,
        };
        Ok(WorklistDevice {
            device: device.clone(),
            problem,
            kernels: Kernels::new(program, (here, items), steps),
            here,
            queues: queue_buffers,
            status: device.shared(status::words(outboxes))?,
        })
    }

    /// Entries of each queue.
    pub(crate) fn queue_entries(&self) -> usize {
        self.queues.entries.len() / (self.queues.control.len() / CONTROL_WORDS)
    }
}

impl<P: Program> std::fmt::Debug for WorklistDevice<P> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "WorklistDevice({} {:?})", self.device, self.here)
    }
}

/// The ends of a device's links: one input from each device that sends to it, one output for each outbox.
pub(crate) struct Ends<T: millstream_flow::Item> {
    pub(crate) inputs: Vec<Receiver<T>>,
    pub(crate) outputs: Vec<Sender<T>>,
}

impl<P: Program> DistributedWorklist<P> {
    /// A worklist of items `0..items`, with one problem for each device of `context`.
    pub fn new(
        context: &Context,
        program: Arc<P>,
        problems: Vec<Arc<P::Problem>>,
        items: usize,
    ) -> DistributedWorklist<P> {
        DistributedWorklist {
            context: context.clone(),
            program,
            problems,
            items,
            routing: Routing::Auto,
            buffers: None,
            packet_bytes: 1 << 18,
            queue_entries: None,
            batch: 1 << 18,
            delta: None,
            falls_after: None,
            worker: Worker::Auto,
            patience: Duration::from_secs(10),
        }
    }

    /// How packets travel.
    #[must_use]
    pub fn routing(self, routing: Routing) -> DistributedWorklist<P> {
        DistributedWorklist { routing, ..self }
    }

    /// The most bytes of a packet: 256 KiB unless set, but no more than all items that
    /// [a queue holds](Program::most_queued) take and, where all devices are the host's, than 64 MiB over
    /// the number of links. A packet of the fused worker holds at most 256 items.
    #[must_use]
    pub fn packet_bytes(self, packet_bytes: usize) -> DistributedWorklist<P> {
        DistributedWorklist { packet_bytes, ..self }
    }

    /// The number of packet buffers of each link; chosen by the link unless set. With the fused
    /// worker it is the number for each pair of blocks that exchange packets: 64 unless set, rounded
    /// up to a power of two, at most 65,536. Else at most one more than hold all that a queue does.
    #[must_use]
    pub fn buffers(self, count: usize) -> DistributedWorklist<P> {
        DistributedWorklist { buffers: Some(count), ..self }
    }

    /// Sets the entries of each queue, rounded up to a power of two. Unless set these are the device's share
    /// of the items; for the fused worker [`Program::most_queued`], or all items in a ring, and twice as many
    /// with a [`delta`](DistributedWorklist::delta), up to all items. A smaller queue loses nothing: items
    /// that found no room are found again by a sweep. Values above the number of items (on GPUs 2^19 more)
    /// are treated as that.
    #[must_use]
    pub fn queue_entries(self, entries: usize) -> DistributedWorklist<P> {
        DistributedWorklist { queue_entries: Some(entries), ..self }
    }

    /// Items that one kernel processes at most, if the host drives; 262144 unless set.
    #[must_use]
    pub fn batch(self, items: u32) -> DistributedWorklist<P> {
        DistributedWorklist { batch: items.max(1), ..self }
    }

    /// Sets the step of the priority threshold \[G §4.4\], at least 1; `None` runs everything at once. Every
    /// step looks at all deferred items, so a run with as many steps as items takes quadratic time.
    #[must_use]
    pub fn delta(self, delta: Option<u32>) -> DistributedWorklist<P> {
        DistributedWorklist { delta: delta.map(|delta| delta.max(1)), ..self }
    }

    /// Lets the threshold fall back to its first step when nothing is ready and `items` items, at least 1,
    /// have been processed since it was last there; unless set it only rises. For programs that add values
    /// up, such as residuals: what was deferred may have become urgent since.
    #[must_use]
    pub fn falls_after(self, items: u64) -> DistributedWorklist<P> {
        // At least 1: otherwise the threshold would never leave its first step.
        DistributedWorklist { falls_after: Some(items.max(1)), ..self }
    }

    /// Sets who drives the worklist; [`Worker::Auto`] unless set.
    #[must_use]
    pub fn worker(self, worker: Worker) -> DistributedWorklist<P> {
        DistributedWorklist { worker, ..self }
    }

    /// Sets how long a run may go on without any change before it fails; ten seconds unless set. In
    /// a run that the host drives, the time that kernels take does not count.
    #[must_use]
    pub fn patience(self, patience: Duration) -> DistributedWorklist<P> {
        DistributedWorklist { patience, ..self }
    }

    /// Compiles and loads the kernels of a run. Otherwise the first run of a process does this,
    /// which takes seconds if they are not in the cache.
    ///
    /// # Errors
    /// Settings that do not fit together; CUDA C++ that does not compile.
    pub fn prepare(&self) -> Result<()> {
        let is_fused = self.fused_gang(self.uses_ring())?.is_some();
        let devices = self.context.devices();
        for (place, device) in devices.iter().enumerate() {
            let here = Here { device: place, devices: devices.len(), next: None };
            let kernels = Kernels::new(&self.program, (here, self.items), self.steps());
            kernels.prepare_insert(device)?;
            if !is_fused {
                kernels.prepare_host_driven(device)?;
            }
        }
        Ok(())
    }

    /// Runs to the end: from the initial items `(device, item)`, whose values
    /// are already in the problems, until no item is left anywhere.
    ///
    /// # Errors
    /// Settings that do not fit together; the first cause of any failure.
    ///
    /// # Cancel safety
    /// Dropping the future stops all devices; the problems are then in an intermediate state, as
    /// after an error. Devices may still execute work that was submitted before. So until
    /// [`DeviceSet::quiesce`](millstream_device::DeviceSet::quiesce) has returned, copies of the
    /// problems' buffers may be refused as a hazard.
    ///
    /// # Device ordering
    /// When it resolves, all kernels are over and host code comes after them.
    pub async fn run(self, initial: &[(usize, u32)]) -> Result<WorklistStatistics> {
        self.check(initial)?;
        let is_ring = self.uses_ring();
        let fused_gang = self.fused_gang(is_ring)?;
        let devices = self.devices(is_ring, fused_gang.is_some())?;
        let outboxes = self.outboxes(is_ring);
        let steps = self.steps();
        let coordinator = Arc::new(Coordinator::new(devices.len(), outboxes, steps));
        let packet_bytes = self.packet_bytes_at_once(is_ring);
        let solvers = self.solvers(&devices, &coordinator, packet_bytes, initial).await?;
        if let Some(gang) = fused_gang {
            let (context, patience) = (self.context.clone(), self.patience);
            let rings = Rings::new::<P::Packet>(self.buffers, packet_bytes)?;
            let run = FusedRun { context, devices, is_ring, outboxes, steps, patience, rings };
            return run.run(gang).await;
        }
        let graph = Graph::new(&self.context);
        let links = graph.statistics();
        let ends = self.links(&graph, is_ring, packet_bytes)?;
        for (solver, ends) in solvers.iter().zip(ends) {
            solver.spawn(&graph, ends)?;
        }
        coordinator.check();
        self.drive(graph, &coordinator).await?;
        let devices = coordinator.counters.iter().map(Counters::statistics).collect();
        let (worker, routing) = (Some(Worker::HostDriven), Some(Routing::settled(is_ring)));
        Ok(WorklistStatistics { devices, links: links.links(), worker, routing })
    }

    /// Runs the solvers' tasks to their end, or until nothing changes any more.
    async fn drive(&self, graph: Graph, coordinator: &Arc<Coordinator>) -> Result<()> {
        let set = self.context.device_set();
        // A simulation detects by itself, at once, that nothing can go on.
        let watch = match set.simulation() {
            None => Some(Watch::start(coordinator, self.patience)?),
            Some(_) => None,
        };
        let ended = graph.run(async {
            match coordinator.over().await {
                true => Ok(()),
                false => Err(millstream_flow::Error::Cancelled),
            }
        });
        let ended = ended.await;
        drop(watch);
        match ended {
            Err(_) if coordinator.is_stalled() => {
                Err(watch::stalled(coordinator, set.devices(), self.patience))
            }
            ended => Ok(ended?),
        }
    }

    /// A solver for each device, with its initial items queued.
    async fn solvers(
        &self,
        devices: &[Arc<WorklistDevice<P>>],
        coordinator: &Arc<Coordinator>,
        packet_bytes: usize,
        initial: &[(usize, u32)],
    ) -> Result<Vec<Arc<Solver<P>>>> {
        let packet_items = packet_bytes / size_of::<P::Packet>().max(1);
        let mut solvers = Vec::new();
        for (place, device) in devices.iter().enumerate() {
            let (device, coordinator) = (Arc::clone(device), Arc::clone(coordinator));
            let (host, batch) = (self.context.host().clone(), self.batch);
            let solver = Solver { device, host, coordinator, place, packet_items, batch };
            let own = initial.iter().filter(|(device, _)| *device == place).map(|(_, item)| *item);
            solver.insert(own.collect()).await?;
            solvers.push(Arc::new(solver));
        }
        Ok(solvers)
    }

    /// The gang of a fused run; `None` if the host drives.
    fn fused_gang(&self, is_ring: bool) -> Result<Option<FusedGang<P>>> {
        let is_fused = |obstacle| is_fused(self.worker, obstacle, self.items);
        if !is_fused(fused::obstacle::<P>(&self.context))? {
            return Ok(None);
        }
        let gang = FusedGang::prepared(&self.context)?;
        Ok(is_fused(gang.obstacle(self.outboxes(is_ring)))?.then_some(gang))
    }

    fn check(&self, initial: &[(usize, u32)]) -> Result<()> {
        let (problems, devices) = (self.problems.len(), self.context.devices().len());
        if problems != devices {
            return Err(Error::ProblemCount { problems, devices });
        }
        let items = self.items;
        check_items(items)?;
        check_initial(&*self.program, initial, items, devices)?;
        if self.routing == Routing::Direct && items > 0 && self.program.owner(0).is_none() {
            return Err(Error::NoOwner { item: 0 });
        }
        Ok(())
    }

    fn steps(&self) -> ThresholdSteps {
        ThresholdSteps { delta: self.delta, falls_after: self.falls_after }
    }

    fn uses_ring(&self) -> bool {
        match self.routing {
            Routing::Ring => true,
            Routing::Direct => false,
            Routing::Auto => {
                !self.context.topology().all_peers()
                    || (self.items > 0 && self.program.owner(0).is_none())
            }
        }
    }

    fn outboxes(&self, is_ring: bool) -> usize {
        let others = self.context.devices().len().saturating_sub(1);
        if is_ring { others.min(1) } else { others }
    }

    fn devices(&self, is_ring: bool, is_fused: bool) -> Result<Vec<Arc<WorklistDevice<P>>>> {
        let order = self.context.topology().ring_order();
        let count = self.context.devices().len();
        let outboxes = self.outboxes(is_ring);
        let devices = self.context.devices().iter().zip(&self.problems).enumerate();
        devices
            .map(|(place, (device, problem))| {
                let next = is_ring.then(|| next_in(&order, place)).flatten();
                let here = Here { device: place, devices: count, next };
                let (program, problem) = (&self.program, Arc::clone(problem));
                let (ways, size) =
                    ((outboxes, self.steps()), self.queue_size(&here, is_fused, device));
                WorklistDevice::new(device, program, problem, here, ways, size).map(Arc::new)
            })
            .collect()
    }

    /// The most items in a queue at once.
    fn most_queued(&self, is_ring: bool) -> usize {
        let items = self.items;
        // The outbox of a ring takes items of all other devices.
        if is_ring { items } else { self.program.most_queued(items).min(items) }
    }

    fn packet_bytes_at_once(&self, is_ring: bool) -> usize {
        let links = self.context.devices().len() * self.outboxes(is_ring);
        let host_links = (!self.context.any_gpu()).then_some(links);
        let (bytes, most) = (size_of::<P::Packet>(), self.most_queued(is_ring));
        packets::packet_bytes(self.packet_bytes, bytes, most, host_links)
    }

    /// The size of the queues of a device at its place.
    fn queue_size(&self, here: &Here, is_fused: bool, device: &Device) -> QueueSize {
        let (items, is_ring) = (self.items, here.next.is_some());
        let most = self.most_queued(is_ring);
        let share = items / here.devices;
        // With spare room for all threads of a GPU at once, none need check for room, and a fused run need
        // not sweep small queues.
        let spare = if device.is_gpu() { SPARE_ENTRIES } else { 0 };
        let least = match device.is_gpu() {
            true if is_fused || is_ring => fused_entries(items, most, self.delta) + spare,
            true => share + spare,
            false => share.max(1024),
        };
        // More entries than one for each item would stay empty.
        let entries = self.queue_entries.map_or(least, |entries| entries.min(items + spare));
        let entries = if is_fused { fused::entries(entries, items) } else { entries };
        QueueSize { items, most, entries }
    }

    fn links(
        &self,
        graph: &Graph,
        is_ring: bool,
        packet_bytes: usize,
    ) -> Result<Vec<Ends<P::Packet>>> {
        let devices = self.context.devices();
        let order = self.context.topology().ring_order();
        let mut ends: Vec<_> =
            devices.iter().map(|_| Ends { inputs: Vec::new(), outputs: Vec::new() }).collect();
        let (bytes, most) = (size_of::<P::Packet>(), self.most_queued(is_ring));
        let buffers = packets::buffers(packet_bytes, self.buffers, bytes, most);
        for from in 0..devices.len() {
            let targets: Vec<usize> = match is_ring {
                true => next_in(&order, from).into_iter().collect(),
                false => (0..devices.len()).filter(|&to| to != from).collect(),
            };
            for to in targets {
                let (sender, receiver) = graph.link(&devices[from], &devices[to], buffers)?;
                ends[from].outputs.push(sender);
                ends[to].inputs.push(receiver);
            }
        }
        Ok(ends)
    }
}

/// Checks that queue entries, which are 32-bit words holding an item plus one, can name all items.
///
/// # Errors
/// [`Error::TooManyItems`] if they cannot.
pub(crate) fn check_items(items: usize) -> Result<()> {
    match items < u32::MAX as usize {
        true => Ok(()),
        false => Err(Error::TooManyItems { items }),
    }
}

/// Whether a run of `items` items is fused; `obstacle` is what prevents it in the devices or the
/// program, if anything.
fn is_fused(worker: Worker, obstacle: Option<&'static str>, items: usize) -> Result<bool> {
    let is_too_large = items > MOST_FUSED_ITEMS;
    let size = is_too_large.then_some("it takes 2^31 - 2^19 items at most");
    match (worker, obstacle.or(size)) {
        (Worker::HostDriven, _) | (Worker::Auto, Some(_)) => Ok(false),
        (Worker::Fused, Some(reason)) => Err(Error::NotFused { reason }),
        (Worker::Auto | Worker::Fused, None) => Ok(true),
    }
}

/// The device after `place` in the ring, if there is another.
fn next_in(order: &[usize], place: usize) -> Option<usize> {
    let position = order.iter().position(|&device| device == place)?;
    let next = order[(position + 1) % order.len()];
    (next != place).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_items_than_entries_are_for_the_host() {
        let most = MOST_FUSED_ITEMS;
        for (worker, can_fuse, items, expected) in [
            (Worker::Auto, true, most, Some(true)),
            (Worker::Auto, true, most + 1, Some(false)),
            (Worker::Auto, false, most, Some(false)),
            (Worker::HostDriven, true, most, Some(false)),
            (Worker::Fused, true, most, Some(true)),
            (Worker::Fused, true, most + 1, None),
            (Worker::Fused, false, most, None),
        ] {
            let obstacle = (!can_fuse).then_some("no GPU");
            let found = is_fused(worker, obstacle, items);
            assert_eq!(found.ok(), expected, "{worker:?} {can_fuse} {items}");
        }
    }
}
