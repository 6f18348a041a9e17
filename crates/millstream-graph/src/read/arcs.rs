//! Arcs listed in a text, and the graph that is made of them.

use rayon::prelude::*;

use super::text::Weight;
use super::{Fault, ReadOptions};
use crate::build::{ArcSource, ArcWeight};
use crate::changed::{Changed, build_changed};
use crate::{CsrGraph, GraphError};

/// The arcs of a piece of text.
#[derive(Debug)]
pub(crate) struct Piece<Id> {
    pub(crate) ends: Vec<(Id, Id)>,
    /// Integers, or the bits of reals; one for each arc, or none at all.
    weights: Vec<u32>,
    has_reals: bool,
}

impl<Id> Default for Piece<Id> {
    fn default() -> Self {
        Piece { ends: Vec::new(), weights: Vec::new(), has_reals: false }
    }
}

impl<Id> Piece<Id> {
    #[inline]
    pub(crate) fn push_weight(&mut self, weight: Weight) {
        let bits = match weight {
            Weight::Integer(weight) if !self.has_reals => weight,
            Weight::Integer(weight) => (weight as f32).to_bits(),
            Weight::Real(weight) => {
                if !self.has_reals {
                    self.make_real();
                }
                weight.to_bits()
            }
        };
        self.weights.push(bits);
    }

    fn make_real(&mut self) {
        self.weights.iter_mut().for_each(|weight| *weight = (*weight as f32).to_bits());
        self.has_reals = true;
    }

    /// The same arcs between other ids.
    pub(crate) fn with_ends<Other>(self, ends: Vec<(Other, Other)>) -> Piece<Other> {
        Piece { ends, weights: self.weights, has_reals: self.has_reals }
    }
}

/// The type of all arcs' weights, if the format tells; otherwise the weights themselves decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weighting {
    None,
    /// Integers, unless there is a weight that is not an unsigned integer: then all are reals.
    Integer,
    /// Reals, whatever they look like.
    Real,
}

/// All arcs of a file.
#[derive(Debug)]
pub(crate) struct Arcs {
    /// As many as are [credible](credible_vertices), or as have bytes of their own in the file.
    pub(crate) vertices: u32,
    pub(crate) pieces: Vec<Piece<u32>>,
    pub(crate) weighting: Weighting,
    /// Each entry also stands for its reverse, unless it is a self-loop.
    pub(crate) is_symmetric: bool,
}

/// How many vertices a file may have without arcs that justify them. Each host device may keep some
/// 16 bytes for every vertex: half a gibibyte for this many on 32 devices.
const FREE_VERTICES: u64 = 1 << 20;

/// The number of vertices, if `arcs` arcs make it credible: a mere number must not take much memory.
pub(crate) fn credible_vertices(vertices: u64, arcs: u64) -> Result<u32, String> {
    let Ok(count) = u32::try_from(vertices) else {
        return Err(format!("{vertices} vertices do not fit 32-bit ids"));
    };
    if vertices > FREE_VERTICES + 2 * arcs {
        return Err(format!(
            "{vertices} vertices are not credible for {arcs} arcs (.mill, .graph and Galois \
             files may have any number; --relabel makes sparse ids of an edge list dense)"
        ));
    }
    Ok(count)
}

impl Arcs {
    /// Number of arcs that the file lists.
    pub(crate) fn entries(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.ends.len() as u64).sum()
    }

    /// The graph of the arcs, changed as `options` say.
    pub(crate) fn into_graph(mut self, options: &ReadOptions) -> Result<CsrGraph, Fault> {
        let has_reals =
            self.weighting == Weighting::Real || self.pieces.iter().any(|piece| piece.has_reals);
        if has_reals {
            let integers = self.pieces.par_iter_mut().filter(|piece| !piece.has_reals);
            integers.for_each(Piece::make_real);
        }
        let graph = match (self.weighting, has_reals) {
            (Weighting::None, _) => self.build(options, |_, _| ()),
            (_, false) => self.build(options, |piece, arc| piece.weights[arc]),
            (_, true) => self.build(options, |piece, arc| f32::from_bits(piece.weights[arc])),
        };
        graph.map_err(Fault::from)
    }

    fn build<W: ArcWeight>(
        &self,
        options: &ReadOptions,
        weight: impl Fn(&Piece<u32>, usize) -> W + Sync,
    ) -> Result<CsrGraph, GraphError> {
        let listed = Listed { pieces: &self.pieces, weight };
        let mirror = ReadOptions { symmetrize: self.is_symmetric, ..ReadOptions::default() };
        build_changed(self.vertices, &Changed { arcs: &listed, options: mirror }, options)
    }
}

/// The arcs of pieces of text.
struct Listed<'a, F> {
    pieces: &'a [Piece<u32>],
    weight: F,
}

impl<W: ArcWeight, F: Fn(&Piece<u32>, usize) -> W + Sync> ArcSource for Listed<'_, F> {
    type Weight = W;

    fn chunks(&self) -> usize {
        self.pieces.len()
    }

    #[inline]
    fn for_each(&self, chunk: usize, mut emit: impl FnMut(u32, u32, W)) {
        let piece = &self.pieces[chunk];
        for (arc, &(from, to)) in piece.ends.iter().enumerate() {
            emit(from, to, (self.weight)(piece, arc));
        }
    }
}
