//! How long twins and the host wait for each other; GPUs look at the time themselves.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::Context;
use crate::sync::Mutex;

/// How long to wait; for ever on simulated devices, whose deadlocks are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience(Option<Duration>);

impl Patience {
    /// A patience of `most` on the devices of a context.
    pub(crate) fn new(context: &Context, most: Duration) -> Patience {
        let is_simulated = context.device_set().simulation().is_some();
        Patience((!is_simulated).then_some(most))
    }

    /// Whether a wait that began at `since` has lasted for too long.
    pub(crate) fn is_over(self, since: Instant) -> bool {
        self.0.is_some_and(|most| since.elapsed() >= most)
    }

    /// When a wait that begins now will have lasted for too long, if ever.
    pub(crate) fn deadline(self) -> Option<Instant> {
        Instant::now().checked_add(self.0?)
    }
}

/// What a launch's twins, which do not block, wait for, and since when. A wait, and its patience,
/// begins when something is first missed, as on GPUs.
#[derive(Debug)]
pub(crate) struct Waits<W>(Mutex<HashMap<W, Instant>>);

impl<W> Default for Waits<W> {
    fn default() -> Waits<W> {
        Waits(Mutex::default())
    }
}

impl<W: Eq + Hash> Waits<W> {
    /// Notes that something was missed. Returns since when.
    pub(crate) fn missed(&self, what: W) -> Instant {
        *self.0.lock().entry(what).or_insert_with(Instant::now)
    }

    /// Notes that it was there: the next wait for it begins anew.
    pub(crate) fn met(&self, what: &W) {
        self.0.lock().remove(what);
    }
}
