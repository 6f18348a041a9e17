//! `millstream filter`: predicate-based filtering \[G §3, Fig. 5 and 6\], and how
//! the devices divide the work \[G §5.3\].

mod pipeline;
mod slow;

use clap::{Args, ValueEnum, value_parser};
use millstream::flow::{RoutingPolicy, first_available, scatter};
use millstream::prelude::*;
use serde::Serialize;

use crate::devices::LinkedDeviceOptions;
use crate::error::Error;
use crate::interrupt::run_interruptibly;
use crate::output::{Link, answer, check_all_writable, facts, link_table, links, plain_table};
use crate::progress::phase;
use pipeline::{Filter, Filtered, Filterer, ideal_split, numbers, packet_bytes};
use slow::{Slow, filterers};

/// Filters numbers: keeps the multiples of a divisor. Says how much of the work each
/// device did, and how much it would have done if all had finished at once.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many numbers, from 0 on.
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    items: u32,
    /// Keeps its multiples.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = value_parser!(u32).range(1..))]
    divisor: u32,
    /// How expensive the predicate is: how many times each number is tested.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = value_parser!(u32).range(1..=1_000_000)
    )]
    cost: u32,
    /// Who gets which segment.
    #[arg(long, value_enum, default_value_t = Schedule::FirstAvailable)]
    schedule: Schedule,
    /// Makes a device slower: it processes each packet FACTOR times, at most 1000.
    /// May be given for several devices.
    #[arg(long, value_name = "DEVICE=FACTOR")]
    slow: Vec<Slow>,
    /// Most bytes of a packet; first-available gives slower devices smaller packets.
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    packet_bytes: usize,
    /// Packet buffers of each link; chosen by the link unless given.
    #[arg(long, value_name = "N")]
    buffers: Option<usize>,
    /// Compares the answer with a sequential filter.
    #[arg(long)]
    verify: bool,
    /// Prints one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    devices: LinkedDeviceOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Schedule {
    /// Each packet to the first device with a free buffer.
    FirstAvailable,
    /// An equal part for each device.
    Static,
}

impl Schedule {
    fn policy(self) -> RoutingPolicy {
        match self {
            Schedule::FirstAvailable => first_available(),
            Schedule::Static => scatter(),
        }
    }

    /// Bytes of each device's packets: equal parts stay in packets of one size.
    fn packet_bytes(self, most: usize, rates: &[f64]) -> Vec<usize> {
        match self {
            Schedule::FirstAvailable => packet_bytes(most, rates),
            Schedule::Static => vec![most; rates.len()],
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    algorithm: &'static str,
    items: u32,
    divisor: u32,
    cost: u32,
    kept: usize,
    devices: Vec<String>,
    schedule: Schedule,
    time_ms: f64,
    /// The time if all devices worked at the rates that each has alone.
    ideal_time_ms: f64,
    items_per_second: f64,
    verified: Option<bool>,
    links: Vec<Link>,
    per_device: Vec<DeviceReport>,
}

#[derive(Debug, Serialize)]
struct DeviceReport {
    device: String,
    /// How many times it processed each packet.
    slow: u32,
    /// The most bytes of a packet.
    packet_bytes: usize,
    packets: u64,
    items: u64,
    /// The time until it had processed its last packet.
    time_ms: f64,
    /// Its rate while the other devices are idle.
    alone_items_per_second: f64,
    ideal_items: f64,
}

/// Filters, checks and answers.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let trace = ("--trace", arguments.devices.trace());
    check_all_writable(&[trace], &[arguments.devices.topology()])?;
    let context = arguments.devices.open()?;
    let packet_bytes = arguments.packet_bytes.min(message_bytes(arguments));
    let buffers = |bytes| buffers(arguments, bytes);
    let most = buffers(packet_bytes);
    let mut filterers = filterers(&context, &arguments.slow, most)?;
    let filter = Filter { divisor: arguments.divisor, cost: arguments.cost, buffers: most };
    let (warm_up, sample) = sample(arguments, packet_bytes, filterers.len());
    let measuring = filter.rates_alone(&context, &filterers, warm_up, sample);
    let rates = phase("measuring each device alone", || run_interruptibly(&context, measuring))??;
    let packets = arguments.schedule.packet_bytes(packet_bytes, &rates);
    for (filterer, &bytes) in filterers.iter_mut().zip(&packets) {
        filterer.buffers = buffers(bytes);
    }
    let numbers = numbers(context.host(), arguments.items)?;
    let filtering = filter.run(&context, &filterers, arguments.schedule.policy(), &numbers);
    let mut filtered = phase("filtering", || run_interruptibly(&context, filtering))??;
    filtered.kept.sort_unstable();
    let expected = (0..arguments.items).step_by(arguments.divisor as usize);
    let verified = arguments.verify.then(|| filtered.kept.iter().copied().eq(expected));
    let report = report(arguments, &filterers, (&rates, &packets), &filtered, verified);
    answer(&report, arguments.json, table)?;
    match verified {
        Some(false) => Err(Error::NotVerified("a sequential filter keeps others".into())),
        _ => Ok(()),
    }
}

/// Bytes of all numbers; of one if there are none.
fn message_bytes(arguments: &Arguments) -> usize {
    arguments.items.max(1) as usize * size_of::<u32>()
}

/// Buffers for packets of `bytes` bytes, no more than there are packets.
fn buffers(arguments: &Arguments, bytes: usize) -> Buffers {
    let packets = message_bytes(arguments).div_ceil(bytes.max(1));
    let buffers = Buffers::bytes(bytes);
    arguments.buffers.map_or(buffers, |count| buffers.count(count.min(packets)))
}

/// One packet, and a sample of a quarter of an equal share, from 8 to 64 packets; both in items,
/// and no more than there are.
fn sample(arguments: &Arguments, packet_bytes: usize, devices: usize) -> (u32, u32) {
    let packet = (packet_bytes / size_of::<u32>()).max(1);
    let share = arguments.items as usize / packet / devices.max(1);
    let items = |packets: usize| {
        let items = u32::try_from(packet.saturating_mul(packets)).unwrap_or(u32::MAX);
        items.min(arguments.items)
    };
    (items(1), items((share / 4).clamp(8, 64)))
}

fn report(
    arguments: &Arguments,
    filterers: &[Filterer],
    (rates, packets): (&[f64], &[usize]),
    filtered: &Filtered,
    verified: Option<bool>,
) -> Report {
    let (ideal_items, ideal_time) = ideal_split(arguments.items.into(), rates);
    let per_device = |place: usize| {
        let (Filterer { device, repeats, .. }, share) =
            (&filterers[place], &filtered.shares[place]);
        DeviceReport {
            device: device.name(),
            slow: *repeats,
            packet_bytes: packets[place],
            packets: share.packets,
            items: share.items,
            time_ms: share.time.as_secs_f64() * 1e3,
            alone_items_per_second: rates[place],
            ideal_items: ideal_items[place],
        }
    };
    Report {
        algorithm: "filter",
        items: arguments.items,
        divisor: arguments.divisor,
        cost: arguments.cost,
        kept: filtered.kept.len(),
        devices: filterers.iter().map(|filterer| filterer.device.name()).collect(),
        schedule: arguments.schedule,
        time_ms: filtered.time.as_secs_f64() * 1e3,
        ideal_time_ms: ideal_time.as_secs_f64() * 1e3,
        items_per_second: f64::from(arguments.items) / filtered.time.as_secs_f64(),
        verified,
        links: links(&filtered.links),
        per_device: (0..filterers.len()).map(per_device).collect(),
    }
}

fn table(report: &Report) -> String {
    let facts = facts(&[
        ("items", format!("{}, {} kept", report.items, report.kept)),
        ("devices", report.devices.join(" ")),
        ("time", format!("{:.3} ms, ideally {:.3} ms", report.time_ms, report.ideal_time_ms)),
        ("items a second", format!("{:.3e}", report.items_per_second)),
    ]);
    let mut devices = plain_table();
    let header = ["device", "slow", "packets", "items", "ideal items", "ms", "items/s alone"];
    devices.set_header(header);
    for device in &report.per_device {
        devices.add_row([
            device.device.clone(),
            device.slow.to_string(),
            device.packets.to_string(),
            device.items.to_string(),
            format!("{:.0}", device.ideal_items),
            format!("{:.3}", device.time_ms),
            format!("{:.3e}", device.alone_items_per_second),
        ]);
    }
    let verified = if report.verified == Some(true) { "\nverified" } else { "" };
    let devices = devices.trim_fmt();
    format!("{facts}\n{devices}\n{}{verified}", link_table(&report.links))
}
