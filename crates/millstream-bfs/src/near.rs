//! Whether a graph is searched by near and far piles.

use millstream_graph::CsrGraph;
use millstream_traversal::internals::{NearRows, RowWidth};
use millstream_traversal::{DepthProbe, DistributedGraph, Unsuitable};

use crate::Result;
use crate::algorithm::Algorithm;
use crate::bfs::BfsOptions;
use crate::rule::Levels;

/// The packed rows of a graph whose neighbourhoods are as deep as `depth` says, if options and levels
/// want that; else why not.
pub(crate) async fn near_rows(
    graph: &CsrGraph,
    distributed: &DistributedGraph,
    depth: DepthProbe,
    options: &BfsOptions,
) -> Result<Result<NearRows, Unsuitable>> {
    let is_needed = match options.algorithm {
        Algorithm::NearFar => true,
        Algorithm::Auto | Algorithm::LevelSynchronous => false,
        Algorithm::Asynchronous => return Ok(Err(Unsuitable::Upload)),
    };
    if !options.layouts {
        return Ok(Err(Unsuitable::Upload));
    }
    if !depth.is_thin() {
        return Ok(Err(Unsuitable::Levels));
    }
    let width = RowWidth::of(graph);
    // Of longer rows few levels take no longer one by one, nor do many on host devices.
    let are_long = width.is_some_and(|width| width != RowWidth::Four);
    let are_gpus = distributed.context().all_gpus();
    let is_far = if are_gpus { depth.is_deep() } else { depth.is_chain_like() };
    if are_long && !is_far && !is_needed {
        return Ok(Err(Unsuitable::Levels));
    }
    Ok(NearRows::new::<Levels>(graph, distributed, width, is_needed).await?)
}
