//! The device layer on its own: copies, fills, kernels, order, memory.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use millstream::device::{
    CudaSource, Device, DeviceBuffer, DeviceSet, Error, Kernel, Pod, Read, Stream, StreamKind,
    Tell, Trusted, Value, Write, Zeroable,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::child::in_child;
use super::telling::TELLS;
use super::{is_gpu, list, scaled, set};

fn random_bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(seed);
    (0..count).map(|_| random.random()).collect()
}

/// Bytes; checkers that look at each byte of a copy get fewer.
fn largest_copy() -> usize {
    let set = std::env::var("MILLSTREAM_LARGEST_COPY");
    set.map_or((1 << 20) + 3, |bytes| bytes.parse().unwrap())
}

#[test]
fn copies_between_all_endpoints() {
    let set = set();
    let endpoints: Vec<Device> = set.devices().iter().chain([set.host()]).cloned().collect();
    for (seed, from) in endpoints.iter().enumerate() {
        for to in &endpoints {
            for count in [1, 1000, largest_copy()] {
                let data = random_bytes(seed as u64, count);
                let stream = from.stream_of(StreamKind::Copy).unwrap();
                let source = from.buffer::<u8>(count).unwrap();
                let mut source = source.with_label("source");
                stream.upload(data.clone(), &mut source).unwrap();
                let mut target = to.buffer::<u8>(count + 2).unwrap();
                stream.copy(&source, target.part_mut(1..count + 1).unwrap()).unwrap();
                let there = to.stream().unwrap();
                there.wait(&stream.record().unwrap()).unwrap();
                let download = there.download(&target).unwrap();
                let received = set.block_on(download).unwrap().unwrap();
                assert_eq!(received[1..count + 1], data, "{from} to {to}");
                assert_eq!((received[0], received[count + 1]), (0, 0), "{from} to {to}");
            }
        }
    }
    set.quiesce().unwrap();
}

/// From one buffer into some of all endpoints, one of them nothing, and then out of these into another.
#[test]
fn several_buffers_are_copied_at_once() {
    let set = set();
    let endpoints: Vec<Device> = set.devices().iter().chain([set.host()]).cloned().collect();
    let (count, data) = (1001, random_bytes(7, 1001 * endpoints.len()));
    for from in set.devices() {
        let stream = from.stream_of(StreamKind::Copy).unwrap();
        let source = stream.uploaded(data.clone()).unwrap();
        let mut parts: Vec<_> =
            endpoints.iter().map(|to| to.buffer::<u8>(count).unwrap()).collect();
        let mut nothing = from.buffer::<u8>(0).unwrap();
        let into = parts.iter_mut().enumerate().map(|(place, part)| {
            (source.part(place * count..(place + 1) * count).unwrap(), part.into())
        });
        let none = (source.part(3..3).unwrap(), (&mut nothing).into());
        stream.copy_each(into.chain([none])).unwrap();
        let mut back = from.buffer::<u8>(data.len() + 2).unwrap();
        let (mut copied, mut apart) = (from.buffer::<u8>(data.len()).unwrap(), Vec::new());
        for (place, part) in parts.iter().enumerate() {
            let first = 1 + place * count;
            stream.copy(part, back.part_mut(first..first + count).unwrap()).unwrap();
            apart.push(from.buffer::<u8>(count).unwrap());
        }
        let each = parts.iter().zip(&mut apart).map(|(part, to)| (part.into(), to.into()));
        let whole = ((&source).into(), (&mut copied).into());
        stream.copy_each(each.chain([whole])).unwrap();
        for (found, expected) in [(&back, &[&[0], &data[..], &[0]].concat()), (&copied, &data)] {
            let found = set.block_on(stream.download(found).unwrap()).unwrap().unwrap();
            assert_eq!(found, *expected, "{from}");
        }
        for (found, expected) in apart.iter().zip(data.chunks(count)) {
            let found = set.block_on(stream.download(found).unwrap()).unwrap().unwrap();
            assert_eq!(found, expected, "{from}");
        }
        let short = (source.part(0..2).unwrap(), (&mut copied).into());
        let error = stream.copy_each([short]).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { .. }), "{error}");
    }
    set.quiesce().unwrap();
}

/// In packets, through pinned memory, the last of which is not full.
#[test]
fn large_uploads_arrive() {
    let set = set();
    let items: Arc<[u32]> =
        (0..(70 << 18) + 3).map(|at: u32| at.wrapping_mul(0x9E37_79B1)).collect();
    let mut buffers = Vec::new();
    for device in set.devices() {
        let stream = device.stream().unwrap();
        let mut buffer = device.buffer::<u32>(items.len() + 2).unwrap();
        stream.upload(Arc::clone(&items), buffer.part_mut(1..items.len() + 1).unwrap()).unwrap();
        buffers.push((stream.clone(), buffer));
        // The same, made a part at a time.
        let mut buffer = device.buffer::<u32>(items.len() + 2).unwrap();
        let make = |first: usize, to: &mut [u32]| to.copy_from_slice(&items[first..][..to.len()]);
        stream.upload_made(buffer.part_mut(1..items.len() + 1).unwrap(), make).unwrap();
        buffers.push((stream, buffer));
    }
    for (stream, buffer) in buffers {
        let found = set.block_on(stream.download(&buffer).unwrap()).unwrap().unwrap();
        assert!(found[1..items.len() + 1] == *items, "{}", buffer.device());
        assert_eq!((found[0], found[items.len() + 1]), (0, 0), "{}", buffer.device());
    }
}

/// In a process of its own, whose memory nobody had before.
#[test]
fn buffers_are_zeroed_unless_they_are_written_first() {
    let case = concat!(module_path!(), "::buffers_are_zeroed_unless_they_are_written_first");
    in_child(case, Duration::from_secs(60), || {
        let set = set();
        for device in set.devices() {
            let stream = device.stream().unwrap();
            let contents =
                |buffer: &DeviceBuffer<u8>| stream.download(buffer).unwrap().wait().unwrap();
            let mut buffer = device.buffer_to_overwrite::<u8>(5000).unwrap();
            if is_gpu(device) && scaled(false, true) {
                assert_eq!(contents(&buffer), [0xA5; 5000], "nobody has written it");
            }
            stream.fill(&mut buffer, 7).unwrap();
            assert_eq!(contents(&buffer), [7; 5000]);
            drop(buffer);
            set.quiesce().unwrap();
            assert_eq!(contents(&device.buffer(5000).unwrap()), [0; 5000]);
        }
        // Pinned memory is what it was, too, but where it is to be zeros.
        let host = set.host();
        host.buffer::<u8>(5000).unwrap().host_view_mut().unwrap().fill(7);
        if set.devices().iter().any(is_gpu) && scaled(false, true) {
            let unwritten = host.buffer_to_overwrite::<u8>(5000).unwrap();
            assert_eq!(unwritten.host_view().unwrap(), [7; 5000]);
        }
        assert_eq!(host.buffer::<u8>(5000).unwrap().host_view().unwrap(), [0; 5000]);
    });
}

fn filled<T>(set: &DeviceSet, device: &Device, value: T) -> Vec<T>
where
    T: millstream::device::Pod + Send + Sync + PartialEq + std::fmt::Debug,
{
    let stream = device.stream().unwrap();
    let mut buffer = device.buffer::<T>(1001).unwrap();
    stream.fill(buffer.part_mut(1..1000).unwrap(), value).unwrap();
    set.block_on(stream.download(&buffer).unwrap()).unwrap().unwrap()
}

#[test]
fn fills_of_every_width() {
    fn check<T>(set: &DeviceSet, device: &Device, value: T)
    where
        T: millstream::device::Pod + Send + Sync + PartialEq + std::fmt::Debug,
    {
        let items = filled(set, device, value);
        assert!(items[1..1000].iter().all(|item| *item == value), "{device}: {value:?}");
        let zero: T = millstream::device::Zeroable::zeroed();
        assert!(items[0] == zero && items[1000] == zero, "{device}: {value:?}");
    }
    let set = set();
    for device in set.devices() {
        check(&set, device, 7u8);
        check(&set, device, 0x1234u16);
        check(&set, device, [1u8, 2, 3]);
        check(&set, device, 0x1234_5678u32);
        check(&set, device, u64::MAX);
        check(&set, device, 0x1234_5678_9abc_def0u64);
        check(&set, device, [1u32, 2, 3]);
        check(&set, device, [1u8, 2, 3, 4, 5, 6]);
    }
}

const SCALE_SOURCE: &str = r#"
#include "span.cuh"
using namespace millstream;
extern "C" __global__ void scale(Span<const u32> input, Span<u32> output, u32 factor) {
    for (u64 at = thread_in_grid(); at < input.len; at += threads_in_grid())
        output[at] = input[at] * factor;
}
extern "C" __global__ void wrong_size(Span<const u32> input, Span<u32> output, u64 factor) {}
extern "C" __global__ void too_few(Span<const u32> input, Span<u32> output) {}
extern "C" __global__ void too_many(Span<const u32> input, Span<u32> output, u32 a, u32 b) {}
"#;

type ScaleSignature = (Read<u32>, Write<u32>, Value<u32>);

fn scale_kernel(entry: &'static str, text: &'static str) -> Kernel<ScaleSignature> {
    let twin = |_: &millstream::device::Grid,
                (input, output, factor): (&[u32], &mut [u32], u32)| {
        output.iter_mut().zip(input).for_each(|(to, from)| *to = from.wrapping_mul(factor));
        Ok(())
    };
    Kernel::from_closure(entry, twin).with_cuda(
        // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
        unsafe { Trusted::new(CudaSource::new("scale.cu", entry, text)) },
    )
}

fn launch_scale(
    set: &DeviceSet,
    device: &Device,
    kernel: &Kernel<ScaleSignature>,
) -> Result<Vec<u32>, Error> {
    let stream = device.stream()?;
    let input = stream.uploaded((0..100_000u32).collect::<Vec<_>>())?;
    let mut output = device.buffer(input.len())?;
    kernel.launch(&stream, input.len(), (&input, &mut output, 3))?;
    set.block_on(stream.download(&output)?)?
}

#[test]
fn kernels_and_their_mistakes() {
    let set = set();
    for device in set.devices() {
        let output = launch_scale(&set, device, &scale_kernel("scale", SCALE_SOURCE)).unwrap();
        assert!(output.iter().enumerate().all(|(at, item)| *item == at as u32 * 3), "{device}");
        if !is_gpu(device) {
            continue;
        }
        for (entry, text, expected) in [
            ("wrong_size", SCALE_SOURCE, "parameter 2 of its CUDA source has 8 bytes, not 4"),
            ("too_few", SCALE_SOURCE, "takes 2 parameters, not 3"),
            ("too_many", SCALE_SOURCE, "takes 4 parameters, not 3"),
            ("missing", SCALE_SOURCE, "scale.cu has no kernel extern \"C\" missing"),
            ("scale", "\nthis is no CUDA", "scale.cu(2)"),
        ] {
            let error = launch_scale(&set, device, &scale_kernel(entry, text)).unwrap_err();
            assert!(error.to_string().contains(expected), "{expected:?}: {error}");
        }
        let twin_only: Kernel<ScaleSignature> = Kernel::new("twin", |_, _| Ok(()));
        let error = launch_scale(&set, device, &twin_only).unwrap_err();
        assert!(matches!(error, Error::NoDeviceCode { .. }), "{error}");
    }
}

#[test]
fn uses_that_are_not_ordered_are_refused() {
    let set = set();
    for device in set.devices() {
        let (one, other) = (device.stream().unwrap(), device.stream().unwrap());
        let mut buffer = device.buffer::<u32>(1 << 20).unwrap().with_label("shared by two");
        one.fill(&mut buffer, 1).unwrap();
        let error = other.fill(&mut buffer, 2).unwrap_err();
        assert!(matches!(error, Error::Hazard { .. }), "{error}");
        assert!(error.to_string().contains("shared by two"), "{error}");
        other.wait(&one.record().unwrap()).unwrap();
        other.fill(&mut buffer, 2).unwrap();
        let items = set.block_on(other.download(&buffer).unwrap()).unwrap().unwrap();
        assert!(items.iter().all(|item| *item == 2));
    }
}

/// Of streams that are gone, too; but not what is submitted later.
#[test]
fn what_was_submitted_comes_before_what_follows_quiescence() {
    let set = set();
    let is_hazard = |result: Result<(), Error>| matches!(result, Err(Error::Hazard { .. }));
    for device in set.devices() {
        let mut buffer = device.buffer::<u32>(1 << 20).unwrap();
        // Before: a stream that is made when another is over comes after it.
        let (one, other) = (device.stream().unwrap(), device.stream().unwrap());
        device.stream().unwrap().fill(&mut buffer, 1).unwrap();
        assert!(is_hazard(one.fill(&mut buffer, 2)));
        set.quiesce().unwrap();
        one.fill(&mut buffer, 3).unwrap();
        assert!(is_hazard(other.fill(&mut buffer, 4)));
        set.block_on(one.completed().unwrap()).unwrap().unwrap();
        // A kernel that tells, of which nobody hears.
        TELLS.prepare(device, 1).unwrap();
        let tells = TELLS.bind(&other, 1, (&mut buffer, Tell)).unwrap();
        drop(tells.submit_soon_with_completion().unwrap());
        assert!(is_hazard(one.fill(&mut buffer, 5)));
        set.quiesce().unwrap();
        let items = set.block_on(one.download(&buffer).unwrap()).unwrap().unwrap();
        assert!(items.iter().all(|item| *item == 10));
    }
}

#[test]
fn events_order_streams_of_all_devices() {
    let set = set();
    let streams: Vec<Stream> =
        set.devices().iter().flat_map(|device| (0..3).map(|_| device.stream().unwrap())).collect();
    let count = 1 << 16;
    let mut buffers: Vec<_> =
        streams.iter().map(|stream| stream.device().buffer::<u32>(count).unwrap()).collect();
    let first = random_bytes(5, count).into_iter().map(u32::from).collect::<Vec<_>>();
    streams[0].upload(first.clone(), &mut buffers[0]).unwrap();
    let mut event = streams[0].record().unwrap();
    // Around all streams, many times, without the host waiting.
    for step in 0..streams.len() * 20 {
        let (from, to) = (step % streams.len(), (step + 1) % streams.len());
        streams[to].wait(&event).unwrap();
        let [source, target] = buffers.get_disjoint_mut([from, to]).unwrap();
        streams[to].copy(&*source, target).unwrap();
        event = streams[to].record().unwrap();
    }
    let last = (streams.len() * 20) % streams.len();
    let items = set.block_on(streams[last].download(&buffers[last]).unwrap()).unwrap().unwrap();
    assert_eq!(items, first);
}

/// Of the stream that fails, and of those that wait for it, to those who still listen.
#[test]
fn a_failure_that_nobody_waits_for_is_told() {
    let set = set();
    for (device, other) in set.devices().iter().zip(set.devices().iter().rev()) {
        let (first, second) = (device.stream().unwrap(), other.stream().unwrap());
        let (told, hear) = channel();
        let listen = |name, stream: &Stream| {
            let told = told.clone();
            stream.on_failure(move |cause| drop(told.send((name, cause))))
        };
        let listeners = [listen("first", &first), listen("second", &second)];
        assert!(listeners[0].listens_to(&first) && !listeners[0].listens_to(&second));
        drop([listen("gone", &first), listen("gone too", &second)]);
        let promise = set.promise("dinner");
        first.wait(promise.event()).unwrap();
        second.wait(&first.record().unwrap()).unwrap();
        // The end of it, which is heard of.
        let end = second.record().unwrap();
        assert!(hear.try_recv().is_err());
        drop(promise);
        for _ in 0..2 {
            let (name, cause) = hear.recv_timeout(Duration::from_secs(10)).unwrap();
            assert!(name == "first" || name == "second", "{name}");
            assert!(cause.to_string().contains("dinner will not come"), "{device} {name}: {cause}");
        }
        assert!(hear.try_recv().is_err(), "{device}: told twice");
        let _late = listen("late", &second);
        assert_eq!(hear.try_recv().unwrap().0, "late");
        assert!(end.synchronize().is_err());
    }
}

/// On no lane: there are fewer than these streams.
#[test]
fn who_waits_for_the_host_holds_up_no_other_stream() {
    let set = set();
    for device in set.devices() {
        for kind in [StreamKind::Compute, StreamKind::Copy] {
            let (promise, waiting) = (set.promise("dinner"), device.stream_of(kind).unwrap());
            waiting.wait(promise.event()).unwrap();
            let mut late = device.buffer::<u32>(100).unwrap();
            waiting.fill(&mut late, 7).unwrap();
            let late_end = waiting.record().unwrap();
            let (told, hear) = channel();
            let others = (0..30_u32).map(|number| {
                let stream = device.stream_of(kind).unwrap();
                let mut buffer = device.buffer::<u32>(100).unwrap();
                stream.fill(&mut buffer, number).unwrap();
                let (end, told) = (stream.record().unwrap(), told.clone());
                end.on_complete(move |result| drop(told.send(result)));
                (stream, buffer)
            });
            let others: Vec<_> = others.collect();
            for _ in &others {
                hear.recv_timeout(Duration::from_secs(10)).expect("held up").unwrap();
            }
            for ((stream, buffer), number) in others.iter().zip(0..) {
                assert_eq!(stream.download(buffer).unwrap().wait().unwrap(), [number; 100]);
            }
            assert!(!late_end.is_complete(), "{device}");
            promise.complete(Ok(()));
            assert_eq!(waiting.download(&late).unwrap().wait().unwrap(), [7; 100], "{device}");
        }
    }
    set.quiesce().unwrap();
}

/// In their order, and who waits until all is over waits for them, too.
#[test]
fn what_waits_for_the_host_comes_in_order_and_before_the_end() {
    let set = DeviceSet::builder().devices(list()).build().unwrap();
    for device in set.devices() {
        let in_use = device.memory().in_use;
        let (promise, stream) = (set.promise("dinner"), device.stream().unwrap());
        let mut buffer = device.buffer::<u32>(64).unwrap();
        stream.wait(promise.event()).unwrap();
        for round in 0..300 {
            stream.fill(buffer.part_mut(round % 64..64).unwrap(), round as u32).unwrap();
        }
        let end = stream.completed().unwrap();
        // Another stream waits for what is not recorded yet.
        let other = device.stream_of(StreamKind::Copy).unwrap();
        other.wait(&stream.record().unwrap()).unwrap();
        let mut copy = device.buffer::<u32>(64).unwrap();
        other.copy(&buffer, &mut copy).unwrap();
        let download = other.download(&copy).unwrap();
        drop((stream, other, buffer, copy));
        let (told, hear) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| told.send(set.quiesce()).unwrap());
            assert!(hear.recv_timeout(Duration::from_millis(20)).is_err(), "it is over already");
            promise.complete(Ok(()));
            hear.recv_timeout(Duration::from_secs(20)).expect("it does not end").unwrap();
        });
        assert_eq!(device.memory().in_use, in_use, "{device}: something is held");
        set.block_on(end).unwrap().unwrap();
        let expected: Vec<u32> = (0..64).map(last_round).collect();
        assert_eq!(download.wait().unwrap(), expected, "{device}");
    }
}

/// Of 300, the last that wrote a place: those write it that begin there or before.
fn last_round(place: u32) -> u32 {
    (0..300).rfind(|round| round % 64 <= place).unwrap()
}

#[test]
fn memory_has_an_end() {
    // Its own: nobody else may allocate.
    let set = DeviceSet::builder().devices(list()).build().unwrap();
    for device in set.devices().iter().filter(|device| is_gpu(device)) {
        let error = device.buffer::<u8>(1 << 45).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        let before = device.memory().in_use;
        let buffer = device.buffer::<u8>(1 << 20).unwrap();
        assert_eq!(device.memory().in_use, before + (1 << 20));
        drop(buffer);
        assert_eq!(device.memory().in_use, before);
    }
    let tight = DeviceSet::builder().devices(list()).memory_budget(1000).build().unwrap();
    assert!(tight.devices()[0].buffer::<u8>(1001).is_err());
}

/// Aligned to more than the driver's memory.
#[derive(Clone, Copy)]
#[repr(C, align(512))]
struct Wide([u8; 512]);

// SAFETY: bytes, as many as fill it.
unsafe impl Zeroable for Wide {}
// SAFETY: as above.
unsafe impl Pod for Wide {}

#[test]
fn items_that_the_memory_does_not_align_are_refused() {
    let set = set();
    for device in set.devices().iter().filter(|device| is_gpu(device)) {
        for place in [device, set.host()] {
            let error = place.buffer::<Wide>(1).unwrap_err();
            assert!(matches!(error, Error::Alignment { alignment: 512, .. }), "{error}");
        }
        let bytes = device.buffer::<u8>(1024).unwrap();
        let stream = device.stream().unwrap();
        let cast = bytes.cast::<Wide>();
        assert!(cast.len() <= 2 && stream.download(&cast).is_err());
    }
}
