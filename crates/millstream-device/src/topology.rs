//! How devices are connected \[G §2, §4.1\].

use serde::{Deserialize, Serialize};

use crate::location::Location;
use crate::transfer_table::TransferTable;
use crate::{Error, Result};

/// A connection between two devices, better ones greater.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
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

impl std::fmt::Display for LinkKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(match self {
            LinkKind::Host => "host",
            LinkKind::Pcie => "pcie",
            LinkKind::NvLink => "nvlink",
            LinkKind::Memory => "memory",
        })
    }
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
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    names: Vec<String>,
    links: Vec<Vec<LinkKind>>,
    locations: Vec<Option<Location>>,
    transfers: Option<TransferTable>,
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
        let locations = vec![None; names.len()];
        Topology { names, links, locations, transfers: None }
    }

    /// This topology with the locations of its devices.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    pub(crate) fn with_locations(self, locations: Vec<Option<Location>>) -> Topology {
        Topology { locations, ..self }
    }

    /// This topology with measured transfers.
    #[must_use]
    pub fn with_transfer_table(self, table: TransferTable) -> Topology {
        Topology { transfers: Some(table), ..self }
    }

    /// These devices connected as a shape says, but never better than they are: a shape only takes
    /// connections away. Transfers are those of the shape, since copies may now take other ways;
    /// its names for devices are taken as the devices in the same places.
    ///
    /// # Errors
    /// [`Error::Topology`] for a shape of another number of devices.
    pub(crate) fn shaped_like(self, shape: &Topology) -> Result<Topology> {
        let (devices, found) = (self.names.len(), shape.names.len());
        if devices != found {
            let reason = format!("it has {found} devices, but {devices} are to be opened");
            return Err(Error::Topology { reason });
        }
        let worse = |from, to| self.link(from, to).min(shape.link(from, to));
        let links = Topology::from_links(self.names.clone(), worse).links;
        let name = |name: &str| {
            let place = shape.names.iter().position(|device| device == name);
            place.map_or(name, |place| &self.names[place]).to_string()
        };
        let transfers = shape.transfers.as_ref().map(|table| table.renamed(name));
        Ok(Topology { links, transfers, ..self })
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

    /// Where the GPU of a device sits; `None` for host devices.
    ///
    /// # Panics
    /// If a place is out of range.
    pub fn location(&self, place: usize) -> Option<&Location> {
        self.locations[place].as_ref()
    }

    /// How long copies take, if that was measured
    /// ([`DeviceSet::calibrate`](crate::DeviceSet::calibrate)) on this machine
    /// and kept.
    pub fn transfer_table(&self) -> Option<&TransferTable> {
        self.transfers.as_ref()
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

    /// Whether kernels of all devices can change each other's words atomically: over NVLink, or in
    /// one memory.
    pub fn all_have_atomics(&self) -> bool {
        let places = 0..self.names.len();
        let mut pairs =
            places.clone().flat_map(|one| places.clone().map(move |other| (one, other)));
        pairs.all(|(one, other)| one == other || self.link(one, other) >= LinkKind::NvLink)
    }

    /// An order of the devices in which neighbours, including the last and the first, are connected
    /// as well as can be found: the ring of the distributed worklist \[G §4.3\]. From every
    /// possible start, it goes on to the best connected device that is left (at a tie, the one of
    /// the lowest place), and the best of these rings is taken.
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

    /// How many links of each kind are in a ring, the worst kind first.
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
    fn the_rings_of_other_machines() {
        for (shape, ring, crossings_expected, all_peers) in [
            (
                include_str!("../tests/shapes/two-quadruplets.json"),
                vec![0, 1, 2, 3, 4, 5, 6, 7],
                2,
                false,
            ),
            (
                include_str!("../tests/shapes/two-quadruplets-interleaved.json"),
                vec![0, 2, 4, 6, 1, 3, 5, 7],
                2,
                false,
            ),
            (
                include_str!("../tests/shapes/nvlink-cube-mesh.json"),
                vec![0, 1, 3, 7, 4, 5, 6, 2],
                0,
                false,
            ),
        ] {
            let topology: Topology = shape.parse().unwrap();
            assert_eq!(topology.ring_order(), ring);
            assert_eq!(crossings(&topology, &ring), crossings_expected, "{ring:?}");
            assert_eq!(topology.all_peers(), all_peers);
        }
    }

    #[test]
    fn shapes_take_connections_away_and_add_none() {
        let names = ["cuda:0", "cuda:1", "cuda:2"];
        let here = Topology::from_links(names, |from, to| match (from, to) {
            (0, 1) | (1, 0) => LinkKind::NvLink,
            (from, to) if from == to => LinkKind::Memory,
            _ => LinkKind::Host,
        });
        let pair = |kind| {
            Topology::from_links(["0", "1"], |from, to| match from == to {
                true => LinkKind::Memory,
                false => kind,
            })
        };
        assert!(pair(LinkKind::NvLink).all_have_atomics() && pair(LinkKind::Pcie).all_peers());
        assert!(!pair(LinkKind::Pcie).all_have_atomics() && !here.all_have_atomics());
        let row = |to: usize| (0..3).map(move |from| (from, to));
        let shape = Topology::from_links(["0", "1", "2"], |from, to| match from == to {
            true => LinkKind::Memory,
            false => LinkKind::Pcie,
        });
        let shaped = here.clone().shaped_like(&shape).unwrap();
        assert_eq!(shaped.names(), names);
        for (from, to) in (0..3).flat_map(row) {
            let expected = here.link(from, to).min(shape.link(from, to));
            assert_eq!(shaped.link(from, to), expected);
        }
        let error = here.shaped_like(&Topology::uniform(["0"])).unwrap_err();
        assert!(error.to_string().contains("has 1 devices, but 3"), "{error}");
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
