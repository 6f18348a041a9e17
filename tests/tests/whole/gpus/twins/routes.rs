//! A program of callbacks alone, whose items go everywhere.

use std::sync::Arc;

use millstream::device::{Read, Shared, Trusted};
use millstream::flow::Context;
use millstream::worklist::{CudaProgram, Flags, Here, Program, Steps, View, problem};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::{DEVICES, Seen, cases, contexts, downloaded, on, pack_all, scaled};

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
        let program =
            CudaProgram { file: "routes.cuh", text: ROUTES, class: "Routes", structs: &[] };
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
async fn run_routes(context: &Context, seed: u64) -> (Seen, Vec<u32>) {
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
    let mut seen = Seen::default();
    steps.split_receive(packets, arriving).await.unwrap();
    seen.queued.push(steps.queued().await.unwrap());
    let own = (0..middle).filter(|&item| item as usize % DEVICES == place);
    let inserted = own.filter(|_| random.random::<bool>()).collect();
    steps.insert(inserted, inserting).await.unwrap();
    seen.queued.push(steps.queued().await.unwrap());
    steps.undefer(undeferring).await.unwrap();
    let queued = steps.queued().await.unwrap();
    steps.process(queued.ready.len() as u32, undeferring).await.unwrap();
    seen.queued.extend([queued, steps.queued().await.unwrap()]);
    pack_all(&steps, &mut seen.packed).await;
    seen.statistics.push(steps.statistics().await.unwrap());
    (seen, downloaded(device, &touched).await)
}

#[test]
fn items_that_go_everywhere() {
    let [context, twin] = contexts();
    for seed in cases() {
        let seen = context.block_on(run_routes(&context, seed)).unwrap();
        let expected = twin.block_on(run_routes(&twin, seed)).unwrap();
        assert!(seen == expected, "MILLSTREAM_SEED={seed}:\n{seen:?}\n{expected:?}");
    }
}
