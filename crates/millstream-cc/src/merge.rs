//! Resident searches of host devices that reach each other's memory, step by step: the
//! twin of `cc_gang.cuh`.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_device::{
    Event, Grid, Kernel, KernelFault, Read, Shared, SharedBuffer, SharedSet, Value,
};
use millstream_flow::Result;

use crate::hooking::{are_together, hook};
use crate::kernels::{ARCS, for_each_row, visit_rows};
use crate::merging::{Members, Told, hook_and_tell, join, label, plant, tell};
use crate::solver::{Resident, Solver};

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
}

impl Spread {
    /// The disjoint ranges of vertices that a device tells of: what others cover too.
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

/// Rows of arcs and whose is the first; members of all devices; which device this is; the
/// hub; a counter of those found.
type Flood =
    (Read<u64>, Read<u32>, Value<u32>, SharedSet<u32>, Value<u32>, Value<u32>, Shared<u32>);

/// The hub and its neighbours become members, where its row is.
static FLOOD_FROM_HUB: Kernel<Flood> =
    Kernel::new("flood_from_hub", |_, (offsets, targets, first, of, here, hub, _)| {
        let members = Members { of, here: here as usize };
        let row = hub.wrapping_sub(first) as usize;
        if row + 1 < offsets.len() {
            members.add(hub);
            let arcs = offsets[row] as usize..offsets[row + 1] as usize;
            targets[arcs].iter().for_each(|&target| members.add(target));
        }
        Ok(())
    });

/// Vertices with a member next to them become members.
static FLOOD: Kernel<Flood> =
    Kernel::new("flood", |_, (offsets, targets, first, of, here, _, found)| {
        let members = Members { of, here: here as usize };
        Grid::of_blocks(targets.len(), ARCS).for_each_block(|block| {
            // Counted once: threads would wait for each other's additions.
            let mut its = 0;
            visit_rows(offsets, targets, block.range, |row, targets| {
                let vertex = first + row as u32;
                if !members.has(vertex) && targets.iter().any(|&target| members.has(target)) {
                    members.add(vertex);
                    its += 1;
                }
            });
            found[0].fetch_add(its, Ordering::Relaxed);
            Ok(())
        })
    });

/// Hooks along the rows of vertices that are no members, and tells of it. Takes rows of arcs and
/// whose is the first; parents; members and pairs of all devices; which device this is; the hub.
type Outside = (
    Read<u64>,
    Read<u32>,
    Value<u32>,
    Shared<u32>,
    SharedSet<u32>,
    SharedSet<u64>,
    Value<u32>,
    Value<u32>,
);
static HOOK_OUTSIDE: Kernel<Outside> =
    Kernel::new("hook_outside", |_, (offsets, targets, first, parents, of, pairs, here, hub)| {
        let members = Members { of, here: here as usize };
        let told = Told { pairs, here: here as usize };
        // Each device does.
        if let Some(smallest) = members.smallest() {
            hook(parents, smallest, hub);
        }
        for_each_row(offsets, targets, |row, targets| {
            let vertex = first + row as u32;
            for &target in if members.has(vertex) { &[] } else { targets } {
                if are_together(parents, vertex, hub) {
                    break;
                }
                let target = if members.has(target) { hub } else { target };
                hook_and_tell(&told, parents, vertex, target);
            }
        })
    });

/// Tells of the trees of disjoint ranges of vertices: of parents, in the pairs of this
/// device.
static TELL: Kernel<(Shared<u32>, SharedSet<u64>, Value<u32>, Value<Ranges>)> =
    Kernel::new("tell", |_, (parents, pairs, here, ranges)| {
        let told = Told { pairs, here: here as usize };
        for [start, end] in ranges {
            Grid::of_blocks((end - start) as usize, BLOCK).for_each_block(|block| {
                let at = |place: usize| start + place as u32;
                tell(&told, parents, at(block.range.start)..at(block.range.end));
                Ok(())
            })?;
        }
        Ok(())
    });

/// Parents; pairs of all devices; a range.
type Pairs = (Shared<u32>, SharedSet<u64>, Value<[u32; 2]>);

/// Vertices outside of a range that any device tells of become trees.
static PLANT: Kernel<Pairs> = Kernel::new("plant", |_, (parents, pairs, [start, end])| {
    for_each_pair(pairs, |pair| plant(parents, pair, &(start..end)))
});

/// Hooks along all pairs.
static JOIN: Kernel<Pairs> =
    Kernel::new("join", |_, (parents, pairs, _)| for_each_pair(pairs, |pair| join(parents, pair)));

/// Parents; members of all devices; which device this is; the hub; the vertices to label.
type Label = (Shared<u32>, SharedSet<u32>, Value<u32>, Value<u32>, Value<[u32; 2]>);
static LABEL: Kernel<Label> = Kernel::new("label", |_, (parents, of, here, hub, [start, end])| {
    let members = Members { of, here: here as usize };
    Grid::of_blocks((end - start) as usize, BLOCK).for_each_block(|block| {
        block.range.for_each(|at| label(&members, parents, start + at as u32, hub));
        Ok(())
    })
});

/// Vertices of a block of a twin.
const BLOCK: usize = 1 << 14;

fn for_each_pair(
    pairs: Vec<&[AtomicU64]>,
    visit: impl Fn([u32; 2]) + Sync,
) -> Result<(), KernelFault> {
    let told = Told { pairs, here: 0 };
    for device in 0..told.pairs.len() {
        Grid::of_blocks(told.count_of(device), BLOCK).for_each_block(|block| {
            block.range.for_each(|at| visit(told.pair(device, at)));
            Ok(())
        })?;
    }
    Ok(())
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

/// All streams wait for all.
fn meet(solvers: &[Solver]) -> Result<()> {
    let events = solvers.iter().map(|solver| solver.stream.record());
    let events = events.collect::<Result<Vec<Event>, _>>()?;
    for solver in solvers {
        events.iter().try_for_each(|event| solver.stream.wait(event))?;
    }
    Ok(())
}

/// Searches from the hub, pass by pass; hooks what that has not found, and tells of it.
pub(crate) async fn hook_outside_hub(solvers: &[Solver], residents: &[Resident<'_>]) -> Result<()> {
    let sets = Sets::new(solvers);
    let members = &sets.members[..];
    let found = solvers.iter().map(|solver| solver.host.shared(1));
    let found = found.collect::<Result<Vec<SharedBuffer<u32>>, _>>()?;
    let launch = |kernel: &Kernel<Flood>| -> Result<()> {
        let all = solvers.iter().zip(residents).zip(&found);
        for (here, ((solver, &Resident { part, first_vertex, hub, .. }), found)) in (0..).zip(all) {
            let arguments =
                (&*part.offsets, &*part.targets, first_vertex, members, here, hub, found);
            kernel.launch(&solver.stream, part.targets.len(), arguments)?;
        }
        meet(solvers)
    };
    launch(&FLOOD_FROM_HUB)?;
    let mut before = 0;
    loop {
        launch(&FLOOD)?;
        let mut all = 0;
        for (solver, found) in solvers.iter().zip(&found) {
            solver.stream.completed()?.await?;
            all += u64::from(found.load(0)?);
        }
        // As `least_found` of `cc_gang.cuh`.
        const LEAST_FOUND: u64 = 128;
        if (all - before) * LEAST_FOUND <= solvers[0].parents.len() as u64 {
            break;
        }
        before = all;
    }
    for (here, (solver, resident)) in (0..).zip(solvers.iter().zip(residents)) {
        let &Resident { part, first_vertex, hub, .. } = resident;
        let (offsets, targets, parents) = (&*part.offsets, &*part.targets, &solver.parents);
        solver.start_alone()?;
        let arguments =
            (offsets, targets, first_vertex, parents, members, &sets.pairs[..], here, hub);
        HOOK_OUTSIDE.launch(&solver.stream, targets.len(), arguments)?;
    }
    Ok(())
}

/// Hooks along rows, and tells of the trees.
pub(crate) fn hook_rows(solvers: &[Solver], residents: &[Resident<'_>]) -> Result<()> {
    let pairs = &Sets::new(solvers).pairs[..];
    for (here, (solver, resident)) in (0..).zip(solvers.iter().zip(residents)) {
        let Solver { stream, parents, covered, told, .. } = solver;
        solver.hook_rows(stream, resident)?;
        TELL.launch(stream, covered.len(), (parents, pairs, here, *told))?;
    }
    Ok(())
}

/// Merges the trees that devices have told of, when that is submitted, and labels the vertices of
/// each one's range.
pub(crate) fn merge(solvers: &[Solver], hub: u32) -> Result<()> {
    let Sets { members, pairs } = &Sets::new(solvers);
    meet(solvers)?;
    for (here, solver) in (0..).zip(solvers) {
        let Solver { stream, parents, covered, own, .. } = solver;
        let arguments = (parents, &pairs[..], [covered.start, covered.end]);
        PLANT.launch(stream, parents.len(), arguments)?;
        JOIN.launch(stream, parents.len(), arguments)?;
        let arguments = (parents, &members[..], here, hub, [own.start, own.end]);
        LABEL.launch(stream, own.len(), arguments)?;
    }
    Ok(())
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
