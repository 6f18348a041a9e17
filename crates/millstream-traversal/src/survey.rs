//! Properties of a graph that the devices find out: `survey.cuh`, and its twin.

use std::ops::Range;
use std::sync::atomic::Ordering;

use bytemuck::Pod;
use millstream_device::{
    CudaSource, DeviceBuffer, Grid, Kernel, Read, Shared, SharedBuffer, Stream, Trusted, Value,
};
use millstream_graph::imbalance;
use millstream_graph::pieces::visit_rows;

use crate::Result;
use crate::graph::DistributedGraph;
use crate::part::{Part, PartWeights};

/// Arcs of a block.
const ARCS: usize = 1 << 14;

/// What decides how a graph is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Whether every arc has its reverse equally often, of the same weight if weights are on the devices.
    /// This compares fingerprints: an asymmetric graph passes with a probability of about 2^-64.
    pub is_symmetric: bool,
    /// For each device, a range with all vertices that it owns or that its rows name, widened to begin
    /// and end at multiples of 32, or at the last vertex.
    pub named: Vec<Range<u32>>,
}

impl Survey {
    /// Surveys the rows of all devices.
    ///
    /// # Errors
    /// No memory; a kernel that does not compile; a failed device.
    ///
    /// # Cancel safety
    /// Cancel safe: the graph is only read.
    pub async fn of(graph: &DistributedGraph) -> Result<Survey> {
        Survey::with_weights(graph, |part| &part.weights).await
    }

    /// The same, whatever the arcs weigh.
    ///
    /// # Errors
    /// As [`Survey::of`].
    ///
    /// # Cancel safety
    /// Cancel safe: the graph is only read.
    pub async fn of_structure(graph: &DistributedGraph) -> Result<Survey> {
        Survey::with_weights(graph, |_| &PartWeights::None).await
    }

    async fn with_weights(
        graph: &DistributedGraph,
        weights: impl Fn(&Part) -> &PartWeights,
    ) -> Result<Survey> {
        let (mut asymmetry, mut named, mut surveys) = (0u64, Vec::new(), Vec::new());
        let devices = graph.context().devices().iter();
        let ranges = graph.partition().boundaries().windows(2);
        let vertices = graph.vertices();
        for ((device, part), range) in devices.zip(graph.parts()).zip(ranges) {
            let (stream, words) = (device.stream()?, device.shared(WORDS)?);
            launch(&stream, part, weights(part), range[0], &words)?;
            surveys.push((stream.download_shared(&words, 0..WORDS)?, range));
        }
        for (words, range) in surveys {
            let words = words.await?;
            let &[sum, lowest, end] = &*words else { continue };
            asymmetry = asymmetry.wrapping_add(sum);
            let targets = u32::MAX - lowest as u32..end as u32;
            named.push(rounded(union(&(range[0]..range[1]), &targets), vertices));
        }
        Ok(Survey { is_symmetric: asymmetry == 0, named })
    }

    /// Makes every device's range all vertices.
    pub fn name_all(&mut self, vertices: u32) {
        self.named.fill(0..vertices);
    }
}

/// Words of a device's answer, 0 at first: the sum of all arcs' [`imbalance`], which over all devices is 0
/// if every arc has its reverse; the largest 32-bit number minus the lowest target; the highest target plus
/// 1. The last two stay 0 without arcs.
const WORDS: usize = 3;

/// Offsets, targets and weights of rows, their first vertex, and the answer.
type Signature<W> = (Read<u64>, Read<u32>, Read<W>, Value<u32>, Shared<u64>);

static SURVEY: Kernel<Signature<u32>> = kernel();
static SURVEY_REALS: Kernel<Signature<f32>> = kernel();

fn launch(
    stream: &Stream,
    part: &Part,
    weights: &PartWeights,
    first_vertex: u32,
    words: &SharedBuffer<u64>,
) -> millstream_device::Result<()> {
    let none: DeviceBuffer<u32>;
    let (size, offsets, targets) = (part.targets.len(), &*part.offsets, &*part.targets);
    let weights = match weights {
        PartWeights::None => {
            none = stream.device().buffer(0)?;
            &none
        }
        PartWeights::Integer(weights) => &**weights,
        PartWeights::Real(weights) => {
            let arguments = (offsets, targets, &**weights, first_vertex, words);
            return SURVEY_REALS.launch(stream, size, arguments);
        }
    };
    SURVEY.launch(stream, size, (offsets, targets, weights, first_vertex, words))
}

const fn kernel<W: Pod + Send + Sync>() -> Kernel<Signature<W>> {
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    let source = unsafe { Trusted::new(cuda_source()) };
    Kernel::with_source("survey", source, |_, (offsets, targets, weights, first, words)| {
        Grid::of_blocks(targets.len(), ARCS).for_each_block(|block| {
            let (mut sum, mut lowest, mut end) = (0u64, 0, 0);
            visit_rows(offsets, block.range, |row, arcs| {
                let from = first + row as u32;
                for arc in arcs {
                    let to = targets[arc];
                    let weight = weights.get(arc).map(|&weight| bytemuck::cast::<W, u32>(weight));
                    sum = sum.wrapping_add(imbalance(from, to, weight));
                    lowest = lowest.max(u32::MAX - to);
                    end = end.max(to + 1);
                }
            });
            words[0].fetch_add(sum, Ordering::Relaxed);
            words[1].fetch_max(lowest.into(), Ordering::Relaxed);
            words[2].fetch_max(end.into(), Ordering::Relaxed);
            Ok(())
        })
    })
}

pub(crate) const fn cuda_source() -> CudaSource {
    CudaSource::new("survey.cuh", "survey", include_str!("survey.cuh"))
}

fn rounded(range: Range<u32>, vertices: u32) -> Range<u32> {
    let end = range.end.checked_next_multiple_of(32).unwrap_or(u32::MAX);
    range.start / 32 * 32..end.min(vertices)
}

/// The vertices in two ranges, and those between.
fn union(one: &Range<u32>, other: &Range<u32>) -> Range<u32> {
    match (one.is_empty(), other.is_empty()) {
        (true, true) => 0..0,
        (true, false) => other.clone(),
        (false, true) => one.clone(),
        _ => one.start.min(other.start)..one.end.max(other.end),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use millstream_flow::{Context, Devices};
    use millstream_graph::{CsrGraph, partition};

    use super::*;
    use crate::{Columns, Error};

    #[test]
    #[allow(clippy::reversed_empty_ranges)]
    fn unions_of_nothing_are_empty() {
        assert_eq!([union(&(4..4), &(u32::MAX..0)), union(&(4..4), &(1..2))], [0..0, 1..2]);
        assert_eq!([union(&(1..2), &(9..3)), union(&(7..9), &(1..2))], [1..2, 1..9]);
    }

    /// An arc and its reverse of another weight, on two devices.
    #[test]
    fn the_structure_may_be_symmetric_where_weights_are_not() {
        let context = Context::builder().devices(Devices::host(2)).build().unwrap();
        let graph = CsrGraph::from_weighted_edges(2, &[(0, 1, 5u32), (1, 0, 6)]).unwrap();
        let parts = partition::contiguous_blocks(&graph, 2);
        let found = context.block_on(async {
            let rows = DistributedGraph::new(&context, &graph, parts, Columns::Weighted).await?;
            Ok::<_, Error>((Survey::of(&rows).await?, Survey::of_structure(&rows).await?))
        });
        let (whole, structure) = found.unwrap().unwrap();
        assert_eq!((whole.is_symmetric, structure.is_symmetric), (false, true));
    }
}
