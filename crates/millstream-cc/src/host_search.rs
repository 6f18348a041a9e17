//! Resident searches of host devices that reach each other's memory, and so share one forest: see
//! `README.md`.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use millstream_device::{Grid, Kernel, KernelResult, Parameter, Read, Shared, Stream, Value};
use millstream_flow::Context;
use millstream_graph::Partition;
use millstream_graph::pieces::visit_rows;
use millstream_traversal::internals::{TwinMeetings, streams};

use crate::cc::CcResult;
use crate::hooking::{are_together, hook};
use crate::kernels::{ARCS, Rows, for_each_row};
use crate::members::{Members, label};
use crate::search::{gathered, links_of_pairs};
use crate::solver::Resident;
use crate::statistics::DeviceStatistics;
use crate::{Method, Result};

/// Vertices of a block.
const BLOCK: usize = 1 << 14;

/// What the devices do until they meet again.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Make own vertices trees; the hub's owner makes the hub and its neighbours members.
    Start,
    /// Make vertices that have a member as a neighbour members.
    Flood,
    /// Hook along own rows.
    Hook,
    /// Label own vertices.
    Label,
}

/// How far a search has come.
#[derive(Clone, Copy, Debug)]
struct Course {
    phase: Phase,
    /// Vertices that all floods so far have found.
    found: u64,
}

impl Course {
    /// Goes on to the next phase; all floods so far have `found` that many vertices. Whether there is one.
    fn advance(&mut self, method: Method, found: u64, vertices: usize) -> bool {
        // As `least_found` of `cc_gang.cuh`.
        const LEAST_FOUND: u64 = 128;
        self.phase = match self.phase {
            Phase::Start if method == Method::OutsideHub => Phase::Flood,
            Phase::Flood if (found - self.found) * LEAST_FOUND > vertices as u64 => Phase::Flood,
            Phase::Start | Phase::Flood => Phase::Hook,
            Phase::Hook => Phase::Label,
            Phase::Label => return false,
        };
        self.found = found;
        true
    }
}

/// Rows of arcs and their first vertex; parents and members of all vertices; the device's place.
type Signature = ((Read<u64>, Read<u32>, Value<u32>), Shared<u32>, Shared<u32>, Value<u32>);
type View<'a> = <Signature as Parameter>::View<'a>;

/// Finds the components of a graph of which each device has the rows of its part.
pub(crate) async fn run(
    context: &Context,
    partition: &Partition,
    residents: &[Resident<'_>],
    (method, hub): (Method, u32),
) -> Result<CcResult> {
    let vertices = partition.vertices() as usize;
    // Parents and members of all vertices are in the first device's memory.
    let first = &context.devices()[0];
    let parents = first.shared_to_overwrite(vertices)?;
    let is_outside_hub = method == Method::OutsideHub;
    let members = first.shared(if is_outside_hub { vertices.div_ceil(32) } else { 0 })?;
    let meetings = TwinMeetings::new(context, Course { phase: Phase::Start, found: 0 });
    let kernel = kernel(&meetings, residents.len(), (method, hub));
    let launch = |place: usize, stream: &Stream| {
        let Resident { part, first_vertex, .. } = residents[place];
        let rows = (&*part.offsets, &*part.targets, first_vertex);
        kernel.launch(stream, 1, (rows, &parents, &members, place as u32))
    };
    let streams = streams(context)?;
    let start = Instant::now();
    meetings.run(&streams, launch).await?;
    let run_time = start.elapsed();
    let devices = residents.iter().map(|resident| {
        let hooked = resident.part.targets.len() as u64;
        DeviceStatistics { hooked, ..DeviceStatistics::default() }
    });
    let labels = [(&streams[0], &parents, 0..vertices)];
    let mut result = gathered(labels.into_iter(), devices.collect(), run_time).await?;
    result.statistics.links = links_of_pairs(context.devices(), &vec![0; residents.len()]);
    Ok(result)
}

fn kernel(
    meetings: &Arc<TwinMeetings<Course>>,
    devices: usize,
    (method, hub): (Method, u32),
) -> Kernel<Signature> {
    let found: Arc<[AtomicU64]> = (0..devices).map(|_| AtomicU64::new(0)).collect();
    let meetings = Arc::clone(meetings);
    Kernel::of_step_closure("components", move |_, view: &View<'_>| {
        let (rows, parents, members, here) = *view;
        let twin = Twin { rows, parents, members: Members(members), method, hub };
        let here = here as usize;
        let step = |course: &Course| twin.step(course.phase, &found[here]);
        let advance = |course: &mut Course| {
            let found = found.iter().map(|its| its.load(Ordering::Relaxed)).sum();
            course.advance(method, found, parents.len())
        };
        meetings.run_twin(here, step, advance)
    })
}

/// One device. All memory orders are relaxed: the meetings publish.
struct Twin<'a> {
    rows: (&'a [u64], &'a [u32], u32),
    parents: &'a [AtomicU32],
    members: Members<'a>,
    method: Method,
    hub: u32,
}

impl Twin<'_> {
    fn step(&self, phase: Phase, found: &AtomicU64) -> KernelResult {
        match (phase, self.method) {
            (Phase::Start, _) => self.start(),
            (Phase::Flood, _) => self.flood(found),
            (Phase::Hook, Method::OutsideHub) => self.hook_outside(),
            (Phase::Hook, Method::TowardsSmaller) => self.hook_if(|vertex, target| target < vertex),
            (Phase::Hook, Method::EveryArc) => self.hook_if(|_, _| true),
            (Phase::Label, _) => self.for_each_own(|vertex| {
                label(&self.members, self.parents, vertex, self.hub);
            }),
        }
    }

    fn start(&self) -> KernelResult {
        let (offsets, targets, first) = self.rows;
        if self.method == Method::OutsideHub && self.own().contains(&self.hub) {
            self.members.add(self.hub);
            let row = (self.hub - first) as usize;
            let arcs = offsets[row] as usize..offsets[row + 1] as usize;
            targets[arcs].iter().for_each(|&target| self.members.add(target));
        }
        let (rows, is_hooked) = (Rows { offsets, targets, first }, self.method == Method::EveryArc);
        self.for_each_own(|vertex| {
            let parent = if is_hooked { rows.first_parent(vertex) } else { vertex };
            self.parents[vertex as usize].store(parent, Ordering::Relaxed);
        })
    }

    fn flood(&self, found: &AtomicU64) -> KernelResult {
        let ((offsets, targets, first), members) = (self.rows, &self.members);
        Grid::of_blocks(targets.len(), ARCS).for_each_block(|block| {
            // One addition for each block: with more, threads would contend for the counter.
            let mut its = 0;
            visit_rows(offsets, block.range, |row, arcs| {
                let vertex = first + row as u32;
                if !members.has(vertex) && targets[arcs].iter().any(|&target| members.has(target)) {
                    members.add(vertex);
                    its += 1;
                }
            });
            found.fetch_add(its, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Hooks along the arcs for which `is_asked_for` holds.
    fn hook_if(&self, is_asked_for: impl Fn(u32, u32) -> bool + Sync) -> KernelResult {
        let ((offsets, targets, first), parents) = (self.rows, self.parents);
        for_each_row(offsets, targets, |row, targets| {
            let vertex = first + row as u32;
            for &target in targets.iter().filter(|&&target| is_asked_for(vertex, target)) {
                hook(parents, vertex, target);
            }
        })
    }

    /// Hooks along the rows of vertices that are not members.
    fn hook_outside(&self) -> KernelResult {
        let ((offsets, targets, first), parents, hub) = (self.rows, self.parents, self.hub);
        if self.own().contains(&hub)
            && let Some(smallest) = self.members.smallest()
        {
            hook(parents, smallest, hub);
        }
        for_each_row(offsets, targets, |row, targets| {
            let vertex = first + row as u32;
            for &target in if self.members.has(vertex) { &[] } else { targets } {
                if are_together(parents, vertex, hub) {
                    break;
                }
                let target = if self.members.has(target) { hub } else { target };
                hook(parents, vertex, target);
            }
        })
    }

    /// The device's vertices.
    fn own(&self) -> Range<u32> {
        let (offsets, _, first) = self.rows;
        first..first + (offsets.len() - 1) as u32
    }

    fn for_each_own(&self, visit: impl Fn(u32) + Sync + Send) -> KernelResult {
        let own = self.own();
        Grid::of_blocks(own.len(), BLOCK).for_each_block(|block| {
            block.range.for_each(|at| visit(own.start + at as u32));
            Ok(())
        })
    }
}
