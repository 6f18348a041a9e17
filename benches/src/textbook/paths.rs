//! Shortest paths, by arcs and by weights.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use millstream::graph::CsrGraph;
use rayon::prelude::*;

/// The value of a vertex that has not been reached.
const UNREACHED: u32 = u32::MAX;

/// The fewest vertices of a task.
const VERTICES_OF_A_TASK: usize = 64;

/// All that `visit` emits for the vertices of a frontier.
fn expand<T: Send>(frontier: &[u32], visit: impl Fn(u32, &mut Vec<T>) + Sync) -> Vec<T> {
    let parts = frontier.par_chunks(VERTICES_OF_A_TASK).fold(Vec::new, |mut emitted, chunk| {
        chunk.iter().for_each(|&vertex| visit(vertex, &mut emitted));
        emitted
    });
    parts.reduce(Vec::new, |mut all, part| {
        all.extend(part);
        all
    })
}

/// Values of vertices of which none has been reached.
pub fn unreached(graph: &CsrGraph) -> Vec<AtomicU32> {
    (0..graph.vertices()).map(|_| AtomicU32::new(UNREACHED)).collect()
}

/// Levels of `unreached` vertices by level-synchronous breadth-first search, with a shared frontier.
pub fn bfs(graph: &CsrGraph, source: u32, levels: &[AtomicU32]) {
    levels[source as usize].store(0, Relaxed);
    let (mut frontier, mut level) = (vec![source], 0);
    while !frontier.is_empty() {
        level += 1;
        frontier = expand(&frontier, |vertex, next| {
            for &target in graph.neighbors(vertex) {
                let place = &levels[target as usize];
                if place.load(Relaxed) == UNREACHED
                    && place.compare_exchange(UNREACHED, level, Relaxed, Relaxed).is_ok()
                {
                    next.push(target);
                }
            }
        });
    }
}

/// Distances of `unreached` vertices by delta-stepping (Meyer and Sanders, J. Algorithms 49(1), 2003)
/// without its division into light and heavy arcs.
pub fn sssp(graph: &CsrGraph, weights: &[u32], source: u32, delta: u32, distances: &[AtomicU32]) {
    distances[source as usize].store(0, Relaxed);
    let mut buckets = vec![vec![source]];
    let mut current = 0;
    while current < buckets.len() {
        let mut frontier = std::mem::take(&mut buckets[current]);
        while !frontier.is_empty() {
            let found = expand(&frontier, |vertex, found| {
                let distance = distances[vertex as usize].load(Relaxed);
                if (distance / delta) as usize != current {
                    return;
                }
                for arc in graph.row(vertex) {
                    let (target, extended) = (graph.targets()[arc], distance + weights[arc]);
                    let place = &distances[target as usize];
                    if place.load(Relaxed) > extended
                        && place.fetch_min(extended, Relaxed) > extended
                    {
                        found.push((target, (extended / delta) as usize));
                    }
                }
            });
            frontier.clear();
            for (target, bucket) in found {
                if bucket == current {
                    frontier.push(target);
                    continue;
                }
                if bucket >= buckets.len() {
                    buckets.resize_with(bucket + 1, Vec::new);
                }
                buckets[bucket].push(target);
            }
        }
        current += 1;
    }
}
