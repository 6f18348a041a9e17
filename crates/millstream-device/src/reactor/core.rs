//! Completion words, without their devices: what waits for a stream's word, and when the reactor
//! may park. States and orderings are in `README.md`.

use std::collections::VecDeque;

use crate::sync::{AtomicBool, Fault, Mutex, Ordering, Thread, park, seeded};

/// The value in the word of a stream that has come to `point`. Points are counted over the stream's
/// whole life; words wrap around.
pub(crate) fn shown(point: u64) -> u32 {
    point as u32
}

/// Whether a stream whose word shows `value` has come to `point`. At most 2^31 - 1 points of a
/// stream may be outstanding.
pub(crate) fn reached(value: u32, point: u64) -> bool {
    if seeded(Fault::PlainCompare) {
        return u64::from(value) >= point;
    }
    value.wrapping_sub(shown(point)) as i32 >= 0
}

/// What waits for one stream's completion word, in the order of the points.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    queue: Mutex<VecDeque<(u64, T)>>,
}

impl<T> Waiting<T> {
    /// Nothing.
    pub(crate) fn new() -> Waiting<T> {
        Waiting { queue: Mutex::new(VecDeque::new()) }
    }

    /// Adds what waits for `point`, which must not be less than any point before.
    /// [`Parking::notify`] must follow.
    pub(crate) fn push(&self, point: u64, item: T) {
        self.queue.lock().push_back((point, item));
    }

    /// Takes out, from the front, what the word has reached and for which `is_ready` is true.
    pub(crate) fn take_done(&self, value: u32, is_ready: impl Fn(&T) -> bool) -> Vec<T> {
        let mut queue = self.queue.lock();
        let mut done = Vec::new();
        while let Some((point, item)) = queue.front() {
            if !reached(value, *point) || !is_ready(item) {
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
    /// The state for a reactor that is awake.
    pub(crate) fn new() -> Parking {
        Parking { parked: AtomicBool::new(false) }
    }

    /// To be called after each push.
    pub(crate) fn notify(&self, reactor: &Thread) {
        if self.parked.swap(false, Ordering::AcqRel) {
            reactor.unpark();
        }
    }

    /// To be called by the reactor after a sweep has left nothing. Parks until notified, unless
    /// something waits by now. May return early.
    pub(crate) fn park_unless(&self, something_waits: impl FnOnce() -> bool) {
        if seeded(Fault::ParkWithoutRecheck) {
            self.parked.store(true, Ordering::Release);
            return park();
        }
        // Whoever pushes after the check finds the mark: the queue's lock orders the mark before
        // that thread's `notify`.
        self.parked.store(true, Ordering::Release);
        if !something_waits() {
            park();
        }
        self.parked.store(false, Ordering::Relaxed);
    }
}
