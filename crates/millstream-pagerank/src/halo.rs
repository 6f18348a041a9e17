//! What a device is told after each sweep, unless by a gang: what its rows ask for \[G §4.5\],
//! or all that a device has where they ask for all of it; and where it lies there. Twin of `halo.cuh`.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_device::{CudaSource, Kernel, Read, Trusted, Write};
use millstream_graph::Partition;
use millstream_graph::pieces::InPieces;
use rayon::prelude::*;

use crate::real::Real;
use crate::slices::NO_SOURCE;

/// Vertices of one device that another asks for, as it tells them.
#[derive(Clone, Debug)]
pub(crate) enum Halo {
    /// All that are the device's, so many: they go as they lie.
    All(usize),
    /// The rows in these places among all that the device tells others of, in this order.
    Some(Range<usize>),
}

impl Halo {
    /// Shares of a sweep.
    pub(crate) fn len(&self) -> usize {
        match self {
            Halo::All(own) => *own,
            Halo::Some(rows) => rows.len(),
        }
    }

    /// Of the vertices `own`, by new id, those that are `asked` for, whose rows come behind `rows`.
    pub(crate) fn new(own: &Range<u32>, asked: &[u32], rows: &mut Vec<u32>) -> Halo {
        if asked.len() == own.len() {
            return Halo::All(own.len());
        }
        let first = rows.len();
        rows.extend(asked.iter().map(|&vertex| vertex - own.start));
        Halo::Some(first..rows.len())
    }
}

/// Where a device has shares: those of consecutive vertices first, its own ones at least; then those
/// that it is sent of each other device, in the order in which they come.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// By new id.
    first: Range<u32>,
    /// For each device, the vertices that it is asked for, by new id and ascending.
    asked: Vec<Arc<[u32]>>,
}

impl Places {
    /// Of the device of a part whose rows have such sources, by new id, and that is sent what they
    /// ask for.
    pub(crate) fn new(sources: &[u32], partition: &Partition, part: usize) -> Places {
        Places { first: partition.range(part), asked: asked(sources, partition, part) }
    }

    /// Of a device that has the shares of all vertices, by new id.
    pub(crate) fn of_all(partition: &Partition) -> Places {
        Places { first: 0..partition.vertices(), asked: Vec::new() }
    }

    /// Where the first of the device's own vertices is.
    pub(crate) fn of_own(&self, own: Range<u32>) -> u32 {
        own.start - self.first.start
    }

    /// The vertices that a device is asked for, by new id and ascending.
    pub(crate) fn asked_of(&self, device: usize) -> &Arc<[u32]> {
        &self.asked[device]
    }

    /// Where their shares are.
    pub(crate) fn of(&self, device: usize) -> Range<usize> {
        let before: usize = self.asked[..device].iter().map(|asked| asked.len()).sum();
        let first = self.first.len() + before;
        first..first + self.asked[device].len()
    }

    /// The vertices whose shares the device has, by new id, in the order of their places.
    pub(crate) fn vertices(&self) -> impl Iterator<Item = u32> {
        self.first.clone().chain(self.asked.iter().flat_map(|asked| asked.iter().copied()))
    }

    /// The places of sources, of this device's rows, in a graph of so many vertices.
    pub(crate) fn of_sources(&self, sources: Vec<u32>, vertices: u32) -> Vec<u32> {
        if self.first.len() == vertices as usize {
            return sources;
        }
        // Nobody looks for vertices that are in no place.
        let mut places = vec![0; vertices as usize];
        for (place, vertex) in (0..).zip(self.vertices()) {
            places[vertex as usize] = place;
        }
        let place = |source| if source == NO_SOURCE { NO_SOURCE } else { places[source as usize] };
        sources.into_par_iter().in_pieces().map(place).collect()
    }
}

/// The vertices of each part, by new id and ascending, that rows with such sources ask for;
/// none of their own `part`.
pub(crate) fn asked(sources: &[u32], partition: &Partition, part: usize) -> Vec<Arc<[u32]>> {
    let is_asked: Vec<AtomicBool> =
        (0..partition.vertices()).map(|_| AtomicBool::new(false)).collect();
    sources.par_iter().in_pieces().filter(|&&source| source != NO_SOURCE).for_each(|&source| {
        // Relaxed: read when all is over.
        is_asked[source as usize].store(true, Ordering::Relaxed);
    });
    let of = |owner: usize| {
        let is_asked = |vertex: &u32| is_asked[*vertex as usize].load(Ordering::Relaxed);
        let own = if owner == part { 0..0 } else { partition.range(owner) };
        own.filter(is_asked).collect()
    };
    (0..partition.parts()).map(of).collect()
}

/// Whose shares, by their rows; from where, and to where.
pub(crate) type Pack<R> = (Read<u32>, Read<R>, Write<R>);

/// Puts shares into packets.
pub(crate) fn pack_kernel<R: Real>() -> Kernel<Pack<R>> {
    let entry = if R::IS_DOUBLE { "pack_f64" } else { "pack_f32" };
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    let source = unsafe { Trusted::new(cuda_source(entry)) };
    Kernel::with_source("pack", source, |_, (rows, gives, packet)| {
        for (to, &row) in packet.iter_mut().zip(rows) {
            *to = gives[row as usize];
        }
        Ok(())
    })
}

pub(crate) fn cuda_source(entry: &'static str) -> CudaSource {
    CudaSource::new("halo.cuh", entry, include_str!("halo.cuh"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_vertices_come_first_and_then_what_rows_ask_for() {
        let parts = Partition::from_parts(3, &[0, 0, 1, 1, 2, 2]).unwrap();
        let sources = vec![1, 2, NO_SOURCE, 5, 1, 2, 0];
        let places = Places::new(&sources, &parts, 1);
        let asked: Vec<_> = (0..3).map(|device| places.asked_of(device).to_vec()).collect();
        assert_eq!(asked, [vec![0, 1], vec![], vec![5]]);
        assert_eq!(places.vertices().collect::<Vec<_>>(), [2, 3, 0, 1, 5]);
        assert_eq!([0, 1, 2].map(|device| places.of(device)), [2..4, 4..4, 4..5]);
        assert_eq!(places.of_sources(sources, 6), [3, 0, NO_SOURCE, 4, 3, 0, 2]);
    }
}
