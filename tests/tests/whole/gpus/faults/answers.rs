//! Answers of the driver that are no fault of a kernel, which emulated GPUs give when asked: whoever
//! waits hears of them too.

use std::time::{Duration, Instant};

use millstream::device::{DeviceBuffer, DeviceSet, LinkKind, SharedBuffer, Stream, StreamKind};
use millstream::flow::{Buffers, Graph};

use super::super::child::in_child_with;
use super::super::{Needs, scaled, skip};
use super::{Context, LIMIT, builder, culprit, fails_everywhere, kernel, refused};

/// What asks for answers.
pub(super) const ANSWERS: &str = "MILLSTREAM_EMULATOR_ANSWERS";

/// Whether GPUs answer as they are asked to.
pub(super) fn can_ask() -> bool {
    let can = scaled(false, true) && super::list().to_string().contains("cuda");
    if !can {
        skip(Needs::Emulation, "real GPUs do not answer as they are asked to");
    }
    can
}

fn in_child_asked(case: &str, answers: &str, body: impl FnOnce()) {
    in_child_with(case, LIMIT, &[(ANSWERS, answers)], body);
}

/// A stream that is asked whether it is alive; its kernel would take longer than the child may.
#[test]
fn a_stream_that_answers_something_new() {
    if !can_ask() {
        return;
    }
    let case = concat!(module_path!(), "::a_stream_that_answers_something_new");
    in_child_asked(case, "cuStreamQuery=CUDA_ERROR_DEVICE_UNAVAILABLE@20", || {
        let context = builder().build().unwrap();
        let results = context.host().buffer::<u32>(4).unwrap();
        assert_eq!(results.host_view().unwrap().len(), 4);
        let cause = fails_everywhere(&context, |device, stop| {
            let stream = device.stream()?;
            kernel("waits", 1).launch(&stream, 1, (&stop, 120_000))?;
            Ok(stream.record()?)
        });
        assert!(cause.to_string().contains("a kernel or a copy failed"), "{cause}");
        refused("a stream", &cause, || culprit(&context).stream());
        refused("quiescence", &cause, || context.device_set().quiesce());
        // Another GPU may still write there.
        refused("a view", &cause, || results.host_view().map(<[u32]>::len));
    });
}

/// The event of a copy, which is asked for.
#[test]
fn an_event_that_answers_something_new() {
    if !can_ask() {
        return;
    }
    let case = concat!(module_path!(), "::an_event_that_answers_something_new");
    in_child_asked(case, "cuEventQuery=CUDA_ERROR_MPS_RPC_FAILURE", || {
        let context = builder().build().unwrap();
        let cause = fails_everywhere(&context, |device, _| {
            let stream = device.stream_of(StreamKind::Copy)?;
            let buffer = stream.uploaded(vec![1u32; 1000])?;
            let event = stream.record()?;
            drop(buffer);
            Ok(event)
        });
        assert!(cause.to_string().contains("CUDA_ERROR_MPS_RPC_FAILURE"), "{cause}");
        refused("a stream", &cause, || culprit(&context).stream());
    });
}

/// The stream that a thread of a host device waits for.
#[test]
fn a_copy_of_a_host_device_that_answers_something_new() {
    if !can_ask() {
        return;
    }
    let case = concat!(module_path!(), "::a_copy_of_a_host_device_that_answers_something_new");
    in_child_asked(case, "cuStreamQuery=CUDA_ERROR_MPS_RPC_FAILURE", || {
        let list = "cuda:0,host:1".parse().unwrap();
        let set = DeviceSet::builder().devices(list).build().unwrap();
        let [gpu, host] = set.devices() else { panic!("two devices") };
        let from = gpu.buffer::<u32>(1000).unwrap();
        let start = Instant::now();
        let cause = host.stream().unwrap().download(&from).unwrap().wait().unwrap_err();
        assert!(cause.to_string().contains("CUDA_ERROR_MPS_RPC_FAILURE"), "{cause}");
        refused("a stream", &cause.clone().into(), || gpu.stream());
        assert!(start.elapsed() < super::AT_ONCE, "{:?}", start.elapsed());
    });
}

/// Asked for a stream later, the driver would refuse that instead.
#[test]
fn a_lane_without_pinned_memory_has_asked_for_no_stream() {
    if !can_ask() {
        return;
    }
    let case = concat!(module_path!(), "::a_lane_without_pinned_memory_has_asked_for_no_stream");
    // The first stream is that of the pool of memory.
    let answers = "cuMemHostAlloc=CUDA_ERROR_OUT_OF_MEMORY,cuStreamCreate=CUDA_ERROR_CONTAINED@2";
    in_child_asked(case, answers, || {
        let error = DeviceSet::builder().devices("cuda:0".parse().unwrap()).build().unwrap_err();
        assert!(error.to_string().contains("cuMemHostAlloc"), "{error}");
    });
}

/// Behind what only the host ends, where whoever records the event has long gone on: it fails, but
/// nobody knows when what it comes after is over.
#[test]
fn an_event_that_cannot_be_recorded_any_more() {
    if !can_ask() {
        return;
    }
    let case = concat!(module_path!(), "::an_event_that_cannot_be_recorded_any_more");
    in_child_asked(case, "cuEventCreate=CUDA_ERROR_OUT_OF_MEMORY", || {
        let context = builder().build().unwrap();
        let (set, device, go) = (context.device_set(), culprit(&context), go(&context));
        let promise = set.promise("the host");
        let stream = device.stream().unwrap();
        stream.wait(promise.event()).unwrap();
        let target = behind(&context, &stream, &go);
        let event = stream.record().unwrap();
        promise.complete(Ok(()));
        let cause = event.synchronize().unwrap_err();
        assert!(cause.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY"), "{cause}");
        refused("a view", &cause.into(), || target.host_view().map(<[u32]>::len));
        go.store(0, 1).unwrap();
    });
}

/// The stream fails, and comes after the event all the same: so does the one that takes its place.
#[test]
fn an_event_that_a_stream_cannot_wait_for() {
    if !can_ask() {
        return;
    }
    let case = concat!(module_path!(), "::an_event_that_a_stream_cannot_wait_for");
    in_child_asked(case, "cuStreamWaitEvent=CUDA_ERROR_OUT_OF_MEMORY", || {
        let context = builder().build().unwrap();
        let (device, go) = (culprit(&context), go(&context));
        let stream = device.stream().unwrap();
        let _target = behind(&context, &stream, &go);
        let event = stream.record().unwrap();
        let waits = device.stream_of(StreamKind::Copy).unwrap();
        let cause = waits.wait(&event).unwrap_err();
        assert!(cause.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY"), "{cause}");
        let place = format!("{waits:?}");
        drop(waits);
        let is_free = || format!("{:?}", device.stream_of(StreamKind::Copy).unwrap()) == place;
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(100) {
            assert!(!is_free() && !event.is_complete());
        }
        go.store(0, 1).unwrap();
        event.synchronize().unwrap();
        while !is_free() {
            assert!(start.elapsed() < LIMIT, "{place} is never free");
        }
    });
}

fn go(context: &Context) -> SharedBuffer<u32> {
    context.host().shared(1).unwrap()
}

/// A kernel that runs until it is told to go, and a copy to the host behind it.
fn behind(context: &Context, stream: &Stream, go: &SharedBuffer<u32>) -> DeviceBuffer<u32> {
    kernel("waits", 1).launch(stream, 1, (go, 50_000)).unwrap();
    let source = stream.device().buffer::<u32>(100).unwrap();
    let mut target = context.host().buffer(100).unwrap();
    stream.copy(&source, &mut target).unwrap();
    target
}

/// A GPU may have few peers, which it says only when one more is asked for.
#[test]
fn a_gpu_with_too_many_peers() {
    if !can_ask() {
        return;
    }
    if super::super::list().len() < 2 {
        return skip(Needs::Several, "a GPU alone has no peers");
    }
    let case = concat!(module_path!(), "::a_gpu_with_too_many_peers");
    in_child_asked(case, "cuCtxEnablePeerAccess=CUDA_ERROR_TOO_MANY_PEERS", || {
        let context = builder().build().unwrap();
        let topology = context.topology();
        assert_eq!(topology.link(0, 1), LinkKind::Host);
        assert!(!topology.are_peers(0, 1));
        let [from, to] = [0, 1].map(|place| context.devices()[place].clone());
        let graph = Graph::new(&context);
        let buffers = Buffers::items(1000);
        let (mut output, mut input) = graph.link::<u32>(&from, &to, buffers).unwrap();
        let items: Vec<u32> = (0..5000).collect();
        let sent = items.clone();
        graph.spawn(async move {
            let stream = from.stream()?;
            let buffer = stream.uploaded(sent)?;
            output.send_from(&buffer, &stream, 0)?.await?;
            output.shutdown()
        });
        let received = context.block_on(graph.run(async move {
            let (stream, mut received) = (to.stream()?, Vec::new());
            while let Some(pending) = input.recv().await? {
                stream.wait(&pending)?;
                let items = stream.download(pending.part()?)?;
                pending.release_after(&stream)?;
                received.extend(items.await?);
            }
            Ok::<_, millstream::flow::Error>(received)
        }));
        assert_eq!(received.unwrap().unwrap(), items);
    });
}
