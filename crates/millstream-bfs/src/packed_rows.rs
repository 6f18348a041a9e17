//! Rows of a graph with few arcs a vertex, packed into 16 bytes each, so that one access
//! brings a whole row: what a search on one GPU reads while its frontiers are thin
//! (`LEVELS.md`).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millstream_device::{CudaSource, Device, Kernel, Read, Shared, SharedBuffer};
use millstream_graph::CsrGraph;
use millstream_traversal::Part;
use rayon::prelude::*;

use crate::Result;
use crate::bfs::Layout;

/// Targets that a packed row has room for: `PackedRow::most` in `packed_rows.cuh`.
const MOST: usize = 4;
/// In the place of a target where there is none.
const NONE: u32 = u32::MAX;
/// In the first place: the row has more targets than there is room for.
const IS_LONG: u32 = u32::MAX - 1;
/// Packing is worth it if at most one row in so many is long,
const ROWS_FOR_LONG: usize = 32;
/// and none longer than this: four threads read such a row.
const LONGEST: u64 = 32;

/// The rows of one device.
#[derive(Debug)]
pub(crate) struct PackedRows {
    /// [`MOST`] words for each owned vertex.
    pub(crate) rows: SharedBuffer<u32>,
    /// How long packing has taken.
    time: Duration,
}

impl PackedRows {
    /// Whether few rows are long, and none is very long.
    pub(crate) fn suit(graph: &CsrGraph) -> bool {
        let vertices = || (0..graph.vertices()).into_par_iter();
        let long = vertices().filter(|&vertex| graph.degree(vertex) > MOST as u64).count();
        long * ROWS_FOR_LONG <= graph.vertices() as usize
            && !vertices().any(|vertex| graph.degree(vertex) > LONGEST)
    }

    /// Packs the rows of `part`, which lie on `device`, there.
    pub(crate) async fn new(device: &Device, part: &Part) -> Result<PackedRows> {
        let start = Instant::now();
        let vertices = part.offsets.len() - 1;
        let (stream, rows) = (device.stream()?, device.shared(MOST * vertices)?);
        PACK_ROWS.launch(&stream, vertices, (&*part.offsets, &*part.targets, &rows))?;
        stream.record()?.completed().await?;
        Ok(PackedRows { rows, time: start.elapsed() })
    }

    /// What it has cost.
    pub(crate) fn layout(&self) -> Layout {
        Layout { bytes: (self.rows.len() * size_of::<u32>()) as u64, time: self.time }
    }
}

static PACK_ROWS: Kernel<(Read<u64>, Read<u32>, Shared<u32>)> =
    Kernel::with_source("pack_rows", cuda_source(), |grid, (offsets, targets, packed)| {
        grid.for_each_block(|block| {
            for row in block.range {
                let its = &targets[offsets[row] as usize..offsets[row + 1] as usize];
                for (place, word) in packed[MOST * row..][..MOST].iter().enumerate() {
                    let target = match place {
                        0 if its.len() > MOST => IS_LONG,
                        _ => its.get(place).copied().unwrap_or(NONE),
                    };
                    // The kernel's end publishes it.
                    word.store(target, Ordering::Relaxed);
                }
            }
            Ok(())
        })
    });

pub(crate) const fn cuda_source() -> CudaSource {
    CudaSource::new("packed_rows.cuh", "pack_rows", include_str!("packed_rows.cuh"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use millstream_flow::{Context, Devices};
    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::partition;
    use millstream_traversal::{Columns, DistributedGraph};

    use super::*;

    #[test]
    fn rows_have_their_targets_unless_they_are_long() {
        let context = Context::builder().devices(Devices::host(1)).build().unwrap();
        // Rows of 0 to 6 arcs.
        let arcs: Vec<_> = (0..7).flat_map(|from| (0..from).map(move |to| (from, to))).collect();
        let graph = CsrGraph::from_edges(7, &arcs).unwrap();
        let packed = context.block_on(async {
            let parts = partition::contiguous_blocks(&graph, 1);
            let columns = Columns::Structure;
            let graph = DistributedGraph::new(&context, &graph, parts, columns).await.unwrap();
            let device = &context.devices()[0];
            let rows = PackedRows::new(device, &graph.parts()[0]).await.unwrap().rows;
            let stream = device.stream().unwrap();
            stream.download_shared(&rows, 0..rows.len()).unwrap().await.unwrap()
        });
        let packed = packed.unwrap();
        for (row, words) in packed.chunks(MOST).enumerate() {
            match row <= MOST {
                true => {
                    let targets: Vec<_> = words.iter().filter(|&&word| word != NONE).collect();
                    assert_eq!(targets, graph.neighbors(row as u32).iter().collect::<Vec<_>>());
                }
                false => assert_eq!(words[0], IS_LONG),
            }
        }
    }

    #[test]
    fn roads_suit_and_hubs_do_not() {
        let options = GenerateOptions::default();
        let road = generate::road(60, 60, generate::KEEP_PERMILLE, &options).unwrap();
        assert!(PackedRows::suit(&road));
        assert!(!PackedRows::suit(&generate::kron(9, 8, &options).unwrap()));
    }
}
