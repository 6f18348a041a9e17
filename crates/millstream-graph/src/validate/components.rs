//! Are these the weak components?

use rayon::prelude::*;

use crate::pieces::{InPieces, rows_of};
use crate::{CsrGraph, reference};

/// What is wrong with labels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComponentsFault {
    /// Not one label for each vertex.
    #[error("{labels} labels for {vertices} vertices")]
    Length {
        /// Labels given.
        labels: usize,
        /// Vertices of the graph.
        vertices: usize,
    },
    /// An arc between two labels.
    #[error("arc {from} -> {to} leads from label {from_label} to label {to_label}")]
    Split {
        /// Source of the arc.
        from: u32,
        /// Its label.
        from_label: u32,
        /// Target of the arc.
        to: u32,
        /// Its label.
        to_label: u32,
    },
    /// A label that is no vertex of the component, as when two components share one.
    #[error("vertex {vertex} is labelled {label}, to which no path leads")]
    Foreign {
        /// The vertex.
        vertex: u32,
        /// Its label.
        label: u32,
    },
    /// A label that is not the smallest vertex of the component.
    #[error("vertex {vertex} is labelled {label}, but {smallest} is in its component")]
    NotSmallest {
        /// The vertex.
        vertex: u32,
        /// Its label.
        label: u32,
        /// The label that it should have.
        smallest: u32,
    },
}

/// Checks that each vertex is labelled with the smallest vertex of its weak
/// component: no arc joins two labels, and a union-find of its own finds the same
/// components.
///
/// # Errors
/// A fault found.
pub fn weak_components(graph: &CsrGraph, labels: &[u32]) -> Result<(), ComponentsFault> {
    let vertices = graph.vertices() as usize;
    if labels.len() != vertices {
        return Err(ComponentsFault::Length { labels: labels.len(), vertices });
    }
    rows_of(graph).try_for_each(|from| {
        let label = |vertex: u32| labels[vertex as usize];
        match graph.neighbors(from).iter().find(|&&to| label(to) != label(from)) {
            Some(&to) => {
                let (from_label, to_label) = (label(from), label(to));
                Err(ComponentsFault::Split { from, from_label, to, to_label })
            }
            None => Ok(()),
        }
    })?;
    let smallest = reference::weak_components(graph);
    labels.par_iter().in_pieces().enumerate().try_for_each(|(vertex, &label)| {
        let (vertex, own) = (vertex as u32, smallest[vertex]);
        match smallest.get(label as usize) {
            _ if label == own => Ok(()),
            Some(&other) if other == own => {
                Err(ComponentsFault::NotSmallest { vertex, label, smallest: own })
            }
            _ => Err(ComponentsFault::Foreign { vertex, label }),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0 <- 1 and 2 -> 3 <- 4, and 5 on its own.
    fn check(labels: &[u32]) -> Result<(), ComponentsFault> {
        let graph = CsrGraph::from_edges(6, &[(1, 0), (2, 3), (4, 3)]).unwrap();
        weak_components(&graph, labels)
    }

    #[test]
    fn the_smallest_vertices_are_valid() {
        assert_eq!(check(&[0, 0, 2, 2, 2, 5]), Ok(()));
    }

    #[test]
    fn planted_faults_are_found() {
        use ComponentsFault::*;
        assert_eq!(check(&[0, 0]), Err(Length { labels: 2, vertices: 6 }));
        let split = Split { from: 4, from_label: 4, to: 3, to_label: 2 };
        assert_eq!(check(&[0, 0, 2, 2, 4, 5]), Err(split));
        let merged = check(&[0, 0, 0, 0, 0, 5]).unwrap_err();
        assert!(matches!(merged, Foreign { vertex: 2..=4, label: 0 }));
        let swapped = check(&[2, 2, 0, 0, 0, 5]).unwrap_err();
        assert!(matches!(swapped, Foreign { .. }));
        let larger = check(&[0, 0, 3, 3, 3, 5]).unwrap_err();
        assert!(matches!(larger, NotSmallest { label: 3, smallest: 2, .. }));
        assert_eq!(check(&[0, 0, 2, 2, 2, 6]), Err(Foreign { vertex: 5, label: 6 }));
        assert_eq!(check(&[0, 0, 2, 2, 2, 0]), Err(Foreign { vertex: 5, label: 0 }));
        let shared = check(&[9, 9, 9, 9, 9, 9]).unwrap_err();
        assert!(matches!(shared, Foreign { label: 9, .. }));
    }
}
