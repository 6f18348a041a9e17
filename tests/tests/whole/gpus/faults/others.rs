//! One GPU fails while another one computes and copies on: nobody touches what that is at, nor is
//! any of it ever freed. Everything of the healthy one waits behind a kernel, until `go`.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millstream::device::{
    self, DeviceBuffer, Event, Guarded, KernelFault, Step, Stream, StreamKind, Words,
};
use millstream::flow::{FullEmpty, FullEmptySegment, PacketShape};

use super::super::child::in_child;
use super::super::foreign::{self, Own};
use super::super::{Needs, context, is_gpu, scaled, skip};
use super::{Context, Device, Kernel, LIMIT, SharedBuffer, builder, kernel, refused};

/// Until a place in the clocks is free.
const SOON: Duration = Duration::from_secs(10);
const ITEMS: usize = 1000;

/// The GPU that is to fail, and another one.
struct Pair {
    context: Context,
    failing: Device,
    healthy: Device,
    go: SharedBuffer<u32>,
}

impl Pair {
    /// The healthy one's stream, which goes on with `go`.
    fn open() -> (Pair, Stream) {
        let context = builder().build().unwrap();
        let [failing, healthy] = two_gpus(&context).unwrap();
        let go = context.host().shared::<u32>(1).unwrap();
        let stream = healthy.stream().unwrap();
        let waits = kernel("waits", 1);
        waits.prepare(&healthy, 1).unwrap();
        kernel("traps", 1).prepare(&failing, 1).unwrap();
        waits.launch(&stream, 1, (&go, 50_000)).unwrap();
        (Pair { context, failing, healthy, go }, stream)
    }

    /// One fails; what the other has been given fails with it, and goes on.
    fn fail(&self, waiting: &Event) -> device::Error {
        let (stream, never) =
            (self.failing.stream().unwrap(), self.context.host().shared(1).unwrap());
        kernel("traps", 1).launch(&stream, 1, (&never, 0)).unwrap();
        let cause = stream.record().unwrap().synchronize().unwrap_err();
        assert!(cause.to_string().contains("CUDA_ERROR_"), "{cause}");
        assert_eq!(waiting.synchronize(), Err(cause.clone()));
        cause
    }
}

fn two_gpus(context: &Context) -> Option<[Device; 2]> {
    let gpus = || context.devices().iter().filter(|device| is_gpu(device));
    let failing = gpus().next()?;
    let healthy = gpus().find(|device| !device.shares_gpu_with(failing))?;
    Some([failing.clone(), healthy.clone()])
}

fn in_child_with_two(case: &str, body: impl FnOnce()) {
    match two_gpus(&context()) {
        Some(_) => drop(in_child(case, LIMIT, body)),
        None => skip(Needs::SeveralGpus, "one GPU fails, and another one does not"),
    }
}

/// Behind the kernel, on its lane and on another one: a copy of the program's items, and one of
/// memory that is the program's own. Their users are counted.
fn copies(pair: &Pair, stream: &Stream) -> (Event, Arc<[u32]>, Arc<()>) {
    let (items, owner) = (Arc::<[u32]>::from(vec![7; ITEMS]), Arc::new(()));
    let copy = pair.healthy.stream_of(StreamKind::Copy).unwrap();
    copy.wait(&stream.record().unwrap()).unwrap();
    // Never freed: the driver may refuse to, after a fault.
    let own = ManuallyDrop::new(Own::take(&pair.healthy, 4 * foreign::ITEMS).unwrap());
    let held = Arc::clone(&owner);
    // SAFETY: as many items, which only this uses.
    let own = unsafe { pair.healthy.adopt::<u32>(own.address as usize, foreign::ITEMS, held) };
    for stream in [stream, &copy] {
        let mut target = pair.healthy.buffer::<u32>(ITEMS).unwrap();
        stream.upload(Arc::clone(&items), &mut target).unwrap();
        let mut target = pair.healthy.buffer::<u32>(foreign::ITEMS).unwrap();
        stream.copy(&own, &mut target).unwrap();
    }
    (copy.record().unwrap(), items, owner)
}

/// Nobody hears any more when that is over.
#[test]
fn what_another_gpu_is_at_is_never_freed() {
    in_child_with_two(concat!(module_path!(), "::what_another_gpu_is_at_is_never_freed"), || {
        let (pair, stream) = Pair::open();
        let (waiting, items, owner) = copies(&pair, &stream);
        // The lane that the kernel is on has a point to come to, too.
        let same = stream.record().unwrap();
        drop(stream);
        let cause = pair.fail(&waiting);
        assert_eq!(same.synchronize(), Err(cause));
        // Longer than the reactor takes to look.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(Arc::strong_count(&items), 3, "let go beside a copy");
        assert_eq!(Arc::strong_count(&owner), 2, "freed beside a copy");
        pair.go.store(0, 1).unwrap();
    });
}

/// It may be at them as long as the process lives.
#[test]
fn what_the_failed_gpu_was_at_is_never_freed() {
    in_child_with_two(
        concat!(module_path!(), "::what_the_failed_gpu_was_at_is_never_freed"),
        || {
            let (pair, waiting) = Pair::open();
            let stream = pair.failing.stream().unwrap();
            let items: Arc<[u32]> = vec![7; ITEMS].into();
            let never = pair.context.host().shared(1).unwrap();
            kernel("traps", 1).launch(&stream, 1, (&never, scaled(300, 4))).unwrap();
            stream.upload(Arc::clone(&items), &mut pair.failing.buffer(ITEMS).unwrap()).unwrap();
            stream.record().unwrap().synchronize().unwrap_err();
            pair.go.store(0, 1).unwrap();
            drop((pair, stream, waiting));
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(Arc::strong_count(&items), 2);
        },
    );
}

/// A packet that is full, and to which the healthy GPU is to copy again.
fn refilled(pair: &Pair, stream: &Stream) -> (FullEmptySegment<u32>, DeviceBuffer<u32>) {
    let group = FullEmpty::new(&pair.context, LIMIT).unwrap();
    let segment = group.segment::<u32>(pair.context.host(), PacketShape::new(ITEMS, ITEMS));
    let (segment, source) = (segment.unwrap(), pair.healthy.buffer::<u32>(ITEMS).unwrap());
    segment.fill(0, |items| items.fill(7)).unwrap();
    segment.fill_from(stream, 0, &source).unwrap();
    segment.read(0, |_| ()).unwrap_err();
    (segment, source)
}

#[test]
fn guarded_items_that_another_gpu_copies_into_are_refused() {
    in_child_with_two(
        concat!(module_path!(), "::guarded_items_that_another_gpu_copies_into_are_refused"),
        || {
            let (pair, stream) = Pair::open();
            let (segment, _source) = refilled(&pair, &stream);
            let items = pair.context.host().guarded::<u32>(ITEMS).unwrap();
            let cause = pair.fail(&stream.record().unwrap()).into();
            let of_device = |error| match error {
                super::Error::Device(error) => error,
                error => panic!("{error}"),
            };
            refused("a packet's items", &cause, || segment.read(0, |_| ()).map_err(of_device));
            refused("a packet", &cause, || segment.fill(0, |_| ()).map_err(of_device));
            refused("items", &cause, || items.read(0..1, |_| ()));
            refused("items to write", &cause, || items.write(0..1, |_| ()));
            pair.go.store(0, 1).unwrap();
        },
    );
}

/// A twin that waits for a word, and is at its items then.
fn writes() -> Kernel<(Guarded<u32>, Words)> {
    Kernel::<(Guarded<u32>, Words)>::of_step_closure("writes", |_, (items, words)| {
        if words.words()[0].load(Ordering::Acquire) == 0 {
            return Ok(Step::Waits);
        }
        let written = items.try_write(0..1, |items| items[0] = 1)?;
        written.map(|()| Step::Done).ok_or_else(|| KernelFault::new("somebody is at it"))
    })
}

#[test]
fn twins_that_run_on_are_refused_them_too() {
    in_child_with_two(concat!(module_path!(), "::twins_that_run_on_are_refused_them_too"), || {
        let (pair, stream) = Pair::open();
        let host = pair.context.host();
        let (items, word) = (host.guarded::<u32>(1).unwrap(), host.shared::<u32>(1).unwrap());
        let twins = host.stream().unwrap();
        writes().launch(&twins, 1, (&items, &word)).unwrap();
        let ended = twins.record().unwrap();
        let cause = pair.fail(&stream.record().unwrap());
        word.store(0, 1).unwrap();
        assert_eq!(ended.synchronize(), Err(cause));
        pair.go.store(0, 1).unwrap();
    });
}

/// An event that has failed says of a healthy GPU nothing: host code, and streams of the host that do
/// not fail themselves, have no use of what that is at.
#[test]
fn what_host_code_has_waited_for_in_vain_is_refused() {
    in_child_with_two(
        concat!(module_path!(), "::what_host_code_has_waited_for_in_vain_is_refused"),
        || {
            let (pair, stream) = Pair::open();
            let host = pair.context.host();
            let source = pair.healthy.buffer::<u32>(ITEMS).unwrap();
            let mut target = host.buffer::<u32>(ITEMS).unwrap();
            stream.copy(&source, &mut target).unwrap();
            let words = host.shared::<u32>(ITEMS).unwrap();
            stream.copy_to_shared(&source, &words, 0..ITEMS).unwrap();
            // Pinned: else the driver would wait for the copy.
            let mut own = host.buffer::<u32>(ITEMS).unwrap();
            let address = own.host_view_mut().unwrap().as_mut_ptr().expose_provenance();
            // SAFETY: the buffer keeps the items, and nobody else has it.
            let mut adopted = unsafe { host.adopt::<u32>(address, ITEMS, own) };
            stream.copy(&source, &mut adopted).unwrap();
            let (another, waits) = (host.stream().unwrap(), host.stream().unwrap());
            let waiting = stream.record().unwrap();
            waits.wait(&waiting).unwrap();
            let cause = pair.fail(&waiting);
            let all = cause.clone().into();
            refused("a view", &all, || target.host_view().map(<[u32]>::len));
            refused("a view of its own", &all, || adopted.host_view().map(<[u32]>::len));
            refused("a word", &all, || words.load(0));
            refused("a stream of the host", &all, || another.fill(&mut target, 1));
            // Goes on where one ended that came after the copy.
            let place = format!("{waits:?}");
            drop(waits);
            // Those that take another place keep it.
            let mut others = Vec::new();
            let start = Instant::now();
            let next = loop {
                assert!(start.elapsed() < SOON, "the place is never free");
                match host.stream().unwrap() {
                    next if format!("{next:?}") == place => break next,
                    other => others.push(other),
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            refused("a successor", &all, || next.fill(&mut target, 1));
            pair.go.store(0, 1).unwrap();
        },
    );
}
