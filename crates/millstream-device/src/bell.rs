//! The bell tells those who wait for a word that a twin, a stream or host code has written one.

use std::fmt;

use crate::sync::{Fault, Mutex, contain, seeded};

type Callback = Box<dyn FnOnce() + Send>;

/// Rung when host code, a stream of a host device or a twin has written a word that
/// others may wait for. Those who wait look at their word, and if it is not what they
/// wait for, ask to be told of the next ring. Words that GPUs write ring nothing:
/// somebody must look, and ring.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use millstream_device::{DeviceList, DeviceSet};
///
/// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
/// let (word, rung) = (set.host().shared::<u32>(1)?, Arc::new(AtomicBool::new(false)));
/// let (seen, told) = (set.bell().rings(), Arc::clone(&rung));
/// assert_eq!(word.load(0)?, 0); // look after asking for the number of rings
/// set.bell().at_next(seen, move || told.store(true, Ordering::Release));
/// word.store(0, 1)?;
/// assert!(rung.load(Ordering::Acquire));
/// # Ok::<(), millstream_device::Error>(())
/// ```
#[doc(hidden)]
pub struct Bell {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rings: u64,
    waiting: Vec<Callback>,
}

impl fmt::Debug for Bell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Bell({} rings)", self.rings())
    }
}

impl Default for Bell {
    fn default() -> Bell {
        Bell { state: Mutex::new(State::default()) }
    }
}

impl Bell {
    /// How often it has been rung: asked for before looking at a word.
    pub fn rings(&self) -> u64 {
        self.state.lock().rings
    }

    /// Tells everyone who waits, on this thread.
    pub fn ring(&self) {
        let waiting = {
            let mut state = self.state.lock();
            state.rings += 1;
            std::mem::take(&mut state.waiting)
        };
        // Called without the lock: they may ring, or wait again.
        waiting.into_iter().for_each(contain);
    }

    /// Calls `callback` at the next ring, or at once if it was rung since `seen`, so
    /// that no ring is missed between a look and this call. It must be short. A panic of it at a
    /// ring is its own.
    pub fn at_next(&self, seen: u64, callback: impl FnOnce() + Send + 'static) {
        if let Some(callback) = self.leave(seen, callback, |callback| callback()) {
            callback();
        }
    }

    /// As [`Bell::at_next`], with what the callback is given; if it was rung since `seen`, that comes
    /// back, for who then looks again and must not do so within each look before.
    pub fn leave<S: Send + 'static>(
        &self,
        seen: u64,
        left: S,
        callback: impl FnOnce(S) + Send + 'static,
    ) -> Option<S> {
        let mut state = self.state.lock();
        if state.rings == seen || seeded(Fault::WaitWithoutNumber) {
            state.waiting.push(Box::new(move || callback(left)));
            return None;
        }
        Some(left)
    }
}
