//! The graph in the form that pushes need.

use std::iter::repeat;
use std::sync::Arc;

use millstream_device::{DeviceBuffer, Stream};
use millstream_flow::Context;
use millstream_graph::{CsrGraph, Partition, Weights, partition};
use millstream_traversal::DistributedGraph;
use millstream_traversal::internals::on_each_device;

use crate::Result;
use crate::real::Real;
use crate::share::{by_new_id, even_inflow, inverse_row_weights};

/// What a push costs beside its arcs, in arcs.
const FIXED_COST: f64 = 8.0;

/// The graph on the devices, in rows of outgoing arcs.
#[derive(Debug)]
pub(crate) struct PushGraph<R: Real> {
    pub(crate) graph: DistributedGraph,
    pub(crate) inverse: Vec<Arc<DeviceBuffer<f64>>>,
    pub(crate) weights: Vec<Arc<DeviceBuffer<R>>>,
    /// The costs of each device's own vertices, on that device.
    pub(crate) costs_on_devices: Vec<Arc<DeviceBuffer<f32>>>,
    /// What a push of each vertex costs, by new id.
    pub(crate) costs: Vec<f64>,
    /// What each vertex gets along arcs when all vertices have the same rank, by new
    /// id: see [`even_inflow`].
    pub(crate) inflow: Vec<f64>,
    /// Whether no step leaves a vertex along an arc, by new id.
    pub(crate) is_dangling: Vec<bool>,
    /// Whether no vertex has so many arcs that many residuals accumulate at it.
    pub(crate) is_mesh_like: bool,
    /// What it takes to push each vertex once, in pushes and arcs followed.
    pub(crate) sweep: u64,
}

impl<R: Real> PushGraph<R> {
    pub(crate) async fn new(
        context: &Context,
        graph: &CsrGraph,
        partition: Partition,
        is_weighted: bool,
    ) -> Result<PushGraph<R>> {
        let inverse = inverse_row_weights(graph, is_weighted);
        let inflow = by_new_id(&partition, &even_inflow(graph, &inverse, is_weighted));
        let inverse = by_new_id(&partition, &inverse);
        let is_dangling = inverse.iter().map(|&inverse| inverse == 0.0).collect();
        let cost = |vertex| graph.degree(vertex) as f64 + FIXED_COST;
        let costs = by_new_id(&partition, &(0..graph.vertices()).map(cost).collect::<Vec<_>>());
        let sweep = graph.arcs() + u64::from(graph.vertices());
        let is_mesh_like = partition::is_mesh_like(graph);
        let mut rows = if is_weighted {
            partition.renumber(graph)
        } else {
            partition.renumber_structure(graph)
        };
        let all_weights = rows.take_weights();
        let graph = DistributedGraph::renumbered(context, rows.clone(), partition).await?;
        let upload = |place, stream: &Stream, ()| -> Result<_> {
            let own = graph.partition().range(place);
            let own = own.start as usize..own.end as usize;
            let arcs = rows.offsets()[own.start] as usize..rows.offsets()[own.end] as usize;
            let weights = match &all_weights {
                None => Vec::new(),
                Some(Weights::Integer(all)) => reals::<R, _>(&all[arcs]),
                Some(Weights::Real(all)) => reals(&all[arcs]),
            };
            let costs: Vec<_> = costs[own.clone()].iter().map(|&cost| cost as f32).collect();
            let inverse = Arc::new(stream.lent(inverse[own].to_vec())?);
            Ok((Arc::new(stream.lent(weights)?), inverse, Arc::new(stream.lent(costs)?)))
        };
        let uploaded = on_each_device(context, repeat(()), upload).await?;
        let (weights, inverse, costs_on_devices) = uploaded.into_iter().collect();
        Ok(PushGraph {
            graph,
            inverse,
            weights,
            costs_on_devices,
            costs,
            inflow,
            is_dangling,
            is_mesh_like,
            sweep,
        })
    }
}

fn reals<R: Real, W: Copy + Into<f64>>(weights: &[W]) -> Vec<R> {
    weights.iter().map(|&weight| R::from_f64(weight.into())).collect()
}
