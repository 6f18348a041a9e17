use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use millstream_device::{
    DeviceBuffer, DeviceList, DeviceSet, Error, Event, Grid, Injection, Kernel, KernelFault,
    SimulationReport, Stream, Write,
};

use crate::common::ADD_ONE;

/// The order in which kernels of three streams ran.
fn schedule(seed: u64, injection: Injection) -> (Vec<String>, SimulationReport) {
    let set = DeviceSet::builder()
        .devices(DeviceList::host(3))
        .simulated(seed)
        .injection(injection)
        .build()
        .unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    for device in set.devices() {
        let stream = device.stream().unwrap();
        for step in 0..6 {
            let (log, entry) = (Arc::clone(&log), format!("{device} {step}"));
            let note =
                Kernel::<(Write<u32>,)>::from_closure("note", move |_: &Grid, _: (&mut [u32],)| {
                    log.lock().unwrap().push(entry.clone());
                    Ok(())
                });
            note.launch(&stream, 1, (&mut device.buffer(1).unwrap(),)).unwrap();
        }
    }
    assert!(log.lock().unwrap().is_empty());
    set.quiesce().unwrap();
    let log = log.lock().unwrap().clone();
    (log, set.simulation().unwrap())
}

#[test]
fn delays_that_come_to_more_than_time_itself_are_as_long_as_it() {
    let injection =
        Injection { delay: Some(Duration::MAX..=Duration::MAX), ..Injection::default() };
    let (log, report) = schedule(1, injection);
    assert_eq!((log.len(), report.time), (18, Duration::MAX));
}

#[test]
fn a_seed_gives_one_schedule_and_others_differ() {
    for reorder in [false, true] {
        let injection = Injection { reorder, ..Injection::default() };
        let schedules = (0..10).map(|seed| schedule(seed, injection.clone())).collect::<Vec<_>>();
        assert!(schedules.iter().all(|(log, report)| log.len() == 18 && report.steps >= 18));
        assert_eq!(schedules[3], schedule(3, injection.clone()));
        let mut distinct = schedules.into_iter().map(|(log, _)| log).collect::<Vec<_>>();
        distinct.sort();
        distinct.dedup();
        assert!(distinct.len() >= 8, "only {} schedules for 10 seeds", distinct.len());
    }
}

#[test]
fn reordering_lets_a_stream_run_far_ahead() {
    let longest_run = |reorder| {
        let runs = (0..20).map(|seed| {
            let (log, _) = schedule(seed, Injection { reorder, ..Injection::default() });
            log.chunk_by(|a, b| a.split(' ').next() == b.split(' ').next())
                .map(<[_]>::len)
                .max()
                .unwrap()
        });
        runs.sum::<usize>()
    };
    assert!(longest_run(true) > longest_run(false) + 20);
}

#[test]
fn delays_are_virtual_and_follow_their_seed() {
    let delayed = |seed| {
        let delay = Some(Duration::from_secs(100)..=Duration::from_secs(300));
        schedule(1, Injection { seed, delay, ..Injection::default() }).1.time
    };
    assert!(schedule(1, Injection::default()).1.time < Duration::from_millis(1));
    assert!((Duration::from_secs(1800)..Duration::from_secs(7200)).contains(&delayed(4)));
    assert_eq!(delayed(4), delayed(4));
    assert_ne!(delayed(4), delayed(5));
}

#[test]
fn real_delays_are_slept() {
    let delay = Some(Duration::from_millis(10)..=Duration::from_millis(12));
    let builder = DeviceSet::builder()
        .devices(DeviceList::host(1))
        .injection(Injection { delay, ..Injection::default() });
    let set = builder.build().unwrap();
    let stream = set.devices()[0].stream().unwrap();
    let start = std::time::Instant::now();
    let buffer = stream.uploaded(vec![1_u8]).unwrap();
    assert_eq!(stream.download(&buffer).unwrap().wait().unwrap(), [1]);
    assert!(start.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_future_that_nothing_wakes_is_a_deadlock() {
    let set = DeviceSet::builder().simulated(42).build().unwrap();
    let stream = set.devices()[0].stream().unwrap();
    let buffer = stream.uploaded(vec![1_u8]).unwrap();
    let result = set.block_on(async {
        stream.download(&buffer).unwrap().await.unwrap();
        std::future::pending::<()>().await;
    });
    let Err(Error::Deadlock { outstanding, seed, steps, waiting }) = result else {
        panic!("{result:?}")
    };
    assert_eq!(seed, 42);
    assert!(steps >= 3, "{steps}");
    assert!(outstanding.is_empty() && waiting.is_empty(), "{outstanding:?} {waiting:?}");
    // The set goes on working.
    assert_eq!(stream.download(&buffer).unwrap().wait().unwrap(), [1]);
}

#[test]
fn delays_that_are_none_are_refused() {
    let delay = Some(Duration::from_millis(2)..=Duration::from_millis(1));
    let builder = DeviceSet::builder().devices(DeviceList::host(1));
    let opened = builder.injection(Injection { delay, ..Injection::default() }).build();
    assert!(matches!(opened, Err(Error::Injection { reason }) if reason.contains("2ms")));
}

/// A kernel that takes its time, and counts itself while it runs.
fn lone(now: &Arc<AtomicUsize>) -> Kernel<(Write<u32>,)> {
    let now = Arc::clone(now);
    Kernel::from_closure("lone", move |_: &Grid, (items,): (&mut [u32],)| {
        assert_eq!(now.fetch_add(1, Ordering::Relaxed), 0, "two of one stream");
        std::thread::sleep(Duration::from_micros(300));
        items[0] += 1;
        now.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    })
}

#[test]
fn threads_that_wait_run_no_two_operations_of_a_stream_at_once() {
    for seed in 0..20 {
        let set =
            DeviceSet::builder().devices(DeviceList::host(2)).simulated(seed).build().unwrap();
        let mut buffers = Vec::new();
        for device in set.devices() {
            let (stream, mut buffer) = (device.stream().unwrap(), device.buffer(1).unwrap());
            let now = Arc::new(AtomicUsize::new(0));
            for _ in 0..5 {
                lone(&now).launch(&stream, 1, (&mut buffer,)).unwrap();
            }
            buffers.push((stream.record().unwrap(), stream, buffer));
        }
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| set.quiesce().unwrap());
                scope.spawn(|| buffers.iter().for_each(|(event, ..)| event.synchronize().unwrap()));
                scope.spawn(|| {
                    let all = async {
                        for (event, ..) in &buffers {
                            event.completed().await.unwrap();
                        }
                    };
                    set.block_on(all).unwrap();
                });
            }
        });
        for (_, stream, buffer) in &buffers {
            assert_eq!(stream.download(buffer).unwrap().wait().unwrap(), [5]);
        }
    }
}

/// Launches a kernel that waits for an event, which comes later.
fn waits(stream: &Stream, buffer: &mut DeviceBuffer<u32>) -> Arc<OnceLock<Event>> {
    let later = Arc::<OnceLock<Event>>::default();
    let event = Arc::clone(&later);
    let twin = move |_: &Grid, _: (&mut [u32],)| {
        event.get().unwrap().synchronize().map_err(|error| KernelFault::new(error.to_string()))
    };
    Kernel::from_closure("wait", twin).launch(stream, 1, (buffer,)).unwrap();
    later
}

#[test]
fn a_twin_may_wait_for_other_streams_and_not_for_its_own() {
    for seed in 0..20 {
        let set =
            DeviceSet::builder().devices(DeviceList::host(1)).simulated(seed).build().unwrap();
        let device = &set.devices()[0];
        let [mut one, mut other] = [1, 1].map(|len| device.buffer(len).unwrap());
        let (here, there) = (device.stream().unwrap(), device.stream().unwrap());
        let later = waits(&here, &mut one);
        ADD_ONE.launch(&there, 1, (&mut other,)).unwrap();
        later.set(there.record().unwrap()).unwrap();
        ADD_ONE.launch(&here, 1, (&mut one,)).unwrap();
        here.record().unwrap().synchronize().unwrap();
        let later = waits(&here, &mut one);
        ADD_ONE.launch(&here, 1, (&mut one,)).unwrap();
        later.set(here.record().unwrap()).unwrap();
        let error = later.get().unwrap().synchronize().unwrap_err();
        assert!(error.to_string().contains("runs wait, in which somebody waits"), "{error}");
    }
}

#[test]
fn twins_that_wait_for_each_other_are_a_deadlock() {
    let set = DeviceSet::builder().devices(DeviceList::host(2)).simulated(1).build().unwrap();
    let [one, other] = set.devices() else { panic!("two devices") };
    let (mut here, mut there) = (one.buffer(1).unwrap(), other.buffer(1).unwrap());
    let (one, other) = (one.stream().unwrap(), other.stream().unwrap());
    let (first, second) = (waits(&one, &mut here), waits(&other, &mut there));
    let events = [one.record().unwrap(), other.record().unwrap()];
    first.set(events[1].clone()).unwrap();
    second.set(events[0].clone()).unwrap();
    std::thread::scope(|scope| {
        for event in &events {
            scope.spawn(|| assert!(event.synchronize().is_err()));
        }
    });
}
