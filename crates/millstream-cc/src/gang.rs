//! A resident search on GPUs that reach each other's memory: one kernel on each device, which
//! goes from step to step by itself. Unless the method is [`Method::OutsideHub`], other kernels
//! hook along rows before. The kernels' side is `cc_gang.cuh`.

use std::ops::Range;
use std::time::{Duration, Instant};

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    Argument, CudaSource, Event, Read, Shared, SharedBuffer, SharedSet, Tell, Trusted, Value,
};
use millstream_flow::{Context, Gang, GangMember, GangMemory};
use millstream_traversal::internals::gang_kernel;

use crate::kernels::kernel_text;
use crate::solver::{Resident, Solver};
use crate::spread::{Ranges, Sets};
use crate::{Method, Result};

/// `CcMemory` of `cc_gang.cuh`: parents; members and pairs of all devices; the barrier's
/// words; the host's; the report; what the kernel tells.
type Memory = (
    Shared<u32>,
    SharedSet<u32>,
    SharedSet<u64>,
    SharedSet<u64>,
    Shared<u32>,
    Shared<u64>,
    Tell,
    Value<Settings>,
);
/// Rows and their first vertex; the hub of each vertex; words in which warps share the arcs of long rows.
type OutsideHub = ((Read<u64>, Read<u32>, Value<u32>), Shared<u32>, Shared<u64>, Memory);
type Merged = (Memory,);

millstream_device::cuda_struct! {
    /// `CcSettings` of `cc_gang.cuh`.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    struct Settings as "millstream::CcSettings" {
        patience_ns: u64,
        here: u32,
        devices: u32,
        hub: u32,
        padding: u32,
        covered: [u32; 2],
        own: [u32; 2],
        told: Ranges,
    }
}

/// What the kernels of all devices in a gang need.
struct Common<'a> {
    solvers: &'a [Solver],
    sets: Sets<'a>,
    gangs: &'a [GangMemory],
    words: Vec<&'a SharedBuffer<u64>>,
}

/// Finds the components, and leaves the labels on their devices. Returns how long it took.
pub(crate) async fn run(
    context: &Context,
    patience: Duration,
    solvers: &[Solver],
    residents: &[Resident<'_>],
) -> Result<Duration> {
    let gangs = &GangMemory::of_all(context, 0, 1, patience)?[..];
    let (sets, words) = (Sets::new(solvers), gangs.iter().map(|its| &its.words).collect());
    let common = Common { solvers, sets, gangs, words };
    let is_outside_hub = residents.iter().any(|resident| resident.method == Method::OutsideHub);
    let run_time = if is_outside_hub {
        run_outside_hub(context, &common, residents).await?
    } else {
        run_merged(context, &common, residents).await?
    };
    GangMemory::check(&gangs.iter().collect::<Vec<_>>(), "components", &[]).await?;
    Ok(run_time)
}

async fn run_outside_hub(
    context: &Context,
    common: &Common<'_>,
    residents: &[Resident<'_>],
) -> Result<Duration> {
    let kernel = gang_kernel::<OutsideHub, _>(OUTSIDE_HUB, trusted::<false>);
    let bind = |host: &_, GangMember { place, stream, sharers }: GangMember<'_>| {
        let Resident { part, hubs, first_vertex, hub, .. } = residents[place];
        let rows = (&*part.offsets, &*part.targets, first_vertex);
        let shared_arcs = &common.solvers[place].shared_arcs;
        let arguments = (rows, hubs, shared_arcs, common.memory(place, hub, host));
        Ok(kernel.bind(stream, sharers, arguments)?)
    };
    Ok(Gang::run_kernel(context, kernel, bind).await?)
}

/// Runs the gang after kernels that hook along rows.
async fn run_merged(
    context: &Context,
    common: &Common<'_>,
    residents: &[Resident<'_>],
) -> Result<Duration> {
    let kernel = gang_kernel::<Merged, _>(MERGED, trusted::<true>);
    let gang = Gang::new(context)?;
    gang.prepare(kernel)?;
    common.solvers.iter().try_for_each(Solver::prepare)?;
    let host = gang.words().clone();
    let start = Instant::now();
    let hooked = hook_rows(common.solvers, residents)?;
    gang.run(|GangMember { place, stream, sharers }| {
        // On a GPU that several devices share, waiting gang kernels would leave no room for the hooking
        // kernels of the others: wait for all of those.
        let before = if sharers > 1 { &hooked[..] } else { &hooked[place..=place] };
        before.iter().try_for_each(|event| stream.wait(event))?;
        let memory = common.memory(place, residents[place].hub, &host);
        Ok(kernel.launch(stream, sharers, (memory,))?)
    })
    .await?;
    Ok(start.elapsed())
}

/// Hooks along the rows of all devices, and returns the events recorded after that.
fn hook_rows(solvers: &[Solver], residents: &[Resident<'_>]) -> Result<Vec<Event>> {
    let hook = |(solver, resident): (&Solver, _)| {
        solver.hook_rows(&solver.stream, resident)?;
        Ok(solver.stream.record()?)
    };
    solvers.iter().zip(residents).map(hook).collect()
}

impl Common<'_> {
    fn memory<'b>(
        &'b self,
        place: usize,
        hub: u32,
        host: &'b SharedBuffer<u32>,
    ) -> impl Argument<Memory> {
        let solver = &self.solvers[place];
        let bounds = |range: &Range<u32>| [range.start, range.end];
        let settings = Settings {
            patience_ns: self.gangs[place].patience_ns(),
            here: place as u32,
            devices: self.words.len() as u32,
            hub,
            padding: 0,
            covered: bounds(&solver.covered),
            own: bounds(&solver.own),
            told: solver.told,
        };
        let Sets { members, pairs } = &self.sets;
        let report = &self.gangs[place].report;
        (&solver.parents, &members[..], &pairs[..], &self.words[..], host, report, Tell, settings)
    }
}

const OUTSIDE_HUB: &str = "components_outside_hub";
const MERGED: &str = "components_merged";

fn cuda_source(entry: &'static str) -> CudaSource {
    let source = CudaSource::new("cc_gang.cuh", entry, kernel_text!("cc_gang.cuh"));
    source.structs(&[Settings::LAYOUT]).threads(512).resident()
}

pub(crate) fn cuda_sources() -> [CudaSource; 2] {
    [OUTSIDE_HUB, MERGED].map(cuda_source)
}

fn trusted<const IS_MERGED: bool>() -> Trusted<CudaSource> {
    // SAFETY: the kernel keeps to its arguments as the signature says.
    unsafe { Trusted::new(cuda_source(if IS_MERGED { MERGED } else { OUTSIDE_HUB })) }
}
