//! Whether a graph is searched by near and far piles.

use millstream_flow::Context;
use millstream_graph::CsrGraph;
use millstream_traversal::internals::{NearRows, RowWidth};
use millstream_traversal::{DepthProbe, DistributedGraph, Unsuitable};

use crate::Result;
use crate::algorithm::Algorithm;
use crate::options::BfsOptions;
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
    // Else of longer rows levels take no longer one by one.
    let are_long = width.is_some_and(|width| width != RowWidth::Four);
    if are_long && !has_many_levels(distributed.context(), depth) && !is_needed {
        return Ok(Err(Unsuitable::Levels));
    }
    Ok(NearRows::new::<Levels>(graph, distributed, width, is_needed).await?)
}

/// Whether devices should not meet after each level of a graph: on a GPU alone not in a mesh of three
/// dimensions either, in which several would have large halos.
pub(crate) fn has_many_levels(context: &Context, depth: DepthProbe) -> bool {
    match (context.all_gpus(), context.devices().len()) {
        (true, 1) => !depth.is_near(),
        (true, _) => depth.is_deep(),
        (false, _) => depth.is_chain_like(),
    }
}
