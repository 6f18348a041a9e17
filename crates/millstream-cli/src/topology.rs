//! `millstream topology [--calibrate]`.

use std::time::Instant;

use clap::Args;
use millstream::flow::{Context, Error as FlowError};
use serde::Serialize;

use crate::devices::DeviceOptions;
use crate::error::Error;
use crate::interrupt::run_interruptibly;
use crate::output::answer;
use crate::progress::phase;

/// Shows the devices.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    devices: DeviceOptions,
    /// Measures copies between the devices.
    #[arg(long)]
    calibrate: bool,
    /// Prints one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Bytes of the copies that `--calibrate` measures.
const SIZES: [usize; 4] = [4 << 10, 256 << 10, 2 << 20, 16 << 20];

#[derive(Debug, Serialize)]
struct Report {
    devices: Vec<String>,
    links: Vec<Vec<String>>,
    ring: Vec<usize>,
    transfers: Vec<Transfer>,
}

/// Copies of one size from one endpoint to another.
#[derive(Debug, Serialize)]
struct Transfer {
    from: String,
    to: String,
    bytes: usize,
    bytes_per_second: f64,
}

/// Shows names, links and the ring, and measures if asked to.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let context = arguments.devices.open()?;
    let topology = context.topology();
    let places = 0..topology.names().len();
    let link =
        |from, to| if from == to { "-".into() } else { format!("{:?}", topology.link(from, to)) };
    let report = Report {
        devices: topology.names().to_vec(),
        links: places
            .clone()
            .map(|from| places.clone().map(|to| link(from, to)).collect())
            .collect(),
        ring: topology.ring_order().to_vec(),
        transfers: match arguments.calibrate {
            true => phase("measuring", || run_interruptibly(&context, calibrate(&context)))??,
            false => Vec::new(),
        },
    };
    answer(&report, arguments.json, table)
}

fn table(report: &Report) -> String {
    let mut links = comfy_table::Table::new();
    links.load_style(comfy_table::presets::NOTHING);
    let names = report.devices.iter().cloned();
    links.set_header(std::iter::once("from / to".to_string()).chain(names));
    for (name, row) in report.devices.iter().zip(&report.links) {
        links.add_row(std::iter::once(name).chain(row));
    }
    let ring: Vec<_> = report.ring.iter().map(|&place| &*report.devices[place]).collect();
    let mut text = format!("{links}\nring: {}", ring.join(" -> "));
    for Transfer { from, to, bytes, bytes_per_second } in &report.transfers {
        let rate = bytes_per_second / 1e9;
        text += &format!("\n{from} -> {to}, {} KiB: {rate:.2} GB/s", bytes >> 10);
    }
    text
}

/// Bytes a second of one copy after the other, from each endpoint to each.
async fn calibrate(context: &Context) -> Result<Vec<Transfer>, FlowError> {
    let endpoints: Vec<_> = [context.host()].into_iter().chain(context.devices()).collect();
    let mut table = Vec::new();
    for from in &endpoints {
        for to in endpoints.iter().filter(|to| to != &from) {
            for bytes in SIZES {
                let source = from.buffer::<u8>(bytes)?;
                let mut destination = to.buffer::<u8>(bytes)?;
                let stream = from.stream()?;
                let copies = ((64 << 20) / bytes).clamp(4, 256);
                let start = Instant::now();
                for _ in 0..copies {
                    stream.copy(&source, &mut destination)?;
                }
                stream.record()?.completed().await?;
                table.push(Transfer {
                    from: from.name(),
                    to: to.name(),
                    bytes,
                    bytes_per_second: (bytes * copies) as f64 / start.elapsed().as_secs_f64(),
                });
            }
        }
    }
    Ok(table)
}
