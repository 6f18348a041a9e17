//! How vertices are spread over GPUs that merge their trees, and what the GPUs tell each other: see
//! `README.md`.

use std::ops::Range;

use millstream_device::{SharedBuffer, SharedSet};

use crate::solver::Solver;

/// The most devices.
pub(crate) const MOST_DEVICES: usize = SharedSet::<u32>::MOST;

/// Ranges as kernels take them; unused ones are empty.
pub(crate) type Ranges = [[u32; 2]; MOST_DEVICES];

/// How vertices are spread over the devices.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    /// The vertices for which each device starts trees: a range of all that its rows belong to or
    /// name.
    pub(crate) covered: Vec<Range<u32>>,
    /// The vertices that each device labels.
    pub(crate) own: Vec<Range<u32>>,
}

impl Spread {
    /// The disjoint ranges of vertices that a device tells others of: those that others cover, too.
    pub(crate) fn told(&self, place: usize) -> Ranges {
        let own = &self.covered[place];
        let others = self.covered.iter().enumerate().filter(|(other, _)| *other != place);
        let both = |other: &Range<u32>| own.start.max(other.start)..own.end.min(other.end);
        let mut parts: Vec<Range<u32>> = others.map(|(_, other)| both(other)).collect();
        parts.retain(|part| !part.is_empty());
        parts.sort_by_key(|part| part.start);
        let mut ranges = [[0; 2]; MOST_DEVICES];
        let mut count = 0;
        for part in parts {
            match ranges[..count].last_mut() {
                Some([_, end]) if part.start <= *end => *end = part.end.max(*end),
                _ => {
                    ranges[count] = [part.start, part.end];
                    count += 1;
                }
            }
        }
        ranges
    }
}

/// What devices tell each other.
pub(crate) struct Sets<'a> {
    pub(crate) members: Vec<&'a SharedBuffer<u32>>,
    pub(crate) pairs: Vec<&'a SharedBuffer<u64>>,
}

impl<'a> Sets<'a> {
    pub(crate) fn new(solvers: &'a [Solver]) -> Sets<'a> {
        Sets {
            members: solvers.iter().map(|solver| &solver.members).collect(),
            pairs: solvers.iter().map(|solver| &solver.pairs).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(covered: &[Range<u32>]) -> Spread {
        Spread { covered: covered.to_vec(), own: covered.to_vec() }
    }

    fn told(spread: &Spread) -> Vec<Vec<[u32; 2]>> {
        let all = (0..spread.covered.len()).map(|place| spread.told(place).to_vec());
        all.map(|ranges| ranges.into_iter().filter(|[start, end]| start < end).collect()).collect()
    }

    #[test]
    fn devices_tell_of_what_others_cover_too() {
        let covered = [0..96, 64..128, 128..192, 32..64, 192..192];
        assert_eq!(
            told(&spread(&covered)),
            [vec![[32, 96]], vec![[64, 96]], vec![], vec![[32, 64]], vec![],]
        );
    }
}
