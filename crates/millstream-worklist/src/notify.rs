//! Wakes one waiting task; remembers a call that came before the task waited.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures_util::task::AtomicWaker;

/// A flag that a task waits for and takes down.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    raised: AtomicBool,
    waker: AtomicWaker,
}

impl Notify {
    /// Lets the task go on, now or when it next waits.
    pub(crate) fn notify(&self) {
        // Release: pairs with the acquire in `notified`.
        self.raised.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Waits for a call of `notify` that no earlier wait has taken.
    pub(crate) async fn notified(&self) {
        poll_fn(|context| {
            // Registered before the flag is read, so that no call is missed in between.
            self.waker.register(context.waker());
            match self.raised.swap(false, Ordering::AcqRel) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}
