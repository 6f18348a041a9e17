//! What callers hold: numbers that are never used again, so that a stale one is seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys::CUresult;
use parking_lot::Mutex;

use super::device::Device;
use super::status::Answer;

/// Something that belongs to a device's context.
pub(super) trait Owned {
    fn device(&self) -> &'static Device;
}

/// All things of a kind, by their numbers.
pub(super) struct Handles<T>(Mutex<BTreeMap<usize, Arc<T>>>);

impl<T: Owned> Handles<T> {
    pub(super) const fn new() -> Handles<T> {
        Handles(Mutex::new(BTreeMap::new()))
    }

    /// A handle for it, unlike all others of any kind.
    pub(super) fn insert<H>(&self, item: Arc<T>) -> *mut H {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        // Relaxed: only a number is needed. No handle looks like an object's address.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.0.lock().insert(number, item);
        std::ptr::without_provenance_mut(number)
    }

    pub(super) fn get<H>(&self, handle: *mut H) -> Answer<Arc<T>> {
        let item = self.0.lock().get(&handle.addr()).cloned();
        item.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    pub(super) fn remove<H>(&self, handle: *mut H) -> Answer<Arc<T>> {
        self.0.lock().remove(&handle.addr()).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// Takes out what belongs to a device.
    pub(super) fn remove_of(&self, device: &Device) -> Vec<Arc<T>> {
        let mut items = self.0.lock();
        items.extract_if(.., |_, item| item.device().is(device)).map(|(_, item)| item).collect()
    }
}
