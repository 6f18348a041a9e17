//! A ring all-reduce as a plain dataflow program: every device starts with an array, and ends with
//! the sum of all arrays. Each of the n parts goes round twice: first to collect sums
//! (reduce-scatter), then to spread them (all-gather).
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-7` or `host:4`.

use futures_util::future::try_join_all;
use millstream::flow::Error;
use millstream::prelude::*;

const SOURCE: &str = r#"
#include "span.cuh"
using namespace millstream;
extern "C" __global__ void add(Span<const u32> from, Span<u32> to) {
    for (u64 at = thread_in_grid(); at < from.len; at += threads_in_grid()) to[at] += from[at];
}
"#;

static ADD: Kernel<(Read<u32>, Write<u32>)> = Kernel::with_source(
    "add",
    // SAFETY: like its twin, the kernel uses its arguments only as the signature says.
    unsafe { Trusted::new(CudaSource::new("add.cu", "add", SOURCE)) },
    |_, (from, to)| {
        to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        Ok(())
    },
);

const PART: usize = 25_000;

/// The task of the device at `place` of `places`. Returns the sum.
async fn all_reduce(
    place: usize,
    places: usize,
    mut input: Receiver<u32>,
    mut output: Sender<u32>,
) -> Result<Vec<u32>, Error> {
    let stream = input.device().stream()?;
    let mut array = stream.uploaded(vec![place as u32 + 1; places * PART])?;
    for step in 0..2 * (places - 1) {
        // Sends on part (place - step), and receives the part before it.
        let sent = (place + 2 * places - step) % places;
        let received = (sent + places - 1) % places;
        let mut message = output.buffer(PART).await?;
        stream.copy(array.part(sent * PART..(sent + 1) * PART)?, message.part_mut()?)?;
        output.send(message, &stream)?;
        let mut arrived = 0;
        while arrived < PART {
            let Some(pending) = input.recv().await? else { return Err(Error::Ended) };
            let start = received * PART + pending.offset();
            let target = array.part_mut(start..start + pending.len())?;
            stream.wait(&pending)?;
            if step < places - 1 {
                ADD.launch(&stream, pending.len(), (&pending, target))?;
            } else {
                stream.copy(pending.part()?, target)?;
            }
            arrived += pending.len();
            pending.release_after(&stream)?;
        }
    }
    output.shutdown()?;
    // The neighbour has shut down, too: receive until the end of the stream.
    assert!(input.recv().await?.is_none());
    Ok(stream.download(&array)?.await?)
}

fn main() -> Result<(), Error> {
    set_driver_defaults();
    let context = Context::builder().devices(Devices::All).build()?;
    let order = context.topology().ring_order();
    let mut ring: Vec<&Device> = order.iter().map(|&index| &context.devices()[index]).collect();
    if ring.len() == 1 {
        ring.push(context.host()); // a ring has no links from a device to itself
    }
    let places = ring.len();
    let graph = Graph::new(&context);
    let mut links = Vec::new();
    for (place, from) in ring.iter().enumerate() {
        links.push(graph.link::<u32>(from, ring[(place + 1) % places], Buffers::items(10_000))?);
    }
    let (outputs, mut inputs): (Vec<_>, Vec<_>) = links.into_iter().unzip();
    inputs.rotate_right(1); // the link from place i ends at place i + 1
    let ends = inputs.into_iter().zip(outputs).enumerate();
    let devices = ends.map(|(place, (input, output))| all_reduce(place, places, input, output));
    let sums = context.block_on(graph.run(try_join_all(devices)))??;
    let expected = (1..=places as u32).sum::<u32>();
    assert!(sums.iter().flatten().all(|&sum| sum == expected));
    for device in ring {
        println!("every item is {expected} on {device}");
    }
    Ok(())
}
