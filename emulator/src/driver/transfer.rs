//! Copies, fills and words.

use std::ffi::{c_uchar, c_uint};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::{
    CUdeviceptr, CUmemcpyAttributes, CUmemcpySrcAccessOrder, CUresult, CUstream, cuuint32_t,
};

use super::context::current;
use super::device::reported_version;
use super::memory::Range;
use super::status::{Answer, answer};
use super::stream::{STREAMS, Stream};
use crate::execute::Fault;

/// From this on, zeroing gives pages back instead of touching them.
const LARGE: usize = 1 << 20;
/// The first CUDA version whose drivers take several copies at once in this form.
const OLDEST_WITH_BATCHES: u32 = 13_000;

fn stream(handle: CUstream) -> Answer<Arc<Stream>> {
    current()?;
    STREAMS.get(handle)
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyAsync(
    to: CUdeviceptr,
    from: CUdeviceptr,
    bytes: usize,
    handle: CUstream,
) -> CUresult {
    answer(|| {
        let stream = stream(handle)?;
        if bytes == 0 {
            return Ok(());
        }
        let (to, from) = (Range::any(to, bytes)?, Range::any(from, bytes)?);
        stream.submit(move |_| copy(to, from, bytes))
    })
}

fn copy(to: Range, from: Range, bytes: usize) -> Result<(), Fault> {
    let (to, from) = (to.start()?, from.start()?);
    // SAFETY: both are allocated, or the caller's until the stream has passed.
    unsafe { std::ptr::copy(from, to, bytes) };
    Ok(())
}

/// All copies have the attributes of the first, and read their sources in the order of the stream. A driver that says
/// it is an older one does not have it.
///
/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyBatchAsync_v2(
    sinks: *mut CUdeviceptr,
    sources: *mut CUdeviceptr,
    sizes: *mut usize,
    count: usize,
    attributes: *mut CUmemcpyAttributes,
    first_of_attributes: *mut usize,
    attribute_count: usize,
    handle: CUstream,
) -> CUresult {
    answer(|| {
        if reported_version() < OLDEST_WITH_BATCHES {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let stream = stream(handle)?;
        if [sinks, sources].iter().any(|list| list.is_null())
            || sizes.is_null()
            || attributes.is_null()
            || first_of_attributes.is_null()
            || count == 0
            || attribute_count != 1
        {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller's promise.
        let ((sinks, sources, sizes), attributes, first) = unsafe {
            let lists = (
                std::slice::from_raw_parts(sinks, count),
                std::slice::from_raw_parts(sources, count),
                std::slice::from_raw_parts(sizes, count),
            );
            (lists, *attributes, *first_of_attributes)
        };
        let in_order = CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        if first != 0 || attributes.srcAccessOrder != in_order || sizes.contains(&0) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let range = |place: usize| {
            let bytes = sizes[place];
            Ok((Range::any(sinks[place], bytes)?, Range::any(sources[place], bytes)?, bytes))
        };
        let copies = (0..count).map(range).collect::<Result<Vec<_>, CUresult>>()?;
        // The last first: in which order they are made is not promised.
        stream.submit(move |_| {
            copies.into_iter().rev().try_for_each(|(to, from, bytes)| copy(to, from, bytes))
        })
    })
}

/// Rows of equal items.
struct Fill<T> {
    to: Range,
    item: T,
    /// Bytes from one row to the next.
    pitch: usize,
    /// Items in a row.
    width: usize,
    rows: usize,
}

impl<T: Copy + Send + 'static> Fill<T> {
    fn submit(
        handle: CUstream,
        address: u64,
        item: T,
        (pitch, width, rows): (usize, usize, usize),
    ) -> Answer<()> {
        let stream = stream(handle)?;
        if width == 0 || rows == 0 {
            return Ok(());
        }
        let bytes = || {
            let row = width.checked_mul(size_of::<T>())?;
            let before = pitch.checked_mul(rows - 1)?;
            let is_apart = rows == 1 || row <= pitch;
            let aligned = (address as usize).is_multiple_of(align_of::<T>())
                && before.is_multiple_of(align_of::<T>());
            if is_apart && aligned { before.checked_add(row) } else { None }
        };
        let bytes = bytes().ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let fill = Fill { to: Range::allocated(address, bytes)?, item, pitch, width, rows };
        stream.submit(move |_| {
            let start = fill.to.start()?;
            for row in 0..fill.rows {
                let row: *mut T = start.wrapping_add(row * fill.pitch).cast();
                for place in 0..fill.width {
                    // SAFETY: in the range, which is allocated; items are aligned.
                    unsafe { row.wrapping_add(place).write(fill.item) };
                }
            }
            Ok(())
        })
    }
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(
    to: CUdeviceptr,
    byte: c_uchar,
    count: usize,
    handle: CUstream,
) -> CUresult {
    answer(|| {
        let stream = stream(handle)?;
        if count == 0 {
            return Ok(());
        }
        let to = Range::allocated(to, count)?;
        stream.submit(move |_| match (byte, to.bytes()) {
            // SAFETY: the caller's promise; the range is allocated, here and below.
            (0, LARGE..) => unsafe { to.zero() },
            (byte, bytes) => {
                let start = to.start()?;
                // SAFETY: as above.
                unsafe { start.write_bytes(byte, bytes) };
                Ok(())
            }
        })
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD32Async(
    to: CUdeviceptr,
    word: c_uint,
    count: usize,
    handle: CUstream,
) -> CUresult {
    answer(|| Fill::submit(handle, to, word, (0, count, 1)))
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD2D8Async(
    to: CUdeviceptr,
    pitch: usize,
    byte: c_uchar,
    width: usize,
    rows: usize,
    handle: CUstream,
) -> CUresult {
    answer(|| Fill::submit(handle, to, byte, (pitch, width, rows)))
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD2D32Async(
    to: CUdeviceptr,
    pitch: usize,
    word: c_uint,
    width: usize,
    rows: usize,
    handle: CUstream,
) -> CUresult {
    answer(|| Fill::submit(handle, to, word, (pitch, width, rows)))
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamWriteValue32_v2(
    handle: CUstream,
    address: CUdeviceptr,
    value: cuuint32_t,
    flags: c_uint,
) -> CUresult {
    answer(|| {
        let stream = stream(handle)?;
        let word = Range::allocated(address, size_of::<u32>())?;
        if flags > 1 || !address.is_multiple_of(4) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        stream.submit(move |_| {
            let word = word.start()?;
            // SAFETY: allocated and aligned, and whoever reads it does so atomically.
            let word = unsafe { AtomicU32::from_ptr(word.cast()) };
            // Release: whoever sees it sees what the stream did before.
            word.store(value, Ordering::Release);
            Ok(())
        })
    })
}
