//! The shares that a device is told over links after each sweep: those that its rows ask for \[G §4.5\];
//! and the places in which the device keeps them. Twin of `halo.cuh`.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_device::{CudaSource, Kernel, Read, Trusted, Write};
use millstream_graph::Partition;
use millstream_graph::pieces::InPieces;
use rayon::prelude::*;

use crate::real::Real;
use crate::slices::NO_SOURCE;

/// The vertices of one device that another asks for, in the order in which it is told of them.
#[derive(Clone, Debug)]
pub(crate) enum Halo {
    /// All vertices of the device, of which there are this many: their shares are sent without packing.
    All(usize),
    /// The rows in this range of the list of all rows that the device tells others of.
    Some(Range<usize>),
}

impl Halo {
    /// How many shares are told after a sweep.
    pub(crate) fn len(&self) -> usize {
        match self {
            Halo::All(own) => *own,
            Halo::Some(rows) => rows.len(),
        }
    }

    /// The vertices `asked` for among `own`, by new id; unless they are all, appends their rows to `rows`.
    pub(crate) fn new(own: &Range<u32>, asked: &[u32], rows: &mut Vec<u32>) -> Halo {
        if asked.len() == own.len() {
            return Halo::All(own.len());
        }
        let first = rows.len();
        rows.extend(asked.iter().map(|&vertex| vertex - own.start));
        Halo::Some(first..rows.len())
    }
}

/// The places of the shares that a device has: first those of consecutive vertices, at least its own;
/// then, for each other device, those that it is sent, in the order in which they come.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The consecutive vertices, by new id.
    first: Range<u32>,
    /// For each device, the vertices that it is asked for, by new id and ascending.
    asked: Vec<Arc<[u32]>>,
}

impl Places {
    /// The places on the device of a part that is sent the shares its rows ask for. `sources` are the
    /// sources of its rows, by new id.
    pub(crate) fn new(sources: &[u32], partition: &Partition, part: usize) -> Places {
        Places { first: partition.range(part), asked: asked(sources, partition, part) }
    }

    /// The places on a device that has the shares of all vertices, in the order of new ids.
    pub(crate) fn of_all(partition: &Partition) -> Places {
        Places { first: 0..partition.vertices(), asked: Vec::new() }
    }

    /// The place of the first of the device's own vertices.
    pub(crate) fn of_own(&self, own: Range<u32>) -> u32 {
        own.start - self.first.start
    }

    /// The vertices that a device is asked for, by new id and ascending.
    pub(crate) fn asked_of(&self, device: usize) -> &Arc<[u32]> {
        &self.asked[device]
    }

    /// The places of the shares that are sent by a device.
    pub(crate) fn of(&self, device: usize) -> Range<usize> {
        let before: usize = self.asked[..device].iter().map(|asked| asked.len()).sum();
        let first = self.first.len() + before;
        first..first + self.asked[device].len()
    }

    /// The vertices whose shares the device has, by new id, in the order of their places.
    pub(crate) fn vertices(&self) -> impl Iterator<Item = u32> {
        self.first.clone().chain(self.asked.iter().flat_map(|asked| asked.iter().copied()))
    }

    /// The places of the sources of this device's rows, in a graph of `vertices` vertices.
    pub(crate) fn of_sources(&self, sources: Vec<u32>, vertices: u32) -> Vec<u32> {
        if self.first.len() == vertices as usize {
            return sources;
        }
        // Vertices without a place keep 0, which is never read: no row names them.
        let mut places = vec![0; vertices as usize];
        for (place, vertex) in (0..).zip(self.vertices()) {
            places[vertex as usize] = place;
        }
        let place = |source| if source == NO_SOURCE { NO_SOURCE } else { places[source as usize] };
        sources.into_par_iter().in_pieces().map(place).collect()
    }
}

/// The vertices of each part, by new id and ascending, that rows with these sources ask for;
/// none of the rows' own `part`.
pub(crate) fn asked(sources: &[u32], partition: &Partition, part: usize) -> Vec<Arc<[u32]>> {
    let is_asked: Vec<AtomicBool> =
        (0..partition.vertices()).map(|_| AtomicBool::new(false)).collect();
    sources.par_iter().in_pieces().filter(|&&source| source != NO_SOURCE).for_each(|&source| {
        // Relaxed: read when all threads are done.
        is_asked[source as usize].store(true, Ordering::Relaxed);
    });
    let of = |owner: usize| {
        let is_asked = |vertex: &u32| is_asked[*vertex as usize].load(Ordering::Relaxed);
        let own = if owner == part { 0..0 } else { partition.range(owner) };
        own.filter(is_asked).collect()
    };
    (0..partition.parts()).map(of).collect()
}

/// The rows whose shares to pack; all shares; the packet.
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
