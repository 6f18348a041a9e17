//! Hooking and pointer jumping \[G §5.1.4\] as kernels: the twins of `cc.cuh`.

use std::sync::atomic::Ordering;

use millstream_device::{CudaSource, Grid, Kernel, Read, Shared, Value, Write};

use crate::Method;
use crate::hooking::{are_together, compress, hook};

/// Two vertices of the same component.
pub(crate) type Edge = [u32; 2];

const fn source(entry: &'static str) -> CudaSource {
    CudaSource::new("cc.cuh", entry, include_str!("cc.cuh"))
}

/// Makes the target of each vertex's first arc its parent, where that is smaller.
pub(crate) static START: Kernel<(Read<u64>, Read<u32>, Value<u32>, Shared<u32>)> =
    Kernel::with_source("start", source("start"), |grid, (offsets, targets, first, parents)| {
        let first_target = |vertex: usize| {
            let row = vertex.checked_sub(first as usize)?;
            let (start, end) = (*offsets.get(row)?, *offsets.get(row + 1)?);
            (start < end).then(|| targets[start as usize])
        };
        grid.for_each_block(|block| {
            for vertex in block.range {
                let parent = first_target(vertex).map_or(vertex as u32, |it| it.min(vertex as u32));
                parents[vertex].store(parent, Ordering::Relaxed);
            }
            Ok(())
        })
    });

/// Hooks along the second arc of every vertex that has a row.
pub(crate) static SAMPLE: Kernel<(Read<u64>, Read<u32>, Value<u32>, Shared<u32>)> =
    Kernel::with_source("sample", source("sample"), |grid, (offsets, targets, first, parents)| {
        grid.for_each_block(|block| {
            for row in block.range {
                let second = offsets[row] + 1;
                if second < offsets[row + 1] {
                    hook(parents, first + row as u32, targets[second as usize]);
                }
            }
            Ok(())
        })
    });

/// Hooks along rows of arcs, as far as the method wants them. Takes the rows,
/// parents, [`Method`], the hub, and words in which the warps of a GPU share hubs'
/// arcs, 0 before and of no use after.
pub(crate) static HOOK_ROWS: Kernel<HookRows> = Kernel::with_source(
    "hook_rows",
    source("hook_rows"),
    |_, (offsets, targets, first_vertex, parents, method, hub, _)| {
        // Arcs in blocks: a hub's row may be most of them.
        Grid::of_blocks(targets.len(), ARCS).for_each_block(|block| {
            let arcs = block.range.start as u64..block.range.end as u64;
            let mut row = offsets.partition_point(|&offset| offset <= arcs.start) - 1;
            while offsets[row] < arcs.end {
                let mut start = offsets[row];
                let end = offsets[row + 1].min(arcs.end);
                let vertex = first_vertex + row as u32;
                row += 1;
                if method == Method::OutsideHub as u32 && are_together(parents, vertex, hub) {
                    continue;
                }
                // The trees began with the first.
                start += u64::from(method == Method::TowardsSmaller as u32);
                for &target in &targets[start.max(arcs.start).min(end) as usize..end as usize] {
                    if method != Method::TowardsSmaller as u32 || target < vertex {
                        hook(parents, vertex, target);
                    }
                }
            }
            Ok(())
        })
    },
);

type HookRows =
    (Read<u64>, Read<u32>, Value<u32>, Shared<u32>, Value<u32>, Value<u32>, Shared<u64>);

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
            block.range.for_each(|vertex| compress(parents, vertex as u32));
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

/// Adds the fingerprints of all arcs less those of their reverses to a sum that is
/// 0 before. It is 0 then if all rows of a graph together have every arc's reverse,
/// and with a probability of about 2^-64 if they do not.
pub(crate) static ASYMMETRY: Kernel<(Read<u64>, Read<u32>, Value<u32>, Shared<u64>)> =
    Kernel::with_source(
        "asymmetry",
        source("asymmetry"),
        |grid, (offsets, targets, first, sum)| {
            grid.for_each_block(|block| {
                let mut own = 0u64;
                for row in block.range {
                    let from = first + row as u32;
                    for &to in &targets[offsets[row] as usize..offsets[row + 1] as usize] {
                        own = own.wrapping_add(fingerprint(from, to));
                        own = own.wrapping_sub(fingerprint(to, from));
                    }
                }
                sum[0].fetch_add(own, Ordering::Relaxed);
                Ok(())
            })
        },
    );

/// A number that is the same for equal pairs, and hardly ever for others: a step of
/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn fingerprint(from: u32, to: u32) -> u64 {
    let word = (u64::from(from) << 32 | u64::from(to)).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

/// Arcs of a block.
const ARCS: usize = 1 << 14;

/// The CUDA C++ of all kernels, to be compiled without running it.
pub fn cuda_sources() -> Vec<CudaSource> {
    ["start", "sample", "hook_rows", "hook_edges", "compress", "pairs", "asymmetry"]
        .map(source)
        .into()
}
