//! Residuals pushed along arcs \[G §4.6.3\], as a program of the worklist: the twin of
//! `push.cuh`. [`PageRank`](crate::PageRank) runs it.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use millstream_device::{CudaSource, Pod, Read, Shared, Trusted, Value, Zeroable};
use millstream_traversal::Owners;
use millstream_worklist::{CudaProgram, Flags, Here, Program, View, problem};

use crate::real::Real;

/// A vertex and a residual on the way to another device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Packet<R: Real> {
    value: R,
    vertex: u32,
    padding: R::Padding,
}

impl<R: Real> Packet<R> {
    /// `value`, for `vertex`.
    pub fn new(value: R, vertex: u32) -> Packet<R> {
        Packet { value, vertex, padding: Zeroable::zeroed() }
    }
}

// SAFETY: plain numbers.
unsafe impl<R: Real> Zeroable for Packet<R> {}
// SAFETY: plain numbers, and `padding` leaves no hidden bytes: 4 + 4 + 0 for f32,
// 8 + 4 + 4 for f64; there are no other types.
unsafe impl<R: Real> Pod for Packet<R> {}
const _: () = assert!(size_of::<Packet<f32>>() == 8 && size_of::<Packet<f64>>() == 16);

problem! {
    /// One device's part of the graph, its ranks, and residuals for all vertices: for
    /// those of others, what has come together and is not sent yet.
    pub struct Problem<R: Real>, ProblemView {
        /// Row index of the owned vertices.
        pub offsets: Read<u64>,
        /// Of each arc that leaves them.
        pub targets: Read<u32>,
        /// Of each of these arcs; empty if they count once each.
        pub weights: Read<R>,
        /// Of the owned vertices; 0 for one that no step leaves along an arc.
        pub inverse_row_weights: Read<R>,
        /// What a push of each vertex of all costs, in arcs; at least 1.
        pub costs: Read<R>,
        /// Of all vertices.
        pub residuals: Shared<R::Bits>,
        /// Of the owned vertices.
        pub ranks: Shared<R::Bits>,
        /// How often each of the owned vertices has been pushed.
        pub pushes: Shared<u32>,
        /// One number, what the vertices that nothing leaves have given: the bits of an f64.
        pub leaked: Shared<u64>,
        /// First vertex of each device, and the number of vertices.
        pub owners: Read<u32>,
        /// How a push goes.
        pub settings: Value<Settings>,
    }
}

/// How a push goes, as kernels take it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Settings {
    /// The chance of a step along an arc.
    pub damping: f64,
    /// Owned vertices with a residual up to this times their cost are left alone.
    pub threshold: f64,
    /// Residuals of this size, for a cost of 1, go first.
    pub top: f64,
    /// Of each vertex.
    pub most_pushes: u64,
}

// SAFETY: plain numbers.
unsafe impl Zeroable for Settings {}
// SAFETY: plain numbers without padding.
unsafe impl Pod for Settings {}

/// PageRank by pushing. A residual, which may be negative, is what a vertex's rank
/// must still change by before its successors have heard of it.
#[derive(Debug)]
pub struct Push<R> {
    owners: Owners,
    real: PhantomData<R>,
}

impl<R> Push<R> {
    /// Of vertices that belong to `owners`.
    pub fn new(owners: Owners) -> Push<R> {
        Push { owners, real: PhantomData }
    }
}

/// Steps of priority in which residuals halve; as in `push.cuh`.
const STEPS_OF_HALVING: f64 = 4.0;

/// Whether the residual of an owned vertex has become worth a push.
fn crosses<R: Real>(view: &ProblemView<'_, R>, vertex: u32, before: R, value: R) -> bool {
    let threshold = R::from_f64(view.settings.threshold) * view.costs[vertex as usize];
    before.abs() <= threshold && (before + value).abs() > threshold
}

impl<R: Real> Program for Push<R> {
    type Packet = Packet<R>;
    type Problem = Problem<R>;

    /// Whatever has come together for a vertex goes out at once. Takes it: every
    /// packet must be sent.
    fn pack(&self, view: &View<'_, Self>, _: &Here, vertex: u32) -> Packet<R> {
        Packet::new(R::take(&view.residuals[vertex as usize]), vertex)
    }

    fn unpack(&self, _: &View<'_, Self>, _: &Here, packet: &Packet<R>) -> u32 {
        packet.vertex
    }

    fn on_send(&self, _: &View<'_, Self>, here: &Here, vertex: u32) -> Flags {
        if self.owners.owns(here, vertex) { Flags::Keep } else { Flags::Pass }
    }

    fn on_receive(&self, view: &View<'_, Self>, here: &Here, packet: &Packet<R>) -> Flags {
        let before = R::add_to(&view.residuals[packet.vertex as usize], packet.value);
        match self.owners.owns(here, packet.vertex) {
            false => Flags::Pass,
            true if crosses(view, packet.vertex, before, packet.value) => Flags::Keep,
            true => Flags::Drop,
        }
    }

    /// What brings much for its cost goes first: small residuals come together
    /// meanwhile, and are pushed once.
    fn priority(&self, view: &View<'_, Self>, vertex: u32) -> u32 {
        let residual = R::get(&view.residuals[vertex as usize]).abs().to_f64();
        // A cast stays in the range of the type: nothing left is the first.
        let top = view.settings.top * view.costs[vertex as usize].to_f64();
        let steps = STEPS_OF_HALVING * (top / residual).log2();
        if residual > 0.0 { steps as u32 } else { 0 }
    }

    fn owner(&self, vertex: u32) -> Option<usize> {
        Some(self.owners.owner(vertex))
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        let class = match R::IS_DOUBLE {
            false => "millstream::PushPageRank<float>",
            true => "millstream::PushPageRank<double>",
        };
        let program = CudaProgram { file: "push.cuh", text: include_str!("push.cuh"), class };
        // SAFETY: its callbacks touch the program's memory, as the twins do, and nothing else.
        Some(unsafe { Trusted::new(program) })
    }

    fn process(
        &self,
        view: &View<'_, Self>,
        here: &Here,
        vertex: u32,
        emit: &mut impl FnMut(u32),
        _: &mut u64,
    ) {
        let row = self.owners.row(here, vertex);
        let residual = R::take(&view.residuals[vertex as usize]);
        // Relaxed: only how many there were counts.
        if u64::from(view.pushes[row].fetch_add(1, Relaxed)) >= view.settings.most_pushes {
            R::add_to(&view.residuals[vertex as usize], residual);
            return;
        }
        R::add_to(&view.ranks[row], residual);
        let share = R::from_f64(view.settings.damping) * residual;
        let inverse = view.inverse_row_weights[row];
        if inverse == R::ZERO {
            f64::add_to(&view.leaked[0], share.to_f64());
            return;
        }
        let share = share * inverse;
        for arc in self.owners.arcs(here, view.offsets, vertex) {
            let target = view.targets[arc];
            let value = if view.weights.is_empty() { share } else { share * view.weights[arc] };
            if value == R::ZERO {
                continue;
            }
            let before = R::add_to(&view.residuals[target as usize], value);
            // Small residuals of one device may be large together: all are sent.
            // One that is not sent yet takes this one along.
            let emits = match self.owners.owns(here, target) {
                true => crosses(view, target, before, value),
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
