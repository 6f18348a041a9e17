//! Turns of blocks: as many run at once as there are processors, one after the other.
//!
//! The operating system would let a block that waits for another one spin for milliseconds.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{Thread, available_parallelism, current, park};

use parking_lot::Mutex;

/// Who wants to run.
struct Waiting {
    thread: Thread,
    may_run: AtomicBool,
}

struct Turns {
    /// Blocks that may begin to run at once.
    left: usize,
    waiting: VecDeque<Arc<Waiting>>,
}

static TURNS: LazyLock<Mutex<Turns>> = LazyLock::new(|| {
    let left = available_parallelism().map_or(1, usize::from);
    Mutex::new(Turns { left, waiting: VecDeque::new() })
});

/// The right to run; dropped, it is the next one's.
pub(crate) struct Turn(());

impl Turn {
    /// Waits for the right to run.
    pub(crate) fn wait() -> Turn {
        let mut turns = TURNS.lock();
        if turns.left > 0 {
            turns.left -= 1;
            return Turn(());
        }
        let own = turns.enqueue();
        drop(turns);
        own.wait();
        Turn(())
    }

    /// Lets another block run first, if one wants to.
    pub(crate) fn pass(&self) {
        let mut turns = TURNS.lock();
        let Some(next) = turns.waiting.pop_front() else {
            drop(turns);
            std::thread::yield_now();
            return;
        };
        let own = turns.enqueue();
        drop(turns);
        next.wake();
        own.wait();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = TURNS.lock();
        match turns.waiting.pop_front() {
            Some(next) => next.wake(),
            None => turns.left += 1,
        }
    }
}

impl Turns {
    fn enqueue(&mut self) -> Arc<Waiting> {
        let own = Arc::new(Waiting { thread: current(), may_run: AtomicBool::new(false) });
        self.waiting.push_back(Arc::clone(&own));
        own
    }
}

impl Waiting {
    fn wake(&self) {
        // Release: pairs with the acquire in `wait`.
        self.may_run.store(true, Ordering::Release);
        self.thread.unpark();
    }

    fn wait(&self) {
        while !self.may_run.load(Ordering::Acquire) {
            park();
        }
    }
}
