//! Answers of the driver that are no fault of a kernel, which emulated GPUs give when asked: whoever
//! waits hears of them too.

use std::time::Instant;

use millstream::device::{DeviceSet, StreamKind};

use super::super::child::in_child_with;
use super::super::{Needs, scaled, skip};
use super::{LIMIT, builder, culprit, fails_everywhere, kernel, refused};

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
