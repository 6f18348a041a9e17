//! Send buffers of a sender: its back-pressure.

use std::task::{Poll, Waker};

use crate::watched::Watched;

/// Buffers that may be out at once, unless set.
const USUAL_LIMIT: usize = 2;

/// How many buffers are out, and those that may be used again.
#[derive(Debug)]
pub(crate) struct SendBuffers<B> {
    state: Watched<State<B>>,
}

#[derive(Debug)]
struct State<B> {
    free: Vec<B>,
    /// Handed out or on their way.
    outstanding: usize,
    limit: usize,
    /// Nobody asks for one any more.
    is_over: bool,
}

impl<B> SendBuffers<B> {
    pub(crate) fn new() -> SendBuffers<B> {
        let (free, outstanding, limit, is_over) = (Vec::new(), 0, USUAL_LIMIT, false);
        SendBuffers { state: Watched::new(State { free, outstanding, limit, is_over }) }
    }

    /// How many may be out at once.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.state.with(|state| state.limit = limit.max(1));
    }

    /// One more is out: one to use again, or none, which has to be allocated. An error as soon as
    /// there is a `cause`, which is told by [`wake`](SendBuffers::wake).
    pub(crate) fn poll_take<E>(
        &self,
        waker: &Waker,
        cause: impl FnOnce() -> Option<E>,
    ) -> Poll<Result<Option<B>, E>> {
        self.state.poll(waker, |state| match cause() {
            Some(cause) => Some(Err(cause)),
            None => (state.outstanding < state.limit).then(|| {
                state.outstanding += 1;
                Ok(state.free.pop())
            }),
        })
    }

    /// One less is out; `None` if it cannot be used again.
    pub(crate) fn give_back(&self, buffer: Option<B>) {
        let unused = self.state.change(|state| {
            state.outstanding = state.outstanding.saturating_sub(1);
            if state.is_over {
                return buffer;
            }
            state.free.extend(buffer);
            None
        });
        // Without the lock.
        drop(unused);
    }

    /// Buffers that come back are of no use any more.
    pub(crate) fn shut_down(&self) {
        self.state.with(|state| state.is_over = true);
    }

    /// How many may be out at once, if somebody waits for one.
    pub(crate) fn awaited(&self) -> Option<usize> {
        self.state.awaited(|state| state.limit)
    }

    /// Those who wait look again.
    pub(crate) fn wake(&self) {
        self.state.change(|_| {});
    }

    /// Gives up those that are free.
    pub(crate) fn clear(&self) {
        let given_up = self.state.with(|state| std::mem::take(&mut state.free));
        drop(given_up);
    }
}
