//! Collectives that a block of a host twin calls: `BlockCollectives` of `block_collectives.cuh`.

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use millstream_device::KernelFault;
use parking_lot::MappedMutexGuard;

use super::block_lines::BlockLines;
use super::line_settings::{between, lines, unit};
use super::plan::{Pattern, Piece, shares, signals, slice};
use super::resident::LEAST_CAPACITY;
use super::resident_rank::ResidentRankView;
use crate::Item;

/// Set in a block's word, beside its epoch, while the block uses the collectives.
const IS_INSIDE: u64 = 1 << 63;

/// Where a block of a launch stands, between its steps.
#[derive(Debug)]
pub(super) struct Standing {
    /// Number of the last exchange of lines that is over.
    epoch: u64,
    /// Collectives of this launch that are over.
    completed: usize,
    /// The collective that the block is in.
    call: Call,
}

/// A collective: as many exchanges of lines as its longest piece needs.
#[derive(Debug, Default)]
struct Call {
    /// Exchanges that are over.
    exchanged: usize,
    /// Whether the lines of the next exchange have been sent.
    is_sent: bool,
    /// Since when a line of the next exchange has been missed.
    misses_since: Option<Instant>,
    /// The output so far: a `Vec` of the collective's items.
    output: Option<Box<dyn Any + Send>>,
}

impl Standing {
    /// A block's kernel begins: it goes on from where the kernel before has left, or gets `None` if
    /// that kernel has not left.
    pub(super) fn enter(own: &AtomicU64) -> Option<Standing> {
        // Relaxed, like all uses of this word: it belongs to the block, and a rank's kernels run
        // one after another.
        let epoch = own.load(Ordering::Relaxed);
        if epoch & IS_INSIDE != 0 {
            return None;
        }
        own.store(epoch | IS_INSIDE, Ordering::Relaxed);
        Some(Standing { epoch, completed: 0, call: Call::default() })
    }
}

/// What a rank sends to another of its input, and where in its output it puts what it gets from that one.
type Exchanged = (Range<usize>, Range<usize>);

/// What a rank has when a collective is over; `None` if its block must wait.
pub type Collected<T> = Result<Option<Vec<T>>, KernelFault>;

/// The collectives of one block of a host twin with the blocks of the same number on all other
/// ranks: the class of the same name in `block_collectives.cuh`.
///
/// All of these blocks make the same calls in the same order, with equally many items. No call
/// waits: where something has not arrived yet, the answer is `None`. The block then returns
/// [`Step::Waits`](millstream_device::Step::Waits). It is called again from its beginning, where
/// [`completed`](Self::completed) says how far it has come, and makes the same call with the same
/// items. Overwrite items with a result only once the result is there.
///
/// In two cases a GPU's call returns false: the gang is stopped, or a rank did not come in time. A
/// twin's call then returns an error that asks for an [early return](KernelFault::early_return).
/// Any other error says that the operands do not fit. For an example see
/// [`ResidentCollectives`](crate::ResidentCollectives).
#[derive(Debug)]
pub struct BlockCollectives<'a> {
    rank: &'a ResidentRankView<'a>,
    block: usize,
    own: &'a AtomicU64,
    standing: MappedMutexGuard<'a, Standing>,
}

impl<'a> BlockCollectives<'a> {
    pub(super) fn new(
        rank: &'a ResidentRankView<'a>,
        block: usize,
        own: &'a AtomicU64,
        standing: MappedMutexGuard<'a, Standing>,
    ) -> BlockCollectives<'a> {
        BlockCollectives { rank, block, own, standing }
    }

    /// Collectives of this launch that are over.
    pub fn completed(&self) -> usize {
        self.standing.completed
    }

    /// To be called at the end of the block, so that the next kernel can go on where this one
    /// ended. It does nothing while a collective is not over.
    pub fn leave(&self) {
        if !self.standing.call.is_sent {
            self.own.store(self.standing.epoch, Ordering::Relaxed);
        }
    }

    /// Everyone gets the items of all ranks, combined in the order of the ranks.
    ///
    /// # Errors
    /// The gang is stopped, or a rank did not come in time (this holds for all calls here); items
    /// that are [too large](crate::ResidentCollectives).
    pub fn all_reduce<T: Item>(
        &mut self,
        input: &[T],
        combine: impl Fn(T, T) -> T,
    ) -> Collected<T> {
        let pattern = Pattern::AllReduce { items: 0..input.len() };
        self.run(&pattern, input, input.len(), Some(&combine))
    }

    /// Rank `root` gets the items of all ranks, combined; the others get nothing.
    ///
    /// # Errors
    /// As [`BlockCollectives::all_reduce`]; no such rank.
    pub fn reduce<T: Item>(
        &mut self,
        root: usize,
        input: &[T],
        combine: impl Fn(T, T) -> T,
    ) -> Collected<T> {
        self.check_root(root)?;
        let pattern = Pattern::Reduce { root, items: 0..input.len() };
        let len = if self.rank.rank() == root { input.len() } else { 0 };
        self.run(&pattern, input, len, Some(&combine))
    }

    /// Each rank gets its part of the combined items of all ranks; parts are as equal as possible,
    /// larger ones first.
    ///
    /// # Errors
    /// As [`BlockCollectives::all_reduce`].
    pub fn reduce_scatter<T: Item>(
        &mut self,
        input: &[T],
        combine: impl Fn(T, T) -> T,
    ) -> Collected<T> {
        let parts = shares(&(0..input.len()), self.rank.ranks());
        let len = parts[self.rank.rank()].len();
        self.run(&Pattern::ReduceScatter { parts }, input, len, Some(&combine))
    }

    /// Everyone gets the items of rank `root`; of the others' items only the number matters.
    ///
    /// # Errors
    /// As [`BlockCollectives::reduce`].
    pub fn broadcast<T: Item>(&mut self, root: usize, items: &[T]) -> Collected<T> {
        self.check_root(root)?;
        let pattern = Pattern::Broadcast { root, items: 0..items.len() };
        self.run(&pattern, items, items.len(), None)
    }

    /// Everyone gets the parts of all ranks, `len` items in all; `part` is this rank's.
    ///
    /// # Errors
    /// As [`BlockCollectives::all_reduce`]; a part of another length.
    pub fn all_gather<T: Item>(&mut self, part: &[T], len: usize) -> Collected<T> {
        let parts = shares(&(0..len), self.rank.ranks());
        let expected = parts[self.rank.rank()].len();
        if part.len() != expected {
            let found = part.len();
            return Err(KernelFault::new(format!(
                "it gathers {found} items in place of {expected}"
            )));
        }
        self.run(&Pattern::AllGather { parts }, part, len, None)
    }

    /// `input` has equally many items for each rank, in the order of the ranks; each rank gets the
    /// items that are for it, in the order of the ranks that they come from.
    ///
    /// # Errors
    /// As [`BlockCollectives::all_reduce`]; a number of items that the ranks do not divide.
    pub fn all_to_all<T: Item>(&mut self, input: &[T]) -> Collected<T> {
        let (ranks, len) = (self.rank.ranks(), input.len());
        if !len.is_multiple_of(ranks) {
            return Err(KernelFault::new(format!("it has {len} items for {ranks} ranks")));
        }
        let each = len / ranks;
        let piece =
            |from: usize, to: usize| Piece { items: to * each..(to + 1) * each, at: from * each };
        let row = |from| (0..ranks).map(|to| piece(from, to)).collect();
        let pieces = (0..ranks).map(row).collect();
        self.run(&Pattern::AllToAll { pieces }, input, len, None)
    }

    /// Everything that the blocks of this number did before the barrier is visible to all of them
    /// after it. Returns false if the block must wait.
    ///
    /// # Errors
    /// As [`BlockCollectives::all_reduce`].
    pub fn barrier(&mut self) -> Result<bool, KernelFault> {
        let nothing = self.run::<u64>(&signals(self.rank.ranks()), &[], 0, None)?;
        Ok(nothing.is_some())
    }

    fn check_root(&self, root: usize) -> Result<(), KernelFault> {
        match self.rank.ranks() {
            ranks if root < ranks => Ok(()),
            ranks => Err(KernelFault::new(format!("there is no rank {root} of {ranks}"))),
        }
    }

    /// Continues a collective, whose output here has `len` items, as far as possible without waiting.
    fn run<T: Item>(
        &mut self,
        pattern: &Pattern,
        input: &[T],
        len: usize,
        combine: Option<&dyn Fn(T, T) -> T>,
    ) -> Collected<T> {
        let most = self.most::<T>()?;
        let mut output = self.output::<T>(len)?;
        while self.standing.call.exchanged < pattern.longest().div_ceil(most).max(1) {
            let exchanged = self.exchange(pattern, most);
            if !self.standing.call.is_sent {
                self.send(input, &exchanged);
            }
            let Some(arrived) = self.receive(input, &exchanged)? else {
                self.standing.call.output = Some(Box::new(output));
                return Ok(None);
            };
            place(arrived, &exchanged, &mut output, self.rank.rank(), combine);
            let Standing { epoch, call, .. } = &mut *self.standing;
            *epoch += 1;
            *call = Call { exchanged: call.exchanged + 1, ..Call::default() };
        }
        self.standing.call = Call::default();
        self.standing.completed += 1;
        Ok(Some(output))
    }

    /// The most items of a piece that lines hold in one exchange.
    fn most<T: Item>(&self) -> Result<usize, KernelFault> {
        let (items, lines) = unit(size_of::<T>());
        // Compared with the least capacity, not the actual one: a GPU's kernel does not compile
        // with larger items.
        match (1..=LEAST_CAPACITY).contains(&lines) {
            true => Ok(self.rank.settings.capacity() / lines * items),
            false => Err(KernelFault::new(format!(
                "lines do not hold items of {} bytes",
                size_of::<T>()
            ))),
        }
    }

    /// The output so far, which has `len` items.
    fn output<T: Item>(&mut self, len: usize) -> Result<Vec<T>, KernelFault> {
        let Some(output) = self.standing.call.output.take() else {
            return Ok(vec![T::zeroed(); len]);
        };
        match output.downcast::<Vec<T>>() {
            Ok(output) if output.len() == len => Ok(*output),
            _ => Err(KernelFault::new("it calls another collective than that it waits for")),
        }
    }

    /// What goes to and comes from each rank in the next exchange, at most `most` items each.
    fn exchange(&self, pattern: &Pattern, most: usize) -> Vec<Exchanged> {
        let next = |items: &Range<usize>| slice(items, self.standing.call.exchanged, most);
        let with = |other| {
            let (sends, receives) = between(pattern, self.rank.rank(), other, false);
            (next(&sends), next(&receives))
        };
        (0..self.rank.ranks()).map(with).collect()
    }

    fn lines(&self) -> BlockLines<'_> {
        let settings = &self.rank.settings;
        let (first, capacity) = (settings.first_line(self.block), settings.capacity());
        BlockLines { memory: &self.rank.memory, first, capacity }
    }

    fn send<T: Item>(&mut self, input: &[T], exchanged: &[Exchanged]) {
        let (rank, epoch) = (self.rank.rank(), self.standing.epoch + 1);
        for (to, (sends, _)) in exchanged.iter().enumerate().filter(|(to, _)| *to != rank) {
            self.lines().send([rank, to], epoch, &to_words(&input[sends.clone()]));
        }
        self.standing.call.is_sent = true;
        self.rank.ring();
    }

    /// What each rank has sent, and what this one keeps for itself; `None` until all of it is there.
    fn receive<T: Item>(
        &mut self,
        input: &[T],
        exchanged: &[Exchanged],
    ) -> Result<Option<Vec<Vec<T>>>, KernelFault> {
        let (rank, epoch) = (self.rank.rank(), self.standing.epoch + 1);
        let mut arrived = Vec::new();
        for (from, (sends, receives)) in exchanged.iter().enumerate() {
            if from == rank {
                arrived.push(input[sends.clone()].to_vec());
                continue;
            }
            let words = self.lines().receive([from, rank], epoch, lines_of::<T>(receives.len()));
            let Some(words) = words else {
                let since = *self.standing.call.misses_since.get_or_insert_with(Instant::now);
                return self.rank.goes_on(since).map(|()| None);
            };
            arrived.push(to_items(&words, receives.len()));
        }
        Ok(Some(arrived))
    }
}

/// Puts what has arrived from each rank where it belongs.
fn place<T: Item>(
    arrived: Vec<Vec<T>>,
    exchanged: &[Exchanged],
    output: &mut [T],
    rank: usize,
    combine: Option<&dyn Fn(T, T) -> T>,
) {
    let Some(combine) = combine else {
        for ((_, receives), items) in exchanged.iter().zip(arrived) {
            output[receives.clone()].copy_from_slice(&items);
        }
        return;
    };
    let combined = arrived.into_iter().reduce(|one, other| {
        one.into_iter().zip(other).map(|(one, other)| combine(one, other)).collect()
    });
    output[exchanged[rank].1.clone()].copy_from_slice(&combined.unwrap_or_default());
}

/// Lines for `items` items, at least those of one unit, so that everyone hears from everyone.
fn lines_of<T: Item>(items: usize) -> usize {
    lines(items.max(1), size_of::<T>())
}

fn to_words<T: Item>(items: &[T]) -> Vec<u64> {
    let mut words = vec![0; lines_of::<T>(items.len())];
    let bytes: &[u8] = bytemuck::cast_slice(items);
    bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
    words
}

fn to_items<T: Item>(words: &[u64], len: usize) -> Vec<T> {
    let mut items = vec![T::zeroed(); len];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut items);
    bytes.copy_from_slice(&bytemuck::cast_slice(words)[..bytes.len()]);
    items
}
