//! What traces of the devices say, against what they did.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream::bfs::Bfs;
use millstream::device::{DeviceSet, StreamKind, Trace, TracedOperation};
use millstream::flow::{Context, Devices};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::reference;
use millstream::worklist::Worker;

use super::latency::HELD;
use super::links::MAKE;
use super::{is_gpu, levels, list, scaled};

/// Times of a GPU are known to half a microsecond, and compared with the host's to some more.
const TOLERANCE: Duration = Duration::from_micros(2);
const HELD_FOR: Duration = Duration::from_millis(20);

/// Emulated GPUs share processors, and begin late.
fn host_tolerance() -> Duration {
    scaled(Duration::from_millis(1), Duration::from_millis(15))
}

/// The name of the GPU, without that of a part of it.
fn physical(device: &str) -> &str {
    match device.starts_with("cuda") {
        true => device.split('.').next().unwrap(),
        false => device,
    }
}

/// On each lane one thing comes after the other.
fn check_lanes(log: &[TracedOperation]) {
    let mut lanes: BTreeMap<_, Vec<&TracedOperation>> = BTreeMap::new();
    for operation in log.iter().filter(|operation| &*operation.device != "host") {
        assert!(operation.begin <= operation.end, "{operation:?}");
        lanes.entry((&*operation.device, &*operation.lane)).or_default().push(operation);
    }
    for its in lanes.values_mut() {
        its.sort_by_key(|operation| operation.begin);
        let overlap = its.windows(2).find(|two| two[0].end > two[1].begin + TOLERANCE);
        assert!(overlap.is_none(), "{overlap:?}");
    }
}

#[test]
fn operations_are_where_and_when_they_were() {
    let trace = Trace::new();
    let set = DeviceSet::builder().devices(list()).trace(&trace).build().unwrap();
    let (devices, items) = (set.devices(), 1 << 12);
    for (device, next) in devices.iter().zip(devices.iter().cycle().skip(1)) {
        let (kernels, copies) =
            (device.stream().unwrap(), device.stream_of(StreamKind::Copy).unwrap());
        let mut made = device.buffer::<u32>(items).unwrap();
        for round in 0..300 {
            MAKE.launch(&kernels, items, (&mut made, round)).unwrap();
        }
        copies.wait(&kernels.record().unwrap()).unwrap();
        let mut copy = next.buffer::<u32>(items).unwrap();
        copies.copy(&made, &mut copy).unwrap();
        drop(copies.uploaded(vec![1_u8; 12_345]).unwrap());
    }
    set.quiesce().unwrap();
    let log = trace.operations();
    check_lanes(&log);
    for (device, next) in devices.iter().zip(devices.iter().cycle().skip(1)) {
        let of = |name: &str| {
            let is_its = |operation: &&TracedOperation| {
                &*operation.device == physical(&device.name()) && &*operation.name == name
            };
            log.iter().filter(is_its).collect::<Vec<_>>()
        };
        let (makes, copies) = (of("make"), of(&format!("copy {device} to {next}")));
        assert!(makes.len() >= 300 && makes[0].bytes == 0, "{}", makes.len());
        assert_eq!((copies.len(), copies[0].bytes), (1, 4 * items as u64));
        assert!(of("upload").iter().any(|upload| upload.bytes == 12_345));
        // Behind its own kernels, which are 300 of those on its GPU.
        let ended_before = makes.iter().filter(|make| make.end <= copies[0].begin + TOLERANCE);
        assert!(ended_before.count() >= 300, "{device}");
    }
}

#[test]
fn the_clock_of_a_gpu_is_that_of_the_host() {
    let trace = Trace::new();
    let set = DeviceSet::builder().devices(list()).trace(&trace).build().unwrap();
    let gate = set.host().shared::<u32>(1).unwrap();
    for device in set.devices().iter().filter(|device| is_gpu(device)) {
        HELD.prepare(device, 1).unwrap();
        gate.store(0, 0).unwrap();
        let stream = device.stream().unwrap();
        let span = trace.span("held");
        HELD.launch(&stream, 1, (&gate,)).unwrap();
        std::thread::sleep(HELD_FOR);
        gate.store(0, 1).unwrap();
        stream.record().unwrap().synchronize().unwrap();
        drop(span);
        set.quiesce().unwrap();
        let log = trace.operations();
        let last = |device: &str| {
            log.iter().rfind(|it| &*it.device == device && &*it.name == "held").unwrap()
        };
        let (kernel, host) = (last(physical(&device.name())), last("host"));
        assert!(kernel.end - kernel.begin >= HELD_FOR - host_tolerance(), "{kernel:?}");
        assert!(kernel.begin + host_tolerance() >= host.begin, "{kernel:?} {host:?}");
        assert!(kernel.end <= host.end + host_tolerance(), "{kernel:?} {host:?}");
    }
}

#[test]
fn a_search_is_traced() {
    let trace = Trace::new();
    let context = Context::builder().devices(Devices::List(list())).trace(&trace).build().unwrap();
    let graph = generate::kron(9, 8, &GenerateOptions::default()).unwrap();
    let mut ways = vec![crate::bfs::asynchronous()];
    ways[0].worklist.worker = Worker::HostDriven;
    // Kernels that wait for each other.
    ways.extend(levels::can(&context).then(|| crate::levels::ways()[1]));
    for options in ways {
        let search = async { Bfs::with_options(&context, &graph, options).await?.run(&[0]).await };
        let result = context.block_on(search).unwrap().unwrap();
        assert_eq!(result.levels, reference::bfs_levels(&graph, &[0], None));
    }
    context.device_set().quiesce().unwrap();
    let log = trace.operations();
    check_lanes(&log);
    for device in context.devices() {
        let device = device.name();
        let count = log.iter().filter(|it| &*it.device == physical(&device)).count();
        assert!(count > 4, "{device}: {count}");
    }
}
