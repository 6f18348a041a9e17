//! Completion words without their devices: what waits for a stream's word, and
//! when the reactor may park. States and orderings are in `README.md`.

use std::collections::VecDeque;

use crate::sync::{AtomicBool, Fault, Mutex, Ordering, Thread, park, seeded};

/// Whether a word that shows `value` has come to `target`. Words only grow, and
/// wrap around; at most 2^31 - 1 operations of a stream are outstanding.
pub(crate) fn reached(value: u32, target: u32) -> bool {
    if seeded(Fault::PlainCompare) {
        return value >= target;
    }
    value.wrapping_sub(target) as i32 >= 0
}

/// What waits for one stream's completion word, in the order of the targets.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    queue: Mutex<VecDeque<(u32, T)>>,
}

impl<T> Waiting<T> {
    /// Nothing.
    pub(crate) fn new() -> Waiting<T> {
        Waiting { queue: Mutex::new(VecDeque::new()) }
    }

    /// Adds what waits for `target`, which is no less than the targets before.
    /// [`Parking::notify`] must follow.
    pub(crate) fn push(&self, target: u32, item: T) {
        self.queue.lock().push_back((target, item));
    }

    /// Takes out, from the front, what the word has reached and `is_ready`.
    pub(crate) fn take_done(&self, value: u32, is_ready: impl Fn(&T) -> bool) -> Vec<T> {
        let mut queue = self.queue.lock();
        let mut done = Vec::new();
        while let Some((target, item)) = queue.front() {
            if !reached(value, *target) || !is_ready(item) {
                break;
            }
            done.extend(queue.pop_front().map(|(_, item)| item));
        }
        done
    }

    /// Looks at the first.
    pub(crate) fn first<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.queue.lock().front().map(|(_, item)| look(item))
    }

    /// Takes out the first.
    pub(crate) fn take_first(&self) -> Option<T> {
        self.queue.lock().pop_front().map(|(_, item)| item)
    }

    /// Takes out everything.
    pub(crate) fn take_all(&self) -> Vec<T> {
        self.queue.lock().drain(..).map(|(_, item)| item).collect()
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.lock().is_empty()
    }
}

/// Lets the reactor's thread sleep while nothing waits.
#[derive(Debug)]
pub(crate) struct Parking {
    parked: AtomicBool,
}

impl Parking {
    /// For a reactor that is awake.
    pub(crate) fn new() -> Parking {
        Parking { parked: AtomicBool::new(false) }
    }

    /// What whoever has pushed calls next.
    pub(crate) fn notify(&self, reactor: &Thread) {
        if self.parked.swap(false, Ordering::AcqRel) {
            reactor.unpark();
        }
    }

    /// What the reactor calls when a sweep left nothing: parks until notified,
    /// unless something waits by now. May return early.
    pub(crate) fn park_unless(&self, something_waits: impl FnOnce() -> bool) {
        if seeded(Fault::ParkWithoutRecheck) {
            self.parked.store(true, Ordering::Release);
            return park();
        }
        // Whoever pushes after the check finds the mark: the queue's lock orders
        // the mark before its `notify`.
        self.parked.store(true, Ordering::Release);
        if !something_waits() {
            park();
        }
        self.parked.store(false, Ordering::Relaxed);
    }
}
