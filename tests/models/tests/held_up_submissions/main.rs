//! Submitting against the end of what a submission waits for: the production order
//! of submissions under every interleaving.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../../crates/millstream-device/src/cuda/in_order.rs"]
mod in_order;
mod stream_queues;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
    pub(crate) use millstream_models::Mutex;

    /// The faults of the production file, and of `stream_queues.rs`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        OvertakeTheHeldUp,
        OvertakeWhatIsUnderWay,
        LetGoLate,
        /// What has waited is passed on after the stream says that it no longer waits.
        EndWaitingFirst,
        /// What must come after the event is left to the lane, as everything behind it.
        HoldUpTheLane,
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use in_order::{InOrder, Rest, Step};
use loom::sync::Arc;
use loom::thread;
use millstream_models::{Mutex, fails_with, holds};
use sync::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Wait,
    Run(u32),
}

/// Something of the host.
struct Event(Mutex<Awaited>);

struct Awaited {
    is_over: bool,
    /// Somebody wants to hear that it is.
    is_awaited: bool,
}

impl Event {
    fn new(is_over: bool) -> Event {
        Event(Mutex::new(Awaited { is_over, is_awaited: false }))
    }

    fn is_over(&self) -> bool {
        self.0.lock().is_over
    }

    /// Whether it is over; if not, whoever ends it hears that somebody wants to know.
    fn is_over_or_awaited(&self) -> bool {
        let mut event = self.0.lock();
        event.is_awaited = !event.is_over;
        event.is_over
    }

    /// Ends it; whether somebody wants to hear.
    fn end(&self) -> bool {
        let mut event = self.0.lock();
        event.is_over = true;
        std::mem::take(&mut event.is_awaited)
    }
}

struct Lane {
    submission: InOrder<Vec<u32>, Operation>,
    event: Event,
    /// How often whoever resumes lets others join what nothing is behind.
    looks: Mutex<usize>,
}

impl Lane {
    fn new(event: Event, looks: usize) -> Arc<Lane> {
        let looks = Mutex::new(looks);
        Arc::new(Lane { submission: InOrder::new(Vec::new()), event, looks })
    }

    fn gathers(&self) -> bool {
        let mut looks = self.looks.lock();
        let gathers = *looks > 0;
        *looks -= usize::from(gathers);
        gathers
    }

    fn perform(&self, done: &mut Vec<u32>, operation: Operation) -> Step<Operation, ()> {
        match operation {
            Operation::Wait if !self.event.is_over() => Step::HeldUp(operation, ()),
            Operation::Wait => Step::Done,
            Operation::Run(number) => {
                assert!(self.event.is_over(), "submitted before the event is over");
                done.push(number);
                Step::Done
            }
        }
    }

    fn enter(&self, operation: Operation) {
        let obstacle = self.submission.submit(operation, |done, it| self.perform(done, it));
        if obstacle.is_some() {
            self.resume_after_the_event();
        }
    }

    fn resume_after_the_event(&self) {
        if self.event.is_over_or_awaited() {
            self.resume();
        }
    }

    fn resume(&self) {
        loop {
            // Runs of two that follow each other are one.
            let join = |first: &mut Operation, next| match (*first, next) {
                (Operation::Run(one), Operation::Run(other)) if one < 10 && other < 10 => {
                    *first = Operation::Run(one * 10 + other);
                    None
                }
                _ => Some(next),
            };
            let gathers = |_: &Operation| self.gathers();
            match self.submission.resume(join, gathers, |done, it| self.perform(done, it)) {
                Rest::None => return,
                Rest::More => {}
                Rest::Gathers => thread::yield_now(),
                Rest::HeldUp(()) => return self.resume_after_the_event(),
            }
        }
    }

    fn end_the_event(&self) {
        if self.event.end() {
            self.resume();
        }
    }
}

/// One thread submits a wait and what is behind it, while the event ends on another.
fn waits_and_runs() {
    let lane = Lane::new(Event::new(false), 0);
    let host = {
        let lane = Arc::clone(&lane);
        thread::spawn(move || lane.end_the_event())
    };
    for operation in [Operation::Wait, Operation::Run(1), Operation::Run(2)] {
        lane.enter(operation);
    }
    host.join().unwrap();
    assert_eq!(lane.submission.outstanding(), 0);
    // Alone now: what was submitted, in which order.
    let seen = lane.submission.submit(Operation::Wait, |done, _| {
        assert!(*done == [1, 2] || *done == [12]);
        Step::<_, ()>::Done
    });
    assert!(seen.is_none());
}

/// A thread is left operations, while whoever leaves them submits others.
fn leaves_and_runs() {
    leaves(0);
}

/// The same, and the thread lets what comes join what it has.
fn leaves_and_gathers() {
    leaves(1);
}

fn leaves(looks: usize) {
    let lane = Lane::new(Event::new(true), looks);
    let resume = |lane: &Arc<Lane>| {
        let lane = Arc::clone(lane);
        thread::spawn(move || lane.resume())
    };
    let mut threads = Vec::new();
    for operation in [Operation::Run(1), Operation::Run(2)] {
        threads.extend(lane.submission.leave(operation, || ()).0.map(|()| resume(&lane)));
    }
    lane.enter(Operation::Run(34));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(lane.submission.outstanding(), 0);
    let seen = lane.submission.submit(Operation::Wait, |done, _| {
        assert!(*done == [1, 2, 34] || *done == [12, 34]);
        Step::<_, ()>::Done
    });
    assert!(seen.is_none());
}

/// Whoever holds an operation begins it, while another thread submits more.
fn holds_and_runs() {
    let lane = Lane::new(Event::new(false), 0);
    assert!(lane.submission.hold(Operation::Run(34)));
    let other = {
        let lane = Arc::clone(&lane);
        thread::spawn(move || lane.enter(Operation::Run(1)))
    };
    // Who settles does not wait for what is held.
    assert!(lane.submission.has_performed(1));
    // What is performed before this is not over.
    assert!(!lane.event.end());
    lane.resume();
    other.join().unwrap();
    assert_eq!(lane.submission.outstanding(), 0);
    let seen = lane.submission.submit(Operation::Wait, |done, _| {
        assert!(*done == [34, 1]);
        Step::<_, ()>::Done
    });
    assert!(seen.is_none());
}

#[test]
fn what_is_held_is_submitted_when_it_is_begun() {
    holds(holds_and_runs);
}

#[test]
fn an_operation_that_overtakes_one_that_is_held_is_found() {
    fails_with(Fault::OvertakeTheHeldUp as usize, holds_and_runs);
}

#[test]
fn what_is_left_to_a_thread_is_submitted_once_and_in_order() {
    holds(leaves_and_runs);
}

#[test]
fn what_gathers_is_submitted_once_and_in_order() {
    holds(leaves_and_gathers);
}

#[test]
fn an_operation_that_overtakes_one_under_way_is_found() {
    fails_with(Fault::OvertakeWhatIsUnderWay as usize, leaves_and_runs);
}

#[test]
fn what_is_held_up_is_submitted_once_and_in_order() {
    holds(waits_and_runs);
}

#[test]
fn an_operation_that_overtakes_is_found() {
    fails_with(Fault::OvertakeTheHeldUp as usize, waits_and_runs);
}
