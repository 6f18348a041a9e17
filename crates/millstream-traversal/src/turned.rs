//! Graphs on devices whose arcs the devices reverse.

use std::sync::Arc;
use std::time::Instant;

use millstream_device::Stream;
use millstream_graph::Partition;

use crate::gpu_rows::new_ids;
use crate::graph::DistributedGraph;
use crate::on_each_device::on_each_device;
use crate::part::Part;
use crate::reversed_rows::{ToReverse, reversed_rows, symmetrized_rows};
use crate::{Error, Result};

impl DistributedGraph {
    /// The transpose: a sorted row of the arcs that enter each vertex, made by the devices, which must reach
    /// each other's memory.
    ///
    /// ```
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::{CsrGraph, partition};
    /// use millstream_traversal::{Columns, DistributedGraph};
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let star = CsrGraph::from_edges(4, &[(0, 3), (1, 3), (2, 3)])?;
    /// let blocks = partition::contiguous_blocks(&star, 2);
    /// let reversed = context.block_on(async {
    ///     let upload = DistributedGraph::new(&context, &star, blocks, Columns::Structure).await?;
    ///     upload.reversed().await
    /// })??;
    /// let second = context.devices()[1].stream()?.download(&*reversed.parts()[1].targets)?;
    /// assert_eq!(context.block_on(second)??, [0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// No memory; devices that do not reach each other; a failed device. On GPUs a vertex that more than
    /// 125,000,000 arcs enter.
    ///
    /// # Cancel safety
    /// Cancel safe: what was made is dropped.
    ///
    /// # Device ordering
    /// When it resolves, the arcs are in the devices' memory.
    pub async fn reversed(&self) -> Result<DistributedGraph> {
        self.turned(false).await
    }

    /// The arcs and their reverses, without weights: a sorted row of all that leave each vertex. An arc whose
    /// reverse is also an arc occurs twice. Otherwise as [`DistributedGraph::reversed`].
    ///
    /// ```
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::{CsrGraph, partition};
    /// use millstream_traversal::{Columns, DistributedGraph};
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let star = CsrGraph::from_edges(4, &[(0, 3), (1, 3), (3, 2)])?;
    /// let blocks = partition::contiguous_blocks(&star, 2);
    /// let symmetric = context.block_on(async {
    ///     let upload = DistributedGraph::new(&context, &star, blocks, Columns::Structure).await?;
    ///     upload.symmetrized().await
    /// })??;
    /// let second = context.devices()[1].stream()?.download(&*symmetric.parts()[1].targets)?;
    /// assert_eq!(context.block_on(second)??, [3, 0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`DistributedGraph::reversed`].
    ///
    /// # Cancel safety
    /// Cancel safe: what was made is dropped.
    ///
    /// # Device ordering
    /// When it resolves, the arcs are in the devices' memory.
    pub async fn symmetrized(&self) -> Result<DistributedGraph> {
        self.turned(true).await
    }

    /// The reversed arcs; with the arcs as they are too, if `keeps_own`.
    async fn turned(&self, keeps_own: bool) -> Result<DistributedGraph> {
        let (start, parts) = (Instant::now(), self.parts_from());
        let all = parts.iter().enumerate().map(|(place, (_, part))| ToReverse {
            parts: &parts,
            vertices: self.partition().range(place),
            new_ids: None,
            owners: Arc::clone(&part.owners),
        });
        let all: Vec<_> = all.collect();
        let turned = match keeps_own {
            true => symmetrized_rows(self.context(), self.parts(), &all).await,
            false => reversed_rows(self.context(), &all, false).await,
        };
        let partition = self.partition().clone();
        let rows = named(turned, &partition)?;
        Ok(DistributedGraph::of_parts(self.context(), partition, rows, start.elapsed()))
    }

    /// The transpose in the parts of another partition, rows sorted by weight, or by target if there are no
    /// weights. The vertices of this graph must have their original ids. Otherwise as
    /// [`DistributedGraph::reversed`].
    ///
    /// # Errors
    /// As [`DistributedGraph::reversed`].
    ///
    /// # Cancel safety
    /// Cancel safe: what was made is dropped.
    ///
    /// # Device ordering
    /// When it resolves, the arcs are in the devices' memory.
    pub(crate) async fn reversed_in(
        &self,
        partition: Partition,
        by_weight: bool,
    ) -> Result<DistributedGraph> {
        debug_assert!(!self.partition().is_renumbered());
        let (start, parts) = (Instant::now(), self.parts_from());
        let begin = |place, stream: &Stream, ()| -> Result<_> {
            Ok(ToReverse {
                parts: &parts,
                vertices: partition.range(place),
                new_ids: Some(new_ids(stream, &partition)?),
                owners: Arc::new(stream.lent(partition.boundaries().to_vec())?),
            })
        };
        let all = on_each_device(self.context(), vec![(); partition.parts()], begin).await?;
        let rows = named(reversed_rows(self.context(), &all, by_weight).await, &partition)?;
        drop(all);
        Ok(DistributedGraph::of_parts(self.context(), partition, rows, start.elapsed()))
    }
}

/// What was made, or the error, which names a vertex by its original id.
fn named(turned: Result<Vec<Part>>, partition: &Partition) -> Result<Vec<Part>> {
    turned.map_err(|error| match error {
        Error::TooManyArcs { row, arcs, most } => {
            Error::TooManyArcs { row: partition.to_original(row), arcs, most }
        }
        error => error,
    })
}

#[cfg(test)]
mod tests {
    use millstream_flow::{Context, Devices};
    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::{CsrGraph, Degrees, Weights, partition};

    use super::*;
    use crate::reversed_rows::entering_degrees;
    use crate::{Columns, PartWeights};

    /// Arcs of a Kronecker graph, with a self-loop.
    fn directed() -> CsrGraph {
        let kron = generate::kron(10, 8, &GenerateOptions::default()).unwrap();
        let arcs = (0..kron.vertices()).flat_map(|from| {
            let row = kron.neighbors(from).iter();
            row.filter(move |&&to| (from ^ to) % 3 != from % 3).map(move |&to| (from, to))
        });
        let arcs: Vec<_> = arcs.chain([(5, 5)]).collect();
        CsrGraph::from_edges(kron.vertices(), &arcs).unwrap()
    }

    /// With integers, with reals, and without weights.
    fn weighted() -> [CsrGraph; 3] {
        let directed = directed();
        let integers: Vec<u32> = (0..directed.arcs() as u32).map(|arc| arc * 7919 % 50).collect();
        let reals = integers.iter().map(|&weight| weight as f32 / 3.0).collect();
        let with = |weights| directed.clone().with_weights(Some(weights)).unwrap();
        [with(Weights::Integer(integers)), with(Weights::Real(reals)), directed]
    }

    /// Whether the devices have these rows, whose ids are new.
    async fn check(graph: &DistributedGraph, expected: &CsrGraph) {
        for (place, device) in graph.context().devices().iter().enumerate() {
            let (stream, part) = (device.stream().unwrap(), &graph.parts()[place]);
            let own = graph.partition().range(place);
            let rows = &expected.offsets()[own.start as usize..=own.end as usize];
            let arcs = rows[0] as usize..rows[own.len()] as usize;
            let offsets: Vec<u64> = rows.iter().map(|offset| offset - rows[0]).collect();
            assert_eq!(stream.download(&*part.offsets).unwrap().await.unwrap(), offsets);
            let targets = stream.download(&*part.targets).unwrap().await.unwrap();
            assert!(targets == expected.targets()[arcs.clone()]);
            match (&part.weights, expected.weights()) {
                (PartWeights::None, None) => {}
                (PartWeights::Integer(its), Some(Weights::Integer(all))) => {
                    assert!(stream.download(&**its).unwrap().await.unwrap() == all[arcs]);
                }
                (PartWeights::Real(its), Some(Weights::Real(all))) => {
                    assert!(stream.download(&**its).unwrap().await.unwrap() == all[arcs]);
                }
                other => panic!("{other:?}"),
            }
            let owners = stream.download(&*part.owners).unwrap().await.unwrap();
            assert_eq!(owners, graph.partition().boundaries());
        }
    }

    fn on_all_devices() -> Context {
        Context::builder().devices(Devices::All).build().unwrap()
    }

    /// On emulated GPUs, too: `scripts/emulate.sh`.
    #[test]
    fn rows_have_arcs_both_ways() {
        let (context, graph) = (on_all_devices(), directed());
        let both = (0..graph.vertices()).flat_map(|from| {
            graph.neighbors(from).iter().flat_map(move |&to| [(from, to), (to, from)])
        });
        let both = CsrGraph::from_edges(graph.vertices(), &both.collect::<Vec<_>>()).unwrap();
        let weights = Weights::Integer((0..graph.arcs() as u32).collect());
        let graph = graph.with_weights(Some(weights)).unwrap();
        let parts = partition::random(&graph, context.devices().len(), 1);
        let checked = async {
            let columns = Columns::Weighted;
            let upload = DistributedGraph::new(&context, &graph, parts.clone(), columns);
            let symmetrized = upload.await.unwrap().symmetrized().await.unwrap();
            check(&symmetrized, &parts.renumber(&both)).await;
        };
        context.block_on(checked).unwrap();
    }

    /// On emulated GPUs, too: `scripts/emulate.sh`.
    #[test]
    fn every_arc_is_in_the_row_of_its_target() {
        let context = on_all_devices();
        for graph in weighted() {
            let parts = partition::random(&graph, context.devices().len(), 1);
            let expected = parts.renumber(&graph.transposed().unwrap());
            let checked = async {
                let columns = Columns::Weighted;
                let upload = DistributedGraph::new(&context, &graph, parts, columns);
                check(&upload.await.unwrap().reversed().await.unwrap(), &expected).await;
            };
            context.block_on(checked).unwrap();
        }
    }

    /// On emulated GPUs, too: `scripts/emulate.sh`.
    #[test]
    fn rows_are_counted_and_made_in_other_parts() {
        let context = on_all_devices();
        let devices = context.devices().len();
        for graph in weighted() {
            let transposed = graph.transposed().unwrap();
            let blocks = || partition::contiguous_blocks(&graph, devices);
            let random = partition::random(&graph, devices, 1);
            let checked = async {
                let upload = DistributedGraph::new(&context, &graph, blocks(), Columns::Weighted);
                let leaving = upload.await.unwrap();
                let degrees = entering_degrees(&leaving).await.unwrap();
                assert_eq!(degrees.offsets(), transposed.offsets());
                let balanced = partition::edge_balanced_blocks(&degrees, devices);
                for parts in [random.by_degree(&degrees, 64), balanced] {
                    for by_weight in [false, true] {
                        let expected = match by_weight {
                            true => parts.renumber_by_weight(&transposed),
                            false => parts.renumber(&transposed),
                        };
                        let turned = leaving.reversed_in(parts.clone(), by_weight).await.unwrap();
                        check(&turned, &expected).await;
                    }
                }
            };
            context.block_on(checked).unwrap();
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
            Ok::<_, Error>([upload.reversed().await, upload.symmetrized().await])
        });
        for turned in turned.unwrap().unwrap() {
            let error = turned.unwrap_err().to_string();
            assert!(error.contains("does not reach"), "{error}");
        }
    }
}
