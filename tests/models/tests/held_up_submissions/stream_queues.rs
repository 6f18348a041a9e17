//! Streams that share a lane, one of which waits for the host, step by step as in
//! `crates/millstream-device/src/cuda/stream_queue.rs`, over the production order of submissions, under
//! every interleaving: the event ends, while others go on and somebody waits until all is over.
//!
//! | here | there |
//! |---|---|
//! | `Stream::submit`, `Stream::resume` | `StreamQueue::submit`, `StreamQueue::pass_on` |
//! | `Lane::enter` | `Lane::enter` |
//! | `Lane::waiting` | `Lane::streams_waiting` |
//! | `Lane::is_idle` | `Lane::has_operations_waiting`, which `synchronize` and `is_idle` ask |

use std::convert::Infallible;

use loom::sync::Arc;
use loom::thread;
use millstream_models::{fails_with, holds};

use crate::in_order::{InOrder, Rest, Step};
use crate::sync::{AtomicUsize, Fault, Ordering, seeded};
use crate::{Event, Operation};

/// With what the driver has been given.
struct Lane {
    submission: InOrder<Vec<Operation>, Operation>,
    waiting: AtomicUsize,
}

impl Lane {
    fn enter(&self, operation: Operation) {
        let obstacle = self.submission.submit(operation, |given, operation| {
            given.push(operation);
            Step::<_, Infallible>::Done
        });
        assert!(obstacle.is_none());
    }

    fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0 && self.submission.outstanding() == 0
    }

    /// What the driver has been given, but for waits; nobody submits.
    fn given(&self) -> Vec<Operation> {
        self.submission
            .look(|given| given.iter().copied().filter(|it| *it != Operation::Wait).collect())
            .unwrap()
    }
}

struct Stream {
    lane: Arc<Lane>,
    operations: InOrder<(), Operation>,
    event: Event,
}

impl Stream {
    fn submit(&self, operation: Operation) {
        if self.operations.submit(operation, |(), it| self.perform(it)).is_some() {
            self.lane.waiting.fetch_add(1, Ordering::Relaxed);
            self.resume_after_the_event();
        }
    }

    fn perform(&self, operation: Operation) -> Step<Operation, ()> {
        let is_over = self.event.is_over();
        if operation == Operation::Wait && !is_over {
            return Step::HeldUp(operation, ());
        }
        assert!(is_over, "passed on before the event is over");
        self.lane.enter(operation);
        Step::Done
    }

    fn resume_after_the_event(&self) {
        if self.event.is_over_or_awaited() {
            self.resume();
        }
    }

    fn resume(&self) {
        if seeded(Fault::EndWaitingFirst) {
            self.lane.waiting.fetch_sub(1, Ordering::Release);
        }
        loop {
            let pass = |(): &mut (), it| self.perform(it);
            match self.operations.resume(|_, next| Some(next), |_| false, pass) {
                Rest::None if seeded(Fault::EndWaitingFirst) => return,
                Rest::None => {
                    self.lane.waiting.fetch_sub(1, Ordering::Release);
                    return;
                }
                Rest::More | Rest::Gathers => {}
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

/// One stream waits, another one does not; then somebody waits until all is over.
fn wait_and_go_on() {
    let submission = InOrder::new(Vec::new());
    let lane = Arc::new(Lane { submission, waiting: AtomicUsize::new(0) });
    let (operations, event) = (InOrder::new(()), Event::new(false));
    let stream = Arc::new(Stream { lane: Arc::clone(&lane), operations, event });
    stream.submit(Operation::Wait);
    stream.submit(Operation::Run(1));
    match seeded(Fault::HoldUpTheLane) {
        false => lane.enter(Operation::Run(3)),
        true => stream.submit(Operation::Run(3)),
    }
    // Whoever ends the event may depend on it.
    assert_eq!(lane.given(), [Operation::Run(3)]);
    let host = {
        let stream = Arc::clone(&stream);
        thread::spawn(move || stream.end_the_event())
    };
    stream.submit(Operation::Run(2));
    while !lane.is_idle() {
        thread::yield_now();
    }
    assert_eq!(lane.given(), [3, 1, 2].map(Operation::Run), "it is not all over");
    host.join().unwrap();
}

#[test]
fn other_streams_go_on_and_what_waits_comes_in_order_before_the_end() {
    holds(wait_and_go_on);
}

#[test]
fn a_lane_that_is_held_up_is_found() {
    fails_with(Fault::HoldUpTheLane as usize, wait_and_go_on);
}

#[test]
fn a_stream_that_no_longer_waits_too_early_is_found() {
    fails_with(Fault::EndWaitingFirst as usize, wait_and_go_on);
}

#[test]
fn an_operation_that_overtakes_in_its_stream_is_found() {
    fails_with(Fault::OvertakeTheHeldUp as usize, wait_and_go_on);
}
