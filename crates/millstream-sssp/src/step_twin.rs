//! The phases of a search in steps on host devices, which share values and lists in one memory: what
//! `steps.cuh` does between barriers.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_device::{
    Grid, Kernel, KernelResult, Parameter, Shared, SharedBuffer, Stream, Value as Plain,
};
use millstream_traversal::UNREACHED;
use millstream_traversal::internals::{
    GangPlace, GangWork, TwinLists, TwinMeetings, Value, claim, streams,
};

use crate::Result;
use crate::rule::DistanceRule;
use crate::step_pilot::{Phase, Pilot, Totals};
use crate::step_search::{Rows, Settings, StepSearch};

/// Rows of outgoing and of incoming arcs; the values, the lists and the marks of all vertices; settings.
type Signature<W, V> = (Rows<W>, Rows<W>, Shared<V>, Shared<u32>, Shared<u32>, Plain<Settings>);
/// The twin's view of its arguments.
type View<'a, R, V> =
    <Signature<<R as millstream_traversal::internals::Rule>::Weight, V> as Parameter>::View<'a>;

/// Memory that all devices share, allocated on the first one.
#[derive(Debug)]
pub(crate) struct Memory<V: Value> {
    /// The values of all vertices.
    pub(crate) values: SharedBuffer<V>,
    /// Two lists with room for all vertices: a device's part begins where its vertices do.
    lists: SharedBuffer<u32>,
    /// For each vertex, a bit for each list, and one for whether it has been counted as settled.
    marks: SharedBuffer<u32>,
}

/// What a device has counted since the start.
#[derive(Debug, Default)]
struct Tally {
    /// Arcs that enter vertices that have been expanded.
    settled: AtomicU64,
    /// The complement of the least key seen beyond the step since all last met; 0 if none was seen.
    nearest: AtomicU32,
    /// Reached vertices that `Pull` has not listed in the last step, since they cannot come nearer.
    pulled: AtomicU64,
}

/// What all devices have counted.
#[derive(Debug)]
struct Counts {
    lists: TwinLists,
    tallies: Vec<Tally>,
}

/// The marks of counted vertices, which follow those of the two lists.
const COUNTED: usize = 2;
/// Vertices of a block.
const BLOCK: usize = 512;

/// How far a search has come.
#[derive(Clone, Debug)]
struct Course {
    pilot: Pilot,
    /// Which list is filled.
    filled: usize,
    /// For each device, its total of listed vertices when that list was begun, and how many the other list
    /// has.
    lists: Vec<(u64, u64)>,
}

impl Course {
    /// Goes on to the next phase, decided from what the devices have counted. Whether there is one.
    fn advance(&mut self, Counts { lists, tallies }: &Counts) -> bool {
        let mut totals = Totals::default();
        let mut nearest = 0;
        for (device, tally) in tallies.iter().enumerate() {
            totals.listed += lists.listed(device);
            totals.settled += tally.settled.load(Ordering::Relaxed);
            nearest = tally.nearest.swap(0, Ordering::Relaxed).max(nearest);
        }
        totals.nearest = (nearest != 0).then_some(!nearest);
        let before = self.pilot.phase;
        self.pilot.advance(totals);
        // The list just filled is read next, except that a repeated review reads the same list again.
        let is_turned = before != Phase::Review || self.pilot.phase != Phase::Review;
        self.filled ^= usize::from(is_turned);
        for (device, (mark, here)) in self.lists.iter_mut().enumerate() {
            let listed = lists.listed(device);
            if is_turned {
                *here = listed - *mark;
            }
            *mark = listed;
        }
        self.pilot.phase != Phase::Finished
    }
}

impl<V: Value> Memory<V> {
    /// For a search from `sources`, given by new ids.
    pub(crate) async fn new<R: DistanceRule>(
        search: &StepSearch<'_, R>,
        sources: &[u32],
    ) -> Result<Memory<V>> {
        let incoming = &search.graph.incoming;
        let vertices = incoming.vertices() as usize;
        let first = &incoming.context().devices()[..1];
        let values = incoming.filled(first, V::UNREACHED, sources, V::new(0, UNREACHED)).await?;
        Ok(Memory {
            values: values[0].clone(),
            lists: first[0].shared_to_overwrite(2 * vertices)?,
            marks: first[0].shared(3 * vertices.div_ceil(32))?,
        })
    }
}

/// Runs all phases. Returns how long they took, and what the devices have done.
pub(crate) async fn run<R: DistanceRule, V: Value>(
    search: &StepSearch<'_, R>,
    memory: &Memory<V>,
) -> Result<(Duration, Vec<GangWork>)> {
    let context = search.graph.incoming.context();
    let pilot = Pilot::new(search.rules());
    let course = Course { pilot, filled: 0, lists: vec![(0, 0); context.devices().len()] };
    let meetings = TwinMeetings::new(context, course);
    let tallies: Vec<_> = context.devices().iter().map(|_| Tally::default()).collect();
    let counted = Arc::new(Counts { lists: TwinLists::new(tallies.len()), tallies });
    let (shared, counts) = (Arc::clone(&meetings), Arc::clone(&counted));
    let kernel: Kernel<Signature<R::Weight, V>> =
        Kernel::of_step_closure("steps", move |_, view: &View<'_, R, V>| {
            let twin = Twin::<R, V>::new(view, &counts);
            let here = twin.settings.place.device as usize;
            shared.run_twin(here, |course| twin.phase(course), |course| course.advance(&counts))
        });
    let launch = |place: usize, stream: &Stream| {
        let rows = (search.outgoing(place), search.incoming(place));
        let Memory { values, lists, marks } = memory;
        let arguments = (rows.0, rows.1, values, lists, marks, search.settings(place));
        kernel.launch(stream, 1, arguments)
    };
    let start = Instant::now();
    meetings.run(&streams(context)?, launch).await?;
    let time = start.elapsed();
    let mut work = counted.lists.work();
    for (its, tally) in work.iter_mut().zip(&counted.tallies) {
        its.visited += tally.pulled.load(Ordering::Relaxed);
    }
    Ok((time, work))
}

/// Offsets, targets and weights.
type RowsHere<'a, W> = (&'a [u64], &'a [u32], &'a [W]);

/// One device in one phase. All memory orders are relaxed: the meetings publish.
struct Twin<'a, R: DistanceRule, V: Value> {
    out: RowsHere<'a, R::Weight>,
    incoming: RowsHere<'a, R::Weight>,
    values: &'a [V::Atomic],
    lists: &'a [AtomicU32],
    marks: &'a [AtomicU32],
    counts: &'a Counts,
    settings: Settings,
    rule: PhantomData<R>,
}

/// What a block has found.
#[derive(Default)]
struct Found {
    listed: Vec<u32>,
    settled: u64,
    pulled: u64,
    nearest: u32,
}

impl<'a, R: DistanceRule, V: Value> Twin<'a, R, V> {
    fn new(view: &View<'a, R, V>, counts: &'a Counts) -> Twin<'a, R, V> {
        let (out, incoming, values, lists, marks, settings) = *view;
        Twin { out, incoming, values, lists, marks, counts, settings, rule: PhantomData }
    }

    fn phase(&self, course: &Course) -> KernelResult {
        match course.pilot.phase {
            Phase::Collect => self.collect(course),
            Phase::Expand => self.expand(course),
            Phase::Review => self.review(course),
            Phase::Pull => self.pull(course),
            Phase::Push => self.push_beyond(course),
            Phase::Finished => Ok(()),
        }
    }

    fn collect(&self, course: &Course) -> KernelResult {
        self.each_owned(course, |vertex, found| {
            let key = self.key(vertex);
            if key >= course.pilot.begin {
                sort_in(course, vertex, key, found);
            }
        })
    }

    fn pull(&self, course: &Course) -> KernelResult {
        let Pilot { from, begin, end, .. } = course.pilot;
        self.each_owned(course, |vertex, found| {
            if self.key(vertex) < begin {
                return;
            }
            let (key, rival) = self.look_at_settled(vertex, from, begin);
            if end != UNREACHED {
                sort_in(course, vertex, key, found);
            } else if rival < key && rival <= self.settings.limit {
                found.listed.push(vertex);
            } else {
                found.pulled += u64::from(key != UNREACHED);
            }
        })
    }

    /// Pulls from the neighbours settled before `begin`. Returns the vertex's key now, and the least key
    /// that an unsettled neighbour could still give it.
    fn look_at_settled(&self, vertex: u32, from: u32, begin: u32) -> (u32, u32) {
        let mut rival = UNREACHED;
        let (_, key) = self.look(vertex, from, |key, arc| {
            if key >= begin {
                rival = rival.min(R::extended(begin, self.incoming.2, arc));
            }
            key < begin
        });
        (key, rival)
    }

    /// Listed vertices, which an unsettled neighbour might bring nearer, pull from all unsettled ones.
    fn review(&self, course: &Course) -> KernelResult {
        let begin = course.pilot.begin;
        self.each_listed(course, |vertex, found| {
            let is_left = |key, _| key >= begin && key != UNREACHED;
            let (before, key) = self.look(vertex, begin, is_left);
            if key < before {
                found.listed.push(vertex);
            }
        })
    }

    /// Pulls along the incoming arcs for which `counts(key of the source, arc)` holds. Returns the vertex's
    /// key before and now. Sources with keys smaller than `from` have nothing better to offer.
    #[inline]
    fn look(
        &self,
        vertex: u32,
        from: u32,
        mut counts: impl FnMut(u32, usize) -> bool,
    ) -> (u32, u32) {
        let (offsets, sources, weights) = self.incoming;
        let before = self.key(vertex);
        let mut best = (before, UNREACHED);
        for arc in self.row(offsets, vertex) {
            // Later arcs are at least as heavy, so they cannot be better either.
            if R::extended(from, weights, arc) >= best.0 {
                break;
            }
            let (source, key) = (sources[arc], self.key(sources[arc]));
            if !counts(key, arc) {
                continue;
            }
            let through = R::extended(key, weights, arc);
            if through < best.0 && through <= self.settings.limit {
                best = (through, source);
            }
        }
        if best.0 < before {
            V::store(&self.values[vertex as usize], V::new(best.0, best.1));
        }
        (before, best.0)
    }

    /// Relaxes the light arcs of this device's listed vertices, whichever device listed them.
    fn expand(&self, course: &Course) -> KernelResult {
        let (read, counted) = (self.marks(course.filled ^ 1), self.marks(COUNTED));
        let filled = self.marks(course.filled);
        self.each_listed(course, |vertex, found| {
            clear(read, vertex);
            if claim(counted, vertex) {
                found.settled += self.row(self.incoming.0, vertex).len() as u64;
            }
            self.relax_near(course, vertex, filled, found);
        })
    }

    /// Marks and lists targets that come nearer within the step.
    fn relax_near(&self, course: &Course, vertex: u32, marks: &[AtomicU32], found: &mut Found) {
        let (offsets, targets, weights) = self.out;
        let (key, end) = (self.key(vertex), course.pilot.end);
        for arc in self.row(offsets, vertex) {
            let extended = R::extended(key, weights, arc);
            // The arcs that follow are at least as heavy, so they lead out of range, too.
            if extended >= end || extended > self.settings.limit {
                return;
            }
            let target = targets[arc];
            let value = V::new(extended, vertex);
            let before = V::lower(&self.values[target as usize], value).key();
            if extended < before && claim(marks, target) {
                found.listed.push(target);
            }
        }
    }

    /// Relaxes the arcs of the step's owned vertices that lead beyond the step.
    fn push_beyond(&self, course: &Course) -> KernelResult {
        let Pilot { begin, end, .. } = course.pilot;
        self.each_owned(course, |vertex, _| {
            let key = self.key(vertex);
            if key >= begin && key < end {
                self.relax_beyond(vertex, key, end);
            }
        })
    }

    fn relax_beyond(&self, vertex: u32, key: u32, end: u32) {
        let (offsets, targets, weights) = self.out;
        for arc in self.row(offsets, vertex).rev() {
            let extended = R::extended(key, weights, arc);
            if extended < end {
                return;
            }
            if extended <= self.settings.limit {
                V::lower(&self.values[targets[arc] as usize], V::new(extended, vertex));
            }
        }
    }

    fn each_owned(
        &self,
        course: &Course,
        work: impl Fn(u32, &mut Found) + Send + Sync,
    ) -> KernelResult {
        let GangPlace { first, end, .. } = self.settings.place;
        let vertex = |row| first + row as u32;
        self.each((end - first) as usize, course, |row, found| work(vertex(row), found))
    }

    /// Calls `work` for each of this device's vertices in the list that is read.
    fn each_listed(
        &self,
        course: &Course,
        work: impl Fn(u32, &mut Found) + Send + Sync,
    ) -> KernelResult {
        let GangPlace { device, first, .. } = self.settings.place;
        let (_, listed) = course.lists[device as usize];
        let list = &self.lists(course.filled ^ 1)[first as usize..][..listed as usize];
        self.each(list.len(), course, |at, found| work(list[at].load(Ordering::Relaxed), found))
    }

    fn each(
        &self,
        items: usize,
        course: &Course,
        work: impl Fn(usize, &mut Found) + Send + Sync,
    ) -> KernelResult {
        Grid::of_blocks(items, BLOCK).for_each_block(|block| {
            let listed = Vec::with_capacity(block.range.len());
            let mut found = Found { listed, ..Found::default() };
            block.range.for_each(|item| work(item, &mut found));
            self.keep(course, found);
            Ok(())
        })
    }

    /// Puts what a block has found into the lists, and counts it.
    fn keep(&self, course: &Course, mut found: Found) {
        let tally = &self.counts.tallies[self.settings.place.device as usize];
        tally.settled.fetch_add(found.settled, Ordering::Relaxed);
        tally.pulled.fetch_add(found.pulled, Ordering::Relaxed);
        tally.nearest.fetch_max(found.nearest, Ordering::Relaxed);
        let begun = |owner: usize| course.lists[owner].0;
        let lists = self.lists(course.filled);
        self.counts.lists.put(&self.settings.place, lists, begun, &mut found.listed);
    }

    fn key(&self, vertex: u32) -> u32 {
        V::get(&self.values[vertex as usize]).key()
    }

    /// The arcs of an owned vertex.
    fn row(&self, offsets: &[u64], vertex: u32) -> Range<usize> {
        let row = (vertex - self.settings.place.first) as usize;
        offsets[row] as usize..offsets[row + 1] as usize
    }

    fn lists(&self, which: usize) -> &[AtomicU32] {
        let vertices = self.settings.place.vertices as usize;
        &self.lists[which * vertices..][..vertices]
    }

    fn marks(&self, which: usize) -> &[AtomicU32] {
        let words = self.settings.place.vertices.div_ceil(32) as usize;
        &self.marks[which * words..][..words]
    }
}

/// Lists an owned vertex if it is in the step.
fn sort_in(course: &Course, vertex: u32, key: u32, found: &mut Found) {
    if key < course.pilot.end {
        found.listed.push(vertex);
    } else {
        // For an unreached vertex the complement is 0, which changes nothing.
        found.nearest = found.nearest.max(!key);
    }
}

fn clear(marks: &[AtomicU32], vertex: u32) {
    marks[vertex as usize / 32].fetch_and(!(1 << (vertex % 32)), Ordering::Relaxed);
}
