//! What does not open, or is refused for want of something: the error says what to do. Emulated GPUs
//! refuse when asked to.

use millstream::device::{DeviceSet, Tell, gpu_count, gpu_fault};

use super::super::child::in_child_with;
use super::super::telling::{ITEMS, TELLS};
use super::answers::{ANSWERS, can_ask};
use super::{LIMIT, kernel, works};

/// For each of these answers, of a driver in a process of its own, the error of `attempt` has the
/// text beside it.
fn say(case: &str, texts: &[(&str, &str)], attempt: fn() -> String) {
    if !can_ask() {
        return;
    }
    for (asked, _) in texts {
        in_child_with(case, LIMIT, &[(ANSWERS, asked)], || {
            let asked = std::env::var(ANSWERS).unwrap();
            let (_, text) = texts.iter().find(|(known, _)| *known == asked).unwrap();
            let said = attempt();
            println!("{asked}: {said}");
            assert!(said.contains(text), "{text} is not in {said}");
        });
    }
}

fn open() -> millstream::device::Result<DeviceSet> {
    DeviceSet::builder().devices("cuda:0".parse().unwrap()).build()
}

fn opening() -> String {
    open().unwrap_err().to_string()
}

#[test]
fn a_driver_that_does_not_start() {
    let case = concat!(module_path!(), "::a_driver_that_does_not_start");
    let texts = [
        ("cuInit=CUDA_ERROR_SYSTEM_NOT_READY", "start nvidia-fabricmanager"),
        ("cuInit=CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "restart the machine"),
        ("cuInit=CUDA_ERROR_STUB_LIBRARY", "take its folder out of LD_LIBRARY_PATH"),
        ("cuInit=CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"),
    ];
    say(case, &texts, || {
        assert_eq!(gpu_count(), 0);
        opening()
    });
}

#[test]
fn a_gpu_that_others_have() {
    let case = concat!(module_path!(), "::a_gpu_that_others_have");
    let texts = [
        ("cuDevicePrimaryCtxRetain=CUDA_ERROR_OUT_OF_MEMORY", "nvidia-smi shows which processes"),
        ("cuDevicePrimaryCtxRetain=CUDA_ERROR_DEVICE_UNAVAILABLE", "compute mode"),
        ("cuStreamCreate=CUDA_ERROR_OUT_OF_MEMORY", "nvidia-smi shows which processes"),
    ];
    say(case, &texts, opening);
}

#[test]
fn a_kernel_without_room() {
    let case = concat!(module_path!(), "::a_kernel_without_room");
    let texts = [
        ("cuModuleLoadData=CUDA_ERROR_OUT_OF_MEMORY", "nvidia-smi shows which processes"),
        ("cuLaunchKernel=CUDA_ERROR_OUT_OF_MEMORY", "nvidia-smi shows which processes"),
    ];
    say(case, &texts, || {
        let set = open().unwrap();
        let stop = set.host().shared::<u32>(1).unwrap();
        let stream = set.devices()[0].stream().unwrap();
        kernel("waits", 1).launch(&stream, 1, (&stop, 0)).unwrap_err().to_string()
    });
}

/// Left to a thread: its stream fails, and nothing else does.
#[test]
fn a_kernel_that_would_tell() {
    let case = concat!(module_path!(), "::a_kernel_that_would_tell");
    let texts = [("cuLaunchKernel=CUDA_ERROR_OUT_OF_MEMORY", "nvidia-smi shows which processes")];
    say(case, &texts, || {
        let set = open().unwrap();
        let device = &set.devices()[0];
        TELLS.prepare(device, 1).unwrap();
        let stream = device.stream().unwrap();
        let mut items = device.buffer(ITEMS).unwrap();
        let refused = TELLS.bind(&stream, 1, (&mut items, Tell)).unwrap();
        let over = refused.submit_soon_with_completion();
        let error = over.and_then(|over| set.block_on(over).unwrap()).unwrap_err();
        assert!(stream.check().is_err());
        works(device);
        set.quiesce().unwrap();
        error.to_string()
    });
}

/// What is over went well, whatever is refused after it.
#[test]
fn an_event_before_a_kernel_that_is_refused() {
    let case = concat!(module_path!(), "::an_event_before_a_kernel_that_is_refused");
    let texts = [("cuLaunchKernel=CUDA_ERROR_OUT_OF_MEMORY", "nvidia-smi shows which processes")];
    say(case, &texts, || {
        let set = open().unwrap();
        let (device, stop) = (&set.devices()[0], set.host().shared::<u32>(1).unwrap());
        let kernel = kernel("waits", 1);
        kernel.prepare(device, 1).unwrap();
        let (stream, mut bytes) = (device.stream().unwrap(), device.buffer(200 << 20).unwrap());
        // It takes a while.
        stream.fill(&mut bytes, 7u8).unwrap();
        let (before, downloaded) =
            (stream.record().unwrap(), stream.download(bytes.part(0..3).unwrap()).unwrap());
        let refused = kernel.launch(&stream, 1, (&stop, 0)).unwrap_err().to_string();
        assert!(!before.is_complete(), "it must be over later than the refusal");
        set.block_on(before.completed()).unwrap().unwrap();
        assert_eq!(set.block_on(downloaded).unwrap().unwrap(), [7; 3]);
        assert!(stream.record().is_err());
        refused
    });
}

/// Although this process has nothing.
#[test]
fn memory_that_others_have() {
    let case = concat!(module_path!(), "::memory_that_others_have");
    let text = "100000 bytes requested, 0 of 4294967296 in use here, 4294967296 free for all";
    say(case, &[("cuMemAlloc=CUDA_ERROR_OUT_OF_MEMORY", text)], || {
        open().unwrap().devices()[0].buffer::<u8>(100_000).unwrap_err().to_string()
    });
}

#[test]
fn a_driver_that_is_too_old() {
    if !can_ask() {
        return;
    }
    let case = concat!(module_path!(), "::a_driver_that_is_too_old");
    in_child_with(case, LIMIT, &[("MILLSTREAM_EMULATED_VERSION", "12030")], || {
        let text = "it is a driver for CUDA 12.3; install one for CUDA 12.4 or later";
        assert!(opening().contains(text), "{}", opening());
        assert!(gpu_fault().unwrap().to_string().contains(text));
        assert_eq!(gpu_count(), 0);
    });
}

/// A driver that does not load what this compiler makes, nor what it has made before.
#[test]
fn a_driver_older_than_the_compiler() {
    if !can_ask() {
        return;
    }
    let case = concat!(module_path!(), "::a_driver_older_than_the_compiler");
    const VERSION: &str = "MILLSTREAM_EMULATED_VERSION";
    let cache = ("MILLSTREAM_CACHE", env!("CARGO_TARGET_TMPDIR"));
    let launch = || {
        let set = open().unwrap();
        let stop = set.host().shared::<u32>(1).unwrap();
        let launched =
            kernel("waits", 1).launch(&set.devices()[0].stream().unwrap(), 1, (&stop, 0));
        if std::env::var_os(VERSION).is_none() {
            return launched.unwrap();
        }
        let error = launched.unwrap_err().to_string();
        let text = "the driver is for CUDA 12.4, and does not load what NVRTC 13.";
        assert!(error.contains(text), "{error}");
        assert!(error.contains("MILLSTREAM_NVRTC"), "{error}");
    };
    in_child_with(case, LIMIT, &[cache], launch);
    in_child_with(case, LIMIT, &[cache, (VERSION, "12040")], launch);
}

/// The driver reads a variable when it starts.
#[test]
fn a_driver_that_was_not_told_how_many_queues() {
    if !super::list().to_string().contains("cuda") {
        return super::skip(super::Needs::More, "host devices have no driver");
    }
    let case = concat!(module_path!(), "::a_driver_that_was_not_told_how_many_queues");
    const NAME: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
    for value in ["", "12"] {
        in_child_with(case, LIMIT, &[(NAME, value)], || {
            let set = open().unwrap();
            let is_told = std::env::var(NAME).unwrap() == "12";
            let warned = set.warnings().iter().any(|warning| warning.contains(NAME));
            assert_eq!(warned, !is_told, "{:?}", set.warnings());
        });
    }
}
