//! BFS as a relaxation \[G §4.5, Fig. 11\]: the twin of `bfs.cuh`.

use std::sync::Arc;

use millstream_device::{CudaSource, DeviceBuffer, Trusted};
use millstream_traversal::{
    CudaRule, Part, Relaxation, Rule, Settings, Value, Vertices, hubs_source, near_far_sources,
};
use millstream_worklist::{CudaProgram, Program};

use crate::level_search;

/// Every arc is one level more. With [`Relaxation`] this is the program that an
/// asynchronous search runs.
#[derive(Debug)]
pub struct Levels;

impl Rule for Levels {
    type Weight = u32;

    const LEAST_STEP: u32 = 1;

    fn weights(_: &Part) -> Option<Arc<DeviceBuffer<u32>>> {
        None
    }

    #[inline]
    fn extended(level: u32, _: &[u32], _: usize) -> u32 {
        level + 1
    }

    #[inline]
    fn priority(level: u32, _: &Settings) -> u32 {
        level
    }

    fn cuda(keeps_predecessors: bool) -> Trusted<CudaProgram> {
        let class = match keeps_predecessors {
            false => "millstream::Relaxation<millstream::Levels, millstream::u32>",
            true => "millstream::Relaxation<millstream::Levels, millstream::u64>",
        };
        let program = CudaProgram {
            file: "bfs.cuh",
            text: include_str!("bfs.cuh"),
            class,
            structs: &[Settings::LAYOUT],
        };
        // SAFETY: its callbacks touch the program's memory, as the twins do, and nothing else.
        unsafe { Trusted::new(program) }
    }
}

impl CudaRule for Levels {
    // SAFETY: a class of `distances.cuh`.
    const CLASS: Trusted<&'static str> = unsafe { Trusted::new("IntegerDistances") };
    const WEIGHS: bool = false;

    #[inline]
    fn beyond(level: u32, levels: u32) -> u32 {
        level.saturating_add(levels)
    }
}

/// The CUDA C++ of every kind of search, to be compiled without running it.
pub fn cuda_sources() -> Vec<CudaSource> {
    fn sources<V: Value>() -> impl Iterator<Item = CudaSource> {
        let cuda = Vertices::<Relaxation<Levels, V>>::cuda().into_iter();
        cuda.flat_map(|cuda| {
            [
                cuda.kernel::<Vertices<Relaxation<Levels, V>>>("process"),
                cuda.fused::<Vertices<Relaxation<Levels, V>>>(),
            ]
        })
    }
    sources::<u32>()
        .chain(sources::<u64>())
        .chain([level_search::cuda_source(true), level_search::cuda_source(false), hubs_source()])
        .chain(near_far_sources::<Levels, u32>())
        .chain(near_far_sources::<Levels, u64>())
        .collect()
}
