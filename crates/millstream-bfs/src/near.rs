//! Whether a graph is searched by near and far piles.

use millstream_flow::Context;
use millstream_graph::{CsrGraph, DepthProbe};
use millstream_traversal::internals::{NearRows, RowWidth};
use millstream_traversal::{DistributedGraph, Unsuitable};

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
    let (context, width) = (distributed.context(), RowWidth::of(graph));
    let takes_longer_by_levels = match width {
        // Without a width `NearRows::new` says why not.
        None | Some(RowWidth::Four) => true,
        // In space, too, but for rows so wide that it has few levels.
        Some(RowWidth::Eight) if context.all_gpus() => !depth.is_near(),
        Some(_) => has_many_levels(context, depth),
    };
    if !takes_longer_by_levels && !is_needed {
        return Ok(Err(Unsuitable::Levels));
    }
    Ok(NearRows::new::<Levels>(graph, distributed, width, is_needed).await?)
}

/// Whether devices should not meet after each level of a graph.
pub(crate) fn has_many_levels(context: &Context, depth: DepthProbe) -> bool {
    match context.all_gpus() {
        true => depth.is_deep(),
        false => depth.is_chain_like(),
    }
}

/// Levels that are near at a time, as measured (`docs/decisions/0025-near-and-far-piles.md`): on GPUs, the
/// wider rows are, the fewer, since more vertices are visited again out of order.
pub(crate) fn near_levels(on_gpus: bool, width: Option<RowWidth>) -> f64 {
    match width {
        Some(RowWidth::Four) if on_gpus => 512.0,
        Some(RowWidth::Sixteen | RowWidth::ThirtyTwo) if on_gpus => 64.0,
        _ => 128.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_levels_are_near_where_rows_are_wide() {
        use RowWidth::{Eight, Four, Sixteen, ThirtyTwo};
        let widths = [Four, Eight, Sixteen, ThirtyTwo].map(Some);
        assert_eq!(widths.map(|width| near_levels(true, width)), [512.0, 128.0, 64.0, 64.0]);
        assert_eq!(widths.map(|width| near_levels(false, width)), [128.0; 4]);
        assert_eq!([true, false].map(|on_gpus| near_levels(on_gpus, None)), [128.0; 2]);
    }
}
