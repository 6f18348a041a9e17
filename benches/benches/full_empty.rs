//! What full/empty segments save: the seven benchmarks of Lustig and Martonosi (HPCA 2013), from
//! the moment at which their data is there to the moment at which the host has the result, in four
//! modes; and vectorAdd by its length. Uses the first device of `MILLSTREAM_DEVICES`; otherwise the
//! first GPU or, if there is none, a host device.

#![allow(missing_docs)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use clap::{Parser, ValueEnum};
use comfy_table::Table;
use millstream::device::set_driver_defaults;
use millstream::flow::{Context, Devices, Result};
use millstream_benches::full_empty::{
    Bed, EARLY_PACKET, Mode, Moved, NAMES as WORKLOADS, Sizes, Workload, median, vector_add,
    workloads,
};

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// The paper's sizes.
    Paper,
    /// Eight times the paper's data, as its bus was slower.
    Node,
    /// So much that copies take nearly all of the time.
    Large,
    /// Sizes for a quick look.
    Small,
    /// vectorAdd from 2^10 to 2^20 items, beside one thread of the host.
    Sweep,
}

#[derive(Parser)]
struct Arguments {
    /// What to run; on GPUs all but the small sizes unless given.
    #[arg(long, value_enum, value_delimiter = ',')]
    what: Vec<What>,
    /// Only these benchmarks; the sweep is of vectorAdd in any case.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(WORKLOADS))]
    workload: Vec<String>,
    /// Runs of each mode.
    #[arg(long, default_value_t = 60, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    runs: usize,
    /// Bytes of a packet that is copied; by default 16 MiB for early launch, and for full
    /// overlap what gives sixteen of them, but from 1 MiB to 4 MiB.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(4..))]
    packet_bytes: Option<usize>,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Results with more bytes are not compared in every run.
const LARGE_RESULT: usize = 1 << 20;

/// What the modes should reach: none of the chosen ones takes longer than this many times the
/// baseline, and full overlap saves at least this many per cent in the mean, at the paper's sizes.
const MOST_RATIO: f64 = 1.02;
const LEAST_SAVED: f64 = 26.0;

/// The modes, as the table names them.
const NAMES: [&str; 6] = [
    "baseline",
    "early launch",
    "proactive return",
    "full overlap",
    "early, in place",
    "full, in place",
];

fn modes(work: &Workload) -> [Mode; 6] {
    [
        Mode::Baseline,
        Mode::EarlyLaunch(Moved::Copied),
        Mode::ProactiveReturn,
        Mode::FullOverlap(Moved::Copied),
        Mode::EarlyLaunch(work.in_place()),
        Mode::FullOverlap(work.in_place()),
    ]
}

/// What [`chosen`] chooses a mode for.
const CHOICES: [&str; 3] = ["early", "return", "full"];

/// The modes that are chosen for early launch, proactive return and full overlap, before anything
/// is measured; none if results are too large to return early.
fn chosen(work: &Workload) -> [Option<usize>; 3] {
    let early = Mode::EarlyLaunch(work.early());
    let returning = work.returns().then_some(Mode::ProactiveReturn);
    let chosen = [Some(early), returning, Some(Mode::FullOverlap(work.overlapped()))];
    chosen.map(|mode| modes(work).iter().position(|known| Some(*known) == mode))
}

/// Microseconds of each mode. The modes alternate, after checked runs that do not count.
fn measure(
    context: &Context,
    work: &Workload,
    arguments: &Arguments,
) -> Result<([f64; 6], [Duration; 3], bool)> {
    let packets = [work.packet_bytes(), EARLY_PACKET];
    let packets = packets.map(|bytes| arguments.packet_bytes.unwrap_or(bytes));
    let device = &context.devices()[0];
    let mut beds = [
        Bed::new(context, device, work, packets[0])?,
        Bed::new(context, device, work, packets[1])?,
    ];
    let (expected, mut is_right) = (work.expected(), true);
    // Large results are compared only now and then, since that is slow.
    let is_large = work.output_len() * 4 > LARGE_RESULT;
    let (checked, compared_every) = if is_large { (5, 20) } else { (20, 1) };
    let mut times = [const { Vec::new() }; 6];
    for run in 0..checked + arguments.runs {
        for (mode, times) in modes(work).iter().zip(&mut times) {
            let bed = &mut beds[usize::from(matches!(mode, Mode::EarlyLaunch(Moved::Copied)))];
            if run < checked {
                is_right &= work.is_right(&expected, &bed.checked(*mode)?);
                continue;
            }
            times.push(bed.run(*mode)?);
            if run % compared_every == 0 {
                is_right &= work.is_right(&expected, &bed.answer(*mode)?);
            }
        }
    }
    let times = times.map(|times| median(times).as_secs_f64() * 1e6);
    Ok((times, beds[0].parts()?, is_right))
}

/// The time if the copies in, the kernel and the copy out ran all at once, and nothing else took time.
fn ideal(parts: &[Duration; 3]) -> Duration {
    parts.iter().copied().max().unwrap_or_default()
}

fn microseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e6)
}

/// The seven benchmarks: what each mode saves against the baseline, and what it could save.
fn seven(context: &Context, sizes: Sizes, arguments: &Arguments) -> Result<(String, bool)> {
    let mut table = Table::new();
    let heads = ["KiB in", "out", "copy in us", "kernel us", "copy out us", "ideal"];
    let last = CHOICES.map(|choice| format!("{choice}, chosen"));
    let names = ["benchmark"].iter().chain(&heads).chain(&NAMES).map(ToString::to_string);
    table.set_header(names.chain(last).chain(["right".to_string()]));
    let mut worst = (0.0, String::new());
    let (mut sums, mut all_right) = ([0.0; 9], true);
    let mut works = workloads(sizes);
    if !arguments.workload.is_empty() {
        works.retain(|work| arguments.workload.iter().any(|name| name == work.name));
    }
    for work in &works {
        let (times, parts, is_right) = measure(context, work, arguments)?;
        all_right &= is_right;
        let ideal = ideal(&parts).as_secs_f64() * 1e6;
        let mut row = vec![
            work.name.to_string(),
            (work.input_bytes() / 1024).to_string(),
            (work.output_len() * 4 / 1024).to_string(),
        ];
        row.extend(parts.map(microseconds));
        row.push(format!("{:.0} %", 100.0 * (1.0 - ideal / times[0])));
        row.push(format!("{:.1} us", times[0]));
        let saved = times.map(|time| 100.0 * (1.0 - time / times[0]));
        row.extend((1..6).map(|mode| format!("{:.1} us, {:.0} %", times[mode], saved[mode])));
        for (mode, choice) in chosen(work).into_iter().zip(CHOICES) {
            let Some(mode) = mode else { continue };
            let ratio = times[mode] / times[0];
            if ratio > worst.0 {
                worst = (ratio, format!("{}, {choice}", work.name));
            }
        }
        let chosen = chosen(work).map(|mode| mode.map(|mode| saved[mode]));
        let text =
            |saved: Option<f64>| saved.map_or("none".into(), |saved| format!("{saved:.0} %"));
        row.extend(chosen.map(text));
        // Where no mode is chosen, nothing is saved.
        let chosen = chosen.map(Option::unwrap_or_default);
        for (sum, saved) in sums.iter_mut().zip(saved.into_iter().chain(chosen)) {
            *sum += saved / works.len() as f64;
        }
        row.push(if is_right { "yes" } else { "NO" }.to_string());
        table.add_row(row);
    }
    let mut mean = vec![String::from("mean"); 1];
    mean.extend(std::iter::repeat_n(String::new(), 7));
    mean.extend(sums[1..].iter().map(|sum| format!("{sum:.1} %")));
    table.add_row(mean);
    let text = format!("{table}\n{}", verdict(sizes, &worst, sums[8]));
    Ok((text, all_right))
}

/// Whether the worst chosen mode and the mean of full overlap reach what they should.
fn verdict(sizes: Sizes, (ratio, which): &(f64, String), saved: f64) -> String {
    let met = |is_met: bool| if is_met { "met" } else { "MISSED" };
    let worst = format!(
        "worst chosen mode: {which}, {ratio:.3} of the baseline, at most {MOST_RATIO}: {}",
        met(*ratio <= MOST_RATIO)
    );
    match sizes {
        Sizes::Paper => format!(
            "{worst}\nfull overlap, chosen: {saved:.1} % less in the mean, at least {LEAST_SAVED}: {}",
            met(saved >= LEAST_SAVED)
        ),
        _ => worst,
    }
}

/// Microseconds of vectorAdd on one thread.
fn on_the_host(work: &Workload) -> f64 {
    let [a, b] = [0, 1].map(|input| -> Vec<f32> {
        work.inputs[input].iter().map(|bits| f32::from_bits(*bits)).collect()
    });
    let mut sum = vec![0.0f32; a.len()];
    let times = (0..30).map(|_| {
        let start = Instant::now();
        sum.iter_mut().zip(&a).zip(&b).for_each(|((sum, a), b)| *sum = a + b);
        std::hint::black_box(&mut sum);
        start.elapsed()
    });
    median(times.collect()).as_secs_f64() * 1e6
}

fn sweep(context: &Context, arguments: &Arguments) -> Result<(String, bool)> {
    let mut table = Table::new();
    let names = NAMES.map(|name| format!("{name} us"));
    let heads = ["items", "host us", "ideal us"].map(str::to_string);
    table.set_header(heads.iter().chain(&names));
    let mut all_right = true;
    for power in 10..=20 {
        let work = vector_add(1 << power);
        let (times, parts, is_right) = measure(context, &work, arguments)?;
        all_right &= is_right;
        let mut row = vec![(1 << power).to_string(), format!("{:.1}", on_the_host(&work))];
        row.push(microseconds(ideal(&parts)));
        row.extend(times.map(|time| format!("{time:.1}")));
        table.add_row(row);
    }
    Ok((table.to_string(), all_right))
}

fn run() -> Result<bool> {
    let mut arguments = Arguments::parse();
    let context = Context::builder().devices(Devices::All).build()?;
    let device = &context.devices()[0];
    println!("{} on {device}", env!("CARGO_CRATE_NAME"));
    if arguments.what.is_empty() {
        arguments.what = match device.is_gpu() {
            true => vec![What::Paper, What::Node, What::Large, What::Sweep],
            false => vec![What::Small],
        };
    }
    let mut all_right = true;
    for what in &arguments.what {
        let (table, is_right) = match what {
            What::Paper => seven(&context, Sizes::Paper, &arguments)?,
            What::Node => seven(&context, Sizes::Node, &arguments)?,
            What::Large => seven(&context, Sizes::Large, &arguments)?,
            What::Small => seven(&context, Sizes::Small, &arguments)?,
            What::Sweep => sweep(&context, &arguments)?,
        };
        println!("{table}");
        all_right &= is_right;
    }
    Ok(all_right)
}

fn main() -> ExitCode {
    set_driver_defaults();
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
