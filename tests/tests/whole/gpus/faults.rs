//! What a fault does: its first cause reaches every pending call on all devices
//! and links, nothing hangs, and the process can end. Each case has a process of
//! its own.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use millstream::device::{
    CudaSource, Device, Event, InjectedFault, Injection, Kernel, KernelFault, Shared, SharedBuffer,
    Trusted, Value,
};
use millstream::flow::{Buffers, Context, Devices, Error, Graph, Receiver, Result, Sender};

use super::child::in_child;
use super::{Needs, is_gpu, list, scaled, skip};

mod answers;
mod arguments;
mod collectives;
mod counters;
mod links;
mod others;
mod ranks;
mod refusals;
mod rounds;

/// Longer than any case may take: opening a GPU takes a second.
const LIMIT: Duration = Duration::from_secs(60);
/// A call that meets a known failure does not wait for anything.
const AT_ONCE: Duration = Duration::from_secs(1);

const SOURCE: &str = r#"
#include "span.cuh"
using namespace millstream;
__device__ u64 nanoseconds() {
    u64 time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}
// Until the first word is set, or the time is over.
__device__ void wait(Span<u32> stop, u32 milliseconds) {
    const u64 deadline = nanoseconds() + u64(milliseconds) * 1000000;
    while (load_relaxed_sys(stop.items) == 0 && nanoseconds() < deadline) __nanosleep(1000);
}
extern "C" __global__ void waits(Span<u32> stop, u32 milliseconds) { wait(stop, milliseconds); }
extern "C" __global__ void traps(Span<u32> stop, u32 milliseconds) {
    wait(stop, milliseconds);
    asm volatile("trap;");
}
extern "C" __global__ void strays(Span<u32> stop, u32 milliseconds) {
    wait(stop, milliseconds);
    // Far from any allocation.
    store_relaxed_sys(reinterpret_cast<u32*>(u64(1) << 46), 1u);
}
"#;

type Signature = (Shared<u32>, Value<u32>);

/// A kernel that waits, and then does what a fault is.
fn kernel(name: &'static str, threads: u32) -> Kernel<Signature> {
    let source = CudaSource::new("faults.cu", name, SOURCE).blocks(1).threads(threads);
    let twin = move |_: &millstream::device::Grid, (stop, milliseconds): (&[_], u32)| {
        let stop: &std::sync::atomic::AtomicU32 = &stop[0];
        let deadline = Instant::now() + Duration::from_millis(milliseconds.into());
        while stop.load(std::sync::atomic::Ordering::Acquire) == 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if name == "waits" { Ok(()) } else { Err(KernelFault::new("a fault on purpose")) }
    };
    Kernel::from_closure(name, twin).with_cuda(
        // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
        unsafe { Trusted::new(source) },
    )
}

fn builder() -> millstream::flow::ContextBuilder {
    Context::builder().devices(Devices::List(list()))
}

/// The device that fails: a GPU where there is one.
fn culprit(context: &Context) -> Device {
    let devices = context.devices();
    devices.iter().find(|device| is_gpu(device)).unwrap_or(&devices[0]).clone()
}

/// What each pending call ended with.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<(String, String)>>>);

impl Calls {
    async fn watch<T>(self, call: String, future: impl Future<Output = Result<T>>) -> Result<()> {
        let result = future.await;
        let ended = result.as_ref().err().map_or("no error".to_string(), Error::to_string);
        self.0.lock().unwrap().push((call, ended));
        result.map(drop)
    }

    /// Every call ended with the cause.
    fn check(&self, count: usize, cause: &Error) {
        let calls = self.0.lock().unwrap();
        println!("{} calls ended with: {cause}", calls.len());
        assert_eq!(calls.len(), count, "{:?}", *calls);
        for (call, ended) in calls.iter() {
            assert_eq!(*ended, cause.to_string(), "{call}");
        }
    }
}

/// Both ends of a link that nothing goes through.
type Idle = (Sender<u32>, Receiver<u32>);

/// A task for each way to wait, on every device and its links: for a packet, for
/// a buffer, for a kernel that comes after the fault. Returns how many.
fn wait_everywhere(context: &Context, graph: &Graph, calls: &Calls, idle: &mut Vec<Idle>) -> usize {
    let buffers = Buffers::items(10).count(1);
    for device in context.devices() {
        let (feed, mut input) = graph.link::<u32>(context.host(), device, buffers).unwrap();
        let call = format!("a packet for {device}");
        let waits = async move { input.recv().await };
        graph.spawn(calls.clone().watch(call, waits));
        let (mut output, results) = graph.link::<u32>(device, context.host(), buffers).unwrap();
        let (call, stream) = (format!("a buffer of {device}"), device.stream().unwrap());
        let waits = async move {
            loop {
                let buffer = output.buffer(10).await?;
                output.send(buffer, &stream)?;
            }
            #[expect(unreachable_code)]
            Ok(())
        };
        graph.spawn(calls.clone().watch(call, waits));
        idle.push((feed, results));
    }
    2 * context.devices().len()
}

async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs `fail` on one device while all devices wait, and checks that everybody
/// hears of it; the cause.
fn fails_everywhere(
    context: &Context,
    fail: impl FnOnce(&Device, SharedBuffer<u32>) -> Result<Event>,
) -> Error {
    let (graph, calls, mut idle) = (Graph::new(context), Calls::default(), Vec::new());
    let count = wait_everywhere(context, &graph, &calls, &mut idle);
    let culprit = culprit(context);
    let stop = context.host().shared::<u32>(1).unwrap();
    let failed = fail(&culprit, stop);
    // Every device waits for the culprit, and the host for every device.
    let waiting: Vec<_> = match &failed {
        Ok(event) => context.devices().iter().map(|device| wait_for(event, device)).collect(),
        Err(_) => Vec::new(),
    };
    let start = Instant::now();
    let main = async move {
        // The others wait before the cause is known.
        yield_once().await;
        failed?.completed().await?;
        Ok::<(), Error>(())
    };
    let cause = context.block_on(graph.run(main)).unwrap().unwrap_err();
    println!("{culprit} failed after {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(10));
    calls.check(count, &cause);
    for event in waiting {
        // A device that knew of the fault by then refused to wait.
        refused("what waits", &cause, || event?.synchronize());
    }
    cause
}

/// An event of `device` behind one of another.
fn wait_for(event: &Event, device: &Device) -> millstream::device::Result<Event> {
    let stream = device.stream()?;
    stream.wait(event)?;
    stream.record()
}

/// A call after the fault: refused at once, with the first cause.
fn refused<T>(what: &str, cause: &Error, call: impl FnOnce() -> millstream::device::Result<T>) {
    let start = Instant::now();
    let error = call().err().map(|error| error.to_string());
    assert_eq!(error, Some(cause.to_string()), "{what}");
    assert!(start.elapsed() < AT_ONCE, "{what} took {:?}", start.elapsed());
}

/// A kernel that faults; then nothing runs on GPUs any more, and host devices go
/// on.
fn faulting_kernel(name: &'static str) {
    let context = builder().build().unwrap();
    let kernel = kernel(name, 1);
    let cause = fails_everywhere(&context, |device, stop| {
        let stream = device.stream()?;
        // Emulated GPUs' clocks are slow.
        kernel.launch(&stream, 1, (&stop, scaled(200, 4)))?;
        Ok(stream.record()?)
    });
    let has_gpu = is_gpu(&culprit(&context));
    assert!(!has_gpu || cause.to_string().contains("CUDA_ERROR_"), "{cause}");
    for device in context.devices() {
        if is_gpu(device) {
            refused("a stream", &cause, || device.stream());
            refused("a buffer", &cause, || device.buffer::<u32>(100));
            refused("host memory", &cause, || context.host().buffer::<u32>(100));
            refused("quiescence", &cause, || context.device_set().quiesce());
        } else if !has_gpu {
            works(device);
        }
    }
}

/// A device still does what it is asked.
fn works(device: &Device) {
    let stream = device.stream().unwrap();
    let buffer = stream.uploaded(vec![1u32, 2, 3]).unwrap();
    assert_eq!(stream.download(&buffer).unwrap().wait().unwrap(), [1, 2, 3], "{device}");
}

#[test]
fn a_trap() {
    in_child(concat!(module_path!(), "::a_trap"), LIMIT, || faulting_kernel("traps"));
}

#[test]
fn a_stray_store() {
    if scaled(false, true) {
        return skip(
            Needs::More,
            "emulated kernels' accesses are those of the process, which dies of them",
        );
    }
    let case = concat!(module_path!(), "::a_stray_store");
    in_child(case, LIMIT, || faulting_kernel("strays"));
}

/// A block larger than any GPU's; on host devices an injected failure. Other
/// streams of the device go on.
#[test]
fn a_refused_launch() {
    in_child(concat!(module_path!(), "::a_refused_launch"), LIMIT, || {
        let has_host_device = list().to_string().contains("host");
        let faults = has_host_device.then(|| InjectedFault::new("waits").on("host:0"));
        let faults = Vec::from_iter(faults);
        let context = builder().injection(Injection { faults, ..Injection::default() });
        let context = context.build().unwrap();
        let kernel = kernel("waits", 2048);
        let cause = fails_everywhere(&context, |device, stop| {
            let stream = device.stream()?;
            kernel.launch(&stream, 1, (&stop, 0))?;
            Ok(stream.record()?)
        });
        let expected = if is_gpu(&culprit(&context)) { "CUDA_ERROR_" } else { "injected" };
        assert!(cause.to_string().contains(expected), "{cause}");
        context.devices().iter().for_each(works);
    });
}

/// More than the budget, and more than a GPU has; what was there stays.
#[test]
fn a_refused_allocation() {
    in_child(concat!(module_path!(), "::a_refused_allocation"), LIMIT, || {
        let too_much: usize = 1 << 40;
        // Host devices have all that the system promises: a budget limits them.
        let budgets: &[u64] = match list().to_string().contains("host") {
            true => &[1 << 24],
            false => &[1 << 24, 1 << 50],
        };
        for &budget in budgets {
            let context = builder().memory_budget(budget).build().unwrap();
            let before = context.devices()[0].memory().in_use;
            let cause = fails_everywhere(&context, |device, _| {
                let stream = device.stream()?;
                let _ = device.buffer::<u8>(too_much)?;
                Ok(stream.record()?)
            });
            let text = cause.to_string();
            assert!(text.contains("1099511627776 bytes requested"), "{text}");
            context.device_set().quiesce().unwrap();
            context.devices().iter().for_each(works);
            context.device_set().quiesce().unwrap();
            assert_eq!(context.devices()[0].memory().in_use, before);
        }
    });
}

/// A graph ends beside a kernel that does not, whose buffers stay until it does.
#[test]
fn a_graph_ends_before_its_kernel() {
    in_child(concat!(module_path!(), "::a_graph_ends_before_its_kernel"), LIMIT, || {
        let context = builder().build().unwrap();
        let device = culprit(&context);
        let before = device.memory().in_use;
        let stop = context.host().shared::<u32>(1).unwrap();
        let kernel = kernel("waits", 1);
        let graph = Graph::new(&context);
        let stream = device.stream().unwrap();
        let held = device.shared::<u32>(1000).unwrap();
        stream.fill_shared(&held, 0..1000, 0).unwrap();
        kernel.launch(&stream, 1, (&stop, 30_000)).unwrap();
        stream.fill_shared(&held, 0..1000, 0).unwrap();
        drop(held);
        graph.spawn(async move { Ok::<(), Error>(stream.completed()?.await?) });
        let start = Instant::now();
        let main = async { Err::<(), _>(Error::task(std::fmt::Error)) };
        assert!(context.block_on(graph.run(main)).unwrap().is_err());
        assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
        assert!(device.memory().in_use > before, "a buffer in use was freed");
        stop.store(0, 1).unwrap();
        context.device_set().quiesce().unwrap();
        while device.memory().in_use > before {
            assert!(start.elapsed() < Duration::from_secs(10), "a buffer is never freed");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// A process ends although a kernel of it does not.
#[test]
fn a_process_ends_before_its_kernel() {
    let case = concat!(module_path!(), "::a_process_ends_before_its_kernel");
    // The kernel would take longer than the child may.
    in_child(case, LIMIT, || {
        let context = builder().build().unwrap();
        let device = culprit(&context);
        let stop = context.host().shared::<u32>(1).unwrap();
        let stream = device.stream().unwrap();
        kernel("waits", 1).launch(&stream, 1, (&stop, 120_000)).unwrap();
        let event = stream.record().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(!event.is_complete());
    });
}
