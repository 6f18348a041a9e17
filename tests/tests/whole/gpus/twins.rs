//! CUDA C++ beside its host twins on random items, kernel by kernel: the callbacks of
//! breadth-first search and shortest paths with split-send, split-receive, queues, the
//! halo filter and priorities; and a program whose items go everywhere. The first of the
//! devices that `MILLSTREAM_TEST_DEVICES` names, and a host device, stand in for one of
//! four.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use millstream::bfs::Levels;
use millstream::device::{Device, DeviceBuffer, Pod, Read, Shared, SharedBuffer, Stream, Trusted};
use millstream::flow::{Context, Devices};
use millstream::sssp::{IntegerDistances, RealDistances};
use millstream::traversal::{
    Owners, Packet, Problem, Relaxation, Rule, Settings, UNREACHED, Value,
};
use millstream::worklist::{
    CudaProgram, DeviceStatistics, Flags, Here, Program, Queued, Steps, View, problem,
};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::{context, scaled};

const DEVICES: usize = 4;

fn cases() -> Range<u64> {
    0..scaled(40, 10)
}

/// The device to be tested, and a host device.
fn contexts() -> [Context; 2] {
    [context(), Context::builder().devices(Devices::host(1)).build().unwrap()]
}

/// What can be seen when some kernels have run.
#[derive(Debug, PartialEq)]
struct Seen<V> {
    values: Vec<V>,
    queued: Vec<Queued>,
    /// Packets of each outbox, sorted.
    packed: Vec<Vec<String>>,
    statistics: Vec<DeviceStatistics>,
}

/// What one device owns of a random graph, what it knows, and what happens to it. The
/// owned vertices whose numbers are even have arcs, and all others are their targets: what
/// is processed does not change what else is. If the order of arcs or packets matters, to
/// priorities, no two concern the same vertex.
#[derive(Debug)]
struct Case<V> {
    here: Here,
    boundaries: Vec<u32>,
    offsets: Vec<u64>,
    targets: Vec<u32>,
    weights: Vec<u32>,
    values: Vec<V>,
    settings: Settings,
    /// For what arrives, what is inserted, and what is no longer deferred.
    thresholds: [u32; 3],
    packets: Vec<(V, u32)>,
    inserted: Vec<u32>,
    is_order_free: bool,
}

impl<V: Value + Debug> Case<V> {
    fn new(seed: u64, key: fn(u32) -> u32) -> Case<V> {
        let random = &mut SmallRng::seed_from_u64(seed);
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
        // Of two predecessors as good, the first one stays.
        let is_order_free = !V::KEEPS_PREDECESSOR && random.random::<bool>();
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
        let value = |random: &mut SmallRng| match random.random_range(0..3) {
            0 => V::UNREACHED,
            _ => V::new(key(random.random_range(0..60)), random.random_range(0..vertices)),
        };
        let values = (0..vertices).map(|_| value(random)).collect();
        let weights = targets.iter().map(|_| random.random_range(0..20)).collect();
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
        let packets = receivers.into_iter().map(|vertex| (value(random), vertex)).collect();
        let inserted = owned.clone().filter(|v| has_arcs(v) && random.random::<bool>()).collect();
        let settings = Settings {
            limit: if random.random::<bool>() { UNREACHED - 1 } else { key(70) },
            halo_filter: random.random_range(0..2),
            priority_scale: 1.0,
        };
        Case {
            here,
            boundaries,
            offsets,
            targets,
            weights,
            values,
            settings,
            thresholds,
            packets,
            inserted,
            is_order_free,
        }
    }

    /// Splits what arrives, then inserts, undefers and processes; each time packs.
    async fn run<R: Rule>(&self, context: &Context, weight: fn(u32) -> R::Weight) -> Seen<V> {
        let device = &context.devices()[0];
        let values = device.shared::<V>(self.values.len()).unwrap();
        let stream = device.stream().unwrap();
        stream.upload_shared(self.values.clone(), &values, 0..self.values.len()).unwrap();
        stream.record().unwrap().completed().await.unwrap();
        let weights: Vec<_> = self.weights.iter().copied().map(weight).collect();
        let problem = Arc::new(Problem::<R, V> {
            offsets: on(device, &self.offsets),
            targets: on(device, &self.targets),
            weights: on(device, &weights),
            values: values.clone(),
            owners: on(device, &self.boundaries),
            settings: self.settings,
        });
        let owners = Owners::new(&self.boundaries);
        let program = Arc::new(Relaxation::<R, V>::new(owners, self.settings));
        let steps = || {
            let (program, problem) = (Arc::clone(&program), Arc::clone(&problem));
            Steps::new(context, device, program, problem, self.here, self.values.len()).unwrap()
        };
        let [arriving, inserting, undeferring] = self.thresholds;
        let mut seen = Seen { values: vec![], queued: vec![], packed: vec![], statistics: vec![] };
        let received = steps();
        let packets = self.packets.iter().map(|&(value, vertex)| Packet::new(value, vertex));
        received.split_receive(packets.collect(), arriving).await.unwrap();
        seen.look(&received, (&stream, &values), self.is_order_free).await;
        let sent = steps();
        sent.insert(self.inserted.clone(), inserting).await.unwrap();
        seen.queued.push(sent.queued().await.unwrap());
        sent.undefer(undeferring).await.unwrap();
        let queued = sent.queued().await.unwrap();
        sent.process(queued.ready.len() as u32, undeferring).await.unwrap();
        seen.queued.push(queued);
        seen.look(&sent, (&stream, &values), self.is_order_free).await;
        seen
    }
}

impl<V: Value + Debug> Seen<V> {
    async fn look<R: Rule>(
        &mut self,
        steps: &Steps<Relaxation<R, V>>,
        (stream, values): (&Stream, &SharedBuffer<V>),
        is_order_free: bool,
    ) {
        self.queued.push(steps.queued().await.unwrap());
        pack_all(steps, &mut self.packed).await;
        self.values = stream.download_shared(values, 0..values.len()).unwrap().await.unwrap();
        // How many changes of one vertex are news is a matter of their order.
        if !is_order_free {
            self.statistics.push(steps.statistics().await.unwrap());
        }
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

fn compare<R: Rule, V: Value + Debug>(key: fn(u32) -> u32, weight: fn(u32) -> R::Weight) {
    let [context, twin] = contexts();
    let (mut deferred, mut passed, mut filtered) = (0, 0, 0);
    for seed in cases() {
        let case = Case::<V>::new(seed, key);
        let seen = context.block_on(case.run::<R>(&context, weight)).unwrap();
        let expected = twin.block_on(case.run::<R>(&twin, weight)).unwrap();
        assert!(seen == expected, "case {seed}: {case:?}\n{seen:?}\n{expected:?}");
        deferred += expected.queued.iter().map(|queued| queued.deferred.len()).sum::<usize>();
        passed += expected.packed.iter().map(Vec::len).sum::<usize>();
        filtered += expected.statistics.iter().map(|counts| counts.filtered).sum::<u64>();
    }
    // The cases are about something.
    assert!(deferred > 0 && passed > 0 && filtered > 0, "{deferred} {passed} {filtered}");
}

#[test]
fn breadth_first_search() {
    compare::<Levels, u32>(|key| key, |weight| weight);
    compare::<Levels, u64>(|key| key, |weight| weight);
}

#[test]
fn shortest_paths() {
    compare::<IntegerDistances, u32>(|key| key, |weight| weight);
    compare::<IntegerDistances, u64>(|key| key, |weight| weight);
    compare::<RealDistances, u32>(|key| (key as f32 / 3.0).to_bits(), |weight| weight as f32 / 7.0);
}

const ROUTES: &str = r#"
#include "worklist.cuh"
using namespace millstream;
__device__ u32 mixed(u32 item) {
    item = (item ^ item >> 16) * 0x45d9f3bu;
    return item ^ item >> 16;
}
struct Routes {
    struct Problem { Span<const u32> middle; Span<u32> touched; };
    struct Arc { u32 target; };
    using State = u32;
    using Packet = u32;
    __device__ static Flags flags(const Here& here, u32 item) {
        const Flags flags = Flags(mixed(item) % 4);
        return flags == Flags::pass && owner_of(here, item) == here.device ? Flags::keep : flags;
    }
    __device__ static u32 owner_of(const Here& here, u32 item) { return item % here.devices; }
    __device__ static u32 unpack(const Problem&, const Here&, u32 packet) { return packet; }
    __device__ static u32 pack(const Problem&, const Here&, u32 item) { return item; }
    __device__ static Flags on_send(const Problem&, const Here& here, u32 item) {
        return flags(here, item);
    }
    __device__ static Flags on_receive(const Problem& problem, const Here& here, u32 packet) {
        fetch_add_relaxed_gpu(&problem.touched[packet], 1u);
        return flags(here, packet);
    }
    __device__ static u32 priority(const Problem&, u32 item) { return mixed(item) >> 8 & 63; }
    __device__ static u32 owner(const Problem&, u32 item) { return item % 4; }
    __device__ static u32 begin(const Problem&, const Here&, u32 item, u64* first, u64* last) {
        *first = item * 40;
        *last = *first + mixed(item) % 40;
        return item;
    }
    __device__ static Arc arc(const Problem& problem, u64 at) {
        return {problem.middle[0] + u32(at) % problem.middle[0]};
    }
    __device__ static bool visit(const Problem& problem, const Here&, u32, const Arc& arc,
                                 u32* priority, u32*) {
        *priority = Routes::priority(problem, arc.target);
        return true;
    }
};
"#;

problem! {
    struct RoutesProblem, RoutesView {
        middle: Read<u32>,
        touched: Shared<u32>,
    }
}

/// Flags, owners and priorities are hashes of items. Items up to the middle emit items
/// from the middle on.
#[derive(Debug)]
struct Routes;

fn mixed(item: u32) -> u32 {
    let item = (item ^ item >> 16).wrapping_mul(0x045d_9f3b);
    item ^ item >> 16
}

fn flags(here: &Here, item: u32) -> Flags {
    match mixed(item) % 4 {
        0 => Flags::Keep,
        1 if item as usize % DEVICES == here.device => Flags::Keep,
        1 => Flags::Pass,
        2 => Flags::Both,
        _ => Flags::Drop,
    }
}

impl Program for Routes {
    type Packet = u32;
    type Problem = RoutesProblem;

    fn pack(&self, _: &View<'_, Self>, _: &Here, item: u32) -> u32 {
        item
    }

    fn unpack(&self, _: &View<'_, Self>, _: &Here, packet: &u32) -> u32 {
        *packet
    }

    fn on_send(&self, _: &View<'_, Self>, here: &Here, item: u32) -> Flags {
        flags(here, item)
    }

    fn on_receive(&self, view: &View<'_, Self>, here: &Here, packet: &u32) -> Flags {
        view.touched[*packet as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        flags(here, *packet)
    }

    fn priority(&self, _: &View<'_, Self>, item: u32) -> u32 {
        mixed(item) >> 8 & 63
    }

    fn owner(&self, item: u32) -> Option<usize> {
        Some(item as usize % DEVICES)
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        let program = CudaProgram { file: "routes.cuh", text: ROUTES, class: "Routes" };
        // SAFETY: as the twins.
        Some(unsafe { Trusted::new(program) })
    }

    fn process(
        &self,
        view: &View<'_, Self>,
        _: &Here,
        item: u32,
        emit: &mut impl FnMut(u32),
        _: &mut u64,
    ) {
        let middle = view.middle[0];
        (0..mixed(item) % 40).for_each(|arc| emit(middle + (item * 40 + arc) % middle));
    }
}

/// Received twice over, inserted, undeferred and processed; all of it counted.
async fn run_routes(context: &Context, seed: u64) -> (Seen<u32>, Vec<u32>) {
    let random = &mut SmallRng::seed_from_u64(seed);
    let device = &context.devices()[0];
    let middle = random.random_range(1..scaled(2000, 200));
    let place = random.random_range(0..DEVICES);
    let next = random.random::<bool>().then_some((place + 1) % DEVICES);
    let here = Here { device: place, devices: DEVICES, next };
    let items = 2 * middle as usize;
    let touched = device.shared(items).unwrap();
    let problem = RoutesProblem { middle: on(device, &[middle]), touched: touched.clone() };
    let (program, problem) = (Arc::new(Routes), Arc::new(problem));
    let steps = Steps::new(context, device, program, problem, here, items).unwrap();
    let mut thresholds = || random.random_range(0..64);
    let [arriving, inserting, undeferring] = [thresholds(), thresholds(), thresholds()];
    let mut packets: Vec<u32> = (0..middle).filter(|_| random.random::<bool>()).collect();
    packets.extend_from_within(..packets.len() / 2);
    packets.shuffle(random);
    let mut seen = Seen { values: vec![], queued: vec![], packed: vec![], statistics: vec![] };
    steps.split_receive(packets, arriving).await.unwrap();
    seen.queued.push(steps.queued().await.unwrap());
    let inserted = (0..middle).filter(|_| random.random_range(0..4) == 0).collect();
    steps.insert(inserted, inserting).await.unwrap();
    seen.queued.push(steps.queued().await.unwrap());
    steps.undefer(undeferring).await.unwrap();
    let queued = steps.queued().await.unwrap();
    steps.process(queued.ready.len() as u32, undeferring).await.unwrap();
    seen.queued.extend([queued, steps.queued().await.unwrap()]);
    pack_all(&steps, &mut seen.packed).await;
    seen.statistics.push(steps.statistics().await.unwrap());
    let stream = device.stream().unwrap();
    let touched = stream.download_shared(&touched, 0..items).unwrap().await.unwrap();
    (seen, touched)
}

#[test]
fn items_that_go_everywhere() {
    let [context, twin] = contexts();
    for seed in cases() {
        let seen = context.block_on(run_routes(&context, seed)).unwrap();
        let expected = twin.block_on(run_routes(&twin, seed)).unwrap();
        assert!(seen == expected, "case {seed}:\n{seen:?}\n{expected:?}");
    }
}
