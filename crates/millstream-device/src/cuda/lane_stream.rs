//! A stream of the driver, and the calls that give it work.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUstream};

use super::context::GpuContext;
use super::driver;
use crate::Result;
use crate::layout::ArgumentWriter;
use crate::library_call::LibraryCall;
use crate::task::{Place, Task};

/// The driver's stream, while its lane's lock is held and its context current.
pub(crate) struct LaneStream<'a> {
    pub(super) context: &'a Arc<GpuContext>,
    pub(super) stream: CUstream,
    /// The word in which a kernel may tell its end (0: none), and the value.
    pub(crate) tell: (u64, u32),
}

impl LaneStream<'_> {
    pub(crate) fn context(&self) -> &GpuContext {
        self.context
    }

    pub(crate) fn library_call<'a>(
        &self,
        size: usize,
        arguments: &'a ArgumentWriter,
    ) -> LibraryCall<'a> {
        let (context, stream) = (self.context.context.cast(), self.stream.cast());
        LibraryCall { context, stream, size, arguments }
    }

    pub(super) fn submit(&self, task: &mut Task) -> Result<()> {
        match task {
            Task::Copy(copies) => self.copy_each(copies),
            Task::Upload { from, to } => {
                let from = from.bytes();
                self.copy(to.address() as u64, from.as_ptr() as u64, from.len())
            }
            Task::Fill { to, pattern } => self.fill(to, pattern),
            Task::Signal(words) => self.signal(words),
            Task::Launch(launch) => launch.submit(self),
        }
    }

    /// The driver recognizes from the addresses whose memory they are.
    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both places are held until the stream has passed this point, and the ledger has
        // ordered the copy such that nothing else uses its destination.
        let answer = unsafe { sys::cuMemcpyAsync(to, from, bytes, self.stream) };
        self.context.check(answer, "cuMemcpyAsync")
    }

    /// In one call, if the driver has it: an engine then goes on from copy to copy without a pause.
    fn copy_each(&self, copies: &[(Place, Place)]) -> Result<()> {
        let address = |place: &Place| place.address() as u64;
        if copies.len() == 1 || !driver::copies_batches() {
            let copy =
                |(from, to): &(Place, Place)| self.copy(address(to), address(from), from.bytes());
            return copies.iter().try_for_each(copy);
        }
        let some = || copies.iter().filter(|(from, _)| from.bytes() > 0);
        let mut sources: Vec<u64> = some().map(|(from, _)| address(from)).collect();
        let mut sinks: Vec<u64> = some().map(|(_, to)| address(to)).collect();
        let mut sizes: Vec<usize> = some().map(|(from, _)| from.bytes()).collect();
        if sizes.is_empty() {
            return Ok(());
        }
        // Sources are read when it is the stream's turn.
        let order = sys::CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        // SAFETY: numbers and enums, of which each has a variant of zero: the driver finds out what it is.
        let mut attributes: sys::CUmemcpyAttributes = unsafe { std::mem::zeroed() };
        attributes.srcAccessOrder = order;
        // SAFETY: as in `copy`, for each of them, and none writes what another one uses, which the ledger
        // refuses; the lists are as long as is said, and the attributes are those of all copies.
        let answer = unsafe {
            sys::cuMemcpyBatchAsync_v2(
                sinks.as_mut_ptr(),
                sources.as_mut_ptr(),
                sizes.as_mut_ptr(),
                sizes.len(),
                &mut attributes,
                &mut 0,
                1,
                self.stream,
            )
        };
        self.context.check(answer, "cuMemcpyBatchAsync")
    }

    /// Each write comes after everything before it on the stream, and makes that visible.
    fn signal(&self, words: &[(Place, u32)]) -> Result<()> {
        for (place, value) in words {
            let address = place.address() as u64;
            // SAFETY: a word of memory that is held until the stream has passed this point.
            let answer = unsafe { sys::cuStreamWriteValue32_v2(self.stream, address, *value, 0) };
            self.context.check(answer, "cuStreamWriteValue32")?;
        }
        Ok(())
    }

    fn fill(&self, to: &Place, pattern: &[u8]) -> Result<()> {
        let (address, bytes) = (to.address() as u64, to.bytes());
        if bytes == 0 || pattern.is_empty() {
            return Ok(());
        }
        if pattern.iter().all(|byte| *byte == pattern[0]) {
            // SAFETY: as in `copy`.
            let answer = unsafe { sys::cuMemsetD8Async(address, pattern[0], bytes, self.stream) };
            return self.context.check(answer, "cuMemsetD8Async");
        }
        // Writes one column of words at a time, or of bytes where less than a word is left.
        let (step, rows) = (pattern.len(), bytes / pattern.len());
        let (words, rest) = pattern.as_chunks::<4>();
        // True, except perhaps for the program's own memory.
        let is_aligned = address.is_multiple_of(4);
        for (place, word) in words.iter().enumerate() {
            let (at, word) = (address + place as u64 * 4, u32::from_ne_bytes(*word));
            if step == 4 && is_aligned {
                // SAFETY: as in `copy`, and aligned.
                let answer = unsafe { sys::cuMemsetD32Async(at, word, rows, self.stream) };
                self.context.check(answer, "cuMemsetD32Async")?;
            } else if step.is_multiple_of(4) && is_aligned {
                // SAFETY: as above.
                let answer =
                    unsafe { sys::cuMemsetD2D32Async(at, step, word, 1, rows, self.stream) };
                self.context.check(answer, "cuMemsetD2D32Async")?;
            } else {
                self.fill_bytes(at, step, &word.to_ne_bytes(), rows)?;
            }
        }
        self.fill_bytes(address + words.len() as u64 * 4, step, rest, rows)
    }

    fn fill_bytes(&self, address: u64, step: usize, bytes: &[u8], rows: usize) -> Result<()> {
        for (place, byte) in bytes.iter().enumerate() {
            let at = address + place as u64;
            // SAFETY: as in `copy`.
            let answer = unsafe { sys::cuMemsetD2D8Async(at, step, *byte, 1, rows, self.stream) };
            self.context.check(answer, "cuMemsetD2D8Async")?;
        }
        Ok(())
    }
}
