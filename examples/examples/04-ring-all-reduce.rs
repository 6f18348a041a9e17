//! A ring all-reduce as a plain dataflow program: every device starts with an
//! array and ends with the sum of all. Each of n parts goes round twice: once
//! collecting sums (reduce-scatter), once spreading them (all-gather).

use futures_util::future::try_join_all;
use millstream::flow::Error;
use millstream::prelude::*;

static ADD: Kernel<(Read<u32>, Write<u32>)> = Kernel::new("add", |_, (from, to)| {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
    Ok(())
});

const DEVICES: usize = 4;
const PART: usize = 25_000;

/// One device's part in it; returns the sum.
async fn all_reduce(
    place: usize,
    mut input: Receiver<u32>,
    mut output: Sender<u32>,
) -> Result<Vec<u32>, Error> {
    let stream = input.device().stream()?;
    let mut array = stream.uploaded(vec![place as u32 + 1; DEVICES * PART])?;
    for step in 0..2 * (DEVICES - 1) {
        // Part (place - step) goes on; the one before it comes in.
        let sent = (place + 2 * DEVICES - step) % DEVICES;
        let received = (sent + DEVICES - 1) % DEVICES;
        let mut message = output.buffer(PART).await?;
        stream.copy(array.part(sent * PART..(sent + 1) * PART)?, message.part_mut()?)?;
        output.send(message, &stream)?;
        let mut arrived = 0;
        while arrived < PART {
            let Some(pending) = input.recv().await? else { return Err(Error::Ended) };
            let start = received * PART + pending.offset();
            let target = array.part_mut(start..start + pending.len())?;
            stream.wait(&pending)?;
            if step < DEVICES - 1 {
                ADD.launch(&stream, pending.len(), (&pending, target))?;
            } else {
                stream.copy(pending.part()?, target)?;
            }
            arrived += pending.len();
            pending.release_after(&stream)?;
        }
    }
    output.shutdown()?;
    // The neighbour has shut down too: a receiver is kept to the end of its stream.
    assert!(input.recv().await?.is_none());
    Ok(stream.download(&array)?.await?)
}

fn main() -> Result<(), Error> {
    let context = Context::builder().devices(Devices::host(DEVICES)).build()?;
    let graph = Graph::new(&context);
    let order = context.topology().ring_order();
    let mut links = Vec::new();
    for (place, device) in order.iter().enumerate() {
        let next = order[(place + 1) % DEVICES];
        let (from, to) = (&context.devices()[*device], &context.devices()[next]);
        links.push(graph.link::<u32>(from, to, Buffers::items(10_000))?);
    }
    let (mut outputs, mut inputs): (Vec<_>, Vec<_>) = links.into_iter().unzip();
    inputs.rotate_right(1); // link i ends at place i + 1
    let devices = (0..DEVICES).map(|place| all_reduce(place, inputs.remove(0), outputs.remove(0)));
    let sums = context.block_on(graph.run(try_join_all(devices)))??;
    let expected = (1..=DEVICES as u32).sum::<u32>();
    assert!(sums.iter().flatten().all(|&sum| sum == expected));
    println!("every item is {expected} on all {DEVICES} devices");
    Ok(())
}
