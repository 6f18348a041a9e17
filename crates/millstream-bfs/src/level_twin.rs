//! The phases of a level-synchronous search on host devices; what `levels.cuh` does between
//! barriers.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use millstream_device::{Grid, Kernel, KernelResult, Parameter, Stream};
use millstream_traversal::internals::{GangPlace, GangWork, TwinMeetings, streams};

use crate::Result;
use crate::level_search::{LevelSearch, Memory, Sets, Settings, TwinSignature};
use crate::phase::{Phase, Pilot, Totals};

/// Words of a device.
#[derive(Clone, Copy)]
enum Word {
    /// Rows put into the log.
    Rows,
    /// Vertices found.
    Visited,
    /// Words of visited bits stored, for all.
    Stored,
    Received,
    Kept,
    /// Items sent to each device.
    Sent,
}

/// Vertices, or words of bits, of a block.
const BLOCK: usize = 512;

/// How far a search has come.
#[derive(Clone, Debug)]
struct Course {
    pilot: Pilot,
    /// The copy of the visited bits that is read.
    copy: u32,
    /// Of each device, where the frontier begins in the log, and where it ends.
    frontiers: Vec<(u64, u64)>,
}

impl Course {
    /// Goes on to the next phase, by what the devices' words say. Whether there is one.
    fn advance(&mut self, words: &[&[AtomicU64]]) -> bool {
        if self.pilot.phase == Phase::Sweep {
            self.copy ^= 1;
        }
        let word = |device: usize, word: usize| words[device][word].load(Ordering::Relaxed);
        let devices = self.frontiers.len();
        let mut totals = Totals::default();
        for device in 0..devices {
            totals.rows += word(device, Word::Rows as usize);
            totals.visited += word(device, Word::Visited as usize);
            for to in 0..devices {
                totals.sent += word(device, Word::Sent as usize + to);
            }
        }
        self.pilot.advance(totals);
        // What is found from now on is the next frontier.
        if matches!(self.pilot.phase, Phase::Expand | Phase::Sweep | Phase::Gather) {
            for (device, (begin, end)) in self.frontiers.iter_mut().enumerate() {
                *begin = *end;
                *end = word(device, Word::Rows as usize);
            }
        }
        self.pilot.phase != Phase::Finished
    }
}

/// Runs all phases, from the first to the last. What the devices have done.
pub(crate) async fn run(
    search: &LevelSearch<'_>,
    memory: &[Memory],
    pilot: Pilot,
) -> Result<Vec<GangWork>> {
    let course = Course { pilot, copy: 0, frontiers: vec![(0, 0); memory.len()] };
    let meetings = TwinMeetings::new(search.graph.context(), course);
    let shared = Arc::clone(&meetings);
    let kernel: Kernel<TwinSignature> =
        Kernel::of_step_closure("levels", move |_, view: &TwinView<'_>| {
            let mut twin = Twin::new(view);
            let words = &view.5;
            shared.run_twin(twin.here, |course| twin.step(course), |course| course.advance(words))
        });
    let sets = Sets::new(memory);
    let launch = |place: usize, stream: &Stream| {
        let (out, incoming, values, lists, exchange, words) = search.common(memory, &sets, place);
        let settings = memory[place].settings();
        let arguments = (out, incoming, values, lists, exchange, words, settings);
        kernel.launch(stream, 1, arguments)
    };
    meetings.run(&streams(search.graph.context())?, launch).await?;
    work(memory)
}

/// What the devices have done.
fn work(memory: &[Memory]) -> Result<Vec<GangWork>> {
    let work = |its: &Memory| {
        let load = |word: Word| its.gang.words.load(word as usize);
        let mut work = GangWork {
            visited: load(Word::Visited)?,
            received: load(Word::Received)?,
            kept: load(Word::Kept)?,
            published: load(Word::Stored)?,
            ..GangWork::default()
        };
        for (to, sent) in work.sent.iter_mut().enumerate().take(memory.len()) {
            *sent = its.gang.words.load(Word::Sent as usize + to)?;
        }
        Ok(work)
    };
    memory.iter().map(work).collect()
}

type TwinView<'a> = <TwinSignature as Parameter>::View<'a>;

/// One device in one phase. All orders are relaxed: the meetings publish.
struct Twin<'a> {
    out: (&'a [u64], &'a [u32]),
    incoming: (&'a [u64], &'a [u32]),
    levels: &'a [AtomicU32],
    predecessors: &'a [AtomicU32],
    log: &'a [AtomicU64],
    sources: &'a [u64],
    visited: Vec<&'a [AtomicU32]>,
    inboxes: Vec<&'a [AtomicU64]>,
    words: Vec<&'a [AtomicU64]>,
    settings: Settings,
    here: usize,
    first: u32,
    end: u32,
    level: u32,
    copy: u32,
    frontier: (u64, u64),
}

impl<'a> Twin<'a> {
    fn new(view: &TwinView<'a>) -> Twin<'a> {
        let (out, incoming, (levels, predecessors), (log, sources), exchange, words, settings) =
            view.clone();
        let (visited, inboxes) = exchange;
        let here = settings.place.device as usize;
        let GangPlace { first, end, .. } = settings.place;
        let (level, copy, frontier) = (0, 0, (0, 0));
        Twin {
            out,
            incoming,
            levels,
            predecessors,
            log,
            sources,
            visited,
            inboxes,
            words,
            settings,
            here,
            first,
            end,
            level,
            copy,
            frontier,
        }
    }

    /// A phase.
    fn step(&mut self, course: &Course) -> KernelResult {
        (self.level, self.copy) = (course.pilot.level, course.copy);
        self.frontier = course.frontiers[self.here];
        match course.pilot.phase {
            Phase::Seed => self.seed(),
            Phase::Expand => self.expand(),
            Phase::Absorb => self.absorb(),
            Phase::Sweep => self.sweep(),
            Phase::Gather => self.gather(),
            Phase::Finished => Ok(()),
        }
    }

    fn seed(&self) -> KernelResult {
        let mut found = Vec::new();
        let bits = self.bits(self.copy);
        let news = self.sources.iter().filter(|&&item| claim(bits, item as u32));
        news.for_each(|&item| self.take(item, &mut found));
        self.push(&found);
        self.count(Word::Visited, found.len());
        Ok(())
    }

    fn expand(&self) -> KernelResult {
        let (begin, end) = (self.frontier.0 as usize, self.frontier.1 as usize);
        let bits = self.bits(self.copy);
        Grid::of_blocks(end - begin, BLOCK).for_each_block(|block| {
            let mut found = Vec::with_capacity(block.range.len());
            for place in block.range {
                let vertex = self.log[begin + place].load(Ordering::Relaxed) as u32;
                for &target in self.row(self.out, vertex) {
                    if claim(bits, target) {
                        self.find(vertex, target, &mut found);
                    }
                }
            }
            self.push(&found);
            self.count(Word::Visited, found.len());
            Ok(())
        })
    }

    /// A vertex that was not visited, here or elsewhere.
    fn find(&self, vertex: u32, target: u32, found: &mut Vec<u32>) {
        if (self.first..self.end).contains(&target) {
            self.reach(target, vertex);
            found.push(target);
            return;
        }
        let owner = (0..self.settings.place.devices as usize)
            .find(|&device| target < self.settings.place.boundaries[device + 1])
            .unwrap_or(self.here);
        let sent = &self.words[self.here][Word::Sent as usize + owner];
        let place = sent.fetch_add(1, Ordering::Relaxed) as usize;
        let item = u64::from(vertex) << 32 | u64::from(target);
        self.inbox(owner, self.here)[place].store(item, Ordering::Relaxed);
    }

    fn absorb(&self) -> KernelResult {
        let own = &self.words[self.here];
        let (mut taken, mut found) = (0, Vec::new());
        for from in (0..self.settings.place.devices as usize).filter(|&from| from != self.here) {
            let sent = self.words[from][Word::Sent as usize + self.here].load(Ordering::Relaxed);
            let seen = &own[self.seen_word(from)];
            for item in &self.inbox(self.here, from)
                [seen.swap(sent, Ordering::Relaxed) as usize..sent as usize]
            {
                taken += 1;
                self.take(item.load(Ordering::Relaxed), &mut found);
            }
        }
        self.push(&found);
        self.count(Word::Received, taken);
        self.count(Word::Kept, found.len());
        self.count(Word::Visited, found.len());
        Ok(())
    }

    /// How much of the inbox from another device has been taken.
    fn seen_word(&self, from: usize) -> usize {
        Word::Sent as usize + self.settings.place.devices as usize + from
    }

    fn sweep(&self) -> KernelResult {
        let [now, next] = [0, 1].map(|other| self.bits(self.copy ^ other));
        let sweep = |word: usize, mask: u32, found: &mut Vec<u32>| {
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
                    found.push(vertex);
                }
            }
            // Those of a word shared with others stay.
            next[word].fetch_or(bits, Ordering::Relaxed);
        };
        self.count(Word::Stored, self.own_words().len());
        self.each_word(sweep, |found| self.count(Word::Visited, found.len()))
    }

    fn gather(&self) -> KernelResult {
        let [now, before] = [0, 1].map(|other| self.bits(self.copy ^ other));
        let gather = |word: usize, mask: u32, found: &mut Vec<u32>| {
            let [now, before] = [now, before].map(|bits| bits[word].load(Ordering::Relaxed));
            let fresh = now & !before & mask;
            let bits = (0..32).filter(|bit| fresh >> bit & 1 == 1);
            found.extend(bits.map(|bit| word as u32 * 32 + bit));
        };
        self.each_word(gather, |found| self.push(found))
    }

    fn own_words(&self) -> Range<usize> {
        let (first, end) = (self.first as usize, self.end as usize);
        if first < end { first / 32..end.div_ceil(32) } else { 0..0 }
    }

    /// Words with owned vertices, and which of their bits are; `finish` takes what was
    /// found in a block.
    fn each_word(
        &self,
        work: impl Fn(usize, u32, &mut Vec<u32>) + Send + Sync,
        finish: impl Fn(&[u32]) + Send + Sync,
    ) -> KernelResult {
        let (first, end) = (self.first as usize, self.end as usize);
        let words = self.own_words();
        Grid::of_blocks(words.len(), BLOCK).for_each_block(|block| {
            let mut found = Vec::new();
            for word in block.range.map(|word| words.start + word) {
                let from = first.max(word * 32) - word * 32;
                let to = end.min(word * 32 + 32) - word * 32;
                work(word, (((1u64 << to) - 1) & !((1 << from) - 1)) as u32, &mut found);
            }
            finish(&found);
            Ok(())
        })
    }

    /// The visited bits of all vertices, for all devices.
    fn bits(&self, copy: u32) -> &[AtomicU32] {
        let words = self.settings.place.vertices.div_ceil(32) as usize;
        &self.visited[0][copy as usize * words..][..words]
    }

    fn inbox(&self, to: usize, from: usize) -> &[AtomicU64] {
        let owned =
            (self.settings.place.boundaries[to + 1] - self.settings.place.boundaries[to]) as usize;
        let place = from - usize::from(from > to);
        &self.inboxes[to][place * owned..][..owned]
    }

    fn row(&self, (offsets, targets): (&'a [u64], &'a [u32]), vertex: u32) -> &'a [u32] {
        let row = (vertex - self.first) as usize;
        &targets[offsets[row] as usize..offsets[row + 1] as usize]
    }

    /// Takes an item that names an owned vertex, which has been claimed.
    fn take(&self, item: u64, found: &mut Vec<u32>) {
        let vertex = item as u32;
        self.reach(vertex, (item >> 32) as u32);
        found.push(vertex);
    }

    fn reach(&self, vertex: u32, predecessor: u32) {
        let row = (vertex - self.first) as usize;
        self.levels[row].store(self.level, Ordering::Relaxed);
        if let Some(of) = self.predecessors.get(row) {
            of.store(predecessor, Ordering::Relaxed);
        }
    }

    /// Adds vertices to the log.
    fn push(&self, vertices: &[u32]) {
        let rows = &self.words[self.here][Word::Rows as usize];
        let place = rows.fetch_add(vertices.len() as u64, Ordering::Relaxed) as usize;
        for (entry, &vertex) in self.log[place..].iter().zip(vertices) {
            entry.store(u64::from(vertex), Ordering::Relaxed);
        }
    }

    fn count(&self, word: Word, by: usize) {
        self.words[self.here][word as usize].fetch_add(by as u64, Ordering::Relaxed);
    }
}

/// Sets a visited bit. True if it was clear.
fn claim(bits: &[AtomicU32], vertex: u32) -> bool {
    let (word, bit) = (&bits[vertex as usize / 32], 1 << (vertex % 32));
    word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
}
