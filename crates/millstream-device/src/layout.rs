//! How arguments lie in memory for a GPU's kernel.

use bytemuck::Pod;
use smallvec::SmallVec;

/// Bytes of arguments that need no heap memory.
const ROOM: usize = 4096;

/// Bytes of what a kernel tells: a word's address, and its value.
const TELL_BYTES: usize = 16;

/// Writes arguments as C++ lays them out: each part of a kernel's signature is a
/// parameter of its own.
///
/// | signature | parameter of the CUDA kernel |
/// |---|---|
/// | `Read<T>` | `millstream::Span<const T>`: a pointer and a 64-bit length |
/// | `Write<T>`, `Shared<T>` | `millstream::Span<T>` |
/// | `SharedSet<T>`, `GangRead<T>`, `GangWrite<T>` | `millstream::SpanSet<T>`: sixteen spans |
/// | `Value<T>` | `T`, with the layout of `repr(C)` |
/// | `Tell` | `millstream::Tell` |
/// | a tuple inside the signature | a struct of its parts |
///
/// A [`Parameter`](crate::Parameter) of a program's own writes what it consists of.
#[derive(Debug, Default)]
pub struct ArgumentWriter {
    bytes: SmallVec<[u8; ROOM]>,
    /// Where the structure that is being written begins, and its alignment so far.
    start: usize,
    alignment: usize,
    /// Parameters of the kernel: where they start, and their sizes.
    parameters: SmallVec<[(usize, usize); 16]>,
    depth: usize,
    /// The word in which the kernel tells its end, and the value; and where these have been written.
    tell: (u64, u32),
    tell_start: Option<usize>,
}

impl ArgumentWriter {
    /// For a kernel that stores `tell`'s value in `tell`'s word at its end, if it can.
    #[cfg(feature = "cuda")]
    pub(crate) fn telling(tell: (u64, u32)) -> ArgumentWriter {
        ArgumentWriter { tell, ..ArgumentWriter::default() }
    }

    /// Writes that word, 0 if there is none, and the value.
    pub(crate) fn tell(&mut self) {
        let (word, value) = self.tell;
        self.part(8, bytemuck::cast_slice(&[word, u64::from(value)]));
        self.tell_start = Some(self.bytes.len() - TELL_BYTES);
    }

    /// Replaces the word and value in arguments that are already written.
    #[cfg(feature = "cuda")]
    pub(crate) fn set_tell(&mut self, (word, value): (u64, u32)) {
        if let Some(start) = self.tell_start {
            let tell = [word, u64::from(value)];
            self.bytes[start..start + TELL_BYTES].copy_from_slice(bytemuck::cast_slice(&tell));
        }
    }

    /// A pointer and a length.
    pub(crate) fn span(&mut self, address: *mut u8, len: usize) {
        let (address, len) = (address as u64, len as u64);
        self.part(8, bytemuck::cast_slice(&[address, len]));
    }

    pub(crate) fn value<T: Pod>(&mut self, value: &T) {
        self.part(align_of::<T>(), bytemuck::bytes_of(value));
    }

    /// What `write` writes, as one struct; the outermost one is the kernel's
    /// parameter list.
    pub fn structure(&mut self, write: impl FnOnce(&mut ArgumentWriter)) {
        if self.depth == 0 {
            self.depth = 1;
            write(self);
            return;
        }
        let (outer, outer_alignment) = (self.start, self.alignment);
        let start = self.bytes.len();
        (self.start, self.alignment, self.depth) = (start, 1, self.depth + 1);
        write(self);
        let alignment = self.alignment;
        self.pad(alignment);
        let end = self.bytes.len();
        self.start = outer;
        self.depth -= 1;
        // Its place is known only now: it depends on the alignment.
        let moved = (start - outer).next_multiple_of(alignment) - (start - outer);
        if moved > 0 {
            self.bytes.resize(end + moved, 0);
            self.bytes.copy_within(start..end, start + moved);
            self.bytes[start..start + moved].fill(0);
            self.tell_start = self.tell_start.map(|at| if at < start { at } else { at + moved });
        }
        self.alignment = outer_alignment.max(alignment);
        self.parameter(start + moved);
    }

    fn part(&mut self, alignment: usize, bytes: &[u8]) {
        self.pad(alignment);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.alignment = self.alignment.max(alignment);
        self.parameter(start);
    }

    /// What has been written from `start` on is a parameter, unless it lies within a nested structure.
    fn parameter(&mut self, start: usize) {
        if self.depth <= 1 {
            self.parameters.push((start, self.bytes.len() - start));
        }
    }

    fn pad(&mut self, alignment: usize) {
        let len = (self.bytes.len() - self.start).next_multiple_of(alignment);
        self.bytes.resize(self.start + len, 0);
    }

    /// Where each parameter starts, and its size.
    #[cfg(feature = "cuda")]
    pub(crate) fn parameters(&self) -> &[(usize, usize)] {
        &self.parameters
    }

    /// What has been written for a parameter.
    pub(crate) fn parameter_bytes(&self, parameter: usize) -> Option<&[u8]> {
        let (start, size) = *self.parameters.get(parameter)?;
        self.bytes.get(start..start + size)
    }

    /// Addresses of the parameters, which must only be read.
    #[cfg(feature = "cuda")]
    pub(crate) fn addresses(&self) -> SmallVec<[*mut std::ffi::c_void; 16]> {
        let base = self.bytes.as_ptr().cast_mut();
        self.parameters.iter().map(|(start, _)| base.wrapping_add(*start).cast()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_as_in_c() {
        let mut writer = ArgumentWriter::default();
        writer.structure(|to| {
            to.value(&7u32);
            to.structure(|to| {
                to.value(&1u8);
                to.value(&2u64);
                to.value(&3u16);
                to.structure(|to| {
                    to.value(&4u8);
                    to.value(&5u32);
                });
            });
            to.span(std::ptr::without_provenance_mut(16), 5);
            to.value(&9u8);
        });
        let ArgumentWriter { bytes, parameters, .. } = writer;
        assert_eq!(*parameters, [(0, 4), (8, 32), (40, 16), (56, 1)]);
        assert_eq!(bytes[8..24], [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..40], [3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[40..56], [16, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    }

    /// Also if it lies within a structure that is moved later.
    #[cfg(feature = "cuda")]
    #[test]
    fn what_a_kernel_tells_is_written_again() {
        let mut writer = ArgumentWriter::telling((0, 0));
        writer.structure(|to| {
            to.value(&7u32);
            to.structure(|to| {
                to.value(&1u32);
                to.structure(ArgumentWriter::tell);
                to.value(&2u64);
            });
        });
        assert_eq!(writer.bytes[..], *bytemuck::cast_slice::<u64, u8>(&[7, 1, 0, 0, 2]));
        writer.set_tell((3, 4));
        assert_eq!(writer.bytes[..], *bytemuck::cast_slice::<u64, u8>(&[7, 1, 3, 4, 2]));
    }

    #[test]
    fn one_part_is_one_parameter() {
        let mut writer = ArgumentWriter::default();
        writer.value(&3u64);
        assert_eq!(*writer.parameters, [(0, 8)]);
    }
}
