//! Submissions behind events of host devices, without a GPU.

use std::sync::{Arc, mpsc};

use super::in_order::{InOrder, Rest, Step};
use crate::{DeviceList, DeviceSet, Event, EventStatus, Kernel, Stream, Value};

/// Stands for the driver of a lane: what it has been given, without a GPU.
struct Lane {
    submission: InOrder<Vec<String>, Operation>,
    /// Receives what was submitted.
    said: mpsc::Sender<String>,
}

enum Operation {
    Run(Vec<&'static str>),
    Wait(Event),
}

fn lane() -> (Arc<Lane>, mpsc::Receiver<String>) {
    let (said, hear) = mpsc::channel();
    (Arc::new(Lane { submission: InOrder::new(Vec::new()), said }), hear)
}

impl Lane {
    fn perform(&self, done: &mut Vec<String>, operation: Operation) -> Step<Operation, Event> {
        match operation {
            Operation::Run(names) => {
                done.push(names.join(", "));
                self.said.send(names.join(", ")).unwrap();
            }
            Operation::Wait(event) if event.status() == EventStatus::Pending => {
                return Step::HeldUp(Operation::Wait(event.clone()), event);
            }
            Operation::Wait(_) => {}
        }
        Step::Done
    }

    fn enter(self: &Arc<Self>, operation: Operation) {
        let obstacle = self.submission.submit(operation, |done, it| self.perform(done, it));
        self.resume_after(obstacle);
    }

    fn resume_after(self: &Arc<Self>, obstacle: Option<Event>) {
        let Some(event) = obstacle else { return };
        let lane = Arc::clone(self);
        event.on_complete(move |_| lane.resume());
    }

    fn resume(self: &Arc<Self>) {
        self.resume_while(|| false);
    }

    /// Others may join an operation that nothing is behind, as long as `gathers` says so.
    fn resume_while(self: &Arc<Self>, mut gathers: impl FnMut() -> bool) {
        loop {
            let gathers = |_: &Operation| gathers();
            match self.submission.resume(join, gathers, |done, it| self.perform(done, it)) {
                Rest::None => return,
                Rest::More | Rest::Gathers => {}
                Rest::HeldUp(event) => return self.resume_after(Some(event)),
            }
        }
    }
}

/// Merges up to three runs into one.
fn join(first: &mut Operation, next: Operation) -> Option<Operation> {
    match (first, next) {
        (Operation::Run(names), Operation::Run(more)) if names.len() < 3 => {
            names.extend(more);
            None
        }
        (_, next) => Some(next),
    }
}

/// An event of a host device that is over once the sender says so.
fn gated(stream: &Stream) -> (mpsc::Sender<()>, Event) {
    let (open, gate) = mpsc::channel();
    let gate = std::sync::Mutex::new(gate);
    let kernel = Kernel::<(Value<u32>,)>::from_closure("gate", move |_, _| {
        let _ = gate.lock().map(|gate| gate.recv());
        Ok(())
    });
    kernel.launch(stream, 1, (0,)).unwrap();
    (open, stream.record().unwrap())
}

#[test]
fn nothing_behind_an_event_of_the_host_is_submitted_before_it() {
    let set = DeviceSet::builder().devices(DeviceList::host(2)).build().unwrap();
    let [first, second] = [0, 1].map(|device| gated(&set.devices()[device].stream().unwrap()));
    let ((open_first, first), (open_second, second)) = (first, second);
    let (lane, hear) = lane();
    lane.enter(Operation::Run(vec!["before"]));
    assert_eq!(hear.recv().unwrap(), "before");
    assert_eq!(lane.submission.outstanding(), 0);
    lane.enter(Operation::Wait(first.clone()));
    lane.enter(Operation::Run(vec!["behind the first"]));
    lane.enter(Operation::Wait(second));
    // It is over by the time the lane comes to it.
    lane.enter(Operation::Wait(first));
    lane.enter(Operation::Run(vec!["behind both"]));
    assert!(lane.submission.outstanding() > 0);
    assert!(hear.try_recv().is_err());
    open_first.send(()).unwrap();
    assert_eq!(hear.recv().unwrap(), "behind the first");
    assert!(lane.submission.outstanding() > 0);
    assert!(hear.try_recv().is_err());
    open_second.send(()).unwrap();
    assert_eq!(hear.recv().unwrap(), "behind both");
    while lane.submission.outstanding() > 0 {
        std::thread::yield_now();
    }
    lane.enter(Operation::Run(vec!["after"]));
    assert_eq!(hear.recv().unwrap(), "after");
}

#[test]
fn what_is_left_to_a_thread_is_joined_and_comes_before_what_follows() {
    let set = DeviceSet::builder().devices(DeviceList::host(1)).build().unwrap();
    let (open, event) = gated(&set.devices()[0].stream().unwrap());
    let (lane, hear) = lane();
    assert_eq!(lane.submission.leave(Operation::Run(vec!["1"]), || ()), (Some(()), 1));
    for name in ["2", "3", "4"] {
        assert!(lane.submission.leave(Operation::Run(vec![name]), || ()).0.is_none());
    }
    lane.enter(Operation::Wait(event));
    lane.enter(Operation::Run(vec!["5"]));
    assert!(lane.submission.is_behind(5) && !lane.submission.is_behind(6));
    assert!(hear.try_recv().is_err());
    lane.resume();
    let said: Vec<String> = hear.try_iter().collect();
    assert_eq!(said, ["1, 2, 3", "4"]);
    // An operation that is held up does not count as behind.
    assert!(lane.submission.outstanding() == 2 && !lane.submission.is_behind(0));
    open.send(()).unwrap();
    assert_eq!(hear.recv().unwrap(), "5");
    while lane.submission.outstanding() > 0 {
        std::thread::yield_now();
    }
    assert!(lane.submission.leave(Operation::Run(vec!["6"]), || ()).0.is_some());
}

#[test]
fn what_gathers_waits_for_others_to_join_unless_something_is_behind() {
    let (lane, hear) = lane();
    let leave = |name| lane.submission.leave(Operation::Run(vec![name]), || ()).0;
    assert!(leave("1").is_some());
    let mut looks = 0;
    lane.resume_while(|| {
        looks += 1;
        assert!(hear.try_recv().is_err(), "submitted while it gathers");
        // One joins at the first look, another at the second; then the operation is full.
        if looks < 3 {
            assert!(leave(["2", "3"][looks - 1]).is_none());
        }
        looks < 3
    });
    assert_eq!((looks, hear.try_iter().collect::<Vec<_>>()), (3, vec!["1, 2, 3".to_string()]));
    assert_eq!(lane.submission.outstanding(), 0);
    // All operations that were merged count once the merged one is performed.
    assert!(lane.submission.has_performed(3) && !lane.submission.has_performed(4));

    for name in ["4", "5", "6", "7"] {
        let _ = leave(name);
    }
    lane.resume_while(|| {
        assert_eq!(hear.try_recv().unwrap(), "4, 5, 6", "something was behind");
        false
    });
    assert_eq!(hear.try_recv().unwrap(), "7");
}

#[test]
fn what_is_held_comes_before_what_follows_when_it_is_begun() {
    let (lane, hear) = lane();
    assert!(lane.submission.hold(Operation::Run(vec!["1"])));
    assert!(!lane.submission.hold(Operation::Run(vec!["2"])));
    lane.enter(Operation::Run(vec!["3"]));
    assert!(hear.try_recv().is_err());
    // Nobody waits for one that has not begun.
    assert!(lane.submission.has_performed(3) && !lane.submission.is_behind(0));
    lane.resume();
    assert_eq!(hear.try_iter().collect::<Vec<_>>(), ["1, 2, 3"]);
    assert_eq!(lane.submission.outstanding(), 0);
}
