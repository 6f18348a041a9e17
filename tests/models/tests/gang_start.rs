//! The start and the end of a gang, step by step as in `crates/millstream-flow/src/gang.rs` and
//! the kernels' side of it, under every interleaving: two kernels, one of which may not be
//! launched, a gang that is dropped meanwhile, and the gang after it.
//!
//! | here | there |
//! |---|---|
//! | `run`: the permit, the launches, what `finish` does | `Gang::launch_and_wait`, `Gang::finish` |
//! | `Permit`, of which each kernel's end has a share | `gang_permit`, `event.on_complete` |
//! | `Gang`, dropped | `StopOnDrop` |
//! | `Kernel::wait_for_start` | the same of `FusedService` in `fused_service.cuh` |
//! | `Word::Open`, `Stop`, `State` | `host_open`, `host_stop`, `gang_state` |
//! | `Kernel::must_stop`, `stop_all` | the same of `fused_service.cuh` |
//! | `Kernel::meet` | the first round of `GangBarrier::meet` and `gives_up` in `gang_barrier.cuh`, for kernels that have no other gate |
//!
//! A kernel is one thread. Its device's memory is plain, of which loom knows whether the next
//! gang uses it after it.

#![allow(clippy::unwrap_used)]

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use millstream_models::{fails_with, holds, is_seeded};

#[derive(Clone, Copy)]
enum Fault {
    /// The host opens the gate when it has launched the first kernel.
    OpenAfterTheFirst,
    /// The host forgets a gang of which a launch has failed, or that is dropped.
    NoStop,
    /// A kernel at the gate looks at nothing but whether it is open.
    GateWithoutStop,
    /// A kernel that finds the gate open goes on, whatever another one has said.
    RunThoughStopped,
    /// A kernel that waits for others looks at its own device's word alone.
    MeetWithoutStop,
    /// The permit ends with whoever runs the gang.
    PermitOfTheHost,
    /// The permit ends with the first of the kernels.
    PermitOfTheFirst,
}

fn seeded(fault: Fault) -> bool {
    is_seeded(fault as usize)
}

const KERNELS: usize = 2;
const WAITING_TO_START: u32 = 0;
const RUNNING: u32 = 1;
const STOPPED: u32 = 2;

/// What gangs of a context have in common.
#[derive(Default)]
struct Context {
    /// Somebody has the permit.
    is_taken: Mutex<bool>,
    given_back: Condvar,
    /// Of each device.
    memory: [UnsafeCell<u32>; KERNELS],
}

// SAFETY: loom checks each access to the memory.
unsafe impl Sync for Context {}
// SAFETY: as above.
unsafe impl Send for Context {}

impl Context {
    /// Does what a kernel does with its device's memory.
    fn use_memory(&self, place: usize) {
        // SAFETY: loom checks that no other gang's kernel does so meanwhile.
        self.memory[place].with_mut(|memory| unsafe { *memory += 1 });
    }
}

/// Ends with the last of its shares.
struct Permit(Arc<Context>);

impl Permit {
    fn wait(context: &Arc<Context>) -> Permit {
        let mut is_taken = context.is_taken.lock().unwrap();
        while *is_taken {
            is_taken = context.given_back.wait(is_taken).unwrap();
        }
        *is_taken = true;
        Permit(Arc::clone(context))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.is_taken.lock().unwrap() = false;
        self.0.given_back.notify_one();
    }
}

/// Words that the host and the kernels share.
#[derive(Clone, Copy)]
enum Word {
    Open,
    Stop,
    /// `gang_state` of a device.
    State(usize),
    /// The barrier's words of the first round, of a device: whether the other one has
    /// come, and whether the gang is stopped.
    Come(usize),
    Stopped(usize),
    /// Kernels launched.
    Launched,
}

impl Word {
    fn place(self) -> usize {
        match self {
            Word::Open => 0,
            Word::Stop => 1,
            Word::Launched => 2,
            Word::State(device) => 3 + device,
            Word::Come(device) => 3 + KERNELS + device,
            Word::Stopped(device) => 3 + 2 * KERNELS + device,
        }
    }
}

/// Looked at one by one, and in the order of one lock: what orders they need `gang_barrier/`
/// and `fused_termination.rs` show. Whoever polls sleeps until one has changed.
#[derive(Default)]
struct Words {
    /// And how often one was written.
    words: Mutex<([u32; 3 + 3 * KERNELS], usize)>,
    changed: Condvar,
}

impl Words {
    fn load(&self, word: Word) -> u32 {
        self.words.lock().unwrap().0[word.place()]
    }

    fn store(&self, word: Word, value: u32) {
        self.update(word, |_| value);
    }

    /// The value before.
    fn update(&self, word: Word, change: impl FnOnce(u32) -> u32) -> u32 {
        let mut words = self.words.lock().unwrap();
        let before = words.0[word.place()];
        words.0[word.place()] = change(before);
        words.1 += 1;
        self.changed.notify_all();
        before
    }

    /// Looks until `look` finds something, each time when a word has changed.
    fn poll<R>(&self, look: impl Fn() -> Option<R>) -> R {
        loop {
            let seen = self.words.lock().unwrap().1;
            if let Some(found) = look() {
                return found;
            }
            let mut words = self.words.lock().unwrap();
            while words.1 == seen {
                words = self.changed.wait(words).unwrap();
            }
        }
    }
}

/// Says that the kernels are to end when nobody waits for them any more.
struct Gang(Arc<Words>);

impl Drop for Gang {
    fn drop(&mut self) {
        if !seeded(Fault::NoStop) {
            self.0.store(Word::Stop, 1);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Gate {
    /// The host's word.
    Opened,
    /// The first round of the gang's barrier.
    Met,
}

struct Kernel {
    words: Arc<Words>,
    place: usize,
}

impl Kernel {
    fn run(&self, gate: Gate, context: &Context, finds_a_fault: bool) {
        let goes_on = match gate {
            Gate::Opened => self.wait_for_start(),
            Gate::Met => self.meet(),
        };
        if goes_on {
            assert_eq!(self.words.load(Word::Launched), KERNELS as u32, "not all are there");
            context.use_memory(self.place);
            if finds_a_fault {
                return self.stop_all();
            }
            // Kernels that meet end by themselves.
            if gate == Gate::Opened {
                self.words.poll(|| self.must_stop().then_some(()));
            }
        }
    }

    fn wait_for_start(&self) -> bool {
        let (words, state) = (&self.words, Word::State(self.place));
        let starts = words.poll(|| {
            if !seeded(Fault::GateWithoutStop) && words.load(Word::Stop) != 0 {
                return Some(false);
            }
            (words.load(Word::Open) != 0).then_some(true)
        });
        if !starts {
            words.store(state, STOPPED);
            return false;
        }
        let starts_from = |before| before == WAITING_TO_START || seeded(Fault::RunThoughStopped);
        let start = |before| if starts_from(before) { RUNNING } else { before };
        starts_from(words.update(state, start))
    }

    fn stop_all(&self) {
        (0..KERNELS).for_each(|device| self.words.store(Word::State(device), STOPPED));
    }

    fn must_stop(&self) -> bool {
        if self.words.load(Word::State(self.place)) == STOPPED {
            return true;
        }
        let host_stops = self.words.load(Word::Stop) != 0;
        if host_stops {
            self.stop_all();
        }
        host_stops
    }

    /// One block: it adds itself on the other device, and waits for the other one here.
    fn meet(&self) -> bool {
        let words = &self.words;
        words.store(Word::Come(1 - self.place), 1);
        words.poll(|| {
            if words.load(Word::Come(self.place)) != 0 {
                return Some(true);
            }
            if words.load(Word::Stopped(self.place)) != 0 {
                return Some(false);
            }
            if seeded(Fault::MeetWithoutStop) || words.load(Word::Stop) == 0 {
                return None;
            }
            (0..KERNELS).for_each(|device| words.store(Word::Stopped(device), 1));
            Some(false)
        })
    }
}

#[derive(Clone, Copy)]
struct Case {
    gate: Gate,
    /// Kernels whose launch succeeds.
    launched: usize,
    /// The first kernel's work ends with a fault, and the gang with it.
    finds_a_fault: bool,
    /// Nobody waits for the gang, which is dropped instead.
    is_dropped: bool,
}

/// Launches a gang's kernels, and gives it up or waits for it. The kernels may still run then.
fn run(context: &Arc<Context>, case: Case) -> Vec<thread::JoinHandle<()>> {
    let gang = Gang(Arc::new(Words::default()));
    let permit = Arc::new(Permit::wait(context));
    let mut kernels = Vec::new();
    for place in 0..case.launched {
        gang.0.update(Word::Launched, |launched| launched + 1);
        let kernel = Kernel { words: Arc::clone(&gang.0), place };
        let held_by_it =
            !seeded(Fault::PermitOfTheHost) && (place == 0 || !seeded(Fault::PermitOfTheFirst));
        let permit = held_by_it.then(|| Arc::clone(&permit));
        let context = Arc::clone(context);
        kernels.push(thread::spawn(move || {
            kernel.run(case.gate, &context, case.finds_a_fault && place == 0);
            // The event of its stream is complete.
            drop(permit);
        }));
        if seeded(Fault::OpenAfterTheFirst) {
            gang.0.store(Word::Open, 1);
        }
    }
    drop(permit);
    if case.launched == KERNELS {
        gang.0.store(Word::Open, 1);
        if !case.is_dropped {
            kernels.drain(..).for_each(|kernel| kernel.join().unwrap());
        }
    }
    kernels
}

/// A gang, and then the next one, which has the devices for itself.
fn and_the_next(case: Case) {
    let context = Arc::new(Context::default());
    let kernels = run(&context, case);
    let permit = Permit::wait(&context);
    (0..KERNELS).for_each(|place| context.use_memory(place));
    drop(permit);
    // Whoever stops to wait does not stop the kernels: they have to end.
    kernels.into_iter().for_each(|kernel| kernel.join().unwrap());
}

const OPENED: Case =
    Case { gate: Gate::Opened, launched: KERNELS, finds_a_fault: false, is_dropped: true };
const MET: Case = Case { gate: Gate::Met, ..OPENED };

fn a_gang_that_is_dropped() {
    and_the_next(OPENED);
}

fn a_gang_that_fails() {
    and_the_next(Case { finds_a_fault: true, is_dropped: false, ..OPENED });
}

fn a_launch_that_fails() {
    and_the_next(Case { launched: 1, ..OPENED });
}

fn a_gang_that_meets() {
    and_the_next(Case { is_dropped: false, ..MET });
}

fn a_gang_that_meets_and_is_dropped() {
    and_the_next(MET);
}

fn a_launch_that_fails_before_they_meet() {
    and_the_next(Case { launched: 1, ..MET });
}

#[test]
fn all_go_on_or_none() {
    holds(a_gang_that_is_dropped);
    holds(a_gang_that_meets_and_is_dropped);
}

#[test]
fn a_fault_of_one_ends_all() {
    holds(a_gang_that_fails);
}

#[test]
fn kernels_that_meet_need_no_other_gate() {
    holds(a_gang_that_meets);
}

#[test]
fn a_kernel_without_the_others_ends() {
    holds(a_launch_that_fails);
    holds(a_launch_that_fails_before_they_meet);
}

#[test]
fn a_gate_that_opens_early_is_caught() {
    fails_with(Fault::OpenAfterTheFirst as usize, a_launch_that_fails);
}

#[test]
fn a_gang_that_is_forgotten_is_caught() {
    fails_with(Fault::NoStop as usize, a_launch_that_fails);
}

#[test]
fn a_gate_that_does_not_look_at_the_stop_word_is_caught() {
    fails_with(Fault::GateWithoutStop as usize, a_launch_that_fails);
}

#[test]
fn meeting_without_the_stop_word_is_caught() {
    fails_with(Fault::MeetWithoutStop as usize, a_launch_that_fails_before_they_meet);
}

#[test]
fn running_though_another_has_stopped_all_is_caught() {
    fails_with(Fault::RunThoughStopped as usize, a_gang_that_fails);
}

#[test]
fn a_permit_that_ends_with_the_host_is_caught() {
    fails_with(Fault::PermitOfTheHost as usize, a_gang_that_is_dropped);
}

#[test]
fn a_permit_that_ends_with_one_kernel_is_caught() {
    fails_with(Fault::PermitOfTheFirst as usize, a_gang_that_is_dropped);
}
