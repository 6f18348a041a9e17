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
    /// One device's part of the graph, its ranks, and residuals for all vertices. The residual of
    /// another device's vertex is what has accumulated here and is not sent yet.
    pub struct Problem<R: Real>, ProblemView {
        /// Row index of the owned vertices.
        pub offsets: Read<u64>,
        /// The targets of the arcs that leave them.
        pub targets: Read<u32>,
        /// The weights of these arcs; empty if arcs count once each.
        pub weights: Read<R>,
        /// For each owned vertex, 1 over the weight of its row; 0 if the vertex is dangling.
        pub inverse_row_weights: Read<f64>,
        /// What a push of each owned vertex costs, in arcs; at least 1.
        pub costs: Read<f32>,
        /// The residuals of all vertices, as bits of f64, like `ranks`.
        pub residuals: Shared<u64>,
        /// The ranks of the owned vertices.
        pub ranks: Shared<u64>,
        /// One number: how many pushes and arcs the device may still do. Refused pushes reduce it, too,
        /// so it may become negative; it has the bits of an `i64`.
        pub allowance: Shared<u64>,
        /// First vertex of each device, and the number of vertices.
        pub owners: Read<u32>,
        /// The settings of a push.
        pub settings: Value<Settings>,
    }
}

millstream_device::cuda_struct! {
    /// The settings of a push, as kernels take them.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub struct Settings as "millstream::PushSettings" {
        /// The chance of a step along an arc.
        pub damping: f64,
        /// Owned vertices with a residual of at most this times their cost are not pushed.
        pub threshold: f64,
        /// Residuals of this times the vertex's cost, or more, go first.
        pub top: f64,
        /// The first vertex that the device owns.
        pub first: u64,
    }
}

/// PageRank by pushing, with weights of type `R`. A residual, which may be negative, is a change of a
/// vertex's rank that is still to be added to the rank and passed on to its successors. Ranks and
/// residuals are f64, since many small ones are summed.
#[derive(Debug)]
pub struct Push<R>(PhantomData<R>);

impl<R> Push<R> {
    /// The program; its settings are in its [`Problem`].
    pub const PROGRAM: Push<R> = Push(PhantomData);
}

/// Priority steps for each halving of a residual; as in `push.cuh`.
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

/// Replaces the value by zero, and returns the value before.
fn take(word: &AtomicU64) -> f64 {
    // Relaxed: as above.
    f64::from_bits(word.swap(0, Relaxed))
}

/// What a push of an owned vertex costs.
fn cost<R: Real>(view: &ProblemView<'_, R>, vertex: u32) -> f64 {
    view.costs[vertex as usize - view.settings.first as usize].into()
}

/// Whether adding `value` makes the residual of an owned vertex worth a push.
fn crosses<R: Real>(view: &ProblemView<'_, R>, vertex: u32, before: f64, value: f64) -> bool {
    let threshold = view.settings.threshold * cost(view, vertex);
    before.abs() <= threshold && (before + value).abs() > threshold
}

impl<R: Real> VertexProgram for Push<R> {
    type Value = f64;
    type Problem = Problem<R>;

    /// All that has accumulated for a vertex goes out at once. It is taken from the residual, so every
    /// packet must be sent.
    fn value(&self, view: &VertexView<'_, Self>, vertex: u32) -> f64 {
        take(&view.residuals[vertex as usize])
    }

    fn receive(&self, view: &VertexView<'_, Self>, vertex: u32, value: f64, is_own: bool) -> bool {
        let before = add_to(&view.residuals[vertex as usize], value);
        !is_own || crosses(view, vertex, before, value)
    }

    /// Vertices with a large residual for their cost go first: meanwhile small residuals accumulate, and
    /// are pushed once.
    fn priority(&self, view: &VertexView<'_, Self>, vertex: u32) -> u32 {
        let residual = get(&view.residuals[vertex as usize]).abs();
        // The cast saturates. A vertex with no residual left goes first.
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
        // Relaxed: only the number itself matters; it orders nothing.
        if view.allowance[0].fetch_sub(arcs.len() as u64 + 1, Relaxed) as i64 <= 0 {
            return;
        }
        let residual = take(&view.residuals[vertex as usize]);
        add_to(&view.ranks[row], residual);
        let share = view.settings.damping * residual;
        let inverse = view.inverse_row_weights[row];
        // What dangling vertices give is computed from their ranks later.
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
            // Residuals that are small on each device may be large together: all are sent.
            // If one is still waiting to be sent, this one goes with it.
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

/// The CUDA C++ of both types, for compiling without running.
pub(crate) fn cuda_sources() -> Vec<CudaSource> {
    fn of<R: Real>() -> impl Iterator<Item = CudaSource> {
        let cuda = Vertices::<Push<R>>::cuda().into_iter();
        cuda.flat_map(|cuda| cuda.cuda_sources::<Vertices<Push<R>>>())
    }
    of::<f32>().chain(of::<f64>()).collect()
}
