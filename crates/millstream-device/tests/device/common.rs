use std::task::Poll;
use std::time::{Duration, Instant};

use millstream_device::{
    DeviceList, DeviceSet, DeviceSetBuilder, Event, Grid, Injection, Kernel, KernelResult, Write,
};

/// Runs a case on two host devices: threaded, simulated, and simulated with adversarial priorities.
pub fn on_both(case: impl Fn(&DeviceSet)) {
    with(|builder| builder, case);
}

/// As `on_both`, with more settings.
pub fn with(settings: impl Fn(DeviceSetBuilder) -> DeviceSetBuilder, case: impl Fn(&DeviceSet)) {
    let builder = || settings(DeviceSet::builder().devices(DeviceList::host(2)).threads(2));
    case(&builder().build().unwrap());
    for seed in 0..8 {
        case(&builder().simulated(seed).build().unwrap());
    }
    let reorder = Injection { reorder: true, ..Injection::default() };
    case(
        &settings(DeviceSet::builder().devices(DeviceList::host(2)).injection(reorder))
            .simulated(9)
            .build()
            .unwrap(),
    );
}

pub fn add_one(grid: &Grid, (values,): (&mut [u32],)) -> KernelResult {
    assert_eq!(grid.size(), values.len());
    values.iter_mut().for_each(|value| *value += 1);
    Ok(())
}

pub static ADD_ONE: Kernel<(Write<u32>,)> =
    Kernel::new("add one", |grid, view| add_one(grid, view));

/// A kernel that reads or writes one buffer slowly enough for others to overtake it if they could.
pub fn slow_add() -> Kernel<(Write<u32>,)> {
    let twin = |grid: &Grid, view: (&mut [u32],)| {
        std::thread::sleep(Duration::from_millis(20));
        add_one(grid, view)
    };
    Kernel::from_closure("slow add", twin)
}

/// Lets the devices go on until an event is complete; host code does not come after it by that.
pub fn until_complete(set: &DeviceSet, event: &Event) {
    let complete = std::future::poll_fn(|task| {
        if event.is_complete() {
            return Poll::Ready(());
        }
        let waker = task.waker().clone();
        event.on_complete(move |_| waker.wake());
        Poll::Pending
    });
    set.block_on(complete).unwrap();
}

/// Waits until a condition holds that follows from work that was submitted.
pub fn eventually(condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "still not so after 20 seconds");
        std::thread::yield_now();
    }
}
