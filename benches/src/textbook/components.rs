//! Connected components.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use millstream::graph::CsrGraph;
use rayon::prelude::*;

/// The parents of a forest; they order no other memory.
struct UnionFind(Vec<AtomicU32>);

impl UnionFind {
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

/// The smallest vertex of each vertex's component, by Anderson and Woll's union-find
/// (STOC 1991): threads unite the ends of their arcs, larger root below smaller, and halve
/// paths on their way. Every arc must have its reverse, and only one of the two is looked at.
pub fn components(graph: &CsrGraph) -> Vec<u32> {
    let vertices = 0..graph.vertices();
    let sets = UnionFind(vertices.clone().into_par_iter().map(AtomicU32::new).collect());
    vertices.clone().into_par_iter().for_each(|vertex| {
        let smaller = graph.neighbors(vertex).iter().filter(|&&target| target < vertex);
        smaller.for_each(|&target| sets.unite(vertex, target));
    });
    vertices.into_par_iter().map(|vertex| sets.find(vertex)).collect()
}
