//! The phases of a level-synchronous search on host devices, one kernel each; what
//! `levels.cuh` does between barriers. Here the host is the barrier.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytemuck::{Pod, Zeroable};
use futures_util::future::try_join_all;
use millstream_device::{Grid, Kernel, KernelResult, Parameter, SharedBuffer, Stream};
use millstream_worklist::WorklistStatistics;

use crate::level_search::{Done, LevelSearch, Memory, Sets, Settings, TwinSignature};
use crate::Result;
use crate::phase::{Phase, Pilot, Totals};

/// Words of a device.
#[derive(Clone, Copy)]
enum Word {
    /// Rows put into the log.
    Rows,
    /// Vertices found.
    Visited,
    /// Words of visited bits stored for others.
    Stored,
    Received,
    Kept,
    /// Items sent to each device.
    Sent,
}

/// One phase of one device, as its kernel takes it.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Step {
    phase: u32,
    level: u32,
    /// The copy of the visited bits that is read.
    copy: u32,
    padding: u32,
    /// Rows of the frontier.
    begin: u64,
    end: u64,
}

static STEP: Kernel<TwinSignature> = Kernel::new("levels", |_, view| step(view));

/// Vertices, or words of bits, of a block.
const BLOCK: usize = 512;

/// Runs all phases, from the first to the last.
pub(crate) async fn run(
    search: &LevelSearch<'_>,
    memory: &[Memory],
    mut pilot: Pilot,
) -> Result<()> {
    let streams = memory.iter().map(|its| its.device.stream());
    let streams = streams.collect::<millstream_device::Result<Vec<_>>>()?;
    let sets = Sets::new(memory);
    let mut copy = 0;
    // Of each device, where the frontier begins in the log, and where it ends.
    let mut frontiers = vec![(0, 0); memory.len()];
    while pilot.phase != Phase::Finished {
        let mut events = Vec::new();
        for (place, stream) in streams.iter().enumerate() {
            let (begin, end) = frontiers[place];
            let (phase, level) = (pilot.phase as u32, pilot.level);
            let step = Step { phase, level, copy, padding: 0, begin, end };
            launch(search, memory, &sets, place, stream, step)?;
            events.push(stream.record()?.completed());
        }
        try_join_all(events).await?;
        if pilot.phase == Phase::Sweep {
            copy ^= 1;
        }
        let mut totals = Totals::default();
        for its in memory {
            totals.rows += load(&its.words, Word::Rows)?;
            totals.visited += load(&its.words, Word::Visited)?;
            for to in 0..memory.len() {
                totals.sent += its.words.load(Word::Sent as usize + to)?;
            }
        }
        pilot.advance(totals);
        // What is found from now on is the next frontier.
        if matches!(pilot.phase, Phase::Expand | Phase::Sweep | Phase::Gather) {
            for (its, (begin, end)) in memory.iter().zip(&mut frontiers) {
                *begin = *end;
                *end = load(&its.words, Word::Rows)?;
            }
        }
    }
    Ok(())
}

fn load(words: &SharedBuffer<u64>, word: Word) -> millstream_device::Result<u64> {
    words.load(word as usize)
}

fn launch(
    search: &LevelSearch<'_>,
    memory: &[Memory],
    sets: &Sets<'_>,
    place: usize,
    stream: &Stream,
    step: Step,
) -> Result<()> {
    let (out, incoming, values, lists, exchange, words) = search.common(memory, sets, place);
    let settings = memory[place].settings();
    let arguments = (out, incoming, values, lists, exchange, words, settings, step);
    STEP.launch(stream, 1, arguments)?;
    Ok(())
}

/// What the devices have done.
pub(crate) fn statistics(memory: &[Memory]) -> Result<WorklistStatistics> {
    let mut run = WorklistStatistics::default();
    for (place, its) in memory.iter().enumerate() {
        let sent = (0..memory.len()).map(|to| its.words.load(Word::Sent as usize + to));
        let done = Done {
            found: load(&its.words, Word::Visited)?,
            received: load(&its.words, Word::Received)?,
            kept: load(&its.words, Word::Kept)?,
            words: load(&its.words, Word::Stored)?,
            sent: sent.collect::<millstream_device::Result<_>>()?,
        };
        done.add_to(&mut run, place, memory);
    }
    Ok(run)
}

fn step(view: <TwinSignature as Parameter>::View<'_>) -> KernelResult {
    let (out, incoming, (levels, predecessors), (log, sources), (visited, inboxes), words, ..) =
        view;
    let (settings, step) = (view.6, view.7);
    let here = settings.device as usize;
    let [first, end] = [here, here + 1].map(|place| settings.boundaries[place]);
    let twin = Twin {
        out,
        incoming,
        levels,
        predecessors,
        log,
        visited,
        inboxes,
        words,
        settings,
        step,
        here,
        first,
        end,
    };
    const SEED: u32 = Phase::Seed as u32;
    const EXPAND: u32 = Phase::Expand as u32;
    const ABSORB: u32 = Phase::Absorb as u32;
    const PUBLISH: u32 = Phase::Publish as u32;
    const SWEEP: u32 = Phase::Sweep as u32;
    const GATHER: u32 = Phase::Gather as u32;
    match step.phase {
        SEED => twin.seed(sources),
        EXPAND => twin.expand(),
        ABSORB => twin.absorb(),
        PUBLISH => twin.publish(),
        SWEEP => twin.sweep(),
        GATHER => twin.gather(),
        _ => Ok(()),
    }
}

/// One device in one phase. All orders are relaxed: the kernel's end publishes.
struct Twin<'a> {
    out: (&'a [u64], &'a [u32]),
    incoming: (&'a [u64], &'a [u32]),
    levels: &'a [AtomicU32],
    predecessors: &'a [AtomicU32],
    log: &'a [AtomicU64],
    visited: Vec<&'a [AtomicU32]>,
    inboxes: Vec<&'a [AtomicU64]>,
    words: Vec<&'a [AtomicU64]>,
    settings: Settings,
    step: Step,
    here: usize,
    first: u32,
    end: u32,
}

impl Twin<'_> {
    fn seed(&self, sources: &[u64]) -> KernelResult {
        sources.iter().for_each(|&item| {
            self.take(item);
        });
        Ok(())
    }

    fn expand(&self) -> KernelResult {
        let (begin, end) = (self.step.begin as usize, self.step.end as usize);
        Grid::of_blocks(end - begin, BLOCK).for_each_block(|block| {
            for place in block.range {
                let vertex = self.log[begin + place].load(Ordering::Relaxed) as u32;
                for &target in self.row(self.out, vertex) {
                    self.visit(vertex, target);
                }
            }
            Ok(())
        })
    }

    fn visit(&self, vertex: u32, target: u32) {
        if !self.claim(target) {
            return;
        }
        if (self.first..self.end).contains(&target) {
            self.reach(target, vertex);
            self.push(target);
            return;
        }
        let owner = (0..self.settings.devices as usize)
            .find(|&device| target < self.settings.boundaries[device + 1])
            .unwrap_or(self.here);
        let sent = &self.words[self.here][Word::Sent as usize + owner];
        let place = sent.fetch_add(1, Ordering::Relaxed) as usize;
        let item = u64::from(vertex) << 32 | u64::from(target);
        self.inbox(owner, self.here)[place].store(item, Ordering::Relaxed);
    }

    fn absorb(&self) -> KernelResult {
        let own = &self.words[self.here];
        // Everything that has come is looked at once more: what was taken before is
        // no news.
        let (mut taken, mut kept) = (0, 0);
        for from in (0..self.settings.devices as usize).filter(|&from| from != self.here) {
            let sent = self.words[from][Word::Sent as usize + self.here].load(Ordering::Relaxed);
            let seen = &own[self.seen_word(from)];
            for item in &self.inbox(self.here, from)
                [seen.swap(sent, Ordering::Relaxed) as usize..sent as usize]
            {
                taken += 1;
                kept += u64::from(self.take(item.load(Ordering::Relaxed)));
            }
        }
        own[Word::Received as usize].fetch_add(taken, Ordering::Relaxed);
        own[Word::Kept as usize].fetch_add(kept, Ordering::Relaxed);
        Ok(())
    }

    /// How much of the inbox from another device has been taken.
    fn seen_word(&self, from: usize) -> usize {
        Word::Sent as usize + self.settings.devices as usize + from
    }

    fn publish(&self) -> KernelResult {
        let copy = self.step.copy;
        self.each_word(|word, mask| {
            let bits = self.bits(self.here, copy)[word].load(Ordering::Relaxed) & mask;
            self.store(copy, word, bits);
        })
    }

    fn sweep(&self) -> KernelResult {
        let copy = self.step.copy;
        self.each_word(|word, mask| {
            let mut bits = self.bits(self.here, copy)[word].load(Ordering::Relaxed) & mask;
            let open = mask & !bits;
            for bit in (0..32).filter(|bit| open >> bit & 1 == 1) {
                let vertex = word as u32 * 32 + bit;
                let is_visited = |&&source: &&u32| {
                    let word = &self.bits(self.here, copy)[source as usize / 32];
                    word.load(Ordering::Relaxed) >> (source % 32) & 1 == 1
                };
                if let Some(&source) = self.row(self.incoming, vertex).iter().find(is_visited) {
                    self.reach(vertex, source);
                    bits |= 1 << bit;
                }
            }
            self.store(copy ^ 1, word, bits);
        })
    }

    fn gather(&self) -> KernelResult {
        let [now, before] = [0, 1].map(|other| self.bits(self.here, self.step.copy ^ other));
        self.each_word(|word, mask| {
            let [now, before] = [now, before].map(|bits| bits[word].load(Ordering::Relaxed));
            let fresh = now & !before & mask;
            for bit in (0..32).filter(|bit| fresh >> bit & 1 == 1) {
                self.push(word as u32 * 32 + bit);
            }
        })
    }

    /// Words with owned vertices, and which of their bits are.
    fn each_word(&self, work: impl Fn(usize, u32) + Send + Sync) -> KernelResult {
        let (first, end) = (self.first as usize, self.end as usize);
        let words = if first < end { first / 32..end.div_ceil(32) } else { 0..0 };
        Grid::of_blocks(words.len(), BLOCK).for_each_block(|block| {
            for word in block.range.map(|word| words.start + word) {
                let from = first.max(word * 32) - word * 32;
                let to = end.min(word * 32 + 32) - word * 32;
                work(word, (((1u64 << to) - 1) & !((1 << from) - 1)) as u32);
            }
            Ok(())
        })
    }

    /// Adds bits to all devices' copies: those of a word shared with others stay.
    fn store(&self, copy: u32, word: usize, bits: u32) {
        for device in 0..self.settings.devices as usize {
            self.bits(device, copy)[word].fetch_or(bits, Ordering::Relaxed);
        }
        self.words[self.here][Word::Stored as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn bits(&self, device: usize, copy: u32) -> &[AtomicU32] {
        let words = self.settings.vertices.div_ceil(32) as usize;
        &self.visited[device][copy as usize * words..][..words]
    }

    fn inbox(&self, to: usize, from: usize) -> &[AtomicU64] {
        let owned = (self.settings.boundaries[to + 1] - self.settings.boundaries[to]) as usize;
        let place = from - usize::from(from > to);
        &self.inboxes[to][place * owned..][..owned]
    }

    fn row<'a>(&self, (offsets, targets): (&'a [u64], &'a [u32]), vertex: u32) -> &'a [u32] {
        let row = (vertex - self.first) as usize;
        &targets[offsets[row] as usize..offsets[row + 1] as usize]
    }

    /// Takes an item that names an owned vertex. Whether it was news.
    fn take(&self, item: u64) -> bool {
        let vertex = item as u32;
        let is_found = self.claim(vertex);
        if is_found {
            self.reach(vertex, (item >> 32) as u32);
            self.push(vertex);
        }
        is_found
    }

    /// Sets a visited bit. True if it was clear.
    fn claim(&self, vertex: u32) -> bool {
        let bit = 1 << (vertex % 32);
        let word = &self.bits(self.here, self.step.copy)[vertex as usize / 32];
        word.load(Ordering::Relaxed) & bit == 0
            && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    fn reach(&self, vertex: u32, predecessor: u32) {
        let row = (vertex - self.first) as usize;
        self.levels[row].store(self.step.level, Ordering::Relaxed);
        if let Some(of) = self.predecessors.get(row) {
            of.store(predecessor, Ordering::Relaxed);
        }
        self.words[self.here][Word::Visited as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn push(&self, vertex: u32) {
        let place = self.words[self.here][Word::Rows as usize].fetch_add(1, Ordering::Relaxed);
        self.log[place as usize].store(u64::from(vertex), Ordering::Relaxed);
    }
}
