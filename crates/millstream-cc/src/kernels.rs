//! Hooking and pointer jumping \[G §5.1.4\] as kernels: the twins of `cc.cuh`.

use std::sync::atomic::Ordering;

use millstream_device::{CudaSource, Grid, Kernel, Read, Shared, Value, Write};

use crate::hooking::{find_root, hook};

/// Two vertices of the same component.
pub(crate) type Edge = [u32; 2];

const fn source(entry: &'static str) -> CudaSource {
    CudaSource::new("cc.cuh", entry, include_str!("cc.cuh"))
}

/// Makes every vertex a root.
pub(crate) static START: Kernel<(Shared<u32>,)> =
    Kernel::with_source("start", source("start"), |grid, (parents,)| {
        grid.for_each_block(|block| {
            for vertex in block.range {
                parents[vertex].store(vertex as u32, Ordering::Relaxed);
            }
            Ok(())
        })
    });

/// Hooks along rows of arcs; the rows are of the vertices from some on.
pub(crate) static HOOK_ROWS: Kernel<(Read<u64>, Read<u32>, Shared<u32>, Value<u32>)> =
    Kernel::with_source(
        "hook_rows",
        source("hook_rows"),
        |_, (offsets, targets, parents, first_vertex)| {
            // Arcs in blocks: a hub's row may be most of them.
            Grid::of_blocks(targets.len(), ARCS).for_each_block(|block| {
                let start = block.range.start as u64;
                let mut row = offsets.partition_point(|&offset| offset <= start) - 1;
                for arc in block.range {
                    while offsets[row + 1] <= arc as u64 {
                        row += 1;
                    }
                    hook(parents, first_vertex + row as u32, targets[arc]);
                }
                Ok(())
            })
        },
    );

/// Hooks along edges.
pub(crate) static HOOK_EDGES: Kernel<(Read<Edge>, Shared<u32>)> =
    Kernel::with_source("hook_edges", source("hook_edges"), |grid, (edges, parents)| {
        grid.for_each_block(|block| {
            edges[block.range].iter().for_each(|&[from, to]| hook(parents, from, to));
            Ok(())
        })
    });

/// Makes every vertex's parent the root of its tree.
pub(crate) static COMPRESS: Kernel<(Shared<u32>,)> =
    Kernel::with_source("compress", source("compress"), |grid, (parents,)| {
        grid.for_each_block(|block| {
            for vertex in block.range {
                let root = find_root(parents, vertex as u32);
                parents[vertex].store(root, Ordering::Relaxed);
            }
            Ok(())
        })
    });

/// Pairs of a vertex, from some on, and its parent, where that is another: as many
/// vertices as there is room for. Takes parents, first vertex, room, two words of
/// scratch memory that are 0 between kernels, and a word of the host for the
/// number of pairs.
pub(crate) static PAIRS: Kernel<(Shared<u32>, Value<u32>, Write<Edge>, Shared<u32>, Shared<u32>)> =
    Kernel::with_source("pairs", source("pairs"), |_, (parents, first, output, _, count)| {
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
    });

/// Arcs of a block.
const ARCS: usize = 1 << 14;

/// The CUDA C++ of all kernels, to be compiled without running it.
pub fn cuda_sources() -> Vec<CudaSource> {
    ["start", "hook_rows", "hook_edges", "compress", "pairs"].map(source).into()
}
