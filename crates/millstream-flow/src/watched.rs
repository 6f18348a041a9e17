//! State whose changes tasks wait for.

use std::task::{Poll, Waker};

use crate::sync::{Fault, Mutex, seeded};

/// State under a lock, and the tasks that wait for it to change.
///
/// A task looks, and registers its waker, under the same lock; whoever changes the state takes all
/// wakers under it. So the change either comes before the look or finds the waker. Tasks are woken
/// without the lock, since they may come back here at once.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    locked: Mutex<Locked<S>>,
}

#[derive(Debug)]
struct Locked<S> {
    state: S,
    wakers: Vec<Waker>,
}

impl<S> Watched<S> {
    pub(crate) fn new(state: S) -> Watched<S> {
        Watched { locked: Mutex::new(Locked { state, wakers: Vec::new() }) }
    }

    /// Looks at the state, or changes what nobody waits for.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut S) -> R) -> R {
        look(&mut self.locked.lock().state)
    }

    /// Looks at the state if a task waits for a change, or did until it was dropped.
    pub(crate) fn awaited<R>(&self, look: impl FnOnce(&S) -> R) -> Option<R> {
        let locked = self.locked.lock();
        (!locked.wakers.is_empty()).then(|| look(&locked.state))
    }

    /// Changes the state, and wakes all who wait.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let (result, wakers) = {
            let mut locked = self.locked.lock();
            (change(&mut locked.state), std::mem::take(&mut locked.wakers))
        };
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// The answer, if `look` has one; else the task is woken after the next change. Cancel safe, if
    /// `look` changes nothing without an answer.
    pub(crate) fn poll<R>(&self, waker: &Waker, look: impl FnOnce(&mut S) -> Option<R>) -> Poll<R> {
        let mut locked = self.locked.lock();
        if let Some(answer) = look(&mut locked.state) {
            return Poll::Ready(answer);
        }
        if seeded(Fault::WakerAfterTheLook) {
            drop(locked);
            locked = self.locked.lock();
        }
        if !locked.wakers.iter().any(|known| known.will_wake(waker)) {
            locked.wakers.push(waker.clone());
        }
        Poll::Pending
    }
}
