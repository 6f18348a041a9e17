//! The *hub* of each vertex: of its neighbours the one with the most arcs. Whoever looks for a
//! vertex that most others are near asks there first.

use std::sync::atomic::Ordering;

use millstream_device::{
    CudaSource, DeviceBuffer, Kernel, KernelFault, Read, Result, Shared, SharedBuffer, Stream,
    Trusted, Value,
};
use millstream_graph::{CsrGraph, Partition};
use rayon::prelude::*;

use crate::graph::Part;

/// Arcs that leave each vertex of `graph`, by its new id.
pub fn degrees_by_new_id(graph: &CsrGraph, partition: &Partition) -> Vec<u32> {
    let vertices = (0..graph.vertices()).into_par_iter();
    vertices.map(|vertex| graph.degree(partition.to_original(vertex)) as u32).collect()
}

/// Finds the hub of each vertex of `rows`, the first of which is `first`: of the others that its
/// row names the one of most `degrees`, the smallest of equals; itself if there are none. They are
/// there when `stream` is done.
///
/// # Errors
/// No memory; a kernel that does not compile.
pub fn find_hubs(
    stream: &Stream,
    rows: &Part,
    degrees: &DeviceBuffer<u32>,
    first: u32,
) -> Result<SharedBuffer<u32>> {
    let vertices = rows.offsets.len() - 1;
    let hubs = stream.device().shared(vertices)?;
    let arguments = (&*rows.offsets, &*rows.targets, degrees, &hubs, first);
    FIND_HUBS.launch(stream, vertices, arguments)?;
    Ok(hubs)
}

type FindSignature = (Read<u64>, Read<u32>, Read<u32>, Shared<u32>, Value<u32>);

static FIND_HUBS: Kernel<FindSignature> = Kernel::with_source(
    "find_hubs",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(hubs_source()) },
    |grid, (offsets, targets, degrees, hubs, first)| {
        grid.for_each_block(|block| {
            for row in block.range {
                let vertex = first + row as u32;
                let targets = &targets[offsets[row] as usize..offsets[row + 1] as usize];
                let others = targets.iter().filter(|&&target| target != vertex);
                let best = others.map(|&target| (degrees[target as usize], !target)).max();
                let hub = best.map_or(vertex, |(_, complement)| !complement);
                // The kernel's end publishes it.
                hubs[row].store(hub, Ordering::Relaxed);
            }
            Ok::<(), KernelFault>(())
        })
    },
);

/// The CUDA C++ of [`find_hubs`], to be compiled without running it.
pub const fn hubs_source() -> CudaSource {
    CudaSource::new("hubs.cuh", "find_hubs", include_str!("hubs.cuh"))
}
