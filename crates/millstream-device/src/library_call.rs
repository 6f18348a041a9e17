//! Kernels that are calls of a CUDA library.

use std::ffi::c_void;
use std::fmt;

use bytemuck::Pod;

use crate::kernel::KernelFault;
use crate::layout::ArgumentWriter;

/// What a function gets that does a kernel's work on a GPU by calling a library, such as cuBLAS, or
/// CUDA code that the program already has: see
/// [`Kernel::with_library`](crate::Kernel::with_library). The handles are those of the CUDA driver.
/// On the stream, the function may wait for events of the program's own (`cuStreamWaitEvent`) and
/// record them (`cuEventRecord`).
pub struct LibraryCall<'a> {
    pub(crate) context: *mut c_void,
    pub(crate) stream: *mut c_void,
    pub(crate) size: usize,
    pub(crate) arguments: &'a ArgumentWriter,
}

impl fmt::Debug for LibraryCall<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LibraryCall({} work elements)", self.size)
    }
}

impl LibraryCall<'_> {
    /// The GPU's primary context (`CUcontext`), which is the thread's current one.
    pub fn context(&self) -> *mut c_void {
        self.context
    }

    /// The stream (`CUstream`) to submit the work to, and no other.
    pub fn stream(&self) -> *mut c_void {
        self.stream
    }

    /// Work elements of the launch.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Address in the GPU's memory and number of items of an argument for a
    /// [`Read`](crate::Read), [`Write`](crate::Write) or [`Shared`](crate::Shared).
    ///
    /// # Errors
    /// There is no such argument, or it is something else.
    pub fn span(&self, argument: usize) -> Result<(u64, usize), KernelFault> {
        let [address, len] = self.value::<[u64; 2]>(argument)?;
        Ok((address, len as usize))
    }

    /// An argument for a [`Value`](crate::Value), or of any other layout: see
    /// [`ArgumentWriter`](crate::ArgumentWriter).
    ///
    /// # Errors
    /// There is no such argument, or it has another size.
    pub fn value<T: Pod>(&self, argument: usize) -> Result<T, KernelFault> {
        let bytes = self.arguments.parameter_bytes(argument);
        let value = bytes.and_then(|bytes| bytemuck::try_pod_read_unaligned(bytes).ok());
        value.ok_or_else(|| {
            let has = bytes.map_or("is not there".to_string(), |bytes| {
                format!("has {} bytes, not {}", bytes.len(), size_of::<T>())
            });
            KernelFault::new(format!("argument {argument} {has}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_what_they_are() {
        let mut arguments = ArgumentWriter::default();
        arguments.structure(|to| {
            to.value(&7u8);
            to.span(std::ptr::without_provenance_mut(16), 5);
            to.value(&2.5f64);
        });
        let null = std::ptr::null_mut();
        let call = LibraryCall { context: null, stream: null, size: 5, arguments: &arguments };
        assert_eq!(call.value(0), Ok(7u8));
        assert_eq!(call.span(1), Ok((16, 5)));
        assert_eq!(call.value(2), Ok(2.5f64));
        let refused = |message: &str| Err(KernelFault::new(message));
        assert_eq!(call.value::<u8>(2), refused("argument 2 has 8 bytes, not 1"));
        assert_eq!(call.value::<u8>(3), refused("argument 3 is not there"));
    }
}
