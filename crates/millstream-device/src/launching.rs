//! Launches of kernels that wait for each other, and what must not happen meanwhile.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;

use parking_lot::{RwLock, RwLockReadGuard};

/// One for the whole process, since the driver's locks are.
static GATE: RwLock<()> = RwLock::new(());

thread_local! {
    /// How many reasons there are for which this thread is inside the gate and need not enter it again.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
    /// Held by this thread from the first reason to the last, if the first was to launch.
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

/// The thread is inside the gate until this is dropped, on the same thread.
pub(crate) struct Inside(PhantomData<*const ()>);

impl Inside {
    /// Goes inside without waiting at the gate: for threads that must not wait for the one that has
    /// closed it, because that one waits for them.
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
            // At a thread's end this may already be gone, while later drops of thread locals still
            // launch or release a GPU.
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
            // At a thread's end (see above) nothing can be held: then this only waits for the gate.
            drop(LAUNCHES.try_with(|held| held.replace(Some(guard))));
        }
        Launching { _inside: Inside::begin() }
    }
}

/// Does something during which the driver may wait for a kernel with its locks held. It is done
/// while nobody launches, and after the driver has been given what was left to threads. The caller
/// must hold no lock that a launch or a callback may want.
#[cfg(feature = "cuda")]
pub(crate) fn while_nobody_launches<R>(work: impl FnOnce() -> R) -> R {
    // A thread that does this while it launches itself gets no protection.
    if Inside::is_here() {
        return work();
    }
    let _guard = GATE.write();
    let _inside = Inside::begin();
    // Launches that were left to threads before.
    crate::cuda::settle();
    work()
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// When dropped, does all that a program's thread local may do.
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
            // Thread locals that were first used later are dropped earlier.
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
        // They may be dropped in any order.
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
