//! An item of the fused worker traps: the error says where every device's counters stood.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::device::{Shared, Trusted};
use millstream::flow::Gang;
use millstream::worklist::{
    CudaProgram, DistributedWorklist, Error, Flags, Here, Program, Routing, View, Worker, problem,
};

use super::super::child::in_child;
use super::super::{Needs, scaled, skip};
use super::{Context, Device, LIMIT, builder};

/// Items before the last one, which traps.
const ITEMS: u32 = 40;
/// Of the run; nobody should need it.
const PATIENCE: Duration = Duration::from_secs(30);

/// The first item emits all others, which are the first device's but for the last.
const TRAPS: &str = r#"
#include "gang.cuh"
#include "worklist.cuh"
using namespace millstream;
struct Traps {
    // Milliseconds after which the last item traps, and its owner.
    struct Problem { Span<u32> settings; };
    struct Arc { u32 target; };
    using State = u32;
    using Packet = u32;
    static constexpr u32 last_item = 40;
    __device__ static u32 unpack(const Problem&, const Here&, u32 packet) { return packet; }
    __device__ static u32 pack(const Problem&, const Here&, u32 item) { return item; }
    __device__ static Flags on_send(const Problem& problem, const Here& here, u32 item) {
        return owner(problem, item) == here.device ? Flags::keep : Flags::pass;
    }
    __device__ static Flags on_receive(const Problem& problem, const Here& here, u32 item) {
        return on_send(problem, here, item);
    }
    __device__ static u32 priority(const Problem&, u32) { return 0; }
    __device__ static u32 owner(const Problem& problem, u32 item) {
        return item == last_item ? problem.settings[1] : 0;
    }
    __device__ static u32 begin(const Problem& problem, const Here&, u32 item, u64* first,
                                u64* last) {
        *first = *last = 1;
        if (item == 0) *last = last_item + 1;
        if (item != last_item) return 0;
        // The others have told the host of all that they have done by then.
        const u64 start = nanoseconds();
        while (nanoseconds() - start < problem.settings[0] * 1000000ull) __nanosleep(10000);
        asm volatile("trap;");
        return 0;
    }
    __device__ static Arc arc(const Problem&, u64 at) { return {u32(at)}; }
    __device__ static bool visit(const Problem&, const Here&, u32, const Arc&, u32*, u32*) {
        return true;
    }
};
"#;

problem! {
    struct TrapsProblem, TrapsView {
        settings: Shared<u32>,
    }
}

#[derive(Debug)]
struct Traps {
    culprit: usize,
}

impl Program for Traps {
    type Packet = u32;
    type Problem = TrapsProblem;

    fn pack(&self, _: &View<'_, Self>, _: &Here, item: u32) -> u32 {
        item
    }

    fn unpack(&self, _: &View<'_, Self>, _: &Here, packet: &u32) -> u32 {
        *packet
    }

    fn on_send(&self, _: &View<'_, Self>, here: &Here, item: u32) -> Flags {
        if self.owner(item) == Some(here.device) { Flags::Keep } else { Flags::Pass }
    }

    fn on_receive(&self, view: &View<'_, Self>, here: &Here, packet: &u32) -> Flags {
        self.on_send(view, here, *packet)
    }

    fn owner(&self, item: u32) -> Option<usize> {
        Some(if item == ITEMS { self.culprit } else { 0 })
    }

    /// The case is for GPUs alone.
    fn process(&self, _: &View<'_, Self>, _: &Here, _: u32, _: &mut impl FnMut(u32), _: &mut u64) {}

    fn cuda() -> Option<Trusted<CudaProgram>> {
        let program = CudaProgram { file: "traps.cuh", text: TRAPS, class: "Traps", structs: &[] };
        // SAFETY: it uses no memory but its problem's.
        Some(unsafe { Trusted::new(program) })
    }
}

/// What a run comes to whose last item, on the last device, traps after so many milliseconds.
fn run(context: &Context, routing: Routing, milliseconds: u32) -> Error {
    let culprit = context.devices().len() - 1;
    let problem = |device: &Device| {
        let settings = device.shared(2).unwrap();
        let stream = device.stream().unwrap();
        stream.upload_shared(vec![milliseconds, culprit as u32], &settings, 0..2).unwrap();
        context.block_on(stream.record().unwrap().completed()).unwrap().unwrap();
        Arc::new(TrapsProblem { settings })
    };
    let problems = context.devices().iter().map(problem).collect();
    let items = ITEMS as usize + 1;
    let worklist = DistributedWorklist::new(context, Arc::new(Traps { culprit }), problems, items);
    let worklist = worklist.worker(Worker::Fused).routing(routing).patience(PATIENCE);
    context.block_on(async { worklist.run(&[(0, 0)]).await }).unwrap().unwrap_err()
}

/// The part of an error's text that says where a device stands.
fn part_of<'a>(counters: &'a str, device: &Device) -> &'a str {
    let name = format!("; {device}: ");
    let from = counters.find(&name).unwrap_or_else(|| panic!("{device}: {counters}"));
    counters[from + name.len()..].split("; cuda:").next().unwrap()
}

/// The number before a word.
fn number_before(part: &str, word: &str) -> u64 {
    let before = part.split(word).next().unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

fn says_where_counters_stood(routing: Routing) {
    let context = builder().build().unwrap();
    if !Gang::is_possible(&context) {
        return skip(Needs::Peers, "these devices have no fused worker");
    }
    if context.devices().len() == 1 {
        return skip(Needs::Several, "the warp that traps has not told what else it has done");
    }
    let start = Instant::now();
    let error = run(&context, routing, scaled(100, 20));
    println!("{error}, after {:?}", start.elapsed());
    assert!(start.elapsed() < PATIENCE, "{error}");
    let Error::Fused { cause, counters } = error else { panic!("no counters: {error}") };
    assert!(cause.to_string().contains("CUDA_ERROR_"), "{cause}");
    let others = context.devices().len() - 1;
    let is_ring = routing == Routing::Ring;
    let outboxes = if is_ring { 1 } else { others };
    let (mut left, mut packets) = (0, 0);
    for (place, device) in context.devices().iter().enumerate() {
        let part = part_of(&counters, device);
        // The last item has not ended where it traps; all before it have.
        let done = if place == 0 { ITEMS.into() } else { 0 };
        assert_eq!(number_before(part, " work items"), done, "{device}: {part}");
        for said in [", threshold 4294967295, ", " ready, ", " deferred"] {
            assert!(part.contains(said), "{said}, {device}: {part}");
        }
        // Not known, which is not 0.
        assert!(!part.contains(" received"), "{device}: {part}");
        left += number_before(part, " produced").cast_signed();
        left -= number_before(part, " consumed").cast_signed();
        assert_eq!(part.matches(", outbox ").count(), outboxes, "{device}: {part}");
        packets += part.matches("; 1 packets sent, 1 taken").count();
    }
    assert_eq!(left, 1, "the item that traps, {counters}");
    // It has gone to the last device in a packet of its own.
    assert_eq!(packets, if is_ring { others } else { 1 }, "{counters}");
}

#[test]
fn a_fused_item() {
    let case = concat!(module_path!(), "::a_fused_item");
    in_child(case, LIMIT, || says_where_counters_stood(Routing::Direct));
}

#[test]
fn a_fused_item_that_came_round_the_ring() {
    let case = concat!(module_path!(), "::a_fused_item_that_came_round_the_ring");
    in_child(case, LIMIT, || says_where_counters_stood(Routing::Ring));
}
