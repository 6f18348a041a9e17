//! PageRank by full sweeps: every vertex pulls what its predecessors give.

use std::sync::Arc;

use millstream_device::{DeviceBuffer, Stream};
use millstream_flow::Context;
use millstream_graph::{CsrGraph, Partition};

use crate::pagerank::Ranks;
use crate::real::Real;
use crate::share::{by_new_id, row_weights};
use crate::sliced_rows::{SlicedRows, sorted};
use crate::sweep::{Settings, share};
use crate::{PageRankOptions, Result, linked_sweeps};

/// The graph on the devices, every row with the arcs that come in.
#[derive(Debug)]
pub(crate) struct PullGraph<R: Real> {
    pub(crate) context: Context,
    pub(crate) partition: Partition,
    pub(crate) parts: Vec<PullPart<R>>,
    /// What the arcs of each vertex weigh that leave it, by new id.
    pub(crate) row_weights: Vec<f64>,
}

/// See [`SlicedRows`].
#[derive(Debug)]
pub(crate) struct PullPart<R: Real> {
    pub(crate) offsets: Arc<DeviceBuffer<u64>>,
    pub(crate) sources: Arc<DeviceBuffer<u32>>,
    pub(crate) weights: Arc<DeviceBuffer<R>>,
    pub(crate) row_weights: Arc<DeviceBuffer<R>>,
    block_rows: u32,
    long_rows: u32,
}

impl<R: Real> PullGraph<R> {
    /// Uploads the graph, whose arcs `transposed` has the other way round, in the
    /// parts of `partition`.
    pub(crate) async fn new(
        context: &Context,
        graph: &CsrGraph,
        transposed: &CsrGraph,
        partition: &Partition,
        is_weighted: bool,
    ) -> Result<PullGraph<R>> {
        let partition = sorted(partition, transposed);
        let row_weights = by_new_id(&partition, &row_weights(graph, is_weighted));
        let mut parts = Vec::new();
        for (place, device) in context.devices().iter().enumerate() {
            let rows = SlicedRows::<R>::new(transposed, &partition, place, is_weighted);
            let own = partition.range(place);
            let weights = &row_weights[own.start as usize..own.end as usize];
            let weights: Vec<R> = weights.iter().map(|&weight| R::from_f64(weight)).collect();
            let stream = device.stream()?;
            let SlicedRows { block_rows, long_rows, .. } = rows;
            parts.push(PullPart {
                offsets: uploaded(&stream, rows.offsets)?,
                sources: uploaded(&stream, rows.sources)?,
                weights: uploaded(&stream, rows.weights)?,
                row_weights: uploaded(&stream, weights)?,
                block_rows,
                long_rows,
            });
            stream.record()?.completed().await?;
        }
        Ok(PullGraph { context: context.clone(), partition, parts, row_weights })
    }

    pub(crate) fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Sweeps until the change is small enough.
    pub(crate) async fn run(&self, options: &PageRankOptions) -> Result<Ranks> {
        linked_sweeps::run(self, options).await
    }

    /// What vertices give at the start, when ranks are even; by new id.
    pub(crate) fn even_shares(&self) -> Vec<R> {
        let even = 1.0 / self.row_weights.len() as f64;
        self.row_weights.iter().map(|&weight| R::from_f64(share(even, weight))).collect()
    }

    /// The rank of all vertices that no step leaves along an arc, when ranks are even.
    pub(crate) fn dangling(&self) -> f64 {
        let dangling = self.row_weights.iter().filter(|&&weight| weight == 0.0).count();
        dangling as f64 / self.row_weights.len() as f64
    }
}

impl<R: Real> PullPart<R> {
    /// Settings of a sweep in which the dangling vertices have a rank of `dangling`.
    pub(crate) fn settings(
        &self,
        options: &PageRankOptions,
        dangling: f64,
        own: &std::ops::Range<usize>,
        vertices: usize,
    ) -> Settings {
        let damping = options.damping;
        let nowhere = if options.personalization.is_empty() { 1.0 - damping } else { 0.0 };
        Settings {
            damping,
            base: (nowhere + damping * dangling) / vertices as f64,
            first_vertex: own.start as u32,
            block_rows: self.block_rows,
            long_rows: self.long_rows,
            padding: 0,
        }
    }
}

fn uploaded<T: millstream_device::Pod + Send + Sync>(
    stream: &Stream,
    items: Vec<T>,
) -> millstream_device::Result<Arc<DeviceBuffer<T>>> {
    stream.uploaded(items).map(Arc::new)
}
