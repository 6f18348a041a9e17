//! Launches of kernels that wait for each other, and what must not happen meanwhile.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;

use parking_lot::{RwLock, RwLockReadGuard};

/// Of the whole process, as the driver's locks are.
static GATE: RwLock<()> = RwLock::new(());

thread_local! {
    /// Reasons for which this thread is on one side of the gate, and need not ask again.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
    /// Held from the first of them to the last, if that is to launch.
    static LAUNCHES: RefCell<Option<RwLockReadGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Held by whoever launches kernels that wait for each other, from before the first launch until
/// after the last. Meanwhile nothing begins in the whole process for which the driver would hold
/// its locks while it waits for a kernel, such as giving memory back. It would wait for the first
/// of these kernels, and the others could not be launched. If such a call has already begun, this
/// waits until it is over.
///
/// ```
/// let launching = millstream_device::Launching::begin();
/// // Launch all kernels.
/// drop(launching);
/// ```
#[must_use = "dropped, it ends"]
pub struct Launching {
    _inside: Inside,
}

/// Until it is dropped, the thread is. It stays on the thread.
pub(crate) struct Inside(PhantomData<*const ()>);

impl Inside {
    /// Without asking: for who must not wait for whoever closes the gate, because that one waits
    /// for this thread.
    pub(crate) fn begin() -> Inside {
        INSIDE.set(INSIDE.get() + 1);
        Inside(PhantomData)
    }

    fn is_here() -> bool {
        INSIDE.get() > 0
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get() - 1);
        if !Inside::is_here() {
            // What a thread holds is gone before its last thread locals are, which may launch or let
            // go of a GPU.
            drop(LAUNCHES.try_with(RefCell::take));
        }
    }
}

impl fmt::Debug for Launching {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Launching")
    }
}

impl Launching {
    /// Begins launching. Any number may be held at once, even on one thread, until the last one is dropped.
    pub fn begin() -> Launching {
        if !Inside::is_here() {
            let guard = GATE.read();
            // At a thread's end, see above, nothing is held: the gate is only waited for.
            drop(LAUNCHES.try_with(|held| held.replace(Some(guard))));
        }
        Launching { _inside: Inside::begin() }
    }
}

/// Does something for which the driver may wait for a kernel with its locks held: when nobody
/// launches, and after what is left to threads. Whoever calls holds no lock that a launch or a
/// callback may want.
#[cfg(feature = "cuda")]
pub(crate) fn while_nobody_launches<R>(work: impl FnOnce() -> R) -> R {
    // Whoever launches, and does this nevertheless, is not helped.
    if Inside::is_here() {
        return work();
    }
    let _guard = GATE.write();
    let _inside = Inside::begin();
    // What was left before.
    crate::cuda::settle();
    work()
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// When it is dropped, everything that a program's thread local may do.
    struct Last(mpsc::Sender<()>);

    impl Drop for Last {
        fn drop(&mut self) {
            drop(Launching::begin());
            let _ = while_nobody_launches(|| self.0.send(()));
        }
    }

    thread_local! {
        static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    }

    #[test]
    fn thread_locals_may_launch_when_they_are_dropped() {
        let (done, hear) = mpsc::channel();
        let thread = std::thread::spawn(|| {
            // Those that were first used later are dropped earlier.
            LAST.set(Some(Last(done)));
            drop(Launching::begin());
        });
        thread.join().unwrap();
        hear.recv().unwrap();
    }

    #[test]
    fn nothing_begins_while_somebody_launches() {
        let (first, second) = (Launching::begin(), Launching::begin());
        // A thread that is inside does not wait for itself.
        while_nobody_launches(|| ());
        let (done, hear) = mpsc::channel();
        let other = std::thread::spawn(move || while_nobody_launches(|| done.send(())));
        // In any order.
        drop(first);
        assert!(hear.recv_timeout(Duration::from_millis(20)).is_err());
        drop(second);
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
