//! GPUs beside the host: streams that wait for what only the host can end, for which
//! nothing else may wait, neither in the driver nor here; worklists that the host drives.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use millstream::device::{
    CudaSource, Device, DeviceSet, Error, Event, InjectedFault, Injection, Kernel, KernelFault,
    KernelResult, Stream, StreamKind, Trusted, Value, Write,
};
use millstream::flow::{self, Buffers, Context, Devices, Graph, Receiver, Sender};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::partition;
use millstream::sssp::Delta;
use millstream::worklist::{Routing, Worker};

use super::{context, list, runs, scaled, set};
use crate::sssp;

/// Long enough for a kernel to be compiled.
const LONG: Duration = Duration::from_secs(20);

/// An operation of the host that ends as the sender says.
fn gate(stream: &Stream) -> mpsc::Sender<KernelResult> {
    let (open, opened) = mpsc::channel();
    let opened = Mutex::new(opened);
    let gate = Kernel::<(Value<u32>,)>::from_closure("gate", move |_, _| {
        let opened = opened.lock().map_err(|error| KernelFault::new(error.to_string()))?;
        opened.recv().unwrap_or(Ok(()))
    });
    gate.launch(stream, 1, (0,)).unwrap();
    open
}

/// Adds to every item; each text is a module of its own.
const fn add(name: &'static str, text: &'static str) -> Kernel<(Write<u32>, Value<u32>)> {
    Kernel::with_source(
        name,
        // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
        unsafe { Trusted::new(CudaSource::new("add.cu", name, text)) },
        |_, (items, number)| {
            items.iter_mut().for_each(|item| *item += number);
            Ok(())
        },
    )
}

macro_rules! adding {
    ($name:literal) => {
        add(
            $name,
            concat!(
                "#include \"span.cuh\"\nusing namespace millstream;\n",
                "extern \"C\" __global__ void ",
                $name,
                "(Span<u32> items, u32 number) {\n",
                "    for (u64 at = thread_in_grid(); at < items.len; at += threads_in_grid())\n",
                "        items[at] += number;\n}\n"
            ),
        )
    };
}

/// A stream of `device` behind a closed gate of the host, which copies from the
/// device once it is open.
fn held_up(set: &DeviceSet, device: &Device) -> (mpsc::Sender<KernelResult>, Stream) {
    let source = device.buffer::<u32>(1000).unwrap();
    let mut target = set.host().buffer::<u32>(1000).unwrap();
    let host = set.host().stream().unwrap();
    let open = gate(&host);
    host.copy(&source, &mut target).unwrap();
    let stream = device.stream().unwrap();
    stream.wait(&host.record().unwrap()).unwrap();
    (open, stream)
}

/// Runs `work` on a thread of its own while the gate is closed.
fn beside<R: Send + 'static>(what: &str, work: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    ended.recv_timeout(LONG).unwrap_or_else(|_| panic!("{what} waits for the host"))
}

#[test]
fn loading_a_kernel_does_not_wait_for_the_host() {
    // Host devices of the list need a thread beside the one at the gate.
    let set = DeviceSet::builder().devices(list()).threads(2).build().unwrap();
    for device in set.devices() {
        let (open, stream) = held_up(&set, device);
        let mut behind = device.buffer::<u32>(1000).unwrap();
        adding!("behind_the_gate").launch(&stream, 1000, (&mut behind, 3)).unwrap();
        let waiting = stream.record().unwrap();
        let (set_beside, device_beside) = (set.clone(), device.clone());
        let items = beside("a kernel of another stream", move || {
            let stream = device_beside.stream_of(StreamKind::HighPriority)?;
            let mut items = device_beside.buffer::<u32>(1000)?;
            adding!("beside_the_gate").launch(&stream, 1000, (&mut items, 7))?;
            set_beside.block_on(stream.download(&items)?)?
        });
        assert_eq!(items.unwrap(), [7; 1000], "{device}");
        assert!(!waiting.is_complete(), "{device}");
        open.send(Ok(())).unwrap();
        let items = set.block_on(stream.download(&behind).unwrap()).unwrap().unwrap();
        assert_eq!(items, [3; 1000], "{device}");
    }
}

#[test]
fn a_large_upload_does_not_wait_for_the_host() {
    // Host devices of the list need a thread beside the one at the gate.
    let set = DeviceSet::builder().devices(list()).threads(2).build().unwrap();
    for device in set.devices() {
        let (open, stream) = held_up(&set, device);
        let items: Vec<u32> = (0..100 << 18).collect();
        let mut made = device.buffer::<u32>(items.len()).unwrap();
        let (stream, buffers) = beside("a large upload", move || {
            let buffer = stream.uploaded(items).unwrap();
            let make = |first, to: &mut [u32]| {
                (first as u32..).zip(to).for_each(|(at, item)| *item = at);
            };
            stream.upload_made(&mut made, make).unwrap();
            (stream, [buffer, made])
        });
        open.send(Ok(())).unwrap();
        for buffer in buffers {
            let found = set.block_on(stream.download(&buffer).unwrap()).unwrap().unwrap();
            assert!(found.into_iter().eq(0..100 << 18), "{device}");
        }
    }
}

/// Events of GPUs that are not recorded before the gate opens order all devices.
#[test]
fn a_chain_of_all_devices_behind_the_host() {
    let set = set();
    let host = set.host().stream().unwrap();
    for round in 0..20 {
        let open = gate(&host);
        let mut last: Event = host.record().unwrap();
        let mut numbers = set.host().buffer::<u32>(1000).unwrap();
        for device in set.devices().iter().chain(set.devices()) {
            let stream = device.stream().unwrap();
            stream.wait(&last).unwrap();
            let mut here = device.buffer::<u32>(1000).unwrap();
            stream.copy(&numbers, &mut here).unwrap();
            adding!("next_of_chain").launch(&stream, 1000, (&mut here, 1)).unwrap();
            stream.copy(&here, &mut numbers).unwrap();
            last = stream.record().unwrap();
        }
        assert!(!last.is_complete());
        let whole = set.clone();
        let quiesced = std::thread::spawn(move || whole.quiesce());
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        open.send(Ok(())).unwrap();
        quiesced.join().unwrap().unwrap();
        assert!(last.is_complete());
        host.wait(&last).unwrap();
        let numbers = set.block_on(host.download(&numbers).unwrap()).unwrap().unwrap();
        assert_eq!(numbers, [2 * set.devices().len() as u32; 1000], "round {round}");
    }
}

#[test]
fn a_failure_of_the_host_fails_who_waits_for_it() {
    let set = set();
    for device in set.devices() {
        let (open, stream) = held_up(&set, device);
        let mut behind = device.buffer::<u32>(1000).unwrap();
        stream.fill(&mut behind, 9).unwrap();
        let event = stream.record().unwrap();
        let after = device.stream().unwrap();
        after.wait(&event).unwrap();
        open.send(Err(KernelFault::new("the gate broke"))).unwrap();
        // Where the failure is known already, there is nothing to record.
        let recorded = |event: Event| set.block_on(event.completed()).unwrap();
        for result in [recorded(event), after.record().and_then(recorded)] {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::KernelFailed { .. }), "{device}: {error}");
            assert!(error.to_string().contains("the gate broke"), "{device}: {error}");
        }
        let error = stream.fill(&mut behind, 9).unwrap_err();
        assert!(error.to_string().contains("the gate broke"), "{device}: {error}");
        // Another stream, of the same lane sooner or later, is not concerned.
        for _ in 0..8 {
            let stream = device.stream().unwrap();
            let mut buffer = device.buffer::<u32>(1000).unwrap();
            stream.fill(&mut buffer, 4).unwrap();
            let items = set.block_on(stream.download(&buffer).unwrap()).unwrap().unwrap();
            assert_eq!(items, [4; 1000], "{device}");
        }
    }
}

/// Small messages and large ones, out of buffers that a stream has filled.
async fn send(mut output: Sender<u32>) -> flow::Result<()> {
    let stream = output.device().stream()?;
    for turn in 0..10 {
        let mut buffer = output.buffer([10, 40_000][turn % 2]).await?;
        stream.fill(buffer.part_mut()?, turn as u32)?;
        output.send(buffer, &stream)?;
    }
    output.shutdown()
}

async fn receive(mut input: Receiver<u32>) -> flow::Result<()> {
    let stream = input.device().stream()?;
    while let Some(pending) = input.recv().await? {
        stream.wait(&pending)?;
        pending.release_after(&stream)?;
    }
    Ok(())
}

/// Links in all directions, while operations of host devices take their time and one operation
/// fails: whoever submits packets, or hears of failures and of free buffers, waits for nobody.
#[test]
fn links_end_whatever_fails() {
    let _keeps_the_gpus = context();
    // Kernels copy only between some devices.
    let operations = ["copy", "fill", "copy by kernel"];
    let mut failures = [0; 3];
    for seed in 0..scaled(60, 24) {
        let operation = operations[seed as usize % 3];
        let fault = InjectedFault::new(operation).occurrence(seed * 7 % 50);
        let delay = Some(Duration::from_micros(1)..=Duration::from_micros(300));
        let injection = Injection { seed, delay, faults: vec![fault], ..Injection::default() };
        let devices = Devices::List(list());
        let context = Context::builder().devices(devices).injection(injection).build().unwrap();
        let ended = beside("a graph", move || {
            let graph = Graph::new(&context);
            let endpoints: Vec<_> = context.devices().iter().chain([context.host()]).collect();
            for (from, to) in
                endpoints.iter().flat_map(|from| endpoints.iter().map(move |to| (from, to)))
            {
                if from != to {
                    let (output, input) = graph.link(from, to, Buffers::items(30_000))?;
                    graph.spawn(send(output));
                    graph.spawn(receive(input));
                }
            }
            context.block_on(graph.run(async { Ok::<_, flow::Error>(()) }))?
        });
        if let Err(error) = ended {
            let expected = format!("injected failure of {operation} ");
            assert!(error.to_string().contains(&expected), "{seed}: {error}");
            failures[seed as usize % 3] += 1;
        }
    }
    assert!(failures[..2].iter().all(|&failures| failures > 0), "{failures:?} of {operations:?}");
}

/// Packets and queues that are always too small: a packet takes a few of the items that
/// a sweep of the outbox finds, while kernels beside it queue them again. An item that
/// is counted twice keeps the run from ending.
#[test]
fn sweeps_beside_producers_lose_no_count() {
    let context = context();
    let options = GenerateOptions { seed: 1, max_weight: Some(1000) };
    let graph = generate::kron(scaled(10, 6), 16, &options).unwrap();
    let parts = partition::contiguous_blocks(&graph, context.devices().len());
    for round in 0..runs(2) {
        let mut options = sssp::tiny();
        options.worklist.worker = Worker::HostDriven;
        options.worklist.routing = [Routing::Ring, Routing::Direct][round as usize % 2];
        options.delta = Delta::Off;
        let result = sssp::run(&context, &graph, parts.clone(), options, &[0]).unwrap();
        sssp::check(&format!("round {round}"), &graph, &[0], &result);
    }
}
