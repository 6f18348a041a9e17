//! Row indexes that devices make from the number of arcs in each row, with a report on the rows, so that
//! the host needs no index: `index_rows.cuh`, and its twins.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    CudaSource, DeviceBuffer, Download, Kernel, Read, Shared, SharedBuffer, Stream, Trusted, Write,
    cuda_text,
};
use rayon::prelude::*;

use crate::Result;
use crate::graph::DistributedGraph;
use crate::on_each_device::on_each_device;
use crate::sort_rows::{LongRow, ROWS_OF_WARP};

/// Threads of a block that makes an index.
const THREADS: u32 = 1024;
/// Rows of a tile; one such block indexes a tile.
const ROWS_OF_TILE: usize = 8 * THREADS as usize;
/// The fewest rows for a host thread.
const ROWS: usize = 1 << 14;

millstream_device::cuda_struct! {
    /// `RowReport` of `index_rows.cuh`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(crate) struct RowReport as "millstream::RowReport" {
        /// Arcs of all rows.
        pub(crate) arcs: u64,
        /// Arcs of the longest row.
        pub(crate) longest: u64,
        /// The first row of that length.
        pub(crate) longest_row: u64,
        /// Rows that are [long](LongRow).
        pub(crate) long_rows: u64,
    }
}

impl RowReport {
    /// Adds the report on the rows that follow.
    fn add(&mut self, later: &RowReport) {
        if later.longest > self.longest {
            (self.longest, self.longest_row) = (later.longest, later.longest_row);
        }
        self.arcs += later.arcs;
        self.long_rows += later.long_rows;
    }
}

/// The index of rows, and the report on them. A row has as many arcs as its count says, plus as many as it
/// has in the index `others`, if that is given.
pub(crate) fn index_rows(
    stream: &Stream,
    counts: &SharedBuffer<u64>,
    others: Option<&DeviceBuffer<u64>>,
) -> Result<(DeviceBuffer<u64>, Download<RowReport>)> {
    let device = stream.device();
    let (none, rows) = (device.buffer(0)?, counts.len());
    let mut offsets = device.buffer_to_overwrite(rows + 1)?;
    let mut tiles = device.buffer_to_overwrite(rows.div_ceil(ROWS_OF_TILE))?;
    let mut report = device.buffer_to_overwrite(1)?;
    let size = tiles.len() * THREADS as usize;
    INDEX.launch(stream, size, (counts, others.unwrap_or(&none), &mut offsets, &mut tiles))?;
    SUM.launch(stream, THREADS as usize, (&mut tiles, &mut offsets, &mut report))?;
    ADD.launch(stream, rows, (&tiles, &mut offsets))?;
    Ok((offsets, stream.download(&report)?))
}

/// The `count` long rows of an index.
pub(crate) fn long_rows(
    stream: &Stream,
    offsets: &DeviceBuffer<u64>,
    count: u64,
) -> Result<Download<LongRow>> {
    let device = stream.device();
    let mut rows = device.buffer_to_overwrite(count as usize)?;
    if count > 0 {
        let next = device.shared(1)?;
        LIST.launch(stream, offsets.len() - 1, (offsets, &next, &mut rows))?;
    }
    Ok(stream.download(&rows)?)
}

/// Which vertices, by new id, have rows with arcs.
///
/// # Errors
/// No memory; a failed device.
///
/// # Cancel safety
/// Cancel safe: it only reads.
///
/// # Device ordering
/// The rows must be visible to every stream, as they are when an upload resolves.
pub async fn rows_with_arcs(graph: &DistributedGraph) -> Result<Vec<bool>> {
    let mark = |_, stream: &Stream, offsets: &DeviceBuffer<u64>| -> Result<Download<u32>> {
        let rows = offsets.len() - 1;
        let mut bits = stream.device().buffer_to_overwrite(rows.div_ceil(32))?;
        MARK.launch(stream, rows, (offsets, &mut bits))?;
        Ok(stream.download(&bits)?)
    };
    let offsets = graph.parts().iter().map(|part| &*part.offsets);
    let marked = on_each_device(graph.context(), offsets, mark).await?;
    let mut all = Vec::with_capacity(graph.vertices() as usize);
    for (part, bits) in graph.parts().iter().zip(marked) {
        let (bits, rows) = (bits.await?, part.offsets.len() - 1);
        let has_arcs = |row| bits[row / 32] >> (row % 32) & 1 == 1;
        all.par_extend((0..rows).into_par_iter().with_min_len(ROWS).map(has_arcs));
    }
    Ok(all)
}

type Index = (Shared<u64>, Read<u64>, Write<u64>, Write<RowReport>);
type List = (Read<u64>, Shared<u64>, Write<LongRow>);

static INDEX: LazyLock<Kernel<Index>> = LazyLock::new(|| {
    Kernel::with_source("index_tiles", trusted("index_tiles"), |_, view| {
        let (counts, others, offsets, tiles) = view;
        for (tile, (rows, report)) in counts.chunks(ROWS_OF_TILE).zip(tiles).enumerate() {
            let mut all = RowReport::zeroed();
            for (row, count) in (tile * ROWS_OF_TILE..).zip(rows) {
                let other = others.get(row..row + 2).map_or(0, |row| row[1] - row[0]);
                let length = count.load(Ordering::Relaxed) + other;
                offsets[row] = all.arcs;
                let is_long = u64::from(length > ROWS_OF_WARP);
                all.add(&RowReport {
                    arcs: length,
                    longest: length,
                    longest_row: row as u64,
                    long_rows: is_long,
                });
            }
            *report = all;
        }
        Ok(())
    })
});

static SUM: LazyLock<Kernel<(Write<RowReport>, Write<u64>, Write<RowReport>)>> =
    LazyLock::new(|| {
        Kernel::with_source("sum_tiles", trusted("sum_tiles"), |_, (tiles, offsets, report)| {
            let mut all = RowReport::zeroed();
            for tile in tiles {
                let begin = all.arcs;
                all.add(tile);
                tile.arcs = begin;
            }
            offsets[offsets.len() - 1] = all.arcs;
            report[0] = all;
            Ok(())
        })
    });

static ADD: LazyLock<Kernel<(Read<RowReport>, Write<u64>)>> = LazyLock::new(|| {
    Kernel::with_source("add_tiles", trusted("add_tiles"), |_, (tiles, offsets)| {
        // All but the last offset, which `sum_tiles` has set.
        let rows = offsets.len() - 1;
        for (rows, tile) in offsets[..rows].chunks_mut(ROWS_OF_TILE).zip(tiles) {
            rows.iter_mut().for_each(|offset| *offset += tile.arcs);
        }
        Ok(())
    })
});

static LIST: LazyLock<Kernel<List>> = LazyLock::new(|| {
    Kernel::with_source("list_long_rows", trusted("list_long_rows"), |_, (offsets, _, rows)| {
        let long = offsets.windows(2).filter_map(|row| LongRow::of(row[0], row[1]));
        rows.iter_mut().zip(long).for_each(|(place, row)| *place = row);
        Ok(())
    })
});

static MARK: LazyLock<Kernel<(Read<u64>, Write<u32>)>> = LazyLock::new(|| {
    Kernel::with_source("mark_rows", trusted("mark_rows"), |_, (offsets, bits)| {
        bits.fill(0);
        for (row, _) in offsets.windows(2).enumerate().filter(|(_, row)| row[0] < row[1]) {
            bits[row / 32] |= 1 << (row % 32);
        }
        Ok(())
    })
});

fn trusted(entry: &'static str) -> Trusted<CudaSource> {
    // SAFETY: the kernels keep to their arguments as the signatures say, as their twins do.
    unsafe { Trusted::new(cuda_source(entry)) }
}

/// One of the kernels.
fn cuda_source(entry: &'static str) -> CudaSource {
    const TEXT: &str = cuda_text!("long_row.cuh", "index_rows.cuh");
    let source = CudaSource::new("index_rows.cuh", entry, TEXT);
    let source = source.structs(&[RowReport::LAYOUT, LongRow::LAYOUT]);
    match entry {
        "index_tiles" | "sum_tiles" => source.threads(THREADS),
        _ => source,
    }
}

pub(crate) fn cuda_sources() -> [CudaSource; 5] {
    ["index_tiles", "sum_tiles", "add_tiles", "list_long_rows", "mark_rows"].map(cuda_source)
}

#[cfg(test)]
mod tests {
    use millstream_device::{DeviceList, DeviceSet};

    use super::*;

    /// On emulated GPUs, too: `scripts/emulate.sh`.
    #[test]
    fn tiles_are_summed_however_many_there_are() {
        let set = DeviceSet::builder().devices(DeviceList::available().unwrap()).build().unwrap();
        let stream = set.devices()[0].stream().unwrap();
        for tiles in [0, 1, 1024, 1025, 2049u64] {
            // The longest rows are in the last tile of some thousand and in the first of the next.
            let report = |tile| RowReport {
                arcs: tile % 7 + 1,
                longest: if tile == 1023 || tile == 1024 { 9 } else { 1 },
                longest_row: tile * ROWS_OF_TILE as u64 + 3,
                long_rows: tile % 2,
            };
            let reports: Vec<RowReport> = (0..tiles).map(report).collect();
            let (mut all, mut begins) = (RowReport::zeroed(), Vec::new());
            for report in &reports {
                begins.push(all.arcs);
                all.add(report);
            }
            let mut tiles = stream.uploaded(reports).unwrap();
            let mut offsets = stream.uploaded(vec![7u64]).unwrap();
            let mut sum = stream.uploaded(vec![RowReport::zeroed()]).unwrap();
            SUM.launch(&stream, THREADS as usize, (&mut tiles, &mut offsets, &mut sum)).unwrap();
            assert_eq!(stream.download(&sum).unwrap().wait().unwrap(), [all]);
            assert_eq!(stream.download(&offsets).unwrap().wait().unwrap(), [all.arcs]);
            let tiles = stream.download(&tiles).unwrap().wait().unwrap();
            assert!(tiles.iter().map(|tile| tile.arcs).eq(begins));
        }
    }

    /// On emulated GPUs, too: `scripts/emulate.sh`.
    #[test]
    fn rows_are_indexed_and_long_ones_listed() {
        let length = |row: u64| match row % 1000 {
            // Several are the longest.
            7 => row.min(3007),
            8 => 254,
            9 => 255,
            10 => 256,
            11 => 257,
            _ => row % 5,
        };
        let lengths = |rows: u64| (0..rows).map(length);
        let set = DeviceSet::builder().devices(DeviceList::available().unwrap()).build().unwrap();
        let stream = set.devices()[0].stream().unwrap();
        for rows in [0, 1, 31, 8192, 8193, 20_000] {
            let counts = stream.device().shared(rows as usize).unwrap();
            let all = 0..rows as usize;
            stream.upload_shared(lengths(rows).collect::<Vec<_>>(), &counts, all).unwrap();
            let others: Vec<u64> = (0..=rows).map(|row| 2 * row).collect();
            let others = stream.uploaded(others).unwrap();
            for (others, more) in [(None, 0), (Some(&others), 2)] {
                let (offsets, report) = index_rows(&stream, &counts, others).unwrap();
                let mut expected = vec![0];
                for length in lengths(rows) {
                    expected.push(expected[expected.len() - 1] + length + more);
                }
                let report = report.wait().unwrap()[0];
                assert_eq!(stream.download(&offsets).unwrap().wait().unwrap(), expected);
                let row = |row: u64| expected[row as usize + 1] - expected[row as usize];
                let longest = (0..rows).map(row).max().unwrap_or(0);
                let first = (0..rows).find(|&at| row(at) == longest).unwrap_or(0);
                let windows = expected.windows(2);
                let long: Vec<_> = windows.filter_map(|row| LongRow::of(row[0], row[1])).collect();
                let (arcs, long_rows) = (expected[rows as usize], long.len() as u64);
                let said = RowReport { arcs, longest, longest_row: first, long_rows };
                assert_eq!(report, said, "{rows} and {more}");
                let listed = super::long_rows(&stream, &offsets, long_rows).unwrap();
                let mut listed = listed.wait().unwrap();
                listed.sort_by_key(|row| row.begin);
                assert_eq!(listed, long);
            }
        }
    }
}
