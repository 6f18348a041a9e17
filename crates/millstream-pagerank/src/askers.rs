//! Which devices ask for a vertex's share: the owners of the vertices that its arcs enter
//! \[G §4.5\]. Only these are told, or, where they read shares themselves, counted as told.

use std::sync::atomic::{AtomicU32, Ordering};

use millstream_graph::Partition;
use millstream_graph::pieces::InPieces;
use rayon::prelude::*;

use crate::slices::{NO_SOURCE, Slices, rows_of};

/// The vertices that the rows of a part name.
#[derive(Clone, Copy)]
pub(crate) enum Named<'a> {
    /// The sources of the rows' arcs, padded.
    Sources(&'a [u32]),
    /// A bit for each vertex, set if another device owns the vertex and the rows name it.
    Bits(&'a [u32]),
}

/// For each vertex, by new id, a bit for each device that asks for it; never its owner's.
pub(crate) struct Askers {
    of: Vec<u32>,
}

impl Askers {
    /// From the vertices that the rows of each part name; there are at most 32 parts.
    pub(crate) fn new<'a>(named: impl Iterator<Item = Named<'a>>, partition: &Partition) -> Askers {
        let of: Vec<AtomicU32> = (0..partition.vertices()).map(|_| AtomicU32::new(0)).collect();
        let vertices = || of.par_iter().in_pieces().enumerate();
        for (part, named) in named.enumerate() {
            let (own, bit) = (partition.range(part), 1 << part);
            match named {
                Named::Sources(sources) => {
                    let others = |source: &&u32| **source != NO_SOURCE && !own.contains(source);
                    sources.par_iter().in_pieces().filter(others).for_each(|&source| {
                        let asked = &of[source as usize];
                        // Relaxed: read when all threads are done. Loads first: most bits are set already.
                        if asked.load(Ordering::Relaxed) & bit == 0 {
                            asked.fetch_or(bit, Ordering::Relaxed);
                        }
                    });
                }
                Named::Bits(words) => {
                    let is_set = |at: usize| words[at / 32] >> (at % 32) & 1 != 0;
                    vertices().filter(|&(at, _)| is_set(at)).for_each(|(_, asked)| {
                        asked.fetch_or(bit, Ordering::Relaxed);
                    });
                }
            }
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

    /// For each item of a part, the devices that ask for any of its rows, which are all sent together.
    pub(crate) fn of_items(&self, slices: &Slices, partition: &Partition, part: usize) -> Vec<u32> {
        let own = partition.range(part);
        let of = &self.of[own.start as usize..own.end as usize];
        let items = (0..slices.offsets.len() - 1).into_par_iter().in_pieces();
        let of_item = |item| of[rows_of(item, slices.long_rows as usize, of.len())].iter();
        items.map(|item| of_item(item).fold(0, |all, asked| all | asked)).collect()
    }
}

#[cfg(test)]
mod tests {
    use millstream_graph::CsrGraph;

    use super::*;
    use crate::sliced_rows::SlicedRows;

    #[test]
    fn neighbours_of_other_parts_ask() {
        let path = CsrGraph::from_edges(6, &[(0, 1), (1, 2), (2, 3), (3, 4), (0, 5)]).unwrap();
        let parts = Partition::from_parts(3, &[0, 0, 1, 1, 2, 2]).unwrap();
        let transposed = path.transposed().unwrap();
        let rows = |part| SlicedRows::<f32>::new(&transposed, &parts, part, false);
        let rows: Vec<_> = (0..3).map(rows).collect();
        let askers = Askers::new(rows.iter().map(|its| Named::Sources(&its.sources)), &parts);
        assert_eq!(askers.of, [0b100, 0b010, 0, 0b100, 0, 0]);
        assert_eq!(askers.of_items(&rows[0].slices, &parts, 0), [0b110]);
        assert_eq!(askers.of_rows(&parts, 0), [0, 1, 1]);
        let bits: [&[u32]; 3] = [&[0], &[0b10], &[0b1001]];
        let of_bits = Askers::new(bits.into_iter().map(Named::Bits), &parts);
        assert_eq!(of_bits.of, askers.of);
    }
}
