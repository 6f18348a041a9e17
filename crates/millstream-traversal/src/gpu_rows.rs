//! Rows that GPUs renumber with the partition's ids and sort, each GPU those of its part: the host makes
//! no second graph.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_device::{DeviceBuffer, Stream};
use millstream_flow::Context;
use millstream_graph::{CsrGraph, Partition, Weights};

use crate::Result;
use crate::on_each_device::on_each_device;
use crate::part::{Part, PartWeights};
use crate::sort_rows::{LongRow, RowOrder, RowsToSort};

/// The rows of each part of `graph`, sorted by weight or by target, and how long this took once the rows
/// were on the GPUs.
pub(crate) async fn on_gpus(
    context: &Context,
    graph: &CsrGraph,
    weights: Option<&Weights>,
    partition: &Partition,
    by_weight: bool,
) -> Result<(Vec<Part>, Duration)> {
    let upload =
        |place, stream: &Stream, ()| UnsortedRows::new(stream, graph, weights, partition, place);
    let unsorted = on_each_device(context, vec![(); partition.parts()], upload).await?;
    let start = Instant::now();
    let sort = |_, stream: &Stream, rows: UnsortedRows| rows.sorted(stream, partition, by_weight);
    let parts = on_each_device(context, unsorted, sort).await?;
    Ok((parts, start.elapsed()))
}

/// Rows in the order of a part's vertices, on its GPU; targets still have their original ids.
struct UnsortedRows {
    offsets: Vec<u64>,
    targets: DeviceBuffer<u32>,
    /// The bits of the weights.
    weights: DeviceBuffer<u32>,
    /// Whether the weights are reals; `None` if there are none.
    are_real: Option<bool>,
}

impl UnsortedRows {
    fn new(
        stream: &Stream,
        graph: &CsrGraph,
        weights: Option<&Weights>,
        partition: &Partition,
        place: usize,
    ) -> Result<UnsortedRows> {
        let (device, rows) = (stream.device(), partition.rows(graph, place));
        let mut targets = device.buffer_to_overwrite(rows.arcs())?;
        stream.upload_made(&mut targets, |first, to| rows.copy(graph.targets(), first, to))?;
        let (bits, are_real): (&[u32], _) = match weights {
            None => (&[], None),
            Some(Weights::Integer(all)) => (all, Some(false)),
            Some(Weights::Real(all)) => (bytemuck::cast_slice(all), Some(true)),
        };
        let weighted = if are_real.is_some() { rows.arcs() } else { 0 };
        let mut weights = device.buffer_to_overwrite(weighted)?;
        stream.upload_made(&mut weights, |first, to| rows.copy(bits, first, to))?;
        Ok(UnsortedRows { offsets: rows.into_offsets(), targets, weights, are_real })
    }

    fn sorted(self, stream: &Stream, partition: &Partition, by_weight: bool) -> Result<Part> {
        let UnsortedRows { offsets, mut targets, mut weights, are_real } = self;
        let new_ids = new_ids(stream, partition)?;
        let long = LongRow::all(&offsets);
        let offsets = stream.lent(offsets)?;
        let order = RowOrder::new(by_weight, are_real == Some(true));
        let rows = RowsToSort {
            offsets: &offsets,
            long,
            new_ids: &new_ids,
            targets: &mut targets,
            weights: &mut weights,
            order,
        };
        rows.sort(stream)?;
        let weights = match are_real {
            None => PartWeights::None,
            Some(false) => PartWeights::Integer(Arc::new(weights)),
            Some(true) => PartWeights::Real(Arc::new(weights.cast())),
        };
        let owners = Arc::new(stream.lent(partition.boundaries().to_vec())?);
        Ok(Part { offsets: Arc::new(offsets), targets: Arc::new(targets), weights, owners })
    }
}

/// The new ids of all vertices; empty if no vertex is renumbered.
pub(crate) fn new_ids(stream: &Stream, partition: &Partition) -> Result<DeviceBuffer<u32>> {
    let renumbered = if partition.is_renumbered() { partition.vertices() } else { 0 };
    let mut new_ids = stream.device().buffer_to_overwrite(renumbered as usize)?;
    stream.upload_made(&mut new_ids, |first, to: &mut [u32]| {
        (first as u32..).zip(to).for_each(|(original, new)| *new = partition.to_new(original));
    })?;
    Ok(new_ids)
}
