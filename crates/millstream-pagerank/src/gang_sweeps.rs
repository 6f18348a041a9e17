//! Sweeps by a gang: kernels that go on from sweep to sweep by themselves, each writing its
//! vertices' shares into the memory of the devices that ask for them. The kernels' side is
//! `sweeps.cuh`.

use std::time::Instant;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    BoundKernel, CudaSource, Kernel, Read, Shared, SharedBuffer, SharedSet, Trusted, Value,
    cuda_text,
};
use millstream_flow::{Gang, GangMember, GangMemory};
use millstream_traversal::internals::gang_kernel;

use crate::pull::PullGraph;
use crate::real::Real;
use crate::sweep::{PART_WORDS, Settings, swept_real};
use crate::sweep_memory::{SweepMemory, links, ranks};
use crate::{PageRankOptions, PageRankResult, Result};

/// Words of the report in host memory, one report for each device: `SweepReport` of `sweeps.cuh`.
const REPORT_SWEEPS: usize = 0;
const REPORT_CHANGE: usize = 1;
const REPORT_WORDS: usize = 2;

/// As for a single sweep; then the askers; each device's copy of the shares of all
/// vertices, for even and for odd sweeps; the barrier's words; the host's; the report;
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
    /// The settings of a gang's sweeps, as kernels take them.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
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

/// Sweeps at least once, until the change is small enough.
pub(crate) async fn run<R: Real>(
    pull: &PullGraph<R>,
    options: &PageRankOptions,
) -> Result<PageRankResult> {
    let kernel = kernel::<R>(pull.is_plain() && options.personalization.is_empty());
    let memory = SweepMemory::new(pull, options).await?;
    let shared_rows = pull.parts.iter().map(|part| part.shared_rows as usize).max();
    let words = PART_WORDS * shared_rows.unwrap_or_default();
    let gangs = GangMemory::of_all(&pull.context, words, REPORT_WORDS, options.patience)?;
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
    let times = [run_time, start.elapsed()];
    Ok(pull.result(options, ranks, (iterations, change), links(pull, iterations), times))
}

fn bind<R: Real>(
    pull: &PullGraph<R>,
    options: &PageRankOptions,
    (memory, gangs): (&SweepMemory<R>, &[GangMemory]),
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
    let even: Vec<_> = memory.after(0).iter().collect();
    let odd: Vec<_> = memory.after(1).iter().collect();
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

pub(crate) fn cuda_source(is_plain: bool, is_double: bool) -> CudaSource {
    // One kernel: to compile all four takes four times as long.
    let swept = swept_real(is_double);
    let text = cuda_text!("sweep.cuh", "sweeps.cuh");
    let text = format!("{swept}constexpr bool is_plain_graph = {is_plain};\n{text}");
    let threads = if is_plain && is_double { 512 } else { 1024 };
    let structs = [Settings::LAYOUT, GangSettings::LAYOUT];
    let source = CudaSource::generated("sweeps.cuh", "sweeps", text);
    source.structs(&structs).threads(threads).resident()
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
