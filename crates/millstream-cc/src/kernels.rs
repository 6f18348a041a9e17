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

/// Makes the target of each vertex's first arc its parent, where that is smaller,
/// for the vertices of a range. Takes rows of arcs and whose is the first.
pub(crate) static START: Kernel<Start> = Kernel::with_source(
    "start",
    source("start"),
    |grid, (offsets, targets, first, parents, range)| {
        let first_target = |vertex: usize| {
            let row = vertex.checked_sub(first as usize)?;
            let (start, end) = (*offsets.get(row)?, *offsets.get(row + 1)?);
            (start < end).then(|| targets[start as usize])
        };
        grid.for_each_block(|block| {
            for vertex in block.range.map(|at| at + range[0] as usize) {
                let parent = first_target(vertex).map_or(vertex as u32, |it| it.min(vertex as u32));
                parents[vertex].store(parent, Ordering::Relaxed);
            }
            Ok(())
        })
    },
);

type Start = (Read<u64>, Read<u32>, Value<u32>, Shared<u32>, Value<[u32; 2]>);

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

/// Hooks along the pairs of a vertex in a range and its parent on another device,
/// where that is another vertex; adds the number of pairs to a word.
pub(crate) static MERGE: Kernel<(Shared<u32>, Shared<u32>, Value<[u32; 2]>, Shared<u32>)> =
    Kernel::with_source("merge", source("merge"), |grid, (parents, others, [start, _], merged)| {
        grid.for_each_block(|block| {
            let mut pairs = 0;
            for vertex in block.range.map(|at| start + at as u32) {
                let parent = others[vertex as usize].load(Ordering::Relaxed);
                if parent != vertex {
                    hook(parents, vertex, parent);
                    pairs += 1;
                }
            }
            merged[0].fetch_add(pairs, Ordering::Relaxed);
            Ok(())
        })
    });

/// Tells about rows of arcs in three words that are 0 before: the sum of the
/// fingerprints of all arcs less those of their reverses; the largest 32-bit number
/// less the lowest target, or 0; the highest target and 1, or 0. The sums of all
/// devices add up to 0 if every arc has its reverse, and with a probability of about
/// 2^-64 if one has none.
pub(crate) static SURVEY: Kernel<(Read<u64>, Read<u32>, Value<u32>, Shared<u64>)> =
    Kernel::with_source("survey", source("survey"), |grid, (offsets, targets, first, words)| {
        grid.for_each_block(|block| {
            let (mut sum, mut lowest, mut end) = (0u64, 0, 0);
            for row in block.range {
                let from = first + row as u32;
                for &to in &targets[offsets[row] as usize..offsets[row + 1] as usize] {
                    sum = sum.wrapping_add(fingerprint(from, to));
                    sum = sum.wrapping_sub(fingerprint(to, from));
                    lowest = lowest.max(u32::MAX - to);
                    end = end.max(to + 1);
                }
            }
            words[0].fetch_add(sum, Ordering::Relaxed);
            words[1].fetch_max(lowest.into(), Ordering::Relaxed);
            words[2].fetch_max(end.into(), Ordering::Relaxed);
            Ok(())
        })
    });

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
    ["start", "sample", "hook_rows", "hook_edges", "compress", "pairs", "merge", "survey"]
        .map(source)
        .into()
}
