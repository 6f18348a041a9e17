//! What a lane has submitted, and the points of other lanes that it comes after.

use std::collections::HashMap;
use std::sync::Arc;

use super::pending::Held;
use crate::event::Event;
use crate::first_cause::FirstCause;

/// What a lane has submitted.
#[derive(Default)]
pub(super) struct Submission {
    /// The last point given out.
    pub(super) point: u64,
    /// Whether the last task given to the driver is a kernel that tells when it has come to that
    /// point, which nobody waits for yet.
    pub(super) tells: bool,
    pub(super) held: Vec<Held>,
    pub(super) after: Vec<(Event, Arc<FirstCause>)>,
    /// For each other lane, the last of its points that this lane is known to come after.
    passed: HashMap<usize, u64>,
}

impl Submission {
    /// Whether nothing has been submitted after this point.
    pub(super) fn is_over(&self, finished: u64) -> bool {
        self.point == finished && self.held.is_empty() && self.after.is_empty()
    }

    /// Whether this lane already comes after a point of another.
    pub(super) fn passes(&self, lane: usize, point: u64) -> bool {
        self.passed.get(&lane).is_some_and(|known| point <= *known)
    }

    /// The driver has taken the wait: from now on, this lane comes after that point.
    pub(super) fn passed(&mut self, lane: usize, point: u64) {
        self.passed.insert(lane, point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_far_ahead_are_waited_for() {
        let mut submission = Submission::default();
        assert!(!submission.passes(1, 5) && !submission.passes(1, 5));
        submission.passed(1, 5);
        assert!(submission.passes(1, 5) && submission.passes(1, 4));
        for far in [1 << 31, 3 << 30, 1 << 32, 1 << 40] {
            assert!(!submission.passes(1, far + 6), "{far}");
            submission.passed(1, far + 6);
            assert!(submission.passes(1, far) && !submission.passes(2, far));
        }
    }
}
