//! Cases of links for any context: messages that are not there yet beside others, packets that are
//! sent on as they arrive.

use std::time::Duration;

use futures_util::future::try_join_all;
use millstream_device::{Device, StreamKind};
use millstream_flow::{
    Buffers, Context, Error, FullEmpty, Graph, PacketShape, Receiver, Result, Sender, broadcast,
    first_available,
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

/// Everything that arrives, wherever.
async fn collect(mut input: Receiver<u32>) -> Result<Vec<u32>> {
    let (stream, mut items) = (input.device().stream()?, Vec::new());
    while let Some(pending) = input.recv().await? {
        stream.wait(&pending)?;
        let part = stream.download(pending.part()?)?;
        pending.release_after(&stream)?;
        items.extend(part.await?);
    }
    Ok(items)
}
