//! What a lane has submitted, and which points of others it comes after.

use std::collections::HashMap;
use std::sync::Arc;

use super::pending::Held;
use crate::event::Event;
use crate::first_cause::FirstCause;

/// What has been submitted.
#[derive(Default)]
pub(super) struct Submission {
    /// The last point given out.
    pub(super) point: u64,
    /// Whether the last that the driver was given is a kernel that says itself when it has come to that
    /// point, for which nobody waits yet.
    pub(super) tells: bool,
    pub(super) held: Vec<Held>,
    pub(super) after: Vec<(Event, Arc<FirstCause>)>,
    /// Points of other lanes that this one comes after already.
    passed: HashMap<usize, u64>,
}

impl Submission {
    /// Whether nothing has been submitted after this point.
    pub(super) fn is_over(&self, finished: u64) -> bool {
        self.point == finished && self.held.is_empty() && self.after.is_empty()
    }

    /// Whether the lane comes after a point of another.
    pub(super) fn passes(&self, lane: usize, point: u64) -> bool {
        self.passed.get(&lane).is_some_and(|known| point <= *known)
    }

    /// It does from now on: the driver has taken the wait.
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
