//! Few arcs between parts, by METIS (Karypis and Kumar, SIAM J. Sci. Comput. 20(1),
//! 1998).

use parking_lot::Mutex;

use super::{Partition, PartitionError, contiguous_blocks};
use crate::CsrGraph;
use crate::symmetric::{EdgeSource, symmetric_graph};

/// METIS draws from the C library's generator, which it seeds at the start of a
/// call: calls at the same time would draw from each other's numbers.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Cuts the graph by METIS's multilevel k-way scheme, balancing degree + 1. METIS
/// wants an undirected graph, so directions are forgotten first: two vertices are
/// neighbours if an arc leads from one to the other, whichever way and how often.
/// Self-loops and weights do not count. With at least as many parts as vertices,
/// each vertex is a part.
///
/// # Errors
/// More vertices and arcs than METIS's 31 bits can count, no memory.
pub fn metis(graph: &CsrGraph, parts: usize) -> Result<Partition, PartitionError> {
    if parts <= 1 || parts >= graph.vertices() as usize {
        return Ok(contiguous_blocks(graph, parts));
    }
    let undirected = symmetric_graph(graph.vertices(), &Arcs(graph))?;
    let (vertices, arcs) = (graph.vertices(), undirected.arcs());
    let too_large = || PartitionError::TooLargeForMetis { vertices, arcs, parts };
    // The sum of all weights bounds every other number.
    let total_weight = arcs + u64::from(vertices);
    i32::try_from(total_weight).map_err(|_| too_large())?;
    let metis_parts = i32::try_from(parts).map_err(|_| too_large())?;

    let index: Vec<i32> = undirected.offsets().iter().map(|&offset| offset as i32).collect();
    let neighbors: Vec<i32> = undirected.targets().iter().map(|&target| target as i32).collect();
    let weights: Vec<i32> = index.windows(2).map(|row| row[1] - row[0] + 1).collect();
    let mut part_of = vec![0; vertices as usize];
    let _guard = ONE_AT_A_TIME.lock();
    ::metis::Graph::new(1, metis_parts, &index, &neighbors)
        .map_err(|error| PartitionError::Metis { reason: error.to_string() })?
        .set_vwgt(&weights)
        .part_kway(&mut part_of)
        .map_err(|error| PartitionError::Metis { reason: error.to_string() })?;
    let part_of: Vec<u32> = part_of.into_iter().map(|part| part as u32).collect();
    Partition::from_parts(parts, &part_of)
}

/// Each vertex's arcs, as edges.
struct Arcs<'a>(&'a CsrGraph);

impl EdgeSource for Arcs<'_> {
    fn items(&self) -> u64 {
        u64::from(self.0.vertices())
    }

    fn edges(&self, vertex: u64, mut emit: impl FnMut(u32, u32)) {
        let vertex = vertex as u32;
        self.0.neighbors(vertex).iter().for_each(|&target| emit(vertex, target));
    }
}
