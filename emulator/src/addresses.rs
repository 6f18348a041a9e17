//! Which bytes of devices' and pinned memory are allocated: kernels look at each access.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// Where allocations start; no two are in the same so many bytes.
pub(crate) const GRANULE: usize = 512;
/// Granules of a process; only those that are marked cost memory.
const GRANULES: usize = 1 << (47 - GRANULE.ilog2());

/// For each granule of all addresses 0 if it is of no device, else 1 and how many bytes from
/// its beginning are allocated. `None` without so many addresses: nothing is checked then.
fn granules() -> Option<&'static MmapRaw> {
    static TABLE: OnceLock<Option<MmapRaw>> = OnceLock::new();
    let map = || {
        let map =
            MmapOptions::new().len(GRANULES * size_of::<AtomicU16>()).no_reserve_swap().map_anon();
        map.ok().map(MmapRaw::from)
    };
    TABLE.get_or_init(map).as_ref()
}

/// The granules' table, as threads.hpp reads it.
pub(crate) extern "C" fn table() -> *const AtomicU16 {
    granules().map_or(std::ptr::null(), |table| table.as_ptr().cast())
}

/// An allocation begins or ends; it starts a granule, and the one after it is nobody's.
pub(crate) fn mark(address: *const u8, bytes: usize, is_allocated: bool) {
    let table = table();
    if table.is_null() {
        return;
    }
    for granule in 0..=bytes.div_ceil(GRANULE) {
        let left = if is_allocated { bytes.saturating_sub(granule * GRANULE) } else { 0 };
        // SAFETY: a number for each granule below 2^47, where all memory of programs is.
        let number = unsafe { &*table.wrapping_add(address.addr() / GRANULE + granule) };
        // Relaxed: whoever uses the memory hears of it in another way.
        number.store(1 + left.min(GRANULE) as u16, Ordering::Relaxed);
    }
}
