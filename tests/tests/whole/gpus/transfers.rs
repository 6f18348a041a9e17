//! The three ways from device to device: what arrives, how fast, and how soon, on the
//! devices that `MILLSTREAM_TEST_DEVICES` names, else on four host devices.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Waker};
use std::time::{Duration, Instant};

use millstream::device::{
    CudaSource, Device, DeviceBuffer, Kernel, KernelFault, Shared, SharedBuffer, Step, TransferWay,
    Trusted, Value,
};
use millstream::flow::{
    Buffers, Context, DeviceLink, DeviceLinkEnd, Error, Gang, GangMember, Graph, Item, Receiver,
    Result, Sender, first_available,
};

use super::links::{CHECK, MAKE, is_timed, rate, times};
use super::{Needs, by, context, is_gpu, is_strict, scaled, skip};

/// The first and the last device, of which only the host devices may be the same.
fn pair(context: &Context) -> Option<(usize, usize)> {
    let last = context.devices().len() - 1;
    if last == 0 {
        skip(Needs::Several, "a link has two ends");
    }
    (last > 0).then_some((0, last))
}

/// Contents are checked in every round that is timed.
#[test]
fn every_way_by_size() {
    let all_gpus = context().devices().iter().all(is_gpu);
    let sizes: &[usize] = match scaled(all_gpus, false) {
        true => &[4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20],
        false => &[4, 4 << 10, 64 << 10, 1 << 20],
    };
    for way in [None].into_iter().chain(TransferWay::ALL.map(Some)) {
        let context = by(way);
        let Some(pair) = pair(&context) else { return };
        let name = way.map_or("auto".to_string(), |way| way.to_string());
        for &bytes in sizes {
            let packet = bytes.min(16 << 20);
            let times = times(&context, &[pair], bytes, Buffers::bytes(packet).count(4));
            let best = times.iter().min().unwrap();
            println!("{name}, {bytes:9} bytes: {:8.3} GB/s, {best:?}", rate(bytes, &times));
        }
    }
}

/// A link and what goes over it.
struct Messages {
    output: Sender<u32>,
    input: Receiver<u32>,
    message: DeviceBuffer<u32>,
    /// Items that have not arrived as they were sent.
    wrong: SharedBuffer<u32>,
}

impl Messages {
    fn new(graph: &Graph, from: &Device, to: &Device, bytes: usize, packet: usize) -> Messages {
        // Not a plain link: there may be another one between the two.
        let router = graph.router(first_available()).unwrap();
        let buffers = Buffers::bytes(packet).count(4);
        let (output, input) = (router.sender(from).unwrap(), router.receiver(to, buffers).unwrap());
        let (stream, mut message) = (from.stream().unwrap(), from.buffer(bytes / 4).unwrap());
        MAKE.launch(&stream, bytes / 4, (&mut message, 0)).unwrap();
        stream.record().unwrap().synchronize().unwrap();
        // Zeroed.
        let wrong = to.shared(1).unwrap();
        Messages { output, input, message, wrong }
    }

    /// Sends a message, and compares all of it where it arrives.
    async fn check(&mut self, stream: &millstream::device::Stream) -> Result<()> {
        let sent = self.output.send_from(&self.message, stream, 0)?;
        let (there, mut received) = (self.input.device().stream()?, 0);
        while received < self.message.len() {
            let Some(packet) = self.input.recv().await? else { return Err(Error::Ended) };
            received += packet.len();
            there.wait(&packet)?;
            let (items, offset) = (packet.part()?, packet.offset() as u32);
            CHECK.launch(&there, packet.len(), (items, offset, 0, &self.wrong))?;
            packet.release_after(&there)?;
        }
        sent.await?;
        let wrong = there.download_shared(&self.wrong, 0..1)?.await?;
        assert_eq!(wrong, [0], "wrong items at {}", self.input.device());
        Ok(())
    }

    /// From sending a message until the receiver's task knows that all of it is there.
    async fn round(&mut self, stream: &millstream::device::Stream) -> Result<Duration> {
        let start = Instant::now();
        let sent = self.output.send_from(&self.message, stream, 0)?;
        let mut received = 0;
        while received < self.message.len() {
            let Some(packet) = self.input.recv().await? else { return Err(Error::Ended) };
            let packet = packet.ready().await?;
            received += packet.len();
            packet.release()?;
        }
        let time = start.elapsed();
        sent.await?;
        Ok(time)
    }

    async fn rounds(mut self, mut goes_on: impl FnMut(usize) -> bool) -> Result<Vec<Duration>> {
        let (stream, mut times) = (self.output.device().stream()?, Vec::new());
        while goes_on(times.len()) {
            times.push(self.round(&stream).await?);
        }
        self.check(&stream).await?;
        self.output.shutdown()?;
        assert!(self.input.recv().await?.is_none());
        Ok(times)
    }
}

/// The median and nine tenths of the time that a message takes.
fn latency(context: &Context, (from, to): (&Device, &Device), bytes: usize) -> [Duration; 2] {
    let (rounds, graph) = (scaled(300, 50), Graph::new(context));
    let messages = Messages::new(&graph, from, to, bytes, bytes);
    let run = graph.run(messages.rounds(|round| round < rounds));
    let mut times = context.block_on(run).unwrap().unwrap();
    times.drain(..rounds / 10);
    times.sort();
    [times[times.len() / 2], times[times.len() * 9 / 10]]
}

/// As `latency`, while another link, from the one to the other, moves messages of `bulk` bytes.
fn latency_beside(
    context: &Context,
    pair: (&Device, &Device),
    bytes: usize,
    (from, to): (&Device, &Device),
    bulk: usize,
) -> ([Duration; 2], f64) {
    let graph = Graph::new(context);
    let large = Messages::new(&graph, from, to, bulk, bulk.min(16 << 20));
    let (over, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    let goes_on = |round: usize| {
        begun.store(round > 0, Ordering::Release);
        !over.load(Ordering::Acquire)
    };
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| context.block_on(graph.run(large.rounds(goes_on))));
        while !begun.load(Ordering::Acquire) && !moving.is_finished() {
            std::thread::yield_now();
        }
        let times = latency(context, pair, bytes);
        over.store(true, Ordering::Release);
        let mut all = moving.join().unwrap().unwrap().unwrap();
        all.sort();
        (times, bulk as f64 / all[all.len() / 2].as_secs_f64() / 1e9)
    })
}

/// Three times what `docs/measurements/links.md` has, in microseconds: a small message alone,
/// and beside a large one.
fn most_us(way: Option<TransferWay>) -> [u64; 2] {
    match way {
        None => [72, 72],
        Some(TransferWay::Push) => [72, 115],
        Some(TransferWay::Copy) => [72, 575],
        Some(_) => [115, 1170],
    }
}

/// What is promised of what links choose between peers: medians of 4 bytes alone, and of 4 KiB
/// beside a large message, as a multiple of 4 KiB alone.
const PROMISED: (Duration, u32) = (Duration::from_micros(15), 3);
/// Between kernels that stay on their devices, 4 bytes one way.
const PROMISED_BETWEEN_KERNELS: Duration = Duration::from_micros(4);

/// From `send` to the receiver's task, and that of a small message while a large one
/// is under way between the same two devices.
#[test]
fn latency_of_messages() {
    for way in [None].into_iter().chain(TransferWay::ALL.map(Some)) {
        let context = by(way);
        let Some((first, last)) = pair(&context) else { return };
        let pair = (&context.devices()[first], &context.devices()[last]);
        let name = way.map_or("auto".to_string(), |way| way.to_string());
        let is_timed = is_timed(&context, (first, last));
        let is_promised = is_timed && is_strict() && way.is_none();
        let [alone, mut beside] = most_us(way).map(Duration::from_micros);
        for bytes in [4, 4 << 10, 64 << 10] {
            let [median, late] = latency(&context, pair, bytes);
            println!("{name}, {bytes:6} bytes: {median:?}, nine tenths {late:?}");
            let most = if is_promised && bytes == 4 { PROMISED.0 } else { alone };
            assert!(!is_timed || median <= most, "{name}, {bytes} bytes: {median:?}, not {most:?}");
            if is_promised && bytes == 4 << 10 {
                beside = beside.min(PROMISED.1 * median);
            }
        }
        let bulk = if context.devices().iter().all(is_gpu) {
            scaled(256_000_000, 1 << 18)
        } else {
            1 << 20
        };
        let ([median, late], rate) = latency_beside(&context, pair, 4 << 10, pair, bulk);
        println!(
            "{name},   4096 bytes beside {bulk} at {rate:.0} GB/s: {median:?}, nine tenths {late:?}"
        );
        let is_soon = median <= beside;
        assert!(!is_timed || is_soon, "{name}, beside {bulk}: {median:?}, not {beside:?}");
    }
}

/// A small message does not wait for a large one between the host and a device, either, whichever way
/// that goes.
#[test]
fn small_messages_of_the_host_pass_large_ones() {
    for way in [None, Some(TransferWay::Copy)] {
        let context = by(way);
        let (host, device) = (context.host(), &context.devices()[0]);
        let bulk = if is_gpu(device) { scaled(256_000_000, 1 << 18) } else { 1 << 20 };
        for pair in [(host, device), (device, host)] {
            let [idle, _] = latency(&context, pair, 4 << 10);
            for other in [pair, (pair.1, pair.0)] {
                let ([beside, late], rate) = latency_beside(&context, pair, 4 << 10, other, bulk);
                let name = format!("{way:?}, {} to {}", pair.0, pair.1);
                let large = format!("{bulk} from {} at {rate:.0} GB/s", other.0);
                println!("{name}: {idle:?}, beside {large} {beside:?}, nine tenths {late:?}");
                let is_timed = way.is_none() && is_gpu(device) && scaled(true, false);
                assert!(!is_timed || beside <= 3 * idle, "{name}: {idle:?}, {beside:?}");
            }
        }
    }
}

const ECHO: &str = include_str!("echo.cuh");

/// How long a kernel waits for the other.
const PATIENCE: Duration = Duration::from_secs(3);

/// Rounds, and whether this side begins.
type Run = [u32; 2];
type End = DeviceLinkEnd<u32>;
type Side = (End, End, Shared<u64>, Shared<u32>, Value<Run>);

static ECHO_KERNEL: Kernel<Side> = Kernel::of_steps(
    "echo",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("echo.cu", "echo", ECHO).blocks(1).threads(32)) },
    |_, (there, back, report, host, [rounds, begins])| {
        let (there, back) = (there.of_gang(host), back.of_gang(host));
        // Whoever begins is one ahead.
        let ahead = u32::from(*begins == 1);
        while there.sent() < *rounds || back.received() < *rounds {
            let has_turn = there.sent() < back.received() + ahead && there.sent() < *rounds;
            if has_turn {
                if !there.try_send(&[there.sent()])? {
                    return Ok(Step::Waits);
                }
            } else {
                let expected = back.received();
                let Some(packet) = back.try_receive()? else { return Ok(Step::Waits) };
                report[1].fetch_add(u64::from(packet != [expected]), Ordering::Relaxed);
            }
        }
        Ok(Step::Done)
    },
);

/// A message of four bytes between kernels that stay on their devices: there and back.
#[test]
fn messages_between_resident_kernels() {
    let context = context();
    let devices = context.devices();
    let Some((first, last)) = pair(&context) else { return };
    let (one, other) = (&devices[first], &devices[last]);
    if !one.reaches(other) || !other.reaches(one) {
        return skip(Needs::Peers, "kernels write into each other's memory");
    }
    let rounds = if is_gpu(one) { scaled(20_000, 2000) } else { 500 };
    let link = |from, to| DeviceLink::<u32>::new(&context, from, to, (4, 1), PATIENCE).unwrap();
    let (there, back) = (link(one, other), link(other, one));
    let report = context.host().shared::<u64>(3).unwrap();
    let gang = Gang::new(&context).unwrap();
    gang.prepare(&ECHO_KERNEL).unwrap();
    let host = gang.words().clone();
    let run = gang.run(|GangMember { place, stream, .. }| match place {
        place if place == first => {
            Ok(ECHO_KERNEL.launch(stream, 1, (&there, &back, &report, &host, [rounds, 1]))?)
        }
        place if place == last => {
            Ok(ECHO_KERNEL.launch(stream, 1, (&back, &there, &report, &host, [rounds, 0]))?)
        }
        _ => Ok(()),
    });
    context.block_on(run).unwrap().unwrap();
    let [time, wrong, late] = [0, 1, 2].map(|place| report.load(place).unwrap());
    let one_way = Duration::from_nanos(time / (2 * u64::from(rounds)));
    println!("link between kernels, 4 bytes, {rounds} rounds: {one_way:?} one way");
    let is_promised = is_strict() && is_timed(&context, (first, last));
    assert!(!is_promised || one_way <= PROMISED_BETWEEN_KERNELS, "{one_way:?} one way");
    assert_eq!((wrong, late), (0, 0));
}

/// Nobody waits for ever for the other end.
#[test]
fn a_kernel_without_an_other_end_ends() {
    let context = context();
    let Some((first, last)) = pair(&context) else { return };
    let (one, other) = (&context.devices()[first], &context.devices()[last]);
    if !one.reaches(other) || !other.reaches(one) {
        return skip(Needs::Peers, "kernels write into each other's memory");
    }
    let short = Duration::from_millis(50);
    let link = |from, to| DeviceLink::<u32>::new(&context, from, to, (4, 1), short).unwrap();
    let (there, back) = (link(one, other), link(other, one));
    let report = context.host().shared::<u64>(3).unwrap();
    let gang = Gang::new(&context).unwrap();
    gang.prepare(&ECHO_KERNEL).unwrap();
    let host = gang.words().clone();
    let run = gang.run(|GangMember { place, stream, .. }| match place {
        place if place == first => {
            Ok(ECHO_KERNEL.launch(stream, 1, (&there, &back, &report, &host, [10, 1]))?)
        }
        _ => Ok(()),
    });
    let start = Instant::now();
    let ended = context.block_on(run).unwrap();
    assert!(start.elapsed() >= short && start.elapsed() < Duration::from_secs(5));
    let error = ended.unwrap_err();
    assert!(matches!(error, Error::PeerIsLate), "{error}");
    // A twin returns where it is.
    assert_eq!(report.load(2).unwrap(), u64::from(is_gpu(one)));
    there.check().unwrap();
    let error = back.check().unwrap_err();
    assert!(matches!(error, Error::LinkTimeout { patience, .. } if patience == short), "{error}");
}

const WITHIN: &str = r#"
#include "device_link.cuh"
using namespace millstream;

// Packet n has n % 4 + 1 items.
template <class Item>
__device__ void to_itself(const DeviceLink<Item>& link, Span<u32> host, Span<u32> report,
                          u32 packets) {
    __shared__ Item items[4];
    u32 done = 0, wrong = 0;
    if (blockIdx.x == 0) {
        const DeviceSender<Item> out(link, host);
        for (bool goes_on = true; goes_on && done < packets; done += goes_on) {
            if (threadIdx.x < 4) items[threadIdx.x] = Item(done * 4 + threadIdx.x);
            __syncthreads();
            goes_on = out.send(items, done % 4 + 1);
        }
    } else {
        DeviceReceiver<Item> in(link, host);
        u32 count = 0;
        for (; done < packets && in.receive(items, &count); ++done) {
            __syncthreads();
            wrong += count != done % 4 + 1;
            if (threadIdx.x < count) wrong += items[threadIdx.x] != Item(done * 4 + threadIdx.x);
            __syncthreads();
        }
    }
    const bool is_wrong = __syncthreads_or(wrong != 0);
    if (threadIdx.x == 0) {
        store_relaxed_sys(&report[2 * blockIdx.x], done);
        store_relaxed_sys(&report[2 * blockIdx.x + 1], u32(is_wrong));
    }
}

#define TO_ITSELF(name, Item)                                                                    \
    extern "C" __global__ void name(DeviceLink<Item> link, Span<u32> host, Span<u32> report,     \
                                    u32 packets) {                                               \
        to_itself(link, host, report, packets);                                                  \
    }
TO_ITSELF(bytes_to_itself, unsigned char)
TO_ITSELF(words_to_itself, u32)
TO_ITSELF(longs_to_itself, u64)
"#;

/// Both ends in one kernel: what memory checkers run, under which two kernels may have to take
/// turns. A ring of two slots is full and empty most of the time. Packets of at most 8 bytes come
/// with the words of their slots: all of bytes, some of words, and of longs those of one.
#[test]
fn a_link_within_a_kernel() {
    let context = context();
    within::<u8>(&context, "bytes_to_itself");
    within::<u32>(&context, "words_to_itself");
    within::<u64>(&context, "longs_to_itself");
}

fn within<T: Item>(context: &Context, entry: &'static str) {
    let Some(device) = context.devices().iter().find(|device| is_gpu(device)) else {
        return skip(Needs::Peers, "blocks that wait for each other run on GPUs only");
    };
    let source = CudaSource::new("within.cu", entry, WITHIN).blocks(2).threads(64);
    type Side<T> = (DeviceLinkEnd<T>, Shared<u32>, Shared<u32>, Value<u32>);
    let kernel: Kernel<Side<T>> = Kernel::with_source(
        entry,
        // SAFETY: it uses its link's functions and its words.
        unsafe { Trusted::new(source) },
        |_, _| Err(KernelFault::new("runs on GPUs only")),
    );
    let link = DeviceLink::<T>::new(context, device, device, (2, 4), PATIENCE).unwrap();
    let (host, report) = (context.host().shared(8).unwrap(), context.host().shared(4).unwrap());
    let stream = device.stream().unwrap();
    // The second goes on where the first one was.
    for _ in 0..2 {
        kernel.launch(&stream, 2, (&link, &host, &report, 300)).unwrap();
        context.block_on(stream.record().unwrap().completed()).unwrap().unwrap();
        let found = [0, 1, 2, 3].map(|word| report.load(word).unwrap());
        assert_eq!(found, [300, 0, 300, 0], "packets and whether one was wrong, of each end");
    }
}

const WAITING: &str = r#"
#include "device_link.cuh"
using namespace millstream;

extern "C" __global__ void wait_for_nobody(DeviceLink<u32> link, Span<u32> host) {
    DeviceReceiver<u32> in(link, host);
    u32 number, count;
    in.receive(&number, &count);
}
"#;

/// Nor for the whole patience once the gang is stopped: the next one begins soon.
#[test]
fn a_stopped_gang_waits_for_no_link() {
    let context = context();
    if !Gang::is_possible(&context) {
        return skip(Needs::Peers, "gangs run on GPUs only, all of them peers");
    }
    let source = CudaSource::new("waiting.cu", "wait_for_nobody", WAITING);
    // SAFETY: it uses its end of the link and its words.
    let source = unsafe { Trusted::new(source.blocks(1)) };
    let kernel = Gang::kernel::<(End, Shared<u32>)>("wait_for_nobody", source);
    let device = &context.devices()[0];
    let patience = Duration::from_secs(60);
    let link = DeviceLink::<u32>::new(&context, device, device, (4, 1), patience).unwrap();
    let start = Instant::now();
    for _ in 0..2 {
        let gang = Gang::new(&context).unwrap();
        gang.prepare(&kernel).unwrap();
        let host = gang.words().clone();
        let mut run = pin!(gang.run(|GangMember { place, stream, .. }| match place {
            0 => Ok(kernel.launch(stream, 1, (&link, &host))?),
            _ => Ok(()),
        }));
        let (mut task, begun) = (TaskContext::from_waker(Waker::noop()), Instant::now());
        while begun.elapsed() < Duration::from_millis(100) {
            assert!(run.as_mut().poll(&mut task).is_pending());
        }
    }
    context.device_set().quiesce().unwrap();
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
