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
//! Nothing gives a line back: the collectives do. A rank sends in `e + 2` when its `e + 1` is
//! over, in which it has heard from the receiver, who had read all lines of `e` by then. So two
//! sets of lines take turns, and everyone sends everyone a line, if only an empty one.
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
/// Sets of lines, which take turns.
const SETS: usize = 2;

/// Words of the lines that a rank has for a block; so many that there is no memory, if they are
/// more than can be counted.
pub(crate) fn words(ranks: usize, capacity: usize) -> usize {
    [ranks, capacity, LINE_WORDS].into_iter().fold(SETS, usize::saturating_mul)
}

/// The lines of blocks of one number, in the memory of all ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLines<'a> {
    /// Of each rank.
    pub(crate) memory: &'a [&'a [AtomicU64]],
    /// Where they begin in it.
    pub(crate) first: usize,
    /// Lines from one rank to another, of one collective.
    pub(crate) capacity: usize,
}

impl<'a> BlockLines<'a> {
    /// Word and epoch of a line.
    fn line(&self, [from, to]: [usize; 2], epoch: u64, place: usize) -> Option<[&'a AtomicU64; 2]> {
        let turn = if seeded(Fault::OneSetOfLines) { 0 } else { (epoch % SETS as u64) as usize };
        let line = (turn * self.memory.len() + from) * self.capacity + place;
        let words = self.memory.get(to)?.get(self.first + line * LINE_WORDS..)?;
        Some([words.first()?, words.get(1)?])
    }

    /// Sends words between two ranks, at most as many as there are lines, in a collective that
    /// the sender is in.
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

    /// The words of so many lines between two ranks, if all of them have come.
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
