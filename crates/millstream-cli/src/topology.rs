//! `millstream topology [--calibrate]`.

use clap::Args;
use millstream::device::{LinkKind, Location, Topology, Transfer, TransferTable};
use millstream::flow::{Context, Error as FlowError};
use serde::Serialize;

use crate::devices::DeviceOptions;
use crate::error::Error;
use crate::interrupt::run_interruptibly;
use crate::output::{answer, plain_table};
use crate::progress::phase;
use crate::remark::remark;

/// Shows the devices.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Measures copies between the memories of the devices, and keeps the results,
    /// by which links choose their buffers.
    #[arg(long, conflicts_with = "topology")]
    calibrate: bool,
    /// Prints one JSON object instead of a table; it can be used as a --topology file.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    devices: DeviceOptions,
}

#[derive(Debug, Serialize)]
struct Report {
    devices: Vec<String>,
    links: Vec<Vec<LinkKind>>,
    locations: Vec<Option<Location>>,
    ring: Vec<usize>,
    transfers: Vec<MeasuredTransfer>,
}

/// Copies of one size from one memory to another.
#[derive(Debug, Serialize)]
struct MeasuredTransfer {
    #[serde(flatten)]
    transfer: Transfer,
    bytes_per_second: f64,
}

/// Shows names, places, links and the ring, and measures if asked to.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let context = match arguments.calibrate {
        true => arguments.devices.open_to_measure()?,
        false => arguments.devices.open()?,
    };
    let measured = match arguments.calibrate {
        true => Some(phase("measuring", || measure(&context))?),
        false => None,
    };
    let kept = measured.as_ref().map_or(Ok(()), |table| keep(&context, table));
    let report = report(context.topology(), measured.as_ref());
    answer(&report, arguments.json, |report| table(report, measured.as_ref()))?;
    // The results are shown even if they could not be kept.
    kept
}

/// Measures copies.
fn measure(context: &Context) -> Result<TransferTable, Error> {
    let measured = run_interruptibly(context, context.device_set().calibrate())?;
    Ok(measured.map_err(FlowError::Device)?)
}

/// Keeps what was measured, if there is a place for it.
fn keep(context: &Context, table: &TransferTable) -> Result<(), Error> {
    let kept = context.device_set().keep_transfer_table(table).map_err(FlowError::Device)?;
    if kept.is_none() {
        remark("set MILLSTREAM_CACHE to a folder to keep the table");
    }
    Ok(())
}

fn report(topology: &Topology, measured: Option<&TransferTable>) -> Report {
    let places = 0..topology.names().len();
    let row = |from| places.clone().map(|to| topology.link(from, to)).collect();
    let transfers =
        measured.or(topology.transfer_table()).map_or(&[][..], TransferTable::transfers);
    let transfer = |transfer: &Transfer| MeasuredTransfer {
        transfer: transfer.clone(),
        bytes_per_second: transfer.bandwidth(),
    };
    Report {
        devices: topology.names().to_vec(),
        links: places.clone().map(row).collect(),
        locations: places.clone().map(|place| topology.location(place).cloned()).collect(),
        ring: topology.ring_order(),
        transfers: transfers.iter().map(transfer).collect(),
    }
}

fn table(report: &Report, measured: Option<&TransferTable>) -> String {
    let mut links = plain_table();
    let names = report.devices.iter().cloned();
    links.set_header(std::iter::once("from / to".to_string()).chain(names));
    for (name, row) in report.devices.iter().zip(&report.links) {
        links.add_row(std::iter::once(name.clone()).chain(row.iter().map(ToString::to_string)));
    }
    let ring: Vec<_> = report.ring.iter().map(|&place| &*report.devices[place]).collect();
    let mut text = format!("{}\nring: {}", links.trim_fmt(), ring.join(" -> "));
    if report.locations.iter().any(Option::is_some) {
        text = format!("{}\n{text}", locations(report));
    }
    match (measured, report.transfers.len()) {
        (Some(measured), _) => text += &format!("\n{}", transfers(measured)),
        (None, 0) => text += "\ntransfers: not measured (--calibrate)",
        (None, count) => text += &format!("\ntransfers: {count} measured (--json shows them)"),
    }
    text
}

/// Where each GPU sits.
fn locations(report: &Report) -> String {
    let mut table = plain_table();
    table.set_header(["device", "model", "bus", "NUMA node", "NVLinks"]);
    for (name, location) in report.devices.iter().zip(&report.locations) {
        let Some(location) = location else { continue };
        let node = location.numa_node.map_or("-".to_string(), |node| node.to_string());
        let nvlinks = location.nvlinks.map_or("unknown".to_string(), |links| match links.count {
            0 => "none".to_string(),
            count => format!("{count}, version {}", links.version),
        });
        table.add_row([name.clone(), location.model.clone(), location.bus.clone(), node, nvlinks]);
    }
    table.trim_fmt()
}

/// GB/s for each pair, way and size, and how long the smallest copy takes alone.
fn transfers(measured: &TransferTable) -> String {
    let mut sizes: Vec<usize> =
        measured.transfers().iter().map(|transfer| transfer.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut table = plain_table();
    let size = |bytes: &usize| match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    };
    let header = ["GB/s".to_string()].into_iter().chain(sizes.iter().map(size));
    table.set_header(header.chain(["latency".to_string()]));
    let route = |transfer: &Transfer| (transfer.from.clone(), transfer.to.clone(), transfer.way);
    for pair in measured.transfers().chunk_by(|one, other| route(one) == route(other)) {
        let Some(smallest) = pair.first() else { continue };
        let name = format!("{} -> {}, {}", smallest.from, smallest.to, smallest.way);
        let rates = sizes.iter().map(|bytes| {
            let transfer = pair.iter().find(|transfer| transfer.bytes == *bytes);
            transfer
                .map_or("-".to_string(), |transfer| format!("{:.2}", transfer.bandwidth() / 1e9))
        });
        let latency = format!("{:.1} us", smallest.latency_us);
        table.add_row([name].into_iter().chain(rates).chain([latency]));
    }
    table.trim_fmt()
}
