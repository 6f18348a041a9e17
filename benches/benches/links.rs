//! Link throughput between two host devices by packet size and buffers.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millstream::prelude::*;

/// Sends `bytes` from one device to the other and waits for the last packet.
async fn transfer(
    context: &Context,
    bytes: usize,
    buffers: Buffers,
) -> Result<(), millstream::flow::Error> {
    let graph = Graph::new(context);
    let (from, to) = (&context.devices()[0], &context.devices()[1]);
    let (mut output, mut input) = graph.link::<u8>(from, to, buffers)?;
    let (sending, receiving) = (from.stream()?, to.stream()?);
    graph.spawn(async move {
        let message = output.buffer(bytes).await?;
        output.send(message, &sending)?;
        output.shutdown()
    });
    graph
        .run(async move {
            while let Some(pending) = input.recv().await? {
                receiving.wait(&pending)?;
                pending.release_after(&receiving)?;
            }
            receiving.record()?.completed().await?;
            Ok::<_, millstream::flow::Error>(())
        })
        .await
}

fn throughput(criterion: &mut Criterion) {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let bytes = 16 << 20;
    let mut group = criterion.benchmark_group("link 16 MiB");
    group.throughput(Throughput::Bytes(bytes as u64)).sample_size(10);
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    for packet_kib in [16, 256, 4096] {
        for buffers in [1, 2, 4] {
            let id = BenchmarkId::new(format!("{packet_kib} KiB packets"), buffers);
            let buffers = Buffers::bytes(packet_kib << 10).count(buffers);
            group.bench_function(id, |bencher| {
                bencher.iter(|| context.block_on(transfer(&context, bytes, buffers)).unwrap());
            });
        }
    }
    group.finish();
}

criterion_group!(benches, throughput);
criterion_main!(benches);
