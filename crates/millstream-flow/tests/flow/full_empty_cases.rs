//! Cases of full/empty segments for any context: early launch and proactive return in
//! every order of their parts, with contents checked.

use std::sync::atomic::Ordering;
use std::time::Duration;

use millstream_device::{
    CudaSource, Device, DeviceBuffer, Event, Kernel, Shared, Step, Stream, StreamKind, Trusted,
    Value,
};
use millstream_flow::{
    Action, Context, FullEmpty, FullEmptyPackets, FullEmptySegment, Guard, PacketShape, Result,
    Trigger,
};

const SOURCE: &str = r#"
#include "full_empty.cuh"
using namespace millstream;

extern "C" __global__ void scale_packets(FullEmptySegment<u32> input,
                                         FullEmptySegment<u32> output, u32 factor) {
    for (u32 packet = blockIdx.x; packet < output.packets(); packet += gridDim.x) {
        if (!input.wait_full(packet)) return;
        for (u64 at = input.begin(packet) + threadIdx.x; at < input.end(packet); at += blockDim.x)
            output.items[at] = input.items[at] * factor;
        output.publish(packet);
    }
}

// Packets come from the host's memory once, and are read by other blocks than those
// that fetch them.
extern "C" __global__ void scale_pulled(FullEmptySegment<u32> from, FullEmptySegment<u32> input,
                                        FullEmptySegment<u32> output, u32 factor) {
    const u32 packets = output.packets();
    for (u32 packet = blockIdx.x; packet < packets; packet += gridDim.x)
        if (!input.pull(from, packet)) return;
    for (u32 packet = blockIdx.x; packet < packets; packet += gridDim.x) {
        if (!input.wait_full(0, packets)) return;
        for (u64 at = output.begin(packet) + threadIdx.x; at < output.end(packet); at += blockDim.x)
            output.items[at] = input.items[input.items.len - 1 - at] * factor;
        output.publish(packet);
    }
}

// Each block counts one packet of the input; the last writes the one packet of the
// output.
extern "C" __global__ void count_packets(FullEmptySegment<u32> input,
                                         FullEmptySegment<u32> output, Span<u32> counts) {
    for (u32 packet = blockIdx.x; packet < input.packets(); packet += gridDim.x) {
        if (!input.wait_full(packet)) return;
        for (u64 at = input.begin(packet) + threadIdx.x; at < input.end(packet); at += blockDim.x)
            fetch_add_relaxed_gpu(&counts[input.items[at] % counts.len], 1u);
        if (!output.arrive(0)) continue;
        for (u64 at = threadIdx.x; at < counts.len; at += blockDim.x)
            output.items[at] = fetch_exchange_relaxed_gpu(&counts[at], 0u);
        __syncthreads();
        if (threadIdx.x == 0) output.fill(0);
    }
}

// Each block writes an item of the first packet.
extern "C" __global__ void write_together(FullEmptySegment<u32> output, u32 value) {
    if (threadIdx.x == 0) output.items[blockIdx.x] = value;
    output.publish(0);
}

// Takes the first packet again and again, and says what was in it.
extern "C" __global__ void take_again(FullEmptySegment<u32> input, Span<u32> sums, u32 turns) {
    for (u32 turn = 0; turn < turns; ++turn) {
        if (!input.wait_full(0)) return;
        for (u64 at = threadIdx.x; at < input.end(0); at += blockDim.x)
            fetch_add_relaxed_gpu(&sums[turn], input.items[at]);
        input.empty(0);
    }
}
"#;

/// The kernels' source, for tests that compile it.
#[allow(dead_code)]
pub fn packets_source() -> CudaSource {
    CudaSource::new("packets.cu", "scale_packets", SOURCE)
}

type Packets = FullEmptyPackets<u32>;

/// Multiplies each packet as it comes.
pub static SCALE: Kernel<(Packets, Packets, Value<u32>)> = Kernel::of_steps(
    "scale_packets",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("packets.cu", "scale_packets", SOURCE).block_each()) },
    |packet, (input, output, factor)| {
        let Some(items) = input.items(packet)? else { return Ok(Step::Waits) };
        let scaled = items.iter().map(|item| item.wrapping_mul(*factor));
        let write = |to: &mut [u32]| to.iter_mut().zip(scaled).for_each(|(to, item)| *to = item);
        if output.write(packet, write).is_none() {
            return Ok(Step::Waits);
        }
        output.publish(packet);
        Ok(Step::Done)
    },
);

/// Multiplies all items, in reverse order, each packet fetched by one block.
static SCALE_PULLED: Kernel<(Packets, Packets, Packets, Value<u32>)> = Kernel::of_steps(
    "scale_pulled",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("packets.cu", "scale_pulled", SOURCE).block_each()) },
    |packet, (from, input, output, factor)| {
        if !input.pull(from, packet)? {
            return Ok(Step::Waits);
        }
        let mut items = Vec::new();
        for packet in 0..input.packets() {
            let Some(more) = input.items(packet)? else { return Ok(Step::Waits) };
            items.extend(more);
        }
        let range =
            items.len() - output.range(packet).end..items.len() - output.range(packet).start;
        let scaled = items[range].iter().rev().map(|item| item.wrapping_mul(*factor));
        let write = |to: &mut [u32]| to.iter_mut().zip(scaled).for_each(|(to, item)| *to = item);
        if output.write(packet, write).is_none() {
            return Ok(Step::Waits);
        }
        output.publish(packet);
        Ok(Step::Done)
    },
);

/// Takes the first packet again and again. The last word counts turns, for twins.
static TAKE_AGAIN: Kernel<(Packets, Shared<u32>, Value<u32>)> = Kernel::of_steps(
    "take_again",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("packets.cu", "take_again", SOURCE).block_each()) },
    |_, (input, sums, turns)| {
        let [sums @ .., done] = &sums[..] else { return Ok(Step::Done) };
        loop {
            let turn = done.load(Ordering::Relaxed);
            if turn == *turns {
                return Ok(Step::Done);
            }
            let Some(items) = input.items(0)? else { return Ok(Step::Waits) };
            sums[turn as usize].store(items.iter().sum(), Ordering::Relaxed);
            done.store(turn + 1, Ordering::Relaxed);
            input.empty(0);
        }
    },
);

/// Counts what all packets hold.
static COUNT: Kernel<(Packets, Packets, Shared<u32>)> = Kernel::of_steps(
    "count_packets",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("packets.cu", "count_packets", SOURCE).block_each()) },
    |packet, (input, output, counts)| {
        use std::sync::atomic::Ordering;
        let Some(items) = input.items(packet)? else { return Ok(Step::Waits) };
        for item in items {
            counts[item as usize % counts.len()].fetch_add(1, Ordering::Relaxed);
        }
        if output.arrive(0) {
            let total = |to: &mut [u32]| {
                let totals = to.iter_mut().zip(*counts);
                totals.for_each(|(to, count)| *to = count.swap(0, Ordering::Relaxed));
            };
            // Nobody else is at it: all others have arrived, and nobody reads it yet.
            output.write(0, total).ok_or_else(|| {
                millstream_device::KernelFault::new("somebody uses a packet that is empty")
            })?;
            output.fill(0);
        }
        Ok(Step::Done)
    },
);

/// Writes an item of the first packet in each block.
static WRITE_TOGETHER: Kernel<(Packets, Value<u32>)> = Kernel::of_steps(
    "write_together",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("packets.cu", "write_together", SOURCE).block_each()) },
    |block, (output, value)| {
        if output.write(0, |items| items[block] = *value).is_none() {
            return Ok(Step::Waits);
        }
        output.publish(0);
        Ok(Step::Done)
    },
);

/// Numbers that look random, from a seed.
pub struct Numbers(pub u64);

impl Numbers {
    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 31)
    }

    /// `items` in another order.
    pub fn shuffled<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for last in (1..items.len()).rev() {
            items.swap(last, self.next() as usize % (last + 1));
        }
        items
    }
}

/// Segments and streams of many rounds of one kernel.
struct Rounds {
    group: FullEmpty,
    data: DeviceBuffer<u32>,
    input: FullEmptySegment<u32>,
    /// In the device's memory, returned by copies, or in the host's.
    output: FullEmptySegment<u32>,
    results: Option<FullEmptySegment<u32>>,
    compute: Stream,
    copies: [Stream; 2],
    back: Stream,
}

/// Parts of a round, in any order.
#[derive(Clone, Copy)]
enum Part {
    Launch,
    Fill,
    Return,
}

const LEN: usize = 1000;
const PACKET: usize = 130;

impl Rounds {
    fn new(context: &Context, device: &Device, returns_by_copy: bool) -> Result<Rounds> {
        let group = FullEmpty::new(context, Duration::from_secs(20))?;
        let shape = PacketShape::new(LEN, PACKET);
        let on = if returns_by_copy { device } else { context.host() };
        let results = match returns_by_copy {
            true => Some(group.segment(context.host(), shape.clone())?),
            false => None,
        };
        SCALE.prepare(device, shape.packets())?;
        Ok(Rounds {
            data: context.host().buffer(LEN)?,
            input: group.segment(device, shape.clone())?,
            output: group.segment(on, shape)?,
            results,
            group,
            compute: device.stream_of(StreamKind::Gang)?,
            copies: [device.stream_of(StreamKind::Copy)?, device.stream_of(StreamKind::Copy)?],
            back: device.stream_of(StreamKind::Copy)?,
        })
    }

    fn fill(&self, numbers: &mut Numbers) -> Result<()> {
        let shape = self.input.shape();
        for packet in numbers.shuffled((0..shape.packets()).collect()) {
            if numbers.next().is_multiple_of(16) {
                std::thread::sleep(Duration::from_micros(numbers.next() % 100));
            }
            let source = self.data.part(shape.range(packet))?;
            self.input.fill_from(&self.copies[numbers.next() as usize % 2], packet, source)?;
        }
        Ok(())
    }

    fn give_back(&self, numbers: &mut Numbers) -> Result<Vec<Event>> {
        let Some(results) = &self.results else { return Ok(Vec::new()) };
        let packets = numbers.shuffled((0..results.shape().packets()).collect());
        let full = Guard::new(Trigger::Full, Action::Empty);
        let fill = Guard::new(Trigger::Empty, Action::Fill);
        let copy = |packet| self.output.copy(&self.back, packet, full, (results, packet, fill));
        packets.into_iter().map(copy).collect()
    }

    async fn round(&mut self, round: u32, numbers: &mut Numbers) -> Result<()> {
        let items = self.data.host_view_mut()?;
        items.iter_mut().zip(0..).for_each(|(item, at)| *item = at ^ (round << 12));
        let mut events = Vec::new();
        for part in numbers.shuffled(vec![Part::Launch, Part::Fill, Part::Return]) {
            match part {
                Part::Launch => {
                    let packets = self.output.shape().packets();
                    let arguments = (&self.input, &self.output, round);
                    let launched =
                        self.group.launch_early(&self.compute, &SCALE, packets, arguments);
                    events.push(launched.await?.event().clone());
                }
                Part::Fill => self.fill(numbers)?,
                Part::Return => events.extend(self.give_back(numbers)?),
            }
        }
        let seen = self.results.as_ref().unwrap_or(&self.output);
        for packet in numbers.shuffled((0..seen.shape().packets()).collect()) {
            seen.full(packet..packet + 1).await?;
            let range = seen.shape().range(packet);
            seen.read(packet, |items| {
                let expected = range.map(|at| (at as u32 ^ (round << 12)).wrapping_mul(round));
                assert!(items.iter().copied().eq(expected), "packet {packet}, round {round}");
            })?;
        }
        self.end(events).await
    }

    /// Waits for everything, and makes all packets empty.
    async fn end(&mut self, mut events: Vec<Event>) -> Result<()> {
        for stream in self.copies.iter().chain([&self.back]) {
            events.push(stream.record()?);
        }
        for event in events {
            event.completed().await?;
        }
        self.input.next_epoch()?;
        self.output.next_epoch()?;
        self.results.as_mut().map_or(Ok(()), FullEmptySegment::next_epoch)
    }
}

/// Early launch, filling, and proactive return in all orders of their parts, many
/// times with the same memory.
pub async fn rounds(context: &Context, device: &Device, rounds: u32, seed: u64) -> Result<()> {
    let mut numbers = Numbers(seed);
    for returns_by_copy in [true, false] {
        let mut state = Rounds::new(context, device, returns_by_copy)?;
        for round in 1..=rounds {
            state.round(round, &mut numbers).await?;
        }
    }
    Ok(())
}

/// Packets that are there are worked on while one is withheld.
pub async fn withheld(context: &Context, device: &Device) -> Result<()> {
    let mut state = Rounds::new(context, device, false)?;
    state.data.host_view_mut()?.fill(3);
    let (packets, arguments) = (state.output.shape().packets(), (&state.input, &state.output, 5));
    let ended = state.group.launch_early(&state.compute, &SCALE, packets, arguments).await?;
    for packet in 1..packets {
        let source = state.data.part(state.input.shape().range(packet))?;
        state.input.fill_from(&state.copies[0], packet, source)?;
    }
    state.output.full(1..packets).await?;
    assert!(!state.output.is_full(0)? && !ended.event().is_complete());
    assert!(state.input.next_epoch().is_err(), "the kernel is under way");
    let source = state.data.part(state.input.shape().range(0))?;
    state.input.fill_from(&state.copies[0], 0, source)?;
    state.output.full(0..packets).await?;
    ended.completed().await?;
    Ok(())
}

/// Blocks fetch packets from the host's memory for each other, in an order that the host
/// chooses: the packets that they fetch are those of the host, or others.
pub async fn pulled(context: &Context, device: &Device, rounds: u32, seed: u64) -> Result<()> {
    pulled_from(context, device, PACKET, rounds.div_ceil(2), seed).await?;
    pulled_from(context, device, PACKET * 5 / 2, rounds.div_ceil(2), seed).await
}

async fn pulled_from(
    context: &Context,
    device: &Device,
    packet: usize,
    rounds: u32,
    seed: u64,
) -> Result<()> {
    let (group, mut numbers) = (FullEmpty::new(context, Duration::from_secs(20))?, Numbers(seed));
    let shape = PacketShape::new(LEN, PACKET);
    let whole = PacketShape::new(LEN, packet).read_by(device).unseen_by_host();
    let mut from = group.segment::<u32>(context.host(), whole.clone())?;
    let mut input = group.segment::<u32>(device, shape.clone().unseen_by_host())?;
    let mut output = group.segment::<u32>(context.host(), shape.clone())?;
    let compute = device.stream_of(StreamKind::Gang)?;
    for round in 1..=rounds {
        let arguments = (&from, &input, &output, round);
        let ended = group.launch_early(&compute, &SCALE_PULLED, shape.packets(), arguments).await?;
        for packet in numbers.shuffled((0..whole.packets()).collect()) {
            let items = whole.range(packet).map(|at| at as u32 ^ (round << 12));
            from.fill(packet, |to| to.iter_mut().zip(items).for_each(|(to, item)| *to = item))?;
        }
        output.full(0..shape.packets()).await?;
        for packet in 0..shape.packets() {
            let items = shape.range(packet).map(|at| (LEN - 1 - at) as u32 ^ (round << 12));
            let expected = items.map(|item| item.wrapping_mul(round));
            output.read(packet, |items| assert!(items.iter().copied().eq(expected), "{packet}"))?;
        }
        ended.completed().await?;
        [&mut from, &mut input, &mut output]
            .into_iter()
            .try_for_each(|segment| segment.next_epoch())?;
    }
    Ok(())
}

/// A packet of the host's memory is emptied and filled again many times in one epoch, each
/// time after a pause: the kernel's patience is for each of its waits.
pub async fn refilled(
    context: &Context,
    device: &Device,
    turns: u32,
    [pause, patience]: [Duration; 2],
) -> Result<()> {
    let group = FullEmpty::new(context, patience)?;
    let input = group.segment(context.host(), PacketShape::new(PACKET, PACKET).read_by(device))?;
    let sums = device.shared::<u32>(turns as usize + 1)?;
    let compute = device.stream_of(StreamKind::Gang)?;
    let ended = group.launch_early(&compute, &TAKE_AGAIN, 1, (&input, &sums, turns)).await?;
    for turn in 0..turns {
        std::thread::sleep(pause);
        input.fill(0, |items| items.fill(turn))?;
        input.empty(0..1).await?;
    }
    ended.completed().await?;
    let sums = compute.download_shared(&sums, 0..turns as usize)?.await?;
    assert!(sums.into_iter().eq((0..turns).map(|turn| turn * PACKET as u32)));
    Ok(())
}

/// Many blocks write one packet, which is never seen before the last is done.
pub async fn counted(context: &Context, device: &Device, rounds: u32) -> Result<()> {
    const BINS: usize = 64;
    let group = FullEmpty::new(context, Duration::from_secs(20))?;
    let shape = PacketShape::new(LEN, PACKET);
    let writers = shape.packets();
    let mut input = group.segment::<u32>(device, shape.clone())?;
    let whole = PacketShape::new(BINS, BINS).written_by(device, writers);
    let mut output = group.segment::<u32>(context.host(), whole)?;
    let counts = device.shared::<u32>(BINS)?;
    let mut data = context.host().buffer::<u32>(LEN)?;
    let (compute, copy) =
        (device.stream_of(StreamKind::Gang)?, device.stream_of(StreamKind::Copy)?);
    for round in 1..=rounds {
        let value = |at: u32| at.wrapping_mul(round).wrapping_mul(2_654_435_761) >> 20;
        data.host_view_mut()?.iter_mut().zip(0..).for_each(|(item, at)| *item = value(at));
        let arguments = (&input, &output, &counts);
        let ended = group.launch_early(&compute, &COUNT, writers, arguments).await?;
        for packet in 0..writers {
            assert!(!output.is_full(0)?);
            input.fill_from(&copy, packet, data.part(shape.range(packet))?)?;
        }
        output.full(0..1).await?;
        let mut expected = [0u32; BINS];
        (0..LEN as u32).for_each(|at| expected[value(at) as usize % BINS] += 1);
        output.read(0, |counts| assert_eq!(counts, expected))?;
        ended.completed().await?;
        copy.record()?.completed().await?;
        input.next_epoch()?;
        output.next_epoch()?;
    }
    Ok(())
}

/// In every other epoch fewer blocks come than write a packet together: in the next it is full when
/// all have come, and not before.
pub async fn deserted(context: &Context, device: &Device, rounds: u32) -> Result<()> {
    const WRITERS: usize = 3;
    let group = FullEmpty::new(context, Duration::from_secs(20))?;
    let shape = PacketShape::new(WRITERS, WRITERS).written_by(device, WRITERS);
    let mut output = group.segment::<u32>(context.host(), shape)?;
    let compute = device.stream_of(StreamKind::Gang)?;
    for round in 1..=rounds {
        for blocks in [vec![2], vec![1, WRITERS - 1]] {
            let (mut come, all) = (0, blocks.iter().sum::<usize>());
            for blocks in blocks {
                assert!(!output.is_full(0)?, "{come} of {WRITERS} writers have come");
                let arguments = (&output, round);
                group
                    .launch_early(&compute, &WRITE_TOGETHER, blocks, arguments)
                    .await?
                    .completed()
                    .await?;
                come += blocks;
            }
            assert_eq!(output.is_full(0)?, all == WRITERS, "{all} of {WRITERS} writers");
            output.next_epoch()?;
        }
    }
    Ok(())
}

/// Packets go through the kernels of all devices, each launched before there is
/// anything, and each filling packets in the memory of the next.
pub async fn chain(context: &Context, rounds: u32) -> Result<()> {
    let devices = context.devices();
    let group = FullEmpty::new(context, Duration::from_secs(20))?;
    let shape = PacketShape::new(LEN, PACKET);
    let places = devices.iter().chain([context.host()]);
    let segments = places.map(|device| group.segment::<u32>(device, shape.clone()));
    let mut segments = segments.collect::<Result<Vec<_>>>()?;
    let mut streams = Vec::new();
    for device in devices {
        SCALE.prepare(device, shape.packets())?;
        streams.push(device.stream_of(StreamKind::Gang)?);
    }
    let copy = devices[0].stream_of(StreamKind::Copy)?;
    let mut data = context.host().buffer::<u32>(LEN)?;
    for round in 1..=rounds {
        data.host_view_mut()?.iter_mut().zip(round..).for_each(|(item, at)| *item = at);
        let mut events = Vec::new();
        // The last first: nobody waits for one that is not launched.
        for (place, stream) in streams.iter().enumerate().rev() {
            let arguments = (&segments[place], &segments[place + 1], 3);
            let launched = group.launch_early(stream, &SCALE, shape.packets(), arguments);
            events.push(launched.await?.event().clone());
        }
        for packet in 0..shape.packets() {
            segments[0].fill_from(&copy, packet, data.part(shape.range(packet))?)?;
        }
        let last = &segments[devices.len()];
        last.full(0..shape.packets()).await?;
        let factor = 3u32.pow(devices.len() as u32);
        for packet in 0..shape.packets() {
            let expected = shape.range(packet).map(|at| (at as u32 + round).wrapping_mul(factor));
            last.read(packet, |items| assert!(items.iter().copied().eq(expected), "{packet}"))?;
        }
        events.push(copy.record()?);
        for event in events {
            event.completed().await?;
        }
        segments.iter_mut().try_for_each(FullEmptySegment::next_epoch)?;
    }
    Ok(())
}
