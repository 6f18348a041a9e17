//! Hooking and pointer jumping \[G §5.1.4\] as kernels: the twins of `cc.cuh`.

use std::sync::atomic::Ordering;

use millstream_device::{
    CudaSource, Grid, Kernel, KernelFault, Read, Shared, Trusted, Value, Write,
};
use millstream_graph::pieces::visit_rows;

use crate::Method;
use crate::hooking::{are_together, hook, look_for_root};
use crate::sent_rows::SentRows;

/// Two vertices of the same component.
pub(crate) type Edge = [u32; 2];

/// The text that all kernels share, followed by a file of their own.
macro_rules! kernel_text {
    ($file:literal) => {
        millstream_device::cuda_text!(
            "hooking.cuh",
            "rows.cuh",
            "tiles.cuh",
            "leaving.cuh",
            "open_vertices.cuh",
            "flood.cuh",
            "hook_rows.cuh",
            "merge.cuh",
            "sent_rows.cuh",
            $file
        )
    };
}
pub(crate) use kernel_text;

const fn cuda_source(entry: &'static str) -> CudaSource {
    CudaSource::new("cc.cuh", entry, kernel_text!("cc.cuh"))
}

/// Starts every vertex's tree: the target of its first arc becomes its parent if it is
/// smaller, else the vertex itself.
pub(crate) static START: Kernel<Start> = Kernel::with_source(
    "start",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(cuda_source("start")) },
    |grid, (offsets, targets, first, parents, range)| {
        let rows = Rows { offsets, targets, first };
        grid.for_each_block(|block| {
            for vertex in block.range.map(|at| range[0] + at as u32) {
                let parent = rows.first_parent(vertex);
                parents[vertex as usize].store(parent, Ordering::Relaxed);
            }
            Ok(())
        })
    },
);

/// Rows of arcs and their first vertex; parents; the range of vertices to start.
type Start = (Read<u64>, Read<u32>, Value<u32>, Shared<u32>, Value<[u32; 2]>);

/// Makes the trees of each tile of vertices by itself: hooks along all arcs that stay within the
/// tile, except those of long rows, and compresses; also notes which rows have other arcs. Tiles
/// are for a GPU's shared memory: the twin only starts trees, and the twin of [`HOOK_LEAVING`]
/// hooks along all arcs.
pub(crate) static START_TILES: Kernel<Tiles> = Kernel::with_source(
    "start_tiles",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(cuda_source("start_tiles").threads(1024).shared_memory()) },
    |_, (_, _, _, parents, [start, end], _, _)| {
        Grid::of_blocks((end - start) as usize, VERTICES).for_each_block(|block| {
            for vertex in block.range.map(|at| start + at as u32) {
                parents[vertex as usize].store(vertex, Ordering::Relaxed);
            }
            Ok(())
        })
    },
);

/// Rows of arcs and their first vertex; parents; the range of vertices to start; what is left: see
/// [`leaving_words`]; words in which the warps of a GPU share hubs' arcs, which must be 0 before and
/// have no meaning after.
type Tiles =
    (Read<u64>, Read<u32>, Value<u32>, Shared<u32>, Value<[u32; 2]>, Shared<u32>, Shared<u64>);

/// Words in which [`START_TILES`] tells [`HOOK_LEAVING`] what is left of `vertices` vertices: `Leaving` in
/// `tiles.cuh`. They need not be cleared.
pub(crate) fn leaving_words(vertices: usize) -> usize {
    1 + vertices.div_ceil(32)
}

/// Hooks along the arcs towards smaller vertices that [`START_TILES`] has left.
pub(crate) static HOOK_LEAVING: Kernel<Tiles> = Kernel::with_source(
    "hook_leaving",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(cuda_source("hook_leaving")) },
    |_, (offsets, targets, first, parents, _, _, _)| {
        for_each_row(offsets, targets, |row, targets| {
            let vertex = first + row as u32;
            for &target in targets.iter().filter(|&&target| target < vertex) {
                hook(parents, vertex, target);
            }
        })
    },
);

/// Hooks along rows of arcs, as far as the method wants them.
pub(crate) static HOOK_ROWS: Kernel<HookRows> = Kernel::with_source(
    "hook_rows",
    // Row lengths differ much, so the grid is not capped.
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(cuda_source("hook_rows").uncapped()) },
    |_, (offsets, targets, first, parents, method, hub, _)| {
        let is_sampled = method == Method::OutsideHub as u32;
        for_each_row(offsets, targets, |row, targets| {
            let vertex = first + row as u32;
            for &target in targets {
                if is_sampled && are_together(parents, vertex, hub) {
                    break;
                }
                hook(parents, vertex, target);
            }
        })
    },
);

/// Calls `visit(row, targets)` for all rows, long rows in pieces: a hub's row may have most of the
/// arcs.
pub(crate) fn for_each_row(
    offsets: &[u64],
    targets: &[u32],
    visit: impl Fn(usize, &[u32]) + Sync,
) -> Result<(), KernelFault> {
    Grid::of_blocks(targets.len(), ARCS).for_each_block(|block| {
        visit_rows(offsets, block.range, |row, arcs| visit(row, &targets[arcs]));
        Ok(())
    })
}

/// Rows of arcs and their first vertex; parents; [`Method`]; the hub; words in which the
/// warps of a GPU share hubs' arcs, as above.
type HookRows =
    (Read<u64>, Read<u32>, Value<u32>, Shared<u32>, Value<u32>, Value<u32>, Shared<u64>);

/// Rows, as kernels see them.
pub(crate) struct Rows<'a> {
    pub(crate) offsets: &'a [u64],
    pub(crate) targets: &'a [u32],
    pub(crate) first: u32,
}

impl<'a> Rows<'a> {
    /// A vertex's targets: none if it has no row here.
    fn of(&self, vertex: u32) -> &'a [u32] {
        let bounds = vertex.checked_sub(self.first).and_then(|row| {
            Some((*self.offsets.get(row as usize)?, *self.offsets.get(row as usize + 1)?))
        });
        bounds.map_or(&[], |(start, end)| &self.targets[start as usize..end as usize])
    }

    /// The first parent of a vertex.
    pub(crate) fn first_parent(&self, vertex: u32) -> u32 {
        let first = self.of(vertex).first().copied();
        first.filter(|&target| target < vertex).unwrap_or(vertex)
    }
}

/// Hooks along edges.
pub(crate) static HOOK_EDGES: Kernel<(Read<Edge>, Shared<u32>)> = Kernel::with_source(
    "hook_edges",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(cuda_source("hook_edges")) },
    |grid, (edges, parents)| {
        grid.for_each_block(|block| {
            edges[block.range].iter().for_each(|&[from, to]| hook(parents, from, to));
            Ok(())
        })
    },
);

/// Hooks along [rows that were sent](SentRows), and adds the number of their arcs to a word.
pub(crate) static HOOK_SENT: Kernel<(Read<u32>, Shared<u32>, Shared<u64>)> = Kernel::with_source(
    "hook_sent",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(cuda_source("hook_sent")) },
    |_, (words, parents, hooked)| {
        let rows = SentRows::of(words);
        hooked[0].fetch_add(rows.targets.len() as u64, Ordering::Relaxed);
        rows.for_each_arc(|from, to| hook(parents, from, to))
    },
);

/// Makes every vertex's parent the root of its tree; runs when all hooking is done.
pub(crate) static COMPRESS: Kernel<(Shared<u32>,)> = Kernel::with_source(
    "compress",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(cuda_source("compress")) },
    |grid, (parents,)| {
        grid.for_each_block(|block| {
            for vertex in block.range {
                let root = look_for_root(parents, vertex as u32);
                parents[vertex].store(root, Ordering::Relaxed);
            }
            Ok(())
        })
    },
);

/// Writes the pair of vertex and parent for each vertex that is not its own parent, of as
/// many vertices from the first one on as pairs would fit. Takes the parents, the first
/// vertex, room for pairs, two words of scratch memory that are 0 between kernels, and a
/// word in host memory for the number of pairs.
pub(crate) static PAIRS: Kernel<(Shared<u32>, Value<u32>, Write<Edge>, Shared<u32>, Shared<u32>)> =
    Kernel::with_source(
        "pairs",
        // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
        unsafe { Trusted::new(cuda_source("pairs")) },
        |_, (parents, first, output, _, count)| {
            let vertices = first..parents.len().min(first as usize + output.len()) as u32;
            let mut found = 0;
            for vertex in vertices {
                let parent = parents[vertex as usize].load(Ordering::Relaxed);
                if parent != vertex {
                    output[found] = [vertex, parent];
                    found += 1;
                }
            }
            // Release: the host reads it when the kernel is over.
            count[0].store(found as u32, Ordering::Release);
            Ok(())
        },
    );

/// Arcs of a block, and vertices.
pub(crate) const ARCS: usize = 1 << 14;
const VERTICES: usize = 1 << 14;

/// The CUDA C++ of all kernels, for compiling without running.
#[doc(hidden)]
pub fn cuda_sources() -> Vec<CudaSource> {
    let steps = ["start", "start_tiles", "hook_leaving", "hook_rows", "hook_edges", "hook_sent"];
    let steps = steps.into_iter().chain(["compress", "pairs"]).map(cuda_source);
    steps.chain(crate::gang::cuda_sources()).collect()
}
