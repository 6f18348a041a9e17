//! What a collective requires of its operands, checked before anything is submitted.

use millstream_device::{DeviceBuffer, Stream};

use super::operands::Operands;
use crate::{Error, Item, Result};

/// The operation whose operands are checked.
pub(super) struct Checks {
    pub(super) operation: &'static str,
    pub(super) ranks: usize,
}

impl Checks {
    /// Checks that there is one buffer of each device, and that its earlier uses are ordered before
    /// what the device's stream does next.
    pub(super) fn places<T: Item>(
        &self,
        operands: &Operands<'_, T>,
        streams: &[Stream],
    ) -> Result<()> {
        self.places_of(operands.outputs, streams)?;
        operands.inputs.map_or(Ok(()), |inputs| self.places_of(inputs, streams))
    }

    fn places_of<T: Item>(&self, buffers: &[DeviceBuffer<T>], streams: &[Stream]) -> Result<()> {
        let (operation, expected, found) = (self.operation, self.ranks, buffers.len());
        if expected != found {
            return Err(Error::BufferCount { operation, expected, found });
        }
        for (rank, (buffer, stream)) in buffers.iter().zip(streams).enumerate() {
            let (expected, found) = (stream.device(), buffer.device());
            if *expected != found {
                let (expected, found) = (expected.name(), found.name());
                return Err(Error::BufferElsewhere { operation, rank, expected, found });
            }
            buffer.covered_by(stream, operation)?;
        }
        Ok(())
    }

    /// Lengths of the inputs.
    pub(super) fn inputs<T: Item>(
        &self,
        operands: &Operands<'_, T>,
        len: impl Fn(usize) -> usize,
    ) -> Result<()> {
        self.lengths(operands.sources(), len)
    }

    /// Lengths of the outputs.
    pub(super) fn outputs<T: Item>(
        &self,
        operands: &Operands<'_, T>,
        len: impl Fn(usize) -> usize,
    ) -> Result<()> {
        self.lengths(operands.outputs, len)
    }

    fn lengths<T: Item>(
        &self,
        buffers: &[DeviceBuffer<T>],
        len: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let operation = self.operation;
        for (rank, buffer) in buffers.iter().enumerate() {
            let (expected, found) = (len(rank), buffer.len());
            if expected != found {
                return Err(Error::BufferLength { operation, rank, expected, found });
            }
        }
        Ok(())
    }

    /// A rank that exists.
    pub(super) fn root(&self, root: usize) -> Result<()> {
        let (operation, ranks) = (self.operation, self.ranks);
        if root < ranks { Ok(()) } else { Err(Error::NoSuchRank { operation, root, ranks }) }
    }
}
