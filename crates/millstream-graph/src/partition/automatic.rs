//! The partitioner that suits a graph.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use super::{Partition, edge_balanced_blocks};
use crate::pieces::InPieces;
use crate::{CsrGraph, Degrees};

/// A vertex with more arcs than this is a hub. Vertices of road maps have at most 10 arcs, those of
/// finite elements seldom more than 30.
const HUB: u64 = 32;

/// [METIS](super::metis()) for mesh-like graphs, if it is compiled in and can take the graph, and
/// [`edge_balanced_blocks`] for all others. On a power-law graph METIS takes many times as long to
/// cut a few percent fewer arcs than blocks; on a mesh it cuts several times fewer. For 24 M
/// vertices METIS takes 16 s, and searches on GPUs that are peers gain little by it.
pub fn automatic(graph: &CsrGraph, parts: usize) -> Partition {
    #[cfg(feature = "metis")]
    if parts > 1
        && is_mesh_like(graph)
        && let Ok(partition) = super::metis(graph, parts)
    {
        return partition;
    }
    edge_balanced_blocks(graph, parts)
}

/// Whether any vertex is a hub: one that more than 32 arcs leave, or that more than 32 enter.
///
/// ```
/// use millstream_graph::{RowIndex, partition};
///
/// let [few, many] = [vec![1, 32], vec![0, 33]].map(RowIndex::new);
/// assert!(!partition::have_hubs(&few, &few) && partition::have_hubs(&few, &many));
/// ```
pub fn have_hubs(leaving: &impl Degrees, entering: &impl Degrees) -> bool {
    has_hub(leaving) || has_hub(entering)
}

fn has_hub(degrees: &impl Degrees) -> bool {
    let vertices = (0..degrees.vertices()).into_par_iter().in_pieces();
    vertices.any(|vertex| degrees.degree(vertex) > HUB)
}

/// Whether no vertex is a [hub](have_hubs). Power-law graphs of any size worth dividing have vertices with
/// hundreds of arcs.
pub fn is_mesh_like(graph: &CsrGraph) -> bool {
    let vertices = graph.vertices();
    if has_hub(graph) {
        return false;
    }
    let entering: Vec<AtomicU32> = (0..vertices).map(|_| AtomicU32::new(0)).collect();
    !graph
        .targets()
        .par_iter()
        .in_pieces()
        .any(|&target| u64::from(entering[target as usize].fetch_add(1, Ordering::Relaxed)) >= HUB)
}
