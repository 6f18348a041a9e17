//! Connected components.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use millstream::graph::CsrGraph;
use rayon::prelude::*;

/// The parents of a forest; they order no other memory.
struct UnionFind<'a>(&'a [AtomicU32]);

impl UnionFind<'_> {
    fn parent(&self, vertex: u32) -> u32 {
        self.0[vertex as usize].load(Relaxed)
    }

    fn find(&self, mut vertex: u32) -> u32 {
        loop {
            let parent = self.parent(vertex);
            let grandparent = self.parent(parent);
            if parent == grandparent {
                return parent;
            }
            let parents = &self.0[vertex as usize];
            let _ = parents.compare_exchange_weak(parent, grandparent, Relaxed, Relaxed);
            vertex = grandparent;
        }
    }

    fn unite(&self, mut one: u32, mut other: u32) {
        loop {
            (one, other) = (self.find(one), self.find(other));
            if one == other {
                return;
            }
            let (larger, smaller) = (one.max(other), one.min(other));
            let root = &self.0[larger as usize];
            if root.compare_exchange(larger, smaller, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
    }
}

/// Labels vertices with the smallest vertices of their components, whatever `labels` were, by
/// Anderson and Woll's union-find (STOC 1991): threads unite the ends of their arcs, larger root
/// below smaller, and halve paths on their way. Every arc must have its reverse, and only one of
/// the two is looked at.
pub fn components(graph: &CsrGraph, labels: &[AtomicU32]) {
    let (vertices, sets) = (0..graph.vertices(), UnionFind(labels));
    // Within the clock, as ours do it.
    vertices.clone().into_par_iter().for_each(|vertex| {
        labels[vertex as usize].store(vertex, Relaxed);
    });
    vertices.clone().into_par_iter().for_each(|vertex| {
        let smaller = graph.neighbors(vertex).iter().filter(|&&target| target < vertex);
        smaller.for_each(|&target| sets.unite(vertex, target));
    });
    // Roots stay roots, so that others find theirs meanwhile.
    vertices.into_par_iter().for_each(|vertex| {
        labels[vertex as usize].store(sets.find(vertex), Relaxed);
    });
}
