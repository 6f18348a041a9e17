//! The course of a search that twins share, and where they meet.
//!
//! Meetings are counted: `come` has, for each device, the meetings that it has come to; `met` is the
//! number of meetings that all have come to. A device whose `come` exceeds `met` waits. The last device to
//! come to a meeting, alone, advances the course, counts the meeting and rings the bell (unless there is
//! only one device). All of this happens with the lock held, except the steps, and the ring, which comes
//! after the lock is released: a device that looked too early had asked for the bell's number before it
//! looked, so the ring reaches it. The lock also publishes: what a device did before it came is visible
//! to the one that advances the course, and what that one did to those that go on. The model is
//! `tests/models/tests/twin_meetings.rs`.

use std::sync::Arc;

use crate::sync::{Bell, Fault, Mutex, seeded};

/// The course (what all devices do until they meet again), and which devices have come.
#[derive(Debug)]
pub(crate) struct SharedCourse<C> {
    state: Mutex<State<C>>,
    bell: Arc<Bell>,
}

#[derive(Debug)]
struct State<C> {
    course: C,
    /// Meetings so far.
    met: u64,
    /// For each device, how many meetings it has come to.
    come: Vec<u64>,
    /// Nothing is left to do, or no one waits for the search any more.
    is_over: bool,
}

/// How a twin's call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// There is nothing more to do.
    Over,
    /// Nothing to do now; the bell rings when there is.
    Waits,
}

impl<C: Clone> SharedCourse<C> {
    pub(crate) fn new(devices: usize, course: C, bell: Arc<Bell>) -> SharedCourse<C> {
        let state = State { course, met: 0, come: vec![0; devices], is_over: false };
        SharedCourse { state: Mutex::new(state), bell }
    }

    /// One call of a device's twin, on the calling thread: one `step` before each meeting, until it would
    /// have to wait for others, must `leave`, or the search is over.
    ///
    /// # Errors
    /// Those of `step`; the device then does not come to the next meeting.
    pub(crate) fn call<E>(
        &self,
        here: usize,
        leave: impl Fn() -> bool,
        mut step: impl FnMut(&C) -> Result<(), E>,
        advance: impl Fn(&mut C) -> bool,
    ) -> Result<Called, E> {
        loop {
            let course = match self.look(here) {
                Ok(course) => course,
                Err(called) => return Ok(called),
            };
            if leave() {
                // The ring has the twin called again at once.
                if !seeded(Fault::LeaveWithoutRing) {
                    self.bell.ring();
                }
                return Ok(Called::Waits);
            }
            step(&course)?;
            self.come(here, &advance);
        }
    }

    /// The course, if the device may go on.
    fn look(&self, here: usize) -> Result<C, Called> {
        let state = self.state.lock();
        match () {
            () if state.is_over => Err(Called::Over),
            () if state.come[here] > state.met => Err(Called::Waits),
            () => Ok(state.course.clone()),
        }
    }

    fn come(&self, here: usize, advance: impl Fn(&mut C) -> bool) {
        let is_alone = {
            let mut state = self.state.lock();
            state.come[here] += 1;
            let is_last = state.come.iter().all(|&come| come > state.met);
            if !is_last && !seeded(Fault::MeetWithoutOthers) {
                return;
            }
            if seeded(Fault::RingBeforeMeeting) {
                drop(state);
                self.bell.ring();
                state = self.state.lock();
            }
            state.met += 1;
            state.is_over |= !advance(&mut state.course);
            state.come.len() == 1
        };
        if !is_alone && !seeded(Fault::RingBeforeMeeting) {
            self.bell.ring();
        }
    }

    /// How far the devices have come.
    pub(crate) fn course(&self) -> C {
        self.state.lock().course.clone()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().is_over
    }
}

/// Held while someone waits for the search: dropping it ends the search.
pub(crate) struct Waiting<'a, C>(pub(crate) &'a SharedCourse<C>);

impl<C> Drop for Waiting<'_, C> {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        if !seeded(Fault::EndWithoutRing) {
            self.0.bell.ring();
        }
    }
}
