//! The arcs that enter vertices: those that leave them, if a graph is symmetric. A graph is assumed
//! symmetric until that is checked, since GPUs check it much faster than the host.

use millstream_flow::Context;
use millstream_graph::{CsrGraph, GraphError, Partition, RowIndex, partition};

use crate::graph::{Columns, DistributedGraph};
use crate::meeting::can_meet;
use crate::reversed_rows::entering_degrees;
use crate::survey::Survey;
use crate::{Error, Result};

/// The arcs that enter the vertices of a graph.
#[derive(Debug)]
pub struct Entering {
    /// A row of them for each vertex, on the devices.
    pub rows: DistributedGraph,
    /// How many arcs enter each vertex, by original id.
    pub degrees: RowIndex,
    /// Whether they are also the arcs that leave the vertices: each arc has its reverse, of the same weight
    /// if weights are uploaded.
    pub is_symmetric: bool,
}

impl Entering {
    /// Uploads the arcs that enter the vertices of a graph. `parts_of` gives the parts of their rows. A few
    /// rows suffice to show that most asymmetric graphs are not symmetric. The arcs are then reversed: by
    /// GPUs that have room for both directions, else by the host.
    ///
    /// ```
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::{CsrGraph, Degrees, RowIndex, partition};
    /// use millstream_traversal::Columns;
    /// use millstream_traversal::internals::Entering;
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// for (back, is_symmetric) in [(5, true), (6, false)] {
    ///     let graph = CsrGraph::from_weighted_edges(2, &[(0, 1, 5u32), (1, 0, back)])?;
    ///     let parts_of = |entering: &RowIndex| partition::edge_balanced_blocks(entering, 2);
    ///     let upload = Entering::upload(&context, &graph, parts_of, Columns::Weighted);
    ///     let entering: Result<_, Box<dyn std::error::Error>> = context.block_on(upload)?;
    ///     let entering = entering?;
    ///     assert_eq!((entering.is_symmetric, entering.degrees.degree(1)), (is_symmetric, 1));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`DistributedGraph::new`]; no memory for the reversed arcs.
    ///
    /// # Cancel safety
    /// Cancel safe: what was uploaded is dropped.
    ///
    /// # Device ordering
    /// When it resolves, the arcs are in the devices' memory.
    pub async fn upload<E: From<Error> + From<GraphError>>(
        context: &Context,
        graph: &CsrGraph,
        parts_of: impl Fn(&RowIndex) -> Partition,
        columns: Columns,
    ) -> Result<Entering, E> {
        let has_weights = columns != Columns::Structure;
        if graph.looks_symmetric(has_weights) {
            let degrees = graph.row_index();
            let rows = DistributedGraph::new(context, graph, parts_of(&degrees), columns).await?;
            if Survey::of(&rows).await?.is_symmetric {
                return Ok(Entering { rows, degrees, is_symmetric: true });
            }
        }
        if context.all_gpus() && can_meet(context) {
            match turned_by_gpus(context, graph, &parts_of, columns).await {
                Err(error) if error.is_too_much() => {}
                turned => return Ok(turned?),
            }
        }
        let entering =
            if has_weights { graph.transposed()? } else { graph.transposed_structure()? };
        let degrees = entering.row_index();
        let rows = DistributedGraph::new(context, &entering, parts_of(&degrees), columns).await?;
        Ok(Entering { rows, degrees, is_symmetric: false })
    }
}

/// First uploads the arcs as they are, a block of them to each GPU, and then reverses them there.
async fn turned_by_gpus(
    context: &Context,
    graph: &CsrGraph,
    parts_of: impl Fn(&RowIndex) -> Partition,
    columns: Columns,
) -> Result<Entering> {
    let blocks = partition::edge_balanced_blocks(graph, context.devices().len());
    let by_weight = columns == Columns::ByWeight;
    let unsorted = if by_weight { Columns::Weighted } else { columns };
    let leaving = DistributedGraph::new(context, graph, blocks, unsorted).await?;
    let degrees = entering_degrees(&leaving).await?;
    let rows = leaving.reversed_in(parts_of(&degrees), by_weight).await?;
    Ok(Entering { rows, degrees, is_symmetric: false })
}
