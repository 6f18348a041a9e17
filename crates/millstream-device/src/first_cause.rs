//! The first failure of a stream, and who wants to hear of it.

use std::fmt;
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;

use crate::Error;

type Listener = Box<dyn FnOnce(Error) + Send>;

/// The first failure of a stream.
#[derive(Default)]
pub(crate) struct FirstCause(Mutex<State>);

#[derive(Default)]
struct State {
    cause: Option<Error>,
    listeners: Vec<Listener>,
}

impl fmt::Debug for FirstCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("FirstCause").field(&self.get()).finish()
    }
}

impl FirstCause {
    pub(crate) fn get(&self) -> Option<Error> {
        self.0.lock().cause.clone()
    }

    /// Fails the stream, unless it has failed. Whoever listens is told by
    /// [`Untold::tell`], when the caller holds no locks.
    pub(crate) fn set(&self, cause: Error) -> Untold {
        let mut state = self.0.lock();
        if state.cause.is_some() {
            return Untold(None);
        }
        state.cause = Some(cause.clone());
        let listeners = take(&mut state.listeners);
        Untold((!listeners.is_empty()).then(|| Box::new((cause, listeners))))
    }

    /// Calls `listener` when there is a cause, at once if there is.
    pub(crate) fn on_set(&self, listener: impl FnOnce(Error) + Send + 'static) {
        let cause = {
            let mut state = self.0.lock();
            match &state.cause {
                Some(cause) => cause.clone(),
                None => return state.listeners.push(Box::new(listener)),
            }
        };
        listener(cause);
    }
}

/// A failure that those who listen have not been told.
#[must_use = "those who listen are to be told"]
pub(crate) struct Untold(Option<Box<(Error, Vec<Listener>)>>);

impl Untold {
    /// Nobody listens, or nothing has failed.
    #[cfg(feature = "cuda")]
    pub(crate) fn nothing() -> Untold {
        Untold(None)
    }

    /// Tells them.
    pub(crate) fn tell(self) {
        let Some((cause, listeners)) = self.0.map(|told| *told) else { return };
        for listener in listeners {
            let cause = cause.clone();
            // A panic is the listener's own: the device goes on.
            let _ = catch_unwind(AssertUnwindSafe(move || listener(cause)));
        }
    }
}
