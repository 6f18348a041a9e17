//! A link between two devices: one fills packets, the other adds them up.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-1` or `host:2`.

use millstream::prelude::*;

const SOURCE: &str = r#"
#include "span.cuh"
using namespace millstream;
extern "C" __global__ void count_up(Span<u32> items, u32 first) {
    for (u64 at = thread_in_grid(); at < items.len; at += threads_in_grid())
        items[at] = first + u32(at);
}
"#;

/// The kernel for GPUs, and its twin for host devices.
static COUNT_UP: Kernel<(Write<u32>, Value<u32>)> = Kernel::with_source(
    "count_up",
    // SAFETY: like its twin, the kernel uses its arguments only as the signature says.
    unsafe { Trusted::new(CudaSource::new("count_up.cu", "count_up", SOURCE)) },
    |_, (items, first)| {
        items.iter_mut().zip(first..).for_each(|(item, value)| *item = value);
        Ok(())
    },
);

fn main() -> Result<(), millstream::flow::Error> {
    set_driver_defaults();
    let context = Context::builder().devices(Devices::All).build()?;
    // For example, why host devices are used here instead of GPUs.
    context.warnings().iter().for_each(|warning| eprintln!("{warning}"));
    let first = &context.devices()[0];
    // A link has two ends, so a single device sends to the host.
    let second = context.devices().get(1).unwrap_or(context.host());
    let graph = Graph::new(&context);
    // Packets of 1000 items, three buffers posted ahead.
    let (mut output, mut input) =
        graph.link::<u32>(first, second, Buffers::items(1000).count(3))?;

    let stream = first.stream()?;
    graph.spawn(async move {
        for round in 0..5 {
            let mut message = output.buffer(2500).await?;
            COUNT_UP.launch(&stream, 2500, (&mut message, round * 2500))?;
            output.send(message, &stream)?; // goes out when the kernel is done
        }
        output.shutdown()
    });

    let stream = second.stream()?;
    let sum = graph.run(async move {
        let mut sum = 0u64;
        while let Some(pending) = input.recv().await? {
            stream.wait(&pending)?; // the device waits, the host does not
            let items = stream.download(pending.part()?)?;
            println!(
                "{} -> {second}: message {} at {}: {} items",
                pending.source(),
                pending.sequence(),
                pending.offset(),
                pending.len()
            );
            pending.release_after(&stream)?; // the buffer goes back when it has been read
            sum += items.await?.into_iter().map(u64::from).sum::<u64>();
        }
        Ok::<_, millstream::flow::Error>(sum)
    });
    let sum = context.block_on(sum)??;
    assert_eq!(sum, (0..12_500u64).sum::<u64>());
    println!("sum {sum}");
    Ok(())
}
