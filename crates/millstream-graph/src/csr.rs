//! Compressed sparse rows: the graph every algorithm starts from.

use rayon::prelude::*;

/// Arc weights, as the file or the generator gave them.
#[derive(Clone, Debug, PartialEq)]
pub enum Weights {
    /// Unsigned integers stay integers.
    Integer(Vec<u32>),
    /// Everything else (reals, negative integers).
    Real(Vec<f32>),
}

impl Weights {
    /// Number of weights; one for each arc.
    pub fn len(&self) -> usize {
        match self {
            Weights::Integer(weights) => weights.len(),
            Weights::Real(weights) => weights.len(),
        }
    }

    /// Whether there is no weight at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why arrays from memory are not a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// An endpoint of an arc is not a vertex.
    #[error("arc {arc} names vertex {vertex}, but there are only {vertices} vertices")]
    VertexOutOfRange {
        /// Position of the arc.
        arc: u64,
        /// The offending id.
        vertex: u32,
        /// Number of vertices.
        vertices: u64,
    },
    /// Offsets do not start at 0, decrease, or do not end at the number of arcs.
    #[error("offsets are not a row index of {arcs} arcs (first fault at row {row})")]
    Offsets {
        /// Row of the first fault.
        row: u64,
        /// Number of arcs.
        arcs: u64,
    },
    /// There are more or fewer weights than arcs.
    #[error("{weights} weights for {arcs} arcs")]
    WeightCount {
        /// Number of weights.
        weights: u64,
        /// Number of arcs.
        arcs: u64,
    },
    /// More vertices than 32-bit ids can name.
    #[error("{vertices} vertices do not fit 32-bit ids")]
    TooManyVertices {
        /// Number of vertices asked for.
        vertices: u64,
    },
}

/// A directed graph in compressed sparse rows: 32-bit vertex ids, 64-bit
/// offsets, optional weights. An undirected graph stores both arcs.
///
/// ```
/// use millstream_graph::CsrGraph;
///
/// let graph = CsrGraph::from_edges(3, &[(0, 1), (1, 2), (0, 2)])?;
/// assert_eq!(graph.neighbors(0), &[1, 2]);
/// # Ok::<(), millstream_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CsrGraph {
    offsets: Vec<u64>,
    targets: Vec<u32>,
    weights: Option<Weights>,
    lattice_width: Option<u32>,
}

impl CsrGraph {
    /// Takes finished arrays: `offsets` has one entry more than there are
    /// vertices and ends at `targets.len()`.
    ///
    /// # Errors
    /// Offsets that are no row index, targets out of range, a wrong number of weights.
    pub fn from_csr(
        offsets: Vec<u64>,
        targets: Vec<u32>,
        weights: Option<Weights>,
    ) -> Result<CsrGraph, GraphError> {
        let arcs = targets.len() as u64;
        let vertices = offsets.len().saturating_sub(1) as u64;
        if vertices > u64::from(u32::MAX) {
            return Err(GraphError::TooManyVertices { vertices });
        }
        if offsets.first() != Some(&0) || offsets.last() != Some(&arcs) {
            return Err(GraphError::Offsets { row: 0, arcs });
        }
        if let Some(row) = offsets.par_windows(2).position_first(|pair| pair[0] > pair[1]) {
            return Err(GraphError::Offsets { row: row as u64, arcs });
        }
        if let Some(arc) =
            targets.par_iter().position_first(|&target| u64::from(target) >= vertices)
        {
            return Err(GraphError::VertexOutOfRange {
                arc: arc as u64,
                vertex: targets[arc],
                vertices,
            });
        }
        if let Some(weights) = &weights
            && weights.len() as u64 != arcs
        {
            return Err(GraphError::WeightCount { weights: weights.len() as u64, arcs });
        }
        Ok(CsrGraph { offsets, targets, weights, lattice_width: None })
    }

    /// Takes arrays that are known to be a graph.
    pub(crate) fn from_valid_csr(
        offsets: Vec<u64>,
        targets: Vec<u32>,
        weights: Option<Weights>,
    ) -> CsrGraph {
        CsrGraph { offsets, targets, weights, lattice_width: None }
    }

    /// Builds rows from arcs `(source, target)`, directed as given; rows keep
    /// their targets in ascending order.
    ///
    /// # Errors
    /// An arc that names a vertex of `vertices` or more.
    pub fn from_edges(vertices: u32, edges: &[(u32, u32)]) -> Result<CsrGraph, GraphError> {
        let check = |&(source, target): &(u32, u32)| source.max(target) >= vertices;
        if let Some(arc) = edges.par_iter().position_first(check) {
            let (source, target) = edges[arc];
            let vertex = source.max(target);
            return Err(GraphError::VertexOutOfRange {
                arc: arc as u64,
                vertex,
                vertices: u64::from(vertices),
            });
        }
        let mut sorted = edges.to_vec();
        sorted.par_sort_unstable();
        let mut offsets = vec![0u64; vertices as usize + 1];
        for &(source, _) in &sorted {
            offsets[source as usize + 1] += 1;
        }
        for vertex in 0..vertices as usize {
            offsets[vertex + 1] += offsets[vertex];
        }
        let targets = sorted.into_iter().map(|(_, target)| target).collect();
        Ok(CsrGraph { offsets, targets, weights: None, lattice_width: None })
    }

    /// Number of vertices.
    pub fn vertices(&self) -> u32 {
        (self.offsets.len() - 1) as u32
    }

    /// Number of arcs stored.
    pub fn arcs(&self) -> u64 {
        self.targets.len() as u64
    }

    /// Row index: `offsets()[v]..offsets()[v + 1]` are the arcs that leave `v`.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Targets of all arcs, row by row.
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// Weights of all arcs, row by row.
    pub fn weights(&self) -> Option<&Weights> {
        self.weights.as_ref()
    }

    /// Number of arcs that leave `vertex`.
    ///
    /// # Panics
    /// If `vertex` is out of range.
    pub fn degree(&self, vertex: u32) -> u64 {
        self.offsets[vertex as usize + 1] - self.offsets[vertex as usize]
    }

    /// Targets of the arcs that leave `vertex`.
    ///
    /// # Panics
    /// If `vertex` is out of range.
    pub fn neighbors(&self, vertex: u32) -> &[u32] {
        &self.targets[self.row(vertex)]
    }

    /// Positions of the arcs that leave `vertex`.
    ///
    /// # Panics
    /// If `vertex` is out of range.
    pub fn row(&self, vertex: u32) -> std::ops::Range<usize> {
        self.offsets[vertex as usize] as usize..self.offsets[vertex as usize + 1] as usize
    }

    /// Other weights, or none.
    ///
    /// # Errors
    /// A number of weights that is not the number of arcs.
    pub fn with_weights(mut self, weights: Option<Weights>) -> Result<CsrGraph, GraphError> {
        if let Some(weights) = &weights
            && weights.len() as u64 != self.arcs()
        {
            return Err(GraphError::WeightCount {
                weights: weights.len() as u64,
                arcs: self.arcs(),
            });
        }
        self.weights = weights;
        Ok(self)
    }

    /// Width of the lattice that the graph was generated on, whose vertices are
    /// numbered row by row; `None` for any other graph.
    pub fn lattice_width(&self) -> Option<u32> {
        self.lattice_width
    }

    /// Records the width of the lattice.
    pub fn with_lattice_width(mut self, width: u32) -> CsrGraph {
        self.lattice_width = Some(width);
        self
    }
}
