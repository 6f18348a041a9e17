//! What one rank has on its GPU: a stream, and memory.

use std::ffi::c_int;
use std::marker::PhantomData;

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUstream};
use cudarc::driver::{DriverError, result};

use super::library::{Communicator, Operands};
use super::{Error, Result};
use crate::collective::Element;

/// The memory is plain (`cuMemAlloc`), as in Millstream: NCCL's ranks of one process reach into
/// each other's memory, which the driver's memory pools do not allow.
pub(super) struct Rank<T: Element> {
    device: CUdevice,
    context: CUcontext,
    /// Set once all ranks are there.
    pub(super) communicator: Communicator,
    stream: CUstream,
    /// The vector, and where all-to-all puts its results.
    buffers: [u64; 2],
    items: PhantomData<T>,
}

// SAFETY: any thread may use handles and addresses of the driver. NCCL's communicator may be used
// by one thread at a time, as `Nccl::seconds` does, which borrows all ranks mutably.
unsafe impl<T: Element> Send for Rank<T> {}
// SAFETY: as above; `Nccl::seconds` gives each rank to one thread.
unsafe impl<T: Element> Sync for Rank<T> {}

fn failed(call: &'static str) -> impl Fn(DriverError) -> Error {
    move |error| Error::Call { call, reason: error.to_string() }
}

impl<T: Element> Rank<T> {
    /// Two vectors of `len` items on a GPU that Millstream has opened.
    pub(super) fn new(ordinal: c_int, len: usize) -> Result<Rank<T>> {
        let device = result::device::get(ordinal).map_err(failed("cuDeviceGet"))?;
        // SAFETY: a device of the driver; released when this is dropped.
        let context = unsafe { result::primary_ctx::retain(device) };
        let mut rank = Rank {
            device,
            context: context.map_err(failed("cuDevicePrimaryCtxRetain"))?,
            communicator: std::ptr::null_mut(),
            stream: std::ptr::null_mut(),
            buffers: [0; 2],
            items: PhantomData,
        };
        rank.bind()?;
        let kind = result::stream::StreamKind::NonBlocking;
        rank.stream = result::stream::create(kind).map_err(failed("cuStreamCreate"))?;
        for buffer in &mut rank.buffers {
            // SAFETY: the context is current; nothing reads it before `clear` or `fill`.
            let address = unsafe { result::malloc_sync(len * size_of::<T>()) };
            *buffer = address.map_err(failed("cuMemAlloc"))?;
        }
        Ok(rank)
    }

    /// Makes the GPU's context the calling thread's.
    pub(super) fn bind(&self) -> Result<()> {
        // SAFETY: retained until this is dropped.
        unsafe { result::ctx::set_current(self.context) }.map_err(failed("cuCtxSetCurrent"))
    }

    pub(super) fn operands(&self, (rank, ranks): (usize, usize), len: usize) -> Operands<T> {
        let [vector, other] = self.buffers.map(|address| address as *mut T);
        let Rank { communicator, stream, .. } = *self;
        Operands { communicator, stream, vector, other, len, rank, ranks }
    }

    /// Waits for all that has been submitted.
    pub(super) fn wait(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: a live stream.
        unsafe { result::stream::synchronize(self.stream) }.map_err(failed("cuStreamSynchronize"))
    }

    /// Stores zeros in the first `len` items of both vectors, as Millstream's have.
    pub(super) fn clear(&self, len: usize) -> Result<()> {
        self.bind()?;
        for buffer in self.buffers {
            let bytes = len * size_of::<T>();
            // SAFETY: the vector has at least these items; the stream is of the current context.
            let answer = unsafe { result::memset_d8_async(buffer, 0, bytes, self.stream) };
            answer.map_err(failed("cuMemsetD8Async"))?;
        }
        self.wait()
    }

    /// Stores these items in the vector.
    pub(super) fn fill(&self, items: &[T]) -> Result<()> {
        self.copy(self.buffers[0], items.as_ptr() as u64, items.len())
    }

    /// The first `len` items of a vector, of the first or of the second.
    pub(super) fn read(&self, buffer: usize, len: usize) -> Result<Vec<T>> {
        let mut items = vec![T::of(0); len];
        self.copy(items.as_mut_ptr() as u64, self.buffers[buffer], len)?;
        Ok(items)
    }

    /// Copies `len` items, and waits for the copy.
    fn copy(&self, to: u64, from: u64, len: usize) -> Result<()> {
        self.bind()?;
        // SAFETY: this is private; both callers give places of this length, and the host's lives
        // until the copy is over.
        let answer = unsafe { sys::cuMemcpyAsync(to, from, len * size_of::<T>(), self.stream) };
        answer.result().map_err(failed("cuMemcpyAsync"))?;
        self.wait()
    }
}

impl<T: Element> Drop for Rank<T> {
    fn drop(&mut self) {
        // There is nothing to do about a failure.
        if self.bind().is_ok() {
            for buffer in self.buffers.into_iter().filter(|buffer| *buffer != 0) {
                // SAFETY: allocated by `new`, and nothing uses it: the stream was waited for.
                let _ = unsafe { result::free_sync(buffer) };
            }
            if !self.stream.is_null() {
                // SAFETY: created by `new`.
                let _ = unsafe { result::stream::destroy(self.stream) };
            }
        }
        // SAFETY: retained once by `new`.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}
