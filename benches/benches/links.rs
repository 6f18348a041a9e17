//! Link throughput from the first device to the second by packet size and buffers:
//! of all GPUs, of host devices where there are none, or of those that
//! `MILLSTREAM_DEVICES` names. A single device sends to the host.

#![allow(missing_docs, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use futures_util::try_join;
use millstream::flow::Error;
use millstream::prelude::*;
use millstream_benches::{available, open};

/// Receives a message of `bytes` bytes, until its last packet.
async fn receive(input: &mut Receiver<u8>, bytes: usize, stream: &Stream) -> Result<(), Error> {
    let mut received = 0;
    while received < bytes {
        let Some(pending) = input.recv().await? else { return Err(Error::Ended) };
        received += pending.len();
        stream.wait(&pending)?;
        pending.release_after(stream)?;
    }
    Ok(stream.completed()?.await?)
}

/// How long a link takes for a number of messages of `bytes` bytes, one after another. One more
/// message, before these, allocates what is needed.
async fn transfers(
    context: &Context,
    (from, to): (&Device, &Device),
    bytes: usize,
    buffers: Buffers,
    messages: u64,
) -> Result<Duration, Error> {
    let graph = Graph::new(context);
    let (mut output, mut input) = graph.link::<u8>(from, to, buffers)?;
    let (sending, receiving) = (from.stream()?, to.stream()?);
    let mut message = from.buffer(bytes)?;
    sending.fill(&mut message, 1)?;
    let run = graph.run(async move {
        let mut start = Instant::now();
        for number in 0..=messages {
            let sent = output.send_from(&message, &sending, 0)?;
            try_join!(sent, receive(&mut input, bytes, &receiving))?;
            if number == 0 {
                start = Instant::now();
            }
        }
        let time = start.elapsed();
        output.shutdown()?;
        assert!(input.recv().await?.is_none());
        Ok::<_, Error>(time)
    });
    run.await
}

fn throughput(criterion: &mut Criterion) {
    let context = open(available());
    let from = &context.devices()[0];
    let to = context.devices().get(1).unwrap_or(context.host());
    // Sizes that are useful for these devices; those of packets are in KiB.
    let (bytes, packets, counts): (usize, &[usize], &[usize]) = if from.is_gpu() {
        (256_000_000, &[256, 1024, 4096, 16_384, 65_536], &[2, 4])
    } else {
        (16 << 20, &[16, 256, 4096], &[1, 2, 4])
    };
    let mut group = criterion.benchmark_group(format!("link {from} to {to}, {bytes} bytes"));
    group.throughput(Throughput::Bytes(bytes as u64)).sample_size(10);
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    for &packet_kib in packets {
        for &count in counts {
            let id = BenchmarkId::new(format!("{packet_kib} KiB packets"), count);
            let buffers = Buffers::bytes(packet_kib << 10).count(count);
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|messages| {
                    let run = transfers(&context, (from, to), bytes, buffers, messages);
                    context.block_on(run).unwrap().unwrap()
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, throughput);

fn main() {
    set_driver_defaults();
    benches();
    Criterion::default().configure_from_args().final_summary();
}
