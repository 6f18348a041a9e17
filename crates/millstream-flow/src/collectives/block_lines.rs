//! Lines of blocks without their devices: the words that a block of one rank's twin leaves in
//! another's memory, laid out as `Lines` of `collective_lines.cuh` has them.
//!
//! A line is two words: one of items, and the *epoch*, the number of the collective that they
//! belong to. A GPU writes both in one operation; here they are two.
//!
//! | state of a line | epoch | who may do what |
//! |---|---|---|
//! | free for epoch `e` | `e - 2` or less | the sender, in its collective `e`, writes it |
//! | full | `e` | the receiver, in its collective `e`, reads it |
//!
//! Nothing gives a line back explicitly; the collectives do so. A rank sends in `e + 2` only once
//! its `e + 1` is over, in which it has heard from the receiver, and the receiver had read all
//! lines of `e` before it sent in `e + 1`. So two sets of lines, used in turn, suffice, as long as
//! everyone sends everyone a line, even an empty one.
//!
//! | store | pairs with | so that |
//! |---|---|---|
//! | `send`: release of the epoch | `receive`: acquire of the epoch | the word is there when the epoch is |
//! | the same, of collective `e + 1` | the same | the lines of `e` are read before those of `e + 2` are written |
//!
//! The model is `tests/models/tests/block_lines.rs`.

use crate::sync::{AtomicU64, Fault, Ordering, seeded};

/// Words of a line.
const LINE_WORDS: usize = 2;
/// Sets of lines, used in turn.
const SETS: usize = 2;

/// Words of the lines that a rank has for a block. If that cannot be counted: so many that there is
/// no such memory.
pub(crate) fn words(ranks: usize, capacity: usize) -> usize {
    [ranks, capacity, LINE_WORDS].into_iter().fold(SETS, usize::saturating_mul)
}

/// The lines of the blocks with one number, in the memory of all ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLines<'a> {
    /// The memory of each rank.
    pub(crate) memory: &'a [&'a [AtomicU64]],
    /// The word of each memory at which the lines begin.
    pub(crate) first: usize,
    /// Lines from one rank to another, for one collective.
    pub(crate) capacity: usize,
}

impl<'a> BlockLines<'a> {
    /// The word and the epoch of a line.
    fn line(&self, [from, to]: [usize; 2], epoch: u64, place: usize) -> Option<[&'a AtomicU64; 2]> {
        let turn = if seeded(Fault::OneSetOfLines) { 0 } else { (epoch % SETS as u64) as usize };
        let line = (turn * self.memory.len() + from) * self.capacity + place;
        let words = self.memory.get(to)?.get(self.first + line * LINE_WORDS..)?;
        Some([words.first()?, words.get(1)?])
    }

    /// Sends words between two ranks, in a collective that the sender is in. There must not be more
    /// words than lines.
    pub(crate) fn send(&self, between: [usize; 2], epoch: u64, words: &[u64]) {
        for (place, item) in words.iter().enumerate() {
            let Some([word, number]) = self.line(between, epoch, place) else { return };
            if seeded(Fault::EpochBeforeWord) {
                number.store(epoch, Ordering::Release);
            }
            word.store(*item, Ordering::Relaxed);
            // Pairs with `receive`: the word comes before the epoch.
            let order = match seeded(Fault::LineWithoutRelease) {
                true => Ordering::Relaxed,
                false => Ordering::Release,
            };
            number.store(epoch, order);
        }
    }

    /// The words of this many lines between two ranks, if all of them have come.
    pub(crate) fn receive(
        &self,
        between: [usize; 2],
        epoch: u64,
        lines: usize,
    ) -> Option<Vec<u64>> {
        let word = |place| {
            let [word, number] = self.line(between, epoch, place)?;
            // Pairs with `send`.
            (number.load(Ordering::Acquire) == epoch).then(|| word.load(Ordering::Relaxed))
        };
        (0..lines).map(word).collect()
    }
}
