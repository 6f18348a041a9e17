//! Which devices ask for what a vertex gives: those to whose vertices its arcs lead
//! \[G §4.5\]. Only they are told, or, where they read what they ask for, said to be.

use std::sync::atomic::{AtomicU32, Ordering};

use millstream_graph::Partition;
use millstream_graph::pieces::InPieces;
use rayon::prelude::*;

use crate::sliced_rows::{NO_SOURCE, SlicedRows, rows_of};

/// A bit for each device, for each vertex by its new id; not for its owner.
pub(crate) struct Askers {
    of: Vec<u32>,
}

impl Askers {
    /// Of the rows of all parts, at most 32.
    pub(crate) fn new<R>(rows: &[SlicedRows<R>], partition: &Partition) -> Askers {
        let of: Vec<AtomicU32> = (0..partition.vertices()).map(|_| AtomicU32::new(0)).collect();
        for (part, rows) in rows.iter().enumerate() {
            let (own, bit) = (partition.range(part), 1 << part);
            let others = |source: &&u32| **source != NO_SOURCE && !own.contains(source);
            rows.sources.par_iter().in_pieces().filter(others).for_each(|&source| {
                let asked = &of[source as usize];
                // Relaxed: read when all is over. A look first: most have asked before.
                if asked.load(Ordering::Relaxed) & bit == 0 {
                    asked.fetch_or(bit, Ordering::Relaxed);
                }
            });
        }
        Askers { of: of.into_iter().map(AtomicU32::into_inner).collect() }
    }

    /// How many rows of a part each device asks for.
    pub(crate) fn of_rows(&self, partition: &Partition, part: usize) -> Vec<u64> {
        let own = partition.range(part);
        let of = &self.of[own.start as usize..own.end as usize];
        let of = || of.par_iter().in_pieces();
        let asked = |device: usize| of().filter(|&&of| of >> device & 1 != 0).count() as u64;
        (0..partition.parts()).map(asked).collect()
    }

    /// Who asks for a row of each item of a part: all its rows go together.
    pub(crate) fn of_items<R: Sync>(
        &self,
        rows: &SlicedRows<R>,
        partition: &Partition,
        part: usize,
    ) -> Vec<u32> {
        let own = partition.range(part);
        let of = &self.of[own.start as usize..own.end as usize];
        let items = (0..rows.offsets.len() - 1).into_par_iter().in_pieces();
        let of_item = |item| of[rows_of(item, rows.long_rows as usize, of.len())].iter();
        items.map(|item| of_item(item).fold(0, |all, asked| all | asked)).collect()
    }
}

#[cfg(test)]
mod tests {
    use millstream_graph::CsrGraph;

    use super::*;

    #[test]
    fn neighbours_of_other_parts_ask() {
        let path = CsrGraph::from_edges(6, &[(0, 1), (1, 2), (2, 3), (3, 4), (0, 5)]).unwrap();
        let parts = Partition::from_parts(3, &[0, 0, 1, 1, 2, 2]).unwrap();
        let transposed = path.transposed().unwrap();
        let rows = |part| SlicedRows::<f32>::new(&transposed, &parts, part, false);
        let rows: Vec<_> = (0..3).map(rows).collect();
        let askers = Askers::new(&rows, &parts);
        assert_eq!(askers.of, [0b100, 0b010, 0, 0b100, 0, 0]);
        assert_eq!(askers.of_items(&rows[0], &parts, 0), [0b110]);
        assert_eq!(askers.of_rows(&parts, 0), [0, 1, 1]);
    }
}
