use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_device::{
    DeviceList, DeviceSet, Error, Grid, Injection, Kernel, SimulationReport, Write,
};

/// The order in which kernels of three streams ran.
fn schedule(seed: u64, injection: Injection) -> (Vec<String>, SimulationReport) {
    let set = DeviceSet::builder()
        .devices(DeviceList::host(3))
        .simulated(seed)
        .injection(injection)
        .open()
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
    let set = builder.open().unwrap();
    let stream = set.devices()[0].stream().unwrap();
    let start = std::time::Instant::now();
    let buffer = stream.uploaded(vec![1_u8]).unwrap();
    assert_eq!(stream.download(&buffer).unwrap().wait().unwrap(), [1]);
    assert!(start.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_future_that_nothing_wakes_is_a_deadlock() {
    let set = DeviceSet::builder().simulated(42).open().unwrap();
    let stream = set.devices()[0].stream().unwrap();
    let buffer = stream.uploaded(vec![1_u8]).unwrap();
    let result = set.block_on(async {
        stream.download(&buffer).unwrap().await.unwrap();
        std::future::pending::<()>().await;
    });
    let Err(Error::Deadlock { outstanding, seed, steps }) = result else { panic!("{result:?}") };
    assert_eq!(seed, 42);
    assert!(steps >= 3, "{steps}");
    assert!(outstanding.is_empty(), "{outstanding:?}");
    // The set goes on working.
    assert_eq!(stream.download(&buffer).unwrap().wait().unwrap(), [1]);
}

#[test]
fn delays_that_are_none_are_refused() {
    let delay = Some(Duration::from_millis(2)..=Duration::from_millis(1));
    let builder = DeviceSet::builder().devices(DeviceList::host(1));
    let opened = builder.injection(Injection { delay, ..Injection::default() }).open();
    assert!(matches!(opened, Err(Error::Injection { reason }) if reason.contains("2ms")));
}
