//! A search by near and far piles on host devices (`NEAR_FAR.md`). They share one memory and one set of
//! threads, so there is one near pile and one far pile; the first device's twin works through them with
//! all threads.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use millstream_device::{Grid, Kernel, KernelFault, KernelResult, Parameter, Shared, Stream};
use parking_lot::Mutex;

use crate::Result;
use crate::answer::Answer;
use crate::gang_place::GangPlace;
use crate::gang_work::GangWork;
use crate::near_far::NearFar;
use crate::near_rows::{IS_LONG, MOST, NONE, SPECIAL, row_words};
use crate::owners::Owners;
use crate::relaxation::Rule;
use crate::run::Outcome;
use crate::twin_meetings::TwinMeetings;
use crate::value::{UNREACHED, Value};

/// Successive lists that a block goes through by itself. With more of them threads wait less for each
/// other, but more vertices are visited again.
const HOPS: usize = 16;
/// The fewest near items of a block: small enough that a thin frontier gives many threads work.
const NEAR_IN_BLOCK: usize = 128;
/// The fewest far items of a block: more, since far items are only compared.
const FAR_IN_BLOCK: usize = 1024;
/// Items whose rows are read together: few enough for the first-level cache.
const ITEMS_AT_ONCE: usize = 64;

/// Rows, targets and weights of long rows, and the values of all vertices.
type Signature<V> = (Shared<u32>, Shared<u32>, Shared<u32>, Shared<V>);
type View<'a, V> = <Signature<V> as Parameter>::View<'a>;

/// A vertex and the key that it got.
type Item = (u32, u32);

/// The smallest far key, from which the next threshold is set; none at first.
type Nearest = Option<u32>;

/// What has been found, by all or by a block.
#[derive(Debug)]
struct Found {
    near: Vec<Item>,
    far: Vec<Item>,
    /// The smallest far key.
    nearest: u32,
    /// Vertices of each device that were visited.
    visited: [u64; GangPlace::MOST],
}

impl Found {
    fn new() -> Found {
        let visited = [0; GangPlace::MOST];
        Found { near: Vec::new(), far: Vec::new(), nearest: UNREACHED, visited }
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
        self.visited.iter_mut().zip(other.visited).for_each(|(its, more)| *its += more);
    }
}

/// The piles, and the threshold between them.
#[derive(Debug)]
struct Piles {
    found: Found,
    threshold: u32,
}

/// Searches from `sources` (new ids).
pub(crate) async fn run<R: Rule, V: Value>(
    search: &NearFar<'_, R>,
    sources: &[u32],
) -> Result<Outcome> {
    let (graph, rows) = (search.graph, search.rows.of(0));
    let context = graph.context();
    let first = &context.devices()[..1];
    let values = graph.filled(first, V::UNREACHED, sources, V::new(0, UNREACHED)).await?;
    let mut found = Found::new();
    found.near.extend(sources.iter().map(|&source| (source, 0)));
    found.near.sort_unstable();
    found.near.dedup();
    let piles = Arc::new(Mutex::new(Piles { found, threshold: search.first_end() }));
    let meetings = TwinMeetings::of(context, 1, Nearest::None);
    let kernel: Kernel<Signature<V>> = {
        let (piles, meetings) = (Arc::clone(&piles), Arc::clone(&meetings));
        let (limit, delta) = (search.limit, search.delta);
        let owners = Owners::new(graph.partition().boundaries());
        Kernel::of_step_closure("near_far", move |_, view: &View<'_, V>| {
            let (rows, long_targets, long_weights, values) = *view;
            let owners = &owners;
            let twin =
                Twin::<R, V> { rows, long_targets, long_weights, values, owners, limit, delta };
            let step =
                |nearest: &Nearest| twin.run(*nearest, &mut piles.lock(), || !meetings.is_over());
            let advance = |nearest: &mut Nearest| {
                *nearest = Some(piles.lock().found.nearest).filter(|&nearest| nearest != UNREACHED);
                nearest.is_some()
            };
            meetings.run_twin(0, step, advance)
        })
    };
    let launch = |_, stream: &Stream| {
        let arguments = (&rows.rows, &rows.long_targets, &rows.long_weights, &values[0]);
        kernel.launch(stream, 1, arguments)
    };
    let stream = first[0].stream()?;
    let start = Instant::now();
    meetings.run(&[stream], launch).await?;
    let run_time = start.elapsed();
    let visited = piles.lock().found.visited;
    let work = visited.map(|visited| GangWork { visited, ..GangWork::default() });
    let statistics = GangWork::statistics(&work, context.devices(), size_of::<Item>() as u64);
    let values = std::iter::repeat(values[0].clone());
    Outcome::gathered(statistics, run_time, Answer::gather(graph, values)).await
}

/// What the first device's twin sees. All memory orders are relaxed: keys only become smaller, and
/// waiting for the blocks orders their writes before what follows.
struct Twin<'a, R: Rule, V: Value> {
    rows: &'a [AtomicU32],
    long_targets: &'a [AtomicU32],
    long_weights: &'a [AtomicU32],
    values: &'a [V::Atomic],
    owners: &'a Owners,
    limit: u32,
    delta: Option<R::Weight>,
}

impl<R: Rule, V: Value> Twin<'_, R, V> {
    /// Visits all vertices below a threshold: the next one, if there is a nearest far key.
    fn run(&self, nearest: Nearest, piles: &mut Piles, goes_on: impl Fn() -> bool) -> KernelResult {
        if let Some(nearest) = nearest {
            self.begin_after(nearest, piles)?;
        }
        while !piles.found.near.is_empty() && goes_on() {
            let list = std::mem::take(&mut piles.found.near);
            let found = in_blocks(list.len(), NEAR_IN_BLOCK, |share, found| {
                self.visit_lists(&list[share], piles.threshold, found);
            })?;
            piles.found.append(found);
        }
        Ok(())
    }

    /// Sets the threshold beyond the nearest vertex. Items that are near now leave the far pile.
    fn begin_after(&self, nearest: u32, piles: &mut Piles) -> KernelResult {
        let after = self.delta.map_or(UNREACHED, |delta| R::beyond(nearest, delta));
        // If rounding absorbs delta, the rest goes without an order.
        piles.threshold = if after > nearest { after } else { UNREACHED };
        let far = std::mem::take(&mut piles.found.far);
        piles.found.nearest = UNREACHED;
        let found = in_blocks(far.len(), FAR_IN_BLOCK, |share, found| {
            // Any other item is stale: its vertex has become nearer, and a newer item says so.
            let are_left = far[share].iter().filter(|&&(vertex, key)| self.key(vertex) == key);
            are_left.for_each(|&item| found.put(item, piles.threshold));
        })?;
        piles.found.append(found);
        Ok(())
    }

    /// Visits a list, then the near items that this found, and so on, up to `HOPS` lists.
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

    /// Relaxes the arcs of the vertices of a list whose key is still the item's. Reads rows first and
    /// lowers values last: the processor executes ahead past reads, but not past atomic operations.
    fn visit_list(&self, list: &[Item], threshold: u32, found: &mut Found) {
        let mut offers = [(0, V::UNREACHED); ITEMS_AT_ONCE * MOST];
        // The previous vertex's owner, which is mostly the next vertex's too.
        let (mut owner, mut owned) = (0, 0..0);
        for items in list.chunks(ITEMS_AT_ONCE) {
            let mut count = 0;
            for &(vertex, key) in items {
                if self.key(vertex) != key {
                    continue;
                }
                if !owned.contains(&vertex) {
                    owner = self.owners.owner(vertex);
                    owned = self.owners.of(owner);
                }
                found.visited[owner] += 1;
                let row = &self.rows[row_words::<R>() * vertex as usize..][..row_words::<R>()];
                if row[0].load(Ordering::Relaxed) == IS_LONG {
                    self.visit_long(row, (vertex, key), threshold, found);
                    continue;
                }
                for arc in 0..MOST {
                    let target = row[arc].load(Ordering::Relaxed);
                    let weight =
                        if R::WEIGHS { row[MOST + arc].load(Ordering::Relaxed) } else { 1 };
                    let value = V::new(R::beyond(key, bytemuck::cast(weight)), vertex);
                    offers[count] = (target, value);
                    // Branch-free: a branch would often be mispredicted.
                    count += usize::from(target != NONE);
                }
            }
            self.make(&mut offers[..count], threshold, found);
        }
    }

    fn visit_long(
        &self,
        row: &[AtomicU32],
        (vertex, key): Item,
        threshold: u32,
        found: &mut Found,
    ) {
        let [begin, arcs] = [1, 2].map(|word| row[word].load(Ordering::Relaxed) - SPECIAL);
        for arc in begin as usize..(begin + arcs) as usize {
            let weight = if R::WEIGHS { self.long_weights[arc].load(Ordering::Relaxed) } else { 1 };
            let value = V::new(R::beyond(key, bytemuck::cast(weight)), vertex);
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
            let is_made = (value.key() < self.key(target)) & (value.key() <= self.limit);
            offers[count] = (target, value);
            count += usize::from(is_made);
        }
        for &(target, value) in &offers[..count] {
            if self.lower(target, value) {
                found.put((target, value.key()), threshold);
            }
        }
    }

    #[inline]
    fn key(&self, vertex: u32) -> u32 {
        V::get(&self.values[vertex as usize]).key()
    }

    /// Replaces a vertex's value if its key is larger. Whether it did.
    #[inline]
    fn lower(&self, vertex: u32, value: V) -> bool {
        value.key() < V::lower(&self.values[vertex as usize], value).key()
    }
}

/// Shares `size` items out to blocks of at least `least`, and returns all that the blocks find.
fn in_blocks(
    size: usize,
    least: usize,
    work: impl Fn(Range<usize>, &mut Found) + Send + Sync,
) -> std::result::Result<Found, KernelFault> {
    let all = Mutex::new(Found::new());
    Grid::of_shares(size, least).for_each_block(|block| {
        let mut found = Found::new();
        work(block.range, &mut found);
        all.lock().append(found);
        Ok(())
    })?;
    Ok(all.into_inner())
}
