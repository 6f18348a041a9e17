//! Lists of vertices of host devices, in one memory: the device that finds a vertex puts it into its
//! owner's list.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::gang_place::GangPlace;
use crate::gang_work::GangWork;

/// How many vertices twins have put into each other's lists since the start. The lists themselves are in
/// a buffer with a place for every vertex: a device's list begins where its vertices do.
#[derive(Debug)]
pub struct TwinLists(Vec<OfDevice>);

#[derive(Debug, Default)]
struct OfDevice {
    /// Vertices in its list.
    listed: AtomicU64,
    /// Vertices that it has put into each device's list.
    sent: [AtomicU64; GangPlace::MOST],
}

impl TwinLists {
    /// Empty lists of `devices` devices, no more than [`GangPlace::MOST`].
    pub fn new(devices: usize) -> TwinLists {
        TwinLists((0..devices).map(|_| OfDevice::default()).collect())
    }

    /// How many vertices have been put into a device's list since the start.
    pub fn listed(&self, device: usize) -> u64 {
        self.0[device].listed.load(Ordering::Relaxed)
    }

    /// Puts the vertices that the device of `place` has found into their owners' `lists`. `begun` says how
    /// many a device had listed when its list was last begun anew.
    ///
    /// # Panics
    /// If a list is full, or one of `vertices` is not a vertex.
    pub fn put(
        &self,
        place: &GangPlace,
        lists: &[AtomicU32],
        begun: impl Fn(usize) -> u64,
        vertices: &mut [u32],
    ) {
        let (here, devices) = (place.device as usize, place.devices as usize);
        if devices > 1 {
            vertices.sort_unstable();
        }
        let mut rest = &*vertices;
        for owner in 0..devices {
            let [first, end] = [0, 1].map(|next| place.boundaries[owner + next]);
            let its;
            (its, rest) = rest.split_at(rest.partition_point(|&vertex| vertex < end));
            if its.is_empty() {
                continue;
            }
            let count = its.len() as u64;
            // Relaxed: a meeting lies between filling a list and reading it.
            let taken = self.0[owner].listed.fetch_add(count, Ordering::Relaxed) - begun(owner);
            let list = &lists[first as usize..end as usize][taken as usize..][..its.len()];
            list.iter().zip(its).for_each(|(to, &vertex)| to.store(vertex, Ordering::Relaxed));
            self.0[here].sent[owner].fetch_add(count, Ordering::Relaxed);
        }
        assert!(rest.is_empty(), "{rest:?} are no vertices");
    }

    /// What each device has done: it has visited the vertices in its list.
    pub fn work(&self) -> Vec<GangWork> {
        let sent = |from: usize, to: usize| match from == to {
            true => 0,
            false => self.0[from].sent[to].load(Ordering::Relaxed),
        };
        let work = |place: usize| {
            let received = (0..self.0.len()).map(|from| sent(from, place)).sum();
            GangWork {
                visited: self.listed(place),
                received,
                kept: received,
                sent: std::array::from_fn(|to| sent(place, to)),
                published: 0,
            }
        };
        (0..self.0.len()).map(work).collect()
    }
}

/// Sets the bit of a vertex. True if it was clear.
#[inline]
pub fn claim(bits: &[AtomicU32], vertex: u32) -> bool {
    let (word, bit) = (&bits[vertex as usize / 32], 1 << (vertex % 32));
    word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millstream_graph::Partition;

    use super::*;

    #[test]
    fn vertices_come_to_their_owners() {
        // Three devices own 0 to 1, nothing, and 2 to 4.
        let partition = Partition::from_parts(3, &[0, 0, 2, 2, 2]).unwrap();
        let place = |device| GangPlace::new(&partition, device, Duration::ZERO);
        let lists: Vec<_> = (0..5).map(|_| AtomicU32::new(u32::MAX)).collect();
        let all = TwinLists::new(3);
        all.put(&place(0), &lists, |_| 0, &mut [4, 1]);
        all.put(&place(2), &lists, |_| 0, &mut [2, 0, 3]);
        let listed: Vec<_> = lists.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        assert_eq!(listed, [1, 0, 4, 2, 3]);
        // Begun again, a list has room again.
        all.put(&place(1), &lists, |owner| [2, 0, 3][owner], &mut [3]);
        assert_eq!(lists[2].load(Ordering::Relaxed), 3);
        let work = all.work();
        let visited: Vec<_> = work.iter().map(|its| its.visited).collect();
        assert_eq!(visited, [2, 0, 4]);
        assert_eq!(work[0].sent[..3], [0, 0, 1]);
        assert_eq!(work[1].sent[..3], [0, 0, 1]);
        assert_eq!(work[2].sent[..3], [1, 0, 0]);
        assert_eq!((work[2].received, work[2].kept, work[0].received), (2, 2, 1));
    }
}
