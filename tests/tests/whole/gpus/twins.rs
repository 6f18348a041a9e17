//! CUDA C++ beside its host twins on random items, kernel by kernel: the callbacks of
//! breadth-first search, shortest paths and PageRank with split-send, split-receive,
//! queues, the halo filter and priorities; a program whose items go everywhere; and filters. The
//! first of the devices that `MILLSTREAM_TEST_DEVICES` names, and a host device, stand in for one of
//! four. `MILLSTREAM_SEED=n` runs the case of that seed alone.

mod filters;
mod push;
mod relaxations;
mod routes;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use millstream::device::{AtomicPod, Device, DeviceBuffer, Pod, SharedBuffer};
use millstream::flow::{Context, Devices};
use millstream::worklist::{DeviceStatistics, Here, Program, Queued, Steps};
use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::{context, scaled};

const DEVICES: usize = 4;

/// The seeds of random cases.
fn cases() -> Range<u64> {
    crate::sssp::seeds(scaled(40, 10))
}

/// The device to be tested, and a host device.
fn contexts() -> [Context; 2] {
    [context(), Context::builder().devices(Devices::host(1)).build().unwrap()]
}

/// What can be seen when some kernels have run.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    queued: Vec<Queued>,
    /// Packets of each outbox, sorted.
    packed: Vec<Vec<String>>,
    statistics: Vec<DeviceStatistics>,
}

impl Seen {
    fn deferred(&self) -> usize {
        self.queued.iter().map(|queued| queued.deferred.len()).sum()
    }

    fn passed(&self) -> usize {
        self.packed.iter().map(Vec::len).sum()
    }

    async fn look<P: Program>(&mut self, steps: &Steps<P>, counts: bool)
    where
        P::Packet: Debug,
    {
        self.queued.push(steps.queued().await.unwrap());
        pack_all(steps, &mut self.packed).await;
        if counts {
            self.statistics.push(steps.statistics().await.unwrap());
        }
    }
}

/// What one device owns of a random graph, and what happens to it. The owned vertices
/// whose numbers are even have arcs, and all others are their targets: what is processed
/// does not change what else is. If the order of arcs or packets matters, to priorities,
/// no two concern the same vertex.
#[derive(Debug)]
struct Case {
    here: Here,
    boundaries: Vec<u32>,
    offsets: Vec<u64>,
    targets: Vec<u32>,
    /// For what arrives, what is inserted, and what is no longer deferred.
    thresholds: [u32; 3],
    /// Where packets go.
    receivers: Vec<u32>,
    inserted: Vec<u32>,
    is_order_free: bool,
}

impl Case {
    fn new(random: &mut SmallRng, is_order_free: bool) -> Case {
        let vertices = random.random_range(2 * DEVICES as u32..scaled(3000, 300));
        let mut boundaries: Vec<u32> =
            (1..DEVICES).map(|_| random.random_range(0..=vertices)).collect();
        boundaries.extend([0, vertices]);
        boundaries.sort_unstable();
        let device = random.random_range(0..DEVICES);
        let next = random.random::<bool>().then_some((device + 1) % DEVICES);
        let here = Here { device, devices: DEVICES, next };
        let owned = boundaries[device]..boundaries[device + 1];
        let has_arcs = |vertex: &u32| owned.contains(vertex) && vertex.is_multiple_of(2);
        let mut ends: Vec<u32> = (0..vertices).filter(|vertex| !has_arcs(vertex)).collect();
        ends.shuffle(random);
        let mut next_end = ends.iter().copied();
        let (mut offsets, mut targets) = (vec![0], Vec::new());
        for vertex in owned.clone() {
            // Some rows are long enough for whole warps.
            let most = if random.random_range(0..20) == 0 { 300 } else { 8 };
            for _ in 0..if has_arcs(&vertex) { random.random_range(0..most) } else { 0 } {
                match is_order_free {
                    true => targets.extend(ends.get(random.random_range(0..ends.len().max(1)))),
                    false => targets.extend(next_end.next()),
                }
            }
            offsets.push(targets.len() as u64);
        }
        let threshold = |random: &mut SmallRng| match is_order_free {
            true => u32::MAX,
            false => random.random_range(0..80),
        };
        let thresholds = [threshold(random), random.random_range(0..60), threshold(random)];
        let mut receivers = ends.clone();
        if is_order_free {
            receivers.extend_from_within(..ends.len() / 2);
        }
        receivers.shuffle(random);
        receivers.truncate(random.random_range(0..=receivers.len()));
        let inserted = owned.clone().filter(|v| has_arcs(v) && random.random::<bool>()).collect();
        Case { here, boundaries, offsets, targets, thresholds, receivers, inserted, is_order_free }
    }

    fn vertices(&self) -> usize {
        self.boundaries[DEVICES] as usize
    }

    fn owned(&self) -> Range<u32> {
        self.boundaries[self.here.device]..self.boundaries[self.here.device + 1]
    }

    /// Splits what arrives, then inserts, undefers and processes; each time packs.
    async fn run<P: Program>(
        &self,
        context: &Context,
        (program, problem): (P, P::Problem),
        packets: Vec<P::Packet>,
    ) -> Seen
    where
        P::Packet: Debug,
    {
        let device = &context.devices()[0];
        let (program, problem) = (Arc::new(program), Arc::new(problem));
        let steps = || {
            let (program, problem) = (Arc::clone(&program), Arc::clone(&problem));
            Steps::new(context, device, program, problem, self.here, self.vertices()).unwrap()
        };
        let [arriving, inserting, undeferring] = self.thresholds;
        // How many changes of one vertex are news is a matter of their order.
        let counts = !self.is_order_free;
        let mut seen = Seen::default();
        let received = steps();
        received.split_receive(packets, arriving).await.unwrap();
        seen.look(&received, counts).await;
        let sent = steps();
        sent.insert(self.inserted.clone(), inserting).await.unwrap();
        seen.queued.push(sent.queued().await.unwrap());
        sent.undefer(undeferring).await.unwrap();
        let queued = sent.queued().await.unwrap();
        sent.process(queued.ready.len() as u32, undeferring).await.unwrap();
        seen.queued.push(queued);
        seen.look(&sent, counts).await;
        seen
    }
}

/// Packs what is in all outboxes.
async fn pack_all<P: Program>(steps: &Steps<P>, packed: &mut Vec<Vec<String>>)
where
    P::Packet: Debug,
{
    let queued = steps.queued().await.unwrap();
    for (outbox, items) in queued.outboxes.iter().enumerate() {
        let packets = steps.pack(outbox as u32, items.len() + 3).await.unwrap();
        let mut packets: Vec<_> = packets.iter().map(|packet| format!("{packet:?}")).collect();
        packets.sort_unstable();
        packed.push(packets);
    }
}

fn on<T: Pod + Send + Sync>(device: &Device, items: &[T]) -> Arc<DeviceBuffer<T>> {
    let stream = device.stream().unwrap();
    let buffer = stream.uploaded(items.to_vec()).unwrap();
    stream.record().unwrap().synchronize().unwrap();
    Arc::new(buffer)
}

async fn shared<T: AtomicPod>(device: &Device, items: Vec<T>) -> SharedBuffer<T> {
    let (stream, buffer) = (device.stream().unwrap(), device.shared(items.len()).unwrap());
    stream.upload_shared(items, &buffer, 0..buffer.len()).unwrap();
    stream.record().unwrap().completed().await.unwrap();
    buffer
}

async fn downloaded<T: AtomicPod>(device: &Device, buffer: &SharedBuffer<T>) -> Vec<T> {
    let stream = device.stream().unwrap();
    stream.download_shared(buffer, 0..buffer.len()).unwrap().await.unwrap()
}
