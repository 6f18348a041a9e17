//! Sweeps by a gang: kernels that go on from sweep to sweep by themselves, each writing
//! what its vertices give into the memory of the devices that ask. The kernels' side is
//! `sweeps.cuh`.

use std::sync::Arc;
use std::time::Instant;

use millstream_device::{
    BoundKernel, CudaSource, Device, DeviceBuffer, Kernel, Pod, Read, Shared, SharedBuffer,
    SharedSet, Trusted, Value, Zeroable,
};
use millstream_flow::{Gang, GangMember, GangMemory, LinkStatistics};
use millstream_traversal::internals::{OwnedValues, gang_kernel};

use crate::pagerank::Ranks;
use crate::pull::PullGraph;
use crate::real::Real;
use crate::share::teleport;
use crate::sweep::{Settings, rank};
use crate::{PageRankOptions, Result};

/// Words of the host, one set for each device: `SweepReport` of `sweeps.cuh`.
const REPORT_SWEEPS: usize = 0;
const REPORT_CHANGE: usize = 1;
const REPORT_WORDS: usize = 2;

/// As for a single sweep; then who asks, what all vertices give as each device knows
/// it, for even and for odd sweeps; the barrier's words; the host's; the report;
/// settings.
type Signature<R> = (
    (Read<u64>, Read<u32>, Read<R>),
    (Read<R>, Read<R>),
    (Read<u32>, SharedSet<<R as Real>::Bits>, SharedSet<<R as Real>::Bits>),
    SharedSet<u64>,
    Shared<u32>,
    Shared<u64>,
    Value<GangSettings>,
);

millstream_device::cuda_struct! {
    /// How a gang sweeps, as kernels take it.
    #[derive(Clone, Copy, Debug)]
    struct GangSettings as "millstream::GangSweepSettings" {
        sweep: Settings,
        tolerance: f64,
        nowhere: f64,
        vertices: f64,
        patience_ns: u64,
        here: u32,
        devices: u32,
        most_sweeps: u32,
        padding: u32,
    }
}

// SAFETY: plain numbers.
unsafe impl Zeroable for GangSettings {}
// SAFETY: plain numbers without padding.
unsafe impl Pod for GangSettings {}

/// What changes in a run: the shares that each device has, as they are after even numbers of sweeps and
/// after odd ones. And what comes to its own vertices from nowhere, if not the same to all.
pub(crate) struct Memory<R: Real> {
    even: Vec<SharedBuffer<R::Bits>>,
    odd: Vec<SharedBuffer<R::Bits>>,
    pub(crate) teleport: Vec<DeviceBuffer<R>>,
}

/// Sweeps until the change is small enough; one at least.
pub(crate) async fn run<R: Real>(pull: &PullGraph<R>, options: &PageRankOptions) -> Result<Ranks> {
    let kernel = kernel::<R>(pull.is_plain() && options.personalization.is_empty());
    let memory = Memory::new(pull, options).await?;
    let gangs = GangMemory::of_all(&pull.context, 0, REPORT_WORDS, options.patience)?;
    let bind = |words: &_, member: GangMember<'_>| {
        bind(pull, options, (&memory, &gangs), words, kernel, member)
    };
    let run_time = Gang::run_kernel(&pull.context, kernel, bind).await?;
    let start = Instant::now();
    let report = &gangs[0].report;
    let iterations = report.load(REPORT_SWEEPS)? as u32;
    if iterations == 0 {
        let gangs: Vec<_> = gangs.iter().collect();
        return Err(gangs[0].not_met(&gangs, "sweeps", &[]).await.into());
    }
    let change = f64::from_bits(report.load(REPORT_CHANGE)?);
    let ranks = ranks(pull, memory.after(iterations)).await?;
    Ok(Ranks {
        ranks,
        iterations,
        change,
        converged: change <= options.tolerance,
        statistics: pull.swept(iterations, links(pull, iterations)),
        run_time,
        gather_time: start.elapsed(),
    })
}

impl<R: Real> Memory<R> {
    /// Ranks start even.
    pub(crate) async fn new(pull: &PullGraph<R>, options: &PageRankOptions) -> Result<Memory<R>> {
        let chances = teleport(&pull.partition, options);
        let mut memory = Memory { even: vec![], odd: vec![], teleport: vec![] };
        let mut events = Vec::new();
        for (place, device) in pull.context.devices().iter().enumerate() {
            let (part, stream) = (&pull.parts[place], device.stream()?);
            let shares = match part.even.is_empty() {
                true => {
                    let even = pull.even_shares(&part.places).into_iter().map(R::to_bits);
                    Arc::new(stream.uploaded(even.collect::<Vec<_>>())?)
                }
                false => Arc::clone(&part.even),
            };
            let own = chances.get(pull.own(place)).unwrap_or_default();
            let own: Vec<R> = own.iter().map(|&chance| R::from_f64(chance)).collect();
            memory.teleport.push(stream.uploaded(own)?);
            let even = device.shared_to_overwrite(shares.len())?;
            stream.copy_to_shared(&*shares, &even, 0..shares.len())?;
            memory.even.push(even);
            memory.odd.push(device.shared(shares.len())?);
            events.push(stream.record()?);
        }
        for event in events {
            event.completed().await?;
        }
        Ok(memory)
    }

    /// Shares after so many sweeps.
    pub(crate) fn after(&self, sweeps: u32) -> &[SharedBuffer<R::Bits>] {
        if sweeps.is_multiple_of(2) { &self.even } else { &self.odd }
    }
}

fn bind<R: Real>(
    pull: &PullGraph<R>,
    options: &PageRankOptions,
    (memory, gangs): (&Memory<R>, &[GangMemory]),
    host_words: &SharedBuffer<u32>,
    kernel: &Kernel<Signature<R>>,
    member: GangMember<'_>,
) -> millstream_flow::Result<BoundKernel> {
    let GangMember { place, stream, sharers } = member;
    let part = &pull.parts[place];
    let settings = GangSettings {
        sweep: pull.settings(place, options, pull.dangling),
        tolerance: options.tolerance,
        nowhere: pull.settings(place, options, 0.0).base,
        vertices: f64::from(pull.partition.vertices()),
        patience_ns: gangs[place].patience_ns(),
        here: place as u32,
        devices: pull.parts.len() as u32,
        most_sweeps: options.max_iterations,
        padding: 0,
    };
    let even: Vec<_> = memory.even.iter().collect();
    let odd: Vec<_> = memory.odd.iter().collect();
    let words: Vec<_> = gangs.iter().map(|its| &its.words).collect();
    let arguments = (
        (&*part.offsets, &*part.sources, &*part.weights),
        (&*part.row_weights, &memory.teleport[place]),
        (&*part.askers, &even[..], &odd[..]),
        &words[..],
        host_words,
        &gangs[place].report,
        settings,
    );
    Ok(kernel.bind(stream, sharers, arguments)?)
}

/// Of all vertices by original id, as their owners' shares say.
pub(crate) async fn ranks<R: Real>(
    pull: &PullGraph<R>,
    shares: &[SharedBuffer<R::Bits>],
) -> Result<Vec<f64>> {
    let download = |(place, device): (usize, &Device)| {
        let own = pull.partition.range(place);
        let first = pull.parts[place].places.of_own(own.clone()) as usize;
        device.stream()?.download_shared(&shares[place], first..first + own.len())
    };
    let arriving = pull.context.devices().iter().enumerate().map(download);
    let arriving = arriving.collect::<Result<Vec<_>, _>>()?;
    let shares = OwnedValues::arrived(&pull.partition, arriving).await?;
    let rank = |new: u32, share| {
        let row_weight = R::from_f64(pull.row_weights[new as usize]);
        rank(R::from_bits(share), row_weight).to_f64()
    };
    Ok(shares.restored(rank)?)
}

/// A packet is what one device tells another after a sweep.
pub(crate) fn links<R: Real>(pull: &PullGraph<R>, iterations: u32) -> Vec<LinkStatistics> {
    let devices = pull.context.devices();
    let mut links = Vec::new();
    for (from, part) in pull.parts.iter().enumerate() {
        for (to, &rows) in part.told.iter().enumerate().filter(|(to, _)| *to != from) {
            let link = LinkStatistics::new(devices[from].name(), devices[to].name());
            let packets = if rows == 0 { 0 } else { iterations.into() };
            links.push(link.pushed(packets, rows * size_of::<R>() as u64));
        }
    }
    links
}

pub(crate) fn cuda_source(is_plain: bool, is_double: bool) -> CudaSource {
    let (entry, threads) = match (is_plain, is_double) {
        (true, false) => ("plain_f32", 1024),
        (true, true) => ("plain_f64", 512),
        (false, false) => ("general_f32", 1024),
        (false, true) => ("general_f64", 1024),
    };
    let text = concat!(include_str!("sweep.cuh"), include_str!("sweeps.cuh"));
    let structs = [Settings::LAYOUT, GangSettings::LAYOUT];
    CudaSource::new("sweeps.cuh", entry, text).structs(&structs).threads(threads).resident()
}

/// The kernel. It has no twin: host devices sweep by `host_sweeps.rs`.
fn kernel<R: Real>(is_plain: bool) -> &'static Kernel<Signature<R>> {
    match is_plain {
        true => gang_kernel("sweeps", trusted::<R, true>),
        false => gang_kernel("sweeps", trusted::<R, false>),
    }
}

fn trusted<R: Real, const IS_PLAIN: bool>() -> Trusted<CudaSource> {
    // SAFETY: the kernel keeps to its arguments as the signature says.
    unsafe { Trusted::new(cuda_source(IS_PLAIN, R::IS_DOUBLE)) }
}
