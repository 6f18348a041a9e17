//! `millstream topology [--calibrate]`.

use std::time::Instant;

use clap::Args;
use millstream::flow::{Context, Error as FlowError};

use crate::error::Error;
use crate::options::{context, run_interruptibly};

/// Shows the devices.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A comma list: host:4, host:2x3.
    #[arg(long, default_value = "host:4")]
    devices: String,
    /// Measures copies between the devices.
    #[arg(long)]
    calibrate: bool,
    /// Prints one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Bytes of the copies that `--calibrate` measures.
const SIZES: [usize; 4] = [4 << 10, 256 << 10, 2 << 20, 16 << 20];

/// Shows names, links and the ring, and measures if asked to.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let context = context(&arguments.devices)?;
    let topology = context.topology();
    let places = 0..topology.names().len();
    let link =
        |from, to| if from == to { "-".into() } else { format!("{:?}", topology.link(from, to)) };
    let links: Vec<Vec<String>> =
        places.clone().map(|from| places.clone().map(|to| link(from, to)).collect()).collect();
    let table = match arguments.calibrate {
        true => run_interruptibly(&context, calibrate(&context))??,
        false => Vec::new(),
    };
    if arguments.json {
        let transfers: Vec<_> = table
            .iter()
            .map(|(from, to, bytes, rate)| {
                serde_json::json!({"from": from, "to": to, "bytes": bytes, "bytes_per_second": rate})
            })
            .collect();
        let report = serde_json::json!({
            "devices": topology.names(),
            "links": links,
            "ring": topology.ring_order(),
            "transfers": transfers,
        });
        println!("{report}");
        return Ok(());
    }
    let mut shown = comfy_table::Table::new();
    shown.load_style(comfy_table::presets::NOTHING);
    let names = topology.names().iter().cloned();
    shown.set_header(std::iter::once("from / to".to_string()).chain(names));
    for (name, row) in topology.names().iter().zip(links) {
        shown.add_row(std::iter::once(name.clone()).chain(row));
    }
    println!("{shown}");
    let ring: Vec<_> =
        topology.ring_order().iter().map(|&place| topology.names()[place].clone()).collect();
    println!("ring: {}", ring.join(" -> "));
    for (from, to, bytes, rate) in table {
        println!("{from} -> {to}, {} KiB: {:.2} GB/s", bytes >> 10, rate / 1e9);
    }
    Ok(())
}

type Transfer = (String, String, usize, f64);

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
                let rate = (bytes * copies) as f64 / start.elapsed().as_secs_f64();
                table.push((from.name(), to.name(), bytes, rate));
            }
        }
    }
    Ok(table)
}
