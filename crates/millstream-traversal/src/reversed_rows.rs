//! Arcs the other way round: rows of the vertices that they lead to, made by the devices of rows of
//! those that they leave: `reversed_rows.cuh`, and its twins.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use bytemuck::Pod;
use millstream_device::{
    CudaSource, DeviceBuffer, Kernel, KernelResult, Parameter, Read, Shared, SharedBuffer, Stream,
    Trusted, Value, Write,
};
use millstream_flow::Context;
use millstream_graph::pieces::visit_rows;

use crate::Result;
use crate::checks::check_row;
use crate::index_rows::{RowReport, index_rows, long_rows};
use crate::part::{Part, PartWeights};
use crate::sort_rows::{LongRow, RowOrder, RowsToSort};
use crate::upload_to_all::upload_to_all;

/// What one device turns round: all arcs of `parts`, each with its first vertex, that lead to `vertices`.
#[derive(Debug)]
pub struct ToReverse<'a> {
    /// One at least; all have weights, of one type, or none.
    pub parts: &'a [(u32, &'a Part)],
    /// Those that get rows.
    pub vertices: Range<u32>,
}

/// Rows of the vertices that arcs lead to, made by each device of rows of the vertices that they leave, for each
/// item of `all`. Rows are sorted by weight, then by the vertices that arcs leave, or by these first. Who owns
/// which vertices is as each device has it already, beside its rows in `own`.
///
/// # Errors
/// No memory; rows out of a device's reach; a failed device; on GPUs a vertex that too many arcs lead to,
/// which is named by its new id.
///
/// # Cancel safety
/// Cancel safe: what was made is dropped.
///
/// # Device ordering
/// When it resolves, the rows are there for every stream of their device.
pub async fn reversed_rows(
    context: &Context,
    own: &[Part],
    all: &[ToReverse<'_>],
    by_weight: bool,
) -> Result<Vec<Part>> {
    made(context, own, all, (by_weight, false)).await
}

/// The same without weights and together with the rows in `own`: those of the same vertices, sorted.
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
    made(context, own, all, (false, true)).await
}

async fn made(
    context: &Context,
    own: &[Part],
    all: &[ToReverse<'_>],
    (by_weight, keeps_own): (bool, bool),
) -> Result<Vec<Part>> {
    let indexes = indexed(context, own, all, keeps_own).await?;
    let reversals = all.iter().zip(indexes).map(|(its, index)| {
        let (parts, first_vertex) = (its.parts, its.vertices.start);
        Reversal { parts, first_vertex, index, by_weight, keeps_own }
    });
    let reverse =
        |place: usize, stream: &Stream, reversal: Reversal<'_>| reversal.rows(stream, &own[place]);
    upload_to_all(context, reversals, reverse).await
}

/// What a device knows of the rows that it makes.
struct Index {
    /// How many arcs of each are not in their place.
    counts: SharedBuffer<u64>,
    offsets: DeviceBuffer<u64>,
    arcs: usize,
    long: Vec<LongRow>,
}

/// Counts what leads to each device's vertices, and what they have already if that is kept.
async fn indexed(
    context: &Context,
    own: &[Part],
    all: &[ToReverse<'_>],
    keeps_own: bool,
) -> Result<Vec<Index>> {
    let count = |place: usize, stream: &Stream, its: &ToReverse<'_>| -> Result<_> {
        let counts = stream.device().shared(its.vertices.len())?;
        for (_, part) in its.parts {
            let arguments = (&*part.targets, its.vertices.start, &counts);
            COUNT.launch(stream, part.targets.len(), arguments)?;
        }
        let others = keeps_own.then(|| &*own[place].offsets);
        let (offsets, report) = index_rows(stream, &counts, others)?;
        Ok((counts, offsets, report))
    };
    let mut counted = Vec::new();
    let made = upload_to_all(context, all, count).await?;
    for ((device, its), (counts, offsets, report)) in context.devices().iter().zip(all).zip(made) {
        let report = report.await?[0];
        check_row(device, its.vertices.start + report.longest_row as u32, report.longest)?;
        counted.push((counts, offsets, report));
    }
    type Counted = (SharedBuffer<u64>, DeviceBuffer<u64>, RowReport);
    let list = |_, stream: &Stream, (_, offsets, report): &Counted| {
        long_rows(stream, offsets, report.long_rows)
    };
    let listed = upload_to_all(context, &counted, list).await?;
    let mut indexes = Vec::new();
    for ((counts, offsets, report), long) in counted.into_iter().zip(listed) {
        let (arcs, long) = (report.arcs as usize, long.await?);
        indexes.push(Index { counts, offsets, arcs, long });
    }
    Ok(indexes)
}

/// What a device makes its rows of.
struct Reversal<'a> {
    parts: &'a [(u32, &'a Part)],
    first_vertex: u32,
    /// Of the rows to be made.
    index: Index,
    by_weight: bool,
    /// Whether the device's own rows come along.
    keeps_own: bool,
}

impl Reversal<'_> {
    fn rows(self, stream: &Stream, own: &Part) -> Result<Part> {
        let has = |weights: fn(&PartWeights) -> bool| {
            !self.keeps_own && self.parts.iter().any(|(_, part)| weights(&part.weights))
        };
        let are_real = has(|weights| weights.reals().is_some());
        let (targets, weights) = if are_real {
            let order = RowOrder::new(self.by_weight, true);
            let (targets, weights) = self.arcs(stream, own, (PartWeights::reals, &REALS, order))?;
            (targets, PartWeights::Real(weights))
        } else {
            let order = RowOrder::new(self.by_weight, false);
            let has_some = has(|weights| weights.integers().is_some());
            let integers: WeightsOf<u32> = if has_some { PartWeights::integers } else { |_| None };
            let (targets, weights) = self.arcs(stream, own, (integers, &INTEGERS, order))?;
            (targets, if has_some { PartWeights::Integer(weights) } else { PartWeights::None })
        };
        let (offsets, targets) = (Arc::new(self.index.offsets), Arc::new(targets));
        Ok(Part { offsets, targets, weights, owners: Arc::clone(&own.owners) })
    }

    fn arcs<W: Pod + Send + Sync>(
        &self,
        stream: &Stream,
        own: &Part,
        (weights_of, kernel, order): (WeightsOf<W>, &Kernel<Signature<W>>, RowOrder),
    ) -> Result<(DeviceBuffer<u32>, Arc<DeviceBuffer<W>>)> {
        let (device, arcs) = (stream.device(), self.index.arcs);
        let has_weights = self.parts.iter().any(|(_, part)| weights_of(&part.weights).is_some());
        let mut targets = device.buffer_to_overwrite(arcs)?;
        let mut weights = device.buffer_to_overwrite::<W>(if has_weights { arcs } else { 0 })?;
        let none = device.buffer(0)?;
        for &(its_first, part) in self.parts {
            let their_weights = weights_of(&part.weights).unwrap_or(&none);
            let from = (&*part.offsets, &*part.targets, their_weights, its_first);
            let to = (
                &self.index.counts,
                &self.index.offsets,
                &mut targets,
                &mut weights,
                self.first_vertex,
            );
            kernel.launch(stream, part.targets.len(), (from, to))?;
        }
        if self.keeps_own {
            let arguments = (&*own.offsets, &*own.targets, &self.index.offsets, &mut targets);
            KEEP.launch(stream, own.targets.len(), arguments)?;
        }
        let (new_ids, mut bits) = (device.buffer(0)?, weights.cast());
        let rows = RowsToSort {
            offsets: &self.index.offsets,
            long: self.index.long.clone(),
            new_ids: &new_ids,
            targets: &mut targets,
            weights: &mut bits,
            order,
        };
        rows.sort(stream)?;
        Ok((targets, Arc::new(bits.cast())))
    }
}

/// Weights of this type, if there are any.
type WeightsOf<W> = fn(&PartWeights) -> Option<&DeviceBuffer<W>>;

/// Targets, the first vertex that there is a count for, and counts.
static COUNT: LazyLock<Kernel<(Read<u32>, Value<u32>, Shared<u64>)>> = LazyLock::new(|| {
    let twin = Kernel::from_closure("count_reversed", |_, view: (&[u32], u32, &[AtomicU64])| {
        let (targets, first, counts) = view;
        for &target in targets {
            if let Some(count) = counts.get(target.wrapping_sub(first) as usize) {
                // The kernel's end publishes it.
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    });
    twin.with_cuda(trusted("count_reversed"))
});

/// Offsets and targets of rows, and of those of the same vertices that have more.
static KEEP: LazyLock<Kernel<(Read<u64>, Read<u32>, Read<u64>, Write<u32>)>> =
    LazyLock::new(|| {
        type View<'a> = (&'a [u64], &'a [u32], &'a [u64], &'a mut [u32]);
        let twin = Kernel::from_closure("keep_rows", |_, view: View<'_>| {
            let (offsets, targets, their_offsets, their_targets) = view;
            for (row, their_row) in offsets.windows(2).zip(their_offsets.windows(2)) {
                let targets = &targets[row[0] as usize..row[1] as usize];
                let end = their_row[1] as usize;
                their_targets[end - targets.len()..end].copy_from_slice(targets);
            }
            Ok(())
        });
        twin.with_cuda(trusted("keep_rows"))
    });

/// Offsets, targets and weights of rows, and their first vertex; how many arcs each of the vertices still gets
/// that rows are made for, which ends as zeros, offsets of these, what they get, and the first.
type Signature<W> = (
    (Read<u64>, Read<u32>, Read<W>, Value<u32>),
    (Shared<u64>, Read<u64>, Write<u32>, Write<W>, Value<u32>),
);

static INTEGERS: LazyLock<Kernel<Signature<u32>>> = LazyLock::new(kernel);
static REALS: LazyLock<Kernel<Signature<f32>>> = LazyLock::new(kernel);

fn kernel<W: Pod + Send + Sync>() -> Kernel<Signature<W>> {
    let twin = Kernel::from_closure("reverse_rows", |_, view| reverse(view));
    twin.with_cuda(trusted("reverse_rows"))
}

fn reverse<W: Pod + Send + Sync>(
    (from, to): <Signature<W> as Parameter>::View<'_>,
) -> KernelResult {
    let (offsets, targets, weights, its_first) = from;
    let (counts, their_offsets, their_targets, their_weights, first) = to;
    visit_rows(offsets, 0..targets.len(), |row, arcs| {
        for arc in arcs {
            let reversed = targets[arc].wrapping_sub(first) as usize;
            let Some(count) = counts.get(reversed) else { continue };
            // Nobody else counts, and the kernel's end publishes it.
            let last = count.fetch_sub(1, Ordering::Relaxed) - 1;
            let place = their_offsets[reversed] as usize + last as usize;
            their_targets[place] = its_first + row as u32;
            if let Some(&weight) = weights.get(arc) {
                their_weights[place] = weight;
            }
        }
    });
    Ok(())
}

fn trusted(entry: &'static str) -> Trusted<CudaSource> {
    // SAFETY: the kernels keep to their arguments as the signatures say, as their twins do.
    unsafe { Trusted::new(cuda_source(entry)) }
}

/// One of the kernels.
fn cuda_source(entry: &'static str) -> CudaSource {
    CudaSource::new("reversed_rows.cuh", entry, include_str!("reversed_rows.cuh"))
}

pub(crate) fn cuda_sources() -> [CudaSource; 3] {
    ["count_reversed", "reverse_rows", "keep_rows"].map(cuda_source)
}

#[cfg(test)]
mod tests {
    use millstream_flow::{Context, Devices};
    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::{CsrGraph, Weights, partition};

    use crate::{Columns, DistributedGraph, PartWeights};

    /// Of a Kronecker graph, with a vertex that an arc leads to from itself.
    fn directed() -> CsrGraph {
        let kron = generate::kron(10, 8, &GenerateOptions::default()).unwrap();
        let arcs = (0..kron.vertices()).flat_map(|from| {
            let row = kron.neighbors(from).iter();
            row.filter(move |&&to| (from ^ to) % 3 != from % 3).map(move |&to| (from, to))
        });
        let arcs: Vec<_> = arcs.chain([(5, 5)]).collect();
        CsrGraph::from_edges(kron.vertices(), &arcs).unwrap()
    }

    /// On emulated GPUs, too: `scripts/emulate.sh`.
    #[test]
    fn rows_have_arcs_both_ways() {
        let context = Context::builder().devices(Devices::All).build().unwrap();
        let (graph, devices) = (directed(), context.devices().len());
        let weights = Weights::Integer((0..graph.arcs() as u32).collect());
        let graph = graph.with_weights(Some(weights)).unwrap();
        let reversed = graph.transposed().unwrap();
        let parts = partition::random(&graph, devices, 1);
        let check = async {
            let columns = Columns::Weighted;
            let upload = DistributedGraph::new(&context, &graph, parts.clone(), columns);
            let both = upload.await.unwrap().symmetrized().await.unwrap();
            for (place, device) in context.devices().iter().enumerate() {
                let (stream, part) = (device.stream().unwrap(), &both.parts()[place]);
                let targets = stream.download(&*part.targets).unwrap().await.unwrap();
                let offsets = stream.download(&*part.offsets).unwrap().await.unwrap();
                assert!(matches!(part.weights, PartWeights::None));
                for (new, row) in parts.range(place).zip(offsets.windows(2)) {
                    let original = parts.to_original(new);
                    let ways = [graph.neighbors(original), reversed.neighbors(original)];
                    let mut expected: Vec<u32> =
                        ways.concat().into_iter().map(|target| parts.to_new(target)).collect();
                    expected.sort_unstable();
                    assert_eq!(targets[row[0] as usize..row[1] as usize], expected, "{new}");
                }
            }
        };
        context.block_on(check).unwrap();
    }

    /// On emulated GPUs, too: `scripts/emulate.sh`.
    #[test]
    fn every_arc_is_in_the_row_of_its_target() {
        let context = Context::builder().devices(Devices::All).build().unwrap();
        let directed = directed();
        let integers: Vec<u32> = (0..directed.arcs() as u32).map(|arc| arc * 7919 % 50).collect();
        let reals = integers.iter().map(|&weight| weight as f32 / 3.0).collect();
        let weighted = |weights| directed.clone().with_weights(Some(weights)).unwrap();
        let graphs = [
            weighted(Weights::Integer(integers)),
            weighted(Weights::Real(reals)),
            directed.clone(),
        ];
        for graph in graphs {
            let parts = partition::random(&graph, context.devices().len(), 1);
            let expected = parts.renumber(&graph.transposed().unwrap());
            let check = async {
                let upload =
                    DistributedGraph::new(&context, &graph, parts.clone(), Columns::Weighted);
                let reversed = upload.await.unwrap().reversed().await.unwrap();
                for (place, device) in context.devices().iter().enumerate() {
                    let (stream, part) = (device.stream().unwrap(), &reversed.parts()[place]);
                    let targets = stream.download(&*part.targets).unwrap().await.unwrap();
                    let own = parts.range(place);
                    let first = expected.offsets()[own.start as usize] as usize;
                    assert!(targets == expected.targets()[first..first + targets.len()]);
                    let last =
                        stream.download(part.offsets.part(own.len()..own.len() + 1).unwrap());
                    assert_eq!(last.unwrap().await.unwrap(), [targets.len() as u64]);
                    match (&part.weights, expected.weights()) {
                        (PartWeights::None, None) => {}
                        (PartWeights::Integer(its), Some(Weights::Integer(all))) => {
                            let its = stream.download(&**its).unwrap().await.unwrap();
                            assert!(its == all[first..first + its.len()]);
                        }
                        (PartWeights::Real(its), Some(Weights::Real(all))) => {
                            let its = stream.download(&**its).unwrap().await.unwrap();
                            assert!(its == all[first..first + its.len()]);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            };
            context.block_on(check).unwrap();
        }
    }

    #[test]
    fn arcs_of_a_device_out_of_reach_are_an_error() {
        let topology = r#"{ "links": [["memory", "host"], ["host", "memory"]] }"#;
        let builder = Context::builder().devices(Devices::host(2));
        let context = builder.topology(topology.parse().unwrap()).build().unwrap();
        let graph = directed();
        let blocks = partition::contiguous_blocks(&graph, 2);
        let turned = context.block_on(async {
            let upload =
                DistributedGraph::new(&context, &graph, blocks, Columns::Structure).await?;
            Ok::<_, crate::Error>([upload.reversed().await, upload.symmetrized().await])
        });
        for turned in turned.unwrap().unwrap() {
            let error = turned.unwrap_err().to_string();
            assert!(error.contains("does not reach"), "{error}");
        }
    }
}
