//! The arcs that enter vertices: those that leave them, if a graph is symmetric. It is taken for that
//! until it is known, since GPUs find it out much sooner than the host.

use std::borrow::Cow;

use millstream_flow::Context;
use millstream_graph::{CsrGraph, GraphError, Partition};

use crate::graph::{Columns, DistributedGraph};
use crate::survey::Survey;
use crate::{Error, Result};

/// Uploads the arcs that enter the vertices of a graph, in rows of these, and gives the graph that has them
/// so: itself, if each has its reverse, of the same weight if weights are uploaded. `parts_of` gives the parts
/// of either. Of most graphs that are not symmetric a few rows show it, and only the other is uploaded.
///
/// ```
/// use std::borrow::Cow;
/// use millstream_flow::{Context, Devices};
/// use millstream_graph::{CsrGraph, partition};
/// use millstream_traversal::Columns;
/// use millstream_traversal::internals::upload_entering;
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// for (back, is_symmetric) in [(5, true), (6, false)] {
///     let graph = CsrGraph::from_weighted_edges(2, &[(0, 1, 5u32), (1, 0, back)])?;
///     let parts_of = |entering: &CsrGraph| partition::contiguous_blocks(entering, 2);
///     let upload = upload_entering(&context, &graph, parts_of, Columns::Weighted);
///     let upload: Result<_, Box<dyn std::error::Error>> = context.block_on(upload)?;
///     assert_eq!(matches!(upload?.1, Cow::Borrowed(_)), is_symmetric);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`DistributedGraph::new`]; no memory for the arcs the other way round.
///
/// # Cancel safety
/// Cancel safe: what was uploaded is dropped.
///
/// # Device ordering
/// When it resolves, the arcs are in the devices' memory.
pub async fn upload_entering<'a, E: From<Error> + From<GraphError>>(
    context: &Context,
    graph: &'a CsrGraph,
    parts_of: impl Fn(&CsrGraph) -> Partition,
    columns: Columns,
) -> Result<(DistributedGraph, Cow<'a, CsrGraph>), E> {
    let has_weights = columns != Columns::Structure;
    if graph.looks_symmetric(has_weights) {
        let rows = DistributedGraph::new(context, graph, parts_of(graph), columns).await?;
        if Survey::of(&rows).await?.is_symmetric {
            return Ok((rows, Cow::Borrowed(graph)));
        }
    }
    let entering = if has_weights { graph.transposed()? } else { graph.transposed_structure()? };
    let rows = DistributedGraph::new(context, &entering, parts_of(&entering), columns).await?;
    Ok((rows, Cow::Owned(entering)))
}
