//! Submissions in their order, some of which must wait for the host, without the
//! driver that they are for. `README.md` beside this file says why.

use std::collections::VecDeque;

use crate::sync::{AtomicUsize, Fault, Mutex, Ordering, seeded};

/// What became of an operation.
#[derive(Debug)]
pub(crate) enum Step<T, O> {
    /// It is submitted, or never will be.
    Done,
    /// It must come after something of the host that is not over; back it goes.
    HeldUp(T, O),
}

/// Operations of one lane, performed on `S` one at a time and in the order they
/// come. Those behind one that is held up wait with it.
#[derive(Debug)]
pub(crate) struct InOrder<S, T> {
    state: Mutex<State<S, T>>,
    /// Operations that wait, for whoever must not wait for the lock.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct State<S, T> {
    target: S,
    /// The first is the one that is held up.
    waiting: VecDeque<T>,
}

impl<S, T> InOrder<S, T> {
    /// Nothing waits.
    pub(crate) fn new(target: S) -> InOrder<S, T> {
        let state = State { target, waiting: VecDeque::new() };
        InOrder { state: Mutex::new(state), waiting: AtomicUsize::new(0) }
    }

    /// Whether an operation waits.
    pub(crate) fn is_held_up(&self) -> bool {
        // Acquire: pairs with the release in `resume`, after which what the
        // operations did is to be seen.
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// What the target is like, unless an operation waits.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&S) -> R) -> Option<R> {
        let state = self.state.lock();
        state.waiting.is_empty().then(|| look(&state.target))
    }

    /// Performs `operation`, or lets it wait. If it is the first to wait, what it
    /// waits for comes back: [`InOrder::resume`] must be called once that is over.
    /// `perform` must not call back.
    pub(crate) fn submit<O>(
        &self,
        operation: T,
        perform: impl FnOnce(&mut S, T) -> Step<T, O>,
    ) -> Option<O> {
        let mut state = self.state.lock();
        let is_free = state.waiting.is_empty() || seeded(Fault::OvertakeTheHeldUp);
        let (operation, obstacle) = match is_free {
            false => (operation, None),
            true => match perform(&mut state.target, operation) {
                Step::Done => return None,
                Step::HeldUp(operation, obstacle) => (operation, Some(obstacle)),
            },
        };
        state.waiting.push_back(operation);
        // Relaxed: whoever asks meanwhile may hear either.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        obstacle
    }

    /// Performs what waits, up to the next operation that is held up: the answer is
    /// as that of [`InOrder::submit`]. Called only when the obstacle that came back
    /// last is over, so that one thread at a time is here.
    pub(crate) fn resume<O>(&self, mut perform: impl FnMut(&mut S, T) -> Step<T, O>) -> Option<O> {
        let mut state = self.state.lock();
        while let Some(operation) = state.waiting.pop_front() {
            if let Step::HeldUp(operation, obstacle) = perform(&mut state.target, operation) {
                state.waiting.push_front(operation);
                return Some(obstacle);
            }
            // Release: see `is_held_up`.
            self.waiting.fetch_sub(1, Ordering::Release);
        }
        None
    }
}
