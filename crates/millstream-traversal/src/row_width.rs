//! How many threads of a GPU visit a row in a search by near and far piles (`NEAR_FAR.md`).

use millstream_graph::CsrGraph;
use millstream_graph::pieces::InPieces;
use rayon::prelude::*;

/// A width is enough if at most one row in this many is longer (the largest width, a warp, may have more),
const ROWS_FOR_LONGER: usize = 32;
/// and if no row takes its threads more turns than this.
const TURNS: u64 = 8;

/// How many arcs of a row a GPU visits at once, one thread for each: the smallest number that is enough
/// for most rows of a graph.
///
/// ```
/// use millstream_graph::generate::{self, GenerateOptions};
/// use millstream_traversal::internals::RowWidth;
///
/// let options = GenerateOptions::default();
/// assert_eq!(RowWidth::of(&generate::grid(60, 60, &options)?), Some(RowWidth::Four));
/// assert_eq!(RowWidth::of(&generate::kron(12, 8, &options)?), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowWidth {
    /// As many as a packed row holds: road maps, and lattices in two dimensions.
    Four = 4,
    /// Triangulations, and lattices in three dimensions.
    Eight = 8,
    /// Lattices with arcs to second neighbours too.
    Sixteen = 16,
    /// Points in space joined to all within some radius, and finite elements.
    ThirtyTwo = 32,
}

impl RowWidth {
    pub(crate) const ALL: [RowWidth; 4] =
        [RowWidth::Four, RowWidth::Eight, RowWidth::Sixteen, RowWidth::ThirtyTwo];

    /// How many arcs deep a halo is, as measured (`docs/decisions/0025-near-and-far-piles.md`): deep halos
    /// save meetings in a road map; with wider rows a neighbourhood soon has many vertices, which would be
    /// searched twice.
    pub(crate) fn halo_depth(self) -> usize {
        match self {
            RowWidth::Four => 64,
            RowWidth::Eight | RowWidth::Sixteen | RowWidth::ThirtyTwo => 4,
        }
    }

    /// The least width that at most one row in 32 exceeds (for the largest width, any number may), and no
    /// row more than eightfold. `None` if there is none: near and far piles are not worth it then.
    pub fn of(graph: &CsrGraph) -> Option<RowWidth> {
        let degrees = || {
            let vertices = (0..graph.vertices()).into_par_iter().in_pieces();
            vertices.map(|vertex| graph.degree(vertex))
        };
        let longest = degrees().max().unwrap_or_default();
        RowWidth::ALL.into_iter().find(|width| {
            let threads = *width as u64;
            let longer = || degrees().filter(|&degree| degree > threads).count();
            let are_few = || longer() * ROWS_FOR_LONGER <= graph.vertices() as usize;
            longest <= TURNS * threads && (*width == RowWidth::ThirtyTwo || are_few())
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The width for a graph whose rows have these lengths, repeated cyclically.
    fn width(lengths: impl Iterator<Item = u32> + Clone, vertices: u32) -> Option<RowWidth> {
        let rows = lengths.cycle().zip(0..vertices);
        let edges =
            rows.flat_map(|(length, from)| (0..length).map(move |to| (from, to % vertices)));
        RowWidth::of(&CsrGraph::from_edges(vertices, &edges.collect::<Vec<_>>()).unwrap())
    }

    #[test]
    fn one_row_in_32_may_be_longer_up_to_eight_times() {
        use RowWidth::{Eight, Four, Sixteen, ThirtyTwo};
        let with = |one: u32, others: u32, rows: u32| {
            let others = std::iter::repeat_n(others, rows as usize - 1);
            width(std::iter::once(one).chain(others), 32 * rows)
        };
        for (least, most, enough, next) in
            [(1, 4, Four, Eight), (5, 8, Eight, Sixteen), (9, 16, Sixteen, ThirtyTwo)]
        {
            for row in [least, most] {
                assert_eq!(with(row, row, 32), Some(enough), "{row}");
            }
            assert_eq!(with(8 * most, most, 32), Some(enough), "{most}");
            assert_eq!(with(8 * most + 1, most, 32), Some(next), "{most}");
            assert_eq!(with(most + 1, most, 31), Some(next), "{most}");
        }
        // All rows may be longer than the largest width.
        assert_eq!([256, 257].map(|row| with(row, row, 32)), [Some(ThirtyTwo), None]);
        assert_eq!(width([0].into_iter(), 0), Some(Four));
    }

    #[test]
    fn only_narrow_rows_have_deep_halos() {
        assert_eq!(RowWidth::ALL.map(RowWidth::halo_depth), [64, 4, 4, 4]);
    }
}
