//! Cases of links for any context: messages that are not there yet beside others, packets that are
//! sent on as they arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use millstream_device::{Device, StreamKind, TransferWay};
use millstream_flow::{
    Buffers, Context, Error, FullEmpty, Graph, PacketShape, Receiver, Result, SendBuffer, Sender,
    broadcast, first_available,
};

use crate::full_empty_kernels::SCALE;

/// Three senders of a device, each with a link of its own. What one of them sends is not there
/// yet, and comes first: the others' messages arrive nevertheless.
pub async fn unready(context: &Context, device: &Device, unready: usize) -> Result<()> {
    let group = FullEmpty::new(context, Duration::from_secs(5))?;
    let gate = group.segment::<u32>(context.host(), PacketShape::new(4, 4))?;
    let passed = group.segment::<u32>(context.host(), PacketShape::new(4, 4))?;
    let graph = Graph::new(context);
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let router = graph.router::<u32>(first_available())?;
        senders.push(router.sender(device)?);
        receivers.push(router.receiver(context.host(), Buffers::items(4))?);
    }
    let compute = device.stream_of(StreamKind::Gang)?;
    let ended = group.launch_early(&compute, &SCALE, 1, (&gate, &passed, 1)).await?;
    let order: Vec<usize> = (0..3).map(|turn| (unready + turn) % 3).collect();
    graph
        .run(async move {
            for place in &order {
                let stream = if *place == unready { compute.clone() } else { device.stream()? };
                let mut buffer = senders[*place].buffer(4).await?;
                stream.fill(buffer.part_mut()?, *place as u32)?;
                senders[*place].send(buffer, &stream)?;
            }
            for place in order[1..].iter().chain(&order[..1]) {
                if *place == unready {
                    group.check()?;
                    gate.fill(0, |_| ())?;
                }
                let pending = receivers[*place].recv().await?.ok_or(Error::Ended)?;
                let segment = pending.ready().await?;
                assert_eq!(segment.host_view()?, [*place as u32; 4]);
                segment.release()?;
            }
            senders.into_iter().try_for_each(Sender::shutdown)?;
            for receiver in &mut receivers {
                assert!(receiver.recv().await?.is_none());
            }
            ended.completed().await
        })
        .await
}

/// Sends on each packet as it comes.
async fn pass_on(mut input: Receiver<u32>, mut output: Sender<u32>) -> Result<()> {
    let stream = input.device().stream()?;
    while let Some(pending) = input.recv().await? {
        stream.wait(&pending)?;
        output.forward(pending, &stream)?;
    }
    output.shutdown()
}

/// Packets of so many items go from the host over all devices, one after the other, and back.
pub async fn forwarded(context: &Context, packets: usize, items: usize) -> Result<()> {
    let (host, devices) = (context.host(), context.devices());
    let (graph, buffers) = (Graph::new(context), Buffers::items(items));
    let (mut feed, mut input) = graph.link::<u32>(host, &devices[0], buffers)?;
    for (from, to) in devices.iter().zip(devices[1..].iter().chain([host])) {
        let (output, next) = graph.link(from, to, buffers)?;
        graph.spawn(pass_on(std::mem::replace(&mut input, next), output));
    }
    let all: Vec<u32> = (0..(packets * items) as u32).collect();
    let expected = all.clone();
    graph.spawn(async move {
        feed.send_all(all).await?;
        feed.shutdown()
    });
    let received = graph.run(input.collect()).await?;
    assert!(received == expected, "items are lost or in disorder");
    Ok(())
}

/// The same from the host to the first device, and from there to all others and the host.
pub async fn spread(context: &Context, packets: usize, items: usize) -> Result<()> {
    let (host, devices) = (context.host(), context.devices());
    let (graph, buffers) = (Graph::new(context), Buffers::items(items));
    let (mut feed, input) = graph.link::<u32>(host, &devices[0], buffers)?;
    let router = graph.router::<u32>(broadcast())?;
    graph.spawn(pass_on(input, router.sender(&devices[0])?));
    let ends = devices[1..].iter().chain([host]).map(|device| router.receiver(device, buffers));
    let ends = ends.collect::<Result<Vec<_>>>()?;
    let all: Vec<u32> = (0..(packets * items) as u32).collect();
    let expected = all.clone();
    graph.spawn(async move {
        feed.send_all(all).await?;
        feed.shutdown()
    });
    let received = graph.run(try_join_all(ends.into_iter().map(collect))).await?;
    assert!(received.iter().all(|items| *items == expected), "items are lost or in disorder");
    Ok(())
}

/// Messages that are written where they are received, beside others that are copied: they arrive in
/// the order in which they were sent. How many were written there, and how many pushed in all.
pub async fn in_place(
    context: &Context,
    (from, to): (&Device, &Device),
    rounds: u32,
) -> Result<(u64, u64)> {
    const ITEMS: usize = 16;
    let graph = Graph::new(context);
    let (mut output, input) = graph.link::<u32>(from, to, Buffers::items(ITEMS).count(3))?;
    let stream = from.stream()?;
    let statistics = graph.statistics();
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    graph.spawn(async move {
        let mut number = 0;
        let written = |packet: &SendBuffer<u32>| {
            let is_written = packet.is_in_place() && !packet.is_empty();
            count.fetch_add(is_written.into(), Ordering::Relaxed);
        };
        for round in 0..rounds {
            // Two at once, sent in the other order; one of a part of a packet, and one of nothing.
            let mut last = output.packet(ITEMS, &stream).await?;
            for len in [ITEMS, round as usize % ITEMS, 0] {
                let mut packet = output.packet(len, &stream).await?;
                stream.upload(numbered(&mut number, len), packet.part_mut()?)?;
                written(&packet);
                output.send(packet, &stream)?;
            }
            stream.upload(numbered(&mut number, ITEMS), last.part_mut()?)?;
            last.truncate(ITEMS - 1);
            number -= 1;
            written(&last);
            output.send(last, &stream)?;
            // Copied: from a buffer, from the host, and more than a packet has.
            let mut buffer = output.buffer(5).await?;
            stream.upload(numbered(&mut number, 5), buffer.part_mut()?)?;
            output.send(buffer, &stream)?;
            output.send_data(numbered(&mut number, 2 * ITEMS + 1), 0)?;
            let mut long = output.packet(2 * ITEMS, &stream).await?;
            assert!(!long.is_in_place());
            stream.upload(numbered(&mut number, 2 * ITEMS), long.part_mut()?)?;
            output.send(long, &stream)?;
        }
        output.shutdown()
    });
    let received = graph.run(collect(input)).await?;
    let expected = 0..received.len() as u32;
    assert!(received.iter().copied().eq(expected), "items are lost or in disorder");
    let least = rounds as usize * (2 * ITEMS - 1 + 5 + 4 * ITEMS + 1);
    assert!(received.len() >= least, "{} of {least} at least", received.len());
    let link = statistics.links().pop().ok_or(Error::Ended)?;
    Ok((written.load(Ordering::Relaxed), link.packets_by(TransferWay::Push)))
}

/// The next so many numbers.
fn numbered(next: &mut u32, len: usize) -> Vec<u32> {
    let first = *next;
    *next += len as u32;
    (first..*next).collect()
}

/// Everything that arrives, wherever.
pub async fn collect(mut input: Receiver<u32>) -> Result<Vec<u32>> {
    let (stream, mut items) = (input.device().stream()?, Vec::new());
    while let Some(pending) = input.recv().await? {
        stream.wait(&pending)?;
        let part = stream.download(pending.part()?)?;
        pending.release_after(&stream)?;
        items.extend(part.await?);
    }
    Ok(items)
}
