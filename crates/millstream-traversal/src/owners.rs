//! Who owns which vertices: the twin of `owners.cuh`.

use std::ops::Range;
use std::sync::Arc;

/// The device of every vertex: each owns a range of them \[G §4.6.1\].
///
/// Kernels have the same in `owners.cuh`, from [`Part::owners`](crate::Part::owners).
#[derive(Clone, Debug)]
pub struct Owners {
    /// First vertex of each device, and the number of vertices at the end.
    boundaries: Arc<[u32]>,
}

impl Owners {
    /// From the first vertex of each device, and the number of vertices at the end.
    pub fn new(boundaries: &[u32]) -> Owners {
        Owners { boundaries: boundaries.into() }
    }

    /// The device that owns `vertex`.
    #[inline]
    pub fn owner(&self, vertex: u32) -> usize {
        // Empty parts have equal boundaries: the last that starts here owns it.
        self.boundaries.partition_point(|&start| start <= vertex).saturating_sub(1)
    }

    /// The vertices of a device.
    #[inline]
    pub(crate) fn of(&self, device: usize) -> Range<u32> {
        self.boundaries[device]..self.boundaries[device + 1]
    }

    /// The most vertices that a device owns.
    pub fn most_owned(&self) -> usize {
        let parts = self.boundaries.windows(2);
        parts.map(|part| (part[1] - part[0]) as usize).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_room_for_the_largest_part() {
        assert_eq!(Owners::new(&[0, 3, 3, 9, 10]).most_owned(), 6);
        assert_eq!(Owners::new(&[0, 0]).most_owned(), 0);
    }
}
