//! How fast links move large messages on the devices that
//! `MILLSTREAM_TEST_DEVICES` names: each packet's contents are checked where it
//! arrives, on the device, in the rounds that are timed. Without the variable the
//! cases run small on four host devices.

use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::try_join;
use millstream::device::{
    Awaitable, CudaSource, Device, DeviceBuffer, DeviceList, Kernel, LinkKind, Read, Shared,
    SharedBuffer, Stream, StreamKind, TransferWay, Trusted, Value, Write,
};
use millstream::flow::{Buffers, Context, Devices, Error, Graph, Receiver, Result, Sender};

use super::{Needs, is_strict, scaled, skip};

fn context() -> Context {
    let list = match std::env::var("MILLSTREAM_TEST_DEVICES") {
        Ok(list) => list.parse().unwrap(),
        Err(_) => DeviceList::host(4),
    };
    Context::builder().devices(Devices::List(list)).build().unwrap()
}

/// Bytes of a message: a size that means something on these devices.
fn message_bytes(context: &Context) -> usize {
    let is_gpu = context.devices().iter().all(|device| device.is_gpu());
    if is_gpu { scaled(256_000_000, 300_000) } else { 4_000_000 }
}

/// Bytes of a packet: as much less as messages are where GPUs are emulated.
fn smaller(bytes: usize) -> usize {
    scaled(bytes, bytes >> 9)
}

/// Whether times of these are bounded: of GPUs over NVLink, whose bounds are a third of the rates
/// that `docs/measurements/links.md` has; what [`is_strict`] asks for is more.
pub(super) fn is_timed(context: &Context, (from, to): (usize, usize)) -> bool {
    scaled(true, false) && context.topology().link(from, to) == LinkKind::NvLink
}

/// What item `at` of message `round` is.
fn item(at: u32, round: u32) -> u32 {
    at.wrapping_mul(2_654_435_761) ^ round
}

const SOURCE: &str = r#"
#include "span.cuh"
using namespace millstream;
__device__ u32 item(u64 at, u32 round) { return u32(at) * 2654435761u ^ round; }

extern "C" __global__ void make(Span<u32> items, u32 round) {
    for (u64 at = thread_in_grid(); at < items.len; at += threads_in_grid()) {
        items[at] = item(at, round);
    }
}

extern "C" __global__ void check(Span<const u32> items, u32 offset, u32 round, Span<u32> wrong) {
    u32 differ = 0;
    for (u64 at = thread_in_grid(); at < items.len; at += threads_in_grid()) {
        differ += items[at] != item(offset + at, round);
    }
    if (differ != 0) fetch_add_relaxed_gpu(wrong.items, differ);
}
"#;

/// Makes message `round`.
pub(super) static MAKE: Kernel<(Write<u32>, Value<u32>)> = Kernel::with_source(
    "make",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("links.cu", "make", SOURCE)) },
    |_, (items, round)| {
        items.iter_mut().zip(0..).for_each(|(to, at)| *to = item(at, round));
        Ok(())
    },
);

/// Counts the wrong items of a packet that begins at `offset` of message `round`.
pub(super) static CHECK: Kernel<(Read<u32>, Value<u32>, Value<u32>, Shared<u32>)> =
    Kernel::with_source(
        "check",
        // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
        unsafe { Trusted::new(CudaSource::new("links.cu", "check", SOURCE)) },
        |_, (items, offset, round, wrong)| {
            let differ = items.iter().zip(offset..).filter(|(is, at)| **is != item(*at, round));
            wrong[0].fetch_add(differ.count() as u32, Ordering::Relaxed);
            Ok(())
        },
    );

/// One link, and what it sends and finds wrong.
struct Tested {
    output: Sender<u32>,
    /// What has made the messages.
    stream: Stream,
    input: Receiver<u32>,
    messages: Vec<DeviceBuffer<u32>>,
    wrong: SharedBuffer<u32>,
}

impl Tested {
    fn new(graph: &Graph, from: &Device, to: &Device, bytes: usize, buffers: Buffers) -> Tested {
        let (output, input) = graph.link::<u32>(from, to, buffers).unwrap();
        let stream = from.stream().unwrap();
        let message = |round| {
            let mut message = from.buffer(bytes / 4).unwrap();
            MAKE.launch(&stream, bytes / 4, (&mut message, round)).unwrap();
            message
        };
        let messages = (0..ROUNDS).map(message).collect();
        stream.record().unwrap().synchronize().unwrap();
        Tested { output, stream, input, messages, wrong: to.shared(1).unwrap() }
    }

    /// Sends a message and receives it; when it had arrived.
    async fn round(&mut self, round: u32) -> Result<Instant> {
        let Tested { output, stream, input, messages, wrong } = self;
        let message = &messages[round as usize];
        let sent = output.send_from(message, stream, 0)?;
        let (_, arrived) = try_join!(sent, receive(input, message.len(), round, wrong))?;
        Ok(arrived)
    }
}

/// Receives a message, checking each packet on the device; when the task knew that all
/// were there: the last one need not be the last to arrive.
async fn receive(
    input: &mut Receiver<u32>,
    items: usize,
    round: u32,
    wrong: &SharedBuffer<u32>,
) -> Result<Instant> {
    let stream = input.device().stream()?;
    let (mut received, mut arrivals) = (0, Vec::new());
    while received < items {
        let Some(packet) = input.recv().await? else { break };
        received += packet.len();
        stream.wait(&packet)?;
        let offset = packet.offset() as u32;
        CHECK.launch(&stream, packet.len(), (packet.part()?, offset, round, wrong))?;
        arrivals.push(packet.event().clone());
        packet.release_after(&stream)?;
    }
    for arrival in arrivals {
        arrival.completed().await?;
    }
    let arrived = Instant::now();
    stream.completed()?.await?;
    Ok(arrived)
}

const ROUNDS: u32 = 6;

/// The times of one message on each of these links, all at once, warm. Each link
/// is a graph of its own, driven by a thread of its own.
pub(super) fn times(
    context: &Context,
    pairs: &[(usize, usize)],
    bytes: usize,
    buffers: Buffers,
) -> Vec<Duration> {
    let start = Barrier::new(pairs.len());
    let of_link = |&pair: &(usize, usize)| link_times(context, pair, bytes, buffers, &start);
    let all: Vec<Vec<Duration>> = std::thread::scope(|scope| {
        let threads: Vec<_> = pairs.iter().map(|pair| scope.spawn(|| of_link(pair))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // A round is over when its last message has arrived; the first ones allocate
    // and compile.
    (2..ROUNDS as usize).map(|round| all.iter().map(|times| times[round]).max().unwrap()).collect()
}

fn link_times(
    context: &Context,
    (from, to): (usize, usize),
    bytes: usize,
    buffers: Buffers,
    start: &Barrier,
) -> Vec<Duration> {
    let graph = Graph::new(context);
    let devices = context.devices();
    let mut link = Tested::new(&graph, &devices[from], &devices[to], bytes, buffers);
    let statistics = graph.statistics();
    let run = graph.run(async {
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            start.wait();
            let start = Instant::now();
            times.push(link.round(round).await? - start);
        }
        let Tested { output, mut input, wrong, .. } = link;
        output.shutdown()?;
        assert!(input.recv().await?.is_none());
        let wrong = input.device().stream()?.download_shared(&wrong, 0..1)?.await?;
        assert_eq!(wrong, [0], "wrong items at {}", input.device());
        Ok::<_, Error>(times)
    });
    let times = context.block_on(run).unwrap().unwrap();
    if let Some(way) = context.transfer() {
        let link = statistics.links().pop().unwrap();
        // A host device does not push into a GPU's memory.
        let has_way = devices[from].reaches(&devices[to]) || way != TransferWay::Push;
        assert!(!has_way || link.packets_by(way) == link.packets, "{way}: {link:?}");
    }
    times
}

pub(super) fn rate(bytes: usize, times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort();
    bytes as f64 / times[times.len() / 2].as_secs_f64() / 1e9
}

#[test]
fn one_peer_by_packet_size_and_buffers() {
    let context = context();
    let bytes = message_bytes(&context);
    let pairs = [(0, context.devices().len() - 1)];
    if pairs[0].0 == pairs[0].1 {
        return skip(Needs::Several, "a link has two ends");
    }
    for (packet, least) in [
        (1 << 20, 18.0),
        (2 << 20, 36.0),
        (4 << 20, 58.0),
        (8 << 20, 97.0),
        (16 << 20, 109.0),
        (64 << 20, 117.0),
    ] {
        let packet = smaller(packet);
        let rates = [2, 3, 4, 8].map(|count| {
            rate(bytes, &times(&context, &pairs, bytes, Buffers::bytes(packet).count(count)))
        });
        println!("{packet:8} bytes a packet, 2 3 4 8 buffers: {rates:6.1?} GB/s");
        let least = promised(packet, (16 << 20, 340.0)).unwrap_or(least);
        let is_fast = rates.iter().all(|&rate| rate >= least);
        assert!(is_fast || !is_timed(&context, pairs[0]), "{packet}: {rates:?}, not {least}");
    }
}

/// What links lose against one plain copy of the whole message. The most is promised with as many buffers as a link
/// has by itself.
#[test]
fn links_beside_one_plain_copy() {
    let context = context();
    let bytes = message_bytes(&context);
    let pairs = [(0, context.devices().len() - 1)];
    if pairs[0].0 == pairs[0].1 {
        return skip(Needs::Several, "a link has two ends");
    }
    let plain = plain_rate(&context, bytes, 1);
    let shares = |packet| {
        [None, Some(2), Some(3), Some(4), Some(8)].map(|count| {
            let buffers = Buffers::bytes(smaller(packet));
            let buffers = count.map_or(buffers, |count| buffers.count(count));
            rate(bytes, &times(&context, &pairs, bytes, buffers)) / plain
        })
    };
    let (of_8, of_16) = (shares(8 << 20), shares(16 << 20));
    println!(
        "one plain copy: {plain:.1} GB/s; shares of it, as many buffers as a link has by itself, 2 3 4 8:"
    );
    println!("8 MiB a packet {of_8:.3?}, 16 MiB {of_16:.3?}");
    if is_strict() && is_timed(&context, pairs[0]) {
        for (shares, usual, least) in [(of_8, 0.88, 0.8), (of_16, 0.93, 0.87)] {
            assert!(shares[0] >= usual && shares.iter().all(|&it| it >= least), "{shares:?}");
        }
    }
}

/// What is promised for packets of so many bytes, where that is asked for.
fn promised(packet: usize, (of, least): (usize, f64)) -> Option<f64> {
    (is_strict() && packet == of).then_some(least)
}

#[test]
fn plain_copies_of_the_same_bytes() {
    let context = context();
    let bytes = message_bytes(&context);
    let last = context.devices().len() - 1;
    for (packet, lanes, least) in [
        (bytes, 1, 128.0),
        (smaller(16 << 20), 1, 119.0),
        (smaller(16 << 20), 2, 119.0),
        (smaller(8 << 20), 1, 113.0),
        (smaller(8 << 20), 2, 113.0),
        (smaller(1 << 20), 1, 66.0),
        (smaller(1 << 20), 2, 66.0),
    ] {
        let rate = plain_rate(&context, packet, lanes);
        println!("{packet:9} bytes a copy, {lanes} streams: {rate:6.1} GB/s");
        assert!(rate >= least || !is_timed(&context, (0, last)), "{packet}: {rate}, not {least}");
    }
}

/// GB/s of a message from the first device to the last, in plain copies of so many bytes on so
/// many streams.
fn plain_rate(context: &Context, packet: usize, lanes: usize) -> f64 {
    let bytes = message_bytes(context);
    let (from, to) = (&context.devices()[0], &context.devices()[context.devices().len() - 1]);
    let streams: Vec<_> = (0..lanes).map(|_| from.stream_of(StreamKind::Copy).unwrap()).collect();
    let (items, packet_items) = (bytes / 4, packet / 4);
    let mut source = from.buffer(items).unwrap();
    MAKE.launch(&streams[0], items, (&mut source, 0)).unwrap();
    let parts = items.div_ceil(packet_items);
    let mut targets: Vec<DeviceBuffer<u32>> =
        (0..parts).map(|_| to.buffer(packet_items).unwrap()).collect();
    context.block_on(streams[0].record().unwrap().completed()).unwrap().unwrap();
    let mut times = Vec::new();
    for _ in 0..5 {
        let ready = streams[0].record().unwrap();
        let start = Instant::now();
        for (part, target) in targets.iter_mut().enumerate() {
            let stream = &streams[part % lanes];
            stream.wait(&ready).unwrap();
            let range = part * packet_items..items.min((part + 1) * packet_items);
            let target = target.part_mut(0..range.len()).unwrap();
            stream.copy(source.part(range).unwrap(), target).unwrap();
        }
        for stream in &streams {
            let event = stream.record().unwrap();
            context.block_on(event.completed()).unwrap().unwrap();
            streams[0].wait(&event).unwrap();
        }
        times.push(start.elapsed());
    }
    assert_eq!(wrong_items(&targets, items), 0, "{packet} bytes a copy, {lanes} streams");
    rate(bytes, &times[1..])
}

/// How many items of message 0 are not as they should be in the packets that it was cut into.
fn wrong_items(packets: &[DeviceBuffer<u32>], items: usize) -> u32 {
    let (wrong, stream) = (packets[0].device().shared(1).unwrap(), packets[0].device().stream());
    let (stream, mut offset) = (stream.unwrap(), 0);
    stream.fill_shared(&wrong, 0..1, 0).unwrap();
    for packet in packets {
        let len = packet.len().min(items - offset);
        let part = packet.part(0..len).unwrap();
        CHECK.launch(&stream, len, (part, offset as u32, 0, &wrong)).unwrap();
        offset += len;
    }
    assert_eq!(offset, items);
    stream.download_shared(&wrong, 0..1).unwrap().wait().unwrap()[0]
}

/// A message of one packet after the other, which a kernel makes: it writes into the packet where it is
/// received, or into a buffer that is copied. From the kernel's launch until the task knows that the
/// receiver's kernel has checked the packet.
async fn produced(context: &Context, items: usize, in_place: bool) -> Result<Vec<Duration>> {
    let [from, to] = [&context.devices()[0], &context.devices()[context.devices().len() - 1]];
    let graph = Graph::new(context);
    let buffers = Buffers::items(items).count(3);
    let (mut output, mut input) = graph.link::<u32>(from, to, buffers)?;
    let (making, checking) = (from.stream()?, to.stream()?);
    let wrong = to.shared(1)?;
    graph
        .run(async move {
            let mut times = Vec::new();
            for round in 0..ROUNDS * 10 {
                let start = Instant::now();
                let mut packet = match in_place {
                    true => output.packet(items, &making).await?,
                    false => output.buffer(items).await?,
                };
                assert_eq!(packet.is_in_place(), in_place && from.reaches(to));
                MAKE.launch(&making, items, (&mut packet, round))?;
                output.send(packet, &making)?;
                let pending = input.recv().await?.ok_or(Error::Ended)?;
                checking.wait(&pending)?;
                CHECK.launch(&checking, items, (&pending, 0, round, &wrong))?;
                pending.release_after(&checking)?;
                checking.completed()?.await?;
                times.push(start.elapsed());
            }
            output.shutdown()?;
            assert!(input.recv().await?.is_none());
            assert_eq!(checking.download_shared(&wrong, 0..1)?.await?, [0], "wrong items");
            Ok::<_, Error>(times)
        })
        .await
}

#[test]
fn packets_that_a_kernel_makes_where_they_are_received() {
    let context = context();
    if context.devices().len() == 1 {
        return skip(Needs::Several, "a link has two ends");
    }
    for bytes in [4 << 10, 64 << 10, 1 << 20, 16 << 20] {
        let [copied, written] = [false, true].map(|in_place| {
            let run = produced(&context, smaller(bytes) / 4, in_place);
            let mut times = context.block_on(run).unwrap().unwrap();
            times.sort();
            times[times.len() / 2]
        });
        println!("{bytes:8} bytes: copied {copied:.1?}, written in place {written:.1?}");
        let is_checked = is_strict() && is_timed(&context, (0, context.devices().len() - 1));
        assert!(!is_checked || written < copied, "{bytes}: {written:?}, not {copied:?}");
    }
}

#[test]
fn a_ring_all_at_once() {
    let context = context();
    let bytes = message_bytes(&context);
    let count = context.devices().len();
    if count == 1 {
        return skip(Needs::Several, "a ring of one has no link");
    }
    let pairs: Vec<_> = (0..count).map(|from| (from, (from + 1) % count)).collect();
    let is_timed = pairs.iter().all(|&pair| is_timed(&context, pair));
    for (packet, least) in [(1 << 20, 12.0), (4 << 20, 47.0), (16 << 20, 97.0), (64 << 20, 110.0)] {
        let packet = smaller(packet);
        let rates = [2, 4].map(|buffers| {
            rate(bytes, &times(&context, &pairs, bytes, Buffers::bytes(packet).count(buffers)))
        });
        println!(
            "ring of {count}, {packet:8} bytes a packet, 2 4 buffers: {rates:6.1?} GB/s a device"
        );
        let least = promised(packet, (16 << 20, 320.0)).unwrap_or(least);
        let is_fast = rates.iter().all(|&rate| rate >= least);
        assert!(is_fast || !is_timed, "{packet}: {rates:?}, not {least}");
    }
}
