//! Turns at memory that words guard: one may write, or many may read. Copies and host code wait for
//! their turn; twins never wait, but are told when to try again.

use crate::bell::Bell;
use crate::sync::{
    AtomicBool, Fault, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard, fence, seeded,
};

/// A lock, and whether somebody was refused it.
#[derive(Debug)]
pub(crate) struct Turns {
    pub(crate) lock: RwLock<()>,
    refused: AtomicBool,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { lock: RwLock::new(()), refused: AtomicBool::new(false) }
    }
}

impl Turns {
    /// A turn to read. If it is refused, the bell rings once the writer has
    /// [released](Turns::released) the lock.
    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.lock.try_read().or_else(|| self.refuse(|| self.lock.try_read()))
    }

    /// A turn to write; if it is refused, as in [`Turns::try_read`].
    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        self.lock.try_write().or_else(|| self.refuse(|| self.lock.try_write()))
    }

    fn refuse<T>(&self, again: impl FnOnce() -> Option<T>) -> Option<T> {
        self.refused.store(true, Ordering::Relaxed);
        if seeded(Fault::RefuseWithoutRetry) {
            return None;
        }
        // Pairs with the fence in `released`: either the next try finds the lock free, or the one
        // that releases it finds the mark.
        fence(Ordering::SeqCst);
        again()
    }

    /// To be called after the lock has been released, as [`Turn`] does: those who were refused may try again.
    pub(crate) fn released(&self, bell: &Bell) {
        fence(Ordering::SeqCst);
        if self.refused.swap(false, Ordering::Relaxed) {
            bell.ring();
        }
    }
}

/// A turn that somebody has, with the guard of the lock. When it is dropped, even by a panic, those
/// refused meanwhile may try again.
pub(crate) struct Turn<'a, G> {
    guard: Option<G>,
    turns: &'a Turns,
    bell: &'a Bell,
}

impl<'a, G> Turn<'a, G> {
    pub(crate) fn new(guard: G, turns: &'a Turns, bell: &'a Bell) -> Turn<'a, G> {
        Turn { guard: Some(guard), turns, bell }
    }
}

impl<G> Drop for Turn<'_, G> {
    fn drop(&mut self) {
        drop(self.guard.take());
        self.turns.released(self.bell);
    }
}
