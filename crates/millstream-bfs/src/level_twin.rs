//! The phases of a level-synchronous search on host devices, which share levels, visited bits and logs in one
//! memory: what `levels.cuh` does between barriers.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_device::{
    Grid, Kernel, KernelResult, Parameter, Shared, SharedBuffer, Stream, Value,
};
use millstream_traversal::UNREACHED;
use millstream_traversal::internals::{
    GangPlace, GangWork, TwinLists, TwinMeetings, claim, streams,
};

use crate::Result;
use crate::level_pilot::{Phase, Pilot, Totals};
use crate::level_search::{LevelSearch, Rows};

/// Rows of outgoing and of incoming arcs; levels and predecessors, the log, and two copies of the visited
/// bits, all of them of all vertices; the device's place.
type Signature =
    (Rows, Rows, (Shared<u32>, Shared<u32>), Shared<u32>, Shared<u32>, Value<GangPlace>);
/// The twin's view of its arguments.
type View<'a> = <Signature as Parameter>::View<'a>;

/// Memory that all devices share, allocated on the first one.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) levels: SharedBuffer<u32>,
    /// Empty if none are kept.
    pub(crate) predecessors: SharedBuffer<u32>,
    log: SharedBuffer<u32>,
    visited: SharedBuffer<u32>,
    /// Vertices to be found.
    connected: u32,
}

/// What a device has counted since the start.
#[derive(Debug, Default)]
struct Tally {
    /// Owned vertices found bottom-up.
    swept: AtomicU64,
    /// Those of the `swept` vertices that were put into the log afterwards.
    gathered: AtomicU64,
    /// Words of visited bits stored for all devices to read.
    stored: AtomicU64,
}

/// What all devices have counted.
#[derive(Debug)]
struct Counts {
    log: TwinLists,
    tallies: Vec<Tally>,
}

/// Vertices, or words of bits, of a block.
const BLOCK: usize = 512;

/// How far a search has come.
#[derive(Clone, Debug)]
struct Course {
    pilot: Pilot,
    /// The copy of the visited bits that is read.
    copy: usize,
    /// For each device, where its part of the frontier begins and ends in its log.
    frontiers: Vec<(u64, u64)>,
}

impl Counts {
    /// Owned vertices of a device that were found.
    fn visited(&self, device: usize) -> u64 {
        let Tally { swept, gathered, .. } = &self.tallies[device];
        let swept = swept.load(Ordering::Relaxed) - gathered.load(Ordering::Relaxed);
        self.log.listed(device) + swept
    }
}

impl Course {
    /// Goes on to the next phase, decided from what the devices have counted. Whether there is one.
    fn advance(&mut self, counts: &Counts) -> bool {
        if self.pilot.phase == Phase::Sweep {
            self.copy ^= 1;
        }
        let mut totals = Totals::default();
        for device in 0..self.frontiers.len() {
            totals.rows += counts.log.listed(device);
            totals.visited += counts.visited(device);
        }
        self.pilot.advance(totals);
        // Vertices listed from now on are the next frontier.
        for (device, (begin, end)) in self.frontiers.iter_mut().enumerate() {
            (*begin, *end) = (*end, counts.log.listed(device));
        }
        self.pilot.phase != Phase::Finished
    }
}

impl Memory {
    /// For a search from `sources`, given by new ids.
    pub(crate) async fn new(search: &LevelSearch<'_>, sources: &[u32]) -> Result<Memory> {
        let vertices = search.graph.vertices() as usize;
        let device = &search.graph.context().devices()[0];
        let beginning = search.isolated.beginning(sources);
        let memory = Memory {
            levels: device.shared_to_overwrite(vertices)?,
            predecessors: device
                .shared_to_overwrite(vertices * usize::from(search.predecessors))?,
            log: device.shared_to_overwrite(vertices)?,
            visited: device.shared_to_overwrite(2 * beginning.words())?,
            connected: beginning.connected,
        };
        let stream = device.stream()?;
        for values in [&memory.levels, &memory.predecessors] {
            stream.fill_shared(values, 0..values.len(), UNREACHED)?;
        }
        for copy in 0..2 {
            beginning.write(&stream, 0, &memory.visited, copy * beginning.words())?;
        }
        stream.completed()?.await?;
        Ok(memory)
    }
}

/// Runs all phases. Returns how long they took, and what the devices have done.
pub(crate) async fn run(
    search: &LevelSearch<'_>,
    memory: &Memory,
    sources: &[u32],
) -> Result<(Duration, Vec<GangWork>)> {
    let context = search.graph.context();
    let frontiers = vec![(0, 0); context.devices().len()];
    let course = Course { pilot: Pilot::new(search.rules(memory.connected)), copy: 0, frontiers };
    let meetings = TwinMeetings::new(context, course);
    let tallies: Vec<_> = context.devices().iter().map(|_| Tally::default()).collect();
    let counted = Arc::new(Counts { log: TwinLists::new(tallies.len()), tallies });
    let (shared, counts) = (Arc::clone(&meetings), Arc::clone(&counted));
    let sources: Arc<[u32]> = sources.into();
    let kernel: Kernel<Signature> = Kernel::of_step_closure("levels", move |_, view: &View<'_>| {
        let mut twin = Twin::new(view, &sources, &counts);
        let phase = |course: &Course| twin.phase(course);
        shared.run_twin(view.5.device as usize, phase, |course| course.advance(&counts))
    });
    let launch = |place: usize, stream: &Stream| {
        let Memory { levels, predecessors, log, visited, .. } = memory;
        let values = (levels, predecessors);
        let (out, incoming) = (search.outgoing(place), search.incoming(place));
        kernel.launch(stream, 1, (out, incoming, values, log, visited, search.place(place)))
    };
    let start = Instant::now();
    meetings.run(&streams(context)?, launch).await?;
    let time = start.elapsed();
    let mut work = counted.log.work();
    for (device, its) in work.iter_mut().enumerate() {
        its.visited = counted.visited(device);
        its.published = counted.tallies[device].stored.load(Ordering::Relaxed);
    }
    Ok((time, work))
}

/// Offsets and targets.
type RowsHere<'a> = (&'a [u64], &'a [u32]);

/// One device in one phase. All memory orders are relaxed: the meetings publish.
struct Twin<'a> {
    out: RowsHere<'a>,
    incoming: RowsHere<'a>,
    levels: &'a [AtomicU32],
    predecessors: &'a [AtomicU32],
    log: &'a [AtomicU32],
    visited: &'a [AtomicU32],
    place: GangPlace,
    sources: &'a [u32],
    counts: &'a Counts,
    level: u32,
    copy: usize,
    frontier: Range<usize>,
}

impl<'a> Twin<'a> {
    fn new(view: &View<'a>, sources: &'a [u32], counts: &'a Counts) -> Twin<'a> {
        let (out, incoming, (levels, predecessors), log, visited, place) = *view;
        let (level, copy, frontier) = (0, 0, 0..0);
        Twin {
            out,
            incoming,
            levels,
            predecessors,
            log,
            visited,
            place,
            sources,
            counts,
            level,
            copy,
            frontier,
        }
    }

    fn phase(&mut self, course: &Course) -> KernelResult {
        (self.level, self.copy) = (course.pilot.level, course.copy);
        let (begin, end) = course.frontiers[self.place.device as usize];
        self.frontier = begin as usize..end as usize;
        match course.pilot.phase {
            Phase::Seed => self.seed(),
            Phase::Expand => self.expand(),
            Phase::Sweep => self.sweep(),
            Phase::Gather => self.gather(),
            Phase::Finished => Ok(()),
        }
    }

    fn seed(&self) -> KernelResult {
        let own = self.place.first..self.place.end;
        let mut found = Vec::new();
        for &source in self.sources.iter().filter(|source| own.contains(source)) {
            if claim(self.bits(self.copy), source) {
                self.reach(source, UNREACHED);
                found.push(source);
            }
        }
        self.list(found);
        Ok(())
    }

    /// Claims the targets of this device's part of the frontier, whoever owns them.
    fn expand(&self) -> KernelResult {
        let bits = self.bits(self.copy);
        let frontier = &self.log[self.place.first as usize..][self.frontier.clone()];
        Grid::of_blocks(frontier.len(), BLOCK).for_each_block(|block| {
            let mut found = Vec::with_capacity(block.range.len());
            for vertex in &frontier[block.range] {
                let vertex = vertex.load(Ordering::Relaxed);
                for &target in self.row(self.out, vertex) {
                    if claim(bits, target) {
                        self.reach(target, vertex);
                        found.push(target);
                    }
                }
            }
            self.list(found);
            Ok(())
        })
    }

    fn sweep(&self) -> KernelResult {
        let [now, next] = [0, 1].map(|other| self.bits(self.copy ^ other));
        let sweep = |word: usize, mask: u32, found: &mut u64| {
            let mut bits: u32 = now[word].load(Ordering::Relaxed) & mask;
            let open = mask & !bits;
            for bit in (0..32).filter(|bit| open >> bit & 1 == 1) {
                let vertex = word as u32 * 32 + bit;
                let is_visited = |&&source: &&u32| {
                    now[source as usize / 32].load(Ordering::Relaxed) >> (source % 32) & 1 == 1
                };
                if let Some(&source) = self.row(self.incoming, vertex).iter().find(is_visited) {
                    self.reach(vertex, source);
                    bits |= 1 << bit;
                    *found += 1;
                }
            }
            // An OR keeps the bits of other devices' vertices in the same word.
            next[word].fetch_or(bits, Ordering::Relaxed);
        };
        let tally = self.tally();
        tally.stored.fetch_add(self.own_words().len() as u64, Ordering::Relaxed);
        self.each_word(sweep, |found| {
            tally.swept.fetch_add(found, Ordering::Relaxed);
        })
    }

    fn gather(&self) -> KernelResult {
        let [now, before] = [0, 1].map(|other| self.bits(self.copy ^ other));
        let gather = |word: usize, mask: u32, found: &mut Vec<u32>| {
            let [now, before] = [now, before].map(|bits| bits[word].load(Ordering::Relaxed));
            let fresh = now & !before & mask;
            let bits = (0..32).filter(|bit| fresh >> bit & 1 == 1);
            found.extend(bits.map(|bit| word as u32 * 32 + bit));
        };
        let tally = self.tally();
        self.each_word(gather, |found: Vec<u32>| {
            tally.gathered.fetch_add(found.len() as u64, Ordering::Relaxed);
            self.list(found);
        })
    }

    fn own_words(&self) -> Range<usize> {
        let (first, end) = (self.place.first as usize, self.place.end as usize);
        if first < end { first / 32..end.div_ceil(32) } else { 0..0 }
    }

    /// Calls `work` for each word with owned vertices, with a mask of their bits; `finish` takes what a
    /// block has found.
    fn each_word<F: Default>(
        &self,
        work: impl Fn(usize, u32, &mut F) + Send + Sync,
        finish: impl Fn(F) + Send + Sync,
    ) -> KernelResult {
        let (first, end) = (self.place.first as usize, self.place.end as usize);
        let words = self.own_words();
        Grid::of_blocks(words.len(), BLOCK).for_each_block(|block| {
            let mut found = F::default();
            for word in block.range.map(|word| words.start + word) {
                let from = first.max(word * 32) - word * 32;
                let to = end.min(word * 32 + 32) - word * 32;
                work(word, (((1u64 << to) - 1) & !((1 << from) - 1)) as u32, &mut found);
            }
            finish(found);
            Ok(())
        })
    }

    /// A copy of the visited bits.
    fn bits(&self, copy: usize) -> &[AtomicU32] {
        let words = self.place.vertices.div_ceil(32) as usize;
        &self.visited[copy * words..][..words]
    }

    /// The arcs of an owned vertex.
    fn row(&self, (offsets, targets): RowsHere<'a>, vertex: u32) -> &'a [u32] {
        let row = (vertex - self.place.first) as usize;
        &targets[offsets[row] as usize..offsets[row + 1] as usize]
    }

    fn reach(&self, vertex: u32, predecessor: u32) {
        self.levels[vertex as usize].store(self.level, Ordering::Relaxed);
        if let Some(of) = self.predecessors.get(vertex as usize) {
            of.store(predecessor, Ordering::Relaxed);
        }
    }

    /// Puts vertices into their owners' logs.
    fn list(&self, mut vertices: Vec<u32>) {
        self.counts.log.put(&self.place, self.log, |_| 0, &mut vertices);
    }

    fn tally(&self) -> &Tally {
        &self.counts.tallies[self.place.device as usize]
    }
}
