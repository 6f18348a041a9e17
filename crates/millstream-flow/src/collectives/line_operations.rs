//! Arguments of the kernels of lines: a collective, and those that follow it while the
//! driver is busy with the kernel before. `LineOperations` of `collective_lines.cuh`.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    Accesses, Argument, ArgumentWriter, Bound, DeviceBuffer, Parameter, Read, Value, Write,
};

use super::line_settings::{LinePieces, LineSettings, pieces};
use super::peer_words::PeerWords;
use super::plan::Pattern;
use super::rank_settings::RankSettings;
use crate::Item;

/// Collectives of a kernel at most: `most_line_operations` of the header.
const MOST: usize = 8;

/// Collectives in lines, one after the other; host devices have none.
#[derive(Debug)]
pub(super) struct LineOperations<T>(PhantomData<T>);

/// A collective, one for all ranks: the caller has no time to make what each rank's kernel is told,
/// which the threads that launch do.
#[derive(Debug)]
pub(super) struct LineCollective {
    pub(super) pattern: Pattern,
    pub(super) in_place: bool,
    pub(super) words: Arc<PeerWords>,
    /// The first rank's.
    pub(super) settings: LineSettings,
}

impl LineCollective {
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
    /// None in place.
    pub(super) input: Option<&'a DeviceBuffer<T>>,
    pub(super) output: &'a mut DeviceBuffer<T>,
}

/// What a queued launch holds.
#[derive(Debug)]
pub(super) struct BoundLines {
    first: BoundOperation,
    /// Numbered one after the other, behind it.
    others: Vec<BoundOperation>,
    rank: u32,
}

#[derive(Debug)]
struct BoundOperation {
    collective: Arc<LineCollective>,
    input: Option<Bound>,
    output: Bound,
}

millstream_device::cuda_struct! {
    /// In the place of one.
    #[derive(Clone, Copy, Pod, Zeroable)]
    pub(super) struct NoOperation as "millstream::LineOperation<Element>" {
        input: [u64; 2],
        output: [u64; 2],
        pieces: LinePieces,
    }
}

impl BoundOperation {
    fn write<T: Item>(&self, rank: u32, to: &mut ArgumentWriter) {
        match &self.input {
            Some(input) => Read::<T>::write(input, to),
            None => Value::<[u64; 2]>::write(&[0, 0], to),
        }
        Write::<T>::write(&self.output, to);
        Value::<LinePieces>::write(&self.collective.pieces(rank), to);
    }
}

// SAFETY: inputs are given out as such, and outputs, in the places of their operations; so they are
// where operations join.
unsafe impl<T: Item> Parameter for LineOperations<T> {
    type Bound = BoundLines;
    type View<'a> = ();

    fn write(bound: &BoundLines, to: &mut ArgumentWriter) {
        let BoundLines { first, others, rank } = bound;
        let count = 1 + others.len();
        to.structure(|to| {
            to.structure(|to| {
                for operation in std::iter::once(first).chain(others) {
                    operation.write::<T>(*rank, to);
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

    /// What follows in number becomes part of the kernel.
    fn join(bound: &mut BoundLines, next: BoundLines) -> Option<BoundLines> {
        let count = 1 + bound.others.len();
        let epoch = |operation: &BoundOperation| operation.collective.settings.common.epoch;
        let follows = epoch(&next.first) == epoch(&bound.first) + count as u64;
        if !follows || count + 1 + next.others.len() > MOST {
            return Some(next);
        }
        bound.others.push(next.first);
        bound.others.extend(next.others);
        None
    }
}

// SAFETY: input and output are bound in the accesses; the words are used by atomics alone.
unsafe impl<T: Item> Argument<LineOperations<T>> for LineArguments<'_, T> {
    fn bind(self, accesses: &mut Accesses) -> millstream_device::Result<BoundLines> {
        let LineArguments { collective, rank, input, output } = self;
        let input = input.map(|input| Argument::<Read<T>>::bind(input, accesses)).transpose()?;
        let output = Argument::<Write<T>>::bind(output, accesses)?;
        let first = BoundOperation { collective, input, output };
        Ok(BoundLines { first, others: Vec::new(), rank })
    }
}
