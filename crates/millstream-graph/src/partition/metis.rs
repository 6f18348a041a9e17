//! Few arcs between parts, by METIS (Karypis and Kumar, SIAM J. Sci. Comput. 20(1),
//! 1998).

use parking_lot::Mutex;

use super::{Partition, PartitionError, contiguous_blocks};
use crate::CsrGraph;
use crate::symmetric::{EdgeSource, symmetric_graph};

/// Marks vertices without a part.
const NO_PART: u32 = u32::MAX;

/// METIS draws from the C library's random generator, which it seeds at the start of a call:
/// simultaneous calls would draw from each other's numbers.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Cuts the graph by METIS's multilevel k-way scheme, balancing degree + 1. METIS
/// wants an undirected graph, so directions are forgotten first: two vertices are
/// neighbours if an arc leads from one to the other, whichever way and how often.
/// Self-loops and weights do not count. Vertices without neighbours fill up the parts
/// afterwards: METIS cannot make a graph of many of these any smaller. With at least as
/// many parts as vertices, each vertex is a part.
///
/// While it runs, METIS handles SIGTERM and SIGABRT of the process itself. If such a signal comes
/// to another thread, it may end the process as a fault does. Programs that are to survive this
/// block SIGTERM in all threads, and wait for it in one. For some graphs and many parts, METIS
/// prints remarks to C's standard output.
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

    let connected: Vec<u32> =
        (0..vertices).filter(|&vertex| undirected.degree(vertex) > 0).collect();
    let mut part_of = vec![NO_PART; vertices as usize];
    let connected_parts = match connected.len() > parts {
        true => divide(&undirected, &connected, metis_parts)?,
        false => (0..connected.len() as i32).collect(),
    };
    for (&vertex, part) in connected.iter().zip(connected_parts) {
        part_of[vertex as usize] = part as u32;
    }
    fill_up(&undirected, parts, &mut part_of);
    Partition::from_parts(parts, &part_of)
}

/// METIS's part of each vertex of `connected`; it does not get the other vertices.
fn divide(
    undirected: &CsrGraph,
    connected: &[u32],
    parts: i32,
) -> Result<Vec<i32>, PartitionError> {
    let mut place = vec![0; undirected.vertices() as usize];
    for (at, &vertex) in connected.iter().enumerate() {
        place[vertex as usize] = at as i32;
    }
    // The other vertices have no arcs, so all arcs belong to these.
    let begins = connected.iter().map(|&vertex| undirected.row(vertex).start as i32);
    let index: Vec<i32> = begins.chain([undirected.arcs() as i32]).collect();
    let targets = undirected.targets();
    let neighbors: Vec<i32> = targets.iter().map(|&target| place[target as usize]).collect();
    let weights: Vec<i32> = index.windows(2).map(|row| row[1] - row[0] + 1).collect();
    let mut part_of = vec![0; connected.len()];
    let failed = |reason: String| PartitionError::Metis { reason };
    let _guard = ONE_AT_A_TIME.lock();
    ::metis::Graph::new(1, parts, &index, &neighbors)
        .map_err(|error| failed(error.to_string()))?
        .set_vwgt(&weights)
        .part_kway(&mut part_of)
        .map_err(|error| failed(error.to_string()))?;
    Ok(part_of)
}

/// Puts vertices without a part into the parts, one part after the other, until each is as heavy as the mean.
fn fill_up(undirected: &CsrGraph, parts: usize, part_of: &mut [u32]) {
    let mut loads = vec![0; parts];
    for (vertex, &part) in part_of.iter().enumerate().filter(|&(_, &part)| part != NO_PART) {
        loads[part as usize] += undirected.degree(vertex as u32) + 1;
    }
    let mean = (undirected.arcs() + part_of.len() as u64).div_ceil(parts as u64);
    let mut part = 0;
    for unset in part_of.iter_mut().filter(|part| **part == NO_PART) {
        while part + 1 < parts && loads[part] >= mean {
            part += 1;
        }
        *unset = part as u32;
        loads[part] += 1;
    }
}

/// Each vertex's arcs, as undirected edges.
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
