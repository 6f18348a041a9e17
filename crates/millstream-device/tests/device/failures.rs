use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Wake, Waker};

use millstream_device::{
    Device, DeviceSet, Error, EventStatus, Grid, InjectedFault, Injection, Kernel, KernelFault,
    Write,
};

use crate::common::{ADD_ONE, on_both, with};

static PANICS: Kernel<(Write<u32>,)> =
    Kernel::new("panics", |_, _| panic!("{} is asked for", "this panic"));
static FAULTY: Kernel<(Write<u32>,)> =
    Kernel::new("faulty", |_, _| Err(KernelFault::new("no luck")));

fn fails(device: &Device, kernel: &Kernel<(Write<u32>,)>) -> Error {
    let stream = device.stream().unwrap();
    let mut buffer = device.buffer(1).unwrap();
    kernel.launch(&stream, 1, (&mut buffer,)).unwrap();
    stream.record().and_then(|event| event.synchronize()).unwrap_err()
}

#[test]
fn a_panic_and_a_fault_fail_the_kernel_with_their_message() {
    on_both(|set| {
        for (kernel, text) in [(&PANICS, "this panic is asked for"), (&FAULTY, "no luck")] {
            let Error::KernelFailed { kernel: name, device, message } =
                fails(&set.devices()[1], kernel)
            else {
                panic!("not so")
            };
            assert_eq!((&*name, device.as_str(), &*message), (kernel.name(), "host:1", text));
        }
    });
}

#[test]
fn a_panic_inside_of_a_block_is_caught() {
    on_both(|set| {
        let kernel =
            Kernel::<(Write<u32>,)>::from_closure("block", |grid: &Grid, _: (&mut [u32],)| {
                grid.for_each_block(|block| {
                    assert!(block.index < 3, "asked for");
                    Ok(())
                })
            });
        let stream = set.devices()[0].stream().unwrap();
        let mut buffer = set.devices()[0].buffer(1).unwrap();
        kernel.launch(&stream, 50_000, (&mut buffer,)).unwrap();
        assert!(matches!(
            stream.record().and_then(|event| event.synchronize()),
            Err(Error::KernelFailed { .. })
        ));
    });
}

#[test]
fn a_failure_is_final_for_its_stream_and_passes_through_events() {
    on_both(|set| {
        let [first, second] = set.devices() else { panic!("two devices") };
        let (one, other) = (first.stream().unwrap(), second.stream().unwrap());
        let mut buffer = set.host().buffer::<u32>(1).unwrap();
        ADD_ONE.launch(&one, 1, (&mut buffer,)).unwrap();
        let good = one.record().unwrap();
        // Nobody knows of the failure before all is submitted.
        let begin = set.promise("begin");
        one.wait(begin.event()).unwrap();
        FAULTY.launch(&one, 1, (&mut buffer,)).unwrap();
        let event = one.record().unwrap();
        other.wait(&event).unwrap();
        ADD_ONE.launch(&other, 1, (&mut buffer,)).unwrap();
        let download = other.download(&buffer).unwrap();
        let last = other.record().unwrap();
        begin.complete(Ok(()));
        assert!(matches!(set.block_on(download).unwrap(), Err(Error::KernelFailed { .. })));
        assert!(matches!(last.synchronize(), Err(Error::KernelFailed { .. })));
        assert!(matches!(event.status(), EventStatus::Failed(Error::KernelFailed { .. })));
        assert!(matches!(good.status(), EventStatus::Complete));
        assert!(matches!(other.record(), Err(Error::KernelFailed { .. })));
        assert!(matches!(ADD_ONE.launch(&one, 1, (&mut buffer,)), Err(Error::KernelFailed { .. })));

        // Nothing before the failed event runs any more, so the host may have the buffer; what came after the failure was not done.
        assert_eq!(*buffer.host_view().unwrap(), [1]);
        let fresh = first.stream().unwrap();
        ADD_ONE.launch(&fresh, 1, (&mut buffer,)).unwrap();
        assert_eq!(fresh.download(&buffer).unwrap().wait().unwrap(), [2]);
    });
}

#[test]
fn an_operation_fails_by_occurrence() {
    let faults = vec![
        InjectedFault::new("add one").occurrence(2),
        InjectedFault::new("upload").on("host:1").occurrence(1),
    ];
    with(
        |builder| builder.injection(Injection { faults: faults.clone(), ..Injection::default() }),
        |set| {
            let stream = set.devices()[0].stream().unwrap();
            let mut buffer = stream.uploaded(vec![0_u32]).unwrap();
            let events = [0, 1, 2, 3]
                .map(|_| ADD_ONE.launch(&stream, 1, (&mut buffer,)).and_then(|()| stream.record()));
            let failed = events.map(|event| event.and_then(|event| event.synchronize()).is_err());
            assert_eq!(failed, [false, false, true, true]);
            assert_eq!(set.faults_left(), faults[1..]);

            let stream = set.devices()[1].stream().unwrap();
            let _first = stream.uploaded(vec![1_u32]).unwrap();
            let second = stream.uploaded(vec![1_u32]);
            let error = second
                .and_then(|_| stream.record())
                .and_then(|event| event.synchronize())
                .unwrap_err();
            assert!(
                matches!(error, Error::Injected { operation, device } if operation == "upload" && device == "host:1")
            );
            assert_eq!(set.faults_left(), []);
        },
    );
}

#[test]
fn an_allocation_fails_by_occurrence() {
    let faults = vec![InjectedFault::new("allocate").on("host:0").occurrence(1)];
    with(
        |builder| builder.injection(Injection { faults: faults.clone(), ..Injection::default() }),
        |set| {
            let device = &set.devices()[0];
            let found = [0, 1, 2].map(|_| device.buffer::<u8>(10).is_ok());
            assert_eq!(found, [true, false, true]);
            assert!(set.devices()[1].buffer::<u8>(1).is_ok());
        },
    );
}

#[test]
fn the_budget_holds_and_is_given_back() {
    with(
        |builder| builder.memory_budget(1000),
        |set| {
            let device = &set.devices()[0];
            let first = device.buffer::<u8>(600).unwrap();
            let Err(Error::OutOfMemory { device: name, requested, in_use, budget, free }) =
                device.buffer::<u32>(101)
            else {
                panic!("not so")
            };
            assert_eq!((name.as_str(), requested, in_use, budget), ("host:0", 404, 600, 1000));
            assert_eq!(free, None, "it is the budget that is used up");
            assert!(set.devices()[1].buffer::<u8>(1000).is_ok());
            assert!(set.host().buffer::<u8>(5000).is_ok());
            drop(first);
            assert!(device.buffer::<u8>(1000).is_ok());
            assert!(matches!(device.buffer::<u64>(usize::MAX), Err(Error::OutOfMemory { .. })));
        },
    );
    let unlimited = DeviceSet::builder().build().unwrap();
    assert!(matches!(
        unlimited.devices()[0].buffer::<u64>(usize::MAX / 32),
        Err(Error::OutOfMemory { .. })
    ));
}

#[test]
fn sets_do_not_mix() {
    on_both(|set| {
        let other = DeviceSet::builder().build().unwrap();
        let foreign = other.devices()[0].stream().unwrap();
        let mut buffer = set.devices()[0].buffer::<u32>(1).unwrap();
        assert!(matches!(
            ADD_ONE.launch(&foreign, 1, (&mut buffer,)),
            Err(Error::DifferentDeviceSet { .. })
        ));
        let event = foreign.record().unwrap();
        let stream = set.devices()[0].stream().unwrap();
        assert!(matches!(stream.wait(&event), Err(Error::DifferentDeviceSet { .. })));
        assert_ne!(set.devices()[0], other.devices()[0]);
    });
}

#[test]
fn a_callback_of_the_bell_that_panics_keeps_nobody_from_hearing() {
    on_both(|set| {
        let (bell, (told, hear)) = (set.bell(), channel());
        let seen = bell.rings();
        bell.at_next(seen, || panic!("asked for"));
        bell.at_next(seen, move || told.send(()).unwrap());
        bell.ring();
        hear.try_recv().unwrap();
        // What is left too late comes back.
        assert_eq!(bell.leave(seen, 7, |_| panic!("not asked for")), Some(7));
    });
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("asked for");
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("asked for, too");
    }
}

struct Tells(Sender<()>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
    }
}

#[test]
fn a_waker_that_panics_keeps_nobody_from_waking() {
    on_both(|set| {
        let (promise, (told, hear)) = (set.promise("dinner"), channel());
        let panics = ManuallyDrop::new(Arc::new(Panics));
        let wakers = [Waker::from(Arc::clone(&panics)), Waker::from(Arc::new(Tells(told)))];
        let mut completions = [promise.event().completed(), promise.event().completed()];
        for (completion, waker) in completions.iter_mut().zip(&wakers) {
            assert!(Pin::new(completion).poll(&mut Context::from_waker(waker)).is_pending());
        }
        promise.complete(Ok(()));
        hear.try_recv().unwrap();
    });
}

#[test]
fn a_twin_may_panic_with_anything() {
    static ANYTHING: Kernel<(Write<u32>,)> =
        Kernel::new("anything", |_, _| std::panic::panic_any(Panics));
    on_both(|set| {
        let error = fails(&set.devices()[0], &ANYTHING);
        assert!(error.to_string().contains("a panic without a message"), "{error}");
    });
}

#[test]
fn an_owner_that_panics_when_it_is_dropped_keeps_no_stream_from_going_on() {
    on_both(|set| {
        let device = &set.devices()[0];
        let stream = device.stream().unwrap();
        let items = Box::leak(Box::new([1_u32; 4]));
        let address = items.as_mut_ptr().expose_provenance();
        // SAFETY: nobody else has the items, which stay.
        let mut buffer = unsafe { device.adopt::<u32>(address, 4, Panics) };
        let begin = set.promise("begin");
        stream.wait(begin.event()).unwrap();
        ADD_ONE.launch(&stream, 4, (&mut buffer,)).unwrap();
        drop(buffer);
        let last = stream.record().unwrap();
        begin.complete(Ok(()));
        last.synchronize().unwrap();
    });
}
