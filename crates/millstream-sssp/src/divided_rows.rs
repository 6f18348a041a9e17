//! Rows divided among devices by who owns the arcs' targets: each device makes them of the arcs that
//! enter its vertices.

use std::iter::once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use bytemuck::Pod;
use millstream_device::{
    CudaSource, DeviceBuffer, Kernel, KernelResult, Parameter, Read, Shared, SharedBuffer, Stream,
    Trusted, Value, Write,
};
use millstream_traversal::internals::{RowOrder, sort_rows, upload_to_all};
use millstream_traversal::{DistributedGraph, Part, PartWeights};

use crate::Result;

/// Of each device the arcs that enter its vertices, which `incoming` has in rows of these, in rows of all
/// the vertices that they leave, in ascending order of weight, then of target.
pub(crate) async fn divided(incoming: &DistributedGraph) -> Result<Vec<Part>> {
    let vertices = incoming.vertices() as usize;
    let divide = |place, stream: &Stream, part: &Part| {
        let first_vertex = incoming.partition().range(place).start;
        let counts = stream.device().shared(vertices)?;
        COUNT_LEAVING.launch(stream, part.targets.len(), (&*part.targets, &counts))?;
        let lengths = stream.download_shared(&counts, 0..vertices)?.wait()?;
        Division { part, first_vertex, counts, offsets: offsets(&lengths) }.rows(stream)
    };
    upload_to_all(incoming.context(), incoming.parts(), divide).await
}

/// Row index from the lengths of rows.
fn offsets(lengths: &[u32]) -> Arc<[u64]> {
    let mut end = 0;
    let ends = lengths.iter().map(|&length| {
        end += u64::from(length);
        end
    });
    once(0).chain(ends).collect()
}

/// What one device makes its rows of.
struct Division<'a> {
    part: &'a Part,
    first_vertex: u32,
    counts: SharedBuffer<u32>,
    /// Of the rows to be made.
    offsets: Arc<[u64]>,
}

impl Division<'_> {
    fn rows(&self, stream: &Stream) -> Result<Part> {
        let offsets = stream.lent(Arc::clone(&self.offsets))?;
        let (targets, weights) = match &self.part.weights {
            // There are no arcs.
            PartWeights::None => (stream.device().buffer(0)?, PartWeights::None),
            PartWeights::Integer(weights) => {
                let order = RowOrder::new(true, false);
                let (targets, weights) =
                    self.arcs(stream, &offsets, weights, &PLACE_INTEGERS, order)?;
                (targets, PartWeights::Integer(weights))
            }
            PartWeights::Real(weights) => {
                let order = RowOrder::new(true, true);
                let (targets, weights) =
                    self.arcs(stream, &offsets, weights, &PLACE_REALS, order)?;
                (targets, PartWeights::Real(weights))
            }
        };
        let owners = Arc::clone(&self.part.owners);
        Ok(Part { offsets: Arc::new(offsets), targets: Arc::new(targets), weights, owners })
    }

    fn arcs<W: Pod + Send + Sync>(
        &self,
        stream: &Stream,
        offsets: &DeviceBuffer<u64>,
        entering: &DeviceBuffer<W>,
        kernel: &Kernel<PlaceSignature<W>>,
        order: RowOrder,
    ) -> Result<(DeviceBuffer<u32>, Arc<DeviceBuffer<W>>)> {
        let (device, part, arcs) = (stream.device(), self.part, entering.len());
        let mut targets = device.buffer_to_overwrite(arcs)?;
        let mut weights = device.buffer_to_overwrite::<W>(arcs)?;
        let incoming = (&*part.offsets, &*part.targets, entering, self.first_vertex);
        let leaving = (&self.counts, offsets, &mut targets, &mut weights);
        kernel.launch(stream, arcs, (incoming, leaving))?;
        let (new_ids, mut bits) = (device.buffer(0)?, weights.cast());
        sort_rows(stream, (&self.offsets, offsets), &new_ids, (&mut targets, &mut bits), order)?;
        Ok((targets, Arc::new(bits.cast())))
    }
}

/// Sources of arcs, and how many leave each vertex, 0 before.
static COUNT_LEAVING: LazyLock<Kernel<(Read<u32>, Shared<u32>)>> = LazyLock::new(|| {
    let twin = Kernel::from_closure("count_leaving", |_, view: (&[u32], &[AtomicU32])| {
        let (sources, counts) = view;
        for &source in sources {
            // The kernel's end publishes it.
            counts[source as usize].fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    twin.with_cuda(trusted("count_leaving"))
});

/// Rows of arcs that enter vertices from some on: offsets, sources, weights and that vertex; how many leave
/// each, which ends as zeros, offsets of the rows of these, and their targets and weights.
type PlaceSignature<W> =
    ((Read<u64>, Read<u32>, Read<W>, Value<u32>), (Shared<u32>, Read<u64>, Write<u32>, Write<W>));

static PLACE_INTEGERS: LazyLock<Kernel<PlaceSignature<u32>>> = LazyLock::new(place_kernel);
static PLACE_REALS: LazyLock<Kernel<PlaceSignature<f32>>> = LazyLock::new(place_kernel);

fn place_kernel<W: Pod + Send + Sync>() -> Kernel<PlaceSignature<W>> {
    let twin = Kernel::from_closure("place_leaving", |_, view| place(view));
    twin.with_cuda(trusted("place_leaving"))
}

fn place<W: Pod + Send + Sync>(
    (incoming, leaving): <PlaceSignature<W> as Parameter>::View<'_>,
) -> KernelResult {
    let (offsets, sources, weights, first_vertex) = incoming;
    let (counts, their_offsets, targets, their_weights) = leaving;
    for (row, ends) in offsets.windows(2).enumerate() {
        for arc in ends[0] as usize..ends[1] as usize {
            let source = sources[arc] as usize;
            // Nobody else counts, and the kernel's end publishes it.
            let last = counts[source].fetch_sub(1, Ordering::Relaxed) - 1;
            let place = their_offsets[source] as usize + last as usize;
            targets[place] = first_vertex + row as u32;
            their_weights[place] = weights[arc];
        }
    }
    Ok(())
}

fn trusted(entry: &'static str) -> Trusted<CudaSource> {
    // SAFETY: the kernels keep to their arguments as the signatures say, as their twins do.
    unsafe { Trusted::new(cuda_source(entry)) }
}

/// One of both kernels.
fn cuda_source(entry: &'static str) -> CudaSource {
    CudaSource::new("divided_rows.cuh", entry, include_str!("divided_rows.cuh"))
}

pub(crate) fn cuda_sources() -> [CudaSource; 2] {
    ["count_leaving", "place_leaving"].map(cuda_source)
}

#[cfg(test)]
mod tests {
    use millstream_flow::{Context, Devices};
    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::{CsrGraph, Partition, Weights, partition};
    use millstream_traversal::Columns;

    use super::*;

    /// The rows of a device: offsets, targets and bits of weights.
    type Rows = (Vec<u64>, Vec<u32>, Vec<u32>);

    async fn rows_of(stream: &Stream, part: &Part) -> Rows {
        let offsets = stream.download(&*part.offsets).unwrap().await.unwrap();
        let targets = stream.download(&*part.targets).unwrap().await.unwrap();
        let weights = match &part.weights {
            PartWeights::None => Vec::new(),
            PartWeights::Integer(all) => stream.download(&**all).unwrap().await.unwrap(),
            PartWeights::Real(all) => {
                let all = stream.download(&**all).unwrap().await.unwrap();
                all.into_iter().map(f32::to_bits).collect()
            }
        };
        (offsets, targets, weights)
    }

    /// The arcs of `graph`, whose ids are new, that enter vertices of a part.
    fn expected(graph: &CsrGraph, partition: &Partition, part: usize) -> Rows {
        let (mut offsets, mut targets, mut weights) = (vec![0], Vec::new(), Vec::new());
        for vertex in 0..graph.vertices() {
            let enters = |arc: &usize| partition.range(part).contains(&graph.targets()[*arc]);
            for arc in graph.row(vertex).filter(enters) {
                targets.push(graph.targets()[arc]);
                match graph.weights().unwrap() {
                    Weights::Integer(all) => weights.push(all[arc]),
                    Weights::Real(all) => weights.push(all[arc].to_bits()),
                }
            }
            offsets.push(targets.len() as u64);
        }
        (offsets, targets, weights)
    }

    #[test]
    fn each_device_has_the_arcs_into_its_part() {
        let options = GenerateOptions { max_weight: Some(9), ..GenerateOptions::default() };
        let kron = generate::kron(11, 8, &options).unwrap();
        let reals: Vec<f32> =
            (0..kron.arcs()).map(|arc| (arc * 7919 % 1000) as f32 / 7.0).collect();
        let real = kron.structure().with_weights(Some(Weights::Real(reals))).unwrap();
        let arcs = [(0, 1, 5u32), (2, 1, 4), (2, 0, 4), (2, 2, 0)];
        let directed = CsrGraph::from_weighted_edges(4, &arcs).unwrap();
        let none = CsrGraph::from_weighted_edges(3, &[] as &[(u32, u32, u32)]).unwrap();
        for graph in [kron, real, directed, none] {
            for parts in [1, 2, 5] {
                let context = Context::builder().devices(Devices::host(parts)).build().unwrap();
                let partition = partition::random(&graph, parts, 3);
                let reversed = graph.transposed().unwrap();
                let (new, columns) = (partition.renumber_by_weight(&graph), Columns::ByWeight);
                let checks = async {
                    let incoming =
                        DistributedGraph::new(&context, &reversed, partition.clone(), columns);
                    let incoming = incoming.await.unwrap();
                    let divided = divided(&incoming).await.unwrap();
                    for (part, rows) in divided.iter().enumerate() {
                        let stream = context.devices()[part].stream().unwrap();
                        let its = rows_of(&stream, rows).await;
                        assert!(its == expected(&new, &partition, part), "{part} of {parts}");
                    }
                };
                context.block_on(checks).unwrap();
            }
        }
    }
}
