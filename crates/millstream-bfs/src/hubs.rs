//! What a search on GPUs reads beside the rows of a graph with hubs (`LEVELS.md`): the hub of each
//! vertex, and the longest rows divided among the owners of their targets.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytemuck::{Pod, Zeroable};
use futures_util::future::try_join_all;
use millstream_device::{Device, DeviceBuffer, SharedBuffer};
use millstream_graph::pieces::InPieces;
use millstream_graph::sort::sort;
use millstream_graph::{CsrGraph, Partition};
use millstream_traversal::internals::find_hubs;
use millstream_traversal::{DistributedGraph, Layout, LayoutKind, UNREACHED};
use rayon::prelude::*;

use crate::Result;

/// A bottom-up level is expected after a frontier whose arcs, times this and alpha, outnumber the
/// vertices that have arcs: `eagerness` in `levels.cuh`.
const EAGERNESS: u64 = 4;
/// The default alpha, with which rows long enough for that are split.
const USUAL_ALPHA: u64 = 14;
/// Only the longest of them are split, so that at most one arc in this many is stored twice.
const ARCS_FOR_SPLIT: u64 = 2;

/// The hubs of all devices.
#[derive(Debug)]
pub(crate) struct Hubs {
    devices: Vec<DeviceHubs>,
    /// For each vertex whose row is split, by new id: where each device's part lies in its `targets`.
    rows: BTreeMap<u32, Vec<Range<u64>>>,
    /// How long finding them has taken.
    time: Duration,
}

/// The hubs of one device.
#[derive(Clone, Debug)]
pub(crate) struct DeviceHubs {
    /// The hub of each owned vertex; the vertex itself if it has none.
    pub(crate) of: SharedBuffer<u32>,
    /// Owned targets of the rows that are split.
    pub(crate) targets: Arc<DeviceBuffer<u32>>,
}

millstream_device::cuda_struct! {
    /// A device's part of the row that a search begins with: `SplitRow` of
    /// `level_device.cuh`.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub(crate) struct SplitRow as "millstream::SplitRow" {
        begin: u64,
        arcs: u32,
        /// The source; `UNREACHED` if the search begins otherwise.
        vertex: u32,
    }
}

impl DeviceHubs {
    /// For a device that uses no hubs.
    pub(crate) fn none(device: &Device) -> Result<DeviceHubs> {
        Ok(DeviceHubs { of: device.shared(0)?, targets: Arc::new(device.buffer(0)?) })
    }
}

impl SplitRow {
    pub(crate) const NONE: SplitRow = SplitRow { begin: 0, arcs: 0, vertex: UNREACHED };
}

impl Hubs {
    /// Finds the hubs of a graph that the devices have as `distributed`, with the arcs that enter
    /// vertices in `incoming`; `connected` vertices have arcs.
    pub(crate) async fn new(
        graph: &CsrGraph,
        distributed: &DistributedGraph,
        incoming: &DistributedGraph,
        connected: u32,
    ) -> Result<Hubs> {
        let start = Instant::now();
        let partition = distributed.partition();
        let split = split_rows(graph, partition, connected);
        let mut hubs = Hubs { devices: Vec::new(), rows: BTreeMap::new(), time: Duration::ZERO };
        let mut completions = Vec::new();
        let devices = distributed.context().devices().iter();
        for (place, (device, of)) in devices.zip(find_hubs(graph, incoming).await?).enumerate() {
            let stream = device.stream()?;
            let rows = split.par_iter().map(|&vertex| own_part(graph, partition, vertex, place));
            let rows: Vec<Vec<u32>> = rows.collect();
            let mut begins = vec![0];
            for (&vertex, row) in split.iter().zip(&rows) {
                let begin = begins[begins.len() - 1];
                begins.push(begin + row.len());
                let part = begin as u64..(begin + row.len()) as u64;
                hubs.rows.entry(vertex).or_default().push(part);
            }
            let mut targets = device.buffer_to_overwrite(begins[rows.len()])?;
            stream.upload_made(&mut targets, |first, to| copy_rows(&rows, &begins, first, to))?;
            completions.push(stream.completed()?);
            hubs.devices.push(DeviceHubs { of, targets: Arc::new(targets) });
        }
        try_join_all(completions).await?;
        hubs.time = start.elapsed();
        Ok(hubs)
    }

    /// Those of the device at `place`.
    pub(crate) fn of(&self, place: usize) -> &DeviceHubs {
        &self.devices[place]
    }

    /// Each device's part of the row that a search from `sources` begins with, if that is a single vertex
    /// with a split row long enough for the next level to go bottom-up. `connected` vertices have arcs.
    pub(crate) fn begins_with(
        &self,
        sources: &[u32],
        alpha: u32,
        connected: u32,
    ) -> Option<Vec<SplitRow>> {
        let &[vertex] = sources else { return None };
        let parts = self.rows.get(&vertex)?;
        let arcs = parts.iter().map(|part| part.end - part.start).sum();
        let row = |part: &Range<u64>| SplitRow {
            begin: part.start,
            arcs: (part.end - part.start) as u32,
            vertex,
        };
        is_rich(arcs, u64::from(alpha), connected).then(|| parts.iter().map(row).collect())
    }

    /// What hubs and split rows have cost.
    pub(crate) fn layout(&self) -> Layout {
        let words = self.devices.iter().map(|its| its.of.len() + its.targets.len());
        let bytes = (words.sum::<usize>() * size_of::<u32>()) as u64;
        Layout { kind: LayoutKind::Hubs, bytes, time: self.time }
    }
}

/// The vertices whose rows are split, by new id, the longest row first.
fn split_rows(graph: &CsrGraph, partition: &Partition, connected: u32) -> Vec<u32> {
    let degree = |new| graph.degree(partition.to_original(new));
    let originals = (0..graph.vertices()).into_par_iter().in_pieces();
    let rich = originals.filter(|&it| is_rich(graph.degree(it), USUAL_ALPHA, connected));
    let mut split: Vec<u32> = rich.map(|original| partition.to_new(original)).collect();
    split.sort_unstable_by_key(|&new| (Reverse(degree(new)), new));
    let mut left = graph.arcs() / ARCS_FOR_SPLIT;
    split.retain(|&new| {
        let rest = left.checked_sub(degree(new));
        left = rest.unwrap_or(0);
        rest.is_some()
    });
    split
}

/// The targets in a vertex's row that a device owns, in ascending order of their new ids.
fn own_part(graph: &CsrGraph, partition: &Partition, vertex: u32, place: usize) -> Vec<u32> {
    let (row, own) = (graph.neighbors(partition.to_original(vertex)), partition.range(place));
    let targets = row.iter().map(|&target| partition.to_new(target));
    let mut targets: Vec<u32> = targets.filter(|target| own.contains(target)).collect();
    sort(&mut targets);
    targets
}

/// Fills `to` from place `first` of the concatenated `rows`, in which each begins at its `begins`.
fn copy_rows(rows: &[Vec<u32>], begins: &[usize], mut first: usize, mut to: &mut [u32]) {
    let mut row = begins.partition_point(|&begin| begin <= first) - 1;
    while !to.is_empty() {
        let its = &rows[row][first - begins[row]..];
        let (now, later) = to.split_at_mut(its.len().min(to.len()));
        now.copy_from_slice(&its[..now.len()]);
        (first, to, row) = (first + now.len(), later, row + 1);
    }
}

fn is_rich(arcs: u64, alpha: u64, connected: u32) -> bool {
    arcs.saturating_mul(alpha).saturating_mul(EAGERNESS) > u64::from(connected)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use millstream_flow::{Context, Devices};
    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::{partition, source};
    use millstream_traversal::Columns;

    use super::*;

    /// Checks that devices find the hubs of `graph`, whose transpose is `reversed`, and split the row of
    /// its busiest vertex.
    fn check(graph: &CsrGraph, reversed: &CsrGraph, devices: usize) {
        let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
        let partition = partition::random(graph, devices, 1);
        let connected = graph.vertices();
        let busiest = partition.to_new(source::max_degree(graph).unwrap());
        let checks = async {
            let upload = |graph| {
                DistributedGraph::new(&context, graph, partition.clone(), Columns::Structure)
            };
            let out = upload(graph).await.unwrap();
            let incoming = upload(reversed).await.unwrap();
            let hubs = Hubs::new(graph, &out, &incoming, connected).await.unwrap();
            let rows = hubs.begins_with(&[busiest], 14, connected).unwrap();
            for (place, device) in context.devices().iter().enumerate() {
                let (its, range) = (hubs.of(place), partition.range(place));
                let stream = device.stream().unwrap();
                let of = stream.download_shared(&its.of, 0..range.len()).unwrap().await.unwrap();
                for (vertex, hub) in range.clone().zip(of) {
                    let sources = reversed.neighbors(partition.to_original(vertex)).iter();
                    let best = sources.max_by_key(|&&source| {
                        (graph.degree(source), Reverse(partition.to_new(source)))
                    });
                    let expected = best.map_or(vertex, |&source| partition.to_new(source));
                    assert_eq!(hub, expected, "vertex {vertex} on {place} of {devices}");
                }
                let targets = stream.download(&*its.targets).unwrap().await.unwrap();
                let SplitRow { begin, arcs, vertex } = rows[place];
                assert_eq!(vertex, busiest);
                let all = graph.neighbors(partition.to_original(busiest)).iter();
                let all = all.map(|&target| partition.to_new(target));
                let mut expected: Vec<_> = all.filter(|its| range.contains(its)).collect();
                expected.sort_unstable();
                assert_eq!(targets[begin as usize..][..arcs as usize], expected);
            }
            assert!(hubs.begins_with(&[busiest, busiest], 14, connected).is_none());
            assert!(hubs.begins_with(&[busiest], 0, connected).is_none());
        };
        context.block_on(checks).unwrap();
    }

    #[test]
    fn hubs_have_the_most_arcs_and_rows_are_with_their_targets() {
        let symmetric = generate::kron(9, 8, &GenerateOptions::default()).unwrap();
        let arcs = (0..symmetric.vertices()).flat_map(|from| {
            let row = symmetric.neighbors(from).iter();
            row.filter(move |&&to| (from ^ to) % 3 != from % 3).map(move |&to| (from, to))
        });
        let directed = CsrGraph::from_edges(symmetric.vertices(), &arcs.collect::<Vec<_>>());
        let directed = directed.unwrap();
        let reversed = directed.transposed_structure().unwrap();
        for devices in [1, 2, 3] {
            check(&symmetric, &symmetric, devices);
            check(&directed, &reversed, devices);
        }
    }
}
