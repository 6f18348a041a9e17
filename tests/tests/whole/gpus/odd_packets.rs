//! Packets of any size: of a byte or two, of no multiple of a word, and of so many bytes that a
//! slot of a peer ring has fewer of them than a block has threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream::device::{Pod, Shared, Trusted, Zeroable};
use millstream::flow::Context;
use millstream::worklist::{
    CudaProgram, DistributedWorklist, Flags, Here, Program, Routing, View, problem,
};

use super::fused::delayed;
use super::{context, fused, scaled};

/// Items are reached from item 0; packets carry their item, and as often as they have room its
/// complement, which whoever receives them looks at.
const FLOOD: &str = r#"
#include "worklist.cuh"
using namespace millstream;
template <u32 halves>
struct Flood {
    struct Problem { Span<u32> reached; Span<u32> torn; };
    struct Arc { u32 target; };
    using State = u32;
    struct Packet { unsigned short words[halves]; };
    __device__ static bool reach(const Problem& problem, u32 item) {
        return compare_exchange_relaxed_gpu(&problem.reached[item], 0u, 1u) == 0;
    }
    __device__ static u32 unpack(const Problem&, const Here&, const Packet& packet) {
        return packet.words[0];
    }
    __device__ static Packet pack(const Problem&, const Here&, u32 item) {
        Packet packet;
        packet.words[0] = item;
        for (u32 at = 1; at < halves; ++at) packet.words[at] = ~item;
        return packet;
    }
    __device__ static bool is_own(const Here& here, u32 item) {
        return item % here.devices == here.device;
    }
    __device__ static Flags on_send(const Problem&, const Here& here, u32 item) {
        return is_own(here, item) ? Flags::keep : Flags::pass;
    }
    __device__ static Flags on_receive(const Problem& problem, const Here& here,
                                       const Packet& packet) {
        for (u32 at = 1; at < halves; ++at)
            if (packet.words[at] != (~packet.words[0] & 0xffff))
                fetch_add_relaxed_gpu(&problem.torn[0], 1u);
        if (!is_own(here, packet.words[0])) return Flags::pass;
        return reach(problem, packet.words[0]) ? Flags::keep : Flags::drop;
    }
    __device__ static u32 priority(const Problem&, u32) { return 0; }
    __device__ static u32 owner(const Problem& problem, u32 item) {
        return item % problem.torn[1];
    }
    __device__ static u32 begin(const Problem&, const Here&, u32 item, u64* first, u64* last) {
        *first = 2 * item;
        *last = 2 * item + 2;
        return 0;
    }
    __device__ static Arc arc(const Problem& problem, u64 at) {
        const u32 items = problem.reached.len;
        return {u32(at % 2 == 0 ? at / 2 * 3 + 1 : at / 2 + 7) % items};
    }
    __device__ static bool visit(const Problem& problem, const Here&, u32, const Arc& arc,
                                 u32* priority, u32*) {
        *priority = 0;
        return reach(problem, arc.target);
    }
};
"#;

problem! {
    struct FloodProblem, FloodView {
        reached: Shared<u32>,
        /// Words of packets that are not what was packed, and the number of devices.
        torn: Shared<u32>,
    }
}

/// So many half words.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct Packet<const HALVES: usize>([u16; HALVES]);

// SAFETY: plain numbers.
unsafe impl<const HALVES: usize> Zeroable for Packet<HALVES> {}
// SAFETY: plain numbers without padding.
unsafe impl<const HALVES: usize> Pod for Packet<HALVES> {}

/// With packets of so many half words.
#[derive(Debug)]
struct Flood<const HALVES: usize> {
    devices: usize,
}

fn arcs(item: u32, items: u32) -> [u32; 2] {
    [(item * 3 + 1) % items, (item + 7) % items]
}

impl<const HALVES: usize> Flood<HALVES> {
    fn is_own(&self, here: &Here, item: u32) -> bool {
        item as usize % self.devices == here.device
    }

    fn reach(view: &View<'_, Self>, item: u32) -> bool {
        view.reached[item as usize].swap(1, Ordering::Relaxed) == 0
    }
}

impl<const HALVES: usize> Program for Flood<HALVES> {
    type Packet = Packet<HALVES>;
    type Problem = FloodProblem;

    fn pack(&self, _: &View<'_, Self>, _: &Here, item: u32) -> Packet<HALVES> {
        let mut packet = [!(item as u16); HALVES];
        packet[0] = item as u16;
        Packet(packet)
    }

    fn unpack(&self, _: &View<'_, Self>, _: &Here, packet: &Packet<HALVES>) -> u32 {
        packet.0[0].into()
    }

    fn on_send(&self, _: &View<'_, Self>, here: &Here, item: u32) -> Flags {
        if self.is_own(here, item) { Flags::Keep } else { Flags::Pass }
    }

    fn on_receive(&self, view: &View<'_, Self>, here: &Here, packet: &Packet<HALVES>) -> Flags {
        let packet = &packet.0;
        let torn = packet[1..].iter().filter(|&&word| word != !packet[0]).count();
        view.torn[0].fetch_add(torn as u32, Ordering::Relaxed);
        match self.is_own(here, packet[0].into()) {
            false => Flags::Pass,
            true if Self::reach(view, packet[0].into()) => Flags::Keep,
            true => Flags::Drop,
        }
    }

    fn owner(&self, item: u32) -> Option<usize> {
        Some(item as usize % self.devices)
    }

    fn process(
        &self,
        view: &View<'_, Self>,
        _: &Here,
        item: u32,
        emit: &mut impl FnMut(u32),
        _: &mut u64,
    ) {
        let reached = arcs(item, view.reached.len() as u32);
        reached.into_iter().filter(|&target| Self::reach(view, target)).for_each(emit);
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        let class = match HALVES {
            1 => "Flood<1>",
            3 => "Flood<3>",
            _ => "Flood<100>",
        };
        // SAFETY: as the twins.
        Some(unsafe {
            Trusted::new(CudaProgram { file: "flood.cuh", text: FLOOD, class, structs: &[] })
        })
    }
}

fn floods<const HALVES: usize>(context: &Context) {
    let devices = context.devices();
    let items = scaled(50_000, 250) as u32;
    let mut expected = vec![0; items as usize];
    let mut left = vec![0];
    while let Some(item) = left.pop() {
        if std::mem::replace(&mut expected[item as usize], 1) == 0 {
            left.extend(arcs(item, items));
        }
    }
    for routing in [Routing::Direct, Routing::Ring] {
        let reached = context.block_on(async {
            let (mut problems, mut all) = (Vec::new(), vec![0; items as usize]);
            for (place, device) in devices.iter().enumerate() {
                let stream = device.stream().unwrap();
                let problem = FloodProblem {
                    reached: device.shared(items as usize).unwrap(),
                    torn: device.shared(2).unwrap(),
                };
                if place == 0 {
                    stream.upload_shared(vec![1], &problem.reached, 0..1).unwrap();
                }
                let count = vec![devices.len() as u32];
                stream.upload_shared(count, &problem.torn, 1..2).unwrap();
                stream.completed().unwrap().await.unwrap();
                problems.push(Arc::new(problem));
            }
            let program = Arc::new(Flood::<HALVES> { devices: devices.len() });
            let worklist =
                DistributedWorklist::new(context, program, problems.clone(), items as usize);
            let worklist = worklist.worker(fused(context)).routing(routing);
            let statistics = worklist.run(&[(0, 0)]).await.unwrap();
            for (place, (device, problem)) in devices.iter().zip(&problems).enumerate() {
                let stream = device.stream().unwrap();
                let torn = stream.download_shared(&problem.torn, 0..1).unwrap().await.unwrap();
                assert_eq!(torn[0], 0, "{HALVES}, {routing:?}, {device}");
                let words = 0..items as usize;
                let words = stream.download_shared(&problem.reached, words).unwrap().await.unwrap();
                let own = words.iter().enumerate().skip(place).step_by(devices.len());
                own.for_each(|(item, &word)| all[item] = word);
            }
            let items = expected.iter().copied().map(u64::from).sum::<u64>();
            assert_eq!(statistics.work_items(), items, "{HALVES}, {routing:?}");
            all
        });
        assert!(reached.unwrap() == expected, "{HALVES}, {routing:?}");
    }
}

#[test]
fn packets_of_odd_sizes() {
    // As they are, and where packets stay in inboxes for a while, which lie side by side.
    for context in [context(), delayed(1)] {
        floods::<1>(&context);
        floods::<3>(&context);
    }
    floods::<100>(&context());
}
