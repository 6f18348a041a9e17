//! Resident searches of host devices that reach each other's memory: the twin of `cc_gang.cuh`.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use millstream_device::{
    Grid, Kernel, KernelResult, Parameter, Read, Shared, SharedBuffer, SharedSet, Stream, Value,
};
use millstream_flow::{Context, Result};
use millstream_traversal::internals::TwinMeetings;

use crate::Method;
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

/// What the devices do until they meet again.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The hub and its neighbours become members, where its row is.
    FloodFromHub,
    /// Vertices with a member next to them become members.
    Flood,
    /// Hooks along the rows of vertices that are no members, and tells of it.
    HookOutside,
    /// Tells of the trees of what others cover, too.
    Tell,
    /// Joins the trees that devices have told of, and labels.
    Merge,
}

/// How far a search has come.
#[derive(Clone, Copy, Debug)]
struct Course {
    phase: Phase,
    /// What floods have found.
    found: u64,
}

impl Course {
    /// Goes on when all floods have `found` so many of all vertices. Whether there is more to do.
    fn advance(&mut self, found: u64, vertices: usize) -> bool {
        // As `least_found` of `cc_gang.cuh`.
        const LEAST_FOUND: u64 = 128;
        self.phase = match self.phase {
            Phase::FloodFromHub => Phase::Flood,
            Phase::Flood if (found - self.found) * LEAST_FOUND > vertices as u64 => Phase::Flood,
            Phase::Flood => Phase::HookOutside,
            Phase::HookOutside | Phase::Tell => Phase::Merge,
            Phase::Merge => return false,
        };
        self.found = found;
        true
    }
}

/// Rows of arcs and whose is the first; parents; members; pairs of all devices; which device this is,
/// and the hub; the vertices covered and those to label; the ranges to tell of.
type Signature = (
    (Read<u64>, Read<u32>, Value<u32>),
    Shared<u32>,
    (Shared<u32>, SharedSet<u64>),
    (Value<u32>, Value<u32>),
    (Value<[u32; 2]>, Value<[u32; 2]>),
    Value<Ranges>,
);

/// Hooks along resident rows, merges the trees of all devices, and labels the vertices of each one's
/// range.
pub(crate) async fn search(
    context: &Context,
    solvers: &[Solver],
    residents: &[Resident<'_>],
) -> Result<()> {
    let mut phase = Phase::FloodFromHub;
    for (solver, resident) in solvers.iter().zip(residents) {
        if resident.method != Method::OutsideHub {
            solver.hook_rows(&solver.stream, resident)?;
            phase = Phase::Tell;
        }
    }
    let meetings = TwinMeetings::new(context, Course { phase, found: 0 });
    let kernel = kernel(&meetings, solvers.len());
    let Sets { members, pairs } = &Sets::new(solvers);
    // In the first one's memory, for all.
    let members = members[0];
    let launch = |place: usize, stream: &Stream| {
        let (solver, resident) = (&solvers[place], &residents[place]);
        let Solver { parents, covered, own, told, .. } = solver;
        let (offsets, targets) = (&*resident.part.offsets, &*resident.part.targets);
        let range = |range: &Range<u32>| [range.start, range.end];
        let arguments = (
            (offsets, targets, resident.first_vertex),
            parents,
            (members, &pairs[..]),
            (place as u32, resident.hub),
            (range(covered), range(own)),
            *told,
        );
        kernel.launch(stream, 1, arguments)
    };
    let streams: Vec<_> = solvers.iter().map(|solver| solver.stream.clone()).collect();
    Ok(meetings.run(&streams, launch).await?)
}

fn kernel(meetings: &Arc<TwinMeetings<Course>>, devices: usize) -> Kernel<Signature> {
    let found: Arc<[AtomicU64]> = (0..devices).map(|_| AtomicU64::new(0)).collect();
    let meetings = Arc::clone(meetings);
    Kernel::of_step_closure("components", move |_, view: &View<'_>| {
        let twin = Twin::new(view);
        let step = |course: &Course| twin.step(course.phase, &found[twin.told.here]);
        let advance = |course: &mut Course| {
            let found = found.iter().map(|its| its.load(Ordering::Relaxed)).sum();
            course.advance(found, twin.parents.len())
        };
        meetings.run_twin(twin.told.here, step, advance)
    })
}

type View<'a> = <Signature as Parameter>::View<'a>;

/// One device. All orders are relaxed: the meetings publish.
struct Twin<'a> {
    rows: (&'a [u64], &'a [u32], u32),
    parents: &'a [AtomicU32],
    members: Members<'a>,
    told: Told<'a>,
    hub: u32,
    covered: Range<u32>,
    own: Range<u32>,
    ranges: Ranges,
}

impl<'a> Twin<'a> {
    fn new(view: &View<'a>) -> Twin<'a> {
        let (rows, parents, (members, pairs), (here, hub), (covered, own), ranges) = view.clone();
        let here = here as usize;
        let range = |[start, end]: [u32; 2]| start..end;
        Twin {
            rows,
            parents,
            members: Members(members),
            told: Told { pairs, here },
            hub,
            covered: range(covered),
            own: range(own),
            ranges,
        }
    }

    fn step(&self, phase: Phase, found: &AtomicU64) -> KernelResult {
        match phase {
            Phase::FloodFromHub => self.flood_from_hub(),
            Phase::Flood => self.flood(found),
            Phase::HookOutside => self.hook_outside(),
            Phase::Tell => self.tell(),
            Phase::Merge => self.merge(),
        }
    }

    fn flood_from_hub(&self) -> KernelResult {
        let (offsets, targets, first) = self.rows;
        let row = self.hub.wrapping_sub(first) as usize;
        if row + 1 < offsets.len() {
            self.members.add(self.hub);
            let arcs = offsets[row] as usize..offsets[row + 1] as usize;
            targets[arcs].iter().for_each(|&target| self.members.add(target));
        }
        Ok(())
    }

    fn flood(&self, found: &AtomicU64) -> KernelResult {
        let ((offsets, targets, first), members) = (self.rows, &self.members);
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
            found.fetch_add(its, Ordering::Relaxed);
            Ok(())
        })
    }

    fn hook_outside(&self) -> KernelResult {
        let ((offsets, targets, first), parents, hub) = (self.rows, self.parents, self.hub);
        for_each_of(&self.covered, |vertex| {
            parents[vertex as usize].store(vertex, Ordering::Relaxed);
        })?;
        // Each device does.
        if let Some(smallest) = self.members.smallest() {
            hook(parents, smallest, hub);
        }
        for_each_row(offsets, targets, |row, targets| {
            let vertex = first + row as u32;
            for &target in if self.members.has(vertex) { &[] } else { targets } {
                if are_together(parents, vertex, hub) {
                    break;
                }
                let target = if self.members.has(target) { hub } else { target };
                hook_and_tell(&self.told, parents, vertex, target);
            }
        })
    }

    fn tell(&self) -> KernelResult {
        for [start, end] in self.ranges {
            Grid::of_blocks((end - start) as usize, BLOCK).for_each_block(|block| {
                let at = |place: usize| start + place as u32;
                tell(&self.told, self.parents, at(block.range.start)..at(block.range.end));
                Ok(())
            })?;
        }
        Ok(())
    }

    fn merge(&self) -> KernelResult {
        // Vertices that others tell of become trees; then all are joined.
        self.for_each_pair(|pair| plant(self.parents, pair, &self.covered))?;
        self.for_each_pair(|pair| join(self.parents, pair))?;
        for_each_of(&self.own, |vertex| label(&self.members, self.parents, vertex, self.hub))
    }

    fn for_each_pair(&self, visit: impl Fn([u32; 2]) + Sync) -> KernelResult {
        for device in 0..self.told.pairs.len() {
            Grid::of_blocks(self.told.count_of(device), BLOCK).for_each_block(|block| {
                block.range.for_each(|at| visit(self.told.pair(device, at)));
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Vertices of a block.
const BLOCK: usize = 1 << 14;

fn for_each_of(vertices: &Range<u32>, visit: impl Fn(u32) + Sync + Send) -> KernelResult {
    Grid::of_blocks(vertices.len(), BLOCK).for_each_block(|block| {
        block.range.for_each(|at| visit(vertices.start + at as u32));
        Ok(())
    })
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
