//! Residuals pushed along arcs \[G §4.6.3\], as a program of the worklist: the twin of
//! `push.cuh`. [`PageRank`](crate::PageRank) runs it.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use bytemuck::{Pod, Zeroable};
use millstream_device::{CudaSource, Read, Shared, Trusted, Value};
use millstream_traversal::{Place, VertexProgram, VertexView, Vertices};
use millstream_worklist::{CudaProgram, Program, problem};

use crate::real::Real;

problem! {
    /// One device's part of the graph, its ranks, and residuals for all vertices. For vertices of
    /// other devices, a residual is what has accumulated and is not sent yet.
    pub struct Problem<R: Real>, ProblemView {
        /// Row index of the owned vertices.
        pub offsets: Read<u64>,
        /// Of each arc that leaves them.
        pub targets: Read<u32>,
        /// Of each of these arcs; empty if they count once each.
        pub weights: Read<R>,
        /// Of the owned vertices; 0 for one that no step leaves along an arc.
        pub inverse_row_weights: Read<f64>,
        /// What a push of each owned vertex costs, in arcs; at least 1.
        pub costs: Read<f32>,
        /// Of all vertices: the bits of f64, as ranks.
        pub residuals: Shared<u64>,
        /// Of the owned vertices.
        pub ranks: Shared<u64>,
        /// One number: how many pushes and arcs the device may still do. It is reduced even by what
        /// is then refused, so it may be negative, in the bits of an `i64`.
        pub allowance: Shared<u64>,
        /// First vertex of each device, and the number of vertices.
        pub owners: Read<u32>,
        /// How a push goes.
        pub settings: Value<Settings>,
    }
}

millstream_device::cuda_struct! {
    /// How a push goes, as kernels take it.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub struct Settings as "millstream::PushSettings" {
        /// The chance of a step along an arc.
        pub damping: f64,
        /// Owned vertices with a residual up to this times their cost are left alone.
        pub threshold: f64,
        /// Residuals of this size, for a cost of 1, go first.
        pub top: f64,
        /// The first vertex that the device owns.
        pub first: u64,
    }
}

/// PageRank by pushing, with weights of type `R`. A residual, which may be negative, is what a
/// vertex's rank must still change by before its successors have heard of it. Ranks and
/// residuals are f64: many small ones come together.
#[derive(Debug)]
pub struct Push<R>(PhantomData<R>);

impl<R> Push<R> {
    /// How a push goes is in its [`Problem`].
    pub const PROGRAM: Push<R> = Push(PhantomData);
}

/// Steps of priority in which residuals halve; as in `push.cuh`.
const STEPS_OF_HALVING: f64 = 4.0;

/// The value now.
fn get(word: &AtomicU64) -> f64 {
    // Relaxed: the bit of the queue orders values.
    f64::from_bits(word.load(Relaxed))
}

/// Adds, and returns the value before.
fn add_to(word: &AtomicU64, value: f64) -> f64 {
    // Relaxed: as above.
    let mut before = word.load(Relaxed);
    loop {
        let sum = (f64::from_bits(before) + value).to_bits();
        match word.compare_exchange_weak(before, sum, Relaxed, Relaxed) {
            Ok(_) => return f64::from_bits(before),
            Err(current) => before = current,
        }
    }
}

/// Leaves zero, and returns the value before.
fn take(word: &AtomicU64) -> f64 {
    // Relaxed: as above.
    f64::from_bits(word.swap(0, Relaxed))
}

/// What a push of an owned vertex costs.
fn cost<R: Real>(view: &ProblemView<'_, R>, vertex: u32) -> f64 {
    view.costs[vertex as usize - view.settings.first as usize].into()
}

/// Whether the residual of an owned vertex has become worth a push.
fn crosses<R: Real>(view: &ProblemView<'_, R>, vertex: u32, before: f64, value: f64) -> bool {
    let threshold = view.settings.threshold * cost(view, vertex);
    before.abs() <= threshold && (before + value).abs() > threshold
}

impl<R: Real> VertexProgram for Push<R> {
    type Value = f64;
    type Problem = Problem<R>;

    /// Whatever has come together for a vertex goes out at once. Takes it: every
    /// packet must be sent.
    fn value(&self, view: &VertexView<'_, Self>, vertex: u32) -> f64 {
        take(&view.residuals[vertex as usize])
    }

    fn receive(&self, view: &VertexView<'_, Self>, vertex: u32, value: f64, is_own: bool) -> bool {
        let before = add_to(&view.residuals[vertex as usize], value);
        !is_own || crosses(view, vertex, before, value)
    }

    /// What brings much for its cost goes first: small residuals come together
    /// meanwhile, and are pushed once.
    fn priority(&self, view: &VertexView<'_, Self>, vertex: u32) -> u32 {
        let residual = get(&view.residuals[vertex as usize]).abs();
        // A cast stays in the range of the type: nothing left is the first.
        let top = view.settings.top * cost(view, vertex);
        let steps = STEPS_OF_HALVING * (top / residual).log2();
        if residual > 0.0 { steps as u32 } else { 0 }
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        let class = match R::IS_DOUBLE {
            false => "millstream::PushPageRank<float>",
            true => "millstream::PushPageRank<double>",
        };
        let program = CudaProgram {
            file: "push.cuh",
            text: include_str!("push.cuh"),
            class,
            structs: &[Settings::LAYOUT],
        };
        // SAFETY: its callbacks touch the program's memory, as the twins do, and nothing else.
        Some(unsafe { Trusted::new(program) })
    }

    fn process(
        &self,
        view: &VertexView<'_, Self>,
        place: &Place<'_>,
        vertex: u32,
        emit: &mut impl FnMut(u32),
        _: &mut u64,
    ) {
        let row = place.row(vertex);
        let arcs = place.arcs(view.offsets, vertex);
        // Relaxed: only how much is left counts.
        if view.allowance[0].fetch_sub(arcs.len() as u64 + 1, Relaxed) as i64 <= 0 {
            return;
        }
        let residual = take(&view.residuals[vertex as usize]);
        add_to(&view.ranks[row], residual);
        let share = view.settings.damping * residual;
        let inverse = view.inverse_row_weights[row];
        // What dangling vertices give is seen in their ranks.
        if inverse == 0.0 {
            return;
        }
        let share = share * inverse;
        for arc in arcs {
            let target = view.targets[arc];
            let value = match view.weights.get(arc) {
                None => share,
                Some(weight) => share * weight.to_f64(),
            };
            if value == 0.0 {
                continue;
            }
            let before = add_to(&view.residuals[target as usize], value);
            // Small residuals of one device may be large together: all are sent.
            // One that is not sent yet takes this one along.
            let emits = match place.owns(target) {
                true => crosses(view, target, before, value),
                false => before == 0.0,
            };
            if emits {
                emit(target);
            }
        }
    }
}

/// The CUDA C++ of both types, to be compiled without running it.
pub(crate) fn cuda_sources() -> Vec<CudaSource> {
    fn of<R: Real>() -> impl Iterator<Item = CudaSource> {
        let cuda = Vertices::<Push<R>>::cuda().into_iter();
        cuda.flat_map(|cuda| cuda.cuda_sources::<Vertices<Push<R>>>())
    }
    of::<f32>().chain(of::<f64>()).collect()
}
