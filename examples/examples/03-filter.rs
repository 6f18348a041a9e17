//! Predicate-based filtering \[G §3, Fig. 5 and 6\]: segments of a large array go
//! to free devices, what satisfies a predicate comes back.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0-3` or `cuda:0,host:1`.

use std::sync::atomic::Ordering;

use futures_util::try_join;
use millstream::flow::Error;
use millstream::prelude::*;

type FilterSignature = (Read<u32>, Write<u32>, Shared<u32>, Shared<u32>, Value<u32>);

const SOURCE: &str = r#"
#include "filter.cuh"
using namespace millstream;
extern "C" __global__ void filter(Span<const u32> input, Span<u32> kept, Span<u32> scratch,
                                  Span<u32> count, u32 divisor) {
    filter(input, kept, scratch, count, [=](u32 item) { return item % divisor == 0; });
}
"#;

static FILTER: Kernel<FilterSignature> = Kernel::with_source(
    "filter",
    // SAFETY: like its twin, the kernel uses its arguments only as the signature says.
    unsafe { Trusted::new(CudaSource::new("filter.cu", "filter", SOURCE)) },
    |_, (input, kept, _, count, divisor)| {
        let matching = input.iter().filter(|item| *item % divisor == 0);
        let number = kept.iter_mut().zip(matching).map(|(to, item)| *to = *item).count();
        count[0].store(number as u32, Ordering::Release);
        Ok(())
    },
);

async fn worker(mut input: Receiver<u32>, mut output: Sender<u32>) -> Result<(), Error> {
    let stream = input.device().stream()?;
    let scratch = input.device().shared(2)?;
    while let Some(pending) = input.recv().await? {
        stream.wait(&pending)?;
        let mut kept = output.buffer(pending.len()).await?; // back-pressure
        let count = output.counter()?;
        FILTER.launch(&stream, pending.len(), (&pending, &mut kept, &scratch, &count, 7))?;
        pending.release_after(&stream)?;
        output.send_counted(kept, count, &stream)?; // goes out when the device has counted
    }
    output.shutdown()
}

fn main() -> Result<(), Error> {
    set_driver_defaults();
    let context = Context::builder().devices(Devices::All).build()?;
    let graph = Graph::new(&context);
    let scatter = graph.router(first_available())?;
    let gather = graph.router(first_available())?;
    let mut feed = scatter.sender(context.host())?;
    let results = gather.receiver(context.host(), Buffers::bytes(1 << 20))?;
    for device in context.devices() {
        let input = scatter.receiver(device, Buffers::bytes(1 << 20))?;
        graph.spawn(worker(input, gather.sender(device)?));
    }
    let statistics = graph.statistics();
    let feeding = async move {
        feed.send_all((0..10_000_000).collect::<Vec<u32>>()).await?;
        feed.shutdown()
    };
    let filtering = graph.run(async { try_join!(feeding, results.collect()) });
    let (_, mut kept) = context.block_on(filtering)??;
    kept.sort_unstable();
    assert!(kept.iter().copied().eq((0..10_000_000).step_by(7)));
    println!("{} items kept", kept.len());
    for link in statistics.links() {
        println!("{} -> {}: {} packets, {} bytes", link.from, link.to, link.packets, link.bytes);
    }
    Ok(())
}
