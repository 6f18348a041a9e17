//! Submissions behind events of host devices, without a GPU.

use std::sync::{Arc, mpsc};

use super::in_order::{InOrder, Step};
use crate::{DeviceList, DeviceSet, Event, EventStatus, Kernel, Stream, Value};

/// What the driver of a lane has been given, without a GPU.
struct Lane {
    submission: InOrder<Vec<String>, Operation>,
    /// Says what was submitted.
    said: mpsc::Sender<String>,
}

enum Operation {
    Run(&'static str),
    Wait(Event),
}

fn lane() -> (Arc<Lane>, mpsc::Receiver<String>) {
    let (said, hear) = mpsc::channel();
    (Arc::new(Lane { submission: InOrder::new(Vec::new()), said }), hear)
}

impl Lane {
    fn perform(&self, done: &mut Vec<String>, operation: Operation) -> Step<Operation, Event> {
        match operation {
            Operation::Run(name) => {
                done.push(name.to_string());
                self.said.send(name.to_string()).unwrap();
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
        event.on_complete(move |_| {
            let obstacle = lane.submission.resume(|done, it| lane.perform(done, it));
            lane.resume_after(obstacle);
        });
    }
}

/// An event of a host device that is over when the sender says so.
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
    let set = DeviceSet::builder().devices(DeviceList::host(2)).open().unwrap();
    let [first, second] = [0, 1].map(|device| gated(&set.devices()[device].stream().unwrap()));
    let ((open_first, first), (open_second, second)) = (first, second);
    let (lane, hear) = lane();
    lane.enter(Operation::Run("before"));
    assert_eq!(hear.recv().unwrap(), "before");
    assert!(!lane.submission.is_held_up());
    lane.enter(Operation::Wait(first.clone()));
    lane.enter(Operation::Run("behind the first"));
    lane.enter(Operation::Wait(second));
    // Over by the time it is met.
    lane.enter(Operation::Wait(first));
    lane.enter(Operation::Run("behind both"));
    assert!(lane.submission.is_held_up());
    assert!(hear.try_recv().is_err());
    open_first.send(()).unwrap();
    assert_eq!(hear.recv().unwrap(), "behind the first");
    assert!(lane.submission.is_held_up());
    assert!(hear.try_recv().is_err());
    open_second.send(()).unwrap();
    assert_eq!(hear.recv().unwrap(), "behind both");
    while lane.submission.is_held_up() {
        std::thread::yield_now();
    }
    lane.enter(Operation::Run("after"));
    assert_eq!(hear.recv().unwrap(), "after");
}
