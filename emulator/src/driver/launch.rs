//! Launches.

use std::ffi::{c_int, c_uint, c_void};

use cudarc::driver::sys::{CUfunction, CUresult, CUstream};

use super::asked::asked;
use super::context::current;
use super::device::{Device, multiprocessors};
use super::handles::Owned;
use super::module::FUNCTIONS;
use super::status::{Answer, answer, store};
use super::stream::STREAMS;
use crate::execute::{Fault, Launch, run};
use crate::image::Kernel;
use crate::ptx::SHARED_BYTES;

/// Threads of a block, in all and in each direction.
const MOST_THREADS: u32 = 1024;
const MOST_THREADS_EACH: [u32; 3] = [1024, 1024, 64];
const MOST_BLOCKS_EACH: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// Threads that a multiprocessor holds, unless a block has more.
const RESIDENT_THREADS: u32 = 512;

/// Blocks of so many threads that a multiprocessor holds.
fn occupancy(threads: u32) -> u32 {
    (RESIDENT_THREADS / threads.max(1)).max(1)
}

/// Whether all sides are at least 1 and at most this.
fn fits(sides: [u32; 3], most: [u32; 3]) -> bool {
    sides.iter().zip(most).all(|(side, most)| (1..=most).contains(side))
}

/// Whether `MILLSTREAM_EMULATOR_TRAP` names the kernel and the device, as in `levels@1`.
fn traps(kernel: &Kernel, device: &Device) -> bool {
    let place = format!("{}@{}", kernel.name, device.ordinal);
    std::env::var("MILLSTREAM_EMULATOR_TRAP").is_ok_and(|trap| trap == place)
}

/// The arguments, each at its offset.
///
/// # Safety
/// As CUDA's.
unsafe fn arguments(kernel: &Kernel, places: *mut *mut c_void) -> Answer<Vec<u64>> {
    let ends = kernel.parameters.iter().map(|(offset, size)| offset + size);
    let mut words = vec![0u64; ends.max().unwrap_or(0).div_ceil(size_of::<u64>())];
    if places.is_null() && !kernel.parameters.is_empty() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let bytes: *mut u8 = words.as_mut_ptr().cast();
    for (place, (offset, size)) in kernel.parameters.iter().enumerate() {
        // SAFETY: the caller's promise: an address for each parameter.
        let from: *const u8 = unsafe { *places.wrapping_add(place) }.cast();
        if from.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller's promise; all parameters fit into the words.
        unsafe { bytes.wrapping_add(*offset).copy_from_nonoverlapping(from, *size) };
    }
    Ok(words)
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: CUfunction,
    blocks_x: c_uint,
    blocks_y: c_uint,
    blocks_z: c_uint,
    threads_x: c_uint,
    threads_y: c_uint,
    threads_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    answer(|| {
        asked("cuLaunchKernel")?;
        let device = current()?;
        let (function, stream) = (FUNCTIONS.get(function)?, STREAMS.get(stream)?);
        if !function.device().is(device) || !stream.device().is(device) {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        if ![0, SHARED_BYTES].contains(&shared_bytes) || !extra.is_null() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let grid = [blocks_x, blocks_y, blocks_z];
        let threads = [threads_x, threads_y, threads_z];
        let fits = fits(grid, MOST_BLOCKS_EACH) && fits(threads, MOST_THREADS_EACH);
        // Three sides that fit are no more than 64 Mi.
        let block: u32 = if fits { threads.iter().product() } else { 0 };
        if !(1..=MOST_THREADS).contains(&block) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let kernel = &function.kernel;
        // SAFETY: the caller's promise.
        let arguments = unsafe { arguments(kernel, parameters) }?;
        let resident = multiprocessors() * occupancy(block);
        let launch = Launch { kernel: kernel.clone(), grid, threads, arguments, resident };
        if traps(kernel, device) {
            let fault = Fault(format!("{}: a trap, as was asked for", kernel.name));
            return stream.submit(move |_| Err(fault));
        }
        stream.submit(move |stop| run(&launch, stop))
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    function: CUfunction,
    threads: c_int,
    _shared_bytes: usize,
) -> CUresult {
    answer(|| {
        FUNCTIONS.get(function)?.device().check()?;
        let threads = u32::try_from(threads).ok().filter(|it| (1..=MOST_THREADS).contains(it));
        let threads = threads.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the caller's promise.
        unsafe { store(blocks, c_int::try_from(occupancy(threads)).unwrap_or(1)) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_its_limits() {
        let allowed = [[1, 1, 1], [1024, 1, 1], [1, 1024, 64]];
        assert!(allowed.iter().all(|threads| fits(*threads, MOST_THREADS_EACH)));
        let refused = [[0, 1, 1], [1, 0, 1], [1025, 1, 1], [1, 1, 65]];
        assert!(!refused.iter().any(|threads| fits(*threads, MOST_THREADS_EACH)));
        assert_eq!([1, 32, 256, 512, 1024].map(occupancy), [512, 16, 2, 1, 1]);
    }
}
