//! Answers.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};

use cudarc::driver::sys::CUresult;
use parking_lot::Mutex;

/// What a function has done, or why not.
pub(super) type Answer<T> = Result<T, CUresult>;

/// The answer that the caller sees.
pub(super) fn answer(call: impl FnOnce() -> Answer<()>) -> CUresult {
    call().err().unwrap_or(CUresult::CUDA_SUCCESS)
}

/// Stores a result where the caller wants it.
///
/// # Safety
/// `place` is null or can be written to.
pub(super) unsafe fn store<T>(place: *mut T, value: T) -> Answer<()> {
    if place.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// Stores a text that ends in NUL, cut to `length`.
///
/// # Safety
/// `place` is null or can be written to for `length`.
pub(super) unsafe fn store_text(place: *mut c_char, length: i32, text: &str) -> Answer<()> {
    let Some(last) = usize::try_from(length).ok().and_then(|length| length.checked_sub(1)) else {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    };
    let bytes = text.bytes().take(last).chain([0]);
    for (offset, byte) in bytes.enumerate() {
        // SAFETY: the caller's promise; no more than `length`.
        unsafe { store(place.wrapping_add(offset), byte as c_char) }?;
    }
    Ok(())
}

/// An answer's name, for ever.
///
/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: CUresult, name: *mut *const c_char) -> CUresult {
    static NAMES: Mutex<BTreeMap<u32, CString>> = Mutex::new(BTreeMap::new());
    answer(|| {
        let mut names = NAMES.lock();
        // Never removed, so that the text stays where it is.
        let text = names
            .entry(error as u32)
            .or_insert_with(|| CString::new(format!("{error:?}")).unwrap_or_default());
        // SAFETY: the caller's promise.
        unsafe { store(name, text.as_ptr()) }
    })
}
