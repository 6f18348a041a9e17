//! Launches of kernels that wait for each other, and what must not happen between them, step by
//! step as in `crates/millstream-device/src/launching.rs` and `cuda/settle.rs`, under every
//! interleaving: one thread launches two kernels, another gives memory back, which the driver
//! does only when no kernel runs, with its lock held; a third launches what is left to it.
//!
//! | here | there |
//! |---|---|
//! | `Process::launching`, the gate's reading side | `Launching::begin` |
//! | `Process::free`, its writing side | `while_nobody_launches` |
//! | `Process::settle` | `settle` of `cuda/settle.rs`; `submitter.rs` models it by itself |
//! | `Process::resume`, which asks nobody | `Lane::resume` with `Resuming`, which is `Inside` |
//! | `Driver::launch` | `cuLaunchKernel` |
//! | `Driver::free` | `cuMemFree`: waits for kernels that run, and holds up all other calls |
//!
//! A thread that is inside asks no more: the tests beside the code show that.

#![allow(clippy::unwrap_used)]

use loom::sync::{Arc, Condvar, Mutex, RwLock};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    /// Who gives memory back does not ask at the gate.
    FreeAtAnyTime,
    /// Who launches does not, either.
    LaunchAtAnyTime,
    /// Who launches leaves after the first launch.
    LeaveAfterTheFirst,
    /// Who gives memory back does not wait for what is left to a thread.
    FreeWithoutSettling,
    /// Who settles has not closed the gate: launches may be left after.
    SettleBeforeTheGate,
    /// The thread asks at the gate, where the one stands that waits for it.
    ResumeAtTheGate,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const KERNELS: usize = 2;

/// A process's calls come one after the other.
#[derive(Default)]
struct Driver {
    calls: Mutex<()>,
    /// Kernels launched: they end when all are.
    launched: Mutex<usize>,
    all_over: Condvar,
}

impl Driver {
    fn launch(&self) {
        let _call = self.calls.lock().unwrap();
        let mut launched = self.launched.lock().unwrap();
        *launched += 1;
        if *launched == KERNELS {
            self.all_over.notify_all();
        }
    }

    fn free(&self) {
        let _call = self.calls.lock().unwrap();
        let mut launched = self.launched.lock().unwrap();
        while !launched.is_multiple_of(KERNELS) {
            launched = self.all_over.wait(launched).unwrap();
        }
    }
}

#[derive(Default)]
struct Process {
    gate: RwLock<()>,
    driver: Driver,
    /// Launches that are left to the thread.
    left: Mutex<usize>,
    /// None is, or is being performed.
    settled: Condvar,
}

impl Process {
    fn launching<R>(&self, launch: impl FnOnce() -> R) -> R {
        let _inside = (!seeded(Fault::LaunchAtAnyTime)).then(|| self.gate.read().unwrap());
        launch()
    }

    fn free(&self) {
        if seeded(Fault::SettleBeforeTheGate) {
            self.settle();
        }
        let _alone = (!seeded(Fault::FreeAtAnyTime)).then(|| self.gate.write().unwrap());
        if !seeded(Fault::FreeWithoutSettling) && !seeded(Fault::SettleBeforeTheGate) {
            self.settle();
        }
        self.driver.free();
    }

    fn settle(&self) {
        let mut left = self.left.lock().unwrap();
        while *left > 0 {
            left = self.settled.wait(left).unwrap();
        }
    }

    fn leave(&self) {
        *self.left.lock().unwrap() += 1;
    }

    /// Launches what was left; whoever hears of that may launch, too.
    fn resume(&self) {
        self.driver.launch();
        if seeded(Fault::ResumeAtTheGate) {
            self.launching(|| ());
        }
        *self.left.lock().unwrap() -= 1;
        self.settled.notify_all();
    }
}

fn beside(process: &Arc<Process>, work: fn(&Process)) -> thread::JoinHandle<()> {
    let process = Arc::clone(process);
    thread::spawn(move || work(&process))
}

/// The caller launches both.
fn launches_and_frees() {
    let process = Arc::new(Process::default());
    let freeing = beside(&process, Process::free);
    if seeded(Fault::LeaveAfterTheFirst) {
        process.launching(|| process.driver.launch());
        process.driver.launch();
    } else {
        process.launching(|| (0..KERNELS).for_each(|_| process.driver.launch()));
    }
    freeing.join().unwrap();
}

/// The caller launches one, and leaves the other one to a thread.
fn leaves_and_frees() {
    let process = Arc::new(Process::default());
    let freeing = beside(&process, Process::free);
    let thread = process.launching(|| {
        process.driver.launch();
        process.leave();
        beside(&process, Process::resume)
    });
    freeing.join().unwrap();
    thread.join().unwrap();
}

#[test]
fn nothing_is_freed_between_two_launches() {
    holds(launches_and_frees);
}

#[test]
fn nothing_is_freed_before_what_is_left_is_launched() {
    holds(leaves_and_frees);
}

#[test]
fn freeing_at_any_time_is_caught() {
    fails_with(Fault::FreeAtAnyTime as usize, launches_and_frees);
}

#[test]
fn launching_at_any_time_is_caught() {
    fails_with(Fault::LaunchAtAnyTime as usize, launches_and_frees);
}

#[test]
fn leaving_after_the_first_launch_is_caught() {
    fails_with(Fault::LeaveAfterTheFirst as usize, launches_and_frees);
}

#[test]
fn freeing_without_settling_is_caught() {
    fails_with(Fault::FreeWithoutSettling as usize, leaves_and_frees);
}

#[test]
fn settling_before_the_gate_is_caught() {
    fails_with(Fault::SettleBeforeTheGate as usize, leaves_and_frees);
}

#[test]
fn a_thread_that_asks_at_the_gate_is_caught() {
    fails_with(Fault::ResumeAtTheGate as usize, leaves_and_frees);
}
