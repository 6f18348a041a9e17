//! Launches of kernels that wait for each other, and what must not happen meanwhile.

use std::cell::Cell;
use std::fmt;

use parking_lot::{RwLock, RwLockReadGuard};

/// Of the whole process, as the driver's locks are.
static GATE: RwLock<()> = RwLock::new(());

thread_local! {
    /// Whether this thread is on one side of the gate, and need not ask again.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Held by whoever launches kernels that wait for each other, from before the first until
/// after the last launch. Meanwhile nothing begins, in the whole process, for which the
/// driver would wait for a kernel with its locks held, such as giving memory back: it would
/// wait for the first of the kernels, and the others could not be launched. In turn, where such
/// a thing has begun, this waits for it.
///
/// ```
/// let launching = millstream_device::Launching::begin();
/// // Launch all kernels.
/// drop(launching);
/// ```
#[must_use = "dropped, it ends"]
pub struct Launching {
    /// None if the thread was inside before.
    _inside: Option<(RwLockReadGuard<'static, ()>, Inside)>,
}

/// Until it is dropped, the thread is.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
    }
}

impl fmt::Debug for Launching {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Launching")
    }
}

impl Launching {
    /// Any number at once, also on one thread.
    pub fn begin() -> Launching {
        if IS_INSIDE.replace(true) {
            return Launching { _inside: None };
        }
        Launching { _inside: Some((GATE.read(), Inside)) }
    }
}

/// This thread launches what others have left, who may be waited for by whoever closes the
/// gate; so it never asks.
#[cfg(feature = "cuda")]
pub(crate) fn stay_inside() {
    IS_INSIDE.set(true);
}

/// Does something for which the driver may wait for a kernel with its locks held: when nobody
/// launches, and after what is left to threads. Whoever calls holds no lock that a launch or a
/// callback may want.
#[cfg(feature = "cuda")]
pub(crate) fn while_nobody_launches<R>(work: impl FnOnce() -> R) -> R {
    // Whoever launches, and does this nevertheless, is not helped.
    if IS_INSIDE.replace(true) {
        return work();
    }
    let _inside = Inside;
    let _guard = GATE.write();
    // What was left before.
    crate::cuda::settle();
    work()
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn nothing_begins_while_somebody_launches() {
        let (first, second) = (Launching::begin(), Launching::begin());
        // A thread that is inside does not wait for itself.
        while_nobody_launches(|| ());
        let (done, hear) = mpsc::channel();
        let other = std::thread::spawn(move || while_nobody_launches(|| done.send(())));
        drop(second);
        assert!(hear.recv_timeout(Duration::from_millis(20)).is_err());
        drop(first);
        hear.recv().unwrap();
        other.join().unwrap().unwrap();
    }

    #[test]
    fn nobody_launches_while_it_happens() {
        let (begun, hear) = mpsc::channel();
        while_nobody_launches(|| {
            let other = std::thread::spawn(move || {
                drop(Launching::begin());
                begun.send(())
            });
            assert!(hear.recv_timeout(Duration::from_millis(20)).is_err());
            other
        })
        .join()
        .unwrap()
        .unwrap();
        hear.recv().unwrap();
        // The gate is open again for this thread.
        drop(Launching::begin());
    }
}
