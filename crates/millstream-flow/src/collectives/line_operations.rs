//! Arguments of the kernels of lines: a collective, and those that are submitted after it while the
//! driver is still busy with the kernel before or the GPU has not come to that one
//! (`LineOperations` of `collective_lines.cuh`).

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    Accesses, Argument, ArgumentWriter, Bound, DeviceBuffer, Parameter, Read, Value, Write,
};
use smallvec::SmallVec;

use super::line_settings::{LinePieces, LineSettings, meetings, pieces};
use super::peer_words::PeerWords;
use super::plan::Pattern;
use super::rank_settings::{RankSettings, THREADS};
use crate::Item;

/// Collectives of a kernel at most: `most_line_operations` of the header.
const MOST: usize = 8;

/// Collectives in lines, one after another, in one kernel; host devices have none.
#[derive(Debug)]
pub(super) struct LineOperations<T>(PhantomData<T>);

/// A collective, for all ranks. The threads that launch make each rank's arguments from this; the
/// caller has no time for that.
#[derive(Debug)]
pub(super) struct LineCollective {
    pub(super) pattern: Pattern,
    pub(super) in_place: bool,
    pub(super) words: Arc<PeerWords>,
    /// Units of the longest piece of all ranks, at least 1.
    pub(super) units: usize,
    /// The settings of the first rank.
    pub(super) settings: LineSettings,
}

impl LineCollective {
    fn epoch(&self) -> u64 {
        self.settings.common.epoch
    }

    fn settings(&self, rank: u32) -> LineSettings {
        let common = RankSettings { rank, ..self.settings.common };
        LineSettings { common, ..self.settings }
    }

    fn pieces(&self, rank: u32) -> LinePieces {
        let ranks = self.settings.common.ranks as usize;
        pieces(&self.pattern, rank as usize, ranks, self.in_place)
    }
}

/// A rank's part of a collective.
pub(super) struct LineArguments<'a, T: Item> {
    pub(super) collective: Arc<LineCollective>,
    pub(super) rank: u32,
    /// `None` in place.
    pub(super) input: Option<&'a DeviceBuffer<T>>,
    pub(super) output: &'a mut DeviceBuffer<T>,
}

/// What a queued launch holds.
#[derive(Debug)]
pub(super) struct BoundLines {
    first: BoundOperation,
    /// Collectives behind the first; their numbers follow each other.
    others: Vec<BoundOperation>,
    rank: u32,
}

impl BoundLines {
    /// The last collective's number.
    fn last(&self) -> u64 {
        self.first.collective.epoch() + self.others.len() as u64
    }

    fn is_full(&self) -> bool {
        self.last().is_multiple_of(MOST as u64)
    }

    /// The collectives, each with whether all blocks of the rank must meet before it.
    fn operations(&self) -> impl Iterator<Item = (&BoundOperation, bool)> {
        let operations = || std::iter::once(&self.first).chain(&self.others);
        let all: SmallVec<[&BoundOperation; MOST]> = operations().collect();
        operations().zip(meetings(all.len(), move |one, other| all[one].goes_on_to(all[other])))
    }
}

#[derive(Debug)]
struct BoundOperation {
    collective: Arc<LineCollective>,
    input: Option<Bound>,
    output: Bound,
}

millstream_device::cuda_struct! {
    /// Fills the place of an unused operation.
    #[derive(Clone, Copy, Pod, Zeroable)]
    pub(super) struct NoOperation as "millstream::LineOperation<Element>" {
        input: [u64; 2],
        output: [u64; 2],
        pieces: LinePieces,
        units: u64,
        meets: u64,
    }
}

impl BoundOperation {
    /// Whether blocks may go on from this collective to `next` without meeting the other blocks of
    /// their rank, perhaps by way of collectives in between to which they went on from this one in
    /// the same way. They may if each block hears from the same blocks of all ranks in both, and
    /// finds its items where no other block has left them.
    fn goes_on_to(&self, next: &BoundOperation) -> bool {
        let blocks = |operation: &BoundOperation| operation.collective.units.div_ceil(THREADS);
        blocks(self) == blocks(next) && (self.is_again(next) || !self.shares_memory_with(next))
    }

    /// Whether the same threads do the same to the same items in both.
    fn is_again(&self, next: &BoundOperation) -> bool {
        let (one, other) = (&*self.collective, &*next.collective);
        one.in_place == other.in_place
            && one.pattern == other.pattern
            && self.input == next.input
            && self.output == next.output
    }

    fn shares_memory_with(&self, next: &BoundOperation) -> bool {
        self.output.overlaps(&next.output)
            || self.input.iter().any(|input| input.overlaps(&next.output))
            || next.input.iter().any(|input| input.overlaps(&self.output))
    }

    fn write<T: Item>(&self, rank: u32, meets: bool, to: &mut ArgumentWriter) {
        match &self.input {
            Some(input) => Read::<T>::write(input, to),
            None => Value::<[u64; 2]>::write(&[0, 0], to),
        }
        Write::<T>::write(&self.output, to);
        Value::<LinePieces>::write(&self.collective.pieces(rank), to);
        Value::<[u64; 2]>::write(&[self.collective.units as u64, meets.into()], to);
    }
}

// SAFETY: inputs are given out as inputs, and outputs as outputs, in the places of their
// operations; the same holds for operations that join.
unsafe impl<T: Item> Parameter for LineOperations<T> {
    type Bound = BoundLines;
    type View<'a> = ();

    fn write(bound: &BoundLines, to: &mut ArgumentWriter) {
        let BoundLines { first, others, rank } = bound;
        let count = 1 + others.len();
        to.structure(|to| {
            to.structure(|to| {
                for (operation, meets) in bound.operations() {
                    operation.write::<T>(*rank, meets, to);
                }
                for _ in count..MOST {
                    Value::<NoOperation>::write(&NoOperation::zeroed(), to);
                }
                Value::<u64>::write(&(count as u64), to);
            });
            PeerWords::write(&first.collective.words, to);
            Value::<LineSettings>::write(&first.collective.settings(*rank), to);
        });
    }

    unsafe fn view(_: &BoundLines) -> Self::View<'_> {}

    /// Collectives whose numbers follow join this kernel, up to the next multiple of `MOST`. So, if
    /// there are enough of them, the kernels of all ranks end after the same collective. Each end
    /// of a kernel takes a while, in which all ranks wait.
    fn join(bound: &mut BoundLines, next: BoundLines) -> Option<BoundLines> {
        if bound.is_full() || next.first.collective.epoch() != bound.last() + 1 {
            return Some(next);
        }
        bound.others.push(next.first);
        bound.others.extend(next.others);
        None
    }

    /// A kernel that the GPU has not come to yet would only wait there, so it may gather more collectives.
    fn gathers(bound: &BoundLines) -> bool {
        let collective = &bound.first.collective;
        !bound.is_full() && !collective.words.has_begun(bound.rank, collective.epoch() - 1)
    }
}

// SAFETY: input and output are bound in the accesses; the words are only used by atomics.
unsafe impl<T: Item> Argument<LineOperations<T>> for LineArguments<'_, T> {
    fn bind(self, accesses: &mut Accesses) -> millstream_device::Result<BoundLines> {
        let LineArguments { collective, rank, input, output } = self;
        let input = input.map(|input| Argument::<Read<T>>::bind(input, accesses)).transpose()?;
        let output = Argument::<Write<T>>::bind(output, accesses)?;
        let first = BoundOperation { collective, input, output };
        Ok(BoundLines { first, others: Vec::new(), rank })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rank_settings::MOST_RANKS;
    use super::*;
    use crate::context::{Context, Devices};

    /// Rank 0's part of collectives, on memory of a host device; nothing is run.
    struct Rank {
        words: Arc<PeerWords>,
        buffers: Vec<DeviceBuffer<u32>>,
    }

    impl Rank {
        fn new() -> Rank {
            let context = Context::builder().devices(Devices::host(2)).build().unwrap();
            let buffer = |_| context.devices()[0].buffer(4096).unwrap();
            let words = Arc::new(PeerWords::new(&context, 16 * MOST_RANKS).unwrap());
            Rank { words, buffers: (0..3).map(buffer).collect() }
        }

        /// Binds a broadcast of `items` items of a buffer.
        fn bind(&mut self, epoch: u64, buffer: usize, items: usize) -> BoundLines {
            self.bind_from(epoch, (None, buffer), items)
        }

        /// The same, out of another buffer.
        fn bind_from(
            &mut self,
            epoch: u64,
            (from, to): (Option<usize>, usize),
            items: usize,
        ) -> BoundLines {
            let common = RankSettings { epoch, patience_ns: 0, rank: 0, ranks: 2 };
            let collective = Arc::new(LineCollective {
                pattern: Pattern::Broadcast { root: 0, items: 0..items },
                in_place: from.is_none(),
                words: Arc::clone(&self.words),
                units: items.div_ceil(2),
                settings: LineSettings { common, capacity: 4096 },
            });
            let mut output = self.buffers.remove(to);
            let input = from.map(|from| &self.buffers[from - usize::from(from > to)]);
            let arguments = LineArguments { collective, rank: 0, input, output: &mut output };
            let bound = Argument::<LineOperations<u32>>::bind(arguments, &mut Accesses::default());
            self.buffers.insert(to, output);
            bound.unwrap()
        }

        /// Before which of these broadcasts all blocks meet. They have equally many items, of one
        /// buffer or from one to another.
        fn meetings(&mut self, all: &[((Option<usize>, usize), usize)]) -> Vec<bool> {
            let mut each = (1..)
                .zip(all)
                .map(|(epoch, (buffers, items))| self.bind_from(epoch, *buffers, *items));
            let mut bound = each.next().unwrap();
            for next in each {
                assert!(LineOperations::<u32>::join(&mut bound, next).is_none());
            }
            bound.operations().map(|(_, meets)| meets).collect()
        }
    }

    #[test]
    fn kernels_of_all_ranks_end_after_the_same_collectives() {
        let mut rank = Rank::new();
        let mut bound = rank.bind(6, 0, 1);
        for epoch in [5, 6, 8] {
            let other = LineOperations::<u32>::join(&mut bound, rank.bind(epoch, 0, 1));
            assert!(other.is_some(), "{epoch} follows 6");
        }
        for epoch in [7, 8] {
            assert!(LineOperations::<u32>::join(&mut bound, rank.bind(epoch, 0, 1)).is_none());
        }
        assert_eq!((bound.last(), bound.is_full()), (8, true));
        let next = LineOperations::<u32>::join(&mut bound, rank.bind(9, 0, 1));
        assert_eq!(next.map(|next| next.last()), Some(9));
    }

    #[test]
    fn what_the_gpu_has_not_come_to_gathers_until_it_is_full() {
        let mut rank = Rank::new();
        let gathers = LineOperations::<u32>::gathers;
        assert!(!gathers(&rank.bind(1, 0, 1)), "nothing comes before the first");
        let bound = rank.bind(6, 0, 1);
        assert!(gathers(&bound));
        rank.words.say_begun(0, 4).unwrap();
        assert!(gathers(&bound) && !gathers(&rank.bind(8, 0, 1)));
        rank.words.say_begun(0, 5).unwrap();
        assert!(!gathers(&bound));
        // The lower halves of numbers are compared, also where they wrap around.
        let far = rank.bind((1 << 32) + 2, 0, 1);
        rank.words.say_begun(0, u32::MAX).unwrap();
        assert!(gathers(&far));
        rank.words.say_begun(0, 1).unwrap();
        assert!(!gathers(&far));
    }

    #[test]
    fn blocks_meet_where_others_have_left_something() {
        let mut rank = Rank::new();
        let mut meets = |one, other| rank.meetings(&[one, other])[1];
        let of = |buffer, items| ((None, buffer), items);
        let from = |from, to| ((Some(from), to), 4000);
        assert!(!meets(of(0, 4000), of(0, 4000)), "the same again");
        assert!(!meets(of(0, 4000), of(1, 4000)), "elsewhere");
        assert!(!meets(of(0, 4000), of(1, 3999)), "elsewhere, by as many blocks");
        assert!(meets(of(0, 4000), of(0, 3999)), "some of the same items");
        assert!(meets(of(0, 4000), of(1, 1000)), "by fewer blocks");
        assert!(!meets(from(0, 1), from(0, 1)), "the same again");
        assert!(!meets(from(0, 1), from(0, 2)), "read in both");
        assert!(meets(from(0, 1), from(1, 2)), "read where it was written");
        assert!(meets(from(0, 1), from(2, 0)), "written where it was read");
        assert!(meets(from(0, 1), from(2, 1)), "written again");
    }

    #[test]
    fn blocks_meet_where_any_since_they_met_has_left_something() {
        let mut rank = Rank::new();
        let of = |buffer, items| ((None, buffer), items);
        let series = [of(0, 4000), of(1, 4000), of(0, 3999), of(1, 3999), of(2, 3999), of(2, 3998)];
        assert_eq!(rank.meetings(&series), [false, false, true, false, false, true]);
    }
}
