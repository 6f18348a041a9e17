//! One program for each answer of the callbacks, ring and direct, with exact
//! counts: items are sent out once, so nothing depends on the order.

#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use millstream_device::{Device, InjectedFault, Injection, Shared};
use millstream_flow::{Context, Devices};
use millstream_worklist::{
    DistributedWorklist, Error, Flags, Here, Program, Routing, Steps, View, WorklistStatistics,
    problem,
};

/// Parents; each has one child, numbered `PARENTS` higher.
const PARENTS: u32 = 500;

/// Device 0 processes the parents; their children go where `flags` says.
struct Children {
    flags: Flags,
    devices: usize,
    has_owners: bool,
}

problem! {
    struct Problem, Visits {
        visits: Shared<u32>
    }
}

impl Children {
    /// The first device has all parents.
    fn owner_of(&self, item: u32) -> usize {
        if item < PARENTS { 0 } else { item as usize % self.devices }
    }
}

impl Program for Children {
    type Packet = u32;
    type Problem = Problem;

    fn pack(&self, _: &View<'_, Self>, _: &Here, item: u32) -> u32 {
        item
    }

    fn unpack(&self, _: &View<'_, Self>, _: &Here, packet: &u32) -> u32 {
        *packet
    }

    fn on_send(&self, _: &View<'_, Self>, here: &Here, item: u32) -> Flags {
        match self.flags {
            Flags::Pass if self.owner_of(item) == here.device => Flags::Keep,
            flags => flags,
        }
    }

    fn on_receive(&self, _: &View<'_, Self>, here: &Here, packet: &u32) -> Flags {
        match self.flags {
            // All of them start on device 0.
            Flags::Both if here.next == Some(0) => Flags::Keep,
            Flags::Both => Flags::Both,
            _ if self.owner_of(*packet) == here.device => Flags::Keep,
            _ => Flags::Pass,
        }
    }

    fn priority(&self, _: &View<'_, Self>, item: u32) -> u32 {
        item
    }

    fn owner(&self, item: u32) -> Option<usize> {
        self.has_owners.then(|| self.owner_of(item))
    }

    fn process(
        &self,
        view: &View<'_, Self>,
        _: &Here,
        item: u32,
        emit: &mut impl FnMut(u32),
        _: &mut u64,
    ) {
        view.visits[item as usize].fetch_add(1, Ordering::Relaxed);
        if item < PARENTS {
            emit(item + PARENTS);
        }
    }
}

/// Visits of each item on each device, and statistics.
type Outcome = (Vec<Vec<u32>>, WorklistStatistics);

fn outcome(
    context: &Context,
    flags: Flags,
    routing: Routing,
    set: impl FnOnce(DistributedWorklist<Children>) -> DistributedWorklist<Children>,
) -> std::result::Result<Outcome, Error> {
    let items = 2 * PARENTS as usize;
    let devices = context.devices();
    let problems: Vec<_> = devices
        .iter()
        .map(|device| Arc::new(Problem { visits: device.shared(items).unwrap() }))
        .collect();
    let program = Arc::new(Children { flags, devices: devices.len(), has_owners: true });
    let worklist = DistributedWorklist::new(context, program, problems.clone(), items);
    let worklist = set(worklist.routing(routing).packet_bytes(64));
    let initial: Vec<_> = (0..PARENTS).map(|parent| (0, parent)).collect();
    context
        .block_on(async {
            let statistics = worklist.run(&initial).await?;
            let mut visits = Vec::new();
            for (device, problem) in devices.iter().zip(&problems) {
                let stream = device.stream()?;
                visits.push(stream.download_shared(&problem.visits, 0..items)?.await?);
            }
            Ok((visits, statistics))
        })
        .map_err(Error::Flow)?
}

fn everywhere(case: impl Fn(&Context, Routing)) {
    for devices in [1, 2, 3, 4, 8] {
        for routing in [Routing::Ring, Routing::Direct] {
            let builder = || Context::builder().devices(Devices::host(devices));
            for builder in [builder(), builder().simulated(devices as u64), builder().simulated(99)]
            {
                case(&builder.build().unwrap(), routing);
            }
        }
    }
}

fn total(
    statistics: &WorklistStatistics,
    field: fn(&millstream_worklist::DeviceStatistics) -> u64,
) -> u64 {
    statistics.devices.iter().map(field).sum()
}

fn link_bytes(statistics: &WorklistStatistics) -> u64 {
    statistics.links.iter().map(|link| link.bytes).sum()
}

#[test]
fn kept_items_stay() {
    everywhere(|context, routing| {
        let (visits, statistics) = outcome(context, Flags::Keep, routing, |w| w).unwrap();
        assert!(visits[0].iter().all(|&visits| visits == 1));
        assert!(visits[1..].iter().flatten().all(|&visits| visits == 0));
        assert_eq!((statistics.work_items(), link_bytes(&statistics)), (2 * u64::from(PARENTS), 0));
    });
}

#[test]
fn dropped_items_are_gone() {
    everywhere(|context, routing| {
        let (visits, statistics) = outcome(context, Flags::Drop, routing, |w| w).unwrap();
        let (parents, children) = visits[0].split_at(PARENTS as usize);
        assert!(parents.iter().all(|&visits| visits == 1));
        assert!(children.iter().all(|&visits| visits == 0));
        assert_eq!((statistics.work_items(), link_bytes(&statistics)), (u64::from(PARENTS), 0));
    });
}

#[test]
fn passed_items_reach_their_owner_and_ring_bytes_are_direct_items_times_hops() {
    everywhere(|context, routing| {
        let devices = context.devices().len();
        let (visits, statistics) = outcome(context, Flags::Pass, routing, |w| w).unwrap();
        let mut hops = 0;
        for child in PARENTS..2 * PARENTS {
            let owner = child as usize % devices;
            for (device, visits) in visits.iter().enumerate() {
                assert_eq!(visits[child as usize], u32::from(device == owner), "{child}");
            }
            hops += if routing == Routing::Ring { owner as u64 } else { u64::from(owner != 0) };
        }
        assert_eq!(link_bytes(&statistics), hops * 4);
        assert_eq!(total(&statistics, |device| device.sent), hops);
        assert_eq!(total(&statistics, |device| device.received), hops);
        for device in &statistics.devices {
            assert_eq!(device.received, device.kept + device.passed + device.dropped);
        }
        assert!(statistics.links.iter().all(|link| link.largest_packet_bytes <= 64));
    });
}

#[test]
fn items_for_both_reach_every_device_once() {
    everywhere(|context, routing| {
        let devices = context.devices().len() as u64;
        let (visits, statistics) = outcome(context, Flags::Both, routing, |w| w).unwrap();
        for visits in &visits {
            assert!(visits[PARENTS as usize..].iter().all(|&visits| visits == 1));
        }
        let sent = u64::from(PARENTS) * (devices - 1);
        assert_eq!(total(&statistics, |device| device.sent), sent);
        assert_eq!(statistics.work_items(), u64::from(PARENTS) * (devices + 1));
    });
}

#[test]
fn queues_a_hundredth_of_the_items_lose_nothing() {
    everywhere(|context, routing| {
        let tiny = |worklist: DistributedWorklist<Children>| {
            worklist.queue_entries(8).batch(3).packet_bytes(8).buffers(1)
        };
        let (visits, _) = outcome(context, Flags::Pass, routing, tiny).unwrap();
        let sum: u32 = visits.iter().flatten().sum();
        assert_eq!(sum, 2 * PARENTS);
    });
}

#[test]
fn queues_take_no_memory_for_more_than_the_items() {
    everywhere(|context, routing| {
        let huge = |worklist: DistributedWorklist<Children>| worklist.queue_entries(usize::MAX);
        let (visits, _) = outcome(context, Flags::Pass, routing, huge).unwrap();
        assert_eq!(visits.iter().flatten().sum::<u32>(), 2 * PARENTS);
    });
}

#[test]
fn the_threshold_defers_and_brings_back() {
    everywhere(|context, routing| {
        // Also where a kernel ends in the middle of a step.
        for batch in [1 << 18, 3] {
            let set = |worklist: DistributedWorklist<Children>| {
                worklist.delta(Some(100)).batch(batch).queue_entries(64)
            };
            let (visits, statistics) = outcome(context, Flags::Pass, routing, set).unwrap();
            assert_eq!(visits.iter().flatten().sum::<u32>(), 2 * PARENTS);
            // Parents above the first step, at least, had to wait.
            assert!(total(&statistics, |device| device.deferred) >= 400);
        }
    });
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let problem = || Arc::new(Problem { visits: context.devices()[0].shared(4).unwrap() });
    let program = |has_owners| Arc::new(Children { flags: Flags::Keep, devices: 2, has_owners });
    let refuse = |worklist: DistributedWorklist<Children>, initial: &[(usize, u32)]| {
        context.block_on(worklist.run(initial)).unwrap().unwrap_err()
    };
    let one = DistributedWorklist::new(&context, program(true), vec![problem()], 4);
    assert!(matches!(refuse(one, &[]), Error::ProblemCount { problems: 1, devices: 2 }));
    let two = |has_owners| {
        DistributedWorklist::new(&context, program(has_owners), vec![problem(), problem()], 4)
    };
    assert!(matches!(refuse(two(true), &[(0, 4)]), Error::InitialItem { item: 4, .. }));
    assert!(matches!(refuse(two(true), &[(2, 0)]), Error::InitialItem { device: 2, .. }));
    let foreign = refuse(two(true), &[(0, 0), (1, 1)]);
    assert!(matches!(foreign, Error::NotTheOwner { device: 1, item: 1, owner: 0 }));
    let ownerless = two(false).routing(Routing::Direct);
    assert!(matches!(refuse(ownerless, &[(0, 0)]), Error::NoOwner { .. }));
    let small = two(true).packet_bytes(3);
    assert!(matches!(refuse(small, &[(0, 0)]), Error::Flow(_)));
}

/// Children are items, too.
#[test]
fn an_item_that_is_none_ends_the_run() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let problem =
        |device: usize| Arc::new(Problem { visits: context.devices()[device].shared(9).unwrap() });
    for flags in [Flags::Keep, Flags::Pass] {
        let program = Arc::new(Children { flags, devices: 2, has_owners: true });
        let problems = vec![problem(0), problem(1)];
        let worklist = DistributedWorklist::new(&context, program, problems, 64);
        let error = context.block_on(worklist.run(&[(0, 3)])).unwrap().unwrap_err().to_string();
        let item = format!("item {} is beyond the worklist's items", 3 + PARENTS);
        assert!(error.contains("process") && error.contains(&item), "{error}");
    }
    // One that came in a packet.
    let device = &context.devices()[0];
    let program = Arc::new(Children { flags: Flags::Both, devices: 2, has_owners: true });
    let here = Here { device: 0, devices: 2, next: None };
    let steps = Steps::new(&context, device, program, problem(0), here, 9).unwrap();
    let received = context.block_on(steps.split_receive(vec![8], u32::MAX)).unwrap();
    received.unwrap();
    let received = context.block_on(steps.split_receive(vec![9], u32::MAX)).unwrap();
    assert!(received.unwrap_err().to_string().contains("item 9 is beyond"));
}

#[test]
fn a_kernel_that_fails_ends_the_run_with_its_cause() {
    for kernel in ["process", "pack", "split_receive"] {
        let injection =
            Injection { faults: vec![InjectedFault::new(kernel)], ..Injection::default() };
        let builder = Context::builder().devices(Devices::host(3)).injection(injection);
        let context = builder.build().unwrap();
        let error = outcome(&context, Flags::Pass, Routing::Ring, |w| w).unwrap_err();
        assert!(error.to_string().contains(kernel), "{error}");
        context.device_set().quiesce().unwrap();
        assert!(context.devices().iter().all(|device| device.memory().in_use == 0));
    }
}

#[test]
fn steps_of_what_does_not_exist_are_refused() {
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let device = &context.devices()[0];
    let steps = |device_place, devices, next| {
        let problem = Arc::new(Problem { visits: device.shared(4).unwrap() });
        let program = Arc::new(Children { flags: Flags::Keep, devices: 2, has_owners: true });
        let here = Here { device: device_place, devices, next };
        Steps::new(&context, device, program, problem, here, 4)
    };
    for (place, devices, next) in [(0, 0, None), (2, 2, None), (0, 2, Some(2))] {
        let error = steps(place, devices, next).map(drop).unwrap_err();
        assert!(matches!(error, Error::NoSuch { what: "device", .. }), "{error}");
    }
    // Kernels have no room to count for more; no memory is taken.
    let error = steps(0, 1026, None).map(drop).unwrap_err();
    assert!(matches!(error, Error::NoSuch { number: 1025, count: 1024, .. }), "{error}");
    let problem = Arc::new(Problem { visits: device.shared(4).unwrap() });
    let program = Arc::new(Children { flags: Flags::Keep, devices: 2, has_owners: true });
    let here = Here { device: 0, devices: 2, next: None };
    let most = u32::MAX as usize;
    let error = Steps::new(&context, device, program, problem, here, most).map(drop).unwrap_err();
    assert!(matches!(error, Error::TooManyItems { items } if items == most), "{error}");
    let steps = steps(0, 2, None).unwrap();
    let run = async {
        let outbox = steps.pack(1, 4).await.unwrap_err();
        let item = steps.insert(vec![0, 4], u32::MAX).await.unwrap_err();
        let own = steps.insert(vec![0], u32::MAX).await;
        (outbox, item, own)
    };
    let (outbox, item, own) = context.block_on(run).unwrap();
    assert!(matches!(outbox, Error::NoSuch { what: "outbox", number: 1, count: 1 }), "{outbox}");
    assert!(matches!(item, Error::InitialItem { item: 4, .. }) && item.cause().is_none(), "{item}");
    own.unwrap();
}

/// Calls side by side, on several schedules: each has what its own kernel has packed.
#[test]
fn steps_side_by_side_lose_nothing() {
    for seed in 0..16 {
        let context = Context::builder().devices(Devices::host(1)).simulated(seed).build().unwrap();
        let device = &context.devices()[0];
        let items = 2 * PARENTS as usize;
        let problem = Arc::new(Problem { visits: device.shared(items).unwrap() });
        let program = Arc::new(Children { flags: Flags::Pass, devices: 3, has_owners: true });
        let here = Here { device: 0, devices: 3, next: None };
        let steps = Steps::new(&context, device, program, problem, here, items).unwrap();
        let run = async {
            let parents: Vec<u32> = (0..60).collect();
            steps.insert(parents, u32::MAX).await?;
            steps.process(60, u32::MAX).await?;
            let packed = futures_util::join!(
                steps.pack(0, 64),
                steps.pack(1, 64),
                steps.process(60, u32::MAX),
                steps.split_receive(vec![0], u32::MAX),
            );
            Ok::<_, Error>([packed.0?, packed.1?])
        };
        let mut packed = context.block_on(run).unwrap().unwrap();
        packed.iter_mut().for_each(|packed| packed.sort_unstable());
        let of = |device| {
            let children = (PARENTS..PARENTS + 60).filter(move |child| child % 3 == device);
            children.collect::<Vec<u32>>()
        };
        assert_eq!(packed, [of(1), of(2)], "seed {seed}");
    }
}

/// Its streams are gone with it, so nothing else is left to wait for.
#[test]
fn what_a_dropped_run_used_is_free_once_all_is_over() {
    let refused = AtomicUsize::new(0);
    everywhere(|context, routing| {
        let (devices, items) = (context.devices(), 2 * PARENTS as usize);
        let problem = |device: &Device| Arc::new(Problem { visits: device.shared(items).unwrap() });
        let problems: Vec<_> = devices.iter().map(problem).collect();
        let flags = Flags::Pass;
        let program = Arc::new(Children { flags, devices: devices.len(), has_owners: true });
        let worklist = DistributedWorklist::new(context, program, problems.clone(), items);
        let worklist = worklist.routing(routing).packet_bytes(64);
        let initial: Vec<_> = (0..PARENTS).map(|parent| (0, parent)).collect();
        {
            let mut run = pin!(worklist.run(&initial));
            (0..20).find_map(|_| run.as_mut().now_or_never());
        }
        let download = || -> millstream_device::Result<Vec<_>> {
            let of = |(device, problem): (&Device, &Arc<Problem>)| {
                device.stream()?.download_shared(&problem.visits, 0..items)
            };
            devices.iter().zip(&problems).map(of).collect()
        };
        refused.fetch_add(usize::from(download().is_err()), Ordering::Relaxed);
        context.device_set().quiesce().unwrap();
        for download in download().unwrap() {
            let visits = context.block_on(download).unwrap().unwrap();
            assert!(visits.into_iter().all(|visits| visits <= 1));
        }
    });
    assert!(refused.into_inner() > 0, "nothing was under way anywhere");
}
