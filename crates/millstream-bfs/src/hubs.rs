//! What a search on GPUs reads of a graph with hubs, beside its rows (`LEVELS.md`): the hub
//! of each vertex, and the longest rows in parts, each with the owner of its targets.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytemuck::{Pod, Zeroable};
use futures_util::future::try_join_all;
use millstream_device::{Device, DeviceBuffer, SharedBuffer};
use millstream_graph::CsrGraph;
use millstream_graph::pieces::InPieces;
use millstream_traversal::internals::find_hubs;
use millstream_traversal::{DistributedGraph, Layout, LayoutKind, UNREACHED};
use rayon::prelude::*;

use crate::Result;

/// A frontier whose arcs, times this and alpha, are more than all vertices that have any is
/// expected to be followed by a level that goes bottom-up: `eagerness` in `levels.cuh`.
const EAGERNESS: u64 = 4;
/// Of a graph with hubs, rows are split that are so long by the usual alpha.
const USUAL_ALPHA: u64 = 14;
/// And the longest of them only, so that at most an arc in so many is there twice.
const ARCS_FOR_SPLIT: u64 = 2;

/// The hubs of all devices.
#[derive(Debug)]
pub(crate) struct Hubs {
    devices: Vec<DeviceHubs>,
    /// By the new id of a vertex whose row is split, where each device has its part.
    rows: BTreeMap<u32, Vec<Range<u64>>>,
    /// How long finding them has taken.
    time: Duration,
}

/// The hubs of one device.
#[derive(Clone, Debug)]
pub(crate) struct DeviceHubs {
    /// The hub of each owned vertex; itself if no arc leads to it.
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
    /// Of a device that looks for none.
    pub(crate) fn none(device: &Device) -> Result<DeviceHubs> {
        Ok(DeviceHubs { of: device.shared(0)?, targets: Arc::new(device.buffer(0)?) })
    }
}

impl SplitRow {
    pub(crate) const NONE: SplitRow = SplitRow { begin: 0, arcs: 0, vertex: UNREACHED };
}

impl Hubs {
    /// Finds the hubs of a graph, given with new ids, that the devices have as `distributed`, with
    /// the arcs that enter vertices in `incoming`; `connected` vertices have arcs.
    pub(crate) async fn new(
        graph: &CsrGraph,
        distributed: &DistributedGraph,
        incoming: &DistributedGraph,
        connected: u32,
    ) -> Result<Hubs> {
        let start = Instant::now();
        let partition = distributed.partition();
        let is_long = |&vertex: &u32| is_rich(graph.degree(vertex), USUAL_ALPHA, connected);
        let vertices = (0..graph.vertices()).into_par_iter().in_pieces();
        let mut split: Vec<u32> = vertices.filter(is_long).collect();
        split.sort_unstable_by_key(|&vertex| Reverse(graph.degree(vertex)));
        let mut left = graph.arcs() / ARCS_FOR_SPLIT;
        split.retain(|&vertex| {
            let rest = left.checked_sub(graph.degree(vertex));
            left = rest.unwrap_or(0);
            rest.is_some()
        });
        let mut hubs = Hubs { devices: Vec::new(), rows: BTreeMap::new(), time: Duration::ZERO };
        let mut completions = Vec::new();
        let devices = distributed.context().devices().iter();
        for (place, (device, of)) in devices.zip(find_hubs(graph, incoming).await?).enumerate() {
            let range = partition.range(place);
            let stream = device.stream()?;
            let own = |vertex| graph.neighbors(vertex).iter().filter(|its| range.contains(its));
            let lengths: Vec<_> = split.par_iter().map(|&vertex| own(vertex).count()).collect();
            let mut targets = vec![0; lengths.iter().sum()];
            let (mut places, mut rest, mut begin) = (Vec::new(), &mut targets[..], 0);
            for (&vertex, &length) in split.iter().zip(&lengths) {
                let end = begin + length as u64;
                hubs.rows.entry(vertex).or_default().push(begin..end);
                places.push((vertex, rest.split_off_mut(..length).unwrap_or_default()));
                begin = end;
            }
            places.into_par_iter().for_each(|(vertex, places)| {
                places.iter_mut().zip(own(vertex)).for_each(|(place, &target)| *place = target);
            });
            let targets = Arc::new(stream.lent(targets)?);
            completions.push(stream.completed()?);
            hubs.devices.push(DeviceHubs { of, targets });
        }
        try_join_all(completions).await?;
        hubs.time = start.elapsed();
        Ok(hubs)
    }

    /// Those of the device at `place`.
    pub(crate) fn of(&self, place: usize) -> &DeviceHubs {
        &self.devices[place]
    }

    /// Each device's part of the row that a search from `sources` begins with: of one vertex
    /// with so many arcs that the next level will go bottom-up. `connected` vertices have arcs.
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

    /// What it has cost.
    pub(crate) fn layout(&self) -> Layout {
        let words = self.devices.iter().map(|its| its.of.len() + its.targets.len());
        let bytes = (words.sum::<usize>() * size_of::<u32>()) as u64;
        Layout { kind: LayoutKind::Hubs, bytes, time: self.time }
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

    use super::*;

    /// Whether devices have found the hubs of `graph`, whose arcs the other way round are
    /// `reversed`, and split the row of its busiest vertex.
    fn check(graph: &CsrGraph, reversed: &CsrGraph, devices: usize) {
        let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
        let partition = partition::random(graph, devices, 1);
        let connected = graph.vertices();
        let busiest = partition.to_new(source::max_degree(graph).unwrap());
        let checks = async {
            let upload =
                |graph| DistributedGraph::with_structure(&context, graph, partition.clone());
            let (out, new) = upload(graph).await.unwrap();
            let (incoming, _) = upload(reversed).await.unwrap();
            let hubs = Hubs::new(&new, &out, &incoming, connected).await.unwrap();
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
