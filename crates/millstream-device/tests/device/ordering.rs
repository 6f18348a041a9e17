use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use millstream_device::{
    DeviceList, DeviceSet, Error, EventStatus, Grid, Kernel, Read, StreamKind, Write,
};

use crate::common::{ADD_ONE, eventually, on_both, slow_add, until_complete};

#[test]
fn a_stream_runs_in_order() {
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        let mut buffer = stream.uploaded(vec![0_u32; 1000]).unwrap();
        for _ in 0..100 {
            ADD_ONE.launch(&stream, 1000, (&mut buffer,)).unwrap();
        }
        assert_eq!(stream.download(&buffer).unwrap().wait().unwrap(), vec![100; 1000]);
    });
}

#[test]
fn a_stream_waits_for_an_event_of_another_device() {
    on_both(|set| {
        let [first, second] = set.devices() else { panic!("two devices") };
        let (producer, consumer) =
            (first.stream().unwrap(), second.stream_of(StreamKind::Copy).unwrap());
        let mut source = producer.uploaded(vec![1_u32; 64]).unwrap();
        slow_add().launch(&producer, 64, (&mut source,)).unwrap();
        let event = producer.record().unwrap();
        let mut destination = second.buffer::<u32>(64).unwrap();
        consumer.wait(&event).unwrap();
        consumer.copy(&source, &mut destination).unwrap();
        let data = set.block_on(consumer.download(&destination).unwrap()).unwrap().unwrap();
        assert_eq!(data, vec![2; 64]);
        assert!(event.is_complete());
    });
}

#[test]
fn copies_are_deferred() {
    on_both(|set| {
        let device = &set.devices()[0];
        let stream = device.stream().unwrap();
        let mut host = set.host().buffer::<u32>(4).unwrap();
        let mut copied = device.buffer::<u32>(4).unwrap();
        let shared = set.host().shared::<u32>(1).unwrap();
        // The stream stands in a kernel until the host opens the gate; in the simulation nothing runs before the host waits.
        let gate = Kernel::<millstream_device::Shared<u32>>::from_closure(
            "gate",
            |_: &Grid, gate: &[AtomicU32]| {
                while gate[0].load(Ordering::Acquire) == 0 {
                    std::thread::yield_now();
                }
                Ok(())
            },
        );
        gate.launch(&stream, 1, &shared).unwrap();
        stream.upload(vec![7; 4], &mut host).unwrap();
        stream.copy(&host, &mut copied).unwrap();
        let download = stream.download(&copied).unwrap();
        assert!(!download.event().is_complete());
        assert!(set.outstanding() > 0);
        assert!(host.in_flight().unwrap().to_string().starts_with("copy (operation 3"));
        shared.store(0, 1).unwrap();
        assert_eq!(download.wait().unwrap(), [7; 4]);
        assert_eq!(*host.host_view().unwrap(), [7; 4]);
        assert_eq!(host.in_flight(), None);
    });
}

#[test]
fn parts_move_alone() {
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        let source = stream.uploaded((0..10_u64).collect::<Vec<_>>()).unwrap();
        let mut destination = set.devices()[1].buffer::<u64>(10).unwrap();
        stream.fill(&mut destination, 99).unwrap();
        stream.copy(source.part(2..5).unwrap(), destination.part_mut(7..10).unwrap()).unwrap();
        let data = stream.download(destination.part(5..9).unwrap()).unwrap().wait().unwrap();
        assert_eq!(data, [99, 99, 2, 3]);
        assert!(matches!(
            source.part(5..11),
            Err(Error::OutOfRange { start: 5, end: 11, len: 10, .. })
        ));
        let short = destination.part_mut(0..2).unwrap();
        assert!(matches!(
            stream.copy(&source, short),
            Err(Error::LengthMismatch { from: 10, to: 2 })
        ));
    });
}

#[test]
fn shared_buffers_move_and_count() {
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        let shared = set.devices()[0].shared::<u64>(8).unwrap();
        stream.fill_shared(&shared, 0..8, 5).unwrap();
        stream.upload_shared(vec![1, 2], &shared, 3..5).unwrap();
        assert_eq!(stream.download_shared(&shared, 2..6).unwrap().wait().unwrap(), [5, 1, 2, 5]);
        assert!(matches!(shared.load(0), Err(Error::NotHostAccessible { .. })));
        let flag = set.host().shared::<i32>(1).unwrap();
        flag.store(0, -3).unwrap();
        assert_eq!(flag.load(0).unwrap(), -3);
        assert!(matches!(flag.load(1), Err(Error::OutOfRange { .. })));
    });
}

#[test]
fn blocks_cover_the_grid_once() {
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        for size in [0, 1, 2047, 2048, 2049, 9000] {
            let seen = set.devices()[0].shared::<u32>(size).unwrap();
            let visit = Kernel::<millstream_device::Shared<u32>>::from_closure(
                "visit",
                |grid: &Grid, seen: &[AtomicU32]| {
                    grid.for_each_block(|block| {
                        assert!(block.index < grid.blocks());
                        seen[block.range].iter().for_each(|count| {
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                        Ok(())
                    })
                },
            );
            visit.launch(&stream, size, &seen).unwrap();
            assert_eq!(
                stream.download_shared(&seen, 0..size).unwrap().wait().unwrap(),
                vec![1; size]
            );
        }
    });
}

#[test]
fn callbacks_run_once_early_or_late_and_order_nothing() {
    on_both(|set| {
        let calls = Arc::new(AtomicUsize::new(0));
        let stream = set.devices()[0].stream().unwrap();
        let mut buffer = set.host().buffer::<u32>(1).unwrap();
        ADD_ONE.launch(&stream, 1, (&mut buffer,)).unwrap();
        let event = stream.record().unwrap();
        let count = || {
            let calls = calls.clone();
            move |result: millstream_device::Result<()>| {
                result.unwrap();
                calls.fetch_add(1, Ordering::SeqCst);
            }
        };
        event.on_complete(count());
        until_complete(set, &event);
        eventually(|| calls.load(Ordering::SeqCst) == 1);
        assert!(matches!(event.status(), EventStatus::Complete));
        event.on_complete(count());
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        assert!(matches!(buffer.host_view(), Err(Error::Hazard { .. })));
        event.merge_into_host();
        assert_eq!(*buffer.host_view().unwrap(), [1]);
    });
}

#[test]
fn a_callbacks_panic_stays_its_own() {
    on_both(|set| {
        let stream = set.devices()[0].stream().unwrap();
        let mut buffer = stream.uploaded(vec![0_u32]).unwrap();
        // Slow: a callback of an event that is complete runs here.
        slow_add().launch(&stream, 1, (&mut buffer,)).unwrap();
        let event = stream.record().unwrap();
        event.on_complete(|_| panic!("a callback's panic, which the test asks for"));
        ADD_ONE.launch(&stream, 1, (&mut buffer,)).unwrap();
        assert_eq!(stream.download(&buffer).unwrap().wait().unwrap(), [2]);
    });
}

#[test]
fn dropped_buffers_stay_until_their_operations_have_run() {
    on_both(|set| {
        let device = &set.devices()[0];
        let stream = device.stream().unwrap();
        let mut buffer = device.buffer::<u32>(1000).unwrap();
        slow_add().launch(&stream, 1000, (&mut buffer,)).unwrap();
        drop(buffer);
        assert_eq!(device.memory().in_use, 4000);
        set.quiesce().unwrap();
        eventually(|| device.memory().in_use == 0);
        assert_eq!(device.memory().peak, 4000);
        assert_eq!(set.outstanding(), 0);
    });
}

#[test]
fn a_dropped_set_finishes_its_work() {
    on_both(|set| {
        let builder = DeviceSet::builder().devices(DeviceList::host(1)).threads(1);
        let builder = if set.simulation().is_some() { builder.simulated(3) } else { builder };
        let inner = builder.build().unwrap();
        let device = inner.devices()[0].clone();
        let stream = device.stream().unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let mut buffer = device.buffer::<u32>(10).unwrap();
        slow_add().launch(&stream, 10, (&mut buffer,)).unwrap();
        let (calls, event) = (done.clone(), stream.record().unwrap());
        event.on_complete(move |_| {
            calls.fetch_add(1, Ordering::SeqCst);
        });
        drop((buffer, stream, event, inner));
        eventually(|| done.load(Ordering::SeqCst) == 1 && device.memory().in_use == 0);
    });
}

#[test]
fn many_threads_wait_for_many_events() {
    let set = DeviceSet::builder().devices(DeviceList::host(3)).threads(2).build().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let set = &set;
            scope.spawn(move || {
                let streams =
                    set.devices().iter().map(|device| device.stream().unwrap()).collect::<Vec<_>>();
                let mut buffer = set.host().buffer::<u32>(16).unwrap();
                for round in 1..=200 {
                    let stream = &streams[(round + thread) % 3];
                    ADD_ONE.launch(stream, 16, (&mut buffer,)).unwrap();
                    let event = stream.record().unwrap();
                    if round % 7 == 0 {
                        set.block_on(event.completed()).unwrap().unwrap();
                        assert_eq!(*buffer.host_view().unwrap(), [round as u32; 16]);
                    } else {
                        streams.iter().for_each(|stream| stream.wait(&event).unwrap());
                    }
                }
            });
        }
    });
    set.quiesce().unwrap();
    assert_eq!(set.outstanding(), 0);
    eventually(|| set.host().memory().in_use == 0);
}

#[test]
fn handles_can_be_sent() {
    fn send<T: Send>() {}
    fn error<T: std::error::Error + Clone + Send + Sync + 'static>() {}
    fn handle<T: Clone + Send + Sync + 'static>() {}
    send::<millstream_device::Completion>();
    send::<millstream_device::Download<u32>>();
    send::<millstream_device::DeviceBuffer<u32>>();
    handle::<millstream_device::SharedBuffer<u32>>();
    handle::<DeviceSet>();
    handle::<millstream_device::Device>();
    handle::<millstream_device::Stream>();
    handle::<millstream_device::Event>();
    send::<Kernel<(Read<u32>, Write<u32>)>>();
    error::<Error>();
}
