//! Arguments of the kernels of lines: a collective, and those that follow it while the
//! driver is busy with the kernel before. `LineOperations` of `collective_lines.cuh`.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    Accesses, Argument, ArgumentWriter, Bound, DeviceBuffer, Parameter, Read, Value, Write,
};
use smallvec::{SmallVec, smallvec};

use super::line_settings::{LinePieces, LineSettings};
use super::peer_words::PeerWords;
use crate::Item;

/// Collectives of a kernel at most: `most_line_operations` of the header.
const MOST: usize = 8;

/// Collectives in lines, one after the other; host devices have none.
#[derive(Debug)]
pub(super) struct LineOperations<T>(PhantomData<T>);

/// A rank's part of a collective.
pub(super) struct LineArguments<'a, T: Item> {
    /// None in place.
    pub(super) input: Option<&'a DeviceBuffer<T>>,
    pub(super) output: &'a mut DeviceBuffer<T>,
    pub(super) pieces: LinePieces,
    pub(super) words: &'a Arc<PeerWords>,
    pub(super) settings: LineSettings,
}

/// What a queued launch holds.
#[derive(Debug)]
pub(super) struct BoundLines {
    /// Numbered one after the other.
    operations: SmallVec<[BoundOperation; 1]>,
    words: Arc<PeerWords>,
    settings: LineSettings,
}

#[derive(Debug)]
struct BoundOperation {
    input: Option<Bound>,
    output: Bound,
    pieces: LinePieces,
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
    fn write<T: Item>(&self, to: &mut ArgumentWriter) {
        match &self.input {
            Some(input) => Read::<T>::write(input, to),
            None => Value::<[u64; 2]>::write(&[0, 0], to),
        }
        Write::<T>::write(&self.output, to);
        Value::<LinePieces>::write(&self.pieces, to);
    }
}

// SAFETY: inputs are given out as such, and outputs, in the places of their operations; so they are
// where operations join.
unsafe impl<T: Item> Parameter for LineOperations<T> {
    type Bound = BoundLines;
    type View<'a> = ();

    fn write(bound: &BoundLines, to: &mut ArgumentWriter) {
        let BoundLines { operations, words, settings } = bound;
        to.structure(|to| {
            to.structure(|to| {
                for operation in operations {
                    operation.write::<T>(to);
                }
                for _ in operations.len()..MOST {
                    Value::<NoOperation>::write(&NoOperation::zeroed(), to);
                }
                Value::<u64>::write(&(operations.len() as u64), to);
            });
            PeerWords::write(words, to);
            Value::<LineSettings>::write(settings, to);
        });
    }

    unsafe fn view(_: &BoundLines) -> Self::View<'_> {}

    /// What follows in number becomes part of the kernel.
    fn join(bound: &mut BoundLines, next: BoundLines) -> Option<BoundLines> {
        let count = bound.operations.len();
        let follows = next.settings.common.epoch == bound.settings.common.epoch + count as u64;
        if !follows || count + next.operations.len() > MOST {
            return Some(next);
        }
        bound.operations.extend(next.operations);
        None
    }
}

// SAFETY: input and output are bound in the accesses; the words are used by atomics alone.
unsafe impl<T: Item> Argument<LineOperations<T>> for LineArguments<'_, T> {
    fn bind(self, accesses: &mut Accesses) -> millstream_device::Result<BoundLines> {
        let LineArguments { input, output, pieces, words, settings } = self;
        let input = input.map(|input| Argument::<Read<T>>::bind(input, accesses)).transpose()?;
        let output = Argument::<Write<T>>::bind(output, accesses)?;
        Ok(BoundLines {
            operations: smallvec![BoundOperation { input, output, pieces }],
            words: Arc::clone(words),
            settings,
        })
    }
}
