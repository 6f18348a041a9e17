//! Rows of outgoing arcs, divided among devices by the owners of the arcs' targets: each device makes its
//! rows from the arcs that enter its vertices.

use std::sync::Arc;

use millstream_traversal::internals::{ToReverse, reversed_rows};
use millstream_traversal::{DistributedGraph, Part};

use crate::Result;

/// For each device, the arcs that enter its vertices, in a row for each vertex of the graph that they leave,
/// in ascending order of weight, then of target. `incoming` has the same arcs in rows by target.
pub(crate) async fn divided(incoming: &DistributedGraph) -> Result<Vec<Part>> {
    let parts = incoming.parts_from();
    // No row can be too long: it has at most as many arcs as in the graph.
    let of_all = |part| ToReverse {
        parts: part,
        vertices: 0..incoming.vertices(),
        new_ids: None,
        owners: Arc::clone(&part[0].1.owners),
    };
    let all: Vec<_> = parts.chunks(1).map(of_all).collect();
    Ok(reversed_rows(incoming.context(), &all, true).await?)
}

#[cfg(test)]
mod tests {
    use millstream_device::Stream;
    use millstream_flow::{Context, Devices};
    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::{CsrGraph, Partition, Weights, partition};
    use millstream_traversal::{Columns, PartWeights};

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
