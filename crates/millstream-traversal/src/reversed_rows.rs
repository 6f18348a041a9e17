//! The transpose: devices turn rows of the arcs that leave vertices into rows of the arcs that enter
//! them: `reversed_rows.cuh`, and its twins.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::Pod;
use millstream_device::{
    CudaSource, DeviceBuffer, Kernel, Read, Shared, SharedBuffer, Stream, Trusted, Value, Write,
};
use millstream_flow::Context;
use millstream_graph::RowIndex;
use millstream_graph::pieces::visit_rows;

use crate::Result;
use crate::checks::check_row;
use crate::graph::DistributedGraph;
use crate::index_rows::{RowReport, index_rows, long_rows};
use crate::on_each_device::on_each_device;
use crate::part::{Part, PartWeights};
use crate::sort_rows::{LongRow, RowOrder, RowsToSort};

/// Numbers of a piece (16 MiB, the size of upload packets, so that their pinned memory is reused), and pieces
/// under way at once. Pinning more memory would take longer than copying everything.
const PIECE: usize = 1 << 21;
const PIECES: usize = 3;

/// The arcs that one device reverses: all arcs of `parts`, each with its first vertex, that enter `vertices`.
#[derive(Debug)]
pub struct ToReverse<'a> {
    /// At least one part. Either all have weights, of one type, or none has.
    pub parts: &'a [(u32, &'a Part)],
    /// The vertices that get rows.
    pub vertices: Range<u32>,
    /// The new ids of all vertices, on the device, if the rows are to be renumbered: `vertices` are new ids
    /// then, and the ids in `parts` are original ones.
    pub new_ids: Option<DeviceBuffer<u32>>,
    /// Who owns which vertices, on the device.
    pub owners: Arc<DeviceBuffer<u32>>,
}

/// Rows of the arcs that enter vertices, made from rows of the arcs that leave them: by each device for its
/// item of `all`. Rows are sorted by weight, then by the vertex that the arc leaves, or by that vertex,
/// then by weight.
///
/// # Errors
/// No memory; rows out of a device's reach; a failed device; on GPUs a vertex that too many arcs enter,
/// named by its new id.
///
/// # Cancel safety
/// Cancel safe: what was made is dropped.
///
/// # Device ordering
/// When it resolves, the rows are there for every stream of their device.
pub async fn reversed_rows(
    context: &Context,
    all: &[ToReverse<'_>],
    by_weight: bool,
) -> Result<Vec<Part>> {
    made(context, all, None, by_weight).await
}

/// As [`reversed_rows`], without weights, and with the arcs of the same vertices' rows in `own` added;
/// sorted. `new_ids` must be absent: the ids in `own` are used as they are.
///
/// # Errors
/// As [`reversed_rows`].
///
/// # Cancel safety
/// Cancel safe: what was made is dropped.
///
/// # Device ordering
/// When it resolves, the rows are there for every stream of their device.
pub async fn symmetrized_rows(
    context: &Context,
    own: &[Part],
    all: &[ToReverse<'_>],
) -> Result<Vec<Part>> {
    made(context, all, Some(own), false).await
}

/// How many arcs lead to each vertex.
///
/// # Errors
/// No memory; rows out of a device's reach; a failed device.
///
/// # Cancel safety
/// Cancel safe: it only reads.
pub(crate) async fn entering_degrees(graph: &DistributedGraph) -> Result<RowIndex> {
    let parts = graph.parts_from();
    let count = |_, stream: &Stream, own: Range<usize>| -> Result<SharedBuffer<u64>> {
        let none = stream.device().buffer(0)?;
        count_entering(stream, &parts, own.start as u32..own.end as u32, &none)
    };
    let counted = on_each_device(graph.context(), graph.owned(), count).await?;
    let mut lengths = Vec::with_capacity(graph.vertices() as usize + 1);
    for (device, counts) in graph.context().devices().iter().zip(counted) {
        let (stream, mut arriving) = (device.stream()?, VecDeque::new());
        let piece = |first| first..counts.len().min(first + PIECE);
        let firsts = (0..counts.len()).step_by(PIECE);
        let mut pieces = firsts.map(|first| stream.download_shared(&counts, piece(first)));
        loop {
            for piece in pieces.by_ref().take(PIECES - arriving.len()) {
                arriving.push_back(piece?);
            }
            let Some(its) = arriving.pop_front() else { break };
            its.append_to(&mut lengths, |length| length).await?;
        }
    }
    Ok(RowIndex::new(lengths))
}

/// How many of the arcs in `parts` enter each of `vertices`. If there are new ids, `vertices` are new ids,
/// and targets in `parts` have original ids.
fn count_entering(
    stream: &Stream,
    parts: &[(u32, &Part)],
    vertices: Range<u32>,
    new_ids: &DeviceBuffer<u32>,
) -> Result<SharedBuffer<u64>> {
    let counts = stream.device().shared(vertices.len())?;
    for (_, part) in parts {
        let arguments = (&*part.targets, new_ids, vertices.start, &counts);
        COUNT.launch(stream, part.targets.len(), arguments)?;
    }
    Ok(counts)
}

async fn made(
    context: &Context,
    all: &[ToReverse<'_>],
    own: Option<&[Part]>,
    by_weight: bool,
) -> Result<Vec<Part>> {
    let indexes = indexed(context, all, own).await?;
    let reversals = all.iter().zip(indexes).enumerate().map(|(place, (its, index))| {
        let own = own.map(|own| &own[place]);
        Reversal { its, index, by_weight, own }
    });
    let reverse = |_, stream: &Stream, reversal: Reversal<'_>| reversal.rows(stream);
    on_each_device(context, reversals, reverse).await
}

/// What a device knows about the rows that it makes.
struct Index {
    /// How many arcs of each row are not yet in place.
    counts: SharedBuffer<u64>,
    offsets: DeviceBuffer<u64>,
    arcs: usize,
    long: Vec<LongRow>,
}

/// Indexes each device's rows by the number of arcs that enter each vertex, plus those in its row in `own`.
async fn indexed(
    context: &Context,
    all: &[ToReverse<'_>],
    own: Option<&[Part]>,
) -> Result<Vec<Index>> {
    let count = |place: usize, stream: &Stream, its: &ToReverse<'_>| -> Result<_> {
        let none = stream.device().buffer(0)?;
        let new_ids = its.new_ids.as_ref().unwrap_or(&none);
        let counts = count_entering(stream, its.parts, its.vertices.clone(), new_ids)?;
        let others = own.map(|own| &*own[place].offsets);
        let (offsets, report) = index_rows(stream, &counts, others)?;
        Ok((counts, offsets, report))
    };
    let mut counted = Vec::new();
    let made = on_each_device(context, all, count).await?;
    for ((device, its), (counts, offsets, report)) in context.devices().iter().zip(all).zip(made) {
        let report = report.await?[0];
        check_row(device, its.vertices.start + report.longest_row as u32, report.longest)?;
        counted.push((counts, offsets, report));
    }
    type Counted = (SharedBuffer<u64>, DeviceBuffer<u64>, RowReport);
    let list = |_, stream: &Stream, (_, offsets, report): &Counted| {
        long_rows(stream, offsets, report.long_rows)
    };
    let listed = on_each_device(context, &counted, list).await?;
    let mut indexes = Vec::new();
    for ((counts, offsets, report), long) in counted.into_iter().zip(listed) {
        let (arcs, long) = (report.arcs as usize, long.await?);
        indexes.push(Index { counts, offsets, arcs, long });
    }
    Ok(indexes)
}

/// What a device makes its rows from.
struct Reversal<'a> {
    its: &'a ToReverse<'a>,
    /// The index of the rows to be made.
    index: Index,
    by_weight: bool,
    /// The device's own rows, if they are added.
    own: Option<&'a Part>,
}

impl Reversal<'_> {
    fn rows(self, stream: &Stream) -> Result<Part> {
        let has = |weights: fn(&PartWeights) -> bool| {
            self.own.is_none() && self.its.parts.iter().any(|(_, part)| weights(&part.weights))
        };
        let are_real = has(|weights| weights.reals().is_some());
        let (targets, weights) = if are_real {
            let order = RowOrder::new(self.by_weight, true);
            let (targets, weights) = self.arcs(stream, (PartWeights::reals, &REALS, order))?;
            (targets, PartWeights::Real(weights))
        } else {
            let order = RowOrder::new(self.by_weight, false);
            let has_some = has(|weights| weights.integers().is_some());
            let integers: WeightsOf<u32> = if has_some { PartWeights::integers } else { |_| None };
            let (targets, weights) = self.arcs(stream, (integers, &INTEGERS, order))?;
            (targets, if has_some { PartWeights::Integer(weights) } else { PartWeights::None })
        };
        let (offsets, targets) = (Arc::new(self.index.offsets), Arc::new(targets));
        Ok(Part { offsets, targets, weights, owners: Arc::clone(&self.its.owners) })
    }

    fn arcs<W: Pod + Send + Sync>(
        &self,
        stream: &Stream,
        (weights_of, kernel, order): (WeightsOf<W>, &Kernel<Signature<W>>, RowOrder),
    ) -> Result<(DeviceBuffer<u32>, Arc<DeviceBuffer<W>>)> {
        let (device, arcs) = (stream.device(), self.index.arcs);
        let parts = self.its.parts;
        let has_weights = parts.iter().any(|(_, part)| weights_of(&part.weights).is_some());
        let mut targets = device.buffer_to_overwrite(arcs)?;
        let mut weights = device.buffer_to_overwrite::<W>(if has_weights { arcs } else { 0 })?;
        let (none, no_ids) = (device.buffer(0)?, device.buffer(0)?);
        let new_ids = self.its.new_ids.as_ref().unwrap_or(&no_ids);
        for &(its_first, part) in parts {
            let their_weights = weights_of(&part.weights).map_or(&none, Arc::as_ref);
            let from = (&*part.offsets, &*part.targets, their_weights, its_first);
            let (counts, offsets) = (&self.index.counts, &self.index.offsets);
            let first = self.its.vertices.start;
            let to = (counts, offsets, new_ids, &mut targets, &mut weights, first);
            kernel.launch(stream, part.targets.len(), (from, to))?;
        }
        if let Some(own) = self.own {
            let arguments = (&*own.offsets, &*own.targets, &self.index.offsets, &mut targets);
            KEEP.launch(stream, own.targets.len(), arguments)?;
        }
        let mut bits = weights.cast();
        let rows = RowsToSort {
            offsets: &self.index.offsets,
            long: self.index.long.clone(),
            new_ids,
            targets: &mut targets,
            weights: &mut bits,
            order,
        };
        rows.sort(stream)?;
        Ok((targets, Arc::new(bits.cast())))
    }
}

/// Weights of this type, if there are any.
type WeightsOf<W> = fn(&PartWeights) -> Option<&Arc<DeviceBuffer<W>>>;

/// Targets, the new ids of all vertices, the first new id that has a count, and the counts.
static COUNT: Kernel<(Read<u32>, Read<u32>, Value<u32>, Shared<u64>)> = Kernel::with_source(
    "count_reversed",
    trusted("count_reversed"),
    |_, (targets, new_ids, first, counts)| {
        for &target in targets {
            if let Some(count) = counts.get(row_of_vertex(target, new_ids, first)) {
                // The kernel's end publishes it.
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    },
);

/// Offsets and targets of rows, and offsets and targets of the same vertices' longer rows.
static KEEP: Kernel<(Read<u64>, Read<u32>, Read<u64>, Write<u32>)> = Kernel::with_source(
    "keep_rows",
    trusted("keep_rows"),
    |_, (offsets, targets, their_offsets, their_targets)| {
        for (row, their_row) in offsets.windows(2).zip(their_offsets.windows(2)) {
            let targets = &targets[row[0] as usize..row[1] as usize];
            let end = their_row[1] as usize;
            their_targets[end - targets.len()..end].copy_from_slice(targets);
        }
        Ok(())
    },
);

/// The row of a vertex; row 0 is that of the vertex with new id `first`.
fn row_of_vertex(vertex: u32, new_ids: &[u32], first: u32) -> usize {
    let new = new_ids.get(vertex as usize).copied().unwrap_or(vertex);
    new.wrapping_sub(first) as usize
}

/// From: offsets, targets and weights of rows, and their first vertex. To: for each row made, how many arcs
/// it still gets (all 0 in the end); the offsets of these rows, the new ids of all vertices, the rows'
/// targets and weights, and their first vertex.
type Signature<W> = (
    (Read<u64>, Read<u32>, Read<W>, Value<u32>),
    (Shared<u64>, Read<u64>, Read<u32>, Write<u32>, Write<W>, Value<u32>),
);

static INTEGERS: Kernel<Signature<u32>> = kernel();
static REALS: Kernel<Signature<f32>> = kernel();

const fn kernel<W: Pod + Send + Sync>() -> Kernel<Signature<W>> {
    Kernel::with_source("reverse_rows", trusted("reverse_rows"), |_, (from, to)| {
        let (offsets, targets, weights, its_first) = from;
        let (counts, their_offsets, new_ids, their_targets, their_weights, first) = to;
        visit_rows(offsets, 0..targets.len(), |row, arcs| {
            for arc in arcs {
                let reversed = row_of_vertex(targets[arc], new_ids, first);
                let Some(count) = counts.get(reversed) else { continue };
                // Relaxed: no one else counts here, and the kernel's end publishes it.
                let last = count.fetch_sub(1, Ordering::Relaxed) - 1;
                let place = their_offsets[reversed] as usize + last as usize;
                their_targets[place] = its_first + row as u32;
                if let Some(&weight) = weights.get(arc) {
                    their_weights[place] = weight;
                }
            }
        });
        Ok(())
    })
}

const fn trusted(entry: &'static str) -> Trusted<CudaSource> {
    // SAFETY: the kernels keep to their arguments as the signatures say, as their twins do.
    unsafe { Trusted::new(cuda_source(entry)) }
}

/// One of the kernels.
const fn cuda_source(entry: &'static str) -> CudaSource {
    CudaSource::new("reversed_rows.cuh", entry, include_str!("reversed_rows.cuh"))
}

pub(crate) fn cuda_sources() -> [CudaSource; 3] {
    ["count_reversed", "reverse_rows", "keep_rows"].map(cuda_source)
}
