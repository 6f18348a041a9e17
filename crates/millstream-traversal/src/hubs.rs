//! The *hub* of each vertex: the neighbour with the most arcs. A search for any visited neighbour asks
//! the hub first, since most vertices are near one.

use std::sync::atomic::Ordering;

use millstream_device::{
    CudaSource, HostData, Kernel, KernelFault, Read, Shared, SharedBuffer, Stream, Trusted, Value,
};
use millstream_graph::CsrGraph;
use millstream_graph::pieces::InPieces;
use rayon::prelude::*;

use crate::Result;
use crate::graph::DistributedGraph;
use crate::on_each_device::on_each_device;
use crate::part::Part;

/// Finds the hub of each vertex of `rows`, which are arcs of `graph` in one direction or the other: the
/// other vertex in its row that the most arcs leave, the smallest id among equals; the vertex itself
/// if its row names no other. Ids are new ids. Each device gets the hubs of its own vertices, 4 bytes
/// each, in their order.
///
/// ```
/// use millstream_flow::{Context, Devices};
/// use millstream_graph::{CsrGraph, partition};
/// use millstream_traversal::internals::find_hubs;
/// use millstream_traversal::{Columns, DistributedGraph};
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let path = CsrGraph::from_edges(4, &[(0, 1), (1, 0), (1, 2), (2, 1)])?;
/// let parts = partition::contiguous_blocks(&path, 2);
/// let rows = DistributedGraph::new(&context, &path, parts, Columns::Structure);
/// let rows = context.block_on(rows)??;
/// let hubs = context.block_on(find_hubs(&path, &rows))??;
/// let second = context.devices()[1].stream()?.download_shared(&hubs[1], 0..2)?;
/// assert_eq!(context.block_on(second)??, [1, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// No memory; a kernel that does not compile; a failed device.
///
/// # Cancel safety
/// Cancel safe: what was found is dropped.
///
/// # Device ordering
/// When it resolves, the hubs are visible to every stream of their device.
pub async fn find_hubs(
    graph: &CsrGraph,
    rows: &DistributedGraph,
) -> Result<Vec<SharedBuffer<u32>>> {
    let vertices = (0..graph.vertices()).into_par_iter().in_pieces();
    let degree = |new| graph.degree(rows.partition().to_original(new)) as u32;
    let degrees: Vec<u32> = vertices.map(degree).collect();
    let degrees = HostData::from(degrees);
    let find = |place, stream: &Stream, part: &Part| -> Result<SharedBuffer<u32>> {
        let range = rows.partition().range(place);
        let degrees = stream.lent(degrees.clone())?;
        let hubs = stream.device().shared(range.len())?;
        let arguments = (&*part.offsets, &*part.targets, &degrees, &hubs, range.start);
        FIND_HUBS.launch(stream, range.len(), arguments)?;
        Ok(hubs)
    };
    on_each_device(rows.context(), rows.parts(), find).await
}

type FindSignature = (Read<u64>, Read<u32>, Read<u32>, Shared<u32>, Value<u32>);

static FIND_HUBS: Kernel<FindSignature> = Kernel::with_source(
    "find_hubs",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(cuda_source()) },
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

pub(crate) const fn cuda_source() -> CudaSource {
    CudaSource::new("hubs.cuh", "find_hubs", include_str!("hubs.cuh"))
}
