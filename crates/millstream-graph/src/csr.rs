//! Compressed sparse rows: the graph every algorithm starts from.

use std::sync::Arc;

use crate::build::{self, ArcSource, ArcWeight, Duplicates};
use crate::pieces::first_position;
use crate::storage::Storage;
use crate::{RowIndex, Weights};

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
    /// A weight is infinite or not a number.
    #[error("the weight of arc {arc} is not a finite number")]
    WeightNotFinite {
        /// Position of the arc in its row order.
        arc: u64,
    },
    /// There are more or fewer original ids than vertices.
    #[error("{ids} original ids for {vertices} vertices")]
    OriginalIdCount {
        /// Number of ids.
        ids: u64,
        /// Number of vertices.
        vertices: u64,
    },
    /// Original ids that do not ascend, or the largest 64-bit number as an id, which stands for no vertex.
    #[error("the original id of vertex {vertex} is not above the one before, or stands for none")]
    OriginalIdOrder {
        /// The first such vertex.
        vertex: u32,
    },
    /// A source of arcs did not give the same arcs when it was gone through a second time.
    #[error("the source of arcs gave other arcs when it was gone through again")]
    ArcsChanged,
    /// Memory that is not there.
    #[error("a table of {bytes} bytes does not fit in memory")]
    OutOfMemory {
        /// Size of the table.
        bytes: u64,
    },
    /// More vertices than 32-bit ids can name.
    #[error("{vertices} vertices do not fit 32-bit ids")]
    TooManyVertices {
        /// Number of vertices asked for.
        vertices: u64,
    },
}

/// A directed graph in compressed sparse rows: 32-bit vertex ids, 64-bit
/// offsets, optional weights. An undirected graph stores both arcs. Clones share all but the weights.
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
    offsets: Storage<u64>,
    targets: Storage<u32>,
    weights: Option<Weights>,
    lattice_width: Option<u32>,
    original_ids: Option<Arc<Vec<u64>>>,
}

impl CsrGraph {
    /// Takes finished arrays: `offsets` has one entry more than there are
    /// vertices and ends at `targets.len()`.
    ///
    /// # Errors
    /// Offsets that are no row index, targets out of range, a wrong number of
    /// weights, a weight that is not finite.
    pub fn from_csr(
        offsets: Vec<u64>,
        targets: Vec<u32>,
        weights: Option<Weights>,
    ) -> Result<CsrGraph, GraphError> {
        CsrGraph::from_storage(offsets.into(), targets.into(), weights)
    }

    pub(crate) fn from_storage(
        offsets: Storage<u64>,
        targets: Storage<u32>,
        weights: Option<Weights>,
    ) -> Result<CsrGraph, GraphError> {
        let arcs = targets.len() as u64;
        let vertices = offsets.len().saturating_sub(1) as u64;
        if vertices > u64::from(u32::MAX) {
            return Err(GraphError::TooManyVertices { vertices });
        }
        if offsets.first() != Some(&0) {
            return Err(GraphError::Offsets { row: 0, arcs });
        }
        let starts = &offsets[..];
        let falls = |row: usize| starts[row] > starts[row + 1];
        if let Some(row) = first_position(vertices as usize, falls) {
            return Err(GraphError::Offsets { row: row as u64, arcs });
        }
        if offsets.last() != Some(&arcs) {
            return Err(GraphError::Offsets { row: vertices.saturating_sub(1), arcs });
        }
        let ends = &targets[..];
        let is_fault = |arc: usize| u64::from(ends[arc]) >= vertices;
        if let Some(arc) = first_position(ends.len(), is_fault) {
            let (arc, vertex) = (arc as u64, targets[arc]);
            return Err(GraphError::VertexOutOfRange { arc, vertex, vertices });
        }
        check_weights(weights.as_ref(), arcs)?;
        Ok(CsrGraph { offsets, targets, weights, lattice_width: None, original_ids: None })
    }

    /// Takes arrays that are known to be a graph.
    pub(crate) fn from_valid_csr(
        offsets: Vec<u64>,
        targets: Vec<u32>,
        weights: Option<Weights>,
    ) -> CsrGraph {
        CsrGraph {
            offsets: offsets.into(),
            targets: targets.into(),
            weights,
            lattice_width: None,
            original_ids: None,
        }
    }

    /// Builds rows from arcs `(source, target)`, directed as given; rows keep
    /// their targets in ascending order.
    ///
    /// # Errors
    /// An arc that names a vertex of `vertices` or more.
    pub fn from_edges(vertices: u32, edges: &[(u32, u32)]) -> Result<CsrGraph, GraphError> {
        build::from_arcs(vertices, &EdgeSlice(edges), Duplicates::Keep)
    }

    /// Builds rows from arcs `(source, target, weight)`, directed as given; rows
    /// are in ascending order of target, then weight.
    ///
    /// # Errors
    /// An arc that names a vertex of `vertices` or more, or a weight that is not
    /// finite.
    pub fn from_weighted_edges<W: ArcWeight>(
        vertices: u32,
        edges: &[(u32, u32, W)],
    ) -> Result<CsrGraph, GraphError> {
        build::from_arcs(vertices, &EdgeSlice(edges), Duplicates::Keep)
    }

    /// The graph, known to be a lattice whose rows are `width` vertices wide.
    #[must_use]
    pub fn with_lattice_width(mut self, width: Option<u32>) -> CsrGraph {
        self.lattice_width = width;
        self
    }

    /// The graph together with the ids that its vertices had where it came from, in ascending order
    /// of the present ids.
    ///
    /// # Errors
    /// Not exactly one id for each vertex; ids that do not ascend strictly; the id 2^64 - 1, which
    /// stands for no vertex in answers.
    pub fn with_original_ids(mut self, ids: Vec<u64>) -> Result<CsrGraph, GraphError> {
        if ids.len() as u64 != u64::from(self.vertices()) {
            let vertices = u64::from(self.vertices());
            return Err(GraphError::OriginalIdCount { ids: ids.len() as u64, vertices });
        }
        let falls = |pair: &[u64]| pair[0] >= pair[1];
        let wrong = ids.windows(2).position(falls).map(|before| before + 1);
        let none = ids.iter().position(|&id| id == u64::MAX);
        if let Some(vertex) = wrong.into_iter().chain(none).min() {
            return Err(GraphError::OriginalIdOrder { vertex: vertex as u32 });
        }
        self.original_ids = Some(Arc::new(ids));
        Ok(self)
    }

    /// Replaces the weights.
    ///
    /// # Errors
    /// A wrong number of weights, or one that is not finite.
    pub fn with_weights(self, weights: Option<Weights>) -> Result<CsrGraph, GraphError> {
        check_weights(weights.as_ref(), self.arcs())?;
        Ok(CsrGraph { weights, ..self })
    }

    /// The same graph without its weights. It shares all other arrays with this one.
    ///
    /// ```
    /// use millstream_graph::{CsrGraph, Weights};
    ///
    /// let graph = CsrGraph::from_edges(3, &[(0, 1), (1, 2)])?;
    /// let graph = graph.with_weights(Some(Weights::Integer(vec![7, 8])))?;
    /// assert_eq!(graph.structure().neighbors(1), graph.neighbors(1));
    /// assert_eq!(graph.structure().weights(), None);
    /// # Ok::<(), millstream_graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn structure(&self) -> CsrGraph {
        CsrGraph {
            offsets: self.offsets.clone(),
            targets: self.targets.clone(),
            weights: None,
            lattice_width: self.lattice_width,
            original_ids: self.original_ids.clone(),
        }
    }

    /// Width of the lattice, if the graph's generator said that it is one.
    pub fn lattice_width(&self) -> Option<u32> {
        self.lattice_width
    }

    /// Ids that the vertices had in the file, if they were renumbered.
    pub fn original_ids(&self) -> Option<&[u64]> {
        self.original_ids.as_ref().map(|ids| &ids[..])
    }

    /// Number of vertices.
    #[inline]
    pub fn vertices(&self) -> u32 {
        (self.offsets.len() - 1) as u32
    }

    /// Number of arcs stored.
    #[inline]
    pub fn arcs(&self) -> u64 {
        self.targets.len() as u64
    }

    /// Row index: `offsets()[v]..offsets()[v + 1]` are the arcs that leave `v`.
    #[inline]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The same, in a form that may outlive the graph; nothing is copied.
    pub fn row_index(&self) -> RowIndex {
        RowIndex::shared(self.offsets.clone())
    }

    /// Targets of all arcs, row by row.
    #[inline]
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// The same, in a form that may outlive the graph; nothing is copied.
    pub fn shared_targets(&self) -> Arc<dyn AsRef<[u32]> + Send + Sync> {
        Arc::new(self.targets.clone())
    }

    /// Whether the targets lie in a [mapped](crate::read) file, whose pages are small.
    pub fn is_mapped(&self) -> bool {
        self.targets.is_mapped()
    }

    /// Weights of all arcs, row by row.
    pub fn weights(&self) -> Option<&Weights> {
        self.weights.as_ref()
    }

    /// Takes the weights out of the graph.
    pub fn take_weights(&mut self) -> Option<Weights> {
        self.weights.take()
    }

    /// Number of arcs that leave `vertex`.
    ///
    /// # Panics
    /// If `vertex` is out of range.
    #[inline]
    pub fn degree(&self, vertex: u32) -> u64 {
        self.offsets[vertex as usize + 1] - self.offsets[vertex as usize]
    }

    /// Targets of the arcs that leave `vertex`.
    ///
    /// # Panics
    /// If `vertex` is out of range.
    #[inline]
    pub fn neighbors(&self, vertex: u32) -> &[u32] {
        &self.targets[self.row(vertex)]
    }

    /// Positions of the arcs that leave `vertex`.
    ///
    /// # Panics
    /// If `vertex` is out of range.
    #[inline]
    pub fn row(&self, vertex: u32) -> std::ops::Range<usize> {
        self.offsets[vertex as usize] as usize..self.offsets[vertex as usize + 1] as usize
    }
}

/// Arcs in memory.
struct EdgeSlice<'a, E>(&'a [E]);

/// Arcs in each chunk of a slice.
const SLICE_CHUNK: usize = 1 << 14;

impl ArcSource for EdgeSlice<'_, (u32, u32)> {
    type Weight = ();

    fn chunks(&self) -> usize {
        self.0.len().div_ceil(SLICE_CHUNK)
    }

    fn for_each(&self, chunk: usize, mut emit: impl FnMut(u32, u32, ())) {
        let rest = &self.0[chunk * SLICE_CHUNK..];
        rest.iter().take(SLICE_CHUNK).for_each(|&(source, target)| emit(source, target, ()));
    }
}

impl<W: ArcWeight> ArcSource for EdgeSlice<'_, (u32, u32, W)> {
    type Weight = W;

    fn chunks(&self) -> usize {
        self.0.len().div_ceil(SLICE_CHUNK)
    }

    fn for_each(&self, chunk: usize, mut emit: impl FnMut(u32, u32, W)) {
        let rest = &self.0[chunk * SLICE_CHUNK..];
        rest.iter().take(SLICE_CHUNK).for_each(|&(from, to, weight)| emit(from, to, weight));
    }
}

/// A finite weight for each arc, or none at all.
fn check_weights(weights: Option<&Weights>, arcs: u64) -> Result<(), GraphError> {
    let Some(weights) = weights else { return Ok(()) };
    if weights.len() as u64 != arcs {
        return Err(GraphError::WeightCount { weights: weights.len() as u64, arcs });
    }
    if let Weights::Real(weights) = weights
        && let Some(arc) = first_position(weights.len(), |arc| !weights[arc].is_finite())
    {
        return Err(GraphError::WeightNotFinite { arc: arc as u64 });
    }
    Ok(())
}
