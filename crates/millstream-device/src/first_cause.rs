//! The first failure of a stream, and those who want to hear of it.

use std::fmt;
use std::mem::take;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::Error;
use crate::contain::contain;

type Listener = Box<dyn FnOnce(Error) + Send>;

#[derive(Default)]
struct Listeners {
    /// Each with its number.
    waiting: Vec<(u64, Listener)>,
    numbers: u64,
}

impl Drop for Listeners {
    /// Listeners may hold anything, so a panic in a drop must not end this thread, on which others rely.
    fn drop(&mut self) {
        take(&mut self.waiting).into_iter().for_each(|listener| contain(move || drop(listener)));
    }
}

/// The first failure of a stream. For each operation, both those who submit and those who perform
/// look at it; nobody writes to it as long as there is no failure.
#[derive(Default)]
pub(crate) struct FirstCause {
    cause: OnceLock<Error>,
    /// For a GPU's stream: the first failure that the stream has come to. At first, what the driver
    /// has refused is ahead of the stream.
    #[cfg(feature = "cuda")]
    reached: OnceLock<Error>,
    /// Its lock is held when the cause is set, so a listener either is told or finds the cause.
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

    /// Fails the stream, unless it has failed already. Listeners are told by [`Untold::tell`], once
    /// the caller holds no locks.
    pub(crate) fn set(&self, cause: Error) -> Untold {
        let mut listeners = self.listeners.lock();
        if self.cause.set(cause.clone()).is_err() || listeners.waiting.is_empty() {
            return Untold(None);
        }
        Untold(Some(Box::new((cause, take(&mut listeners.waiting)))))
    }

    /// As [`FirstCause::set`], for a failure that the stream has come to.
    #[cfg(feature = "cuda")]
    pub(crate) fn set_reached(&self, cause: Error) -> Untold {
        let _ = self.reached.set(cause.clone());
        self.set(cause)
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn reached(&self) -> Option<&Error> {
        self.reached.get()
    }

    /// Calls `listener` when there is a cause; at once if there is one already. Returns its number,
    /// for [`FirstCause::forget`].
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

    /// Ensures that a listener that has not been called never will be.
    pub(crate) fn forget(&self, number: u64) {
        let mut listeners = self.listeners.lock();
        let place = listeners.waiting.iter().position(|(its, _)| *its == number);
        let forgotten = place.map(|place| listeners.waiting.swap_remove(place));
        drop(listeners);
        // A listener's drop may run any code: do it without the lock.
        drop(forgotten);
    }
}

/// A failure of which the listeners have not been told yet.
#[must_use = "those who listen are to be told"]
pub(crate) struct Untold(Option<Box<(Error, Vec<(u64, Listener)>)>>);

impl Untold {
    /// Nothing to tell: nobody listens, or nothing has failed.
    #[cfg(feature = "cuda")]
    pub(crate) fn nothing() -> Untold {
        Untold(None)
    }

    /// Tells the listeners.
    pub(crate) fn tell(self) {
        let Some((cause, listeners)) = self.0.map(|told| *told) else { return };
        for (_, listener) in listeners {
            let cause = cause.clone();
            contain(move || listener(cause));
        }
    }
}
