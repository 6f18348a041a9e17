//! The pool of a sender's send buffers, which gives back-pressure.

use std::task::{Poll, Waker};

use crate::watched::Watched;

/// How many buffers may be out at once, unless the program sets it.
const USUAL_LIMIT: usize = 2;

/// How many buffers are out, and the free ones.
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

    /// Takes one: a free buffer, or `None` if the caller has to allocate it. An error as soon as
    /// there is a `cause`, which [`wake`](SendBuffers::wake) announces.
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

    /// One buffer less is out; `buffer` is `None` if it cannot be used again.
    pub(crate) fn give_back(&self, buffer: Option<B>) {
        let unused = self.state.change(|state| {
            state.outstanding = state.outstanding.saturating_sub(1);
            if state.is_over {
                return buffer;
            }
            state.free.extend(buffer);
            None
        });
        // Dropped without the lock.
        drop(unused);
    }

    /// Buffers that come back are not kept any more.
    pub(crate) fn shut_down(&self) {
        self.state.with(|state| state.is_over = true);
    }

    /// How many buffers may be out at once, if somebody waits for one.
    pub(crate) fn awaited(&self) -> Option<usize> {
        self.state.awaited(|state| state.limit)
    }

    /// Makes all waiters look again.
    pub(crate) fn wake(&self) {
        self.state.change(|_| {});
    }

    /// Drops the free buffers.
    pub(crate) fn clear(&self) {
        let given_up = self.state.with(|state| std::mem::take(&mut state.free));
        drop(given_up);
    }
}
