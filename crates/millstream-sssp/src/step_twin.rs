//! The phases of a search in steps on host devices; what `steps.cuh` does between barriers.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use millstream_device::{Grid, Kernel, KernelResult, Parameter, SharedBuffer, Stream};
use millstream_traversal::UNREACHED;
use millstream_traversal::internals::{GangPlace, GangWork, TwinMeetings, Value, streams};

use crate::Result;
use crate::rule::DistanceRule;
use crate::step_pilot::{Phase, Pilot, Totals};
use crate::step_search::{Memory, Sets, Settings, StepSearch, TwinSignature};

/// Words of a device.
#[derive(Clone, Copy)]
enum Word {
    /// Vertices that have come into lists.
    Listed,
    /// Arcs that enter vertices that have come into a step.
    Settled,
    /// The step, and the complement of the least key beyond it: a larger word is of a
    /// later step, or nearer.
    Nearest,
    Told,
    Received,
    /// Vertices that the last step has pulled, and not listed.
    Pulled,
}

/// Vertices of a block.
const BLOCK: usize = 512;

/// How far a search has come.
#[derive(Clone, Debug)]
struct Course {
    pilot: Pilot,
    /// Which list is filled.
    filled: usize,
    /// Of each device, the places taken before that list, and the vertices in the other.
    lists: Vec<(u64, u64)>,
}

impl Course {
    /// Goes on to the next phase, by what the devices' words say. Whether there is one.
    fn advance(&mut self, words: &[&[AtomicU64]]) -> bool {
        let word = |device: usize, of: Word| words[device][of as usize].load(Ordering::Relaxed);
        let devices = self.lists.len();
        let mut totals = Totals::default();
        for device in 0..devices {
            totals.listed += word(device, Word::Listed);
            totals.settled += word(device, Word::Settled);
            let nearest = word(device, Word::Nearest);
            if nearest >> 32 == self.pilot.steps {
                let key = !(nearest as u32);
                totals.nearest = Some(totals.nearest.map_or(key, |other| key.min(other)));
            }
        }
        let before = self.pilot.phase;
        self.pilot.advance(totals);
        let goes_on = self.pilot.phase != Phase::Finished;
        if before == Phase::Tell {
            return goes_on;
        }
        // The list that was filled is read; or that which was reviewed is so again.
        let is_turned = before != Phase::Review || self.pilot.phase != Phase::Review;
        self.filled ^= usize::from(is_turned);
        for (device, (mark, here)) in self.lists.iter_mut().enumerate() {
            let listed = word(device, Word::Listed);
            if is_turned {
                *here = listed - *mark;
            }
            *mark = listed;
        }
        goes_on
    }
}

/// Runs all phases, from the first to the last. What the devices have done.
pub(crate) async fn run<R: DistanceRule, V: Value>(
    search: &StepSearch<'_, R>,
    memory: &[Memory<V>],
    pilot: Pilot,
) -> Result<Vec<GangWork>> {
    let course = Course { pilot, filled: 0, lists: vec![(0, 0); memory.len()] };
    let meetings = TwinMeetings::new(search.graph.incoming.context(), course);
    let shared = Arc::clone(&meetings);
    let kernel: Kernel<TwinSignature<R::Weight, V>> =
        Kernel::of_step_closure("steps", move |_, view: &TwinView<'_, R, V>| {
            let twin = Twin::<R, V>::new(view);
            let words = &twin.words;
            shared.run_twin(twin.here, |course| twin.phase(course), |course| course.advance(words))
        });
    let sets = Sets::new(memory);
    let launch = |place: usize, stream: &Stream| {
        let (out, incoming, values, lists, exchange, words) = search.common(memory, &sets, place);
        let settings = memory[place].settings;
        let arguments = (out, incoming, values, lists, exchange, words, settings);
        kernel.launch(stream, 1, arguments)
    };
    meetings.run(&streams(search.graph.incoming.context())?, launch).await?;
    work(memory)
}

fn load(words: &SharedBuffer<u64>, word: Word) -> millstream_device::Result<u64> {
    words.load(word as usize)
}

/// What the devices have done. Vertices that were settled by pulling alone are among those
/// visited.
fn work<V: Value>(memory: &[Memory<V>]) -> Result<Vec<GangWork>> {
    let work = |(place, its): (usize, &Memory<V>)| {
        let word = |word: Word| load(&its.gang.words, word);
        let (told, received) = (word(Word::Told)?, word(Word::Received)?);
        let visited = word(Word::Listed)? + word(Word::Pulled)?;
        let mut work = GangWork { visited, received, kept: received, ..GangWork::default() };
        work.sent[..memory.len()].fill(told);
        work.sent[place] = 0;
        Ok(work)
    };
    memory.iter().enumerate().map(work).collect()
}

type TwinView<'a, R, V> =
    <TwinSignature<<R as millstream_traversal::internals::Rule>::Weight, V> as Parameter>::View<'a>;
/// Offsets, targets and weights.
type Rows<'a, W> = (&'a [u64], &'a [u32], &'a [W]);

/// One device in one phase. All orders are relaxed: the meetings publish.
struct Twin<'a, R: DistanceRule, V: Value> {
    out: Rows<'a, R::Weight>,
    incoming: Rows<'a, R::Weight>,
    values: &'a [V::Atomic],
    near: &'a [AtomicU32],
    marks: &'a [AtomicU32],
    told_vertices: Vec<&'a [AtomicU32]>,
    told_values: Vec<&'a [V::Atomic]>,
    /// The values of each device.
    owned: Vec<&'a [V::Atomic]>,
    words: Vec<&'a [AtomicU64]>,
    settings: Settings,
    here: usize,
    first: u32,
    last: u32,
    rule: PhantomData<R>,
}

/// What a block has found.
#[derive(Default)]
struct Found {
    listed: Vec<u32>,
    settled: u64,
    pulled: u64,
    nearest: Option<u32>,
}

impl<'a, R: DistanceRule, V: Value> Twin<'a, R, V> {
    fn new(view: &TwinView<'a, R, V>) -> Twin<'a, R, V> {
        let (out, incoming, values, (near, marks, _), exchange, words, settings) = view.clone();
        let (told_vertices, told_values, owned) = exchange;
        let here = settings.place.device as usize;
        let GangPlace { first, end: last, .. } = settings.place;
        let rule = PhantomData;
        Twin {
            out,
            incoming,
            values,
            near,
            marks,
            told_vertices,
            told_values,
            owned,
            words,
            settings,
            here,
            first,
            last,
            rule,
        }
    }

    fn phase(&self, course: &Course) -> KernelResult {
        match course.pilot.phase {
            Phase::Collect => self.collect(course),
            Phase::Expand => self.expand(course),
            Phase::Tell => self.tell(course),
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
                self.sort_in(course, vertex, key, found);
            }
        })
    }

    fn pull(&self, course: &Course) -> KernelResult {
        let Pilot { from, begin, end, .. } = course.pilot;
        let (_, sources, weights) = self.incoming;
        self.each_owned(course, |vertex, found| {
            if self.key(vertex) < begin {
                return;
            }
            let mut rival = UNREACHED;
            let (_, key) = self.look(vertex, from, |arc| {
                let key = self.key(sources[arc]);
                if key >= begin {
                    rival = rival.min(R::extended(begin, weights, arc));
                }
                (key < begin).then_some(key)
            });
            if end != UNREACHED {
                self.sort_in(course, vertex, key, found);
            } else if rival < key && rival <= self.settings.limit {
                found.listed.push(vertex);
            } else {
                found.pulled += u64::from(key != UNREACHED);
            }
        })
    }

    /// Vertices that another one that is left may be near to look again, at all of these.
    fn review(&self, course: &Course) -> KernelResult {
        let begin = course.pilot.begin;
        let sources = self.incoming.1;
        let list = &self.list(course.filled ^ 1)[..course.lists[self.here].1 as usize];
        Grid::of_blocks(list.len(), BLOCK).for_each_block(|block| {
            let mut found = Found::default();
            for entry in &list[block.range] {
                let vertex = entry.load(Ordering::Relaxed);
                let (before, key) = self.look(vertex, begin, |arc| {
                    let is_left = self.key(sources[arc]) >= begin;
                    let key = is_left.then(|| self.key_there(sources[arc]));
                    key.filter(|&key| key != UNREACHED)
                });
                if key < before {
                    found.listed.push(vertex);
                }
            }
            self.keep(course, &found);
            Ok(())
        })
    }

    /// A vertex looks along the arcs that enter it from vertices that have a `key`: the
    /// shortest way before and now. No way through others starts before `from`.
    fn look(
        &self,
        vertex: u32,
        from: u32,
        mut key: impl FnMut(usize) -> Option<u32>,
    ) -> (u32, u32) {
        let (offsets, sources, weights) = self.incoming;
        let before = self.key(vertex);
        let mut best = (before, UNREACHED);
        for arc in row(offsets, vertex - self.first) {
            // An arc is as heavy as those before it.
            if R::extended(from, weights, arc) >= best.0 {
                break;
            }
            let through = key(arc).map_or(UNREACHED, |key| R::extended(key, weights, arc));
            if through < best.0 && through <= self.settings.limit {
                best = (through, sources[arc]);
            }
        }
        if best.0 < before {
            V::store(&self.values[vertex as usize], V::new(best.0, best.1));
        }
        (before, best.0)
    }

    /// Lists an owned vertex if it is in the step.
    fn sort_in(&self, course: &Course, vertex: u32, key: u32, found: &mut Found) {
        if key < course.pilot.end {
            found.settled += self.degree(vertex);
            found.listed.push(vertex);
        } else if key != UNREACHED {
            found.nearest = Some(found.nearest.map_or(key, |other| key.min(other)));
        }
    }

    /// Light arcs of what all devices have listed.
    fn expand(&self, course: &Course) -> KernelResult {
        let devices = self.settings.place.devices as usize;
        let lists: Vec<u64> = course.lists.iter().map(|(_, here)| *here).collect();
        let all: u64 = lists.iter().sum();
        let received = all - lists[self.here];
        self.words[self.here][Word::Received as usize].fetch_add(received, Ordering::Relaxed);
        Grid::of_blocks(all as usize, BLOCK).for_each_block(|block| {
            let mut found = Found::default();
            for mut at in block.range.map(|at| at as u64) {
                let mut of = 0;
                while of + 1 < devices && at >= lists[of] {
                    at -= lists[of];
                    of += 1;
                }
                let (vertex, key) = self.take(course, of, at as usize);
                self.relax_near(course, vertex, key, &mut found);
            }
            self.keep(course, &found);
            Ok(())
        })
    }

    /// An entry of a device's list; what is told of its vertex is kept.
    fn take(&self, course: &Course, of: usize, at: usize) -> (u32, u32) {
        if of == self.here {
            let vertex = self.list(course.filled ^ 1)[at].load(Ordering::Relaxed);
            let (word, bit) = self.mark(course.filled ^ 1, vertex);
            word.fetch_and(!bit, Ordering::Relaxed);
            return (vertex, self.key(vertex));
        }
        let place = self.settings.place.boundaries[of] as usize + at;
        let vertex = self.told_vertices[self.here][place].load(Ordering::Relaxed);
        let value = V::get(&self.told_values[self.here][place]);
        V::store(&self.values[vertex as usize], value);
        (vertex, value.key())
    }

    fn relax_near(&self, course: &Course, vertex: u32, key: u32, found: &mut Found) {
        let (_, targets, weights) = self.out;
        let end = course.pilot.end;
        for arc in row(self.out.0, self.out_row(vertex)) {
            let extended = R::extended(key, weights, arc);
            // So are the arcs that follow.
            if extended >= end || extended > self.settings.limit {
                return;
            }
            let target = targets[arc];
            let value = V::new(extended, vertex);
            let before = V::lower(&self.values[target as usize], value).key();
            if extended >= before {
                continue;
            }
            if before >= end {
                found.settled += self.degree(target);
            }
            let (word, bit) = self.mark(course.filled, target);
            if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
                found.listed.push(target);
            }
        }
    }

    /// Gives the others what was listed here.
    fn tell(&self, course: &Course) -> KernelResult {
        let here = course.lists[self.here].1 as usize;
        let first = self.first as usize;
        for (at, vertex) in self.list(course.filled ^ 1)[..here].iter().enumerate() {
            let vertex = vertex.load(Ordering::Relaxed);
            let value = V::get(&self.values[vertex as usize]);
            for device in (0..self.settings.place.devices as usize).filter(|&to| to != self.here) {
                self.told_vertices[device][first + at].store(vertex, Ordering::Relaxed);
                V::store(&self.told_values[device][first + at], value);
            }
        }
        self.words[self.here][Word::Told as usize].fetch_add(here as u64, Ordering::Relaxed);
        Ok(())
    }

    /// From all vertices of the step, along the arcs that lead beyond it.
    fn push_beyond(&self, course: &Course) -> KernelResult {
        let Pilot { begin, end, .. } = course.pilot;
        let (offsets, targets, weights) = self.out;
        let first = if self.settings.place.devices == 1 { self.first } else { 0 };
        Grid::of_blocks(offsets.len() - 1, BLOCK).for_each_block(|block| {
            for vertex in block.range.map(|row| first + row as u32) {
                let key = self.key(vertex);
                if key < begin || key >= end {
                    continue;
                }
                for arc in row(offsets, self.out_row(vertex)).rev() {
                    let extended = R::extended(key, weights, arc);
                    if extended < end {
                        break;
                    }
                    if extended <= self.settings.limit {
                        let value = V::new(extended, vertex);
                        V::lower(&self.values[targets[arc] as usize], value);
                    }
                }
            }
            Ok(())
        })
    }

    fn each_owned(
        &self,
        course: &Course,
        work: impl Fn(u32, &mut Found) + Send + Sync,
    ) -> KernelResult {
        Grid::of_blocks((self.last - self.first) as usize, BLOCK).for_each_block(|block| {
            let mut found = Found::default();
            block.range.for_each(|row| work(self.first + row as u32, &mut found));
            self.keep(course, &found);
            Ok(())
        })
    }

    /// What a block has found goes to the list and into the words.
    fn keep(&self, course: &Course, found: &Found) {
        let words = self.words[self.here];
        let count = found.listed.len() as u64;
        let taken = words[Word::Listed as usize].fetch_add(count, Ordering::Relaxed);
        let place = (taken - course.lists[self.here].0) as usize;
        for (entry, &vertex) in self.list(course.filled)[place..].iter().zip(&found.listed) {
            entry.store(vertex, Ordering::Relaxed);
        }
        words[Word::Settled as usize].fetch_add(found.settled, Ordering::Relaxed);
        words[Word::Pulled as usize].fetch_add(found.pulled, Ordering::Relaxed);
        if let Some(nearest) = found.nearest {
            let word = course.pilot.steps << 32 | u64::from(!nearest);
            words[Word::Nearest as usize].fetch_max(word, Ordering::Relaxed);
        }
    }

    /// The key of a vertex that is left, from its owner.
    fn key_there(&self, vertex: u32) -> u32 {
        let ends = &self.settings.place.boundaries[1..self.settings.place.devices as usize];
        let owner = ends.partition_point(|&end| end <= vertex);
        V::get(&self.owned[owner][vertex as usize]).key()
    }

    fn key(&self, vertex: u32) -> u32 {
        V::get(&self.values[vertex as usize]).key()
    }

    /// Arcs that enter an owned vertex.
    fn degree(&self, vertex: u32) -> u64 {
        row(self.incoming.0, vertex - self.first).len() as u64
    }

    /// A place of the rows that leave.
    fn out_row(&self, vertex: u32) -> u32 {
        if self.settings.place.devices == 1 { vertex - self.first } else { vertex }
    }

    fn list(&self, which: usize) -> &[AtomicU32] {
        let owned = (self.last - self.first) as usize;
        &self.near[which * owned..][..owned]
    }

    fn mark(&self, which: usize, vertex: u32) -> (&AtomicU32, u32) {
        let words = (self.last - self.first).div_ceil(32) as usize;
        let row = (vertex - self.first) as usize;
        (&self.marks[which * words + row / 32], 1 << (row % 32))
    }
}

/// The places of a row.
fn row(offsets: &[u64], at: u32) -> std::ops::Range<usize> {
    offsets[at as usize] as usize..offsets[at as usize + 1] as usize
}
