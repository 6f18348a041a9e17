//! Cases of full/empty segments for any context: early launch and proactive return in
//! every order of their parts, with contents checked.

use std::time::Duration;

use millstream_device::{Device, DeviceBuffer, Event, Stream, StreamKind};
use millstream_flow::{
    Action, Context, FullEmpty, FullEmptySegment, Guard, PacketShape, Result, Trigger,
};

use crate::full_empty_kernels::{
    COUNT, PULL_AGAIN, SCALE, SCALE_PULLED, TAKE_AGAIN, WRITE_TOGETHER,
};

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
        let full = Guard::new(Trigger::Full, Action::MarkEmpty);
        let fill = Guard::new(Trigger::Empty, Action::MarkFull);
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
            seen.wait_full(packet..packet + 1).await?;
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
    state.output.wait_full(1..packets).await?;
    assert!(!state.output.is_full(0)? && !ended.event().is_complete());
    assert!(state.input.next_epoch().is_err(), "the kernel is under way");
    let source = state.data.part(state.input.shape().range(0))?;
    state.input.fill_from(&state.copies[0], 0, source)?;
    state.output.wait_full(0..packets).await?;
    ended.completed().await?;
    Ok(())
}

/// Blocks fetch packets from the host's memory for each other, in an order that the host
/// chooses: the packets that they fetch are those of the host, or others. What is here they do not
/// fetch again.
pub async fn pulled(context: &Context, device: &Device, rounds: u32, seed: u64) -> Result<()> {
    pulled_from(context, device, PACKET, rounds.div_ceil(2), seed).await?;
    pulled_from(context, device, PACKET * 5 / 2, rounds.div_ceil(2), seed).await?;
    pulled_again(context, device).await
}

/// A block that waited for the source again would wait until its patience ends.
async fn pulled_again(context: &Context, device: &Device) -> Result<()> {
    let (group, shape) =
        (FullEmpty::new(context, Duration::from_secs(20))?, PacketShape::new(LEN, PACKET));
    let from = group.segment::<u32>(context.host(), shape.clone().read_by(device))?;
    let input = group.segment::<u32>(device, shape.clone().unseen_by_host())?;
    let output = group.segment::<u32>(context.host(), shape.clone())?;
    let (compute, packets) = (device.stream_of(StreamKind::Gang)?, shape.packets());
    let arguments = (&from, &input, &output);
    let ended = group.launch_early(&compute, &PULL_AGAIN, packets, arguments).await?;
    for packet in 0..packets {
        from.fill(packet, |to| {
            to.iter_mut().zip(shape.range(packet)).for_each(|(to, at)| *to = at as u32)
        })?;
    }
    output.wait_full(0..packets).await?;
    for packet in 0..packets {
        let expected = shape.range(packet).map(|at| at as u32);
        output.read(packet, |items| assert!(items.iter().copied().eq(expected), "{packet}"))?;
    }
    ended.completed().await
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
        output.wait_full(0..shape.packets()).await?;
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
        input.wait_empty(0..1).await?;
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
        output.wait_full(0..1).await?;
        let mut expected = [0u32; BINS];
        (0..LEN as u32).for_each(|at| expected[value(at) as usize % BINS] += 1);
        output.read(0, |counts| assert_eq!(counts, expected))?;
        ended.completed().await?;
        copy.completed()?.await?;
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
    for device in devices {
        SCALE.prepare(device, shape.packets())?;
    }
    let streams = Stream::of_gang(devices)?;
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
        last.wait_full(0..shape.packets()).await?;
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
