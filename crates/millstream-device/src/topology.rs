//! How devices are connected \[G §2, §4.1\].

/// A connection between two devices, better ones greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LinkKind {
    /// No direct access: through host memory \[G §2.1\].
    #[default]
    Host,
    /// Peers on one bus.
    Pcie,
    /// Peers over NVLink.
    NvLink,
    /// One memory: host devices.
    Memory,
}

/// Names of the devices, which of them are peers, and the ring over them.
///
/// ```
/// use millstream_device::Topology;
///
/// let topology = Topology::uniform(["host:0", "host:1"]);
/// assert_eq!(topology.ring_order(), [0, 1]);
/// assert!(topology.are_peers(0, 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    names: Vec<String>,
    links: Vec<Vec<LinkKind>>,
}

impl Topology {
    /// Every pair in one memory.
    pub fn uniform(names: impl IntoIterator<Item = impl Into<String>>) -> Topology {
        Topology::from_links(names, |_, _| LinkKind::Memory)
    }

    /// Every pair connected as `link` says for their places.
    pub fn from_links(
        names: impl IntoIterator<Item = impl Into<String>>,
        link: impl Fn(usize, usize) -> LinkKind,
    ) -> Topology {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let row = |from| (0..names.len()).map(|to| link(from, to)).collect();
        let links = (0..names.len()).map(row).collect();
        Topology { names, links }
    }

    /// Names of the devices.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How two devices are connected.
    ///
    /// # Panics
    /// If a place is out of range.
    pub fn link(&self, from: usize, to: usize) -> LinkKind {
        self.links[from][to]
    }

    /// Whether two devices reach each other's memory.
    ///
    /// # Panics
    /// If a place is out of range.
    pub fn are_peers(&self, one: usize, other: usize) -> bool {
        self.link(one, other) > LinkKind::Host && self.link(other, one) > LinkKind::Host
    }

    /// Whether all devices reach each other's memory.
    pub fn all_peers(&self) -> bool {
        let places = 0..self.names.len();
        places.clone().all(|one| (0..one).all(|other| self.are_peers(one, other)))
    }

    /// An order of the devices in which neighbours, the last and the first
    /// included, are connected as well as can be: the ring of the distributed
    /// worklist \[G §4.3\]. Found by going on to the best connected device left,
    /// from every possible start, lower places first.
    pub fn ring_order(&self) -> Vec<usize> {
        let rings = (0..self.names.len()).map(|start| self.ring_from(start));
        let best = rings.rev().max_by_key(|ring| self.ring_quality(ring));
        let mut ring = best.unwrap_or_default();
        let first = ring.iter().position(|&place| place == 0).unwrap_or(0);
        ring.rotate_left(first);
        ring
    }

    fn ring_from(&self, start: usize) -> Vec<usize> {
        let mut left: Vec<usize> = (0..self.names.len()).filter(|&place| place != start).collect();
        let mut ring = vec![start];
        let mut here = start;
        while let Some(best) = left.iter().map(|&place| self.links[here][place]).max() {
            let next = left.iter().position(|&place| self.links[here][place] == best);
            here = left.remove(next.unwrap_or(0));
            ring.push(here);
        }
        ring
    }

    /// Links of each kind in a ring, worse ones counted first.
    fn ring_quality(&self, ring: &[usize]) -> (std::cmp::Reverse<usize>, usize) {
        let neighbours = ring.iter().zip(ring.iter().cycle().skip(1));
        let kinds = neighbours.map(|(&from, &to)| self.links[from][to]);
        let (mut worst, mut best) = (0, 0);
        for kind in kinds {
            worst += usize::from(kind == LinkKind::Host);
            best += usize::from(kind >= LinkKind::NvLink);
        }
        (std::cmp::Reverse(worst), best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crossings(topology: &Topology, ring: &[usize]) -> usize {
        let neighbours = ring.iter().zip(ring.iter().cycle().skip(1));
        neighbours.filter(|(from, to)| !topology.are_peers(**from, **to)).count()
    }

    #[test]
    fn a_uniform_ring_keeps_the_order() {
        for devices in 0..9 {
            let names = (0..devices).map(|place| format!("host:{place}"));
            let order = Topology::uniform(names).ring_order();
            assert_eq!(order, (0..devices).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_ring_over_two_quadruplets_crosses_twice() {
        let quadruplets: [fn(usize) -> usize; 3] =
            [|place| place / 4, |place| place % 2, |place| (place / 2) % 2];
        for quadruplet in quadruplets {
            let names = (0..8).map(|place| format!("gpu {place}"));
            let topology = Topology::from_links(names, |from, to| {
                if quadruplet(from) == quadruplet(to) { LinkKind::Pcie } else { LinkKind::Host }
            });
            let ring = topology.ring_order();
            let mut all = ring.clone();
            all.sort_unstable();
            assert_eq!(all, (0..8).collect::<Vec<_>>());
            assert_eq!((ring[0], crossings(&topology, &ring)), (0, 2), "{ring:?}");
            assert!(!topology.all_peers());
        }
    }

    #[test]
    fn pairs_over_nvlink_stay_neighbours() {
        let names = (0..6).map(|place| format!("gpu {place}"));
        let topology = Topology::from_links(names, |from, to| {
            if from % 3 == to % 3 { LinkKind::NvLink } else { LinkKind::Pcie }
        });
        assert_eq!(topology.ring_order(), [0, 3, 1, 4, 2, 5]);
    }
}
