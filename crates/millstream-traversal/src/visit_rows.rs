//! Rows by the arcs that they have, since a hub's row may be most arcs.

use std::ops::Range;

/// Calls `visit(row, its_arcs)` for the rows that these arcs lie in, of the first and the last those parts.
///
/// ```
/// let mut visited = Vec::new();
/// let rows = [0, 3, 3, 8];
/// millstream_traversal::internals::visit_rows(&rows, 1..7, |row, arcs| visited.push((row, arcs)));
/// assert_eq!(visited, [(0, 1..3), (1, 3..3), (2, 3..7)]);
/// ```
pub fn visit_rows(offsets: &[u64], arcs: Range<usize>, mut visit: impl FnMut(usize, Range<usize>)) {
    // The last row that begins there or before.
    let mut row = offsets.partition_point(|&offset| offset <= arcs.start as u64).saturating_sub(1);
    let mut arc = arcs.start;
    while arc < arcs.end {
        let end = arcs.end.min(offsets[row + 1] as usize);
        visit(row, arc..end);
        (row, arc) = (row + 1, end);
    }
}
