//! Predicate-based filtering over devices of different speed \[G §5.3\], with the
//! command's own dataflow graph.

use std::time::Duration;

use millstream::device::{InjectedFault, Injection};
use millstream::flow::{RoutingPolicy, first_available, scatter};
use millstream::prelude::*;

#[path = "../../../crates/millstream-cli/src/filter/pipeline.rs"]
mod pipeline;

use pipeline::{Filter, Filtered, Filterer, ideal_split, numbers, packet_bytes};

const DIVISOR: u32 = 7;
const PACKET_ITEMS: u32 = 64;
const SLOW: u32 = 4;

fn filter() -> Filter {
    Filter { divisor: DIVISOR, cost: 1, buffers: Buffers::items(PACKET_ITEMS as usize).count(3) }
}

fn filterers(context: &Context, repeats: &[u32]) -> Vec<Filterer> {
    let (devices, buffers) = (context.devices().iter().cloned().zip(repeats), filter().buffers);
    devices.map(|(device, &repeats)| Filterer { device, repeats, buffers }).collect()
}

/// Filters so many items; none is lost and none comes twice.
fn run(context: &Context, repeats: &[u32], policy: RoutingPolicy, items: u32) -> Filtered {
    run_on(context, &filterers(context, repeats), policy, items)
}

fn run_on(
    context: &Context,
    filterers: &[Filterer],
    policy: RoutingPolicy,
    items: u32,
) -> Filtered {
    let numbers = numbers(context.host(), items).unwrap();
    let filtering = filter().run(context, filterers, policy, &numbers);
    let mut filtered = context.block_on(filtering).unwrap().unwrap();
    filtered.kept.sort_unstable();
    assert!(filtered.kept.iter().copied().eq((0..items).step_by(DIVISOR as usize)));
    let shares = &filtered.shares;
    assert_eq!(shares.iter().map(|share| share.items).sum::<u64>(), u64::from(items));
    for (share, device) in shares.iter().zip(context.devices()) {
        let link = filtered.links.iter().find(|link| link.to == device.name());
        assert_eq!(share.packets, link.map_or(0, |link| link.packets), "{device}");
        assert!(share.time <= filtered.time);
    }
    filtered
}

fn simulated(devices: usize, injection: Injection) -> Context {
    let builder = Context::builder().devices(Devices::host(devices)).simulated(injection.seed);
    builder.injection(injection).build().unwrap()
}

/// 200 packets a device. Simulated streams advance by an operation equally often, so
/// the same work four times over takes four times as long, whatever else the machine
/// does. Kernels are nearly all operations there are.
#[test]
fn first_available_is_near_the_ideal_split() {
    let (repeats, items) = ([100, 100 * SLOW], 400 * PACKET_ITEMS);
    let (ideal, _) = ideal_split(items.into(), &[SLOW.into(), 1.0]);
    for seed in 0..10 {
        let context = simulated(2, Injection { seed, ..Injection::default() });
        let dynamic = run(&context, &repeats, first_available(), items);
        for (share, ideal) in dynamic.shares.iter().zip(&ideal) {
            let ratio = share.items as f64 / ideal;
            println!("seed {seed}: {} of ideally {ideal} items: {ratio:.3}", share.items);
            assert!((0.9..1.1).contains(&ratio), "seed {seed}: {ratio} of the ideal");
        }
        let fixed = run(&context, &repeats, scatter(), items);
        assert!(fixed.shares.iter().all(|share| share.items == u64::from(items) / 2));
    }
}

/// As above, with a device 32 times slower: three packets as large as the others' that wait for
/// it are a quarter more than its part. Its packets are small instead. What is done for each is
/// in proportion: so it is the same for both.
#[test]
fn a_much_slower_device_gets_small_packets() {
    const SLOW: u32 = 32;
    let (items, most) = (400 * PACKET_ITEMS, 4 * PACKET_ITEMS as usize);
    let rates = [SLOW.into(), 1.0];
    let (ideal, _) = ideal_split(items.into(), &rates);
    let slowest = |repeats: [u32; 2], packets: &[usize], seed| {
        let context = simulated(2, Injection { seed, ..Injection::default() });
        let mut filterers = filterers(&context, &repeats);
        for (filterer, &bytes) in filterers.iter_mut().zip(packets) {
            filterer.buffers = Buffers::bytes(bytes).count(3);
        }
        let dynamic = run_on(&context, &filterers, first_available(), items);
        dynamic.shares[1].items as f64 / ideal[1]
    };
    // Ten launches for as many items as the fast one's packets have, and so for each of the
    // small packets.
    let packets: Vec<_> =
        packet_bytes(most << 10, &rates).iter().map(|bytes| bytes >> 10).collect();
    assert_eq!(packets, [most, most / 32]);
    for seed in 0..5 {
        let large = slowest([10, 10 * SLOW], &[most; 2], seed);
        let small = slowest([10, 10], &packets, seed);
        println!("seed {seed}: of the ideal {large:.3} in large packets, {small:.3} in small ones");
        assert!(large > 1.1 && (0.9..1.1).contains(&small), "seed {seed}: {large}, {small}");
    }
}

#[test]
fn packets_are_halved_as_devices_are_slower() {
    let bytes = |rates: &[f64]| packet_bytes(1 << 20, rates);
    assert_eq!(bytes(&[5.1, 10.0, 9.0]), [1 << 20; 3]);
    assert_eq!(bytes(&[1.0, 4.0, 30.0]), [1 << 16, 1 << 18, 1 << 20]);
    assert_eq!(bytes(&[0.0, 1e-9, 1.0]), [4 << 10, 4 << 10, 1 << 20]);
    assert_eq!(bytes(&[0.0, 0.0]).len(), 2);
    assert_eq!(packet_bytes(3, &[1.0, 10.0]), [3, 3]);
    assert_eq!(packet_bytes(1 << 10, &[1.0, 10.0]), [1 << 10; 2]);
}

/// In real time, where each operation sleeps and the work itself is nothing: few cores
/// are enough for devices side by side. A busy machine disturbs it, so that it says
/// only what is faster.
#[test]
fn equal_parts_wait_for_the_slow_device() {
    let delay = Duration::from_millis(3);
    let injection = Injection { delay: Some(delay..=delay), ..Injection::default() };
    let builder = Context::builder().devices(Devices::host(2)).injection(injection);
    let context = builder.threads(16).build().unwrap();
    let (repeats, items) = ([1, SLOW], 200 * PACKET_ITEMS);
    let workers = filterers(&context, &repeats);
    let measuring = filter().rates_alone(&context, &workers, PACKET_ITEMS, 20 * PACKET_ITEMS);
    let rates = context.block_on(measuring).unwrap().unwrap();
    assert!(rates[0] > 1.5 * rates[1], "{rates:?}");

    let dynamic = run(&context, &repeats, first_available(), items);
    let fixed = run(&context, &repeats, scatter(), items);
    let ideal = ideal_split(items.into(), &rates);
    println!("{:?}, ideal {ideal:?}, static {:?}", dynamic.shares, fixed.shares);
    assert!(dynamic.shares[0].items > dynamic.shares[1].items, "{:?}", dynamic.shares);
    assert!(fixed.shares[1].time > fixed.shares[0].time, "{:?}", fixed.shares);
    assert!(fixed.time > dynamic.time, "{:?}, {:?}", fixed.time, dynamic.time);
}

/// Packets of many lengths, more devices than packets, in many orders.
#[test]
fn slow_devices_lose_nothing() {
    for seed in 0..40 {
        let injection = Injection { seed, reorder: seed % 2 == 0, ..Injection::default() };
        let context = simulated(4, injection);
        for policy in [first_available, scatter] {
            for packets in [0, 1, 3, 25] {
                run(&context, &[1, SLOW, 9, 2], policy(), packets * PACKET_ITEMS + seed as u32);
            }
        }
    }
}

/// The graph ends with the first cause, and the next one on the same devices loses nothing.
#[test]
fn a_device_fails_in_the_middle() {
    let items = 120 * PACKET_ITEMS;
    // As many as a device is sure to get.
    let policies = [(first_available as fn() -> RoutingPolicy, 0), (scatter, 20)];
    for seed in 0..6 {
        for operation in ["filter", "copy"] {
            for (policy, passed) in policies {
                let fault = InjectedFault::new(operation).on("host:1");
                let fault = fault.occurrence(passed + seed / 2);
                let (reorder, faults) = (seed % 2 == 1, vec![fault]);
                let injection = Injection { seed, reorder, faults, ..Injection::default() };
                let threaded = Context::builder().devices(Devices::host(3));
                let threaded = threaded.injection(injection.clone()).build().unwrap();
                for context in [threaded, simulated(3, injection)] {
                    let cause = fails(&context, policy(), items);
                    assert_eq!(cause, format!("injected failure of {operation} on host:1"));
                    run(&context, &[1; 3], policy(), items);
                }
            }
        }
    }
}

/// Why a graph that filters so many items has failed; it leaks nothing.
fn fails(context: &Context, policy: RoutingPolicy, items: u32) -> String {
    let filterers = filterers(context, &[1; 3]);
    let numbers = numbers(context.host(), items).unwrap();
    let filtering = filter().run(context, &filterers, policy, &numbers);
    let cause = context.block_on(filtering).unwrap().unwrap_err();
    drop((numbers, filterers));
    context.device_set().quiesce().unwrap();
    for device in context.devices().iter().chain([context.host()]) {
        assert_eq!(device.memory().in_use, 0, "{device} leaks");
    }
    cause.to_string()
}

#[test]
fn the_ideal_split_is_by_speed() {
    let (shares, time) = ideal_split(1000, &[400.0, 100.0]);
    assert_eq!((shares, time), (vec![800.0, 200.0], Duration::from_secs(2)));
    assert_eq!(ideal_split(0, &[0.0, 0.0]), (vec![0.0, 0.0], Duration::ZERO));
}
