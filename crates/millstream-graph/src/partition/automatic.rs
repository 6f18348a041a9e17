//! The partitioner that suits a graph.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use super::regions::region_blocks_of_most;
use super::{Partition, edge_balanced_blocks};
use crate::pieces::InPieces;
use crate::{CsrGraph, Degrees, DepthProbe};

/// A vertex with more arcs than this is a hub. Vertices of road maps have at most 10 arcs, those of
/// finite elements seldom more than 30.
const HUB: u64 = 32;

/// Vertices, evenly spread, whose arcs tell how many are cut.
const SAMPLE: u32 = 1 << 12;
/// The most arcs of each that count: a hub may have most of a graph's.
const SAMPLE_ARCS: usize = 64;
/// Parts are scattered if more than one of so many arcs is cut.
const SCATTERED: u64 = 16;

/// Parts for searches whose devices should seldom meet: [`edge_balanced_blocks`], but
/// [`region_blocks`](super::region_blocks) if the graph [suits](suits_regions) these, and regions reach seven
/// eighths of its vertices: not if it is all small components.
///
/// ```
/// use millstream_graph::generate::{self, GenerateOptions};
/// use millstream_graph::partition;
///
/// let mesh = generate::grid(100, 100, &GenerateOptions::default())?;
/// assert!(!partition::automatic(&mesh, 2).is_renumbered());
/// let scattered = partition::random(&mesh, 100, 1).renumber(&mesh);
/// assert!(partition::automatic(&scattered, 2).is_renumbered());
/// assert!(partition::automatic(&scattered, 2).edge_cut(&scattered) < 1000);
/// # Ok::<(), millstream_graph::generate::GenerateError>(())
/// ```
pub fn automatic(graph: &CsrGraph, parts: usize) -> Partition {
    let regions = || region_blocks_of_most(graph, parts);
    let suitable = suits_regions(graph, parts).then(regions).flatten();
    suitable.unwrap_or_else(|| edge_balanced_blocks(graph, parts))
}

/// Whether [`edge_balanced_blocks`] cut more than a sixteenth of the arcs of a graph that is not
/// [near](DepthProbe::is_near): a mesh or a road map whose ids say nothing of where vertices lie. That is
/// found out in milliseconds, from a sample.
///
/// ```
/// use millstream_graph::generate::{self, GenerateOptions};
/// use millstream_graph::partition;
///
/// let mesh = generate::grid(100, 100, &GenerateOptions::default())?;
/// let scattered = partition::random(&mesh, 100, 1).renumber(&mesh);
/// assert!(partition::suits_regions(&scattered, 2) && !partition::suits_regions(&mesh, 2));
/// # Ok::<(), millstream_graph::generate::GenerateError>(())
/// ```
pub fn suits_regions(graph: &CsrGraph, parts: usize) -> bool {
    parts > 1
        && are_scattered(graph, &edge_balanced_blocks(graph, parts))
        && !DepthProbe::new(graph).is_near()
}

fn are_scattered(graph: &CsrGraph, parts: &Partition) -> bool {
    let step = (graph.vertices() / SAMPLE).max(1) as usize;
    let (mut arcs, mut cut) = (0, 0);
    for vertex in (0..graph.vertices()).step_by(step) {
        let own = parts.range(parts.owner(vertex));
        let targets = graph.neighbors(vertex).iter().take(SAMPLE_ARCS);
        arcs += targets.len() as u64;
        cut += targets.filter(|target| !own.contains(target)).count() as u64;
    }
    cut * SCATTERED > arcs
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
