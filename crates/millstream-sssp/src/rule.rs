//! Shortest paths as relaxations \[G §4.6.3\]: the twins of `sssp.cuh`.

use std::sync::Arc;

use millstream_device::{CudaSource, DeviceBuffer, Trusted};
use millstream_graph::reference::Distances;
use millstream_traversal::Part;
use millstream_traversal::internals::{self, Rule, Settings, Value};
use millstream_worklist::CudaProgram;

use crate::{step_lights, step_search};

/// Keys that are distances in some type.
pub(crate) trait DistanceRule: Rule<Weight: Into<f64>> {
    /// The key of all distances that the type cannot hold; larger than any other.
    const TOO_FAR: u32;

    /// The step of the worklist's threshold, in priorities, for a step of this distance, and how many
    /// priorities a unit of distance has.
    fn threshold(step: f64) -> (u32, f32);

    /// The key of the largest distance that is not above `cutoff`; `TOO_FAR` if the type cannot hold
    /// `cutoff`, since distances that overflow may lie within it.
    fn limit(cutoff: f64) -> u32;

    /// A step of this distance as a weight, larger than 0.
    fn step(distance: f64) -> Self::Weight;

    /// The distance that [`step`](Self::step) makes of `distance`.
    fn used(distance: f64) -> f64 {
        Self::step(distance).into()
    }
}

/// Saturating sums of unsigned integers: all that overflow are the same. With
/// [`Relaxation`](internals::Relaxation) this is the program that an asynchronous search runs.
#[derive(Debug)]
#[doc(hidden)]
pub struct IntegerDistances;

impl DistanceRule for IntegerDistances {
    const TOO_FAR: u32 = Distances::TOO_FAR;

    fn threshold(step: f64) -> (u32, f32) {
        (Self::step(step), 1.0)
    }

    fn limit(cutoff: f64) -> u32 {
        // The cast saturates.
        (cutoff as u32).min(Self::TOO_FAR)
    }

    fn step(distance: f64) -> u32 {
        distance.round().max(1.0) as u32
    }
}

/// A program of `sssp.cuh`.
fn program(class: &'static str) -> Trusted<CudaProgram> {
    let structs = &[Settings::LAYOUT];
    let program = CudaProgram { file: "sssp.cuh", text: include_str!("sssp.cuh"), class, structs };
    // SAFETY: its callbacks touch the program's memory, as the twins do, and nothing else.
    unsafe { Trusted::new(program) }
}

impl Rule for IntegerDistances {
    type Weight = u32;

    // SAFETY: a class of `distances.cuh`.
    const CLASS: Trusted<&'static str> = unsafe { Trusted::new("IntegerDistances") };
    const WEIGHS: bool = true;

    fn weights(part: &Part) -> Option<Arc<DeviceBuffer<u32>>> {
        part.weights.integers().cloned()
    }

    #[inline]
    fn beyond(distance: u32, weight: u32) -> u32 {
        distance.saturating_add(weight).min(Self::TOO_FAR)
    }

    #[inline]
    fn priority(distance: u32, _: &Settings) -> u32 {
        distance
    }

    fn cuda(keeps_predecessors: bool) -> Trusted<CudaProgram> {
        match keeps_predecessors {
            false => program("millstream::Relaxation<millstream::IntegerPaths, millstream::u32>"),
            true => program("millstream::Relaxation<millstream::IntegerPaths, millstream::u64>"),
        }
    }
}

/// Sums of non-negative reals, whose bits are in the same order as their values. As
/// [`IntegerDistances`] otherwise.
#[derive(Debug)]
#[doc(hidden)]
pub struct RealDistances;

impl DistanceRule for RealDistances {
    const TOO_FAR: u32 = f32::INFINITY.to_bits();

    fn threshold(step: f64) -> (u32, f32) {
        (1, 1.0 / Self::step(step))
    }

    fn limit(cutoff: f64) -> u32 {
        if cutoff > f64::from(f32::MAX) {
            return Self::TOO_FAR;
        }
        let nearest = cutoff as f32;
        let below = if f64::from(nearest) > cutoff { nearest.next_down() } else { nearest };
        // `abs`: as a number, the bits of -0 are larger than those of all distances.
        below.abs().to_bits()
    }

    fn step(distance: f64) -> f32 {
        distance as f32
    }
}

impl Rule for RealDistances {
    type Weight = f32;

    // SAFETY: a class of `distances.cuh`.
    const CLASS: Trusted<&'static str> = unsafe { Trusted::new("RealDistances") };
    const WEIGHS: bool = true;

    fn weights(part: &Part) -> Option<Arc<DeviceBuffer<f32>>> {
        part.weights.reals().cloned()
    }

    #[inline]
    fn beyond(distance: u32, weight: f32) -> u32 {
        (f32::from_bits(distance) + weight).to_bits()
    }

    #[inline]
    fn priority(distance: u32, settings: &Settings) -> u32 {
        // The cast saturates.
        (f32::from_bits(distance) * settings.priority_scale) as u32
    }

    fn cuda(keeps_predecessors: bool) -> Trusted<CudaProgram> {
        match keeps_predecessors {
            false => program("millstream::Relaxation<millstream::RealPaths, millstream::u32>"),
            true => program("millstream::Relaxation<millstream::RealPaths, millstream::u64>"),
        }
    }
}

/// The CUDA C++ of every kind of search, for compiling without running.
#[doc(hidden)]
pub fn cuda_sources() -> Vec<CudaSource> {
    fn of<R: DistanceRule, V: Value>() -> Vec<CudaSource> {
        let steps = [step_search::cuda_source::<R, V>(), step_lights::cuda_source::<R>()];
        steps.into_iter().chain(internals::cuda_sources::<R, V>()).collect()
    }
    [
        of::<IntegerDistances, u32>(),
        of::<IntegerDistances, u64>(),
        of::<RealDistances, u32>(),
        of::<RealDistances, u64>(),
    ]
    .concat()
}
