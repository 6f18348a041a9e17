//! How the twins of a search meet: the production course, and the production bell, under every
//! interleaving. A thread stands for what calls a twin: again after each ring, as a stream does.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../crates/millstream-device/src/bell.rs"]
mod bell;
#[path = "../../../crates/millstream-traversal/src/shared_course.rs"]
mod shared_course;
mod sync {
    pub(crate) use crate::bell::Bell;
    pub(crate) use millstream_models::Mutex;

    /// The faults of the production files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        WaitWithoutNumber,
        MeetWithoutOthers,
        RingBeforeMeeting,
        LeaveWithoutRing,
        EndWithoutRing,
    }

    /// What panics here, the model has found.
    pub(crate) fn contain(work: impl FnOnce()) {
        work();
    }

    pub(crate) fn seeded(fault: Fault) -> bool {
        millstream_models::is_seeded(fault as usize)
    }
}

use std::cell::Cell;

use bell::Bell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;
use millstream_models::{fails_with, holds};
use shared_course::{Called, SharedCourse, Waiting};
use sync::Fault;

const MEETINGS: u32 = 2;

/// A search that goes on for some meetings, and what each device has counted.
struct Search {
    shared: SharedCourse<u32>,
    bell: std::sync::Arc<Bell>,
    counts: Vec<AtomicU32>,
}

/// What a device does in a step, and when its twin leaves.
#[derive(Clone, Copy)]
struct Twin {
    here: usize,
    /// So many steps of a call are done before the twin leaves.
    most_steps: u32,
    /// The step that fails.
    fails_at: u32,
}

impl Search {
    fn new(devices: usize) -> Arc<Search> {
        let bell = std::sync::Arc::new(Bell::default());
        let shared = SharedCourse::new(devices, 0, std::sync::Arc::clone(&bell));
        let counts = (0..devices).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Search { shared, bell, counts })
    }

    /// Relaxed: the meetings publish.
    fn all_have_counted(&self, round: u32) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) >= round)
    }

    fn call(&self, twin: Twin) -> Result<Called, ()> {
        let steps = Cell::new(0);
        let step = |&round: &u32| {
            if round == twin.fails_at {
                return Err(());
            }
            assert!(self.all_have_counted(round), "somebody has not come");
            steps.set(steps.get() + 1);
            let count = &self.counts[twin.here];
            assert_eq!(count.load(Ordering::Relaxed), round, "a step twice");
            count.store(round + 1, Ordering::Relaxed);
            Ok(())
        };
        let advance = |round: &mut u32| {
            *round += 1;
            assert!(self.all_have_counted(*round), "somebody has not come");
            *round < MEETINGS
        };
        self.shared.call(twin.here, || steps.get() == twin.most_steps, step, advance)
    }

    /// Calls a twin until it is done. Whether it was.
    fn run(&self, twin: Twin) -> bool {
        loop {
            let seen = self.bell.rings();
            match self.call(twin) {
                Err(()) => return false,
                Ok(Called::Over) => return true,
                Ok(Called::Waits) => {}
            }
            let rung = Arc::new(Notify::new());
            let told = Arc::clone(&rung);
            self.bell.at_next(seen, move || told.notify());
            rung.wait();
        }
    }
}

fn search(devices: usize, most_steps: u32) {
    let search = Search::new(devices);
    let twin = move |here| Twin { here, most_steps, fails_at: u32::MAX };
    let others: Vec<_> = (1..devices)
        .map(|here| {
            let search = Arc::clone(&search);
            thread::spawn(move || assert!(search.run(twin(here))))
        })
        .collect();
    assert!(search.run(twin(0)));
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(search.shared.course(), MEETINGS);
    assert!(search.shared.is_over() && search.all_have_counted(MEETINGS));
}

fn together() {
    search(2, u32::MAX);
}

/// Each leaves after every step.
fn with_others_of_a_thread() {
    search(2, 1);
}

/// It meets nobody, so that only its own ring calls it again.
fn alone_with_others_of_a_thread() {
    search(1, 1);
}

/// One fails, of which the host hears, which then waits no more.
fn one_fails() {
    let search = Search::new(2);
    let other = {
        let search = Arc::clone(&search);
        let twin = Twin { here: 1, most_steps: u32::MAX, fails_at: u32::MAX };
        thread::spawn(move || assert!(search.run(twin)))
    };
    let waiting = Waiting(&search.shared);
    assert!(!search.run(Twin { here: 0, most_steps: u32::MAX, fails_at: 1 }));
    drop(waiting);
    other.join().unwrap();
}

#[test]
fn all_do_every_step_before_anybody_goes_on() {
    holds(together);
}

#[test]
fn who_leaves_is_called_again() {
    holds(with_others_of_a_thread);
    holds(alone_with_others_of_a_thread);
}

#[test]
fn who_fails_ends_it_for_all() {
    holds(one_fails);
}

#[test]
fn a_meeting_without_others_is_caught() {
    fails_with(Fault::MeetWithoutOthers as usize, together);
}

#[test]
fn a_ring_before_the_meeting_is_caught() {
    fails_with(Fault::RingBeforeMeeting as usize, together);
}

#[test]
fn who_leaves_without_a_ring_is_caught() {
    fails_with(Fault::LeaveWithoutRing as usize, alone_with_others_of_a_thread);
}

#[test]
fn an_end_that_nobody_hears_of_is_caught() {
    fails_with(Fault::EndWithoutRing as usize, one_fails);
}

#[test]
fn a_ring_that_is_missed_is_caught() {
    fails_with(Fault::WaitWithoutNumber as usize, together);
}
