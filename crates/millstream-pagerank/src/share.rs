//! The share that a vertex gives along each of its arcs, and where steps that follow no arc lead.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use millstream_graph::pieces::{InPieces, rows_of};
use millstream_graph::{CsrGraph, GraphError, Partition, Weights};
use rayon::prelude::*;

use crate::PageRankOptions;

/// The weight of all arcs that leave each vertex (their number, unless weighted), by original
/// id; 0 for a vertex that no step leaves along an arc.
pub(crate) fn row_weights(graph: &CsrGraph, is_weighted: bool) -> Vec<f64> {
    let row_weight = |vertex: u32| -> f64 {
        match graph.weights().filter(|_| is_weighted) {
            None => graph.degree(vertex) as f64,
            Some(Weights::Integer(weights)) => {
                weights[graph.row(vertex)].iter().map(|&weight| f64::from(weight)).sum()
            }
            Some(Weights::Real(weights)) => {
                weights[graph.row(vertex)].iter().map(|&weight| f64::from(weight)).sum()
            }
        }
    };
    rows_of(graph).map(row_weight).collect()
}

/// Sums of a row's weights by which ranks may be multiplied and divided in any precision. The sums of
/// integer weights are always within.
const ROW_WEIGHTS: RangeInclusive<f64> = 1e-12..=2e19;

/// The graph with weights whose shares all precisions can hold: where the real weights of a row sum to
/// too little or too much, they are divided by a power of two, which rounds nothing, so that they sum
/// to between 1 and 2.
pub(crate) fn with_moderate_weights(
    graph: &CsrGraph,
    is_weighted: bool,
) -> Result<Cow<'_, CsrGraph>, GraphError> {
    let Some(Weights::Real(weights)) = graph.weights().filter(|_| is_weighted) else {
        return Ok(Cow::Borrowed(graph));
    };
    let sums = row_weights(graph, true);
    let is_moderate = |sum: &f64| *sum == 0.0 || ROW_WEIGHTS.contains(sum);
    if sums.par_iter().in_pieces().all(is_moderate) {
        return Ok(Cow::Borrowed(graph));
    }
    let mut weights = weights.clone();
    for (vertex, sum) in (0..graph.vertices()).zip(&sums) {
        if !is_moderate(sum) {
            let power = f64::from_bits(sum.to_bits() & f64::INFINITY.to_bits());
            let row = weights[graph.row(vertex)].iter_mut();
            row.for_each(|weight| *weight = (f64::from(*weight) / power) as f32);
        }
    }
    Ok(Cow::Owned(graph.clone().with_weights(Some(Weights::Real(weights)))?))
}

/// One over each of [`row_weights`], or 0.
pub(crate) fn inverse_row_weights(graph: &CsrGraph, is_weighted: bool) -> Vec<f64> {
    let inverse = |weight: f64| if weight == 0.0 { 0.0 } else { 1.0 / weight };
    row_weights(graph, is_weighted).into_iter().map(inverse).collect()
}

/// What each vertex gets along arcs, without damping, when all vertices have the
/// same rank and ranks sum to 1. By original id.
pub(crate) fn even_inflow(graph: &CsrGraph, inverse: &[f64], is_weighted: bool) -> Vec<f64> {
    let even = 1.0 / f64::from(graph.vertices());
    let mut inflow = vec![0.0; graph.vertices() as usize];
    for vertex in 0..graph.vertices() {
        let share = even * inverse[vertex as usize];
        for arc in graph.row(vertex) {
            let weight = match graph.weights().filter(|_| is_weighted) {
                None => 1.0,
                Some(Weights::Integer(weights)) => f64::from(weights[arc]),
                Some(Weights::Real(weights)) => f64::from(weights[arc]),
            };
            inflow[graph.targets()[arc] as usize] += share * weight;
        }
    }
    inflow
}

/// The probability, by new id, that a step follows no arc and leads to that vertex;
/// empty if it is the same for all. It does not include what dangling vertices give.
pub(crate) fn teleport(partition: &Partition, options: &PageRankOptions) -> Vec<f64> {
    let named = &options.personalization;
    if named.is_empty() {
        return Vec::new();
    }
    let mut teleport = vec![0.0; partition.vertices() as usize];
    for &vertex in named {
        teleport[partition.to_new(vertex) as usize] += (1.0 - options.damping) / named.len() as f64;
    }
    teleport
}

/// Values by original id, in the order of new ids.
pub(crate) fn by_new_id(partition: &Partition, values: &[f64]) -> Vec<f64> {
    let value = |new| values[partition.to_original(new) as usize];
    (0..partition.vertices()).into_par_iter().in_pieces().map(value).collect()
}
