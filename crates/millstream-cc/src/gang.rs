//! A resident search on GPUs that reach each other's memory: one kernel a device, which
//! goes from step to step by itself. The kernels' side is `cc_gang.cuh`.

use std::time::{Duration, Instant};

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    CudaSource, Error as DeviceError, Kernel, KernelFault, Parameter, Read, Shared, SharedBuffer,
    SharedSet, Value,
};
use millstream_flow::{Context, Gang, GangMember};

use crate::Result;
use crate::kernels::cuda_text;
use crate::merge::{Ranges, Sets};
use crate::solver::{Resident, Solver, sampled};

/// How long a kernel waits for the others.
const PATIENCE: Duration = Duration::from_secs(10);
/// Words of the barrier on each device, at least.
const BARRIER_WORDS: usize = 512;

/// Rows, and whose is the first; parents; where warps share hubs' arcs; members and pairs of
/// all devices; the barrier's words; the host's; a word of the host that says whether
/// the gang was stopped; settings.
type Signature = (
    (Read<u64>, Read<u32>),
    Value<u32>,
    (Shared<u32>, Shared<u64>),
    (SharedSet<u32>, SharedSet<u64>),
    SharedSet<u64>,
    Shared<u32>,
    Shared<u32>,
    Value<Settings>,
);

/// `GangSettings` of `cc_gang.cuh`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Settings {
    patience_ns: u64,
    here: u32,
    devices: u32,
    method: u32,
    hub: u32,
    sampled: u32,
    padding: u32,
    covered: [u32; 2],
    own: [u32; 2],
    told: Ranges,
}

/// Finds the components; labels are left on their devices. How long it took.
pub(crate) async fn run(
    context: &Context,
    solvers: &[Solver],
    residents: &[Resident<'_>],
) -> Result<Duration> {
    let kernel = kernel();
    let words = context.devices().iter().map(|device| device.shared(BARRIER_WORDS));
    let words = words.collect::<Result<Vec<_>, DeviceError>>()?;
    let words: Vec<_> = words.iter().collect();
    let stopped = context.host().shared(1)?;
    let gang = Gang::new(context)?;
    gang.prepare(&kernel)?;
    let host = gang.words().clone();
    let sets = Sets::new(solvers);
    let start = Instant::now();
    gang.run(|member| {
        let its = (&solvers[member.place], &residents[member.place]);
        launch(&kernel, &sets, its, member, &words, &host, &stopped)
    })
    .await?;
    let run_time = start.elapsed();
    if stopped.load(0)? != 0 {
        let message = format!("the devices have not met for {PATIENCE:?}");
        let device = context.devices()[0].name();
        let kernel = "components".into();
        return Err(DeviceError::KernelFailed { kernel, device, message: message.into() }.into());
    }
    Ok(run_time)
}

fn launch(
    kernel: &Kernel<Signature>,
    sets: &Sets<'_>,
    (solver, resident): (&Solver, &Resident<'_>),
    GangMember { place, stream, sharers }: GangMember<'_>,
    words: &[&SharedBuffer<u64>],
    host: &SharedBuffer<u32>,
    stopped: &SharedBuffer<u32>,
) -> millstream_flow::Result<()> {
    let Resident { part, first_vertex, method, hub } = *resident;
    let bounds = |range: &std::ops::Range<u32>| [range.start, range.end];
    let settings = Settings {
        patience_ns: PATIENCE.as_nanos() as u64,
        here: place as u32,
        devices: words.len() as u32,
        method: method as u32,
        hub,
        sampled: sampled(resident),
        padding: 0,
        covered: bounds(&solver.covered),
        own: bounds(&solver.own),
        told: solver.told,
    };
    let arguments = (
        (&*part.offsets, &*part.targets),
        first_vertex,
        (&solver.parents, &solver.shared_arcs),
        sets.arguments(),
        words,
        host,
        stopped,
        settings,
    );
    Ok(kernel.launch(stream, sharers, arguments)?)
}

pub(crate) fn source() -> CudaSource {
    let text = cuda_text!("cc_gang.cuh");
    CudaSource::new("cc_gang.cuh", "components", text).threads(512).resident()
}

/// The kernel. It has no twin: host devices are driven by the host.
fn kernel() -> Kernel<Signature> {
    let no_twin = |_: &_, _: <Signature as Parameter>::View<'_>| {
        Err(KernelFault::new("gangs run on GPUs only"))
    };
    Kernel::from_closure("components", no_twin).with_cuda(source())
}
