//! Which devices ask for what a vertex gives: those to whose vertices its arcs lead
//! \[G §4.5\]. Only they are told.

use std::sync::atomic::{AtomicU32, Ordering};

use millstream_graph::{CsrGraph, Partition};
use rayon::prelude::*;

use crate::sliced_rows::{SlicedRows, rows_of};

/// A bit for each device, for each vertex by its new id; not for its owner.
pub(crate) struct Askers {
    of: Vec<u32>,
}

impl Askers {
    /// At most 32 parts.
    pub(crate) fn new(transposed: &CsrGraph, partition: &Partition) -> Askers {
        let of: Vec<AtomicU32> = (0..partition.vertices()).map(|_| AtomicU32::new(0)).collect();
        (0..partition.vertices()).into_par_iter().for_each(|row| {
            let part = partition.owner(row);
            let (own, bit) = (partition.range(part), 1 << part);
            for &source in transposed.neighbors(partition.to_original(row)) {
                let source = partition.to_new(source);
                let asked = &of[source as usize];
                // Relaxed: read when all is over. A look first: most have asked before.
                if !own.contains(&source) && asked.load(Ordering::Relaxed) & bit == 0 {
                    asked.fetch_or(bit, Ordering::Relaxed);
                }
            }
        });
        Askers { of: of.into_iter().map(AtomicU32::into_inner).collect() }
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
        let items = (0..rows.offsets.len() - 1).into_par_iter();
        let of_item = |item| of[rows_of(item, rows.long_rows as usize, of.len())].iter();
        items.map(|item| of_item(item).fold(0, |all, asked| all | asked)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_other_parts_ask() {
        let path = CsrGraph::from_edges(6, &[(0, 1), (1, 2), (2, 3), (3, 4), (0, 5)]).unwrap();
        let parts = Partition::from_parts(3, &[0, 0, 1, 1, 2, 2]).unwrap();
        let transposed = path.transposed().unwrap();
        let askers = Askers::new(&transposed, &parts);
        assert_eq!(askers.of, [0b100, 0b010, 0, 0b100, 0, 0]);
        let rows = SlicedRows::<f32>::new(&transposed, &parts, 0, false);
        assert_eq!(askers.of_items(&rows, &parts, 0), [0b110]);
    }
}
