//! Devices that reach each other's memory merge their trees of vertices \[G §5.1.4\]: each
//! tells of its own, reads what all others tell, and labels the vertices of its range.

use std::ops::Range;

use millstream_device::{Grid, Kernel, KernelFault, Shared, SharedBuffer, SharedSet, Value};
use millstream_flow::Result;

use crate::kernels::source;
use crate::merging::{Told, join, label, plant, tell, tell_of_hub};
use crate::solver::Solver;

/// Devices at most.
pub(crate) const MOST_DEVICES: usize = SharedSet::<u32>::MOST;

/// Ranges as kernels take them: those not needed are empty.
pub(crate) type Ranges = [[u32; 2]; MOST_DEVICES];

/// How vertices are spread over the devices.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    /// The vertices whose trees begin on each device: those that it names, and others
    /// between.
    pub(crate) covered: Vec<Range<u32>>,
    /// The vertices that each device labels.
    pub(crate) own: Vec<Range<u32>>,
    /// A vertex that every device covers, whose tree is told of by a bit for each vertex
    /// in it.
    pub(crate) hub: Option<u32>,
}

impl Spread {
    /// The disjoint ranges of vertices that a device tells of: what others cover too,
    /// or all if there is a hub, since it may be in a tree of others.
    pub(crate) fn told(&self, place: usize) -> Ranges {
        let own = &self.covered[place];
        let others = self.covered.iter().enumerate().filter(|(other, _)| *other != place);
        let both = |other: &Range<u32>| own.start.max(other.start)..own.end.min(other.end);
        let mut parts: Vec<Range<u32>> = others.map(|(_, other)| both(other)).collect();
        if self.hub.is_some() && self.covered.len() > 1 {
            parts = vec![own.clone()];
        }
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

/// Parents; members and pairs of all devices; which device this is, and of how many; the
/// hub.
macro_rules! with_told {
    ($($more:ty),*) => {
        (Shared<u32>, SharedSet<u32>, SharedSet<u64>, Value<u32>, Value<u32>, Value<u32>, $($more),*)
    };
}

/// Tells of the trees of disjoint ranges of vertices that begin at multiples of 32.
static TELL: Kernel<with_told!(Value<Ranges>)> = Kernel::with_source(
    "tell_of_trees",
    source("tell_of_trees"),
    |_, (parents, members, pairs, here, _, hub, ranges)| {
        let told = Told { members, pairs, here: here as usize };
        for [start, end] in ranges {
            Grid::of_blocks((end - start) as usize, BLOCK).for_each_block(|block| {
                let at = |place: usize| start + place as u32;
                tell(&told, parents, at(block.range.start)..at(block.range.end), hub);
                Ok(())
            })?;
        }
        tell_of_hub(&told, parents, hub);
        Ok(())
    },
);

/// Vertices outside of a range that any device tells of become trees.
static PLANT: Kernel<with_told!(Value<[u32; 2]>)> = Kernel::with_source(
    "plant_trees",
    source("plant_trees"),
    |_, (parents, members, pairs, here, _, _, [start, end])| {
        let told = Told { members, pairs, here: here as usize };
        for_each_pair(&told, |pair| plant(parents, pair, &(start..end)))
    },
);

/// Hooks along all pairs.
static JOIN: Kernel<with_told!()> = Kernel::with_source(
    "join_trees",
    source("join_trees"),
    |_, (parents, members, pairs, here, _, hub)| {
        let told = Told { members, pairs, here: here as usize };
        for_each_pair(&told, |pair| join(&told, parents, pair, hub))
    },
);

/// Makes the root of every vertex of a range its parent.
static LABEL: Kernel<with_told!(Value<[u32; 2]>)> = Kernel::with_source(
    "label_vertices",
    source("label_vertices"),
    |_, (parents, members, pairs, here, _, hub, [start, end])| {
        let told = Told { members, pairs, here: here as usize };
        Grid::of_blocks((end - start) as usize, BLOCK).for_each_block(|block| {
            block.range.for_each(|at| label(&told, parents, start + at as u32, hub));
            Ok(())
        })
    },
);

/// Vertices of a block of a twin.
const BLOCK: usize = 1 << 14;

fn for_each_pair(
    told: &Told<'_>,
    visit: impl Fn([u32; 2]) + Sync,
) -> Result<(), KernelFault> {
    for device in 0..told.pairs.len() {
        Grid::of_blocks(told.pairs_of(device), BLOCK).for_each_block(|block| {
            block.range.for_each(|at| visit(told.pair(device, at)));
            Ok(())
        })?;
    }
    Ok(())
}

/// What each device tells.
pub(crate) struct Sets<'a> {
    members: Vec<&'a SharedBuffer<u32>>,
    pairs: Vec<&'a SharedBuffer<u64>>,
}

impl<'a> Sets<'a> {
    pub(crate) fn new(solvers: &'a [Solver]) -> Sets<'a> {
        Sets {
            members: solvers.iter().map(|solver| &solver.members).collect(),
            pairs: solvers.iter().map(|solver| &solver.pairs).collect(),
        }
    }

    pub(crate) fn arguments(&self) -> (&[&'a SharedBuffer<u32>], &[&'a SharedBuffer<u64>]) {
        (&self.members, &self.pairs)
    }
}

/// Merges what devices have hooked, when that is submitted.
pub(crate) fn merge(solvers: &[Solver], hub: u32) -> Result<()> {
    let sets = Sets::new(solvers);
    let (members, pairs) = sets.arguments();
    let devices = solvers.len() as u32;
    let mut told = Vec::new();
    for (here, solver) in (0..).zip(solvers) {
        let Solver { stream, parents, covered, told: ranges, .. } = solver;
        let arguments = (parents, members, pairs, here, devices, hub, *ranges);
        TELL.launch(stream, covered.len(), arguments)?;
        told.push(stream.record()?);
    }
    for (here, solver) in (0..).zip(solvers) {
        let Solver { stream, parents, covered, .. } = solver;
        told.iter().try_for_each(|event| stream.wait(event))?;
        if covered.len() < parents.len() {
            let covered = [covered.start, covered.end];
            let arguments = (parents, members, pairs, here, devices, hub, covered);
            PLANT.launch(stream, parents.len(), arguments)?;
        }
        let arguments = (parents, members, pairs, here, devices, hub);
        JOIN.launch(stream, parents.len(), arguments)?;
    }
    Ok(())
}

/// Labels the vertices of each device's range, when all is hooked and merged.
pub(crate) fn label_all(solvers: &[Solver], hub: u32) -> Result<()> {
    let sets = Sets::new(solvers);
    let (members, pairs) = sets.arguments();
    for (here, solver) in (0..).zip(solvers) {
        let Solver { stream, parents, own, .. } = solver;
        let range = [own.start, own.end];
        let arguments = (parents, members, pairs, here, solvers.len() as u32, hub, range);
        LABEL.launch(stream, own.len(), arguments)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(covered: &[Range<u32>], hub: Option<u32>) -> Spread {
        Spread { covered: covered.to_vec(), own: covered.to_vec(), hub }
    }

    fn told(spread: &Spread) -> Vec<Vec<[u32; 2]>> {
        let all = (0..spread.covered.len()).map(|place| spread.told(place).to_vec());
        all.map(|ranges| ranges.into_iter().filter(|[start, end]| start < end).collect()).collect()
    }

    #[test]
    fn devices_tell_of_what_others_cover_too() {
        let covered = [0..96, 64..128, 128..192, 32..64, 192..192];
        assert_eq!(told(&spread(&covered, None)), [
            vec![[32, 96]],
            vec![[64, 96]],
            vec![],
            vec![[32, 64]],
            vec![],
        ]);
    }

    #[test]
    fn of_a_hub_s_tree_others_are_told_everywhere() {
        assert_eq!(told(&spread(&[0..64, 32..96], Some(40))), [vec![[0, 64]], vec![[32, 96]]]);
        assert_eq!(told(&spread(&[0..64], Some(40))), [vec![]]);
    }
}
