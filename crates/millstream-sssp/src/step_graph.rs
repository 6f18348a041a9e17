//! The rows of a search in steps: arcs in ascending order of weight, on the device that
//! owns their target.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::lock::Mutex;
use millstream_flow::Context;
use millstream_graph::{CsrGraph, Partition, Weights, partition};
use millstream_traversal::internals::check_partition;
use millstream_traversal::{
    DegreeOrder, DepthProbe, DistributedGraph, Layout, LayoutKind, Part, PartWeights,
};
use rayon::prelude::*;

use crate::Result;
use crate::step_lights::Lights;

/// A graph on the devices.
#[derive(Debug)]
pub(crate) struct StepGraph {
    /// The arcs that enter owned vertices, a row for each of these.
    pub(crate) incoming: DistributedGraph,
    /// The same arcs, a row for each vertex that they leave; `None` if the rows would be
    /// those of `incoming`.
    outgoing: Option<Vec<Part>>,
    pub(crate) arcs: u64,
    /// The bits of the smallest weight.
    pub(crate) lightest: u32,
    /// Of the last search.
    pub(crate) lights: Mutex<Option<Lights>>,
    /// How long making it took.
    time: Duration,
}

/// Rows that one thread goes through at a time.
const CHUNK: u32 = 1 << 12;

impl StepGraph {
    /// In the parts of `partition`, or in blocks that equally many arcs enter; on GPUs with the
    /// vertices of each in [degree order](DegreeOrder). The graph's `depth` may be known.
    pub(crate) async fn new(
        context: &Context,
        graph: &CsrGraph,
        partition: Option<Partition>,
        depth: Option<DepthProbe>,
    ) -> Result<StepGraph> {
        let start = Instant::now();
        let is_symmetric = graph.is_symmetric_with_weights();
        let reversed = match is_symmetric {
            true => Cow::Borrowed(graph),
            false => Cow::Owned(graph.transposed()?),
        };
        let balanced = || partition::edge_balanced_blocks(&reversed, context.devices().len());
        let partition = partition.unwrap_or_else(balanced);
        check_partition(context, &reversed, &partition)?;
        let window = DegreeOrder::SPREAD;
        let (partition, _) = DegreeOrder::of(context, &reversed, partition, window, depth);
        let entering = partition.renumber_by_weight(&reversed);
        drop(reversed);
        // One graph at a time is in the host's memory.
        let (incoming, outgoing) = match is_symmetric {
            true => {
                let outgoing = match context.devices().len() {
                    1 => None,
                    _ => Some(outgoing(context, &partition, &entering).await?),
                };
                (DistributedGraph::renumbered(context, entering, partition).await?, outgoing)
            }
            false => {
                let incoming = DistributedGraph::renumbered(context, entering, partition).await?;
                let leaving = incoming.partition().renumber_by_weight(graph);
                let outgoing = outgoing(context, incoming.partition(), &leaving).await?;
                (incoming, Some(outgoing))
            }
        };
        let (arcs, lightest, lights) = (graph.arcs(), lightest(graph), Mutex::new(None));
        Ok(StepGraph { incoming, outgoing, arcs, lightest, lights, time: start.elapsed() })
    }

    /// What all rows have cost.
    pub(crate) fn layout(&self) -> Layout {
        let outgoing: u64 = self.outgoing.iter().flatten().map(Part::bytes).sum();
        let bytes = self.incoming.bytes() + outgoing;
        Layout { kind: LayoutKind::SteppingRows, bytes, time: self.time }
    }

    /// The rows of vertices that a device's arcs leave: of all, or alone, of its own.
    pub(crate) fn outgoing(&self, place: usize) -> &Part {
        &self.outgoing.as_deref().unwrap_or(self.incoming.parts())[place]
    }
}

/// The bits of the smallest weight.
pub(crate) fn lightest(graph: &CsrGraph) -> u32 {
    let least = match graph.weights() {
        None => None,
        Some(Weights::Integer(weights)) => weights.par_iter().copied().min(),
        Some(Weights::Real(weights)) => {
            weights.par_iter().copied().reduce_with(f32::min).map(f32::to_bits)
        }
    };
    least.unwrap_or(0)
}

/// Of each device the arcs of a graph, with new ids, whose targets it owns, in rows of all vertices.
async fn outgoing(context: &Context, partition: &Partition, graph: &CsrGraph) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for (place, device) in context.devices().iter().enumerate() {
        let (range, stream) = (partition.range(place), device.stream()?);
        let (offsets, targets, weights) = match graph.weights() {
            None => (vec![0; graph.vertices() as usize + 1], Vec::new(), PartWeights::None),
            Some(Weights::Integer(weights)) => {
                let (offsets, targets, weights) = arcs_into(graph, weights, range);
                (offsets, targets, PartWeights::Integer(Arc::new(stream.uploaded(weights)?)))
            }
            Some(Weights::Real(weights)) => {
                let (offsets, targets, weights) = arcs_into(graph, weights, range);
                (offsets, targets, PartWeights::Real(Arc::new(stream.uploaded(weights)?)))
            }
        };
        parts.push(Part {
            offsets: Arc::new(stream.uploaded(offsets)?),
            targets: Arc::new(stream.uploaded(targets)?),
            weights,
            owners: Arc::new(stream.uploaded(partition.boundaries().to_vec())?),
        });
        stream.record()?.completed().await?;
    }
    Ok(parts)
}

/// Offsets, targets and weights of the arcs whose targets are in `range`, in the order of their rows.
fn arcs_into<W: Copy + Default + Send + Sync>(
    graph: &CsrGraph,
    weights: &[W],
    range: Range<u32>,
) -> (Vec<u64>, Vec<u32>, Vec<W>) {
    let vertices = graph.vertices();
    let chunk = |chunk: u32| {
        let first = chunk * CHUNK;
        let (mut degrees, mut arcs) = (Vec::new(), Vec::new());
        for vertex in first..vertices.min(first.saturating_add(CHUNK)) {
            let before = arcs.len();
            let row = graph.row(vertex).map(|arc| (graph.targets()[arc], weights[arc]));
            arcs.extend(row.filter(|(target, _)| range.contains(target)));
            degrees.push((arcs.len() - before) as u64);
        }
        (degrees, arcs)
    };
    let chunks: Vec<(Vec<u64>, Vec<(u32, W)>)> =
        (0..vertices.div_ceil(CHUNK)).into_par_iter().map(chunk).collect();
    let mut offsets = vec![0];
    offsets.extend(chunks.iter().flat_map(|(degrees, _)| degrees).scan(0, |end, degree| {
        *end += degree;
        Some(*end)
    }));
    let arcs = chunks.iter().map(|(_, arcs)| arcs.len()).sum();
    let (mut targets, mut kept) = (vec![0; arcs], vec![W::default(); arcs]);
    let (mut targets_left, mut kept_left) = (&mut targets[..], &mut kept[..]);
    let places = chunks.iter().map(|(_, arcs)| {
        let targets = targets_left.split_off_mut(..arcs.len()).unwrap_or_default();
        (targets, kept_left.split_off_mut(..arcs.len()).unwrap_or_default())
    });
    let places: Vec<_> = places.collect();
    chunks.par_iter().zip(places).for_each(|((_, arcs), (targets, kept))| {
        for ((&arc, target), weight) in arcs.iter().zip(targets).zip(kept) {
            (*target, *weight) = arc;
        }
    });
    (offsets, targets, kept)
}

/// Whether a search should go in steps, if the devices can.
pub(crate) fn is_worth_it(graph: &CsrGraph, depth: DepthProbe) -> bool {
    !depth.is_deep() && !partition::is_mesh_like(graph)
}

#[cfg(test)]
mod tests {
    use millstream_flow::Devices;
    use millstream_graph::generate::{self, GenerateOptions};

    use super::*;

    #[test]
    fn deep_graphs_do_not_go_in_steps() {
        let is_worth_it = |graph: &CsrGraph| is_worth_it(graph, DepthProbe::new(graph));
        let options = GenerateOptions::default();
        let road = generate::road(100, 100, generate::KEEP_PERMILLE, &options).unwrap();
        let arcs = |from| road.neighbors(from).iter().map(move |&to| (from, to));
        let edges = (0..road.vertices()).flat_map(arcs);
        let edges: Vec<_> = edges.chain((0..40).map(|to| (5000, 250 * to))).collect();
        let with_hub = CsrGraph::from_edges(road.vertices(), &edges).unwrap();
        assert!(!partition::is_mesh_like(&with_hub));
        assert!(!is_worth_it(&road) && !is_worth_it(&with_hub));
        let star: Vec<_> = (1..20_000).map(|leaf| (0, leaf)).collect();
        assert!(is_worth_it(&CsrGraph::from_edges(20_000, &star).unwrap()));
        for scale in [9, 12] {
            assert!(is_worth_it(&generate::kron(scale, 8, &options).unwrap()));
            assert!(is_worth_it(&generate::social(scale, 9, &options).unwrap()));
        }
    }

    #[test]
    fn arcs_into_a_range_stay_sorted_by_weight() {
        let edges = [(0, 1, 5u32), (0, 2, 1), (0, 3, 3), (2, 3, 9), (2, 0, 1), (3, 1, 0)];
        let graph = CsrGraph::from_weighted_edges(4, &edges).unwrap();
        let graph = partition::contiguous_blocks(&graph, 1).renumber_by_weight(&graph);
        let Some(Weights::Integer(weights)) = graph.weights() else { panic!("integers") };
        let (offsets, targets, weights) = arcs_into(&graph, weights, 1..4);
        assert_eq!(offsets, [0, 3, 3, 4, 5]);
        assert_eq!(targets, [2, 3, 1, 3, 1]);
        assert_eq!(weights, [1, 3, 5, 9, 0]);
    }

    /// Arcs that enter a few vertices: no device has more than its part of them.
    #[test]
    fn the_arcs_that_a_device_has_are_balanced() {
        let edges: Vec<_> = (0..4000).map(|from| (from, from % 40, 1u32)).collect();
        let graph = CsrGraph::from_weighted_edges(4000, &edges).unwrap();
        let context = Context::builder().devices(Devices::host(4)).build().unwrap();
        let steps =
            context.block_on(StepGraph::new(&context, &graph, None, None)).unwrap().unwrap();
        let arcs: Vec<_> = steps.incoming.parts().iter().map(|part| part.targets.len()).collect();
        // An arc and a vertex weigh alike: three parts have arcs to divide, the last vertices only.
        assert_eq!(arcs.iter().sum::<usize>(), 4000);
        assert!(arcs.iter().all(|&arcs| arcs <= 2000), "{arcs:?}");
    }
}
