//! The twin of `near_far.cuh` on host devices (`NEAR_FAR.md`).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_device::{
    Grid, Kernel, KernelFault, KernelResult, Parameter, Read, Shared, Stream, Value as Plain,
};
use parking_lot::Mutex;

use crate::Result;
use crate::gang_place::GangPlace;
use crate::gang_work::GangWork;
use crate::near_far::{Exchange, Graph, Memory, NearFar, Settings, inboxes};
use crate::near_rows::{IS_LONG, MOST, NONE, SPECIAL, row_words};
use crate::relaxation::CudaRule;
use crate::twin_meetings::{TwinMeetings, streams};
use crate::value::{UNREACHED, Value};

/// Lists that a block goes through by itself, as in the kernel.
const HOPS: usize = 8;
/// Items of a block at least: what a task is worth.
const ITEMS_IN_BLOCK: usize = 1024;
/// Items whose rows are read together: few enough for the nearest cache.
const ITEMS_AT_ONCE: usize = 64;

type Signature<V> = (Graph, (Shared<V>, Read<u32>), Exchange, Plain<Settings>);
type View<'a, V> = <Signature<V> as Parameter>::View<'a>;

/// Items sent to each device.
type Sent = [u64; GangPlace::MOST];

/// A vertex and the key that it got.
type Item = (u32, u32);

/// What the devices do until they meet again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Start,
    /// Take what was told.
    Absorb,
    /// The same, after a threshold beyond the nearest key.
    Next(u32),
}

/// What the devices know since they have met.
#[derive(Clone, Debug)]
struct Meeting {
    phase: Phase,
    /// What each has sent that may be taken.
    sent: Vec<Sent>,
}

impl Meeting {
    /// What the devices do after this. Whether there is anything.
    fn advance(&mut self, piles: &[Mutex<Piles>]) -> bool {
        let sent: Vec<_> = piles.iter().map(|its| its.lock().done.sent).collect();
        let nearest = piles.iter().map(|its| its.lock().found.nearest).min();
        self.phase = match nearest {
            Some(nearest) if nearest != UNREACHED => Phase::Next(nearest),
            _ if sent != self.sent => Phase::Absorb,
            _ => return false,
        };
        self.sent = sent;
        true
    }
}

/// What a device, or a block of it, has found.
#[derive(Debug)]
struct Found {
    near: Vec<Item>,
    far: Vec<Item>,
    /// The nearest key that is far.
    nearest: u32,
    visited: u64,
}

impl Found {
    fn new() -> Found {
        Found { near: Vec::new(), far: Vec::new(), nearest: UNREACHED, visited: 0 }
    }

    #[inline]
    fn put(&mut self, item: Item, threshold: u32) {
        if item.1 < threshold {
            self.near.push(item);
        } else {
            self.far.push(item);
            self.nearest = self.nearest.min(item.1);
        }
    }

    fn append(&mut self, mut other: Found) {
        self.near.append(&mut other.near);
        self.far.append(&mut other.far);
        self.nearest = self.nearest.min(other.nearest);
        self.visited += other.visited;
    }
}

/// What a device keeps from meeting to meeting.
#[derive(Debug)]
struct Piles {
    found: Found,
    threshold: u32,
    /// What it has taken of each device's.
    seen: Sent,
    done: GangWork,
}

/// Searches from the first meeting to the last: how long it took, and what the devices have done.
pub(crate) async fn run<R: CudaRule, V: Value>(
    search: &NearFar<'_, R>,
    memory: &[Memory<V>],
) -> Result<(Duration, Vec<GangWork>)> {
    let devices = memory.len();
    let piles = |its: &Memory<V>| {
        let (seen, done) = ([0; GangPlace::MOST], GangWork::default());
        Mutex::new(Piles { found: Found::new(), threshold: its.settings.first_end, seen, done })
    };
    let piles: Arc<[_]> = memory.iter().map(piles).collect();
    let first = Meeting { phase: Phase::Start, sent: vec![[0; GangPlace::MOST]; devices] };
    let meetings = TwinMeetings::new(search.graph.context(), first);
    let kernel: Kernel<Signature<V>> = {
        let (piles, meetings, delta) = (Arc::clone(&piles), Arc::clone(&meetings), search.delta);
        Kernel::of_step_closure("near_far", move |_, view: &View<'_, V>| {
            let twin = Twin::<R, V>::new(view, delta);
            let step = |meeting: &Meeting| {
                twin.run(meeting, &mut piles[twin.here].lock(), || !meetings.is_over())
            };
            meetings.run_twin(twin.here, step, |meeting| meeting.advance(&piles))
        })
    };
    let inboxes = inboxes(memory);
    let launch = |place: usize, stream: &Stream| {
        let its = &memory[place];
        let (graph, exchange) = search.common(its, &inboxes, place);
        kernel.launch(stream, 1, (graph, (&its.values, &its.sources), exchange, its.settings))
    };
    let start = Instant::now();
    meetings.run(&streams(search.graph.context())?, launch).await?;
    Ok((start.elapsed(), piles.iter().map(|its| its.lock().done.clone()).collect()))
}

/// One device. All orders are relaxed: keys only become smaller, and the meetings publish.
struct Twin<'a, R: CudaRule, V: Value> {
    rows: &'a [AtomicU32],
    long_targets: &'a [AtomicU32],
    long_weights: &'a [AtomicU32],
    halo: &'a [u32],
    values: &'a [V::Atomic],
    sources: &'a [u32],
    exports: &'a [u32],
    told: &'a [AtomicU32],
    inboxes: Vec<&'a [AtomicU64]>,
    settings: Settings,
    delta: Option<R::Weight>,
    here: usize,
}

impl<'a, R: CudaRule, V: Value> Twin<'a, R, V> {
    fn new(view: &View<'a, V>, delta: Option<R::Weight>) -> Twin<'a, R, V> {
        let (graph, (values, sources), (exports, told, inboxes), settings) = view.clone();
        let (rows, long_targets, long_weights, halo) = graph;
        let here = settings.place.device as usize;
        Twin {
            rows,
            long_targets,
            long_weights,
            halo,
            values,
            sources,
            exports,
            told,
            inboxes,
            settings,
            delta,
            here,
        }
    }

    fn run(
        &self,
        meeting: &Meeting,
        piles: &mut Piles,
        goes_on: impl Fn() -> bool,
    ) -> KernelResult {
        match meeting.phase {
            Phase::Start => self.visit_sources(piles),
            Phase::Next(nearest) => self.begin_after(nearest, piles)?,
            Phase::Absorb => {}
        }
        if meeting.phase != Phase::Start {
            self.take_told(meeting, piles);
        }
        self.settle(piles, goes_on)?;
        self.tell(piles)
    }

    fn visit_sources(&self, piles: &mut Piles) {
        for &source in self.sources {
            if self.lower(source, V::new(0, UNREACHED)) {
                piles.found.near.push((source, 0));
            }
        }
    }

    /// Until nothing near is left.
    fn settle(&self, piles: &mut Piles, goes_on: impl Fn() -> bool) -> KernelResult {
        while !piles.found.near.is_empty() && goes_on() {
            let list = std::mem::take(&mut piles.found.near);
            let found = in_blocks(list.len(), |share, found| {
                self.visit_lists(&list[share], piles.threshold, found);
            })?;
            piles.done.visited += found.visited;
            piles.found.append(found);
        }
        Ok(())
    }

    /// A list, what is near then, and so on.
    fn visit_lists(&self, list: &[Item], threshold: u32, found: &mut Found) {
        self.visit_list(list, threshold, found);
        let mut list = Vec::new();
        for _ in 1..HOPS {
            std::mem::swap(&mut list, &mut found.near);
            self.visit_list(&list, threshold, found);
            list.clear();
            if found.near.is_empty() {
                break;
            }
        }
    }

    /// The arcs of all vertices of a list that still have the key that they had then. Reads
    /// rows first and lowers values last: the processor fetches ahead over reads, and not over
    /// atomic operations.
    fn visit_list(&self, list: &[Item], threshold: u32, found: &mut Found) {
        let mut offers = [(0, V::UNREACHED); ITEMS_AT_ONCE * MOST];
        for items in list.chunks(ITEMS_AT_ONCE) {
            let mut count = 0;
            for &(vertex, key) in items {
                if self.key(vertex) != key {
                    continue;
                }
                found.visited += 1;
                let from = self.id(vertex);
                let row = &self.rows[row_words::<R>() * vertex as usize..][..row_words::<R>()];
                if row[0].load(Ordering::Relaxed) == IS_LONG {
                    self.visit_long(row, key, from, threshold, found);
                    continue;
                }
                for arc in 0..MOST {
                    let target = row[arc].load(Ordering::Relaxed);
                    let weight =
                        if R::WEIGHS { row[MOST + arc].load(Ordering::Relaxed) } else { 1 };
                    let value = V::new(R::beyond(key, bytemuck::cast(weight)), from);
                    offers[count] = (target, value);
                    // Without a branch, which would be guessed.
                    count += usize::from(target != NONE);
                }
            }
            self.make(&mut offers[..count], threshold, found);
        }
    }

    fn visit_long(
        &self,
        row: &[AtomicU32],
        key: u32,
        from: u32,
        threshold: u32,
        found: &mut Found,
    ) {
        let [begin, arcs] = [1, 2].map(|word| row[word].load(Ordering::Relaxed) - SPECIAL);
        for arc in begin as usize..(begin + arcs) as usize {
            let weight = if R::WEIGHS { self.long_weights[arc].load(Ordering::Relaxed) } else { 1 };
            let value = V::new(R::beyond(key, bytemuck::cast(weight)), from);
            let target = self.long_targets[arc].load(Ordering::Relaxed);
            self.make(&mut [(target, value)], threshold, found);
        }
    }

    /// Lowers the keys of vertices that are offered smaller ones.
    #[inline]
    fn make(&self, offers: &mut [(u32, V)], threshold: u32, found: &mut Found) {
        let mut count = 0;
        for place in 0..offers.len() {
            let (target, value) = offers[place];
            let is_made = (value.key() < self.key(target)) & (value.key() <= self.settings.limit);
            offers[count] = (target, value);
            count += usize::from(is_made);
        }
        for &(target, value) in &offers[..count] {
            if self.lower(target, value) {
                found.put((target, value.key()), threshold);
            }
        }
    }

    /// A threshold beyond the nearest vertex. What is near now leaves the far pile.
    fn begin_after(&self, nearest: u32, piles: &mut Piles) -> KernelResult {
        let after = self.delta.map_or(UNREACHED, |delta| R::beyond(nearest, delta));
        // Where rounding leaves nothing of delta there is no order any more.
        piles.threshold = if after > nearest { after } else { UNREACHED };
        let far = std::mem::take(&mut piles.found.far);
        piles.found.nearest = UNREACHED;
        let found = in_blocks(far.len(), |share, found| {
            // Else a vertex became nearer since: another item has that.
            let are_left = far[share].iter().filter(|&&(vertex, key)| self.key(vertex) == key);
            are_left.for_each(|&item| found.put(item, piles.threshold));
        })?;
        piles.found.append(found);
        Ok(())
    }

    /// Tells others what has become of owned vertices in their halos that are settled.
    fn tell(&self, piles: &mut Piles) -> KernelResult {
        let shape = &self.settings.shape;
        for to in (0..self.settings.place.devices as usize).filter(|&to| to != self.here) {
            let (begin, room) = (shape.exports[to] as usize, 2 * shape.told[to] as usize);
            let news = in_blocks(shape.told[to] as usize, |share, news| {
                for at in share {
                    let key = self.key(self.exports[begin + at]);
                    let told = &self.told[begin + at];
                    if key < piles.threshold && key != told.load(Ordering::Relaxed) {
                        told.store(key, Ordering::Relaxed);
                        news.near.push((shape.places[to] + at as u32, key));
                    }
                }
            })?;
            let ring = &self.inboxes[to][2 * shape.places[to] as usize..];
            for &(place, key) in &news.near {
                let at = piles.done.sent[to] as usize % room;
                ring[at].store(u64::from(place) << 32 | u64::from(key), Ordering::Relaxed);
                piles.done.sent[to] += 1;
            }
        }
        Ok(())
    }

    /// What owners have told of the halo before the devices met.
    fn take_told(&self, meeting: &Meeting, piles: &mut Piles) {
        let (shape, place) = (&self.settings.shape, &self.settings.place);
        for (other, sent) in meeting.sent.iter().enumerate() {
            let begin = shape.halo[other];
            let room = u64::from(2 * (shape.halo[other + 1] - begin));
            let ring = &self.inboxes[self.here][2 * begin as usize..];
            for at in piles.seen[other]..sent[self.here] {
                let item = ring[(at % room) as usize].load(Ordering::Relaxed);
                let (vertex, key) = (place.end - place.first + (item >> 32) as u32, item as u32);
                piles.done.received += 1;
                if self.lower(vertex, V::new(key, UNREACHED)) {
                    piles.done.kept += 1;
                    // What is told is near: it is settled.
                    piles.found.near.push((vertex, key));
                }
            }
            piles.seen[other] = sent[self.here];
        }
    }

    #[inline]
    fn key(&self, vertex: u32) -> u32 {
        V::get(&self.values[vertex as usize]).key()
    }

    /// Puts a value in place of one with a larger key. True if it was.
    #[inline]
    fn lower(&self, vertex: u32, value: V) -> bool {
        value.key() < V::lower(&self.values[vertex as usize], value).key()
    }

    /// The id of a vertex, where that is kept.
    #[inline]
    fn id(&self, vertex: u32) -> u32 {
        let GangPlace { first, end, .. } = self.settings.place;
        match vertex.checked_sub(end - first) {
            _ if !V::KEEPS_PREDECESSOR => UNREACHED,
            None => first + vertex,
            Some(place) => self.halo[place as usize],
        }
    }
}

/// What blocks find that share work, together.
fn in_blocks(
    size: usize,
    work: impl Fn(Range<usize>, &mut Found) + Send + Sync,
) -> std::result::Result<Found, KernelFault> {
    let all = Mutex::new(Found::new());
    Grid::of_shares(size, ITEMS_IN_BLOCK).for_each_block(|block| {
        let mut found = Found::new();
        work(block.range, &mut found);
        all.lock().append(found);
        Ok(())
    })?;
    Ok(all.into_inner())
}
