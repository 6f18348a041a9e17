//! Residuals pushed along arcs \[G §4.6.3\]: the twin of `push.cuh`.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use millstream_device::{
    Accesses, Argument, AtomicPod, CudaSource, DeviceBuffer, Parameter, Pod, Read, Shared,
    SharedBuffer, Value, Zeroable,
};
use millstream_traversal::DistributedGraph;
use millstream_worklist::{CudaProgram, Flags, Here, Program};

use crate::real::Real;

/// A vertex and a residual on the way to another device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Packet<R: Real> {
    value: R,
    vertex: u32,
    padding: R::Padding,
}

// SAFETY: plain numbers.
unsafe impl<R: Real> Zeroable for Packet<R> {}
// SAFETY: plain numbers, and `padding` leaves no hidden bytes: 4 + 4 + 0 for f32,
// 8 + 4 + 4 for f64; there are no other types.
unsafe impl<R: Real> Pod for Packet<R> {}
const _: () = assert!(size_of::<Packet<f32>>() == 8 && size_of::<Packet<f64>>() == 16);

/// One device's part of the graph, its ranks, and residuals for all vertices: for
/// those of others, what has come together and is not sent yet.
#[derive(Debug)]
pub struct Problem<R: Real> {
    pub(crate) offsets: Arc<DeviceBuffer<u64>>,
    pub(crate) targets: Arc<DeviceBuffer<u32>>,
    pub(crate) weights: Arc<DeviceBuffer<R>>,
    pub(crate) inverse_row_weights: Arc<DeviceBuffer<R>>,
    pub(crate) residuals: SharedBuffer<R::Bits>,
    pub(crate) ranks: SharedBuffer<R::Bits>,
    pub(crate) leaked: SharedBuffer<u64>,
    pub(crate) boundaries: Arc<DeviceBuffer<u32>>,
    pub(crate) settings: Settings,
}

/// How a push goes, as kernels take it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Settings {
    pub(crate) damping: f64,
    /// Owned vertices with a residual up to this are left alone.
    pub(crate) threshold: f64,
    /// Residuals of this size go first.
    pub(crate) top: f64,
}

// SAFETY: plain numbers.
unsafe impl Zeroable for Settings {}
// SAFETY: plain numbers without padding.
unsafe impl Pod for Settings {}

type Atomic<R> = <<R as Real>::Bits as AtomicPod>::Atomic;

/// What the callbacks see of a [`Problem`].
pub struct View<'a, R: Real> {
    offsets: &'a [u64],
    targets: &'a [u32],
    weights: &'a [R],
    inverse_row_weights: &'a [R],
    residuals: &'a [Atomic<R>],
    ranks: &'a [Atomic<R>],
    leaked: &'a [AtomicU64],
    settings: Settings,
}

/// PageRank by pushing. A residual, which may be negative, is what a vertex's rank
/// must still change by before its successors have heard of it.
#[derive(Debug)]
pub(crate) struct Push<R> {
    /// First vertex of each device, and the number of vertices at the end.
    boundaries: Vec<u32>,
    real: PhantomData<R>,
}

impl<R> Push<R> {
    pub(crate) fn new(graph: &DistributedGraph) -> Push<R> {
        Push { boundaries: graph.partition().boundaries().to_vec(), real: PhantomData }
    }

    pub(crate) fn owner_of(&self, vertex: u32) -> usize {
        // Empty parts have equal boundaries: the last that starts here owns it.
        self.boundaries.partition_point(|&start| start <= vertex).saturating_sub(1)
    }

    fn owns(&self, here: &Here, vertex: u32) -> bool {
        (self.boundaries[here.device]..self.boundaries[here.device + 1]).contains(&vertex)
    }
}

fn crosses<R: Real>(settings: &Settings, before: R, value: R) -> bool {
    let threshold = R::from_f64(settings.threshold);
    before.abs() <= threshold && (before + value).abs() > threshold
}

impl<R: Real> Program for Push<R> {
    type Packet = Packet<R>;
    type Problem = Problem<R>;
    type Signature = (
        (Read<u64>, Read<u32>, Read<R>, Read<R>),
        Shared<R::Bits>,
        Shared<R::Bits>,
        Shared<u64>,
        Read<u32>,
        Value<Settings>,
    );
    type View<'a> = View<'a, R>;

    fn bind(
        problem: &Problem<R>,
        accesses: &mut Accesses,
    ) -> millstream_device::Result<<Self::Signature as Parameter>::Bound> {
        let Problem { offsets, targets, weights, inverse_row_weights, .. } = problem;
        let arcs = (&**offsets, &**targets, &**weights, &**inverse_row_weights);
        let Problem { residuals, ranks, leaked, boundaries, settings, .. } = problem;
        let arguments = (arcs, residuals, ranks, leaked, &**boundaries, *settings);
        Argument::<Self::Signature>::bind(arguments, accesses)
    }

    fn view(
        ((offsets, targets, weights, inverse_row_weights), residuals, ranks, leaked, _, settings):
            <Self::Signature as Parameter>::View<'_>,
    ) -> View<'_, R> {
        View { offsets, targets, weights, inverse_row_weights, residuals, ranks, leaked, settings }
    }

    /// Whatever has come together for a vertex goes out at once. Takes it: every
    /// packet must be sent.
    fn pack(&self, view: &View<'_, R>, _: &Here, vertex: u32) -> Packet<R> {
        let value = R::take(&view.residuals[vertex as usize]);
        Packet { value, vertex, padding: Zeroable::zeroed() }
    }

    fn unpack(&self, _: &View<'_, R>, _: &Here, packet: &Packet<R>) -> u32 {
        packet.vertex
    }

    fn on_send(&self, _: &View<'_, R>, here: &Here, vertex: u32) -> Flags {
        if self.owns(here, vertex) { Flags::Keep } else { Flags::Pass }
    }

    fn on_receive(&self, view: &View<'_, R>, here: &Here, packet: &Packet<R>) -> Flags {
        let before = R::add_to(&view.residuals[packet.vertex as usize], packet.value);
        match self.owns(here, packet.vertex) {
            false => Flags::Pass,
            true if crosses(&view.settings, before, packet.value) => Flags::Keep,
            true => Flags::Drop,
        }
    }

    /// Large residuals go first, halving from step to step: small ones come
    /// together meanwhile, and are pushed once.
    fn priority(&self, view: &View<'_, R>, vertex: u32) -> u32 {
        let residual = R::get(&view.residuals[vertex as usize]).abs().to_f64();
        // A cast stays in the range of the type: nothing left is the first.
        let halvings = (view.settings.top / residual).log2();
        if residual > 0.0 { halvings as u32 } else { 0 }
    }

    fn owner(&self, vertex: u32) -> Option<usize> {
        Some(self.owner_of(vertex))
    }

    fn cuda() -> Option<CudaProgram> {
        let class = match R::IS_DOUBLE {
            false => "millstream::PushPageRank<float>",
            true => "millstream::PushPageRank<double>",
        };
        Some(CudaProgram { file: "push.cuh", text: include_str!("push.cuh"), class })
    }

    fn process(
        &self,
        view: &View<'_, R>,
        here: &Here,
        vertex: u32,
        emit: &mut impl FnMut(u32),
        _: &mut u64,
    ) {
        let row = (vertex - self.boundaries[here.device]) as usize;
        let residual = R::take(&view.residuals[vertex as usize]);
        R::add_to(&view.ranks[row], residual);
        let share = R::from_f64(view.settings.damping) * residual;
        let inverse = view.inverse_row_weights[row];
        if inverse == R::ZERO {
            f64::add_to(&view.leaked[0], share.to_f64());
            return;
        }
        let share = share * inverse;
        for arc in view.offsets[row] as usize..view.offsets[row + 1] as usize {
            let target = view.targets[arc];
            let value = if view.weights.is_empty() { share } else { share * view.weights[arc] };
            if value == R::ZERO {
                continue;
            }
            let before = R::add_to(&view.residuals[target as usize], value);
            // Small residuals of one device may be large together: all are sent.
            // One that is not sent yet takes this one along.
            let emits = match self.owns(here, target) {
                true => crosses(&view.settings, before, value),
                false => before == R::ZERO,
            };
            if emits {
                emit(target);
            }
        }
    }
}

/// The CUDA C++ of both types, to be compiled without running it.
pub fn cuda_sources() -> Vec<CudaSource> {
    fn sources<R: Real>() -> impl Iterator<Item = CudaSource> {
        let cuda = Push::<R>::cuda().into_iter();
        cuda.flat_map(|cuda| [cuda.kernel::<Push<R>>("process"), cuda.fused::<Push<R>>()])
    }
    sources::<f32>().chain(sources::<f64>()).collect()
}
