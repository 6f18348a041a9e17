//! Renumbers the targets of rows and sorts each row, in place on a device: `sort_rows.cuh`, and its
//! twins.

use std::ops::Range;
use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    CudaSource, DeviceBuffer, Grid, Kernel, KernelResult, Parameter, Read, Stream, Trusted, Value,
    Write, cuda_text,
};
use millstream_graph::build::ArcWeight;
use millstream_graph::pieces::InPieces;
use rayon::prelude::*;

use crate::Result;

/// The most arcs of a row that a warp sorts, and that a block sorts in its own (shared) memory:
/// `rows_of_warp` and `rows_of_block`.
pub(crate) const ROWS_OF_WARP: u64 = 256;
const ROWS_OF_BLOCK: u64 = 2048;
/// Threads of a block, and of one that sorts the longest rows.
const THREADS: u32 = 256;
const MOST_THREADS: u32 = 1024;
/// 64-bit words of scratch memory: `SCRATCH`, or one for every `ARCS_FOR_WORD` arcs if that is more. A row
/// that needs more still gets what it needs.
const SCRATCH: u64 = 1 << 25;
const ARCS_FOR_WORD: u64 = 8;

millstream_device::cuda_struct! {
    /// `RowOrder` of `sort_rows.cuh`.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub(crate) struct RowOrder as "millstream::RowOrder" {
        by_weight: u32,
        is_real: u32,
    }
}

millstream_device::cuda_struct! {
    /// `LongRow` of `long_row.cuh`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(crate) struct LongRow as "millstream::LongRow" {
        pub(crate) begin: u64,
        scratch: u64,
        arcs: u32,
        unused: u32,
    }
}

impl RowOrder {
    /// By weight, then by target; or by target, then by weight. If `is_real`, weights are bits of reals.
    pub(crate) fn new(by_weight: bool, is_real: bool) -> RowOrder {
        RowOrder { by_weight: by_weight.into(), is_real: is_real.into() }
    }

    fn key(self, target: u32, bits: u32) -> (u32, u32) {
        let weight = if self.is_real == 1 { f32::from_bits(bits).to_key() } else { bits };
        if self.by_weight == 1 { (weight, target) } else { (target, weight) }
    }

    fn arc(self, key: (u32, u32)) -> (u32, u32) {
        let (target, weight) = if self.by_weight == 1 { (key.1, key.0) } else { key };
        let bits = if self.is_real == 1 { f32::from_key(weight).to_bits() } else { weight };
        (target, bits)
    }
}

impl LongRow {
    /// The row of the arcs `begin..end`, if it is too long for a warp.
    pub(crate) fn of(begin: u64, end: u64) -> Option<LongRow> {
        let arcs = end - begin;
        let row = LongRow { begin, scratch: 0, arcs: arcs as u32, unused: 0 };
        (arcs > ROWS_OF_WARP).then_some(row)
    }

    /// All long rows of a row index.
    pub(crate) fn all(offsets: &[u64]) -> Vec<LongRow> {
        let rows = offsets.par_windows(2).in_pieces();
        rows.filter_map(|row| LongRow::of(row[0], row[1])).collect()
    }
}

/// Rows on a device that are to be sorted.
pub(crate) struct RowsToSort<'a> {
    /// The row index; it covers all of `targets`.
    pub(crate) offsets: &'a DeviceBuffer<u64>,
    /// The rows that are long, in any order.
    pub(crate) long: Vec<LongRow>,
    /// The new id of each target; empty if targets keep their ids.
    pub(crate) new_ids: &'a DeviceBuffer<u32>,
    pub(crate) targets: &'a mut DeviceBuffer<u32>,
    /// Empty, or one for each target.
    pub(crate) weights: &'a mut DeviceBuffer<u32>,
    pub(crate) order: RowOrder,
}

impl RowsToSort<'_> {
    /// Gives targets their new ids, and sorts each row, in the order of the stream.
    pub(crate) fn sort(self, stream: &Stream) -> Result<()> {
        let most_scratch = SCRATCH.max(self.targets.len() as u64 / ARCS_FOR_WORD);
        self.sort_within(most_scratch, stream)
    }

    /// The same with at most `most_scratch` words of scratch memory, unless a single row needs more.
    fn sort_within(self, most_scratch: u64, stream: &Stream) -> Result<()> {
        let RowsToSort { offsets, long, new_ids, targets, weights, order } = self;
        let kernels = if weights.is_empty() { &UNWEIGHTED } else { &WEIGHTED };
        let arguments = (offsets, new_ids, &mut *targets, &mut *weights, order);
        kernels.short.launch(stream, offsets.len() - 1, arguments)?;
        let words_of_keys = if weights.is_empty() { 1 } else { 2 };
        let (long, longest) = shared_out(long, words_of_keys, most_scratch);
        if !long.is_empty() {
            let size = long.len() * THREADS as usize;
            let rows = stream.uploaded(long)?;
            let arguments = (&rows, new_ids, &mut *targets, &mut *weights, order);
            kernels.long.launch(stream, size, arguments)?;
        }
        let words = longest.iter().map(|(_, words)| *words).max().unwrap_or(0);
        let mut scratch = stream.device().buffer_to_overwrite(words as usize)?;
        for (rows, _) in longest {
            let size = rows.len() * MOST_THREADS as usize;
            let rows = stream.uploaded(rows)?;
            let arguments = (&rows, &mut scratch, new_ids, &mut *targets, &mut *weights, order);
            kernels.longest.launch(stream, size, arguments)?;
        }
        Ok(())
    }
}

/// The rows that blocks sort in their own memory, the longest first; and batches of the rows too long for
/// that, each with the scratch words that it needs (`words_of_keys` for each arc): as many rows as fit in
/// `most` words, or one row.
fn shared_out(
    mut long: Vec<LongRow>,
    words_of_keys: u64,
    most: u64,
) -> (Vec<LongRow>, Vec<(Vec<LongRow>, u64)>) {
    long.par_sort_by_key(|row| std::cmp::Reverse(row.arcs));
    let own = long.partition_point(|row| u64::from(row.arcs) > ROWS_OF_BLOCK);
    let rest = long.split_off(own);
    let mut batches: Vec<(Vec<LongRow>, u64)> = Vec::new();
    for mut row in long {
        let words = words_of_keys * u64::from(row.arcs);
        match batches.last_mut().filter(|(_, used)| *used + words <= most) {
            Some((rows, used)) => {
                row.scratch = *used;
                *used += words;
                rows.push(row);
            }
            None => batches.push((vec![row], words)),
        }
    }
    (rest, batches)
}

/// Offsets, new ids, targets, weights.
type Short = (Read<u64>, Read<u32>, Write<u32>, Write<u32>, Value<RowOrder>);
type Long = (Read<LongRow>, Read<u32>, Write<u32>, Write<u32>, Value<RowOrder>);
/// With scratch memory.
type Longest = (Read<LongRow>, Write<u64>, Read<u32>, Write<u32>, Write<u32>, Value<RowOrder>);

struct Kernels {
    short: Kernel<Short>,
    long: Kernel<Long>,
    longest: Kernel<Longest>,
}

static UNWEIGHTED: LazyLock<Kernels> = LazyLock::new(|| Kernels::new(false));
static WEIGHTED: LazyLock<Kernels> = LazyLock::new(|| Kernels::new(true));

impl Kernels {
    fn new(has_weights: bool) -> Kernels {
        let [short, long, longest] = sources(has_weights).map(|source| {
            // SAFETY: the kernels keep to their arguments as the signatures say, as their twins do.
            unsafe { Trusted::new(source) }
        });
        Kernels {
            short: Kernel::<Short>::with_source("sort_short_rows", short, sort_short),
            long: Kernel::<Long>::with_source("sort_long_rows", long, sort_long),
            longest: Kernel::<Longest>::with_source("sort_longest_rows", longest, sort_longest),
        }
    }
}

/// The kernels for rows with weights, or without.
pub(crate) fn sources(has_weights: bool) -> [CudaSource; 3] {
    const TEXT: &str = cuda_text!("long_row.cuh", "sort_rows.cuh");
    let text = format!("#define MILLSTREAM_ROWS_WEIGH {}\n{TEXT}", u32::from(has_weights));
    let source = |entry: &'static str| {
        let source = CudaSource::generated("sort_rows.cuh", entry, text.as_str());
        source.structs(&[RowOrder::LAYOUT, LongRow::LAYOUT])
    };
    [
        source("sort_short_rows").threads(THREADS),
        source("sort_long_rows").threads(THREADS).uncapped(),
        source("sort_longest_rows").threads(MOST_THREADS).uncapped(),
    ]
}

fn sort_short(_: &Grid, view: <Short as Parameter>::View<'_>) -> KernelResult {
    let (offsets, new_ids, targets, weights, order) = view;
    for row in offsets.windows(2).filter(|row| row[1] - row[0] <= ROWS_OF_WARP) {
        sort_row(row[0] as usize..row[1] as usize, new_ids, targets, weights, order);
    }
    Ok(())
}

fn sort_long(_: &Grid, view: <Long as Parameter>::View<'_>) -> KernelResult {
    let (rows, new_ids, targets, weights, order) = view;
    for row in rows {
        let begin = row.begin as usize;
        sort_row(begin..begin + row.arcs as usize, new_ids, targets, weights, order);
    }
    Ok(())
}

fn sort_longest(grid: &Grid, view: <Longest as Parameter>::View<'_>) -> KernelResult {
    let (rows, _, new_ids, targets, weights, order) = view;
    sort_long(grid, (rows, new_ids, targets, weights, order))
}

fn sort_row(
    arcs: Range<usize>,
    new_ids: &[u32],
    targets: &mut [u32],
    weights: &mut [u32],
    order: RowOrder,
) {
    let targets = &mut targets[arcs.clone()];
    if !new_ids.is_empty() {
        targets.iter_mut().for_each(|target| *target = new_ids[*target as usize]);
    }
    if weights.is_empty() {
        return targets.sort_unstable();
    }
    let weights = &mut weights[arcs];
    let keys = targets.iter().zip(&*weights).map(|(&target, &bits)| order.key(target, bits));
    let mut keys: Vec<_> = keys.collect();
    keys.sort_unstable();
    for ((target, weight), key) in targets.iter_mut().zip(weights).zip(keys) {
        (*target, *weight) = order.arc(key);
    }
}

#[cfg(test)]
mod tests {
    use millstream_device::{DeviceList, DeviceSet};

    use super::*;

    #[test]
    fn the_longest_rows_share_scratch_memory() {
        let lengths = [256, 257, 0, 2049, 3000, 2048, 9000, 2500];
        let mut offsets = vec![0];
        lengths.iter().for_each(|length| offsets.push(offsets[offsets.len() - 1] + length));
        let (long, longest) = shared_out(LongRow::all(&offsets), 2, 12_000);
        let row = |row: usize, scratch| LongRow {
            begin: offsets[row],
            scratch,
            arcs: lengths[row] as u32,
            unused: 0,
        };
        assert_eq!(long, [row(5, 0), row(1, 0)]);
        let batches = [
            (vec![row(6, 0)], 18_000),
            (vec![row(4, 0), row(7, 6_000)], 11_000),
            (vec![row(3, 0)], 4_098),
        ];
        assert_eq!(longest, batches);
    }

    /// The sorted rows of a device, with some rows for each kernel: the longest two at a time.
    fn sorted(
        devices: DeviceList,
        new_ids: &[u32],
        weights: &[u32],
        order: RowOrder,
    ) -> (Vec<u32>, Vec<u32>) {
        let set = DeviceSet::builder().devices(devices).build().unwrap();
        let stream = set.devices()[0].stream().unwrap();
        let ends = [3, 3, 303, 3303, 6303, 10_000, 12_050];
        let offsets: Vec<u64> = [0].into_iter().chain(ends).collect();
        let targets = (0..12_050).map(|arc| arc * 7 % 1000).collect::<Vec<u32>>();
        let on_device = stream.uploaded(offsets.clone()).unwrap();
        let new_ids = stream.uploaded(new_ids.to_vec()).unwrap();
        let mut targets = stream.uploaded(targets).unwrap();
        let mut weights = stream.uploaded(weights.to_vec()).unwrap();
        let rows = RowsToSort {
            offsets: &on_device,
            long: LongRow::all(&offsets),
            new_ids: &new_ids,
            targets: &mut targets,
            weights: &mut weights,
            order,
        };
        rows.sort_within(7_000, &stream).unwrap();
        let download = |words| stream.download(words).unwrap().wait().unwrap();
        (download(&targets), download(&weights))
    }

    /// On emulated GPUs, too: `scripts/emulate.sh`.
    #[test]
    fn new_ids_are_given_and_rows_sorted() {
        let of_all = |new_ids: &[u32], weights: &[u32], order| {
            let by_twins = sorted(DeviceList::host(1), new_ids, weights, order);
            assert!(sorted(DeviceList::available().unwrap(), new_ids, weights, order) == by_twins);
            by_twins
        };
        let (reverse, none) = ((0..1000).rev().collect::<Vec<u32>>(), RowOrder::new(false, false));
        assert_eq!(of_all(&reverse, &[], none).0[..3], [985, 992, 999]);
        assert!(of_all(&[], &[], none).0[303..3303].is_sorted());
        // The first is less than 0, and the second -0.
        let bits = |arc: u32| if arc == 1 { 1 << 31 } else { (arc as f32 - 1.0).to_bits() };
        let weights: Vec<u32> = (0..12_050).rev().map(bits).collect();
        let (targets, by_weight) = of_all(&reverse, &weights, RowOrder::new(true, true));
        assert_eq!(targets[..3], [985, 992, 999]);
        assert_eq!(by_weight[10_000..10_002], [bits(0), bits(1)]);
        let (targets, weights) = of_all(&reverse, &weights, RowOrder::new(false, true));
        assert!(targets[3..303].is_sorted() && !weights[3..303].is_sorted());
    }
}
