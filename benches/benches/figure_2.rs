//! The microbenchmarks of the article's Figure 2 \[G §2.1\]: four tables, one for each panel; each
//! number is the median of all trials of a measurement. Uses the devices that `MILLSTREAM_DEVICES`
//! names; otherwise all GPUs or, if there are none, host devices.
//!
//! * a: direct access, threads that read or write consecutive or random words of their
//!   own memory, of a peer's and of the host's;
//! * b: what packets cost, beside one copy of all bytes;
//! * c: packets by copy engine, pushed, and pushed and pulled through the host: by a kernel for
//!   each packet, and, *resident*, by kernels that stay at both ends of a `DeviceLink`;
//! * d: from one device to all others.
//!
//! Resident kernels go on to the next trial at once, so their numbers are means, and all their
//! blocks together move a packet. What has arrived in the end is compared with what was sent.

#![allow(missing_docs)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::RangedU64ValueParser;
use clap::{Parser, ValueEnum};
use comfy_table::Table;
use futures_util::try_join;
use millstream::device::{
    Completion, CudaSource, Event, Kernel, Read, StreamKind, Topology, TransferWay, Trusted, Value,
    Write,
};
use millstream::flow::{Communicator, Error, Result};
use millstream::prelude::*;
use millstream_benches::device_link::{ITEM_BYTES, are_possible, chain};
use millstream_benches::full_empty::median;

#[derive(Parser)]
struct Arguments {
    /// Bytes of a transfer; by default 100 MB as in the article, 4 MB on host devices.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(16..))]
    bytes: Option<usize>,
    /// Trials of each measurement, after one that does not count.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,
    /// Panels to measure, all of which but a need two devices; all that can be unless given.
    #[arg(long, value_enum, value_delimiter = ',')]
    panels: Vec<Panel>,
    /// A file with the shape of another machine, which takes connections away.
    #[arg(long)]
    topology: Option<PathBuf>,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Panel {
    A,
    B,
    C,
    D,
}

const MIB: usize = 1 << 20;
const PACKETS: [usize; 8] = [MIB / 4, MIB / 2, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 64 * MIB];
/// Packets under way at once.
const BUFFERS: usize = 4;

struct Bench {
    context: Context,
    topology: Option<Topology>,
    bytes: usize,
    trials: u32,
}

const ACCESS: &str = include_str!("figure_2/access.cu");

/// Copies words: mode 0 copies consecutive ones, 1 from random places, 2 to random places.
static ACCESS_WORDS: Kernel<(Read<u32>, Write<u32>, Value<u32>)> = Kernel::with_source(
    "access",
    // SAFETY: like its twin, the kernel uses its arguments only as the signature says.
    unsafe { Trusted::new(CudaSource::new("access.cu", "access", ACCESS)) },
    |_, (from, to, how)| {
        let len = to.len();
        for at in 0..len {
            let elsewhere = if how == 0 { at } else { at.wrapping_mul(2_654_435_761) % len };
            match how {
                2 => to[elsewhere] = from[at],
                _ => to[at] = from[elsewhere],
            }
        }
        Ok(())
    },
);

impl Bench {
    fn device(&self, place: usize) -> &Device {
        &self.context.devices()[place]
    }

    /// Median time of a trial.
    async fn median(&self, mut trial: impl AsyncFnMut() -> Result<()>) -> Result<Duration> {
        let mut times = Vec::new();
        for _ in 0..=self.trials {
            let start = Instant::now();
            trial().await?;
            times.push(start.elapsed());
        }
        Ok(median(times.split_off(1)))
    }

    /// Median time from before `submit` to the end of everything that it submits.
    async fn submitted(
        &self,
        mut submit: impl FnMut() -> Result<Vec<Completion>>,
    ) -> Result<Duration> {
        let trial = async || {
            for end in submit()? {
                end.await?;
            }
            Ok(())
        };
        self.median(trial).await
    }

    fn rate(&self, time: Duration) -> String {
        format!("{:.2}", self.bytes as f64 / time.as_secs_f64() / 1e9)
    }

    /// Panel a.
    async fn direct_access(&self) -> Result<Table> {
        let (here, host) = (self.device(0), self.context.host());
        let peer = self.context.devices().get(1).filter(|peer| here.reaches(peer));
        let memories = [Some(("own memory", here)), peer.map(|peer| ("peer", peer))];
        let memories = memories.into_iter().flatten().chain([("host", host)]);
        let mut table = Table::new();
        let header =
            ["GB/s", "write", "read", "words", "read words", "random writes", "random reads"];
        table.set_header(header);
        let (stream, words) = (here.stream()?, self.bytes / 4);
        for (name, memory) in memories {
            let (mut near, mut far) = (here.buffer::<u32>(words)?, memory.buffer::<u32>(words)?);
            let mut row = vec![name.to_string()];
            row.push(
                self.rate(
                    self.submitted(|| {
                        stream.copy_by_kernel(&near, &mut far)?;
                        Ok(vec![stream.completed()?])
                    })
                    .await?,
                ),
            );
            row.push(
                self.rate(
                    self.submitted(|| {
                        stream.copy_by_kernel(&far, &mut near)?;
                        Ok(vec![stream.completed()?])
                    })
                    .await?,
                ),
            );
            for (how, reads) in [(0, false), (0, true), (2, false), (1, true)] {
                let (from, to) = if reads { (&far, &mut near) } else { (&near, &mut far) };
                row.push(
                    self.rate(
                        self.submitted(|| {
                            ACCESS_WORDS.launch(&stream, words, (from, &mut *to, how))?;
                            Ok(vec![stream.completed()?])
                        })
                        .await?,
                    ),
                );
            }
            table.add_row(row);
        }
        Ok(table)
    }

    /// One copy of all bytes.
    async fn plain(&self) -> Result<Duration> {
        let (from, to) = (self.device(0), self.device(1));
        let (source, mut target) = (from.buffer::<u8>(self.bytes)?, to.buffer::<u8>(self.bytes)?);
        let stream = from.stream_of(StreamKind::Copy)?;
        self.submitted(|| {
            stream.copy(&source, &mut target)?;
            Ok(vec![stream.completed()?])
        })
        .await
    }

    /// One message over a link, until its last packet has arrived.
    async fn link(&self, context: &Context, packet: usize) -> Result<Duration> {
        let [from, to] = [0, 1].map(|place| &context.devices()[place]);
        let graph = Graph::new(context);
        let buffers = Buffers::bytes(packet).count(BUFFERS);
        let (mut output, mut input) = graph.link::<u8>(from, to, buffers)?;
        let (sending, receiving) = (from.stream()?, to.stream()?);
        let message = from.buffer::<u8>(self.bytes)?;
        let run = graph.run(async move {
            let trial = async || {
                let sent = output.send_from(&message, &sending, 0)?;
                try_join!(sent, self.receive(&mut input, &receiving)).map(drop)
            };
            let time = self.median(trial).await?;
            output.shutdown()?;
            Ok::<_, Error>(time)
        });
        run.await
    }

    async fn receive(&self, input: &mut Receiver<u8>, stream: &Stream) -> Result<()> {
        let mut received = 0;
        while received < self.bytes {
            let Some(pending) = input.recv().await? else { return Err(Error::Ended) };
            received += pending.len();
            stream.wait(&pending)?;
            pending.release_after(stream)?;
        }
        Ok(stream.completed()?.await?)
    }

    /// Panel b.
    async fn overhead(&self) -> Result<Table> {
        let mut table = Table::new();
        table.set_header(["packet", "time us", "GB/s", "overhead"]);
        let plain = self.plain().await?;
        let us = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e6);
        table.add_row(["one copy".to_string(), us(plain), self.rate(plain), "-".to_string()]);
        for packet in PACKETS {
            let time = self.link(&self.context, packet).await?;
            let overhead = (time.as_secs_f64() / plain.as_secs_f64() - 1.0) * 100.0;
            let overhead = format!("{overhead:.1} %");
            table.add_row([kib(packet), us(time), self.rate(time), overhead]);
        }
        Ok(table)
    }

    /// Panel c.
    async fn ways(&self) -> Result<Table> {
        let mut table = Table::new();
        let ways = TransferWay::ALL;
        let names = ways.iter().map(ToString::to_string);
        let mut resident = vec![TransferWay::Push, TransferWay::Host];
        resident.retain(|_| are_possible(self.context.devices()));
        let resident_names = resident.iter().map(|way| format!("{way}, resident"));
        let first = ["packet, GB/s".to_string()].into_iter();
        table.set_header(first.chain(names).chain(resident_names));
        let contexts = ways.map(|way| open(self.topology.as_ref(), Some(way)));
        for packet in PACKETS {
            let mut row = vec![kib(packet)];
            for context in &contexts {
                let context = context.as_ref().map_err(Clone::clone)?;
                row.push(self.rate(self.link(context, packet).await?));
            }
            for (context, _) in contexts.iter().zip(ways).filter(|(_, way)| resident.contains(way))
            {
                let context = context.as_ref().map_err(Clone::clone)?;
                let time = chain(context, &[0, 1], (self.bytes, packet), self.trials).await?;
                row.push(self.rate(time));
            }
            table.add_row(row);
        }
        Ok(table)
    }

    /// Panel d.
    async fn one_to_all(&self) -> Result<Table> {
        let mut table = Table::new();
        table.set_header(["one to all", "packet", "time ms", "GB/s"]);
        let mut add = |name: &str, packet: String, time: Duration| {
            let ms = format!("{:.3}", time.as_secs_f64() * 1e3);
            table.add_row([name.to_string(), packet, ms, self.rate(time)]);
        };
        add("a copy to each", "-".to_string(), self.star().await?);
        for packet in [self.bytes, 16 * MIB, 4 * MIB, MIB] {
            for (name, by_kernel) in [("ring, copied", false), ("ring, pushed", true)] {
                let time = self.ring(packet, by_kernel).await?;
                add(name, if packet == self.bytes { "all".to_string() } else { kib(packet) }, time);
            }
            if packet != self.bytes && are_possible(self.context.devices()) {
                let order = self.context.topology().ring_order();
                let time = chain(&self.context, &order, (self.bytes, packet), self.trials).await?;
                add("ring, resident", kib(packet), time);
            }
        }
        add("broadcast of the collectives", "-".to_string(), self.broadcast().await?);
        Ok(table)
    }

    /// A copy from the first device to each of the others, all at once.
    async fn star(&self) -> Result<Duration> {
        let source = self.device(0).buffer::<u8>(self.bytes)?;
        let mut targets = Vec::new();
        for device in &self.context.devices()[1..] {
            let stream = self.device(0).stream_of(StreamKind::Copy)?;
            targets.push((stream, device.buffer::<u8>(self.bytes)?));
        }
        self.submitted(|| {
            for (stream, target) in &mut targets {
                stream.copy(&source, target)?;
            }
            targets.iter().map(|(stream, _)| Ok(stream.completed()?)).collect()
        })
        .await
    }

    /// From each device to the next, packet by packet.
    async fn ring(&self, packet: usize, by_kernel: bool) -> Result<Duration> {
        let order = self.context.topology().ring_order();
        let mut hops = Vec::new();
        for &place in &order {
            let device = self.device(place);
            let packets = self.bytes.div_ceil(packet);
            let buffers = (0..packets)
                .map(|number| device.buffer::<u8>(packet.min(self.bytes - number * packet)));
            let buffers: Vec<_> = buffers.collect::<millstream::device::Result<_>>()?;
            hops.push((device.stream_of(StreamKind::Copy)?, buffers));
        }
        self.submitted(|| {
            for number in 0..hops[0].1.len() {
                let mut arrived: Option<Event> = None;
                for hop in 1..hops.len() {
                    let (before, after) = hops.split_at_mut(hop);
                    let ((stream, source), (_, target)) = (&before[hop - 1], &mut after[0]);
                    if let Some(event) = &arrived {
                        stream.wait(event)?;
                    }
                    match by_kernel {
                        false => stream.copy(&source[number], &mut target[number])?,
                        true => stream.copy_by_kernel(&source[number], &mut target[number])?,
                    }
                    arrived = Some(stream.record()?);
                }
            }
            hops[..hops.len() - 1].iter().map(|(stream, _)| Ok(stream.completed()?)).collect()
        })
        .await
    }

    /// A broadcast as the collectives do it: one kernel on each GPU, where that is possible.
    async fn broadcast(&self) -> Result<Duration> {
        let mut communicator = Communicator::new(&self.context)?;
        let buffers = self.context.devices().iter().map(|device| device.buffer(self.bytes / 4));
        let mut buffers: Vec<DeviceBuffer<u32>> =
            buffers.collect::<millstream::device::Result<_>>()?;
        let trial = async || {
            let mut collectives = communicator.begin().await?;
            collectives.broadcast(0, &mut buffers)?;
            collectives.completed().await
        };
        self.median(trial).await
    }
}

fn kib(bytes: usize) -> String {
    format!("{} KiB", bytes >> 10)
}

/// All devices, connected in that shape. All packets go this way, or, if there is none, the links choose.
fn open(topology: Option<&Topology>, way: Option<TransferWay>) -> Result<Context> {
    let mut builder = Context::builder().devices(Devices::All);
    if let Some(topology) = topology {
        builder = builder.topology(topology.clone());
    }
    if let Some(way) = way {
        builder = builder.transfer(way);
    }
    builder.build()
}

/// Measures the panels and prints a table for each.
fn run(arguments: Arguments) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let topology = arguments.topology.map(|file| Topology::read(&file)).transpose()?;
    let context = open(topology.as_ref(), None)?;
    let names: Vec<String> = context.devices().iter().map(ToString::to_string).collect();
    let usual = if context.devices()[0].is_gpu() { 100_000_000 } else { 4_000_000 };
    let bytes = arguments.bytes.unwrap_or(usual) / ITEM_BYTES * ITEM_BYTES;
    let mut panels = panels(arguments.panels, names.len())?;
    // Panel c comes last: it drops contexts, and while their memory is given back, launches take
    // milliseconds.
    panels.sort_by_key(|panel| *panel == Panel::C);
    println!("figure 2 on {}, {bytes} bytes, {} trials", names.join(", "), arguments.trials);
    let bench = Bench { context, topology, bytes, trials: arguments.trials };
    for panel in panels {
        let (name, table) = bench.context.block_on(async {
            Ok::<_, Error>(match panel {
                Panel::A => ("a", bench.direct_access().await?),
                Panel::B => ("b", bench.overhead().await?),
                Panel::C => ("c", bench.ways().await?),
                Panel::D => ("d", bench.one_to_all().await?),
            })
        })??;
        println!("{name}\n{table}");
        let has_resident = matches!(panel, Panel::C | Panel::D);
        if has_resident && !are_possible(bench.context.devices()) {
            println!("without resident kernels: those of GPUs and of host devices have no links");
        }
    }
    Ok(())
}

/// The panels that are asked for; otherwise, all that are possible with this many devices.
fn panels(asked_for: Vec<Panel>, devices: usize) -> std::result::Result<Vec<Panel>, &'static str> {
    match (asked_for.is_empty(), devices) {
        (true, 1) => {
            println!("only panel a: the others need two devices");
            Ok(vec![Panel::A])
        }
        (true, _) => Ok(Panel::value_variants().to_vec()),
        (false, 1) if asked_for.iter().any(|&panel| panel != Panel::A) => {
            Err("one device has panel a only: the others need two")
        }
        (false, _) => Ok(asked_for),
    }
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
