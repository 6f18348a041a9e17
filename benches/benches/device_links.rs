//! Links between kernels that stay on their devices: throughput from the first device to the second
//! in GB/s, by bytes of a packet and by number of sending blocks, each of which has a channel of
//! its own; and how long one packet takes. The sender's blocks fill packets in the place where they
//! are read, and the receiver's look at every word. Uses the devices that `--devices` or
//! `MILLSTREAM_DEVICES` names; otherwise the first two GPUs or, if there are none, host devices.
//!
//! Limits on the reference node (H200s, NVSwitch): a kernel's push to one peer moves 366 to 369
//! GB/s, and a flag in a peer's memory takes 2.4 us for the round trip, so 1.2 us one way. Through
//! memory of the host, pinned copies move 55 GB/s, and a flag takes 2.55 us for the round trip.

#![allow(missing_docs)]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use comfy_table::Table;
use millstream::device::{DeviceList, Topology, TransferWay};
use millstream::flow::{Error, LinkRoom, Result};
use millstream::prelude::*;
use millstream_benches::device_link::{ITEM_BYTES, are_possible, most_channels, one_way, rate};

#[derive(Parser)]
struct Arguments {
    /// Devices, of which the first two are used; `MILLSTREAM_DEVICES`, or all, unless given.
    #[arg(long)]
    devices: Option<DeviceList>,
    /// A shape of another machine, which takes connections away.
    #[arg(long)]
    topology: Option<std::path::PathBuf>,
    /// Milliseconds of a measurement; by default 100 on GPUs, 20 on host devices.
    #[arg(long)]
    milliseconds: Option<u64>,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Bytes of all slots of a channel together, as far as 2 to 16 packets allow.
const ROOM: usize = MIB;

struct Bench {
    context: Context,
    target: Duration,
}

impl Bench {
    fn is_gpus(&self) -> bool {
        self.context.devices()[..2].iter().all(Device::is_gpu)
    }

    async fn rates(&self) -> Result<Table> {
        let packets: &[usize] = match self.is_gpus() {
            true => &[4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB],
            false => &[4 * KIB, 64 * KIB, MIB],
        };
        let most = most_channels(&self.context)?;
        let mut channels = vec![1, 4, 16, 64];
        channels.retain(|channels| *channels < most);
        channels.push(most);
        let mut table = Table::new();
        let blocks = channels.iter().map(|channels| format!("{channels} blocks"));
        table.set_header(["packet, GB/s".to_string()].into_iter().chain(blocks));
        for &packet in packets {
            let mut row = vec![kib(packet)];
            for &channels in &channels {
                let room = LinkRoom::new((ROOM / packet).clamp(2, 16), packet / ITEM_BYTES);
                let rate = rate(&self.context, [0, 1], room.channels(channels), self.target);
                row.push(format!("{:.2}", rate.await? / 1e9));
            }
            table.add_row(row);
        }
        Ok(table)
    }

    async fn latencies(&self) -> Result<Table> {
        let mut table = Table::new();
        table.set_header(["packet", "one way us"]);
        for packet in [ITEM_BYTES, 4 * KIB, 64 * KIB, MIB] {
            let time = one_way(&self.context, [0, 1], packet / ITEM_BYTES, self.target).await?;
            let name = if packet < KIB { format!("{packet} bytes") } else { kib(packet) };
            table.add_row([name, format!("{:.2}", time.as_secs_f64() * 1e6)]);
        }
        Ok(table)
    }
}

fn kib(bytes: usize) -> String {
    format!("{} KiB", bytes >> 10)
}

fn run(arguments: Arguments) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let devices = arguments.devices.map_or_else(DeviceList::available, Ok)?;
    let topology = arguments.topology.map(|file| Topology::read(&file)).transpose()?;
    for way in [None, Some(TransferWay::Host)] {
        let mut builder = Context::builder().devices(Devices::List(devices.clone()));
        if let Some(topology) = topology.clone() {
            builder = builder.topology(topology);
        }
        if let Some(way) = way {
            builder = builder.transfer(way);
        }
        let context = builder.build()?;
        let [one, other, ..] = context.devices() else {
            return Err("two devices are needed".into());
        };
        if !are_possible(&context.devices()[..2]) {
            println!("no links from kernels of {one} to {other}: both must be GPUs, or neither");
            return Ok(());
        }
        println!(
            "links from kernels of {one} to {other}{}",
            if way.is_some() { ", through the host" } else { "" }
        );
        let usual = if one.is_gpu() && other.is_gpu() { 100 } else { 20 };
        let target = Duration::from_millis(arguments.milliseconds.unwrap_or(usual));
        let bench = Bench { context, target };
        bench.context.block_on(async {
            println!("{}", bench.latencies().await?);
            println!("{}", bench.rates().await?);
            Ok::<_, Error>(())
        })??;
    }
    Ok(())
}

fn main() -> ExitCode {
    set_driver_defaults();
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
