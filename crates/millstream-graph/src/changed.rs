//! Graphs whose arcs are mirrored, reversed or partly left out.

use crate::build::{ArcSource, ArcWeight, Duplicates, from_arcs};
use crate::read::ReadOptions;
use crate::{CsrGraph, GraphError, Weights};

/// Arcs, changed as options say.
pub(crate) struct Changed<'a, S> {
    pub(crate) arcs: &'a S,
    pub(crate) options: ReadOptions,
}

impl<S: ArcSource> ArcSource for Changed<'_, S> {
    type Weight = S::Weight;

    fn chunks(&self) -> usize {
        self.arcs.chunks()
    }

    #[inline]
    fn for_each(&self, chunk: usize, mut emit: impl FnMut(u32, u32, S::Weight)) {
        let ReadOptions { symmetrize, drop_self_loops, transpose, .. } = self.options;
        self.arcs.for_each(chunk, |from, to, weight| {
            if drop_self_loops && from == to {
                return;
            }
            let (from, to) = if transpose { (to, from) } else { (from, to) };
            emit(from, to, weight);
            if symmetrize && from != to {
                emit(to, from, weight);
            }
        });
    }
}

/// The graph of `arcs`, changed as `options` say; rows are sorted by target and weight.
pub(crate) fn build_changed<S: ArcSource>(
    vertices: u32,
    arcs: &S,
    options: &ReadOptions,
) -> Result<CsrGraph, GraphError> {
    let duplicates = if options.dedupe { Duplicates::KeepLightest } else { Duplicates::Keep };
    from_arcs(vertices, &Changed { arcs, options: *options }, duplicates)
}

/// A graph that was stored as one, changed as `options` say; with no changes, rows stay in the
/// order of the file.
pub(crate) fn change_graph(graph: CsrGraph, options: &ReadOptions) -> Result<CsrGraph, GraphError> {
    let is_rebuilt = options.symmetrize || options.dedupe || options.drop_self_loops;
    let changed = match is_rebuilt {
        true => rebuild_graph(&graph, options)?,
        false if options.transpose => graph.transposed()?,
        false => return Ok(graph),
    };
    let changed = changed.with_lattice_width(graph.lattice_width());
    match graph.original_ids() {
        Some(ids) => changed.with_original_ids(ids.to_vec()),
        None => Ok(changed),
    }
}

/// The rows of `graph`, changed as `options` say, and sorted by target and weight.
pub(crate) fn rebuild_graph(
    graph: &CsrGraph,
    options: &ReadOptions,
) -> Result<CsrGraph, GraphError> {
    match graph.weights() {
        None => rebuild(graph, options, |_| ()),
        Some(Weights::Integer(weights)) => rebuild(graph, options, |arc| weights[arc]),
        Some(Weights::Real(weights)) => rebuild(graph, options, |arc| weights[arc]),
    }
}

fn rebuild<W: ArcWeight>(
    graph: &CsrGraph,
    options: &ReadOptions,
    weight: impl Fn(usize) -> W + Sync,
) -> Result<CsrGraph, GraphError> {
    build_changed(graph.vertices(), &Rows { graph, weight }, options)
}

/// The arcs of a graph.
struct Rows<'a, F> {
    graph: &'a CsrGraph,
    weight: F,
}

/// The rows that one thread handles at a time.
const ROWS: usize = 1 << 12;

impl<W: ArcWeight, F: Fn(usize) -> W + Sync> ArcSource for Rows<'_, F> {
    type Weight = W;

    fn chunks(&self) -> usize {
        (self.graph.vertices() as usize).div_ceil(ROWS)
    }

    fn for_each(&self, chunk: usize, mut emit: impl FnMut(u32, u32, W)) {
        let first = chunk * ROWS;
        for vertex in first..(first + ROWS).min(self.graph.vertices() as usize) {
            let vertex = vertex as u32;
            for arc in self.graph.row(vertex) {
                emit(vertex, self.graph.targets()[arc], (self.weight)(arc));
            }
        }
    }
}
