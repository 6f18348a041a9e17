//! Cases of full/empty segments for any context: copies with triggers and actions, packets that
//! come from another device, streams that wait for packets.

use std::time::Duration;

use millstream_device::{Device, EventStatus, Stream, StreamKind};
use millstream_flow::{
    Action, Context, Error, FullEmpty, FullEmptySegment, Guard, PacketShape, Result, Trigger,
};

use crate::full_empty_cases::Numbers;
use crate::full_empty_kernels::{SCALE, TAKE_AGAIN};

const PATIENCE: Duration = Duration::from_secs(20);

/// Every trigger with every action, at the source and at the destination, from full
/// and from empty: when the copy goes, and what it leaves.
pub async fn triggers_and_actions(context: &Context, device: &Device) -> Result<()> {
    let stream = device.stream_of(StreamKind::Copy)?;
    for trigger in [Trigger::None, Trigger::Full, Trigger::Empty] {
        for action in [Action::None, Action::MarkFull, Action::MarkEmpty] {
            for begins_full in [false, true] {
                for at_source in [false, true] {
                    let guard = Guard::new(trigger, action);
                    one_copy(context, &stream, guard, begins_full, at_source).await?;
                }
            }
        }
    }
    Ok(())
}

async fn one_copy(
    context: &Context,
    stream: &Stream,
    guard: Guard,
    begins_full: bool,
    at_source: bool,
) -> Result<()> {
    let group = FullEmpty::new(context, PATIENCE)?;
    let source = group.segment::<u32>(context.host(), PacketShape::new(10, 5))?;
    let destination = group.segment::<u32>(context.host(), PacketShape::new(10, 5))?;
    let guarded = if at_source { &source } else { &destination };
    let (here, there) =
        if at_source { (guard, Guard::default()) } else { (Guard::default(), guard) };
    source.fill(1, |items| items.fill(9))?;
    set(stream, &source, 1, begins_full && at_source).await?;
    set(stream, &destination, 0, begins_full && !at_source).await?;
    let packet = usize::from(at_source);
    let copied = source.copy(stream, 1, here, (&destination, 0, there))?;
    let waits = guard.trigger == Trigger::Full && !begins_full
        || guard.trigger == Trigger::Empty && begins_full;
    if waits {
        assert_eq!(copied.status(), EventStatus::Pending, "{guard:?}");
        set(stream, guarded, packet, !begins_full).await?;
    }
    copied.completed().await?;
    let expected = match guard.action {
        Action::None => begins_full != waits,
        Action::MarkFull => true,
        Action::MarkEmpty => false,
    };
    assert_eq!(guarded.is_full(packet)?, expected, "{guard:?} {begins_full} {at_source}");
    destination.fill(1, |_| ())?;
    set(stream, &destination, 0, true).await?;
    destination.read(0, |items| assert_eq!(items, [9; 5]))
}

/// Makes a packet of the host's memory full or empty.
pub async fn set(
    stream: &Stream,
    segment: &FullEmptySegment<u32>,
    packet: usize,
    full: bool,
) -> Result<()> {
    if full {
        return segment.fill(packet, |_| ());
    }
    segment.mark_empty(stream, packet)?;
    Ok(stream.completed()?.await?)
}

/// Packets of the host's memory are emptied by a stream, and filled again in the same epoch: kernels
/// wait for the next fill.
pub async fn emptied(context: &Context, device: &Device, rounds: u32) -> Result<()> {
    let (group, shape) = (FullEmpty::new(context, PATIENCE)?, PacketShape::new(10, 5));
    let input = group.segment::<u32>(context.host(), shape.clone().read_by(device))?;
    let elsewhere = group.segment::<u32>(context.host(), shape.clone())?;
    let mut output = group.segment::<u32>(context.host(), shape.clone())?;
    let [compute, copy] = [StreamKind::Gang, StreamKind::Copy].map(|kind| device.stream_of(kind));
    let (compute, copy) = (compute?, copy?);
    for round in 1..=rounds {
        let arguments = (&input, &output, 1);
        let ended = group.launch_early(&compute, &SCALE, shape.packets(), arguments).await?;
        std::thread::sleep(Duration::from_millis(20));
        for packet in 0..shape.packets() {
            input.fill(packet, |items| items.fill(round))?;
        }
        ended.completed().await?;
        for packet in 0..shape.packets() {
            output.read(packet, |items| assert_eq!(items, [round; 5], "packet {packet}"))?;
            if round % 2 == 0 {
                set(&copy, &input, packet, false).await?;
                continue;
            }
            let guard = Guard::new(Trigger::Full, Action::MarkEmpty);
            let to = (&elsewhere, packet, Guard::default());
            input.copy(&copy, packet, guard, to)?.completed().await?;
        }
        output.next_epoch()?;
    }
    Ok(())
}

/// Many copies wait for one packet at once, each on a stream of its own or all on one: first for one
/// that is empty, which a kernel empties again and again, then for one that is full, which the host
/// fills again and again. Each has it by itself, and none is lost.
pub async fn queued(context: &Context, device: &Device, copies: u32, streams: usize) -> Result<()> {
    let group = FullEmpty::new(context, PATIENCE)?;
    let one = PacketShape::new(PACKET, PACKET);
    let many = PacketShape::new(PACKET * copies as usize, PACKET);
    let kinds = (0..streams).map(|_| device.stream_of(StreamKind::Copy));
    let lanes = kinds.collect::<std::result::Result<Vec<_>, _>>()?;
    let source = group.segment::<u32>(context.host(), many.clone())?;
    let gate = group.segment::<u32>(device, one)?;
    for packet in 0..copies as usize {
        source.fill(packet, |items| items.fill(packet as u32))?;
    }
    let sums = device.shared::<u32>(copies as usize + 1)?;
    let compute = device.stream_of(StreamKind::Gang)?;
    TAKE_AGAIN.prepare(device, 1)?;
    let ended = group.launch_early(&compute, &TAKE_AGAIN, 1, (&gate, &sums, copies)).await?;
    let full = Guard::new(Trigger::Full, Action::None);
    let (fill, empty) = (
        Guard::new(Trigger::Empty, Action::MarkFull),
        Guard::new(Trigger::Full, Action::MarkEmpty),
    );
    for (packet, lane) in (0..copies as usize).zip(lanes.iter().cycle()) {
        let _ = source.copy(lane, packet, full, (&gate, 0, fill))?;
    }
    ended.completed().await?;
    let mut sums = compute.download_shared(&sums, 0..copies as usize)?.await?;
    sums.sort_unstable();
    assert!(sums.into_iter().eq((0..copies).map(|turn| turn * PACKET as u32)), "some were lost");

    let gate = group.segment::<u32>(context.host(), PacketShape::new(PACKET, PACKET))?;
    let target = group.segment::<u32>(context.host(), many)?;
    let fill = Guard::new(Trigger::None, Action::MarkFull);
    for (packet, lane) in (0..copies as usize).zip(lanes.iter().cycle()) {
        let _ = gate.copy(lane, 0, empty, (&target, packet, fill))?;
    }
    for turn in 0..copies {
        gate.wait_empty(0..1).await?;
        while let Err(Error::InFlight { .. }) = gate.fill(0, |items| items.fill(turn)) {
            std::thread::yield_now();
        }
    }
    target.wait_full(0..copies as usize).await?;
    let first = |packet| target.read(packet, |items| items[0]);
    let mut found = (0..copies as usize).map(first).collect::<Result<Vec<_>>>()?;
    found.sort_unstable();
    assert!(found.into_iter().eq(0..copies), "some were taken twice");
    Ok(())
}

/// A stream goes on when all packets that it waits for are full.
pub async fn waiting_stream(context: &Context, device: &Device) -> Result<()> {
    let group = FullEmpty::new(context, PATIENCE)?;
    let source = group.segment::<u32>(context.host(), PacketShape::new(10, 5))?;
    let stream = device.stream()?;
    stream.wait(&source.full_event(0..2)?)?;
    let flag = context.host().shared::<u32>(1)?;
    stream.signal(&[(&flag, 0, 1)])?;
    let passed = stream.record()?;
    source.fill(1, |_| ())?;
    assert_eq!(flag.load(0)?, 0);
    source.fill(0, |_| ())?;
    passed.completed().await?;
    assert_eq!(flag.load(0)?, 1);
    group.check()
}

/// What a stream waits for after it has filled a packet does not hold up those who wait for that one:
/// copies, kernels, and host code where it reaches the packet.
pub async fn waiting_after_a_fill(context: &Context, device: &Device) -> Result<()> {
    let (group, shape) = (FullEmpty::new(context, PATIENCE)?, PacketShape::new(12, 4));
    let [filling, copying] = [(); 2].map(|()| device.stream_of(StreamKind::Copy));
    let (filling, copying) = (filling?, copying?);
    let compute = device.stream_of(StreamKind::Gang)?;
    let data = filling.uploaded((0..12).collect::<Vec<u32>>())?;
    let there = group.segment::<u32>(context.host(), shape.clone())?;
    for on in [device, context.host()] {
        let mut input = group.segment::<u32>(on, shape.clone().read_by(device))?;
        for packet in 0..shape.packets() {
            input.fill_from(&filling, packet, data.part(shape.range(packet))?)?;
            let take = Guard::new(Trigger::Full, Action::MarkEmpty);
            let put = Guard::new(Trigger::None, Action::MarkFull);
            let passed = input.copy(&copying, packet, take, (&there, packet, put))?;
            filling.wait(&passed)?;
        }
        filling.completed()?.await?;
        copying.completed()?.await?;
        input.next_epoch()?;
        let output = group.segment::<u32>(context.host(), shape.clone())?;
        let fill =
            |packet: usize| input.fill_from(&filling, packet, data.part(shape.range(packet))?);
        // One before the kernel has the segment.
        fill(0)?;
        let launched = group.launch_early(&compute, &SCALE, shape.packets(), (&input, &output, 3));
        let launched = launched.await?;
        for packet in 0..shape.packets() {
            if packet > 0 {
                fill(packet)?;
            }
            filling.wait(&output.full_event(packet..packet + 1)?)?;
            if on == context.host() {
                input.wait_full(packet..packet + 1).await?;
                input.read(packet, |items| assert_eq!(items[0], packet as u32 * 4))?;
            }
            output.wait_full(packet..packet + 1).await?;
            output.read(packet, |items| assert_eq!(items[1], 3 * (packet as u32 * 4 + 1)))?;
        }
        launched.completed().await?;
        filling.completed()?.await?;
    }
    group.check()
}

/// Streams that wait for a kernel which was launched early, or for something else of its lane, do not
/// hold up what fills its packets, though a GPU has fewer lanes than there are streams.
pub async fn waiting_for_a_kernel(context: &Context, device: &Device) -> Result<()> {
    let (group, shape) = (FullEmpty::new(context, PATIENCE)?, PacketShape::new(12, 4));
    let streams = |kind, count| -> std::result::Result<Vec<_>, _> {
        (0..count).map(|_| device.stream_of(kind)).collect()
    };
    let (compute, beside) = (device.stream_of(StreamKind::Gang)?, streams(StreamKind::Gang, 8)?);
    let (filling, waiting) = (device.stream_of(StreamKind::Copy)?, streams(StreamKind::Copy, 10)?);
    let items: Vec<u32> = (0..12).collect();
    let data = filling.uploaded(items.clone())?;
    filling.completed()?.await?;
    for scale in 1..4 {
        let input = group.segment::<u32>(device, shape.clone())?;
        let output = group.segment::<u32>(context.host(), shape.clone())?;
        let launched = group.launch_early(&compute, &SCALE, 3, (&input, &output, scale)).await?;
        let mut events = vec![launched.event().clone(), compute.record()?];
        let mut kept = Vec::new();
        for stream in &beside {
            kept.push(stream.uploaded(items.clone())?);
            events.push(stream.record()?);
        }
        let mut downloads = Vec::new();
        for (stream, event) in waiting.iter().zip(&events) {
            stream.wait(event)?;
            downloads.push(stream.download(&data)?);
        }
        for packet in 0..shape.packets() {
            input.fill_from(&filling, packet, data.part(shape.range(packet))?)?;
        }
        launched.completed().await?;
        output.read(2, |items| assert_eq!(items[3], 11 * scale))?;
        for download in downloads {
            assert_eq!(download.await?, items);
        }
        drop(kept);
    }
    group.check()
}

const LEN: usize = 1000;
const PACKET: usize = 130;

/// A kernel of one device waits for packets that are copied there from the memory of another:
/// every second one out of a buffer, the others out of a segment as that is filled.
pub async fn between(
    context: &Context,
    from: &Device,
    to: &Device,
    rounds: u32,
    seed: u64,
) -> Result<()> {
    let (group, mut numbers) = (FullEmpty::new(context, PATIENCE)?, Numbers(seed));
    let shape = PacketShape::new(LEN, PACKET);
    let segment = |device| group.segment::<u32>(device, shape.clone());
    let mut segments = [segment(from)?, segment(to)?, segment(context.host())?];
    let mut data = from.buffer::<u32>(LEN)?;
    let [feed, copy] = [from.stream_of(StreamKind::Copy)?, from.stream_of(StreamKind::Copy)?];
    let compute = to.stream_of(StreamKind::Gang)?;
    SCALE.prepare(to, shape.packets())?;
    for round in 1..=rounds {
        let items = move |at: usize| at as u32 ^ (round << 12);
        feed.upload((0..LEN).map(items).collect::<Vec<_>>(), &mut data)?;
        feed.completed()?.await?;
        let [source, input, output] = &segments;
        let arguments = (input, output, round);
        let launched = group.launch_early(&compute, &SCALE, shape.packets(), arguments);
        let mut events = vec![launched.await?.event().clone()];
        for packet in numbers.shuffled((0..shape.packets()).collect()) {
            let part = data.part(shape.range(packet))?;
            if packet % 2 == 0 {
                input.fill_from(&copy, packet, part)?;
                continue;
            }
            let full = Guard::new(Trigger::Full, Action::MarkEmpty);
            let fill = Guard::new(Trigger::Empty, Action::MarkFull);
            events.push(source.copy(&copy, packet, full, (input, packet, fill))?);
            source.fill_from(&feed, packet, part)?;
        }
        output.wait_full(0..shape.packets()).await?;
        for packet in 0..shape.packets() {
            let expected = shape.range(packet).map(|at| items(at).wrapping_mul(round));
            output.read(packet, |items| {
                assert!(items.iter().copied().eq(expected), "{from} to {to}, packet {packet}");
            })?;
        }
        events.extend([copy.record()?, feed.record()?]);
        for event in events {
            event.completed().await?;
        }
        assert!(!segments[0].is_full(1)?, "the copy out of it has emptied it");
        segments.iter_mut().try_for_each(FullEmptySegment::next_epoch)?;
    }
    Ok(())
}
