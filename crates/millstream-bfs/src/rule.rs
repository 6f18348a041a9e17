//! BFS as a relaxation \[G §4.5, Fig. 11\]: the twin of `bfs.cuh`.

use std::sync::Arc;

use millstream_device::{CudaSource, DeviceBuffer, Trusted};
use millstream_traversal::Part;
use millstream_traversal::internals::{self, Rule, Settings};
use millstream_worklist::CudaProgram;

use crate::level_search;

/// Every arc adds one level. With [`Relaxation`](internals::Relaxation) this is the program that an
/// asynchronous search runs.
#[derive(Debug)]
#[doc(hidden)]
pub struct Levels;

impl Rule for Levels {
    type Weight = u32;

    // SAFETY: a class of `distances.cuh`.
    const CLASS: Trusted<&'static str> = unsafe { Trusted::new("IntegerDistances") };
    const WEIGHS: bool = false;

    fn weights(_: &Part) -> Option<Arc<DeviceBuffer<u32>>> {
        None
    }

    #[inline]
    fn beyond(level: u32, levels: u32) -> u32 {
        level.saturating_add(levels)
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

/// The CUDA C++ of every kind of search, for compiling without running.
#[doc(hidden)]
pub fn cuda_sources() -> Vec<CudaSource> {
    let levels = [true, false].map(level_search::cuda_source);
    let others =
        [internals::cuda_sources::<Levels, u32>(), internals::cuda_sources::<Levels, u64>()];
    levels.into_iter().chain(others.into_iter().flatten()).collect()
}
