//! Predicate-based filtering over devices of different speed \[G §5.3\], with the
//! command's own dataflow graph.
//!
//! Every operation sleeps for the same time here, the work itself is nothing. So a
//! device that does each packet four times over is four times slower, also where
//! few cores run many devices and other programs.

use std::time::Duration;

use millstream::device::Injection;
use millstream::flow::{RoutingPolicy, first_available, scatter};
use millstream::prelude::*;

#[path = "../../../crates/millstream-cli/src/filter/pipeline.rs"]
mod pipeline;

use pipeline::{Filter, Filtered, Filterer, ideal_split};

const DIVISOR: u32 = 7;
const PACKET_ITEMS: u32 = 64;
const SLOW: u32 = 4;

fn filter() -> Filter {
    Filter { divisor: DIVISOR, buffers: Buffers::items(PACKET_ITEMS as usize).count(3) }
}

fn filterers(context: &Context, repeats: &[u32]) -> Vec<Filterer> {
    let devices = context.devices().iter().cloned().zip(repeats);
    devices.map(|(device, &repeats)| Filterer { device, repeats }).collect()
}

/// Filters so many items; none is lost and none comes twice.
fn run(context: &Context, repeats: &[u32], policy: RoutingPolicy, items: u32) -> Filtered {
    let filterers = filterers(context, repeats);
    let numbers = (0..items).collect();
    let filtering = filter().run(context, &filterers, policy, numbers);
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

/// Where each operation takes a few milliseconds, on a thread of its own.
fn sleeping(devices: usize) -> Context {
    let delay = Duration::from_millis(3);
    let injection = Injection { delay: Some(delay..=delay), ..Injection::default() };
    let builder = Context::builder().devices(Devices::host(devices)).injection(injection);
    builder.threads(8 * devices).build().unwrap()
}

/// 200 packets a device. The bound leaves room for the packets that the slow device
/// has waiting when the last one is given away, 3 of about 80, and for the load of
/// the machine.
#[test]
fn first_available_is_near_the_ideal_split() {
    let context = sleeping(2);
    let (repeats, items) = ([1, SLOW], 400 * PACKET_ITEMS);
    let workers = filterers(&context, &repeats);
    let sample = 20 * PACKET_ITEMS;
    let measuring = filter().rates_alone(&context, &workers, PACKET_ITEMS, sample);
    let rates = context.block_on(measuring).unwrap().unwrap();
    let slower = rates[0] / rates[1];
    assert!((3.0..5.0).contains(&slower), "{slower} times slower");

    let dynamic = run(&context, &repeats, first_available(), items);
    let (ideal, ideal_time) = ideal_split(items.into(), &rates);
    for (share, ideal) in dynamic.shares.iter().zip(&ideal) {
        let ratio = share.items as f64 / ideal;
        println!("{} of ideally {ideal:.0} items: {ratio:.3}", share.items);
        assert!((0.8..1.2).contains(&ratio), "{} of ideally {ideal} items", share.items);
    }

    let fixed = run(&context, &repeats, scatter(), items);
    println!("{:?}, static {:?}, ideal {ideal_time:?}", dynamic.time, fixed.time);
    assert!(fixed.shares.iter().all(|share| share.items == u64::from(items) / 2));
    assert!(fixed.shares[1].time > 2 * fixed.shares[0].time, "{:?}", fixed.shares);
    assert!(fixed.time > dynamic.time.mul_f64(1.5), "{:?}, {:?}", fixed.time, dynamic.time);
}

/// Packets of many lengths, more devices than packets, in many orders.
#[test]
fn slow_devices_lose_nothing() {
    for seed in 0..40 {
        let injection = Injection { seed, reorder: seed % 2 == 0, ..Injection::default() };
        let builder = Context::builder().devices(Devices::host(4)).simulated(seed);
        let context = builder.injection(injection).build().unwrap();
        for policy in [first_available, scatter] {
            for packets in [0, 1, 3, 25] {
                run(&context, &[1, SLOW, 9, 2], policy(), packets * PACKET_ITEMS + seed as u32);
            }
        }
    }
}

#[test]
fn the_ideal_split_is_by_speed() {
    let (shares, time) = ideal_split(1000, &[400.0, 100.0]);
    assert_eq!((shares, time), (vec![800.0, 200.0], Duration::from_secs(2)));
    assert_eq!(ideal_split(0, &[0.0, 0.0]), (vec![0.0, 0.0], Duration::ZERO));
}
