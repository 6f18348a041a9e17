//! A graph spread over the devices of a context \[G §4.6.1\].

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use futures_util::future::try_join_all;
use millstream_device::{
    AtomicPod, Device, DeviceBuffer, Download, HostData, SharedBuffer, Stream,
};
use millstream_flow::Context;
use millstream_graph::pieces::InPieces;
use millstream_graph::{CsrGraph, Partition, Weights};
use rayon::prelude::*;

use crate::checks::{check_partition, check_rows};
use crate::gpu_rows::on_gpus;
use crate::on_each_device::on_each_device;
use crate::owners::Owners;
use crate::part::{Part, PartWeights};
use crate::{Error, Result};

/// The most vertices whose values are filled one by one: each fill takes microseconds, while copying
/// the values of all vertices from the host takes milliseconds.
const MOST_FILLS: usize = 256;

/// Which data of a graph go to the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Row index and targets.
    Structure,
    /// Weights too, where the graph has them.
    Weighted,
    /// The same, each row in ascending order of weight, then of target.
    ByWeight,
}

/// A graph spread over the devices of a context: each owns a contiguous range of
/// vertices, in the order of the partition, with their rows. It serves any number
/// of runs.
///
/// ```
/// use millstream_flow::{Context, Devices};
/// use millstream_graph::{CsrGraph, partition};
/// use millstream_traversal::{Columns, DistributedGraph};
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let path = CsrGraph::from_edges(4, &[(0, 1), (1, 2)])?;
/// let blocks = partition::contiguous_blocks(&path, 2);
/// let upload = DistributedGraph::new(&context, &path, blocks, Columns::Structure);
/// let graph = context.block_on(upload)??;
/// assert_eq!(graph.parts()[1].offsets.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DistributedGraph {
    context: Context,
    partition: Partition,
    parts: Vec<Part>,
    renumbering_time: Duration,
}

impl DistributedGraph {
    /// Uploads a graph in the parts of `partition`, one for each device. If vertices are to be
    /// renumbered or rows to be sorted, GPUs do this themselves; for host devices, and for GPUs
    /// beside host devices, the host does it.
    ///
    /// # Errors
    /// A partition that does not fit; on GPUs a vertex with more than 125,000,000 arcs, or more than
    /// 2^32 - 1,024 vertices; no memory on a device.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    ///
    /// # Device ordering
    /// When it resolves, the graph is in the devices' memory.
    pub async fn new(
        context: &Context,
        graph: &CsrGraph,
        partition: Partition,
        columns: Columns,
    ) -> Result<DistributedGraph> {
        check_partition(context, graph, &partition)?;
        check_rows(context, graph)?;
        let weights = graph.weights().filter(|_| columns != Columns::Structure);
        let by_weight = columns == Columns::ByWeight && weights.is_some();
        if !partition.is_renumbered() && !by_weight {
            let weights = match weights {
                None => HostWeights::None,
                Some(Weights::Integer(all)) => HostWeights::Integer(HostColumn::Lent(all)),
                Some(Weights::Real(all)) => HostWeights::Real(HostColumn::Lent(all)),
            };
            return DistributedGraph::upload(context, graph, weights, partition).await;
        }
        if context.all_gpus() {
            let rows = on_gpus(context, graph, weights, &partition, by_weight);
            let (parts, time) = rows.await?;
            return Ok(DistributedGraph::of_parts(context, partition, parts, time));
        }
        let start = Instant::now();
        let rows = match columns {
            Columns::Structure => partition.renumber_structure(graph),
            Columns::Weighted => partition.renumber(graph),
            Columns::ByWeight => partition.renumber_by_weight(graph),
        };
        let renumbering_time = start.elapsed();
        let upload = DistributedGraph::renumbered(context, rows, partition);
        Ok(DistributedGraph { renumbering_time, ..upload.await? })
    }

    /// Uploads a graph that has the partition's new ids already, with its weights if there are any.
    ///
    /// # Errors
    /// A partition that does not fit; on GPUs a vertex with more than 125,000,000 arcs, or more than
    /// 2^32 - 1,024 vertices; no memory on a device.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    ///
    /// # Device ordering
    /// When it resolves, the graph is in the devices' memory.
    pub async fn renumbered(
        context: &Context,
        mut rows: CsrGraph,
        partition: Partition,
    ) -> Result<DistributedGraph> {
        check_partition(context, &rows, &partition)?;
        check_rows(context, &rows)?;
        let weights = match rows.take_weights() {
            None => HostWeights::None,
            Some(Weights::Integer(all)) => HostWeights::Integer(HostColumn::Given(all.into())),
            Some(Weights::Real(all)) => HostWeights::Real(HostColumn::Given(all.into())),
        };
        DistributedGraph::upload(context, &rows, weights, partition).await
    }

    async fn upload(
        context: &Context,
        rows_of: &CsrGraph,
        weights: HostWeights<'_>,
        partition: Partition,
    ) -> Result<DistributedGraph> {
        let targets = HostData::shared(rows_of.shared_targets());
        let upload = |_, stream: &Stream, range: &[u32]| -> Result<Part> {
            let rows = &rows_of.offsets()[range[0] as usize..=range[1] as usize];
            let arcs = rows[0] as usize..rows[rows.len() - 1] as usize;
            let offsets: Vec<u64> =
                rows.par_iter().in_pieces().map(|offset| offset - rows[0]).collect();
            let weights = match &weights {
                HostWeights::None => PartWeights::None,
                HostWeights::Integer(all) => {
                    PartWeights::Integer(Arc::new(all.uploaded(stream, &arcs)?))
                }
                HostWeights::Real(all) => PartWeights::Real(Arc::new(all.uploaded(stream, &arcs)?)),
            };
            let offsets = Arc::new(stream.lent(offsets)?);
            let targets = targets.slice(arcs)?;
            // Copied, not lent, if mapped: searches on a file's small pages take up to a fifth longer.
            let targets = match rows_of.is_mapped() {
                true => stream.uploaded(targets)?,
                false => stream.lent(targets)?,
            };
            let targets = Arc::new(targets);
            let owners = Arc::new(stream.lent(partition.boundaries().to_vec())?);
            Ok(Part { offsets, targets, weights, owners })
        };
        let parts = on_each_device(context, partition.boundaries().windows(2), upload).await?;
        Ok(DistributedGraph::of_parts(context, partition, parts, Duration::ZERO))
    }

    /// From rows already on the devices; `renumbering_time` is how long renumbering and sorting them took.
    pub(crate) fn of_parts(
        context: &Context,
        partition: Partition,
        parts: Vec<Part>,
        renumbering_time: Duration,
    ) -> DistributedGraph {
        DistributedGraph { context: context.clone(), partition, parts, renumbering_time }
    }

    /// The devices.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Who owns which vertices.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Who owns which vertices; the rows are dropped.
    pub fn into_partition(self) -> Partition {
        self.partition
    }

    /// Who owns which vertices, for a program on a worklist.
    pub fn owners(&self) -> Owners {
        Owners::new(self.partition.boundaries())
    }

    /// The rows of each device.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// What the rows take of the devices' memory.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(Part::bytes).sum()
    }

    /// How long it took to renumber all arcs, if ids changed, and to sort rows: on the host, or on
    /// GPUs once they had the rows.
    pub fn renumbering_time(&self) -> Duration {
        self.renumbering_time
    }

    /// Vertices of the graph.
    pub fn vertices(&self) -> u32 {
        self.partition.vertices()
    }

    /// New ids of vertices given by their original ids.
    ///
    /// # Errors
    /// A source that is not a vertex.
    pub fn sources(&self, originals: &[u32]) -> Result<Vec<u32>> {
        let vertices = self.vertices();
        match originals.iter().find(|&&source| source >= vertices) {
            Some(&source_vertex) => Err(Error::SourceOutOfRange { source_vertex, vertices }),
            None => Ok(originals.iter().map(|&source| self.partition.to_new(source)).collect()),
        }
    }

    /// A buffer on each device with a value for every vertex, by new id.
    ///
    /// # Errors
    /// More or fewer values than vertices; no memory on a device.
    ///
    /// # Cancel safety
    /// Cancel safe: the buffers are dropped.
    ///
    /// # Device ordering
    /// When it resolves, the values are in the devices' memory.
    pub async fn shared<V: AtomicPod>(
        &self,
        initial: impl Into<Arc<[V]>>,
    ) -> Result<Vec<SharedBuffer<V>>> {
        self.uploaded(self.context.devices(), initial.into()).await
    }

    /// As [`DistributedGraph::shared`], on `devices` of the context. Each of `vertices` gets the
    /// value `special`, and all others get `value`. If `vertices` are few, little comes from the
    /// host.
    ///
    /// # Errors
    /// No memory on a device.
    ///
    /// # Cancel safety
    /// Cancel safe: the buffers are dropped.
    ///
    /// # Device ordering
    /// When it resolves, the values are in the devices' memory.
    ///
    /// # Panics
    /// If one of `vertices` does not exist.
    pub async fn filled<V: AtomicPod>(
        &self,
        devices: &[Device],
        value: V,
        vertices: &[u32],
        special: V,
    ) -> Result<Vec<SharedBuffer<V>>> {
        if vertices.len() > MOST_FILLS {
            let mut all = vec![value; self.vertices() as usize];
            vertices.iter().for_each(|&vertex| all[vertex as usize] = special);
            return self.uploaded(devices, all.into()).await;
        }
        let fill = |stream: &Stream, buffer: &SharedBuffer<V>| {
            stream.fill_shared(buffer, 0..buffer.len(), value)?;
            vertices
                .iter()
                .map(|&vertex| vertex as usize)
                .try_for_each(|vertex| stream.fill_shared(buffer, vertex..vertex + 1, special))
        };
        self.made(devices, fill).await
    }

    /// A buffer on each of `devices` with these values of all vertices.
    async fn uploaded<V: AtomicPod>(
        &self,
        devices: &[Device],
        values: Arc<[V]>,
    ) -> Result<Vec<SharedBuffer<V>>> {
        let upload = |stream: &Stream, buffer: &SharedBuffer<V>| {
            stream.upload_shared(Arc::clone(&values), buffer, 0..buffer.len())
        };
        self.made(devices, upload).await
    }

    /// A buffer on each of `devices` for a value of every vertex, which `make` writes.
    async fn made<V: AtomicPod>(
        &self,
        devices: &[Device],
        make: impl Fn(&Stream, &SharedBuffer<V>) -> millstream_device::Result<()>,
    ) -> Result<Vec<SharedBuffer<V>>> {
        let (mut buffers, mut completions) = (Vec::new(), Vec::new());
        for device in devices {
            let stream = device.stream()?;
            let buffer = device.shared_to_overwrite(self.vertices() as usize)?;
            make(&stream, &buffer)?;
            completions.push(stream.completed()?);
            buffers.push(buffer);
        }
        try_join_all(completions).await?;
        Ok(buffers)
    }

    /// Takes buffers that have a value for every vertex on each device, and returns `map` of each
    /// owner's value, by new id.
    ///
    /// # Errors
    /// A device failed, or still works on a buffer.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn gather<V: AtomicPod, R: Send>(
        &self,
        buffers: impl Iterator<Item = SharedBuffer<V>>,
        map: impl Fn(V) -> R + Send + Sync,
    ) -> Result<Vec<R>> {
        let mut values = Vec::with_capacity(self.vertices() as usize);
        for its in self.downloads(buffers.zip(self.owned()))? {
            its.append_to(&mut values, &map).await?;
        }
        Ok(values)
    }

    /// The rows of each device, with their first vertex.
    pub fn parts_from(&self) -> Vec<(u32, &Part)> {
        self.partition.boundaries().iter().copied().zip(&self.parts).collect()
    }

    /// The vertices of each device.
    pub(crate) fn owned(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let boundaries = self.partition.boundaries().windows(2);
        boundaries.map(|range| range[0] as usize..range[1] as usize)
    }

    /// Starts downloads of the owners' values, each from the given range of that owner's buffer.
    pub(crate) fn downloads<V: AtomicPod>(
        &self,
        values: impl Iterator<Item = (SharedBuffer<V>, Range<usize>)>,
    ) -> Result<Vec<Download<V>>> {
        let devices = self.context.devices().iter();
        let download = |(device, (buffer, owned)): (&Device, (SharedBuffer<V>, _))| {
            device.stream()?.download_shared(&buffer, owned)
        };
        Ok(devices.zip(values).map(download).collect::<millstream_device::Result<_>>()?)
    }
}

/// The weights of all arcs, on the host.
enum HostWeights<'a> {
    None,
    Integer(HostColumn<'a, u32>),
    Real(HostColumn<'a, f32>),
}

/// A value of every arc, on the host.
enum HostColumn<'a, T> {
    Lent(&'a [T]),
    Given(HostData<T>),
}

impl<T: Pod + Send + Sync> HostColumn<'_, T> {
    /// The values of these arcs, on a device.
    fn uploaded(&self, stream: &Stream, arcs: &Range<usize>) -> Result<DeviceBuffer<T>> {
        let all = match self {
            HostColumn::Lent(all) => &all[arcs.clone()],
            HostColumn::Given(all) => return Ok(stream.lent(all.slice(arcs.clone())?)?),
        };
        if stream.device().is_gpu() {
            let mut buffer = stream.device().buffer_to_overwrite(all.len())?;
            let copy = |first: usize, to: &mut [T]| to.copy_from_slice(&all[first..][..to.len()]);
            stream.upload_made(&mut buffer, copy)?;
            return Ok(buffer);
        }
        // Copied, since lent memory may outlive the graph; by all threads, since first touches of new pages
        // cost more than the copy.
        Ok(stream.lent(all.par_iter().in_pieces().copied().collect::<Vec<T>>())?)
    }
}

#[cfg(test)]
mod tests {
    use millstream_flow::Devices;
    use millstream_graph::partition;

    use super::*;

    #[test]
    fn few_special_values_and_many_are_in_their_places() {
        let context = Context::builder().devices(Devices::host(2)).build().unwrap();
        let graph = CsrGraph::from_edges(100_000, &[(0, 1)]).unwrap();
        let blocks = partition::contiguous_blocks(&graph, 2);
        let run = async {
            let graph = DistributedGraph::new(&context, &graph, blocks, Columns::Structure).await?;
            for step in [30, 30_000] {
                let special: Vec<u32> = (1..100_000).step_by(step).chain([99_999, 1]).collect();
                let mut expected = vec![7_u64; 100_000];
                special.iter().for_each(|&vertex| expected[vertex as usize] = 9);
                let buffers = graph.filled(context.devices(), 7, &special, 9).await?;
                assert!(
                    graph.gather(buffers.into_iter(), |value| value).await? == expected,
                    "every {step}"
                );
            }
            Ok::<_, Error>(())
        };
        context.block_on(run).unwrap().unwrap();
    }

    #[test]
    fn every_vertex_has_a_value() {
        let context = Context::builder().devices(Devices::host(2)).build().unwrap();
        let graph = CsrGraph::from_edges(5, &[(0, 1)]).unwrap();
        let blocks = partition::contiguous_blocks(&graph, 2);
        let run = async {
            let graph = DistributedGraph::new(&context, &graph, blocks, Columns::Structure).await?;
            assert!(graph.shared(vec![7_u32; 4]).await.is_err());
            assert!(graph.shared(vec![7_u32; 6]).await.is_err());
            let buffers = graph.shared(vec![7_u32; 5]).await?;
            assert_eq!(graph.gather(buffers.into_iter(), |value| value).await?, [7; 5]);
            Ok::<_, Error>(())
        };
        context.block_on(run).unwrap().unwrap();
    }
}
