//! The first failure of a stream, and who wants to hear of it.

use std::fmt;
use std::mem::take;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::Error;
use crate::contain::contain;

type Listener = Box<dyn FnOnce(Error) + Send>;

#[derive(Default)]
struct Listeners {
    /// With a number each.
    waiting: Vec<(u64, Listener)>,
    numbers: u64,
}

impl Drop for Listeners {
    /// What they hold may be anything, and goes on a thread that others rely on.
    fn drop(&mut self) {
        take(&mut self.waiting).into_iter().for_each(|listener| contain(move || drop(listener)));
    }
}

/// The first failure of a stream. Looked at for each operation, by whoever submits and whoever
/// performs: as long as there is none, nobody writes.
#[derive(Default)]
pub(crate) struct FirstCause {
    cause: OnceLock<Error>,
    /// Of a GPU's stream: the first failure that it has come to. What the driver has refused is ahead
    /// of it at first.
    #[cfg(feature = "cuda")]
    reached: OnceLock<Error>,
    /// Changes with the cause: who is here is told when it is set.
    listeners: Mutex<Listeners>,
}

impl fmt::Debug for FirstCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("FirstCause").field(&self.get()).finish()
    }
}

impl FirstCause {
    pub(crate) fn get(&self) -> Option<&Error> {
        self.cause.get()
    }

    /// Fails the stream, unless it has failed. Whoever listens is told by
    /// [`Untold::tell`], when the caller holds no locks.
    pub(crate) fn set(&self, cause: Error) -> Untold {
        let mut listeners = self.listeners.lock();
        if self.cause.set(cause.clone()).is_err() || listeners.waiting.is_empty() {
            return Untold(None);
        }
        Untold(Some(Box::new((cause, take(&mut listeners.waiting)))))
    }

    /// As [`FirstCause::set`], of what the stream has come to.
    #[cfg(feature = "cuda")]
    pub(crate) fn set_reached(&self, cause: Error) -> Untold {
        let _ = self.reached.set(cause.clone());
        self.set(cause)
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn reached(&self) -> Option<&Error> {
        self.reached.get()
    }

    /// Calls `listener` when there is a cause, at once if there is. Its number, for
    /// [`FirstCause::forget`].
    pub(crate) fn on_set(&self, listener: impl FnOnce(Error) + Send + 'static) -> u64 {
        let (cause, number) = {
            let mut listeners = self.listeners.lock();
            listeners.numbers += 1;
            let number = listeners.numbers;
            match self.get() {
                Some(cause) => (cause.clone(), number),
                None => {
                    listeners.waiting.push((number, Box::new(listener)));
                    return number;
                }
            }
        };
        listener(cause);
        number
    }

    /// Does not call a listener any more.
    pub(crate) fn forget(&self, number: u64) {
        let mut listeners = self.listeners.lock();
        let place = listeners.waiting.iter().position(|(its, _)| *its == number);
        let forgotten = place.map(|place| listeners.waiting.swap_remove(place));
        drop(listeners);
        // What it holds may be anything, and is let go without a lock.
        drop(forgotten);
    }
}

/// A failure that those who listen have not been told.
#[must_use = "those who listen are to be told"]
pub(crate) struct Untold(Option<Box<(Error, Vec<(u64, Listener)>)>>);

impl Untold {
    /// Nobody listens, or nothing has failed.
    #[cfg(feature = "cuda")]
    pub(crate) fn nothing() -> Untold {
        Untold(None)
    }

    /// Tells them.
    pub(crate) fn tell(self) {
        let Some((cause, listeners)) = self.0.map(|told| *told) else { return };
        for (_, listener) in listeners {
            let cause = cause.clone();
            contain(move || listener(cause));
        }
    }
}
