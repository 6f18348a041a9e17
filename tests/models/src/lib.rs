//! What the models of Millstream's protocols share.
//!
//! Some models include the production file with `#[path]` and bring a `sync` module
//! of loom's types in place of the production one. The others, those of CUDA headers
//! among them, repeat the production code step by step and map the steps to it at
//! their beginning. A model has two kinds of test: the protocol [`holds`], and with
//! a seeded fault it [`fails_with`] that fault, so that the model is known to look.

use std::process::Command;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Loom's mutex with the guard returned directly, as the production one does.
#[derive(Debug)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A free mutex.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    /// Waits for the mutex.
    ///
    /// # Panics
    /// If a thread panicked with the mutex held.
    #[allow(clippy::unwrap_used)]
    pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

const PREEMPTIONS: usize = 3;
const NO_FAULT: usize = usize::MAX;
const CHILD: &str = "MILLSTREAM_MODEL_WITH_FAULT";

static FAULT: AtomicUsize = AtomicUsize::new(NO_FAULT);

/// Whether the running model has seeded this fault.
pub fn is_seeded(fault: usize) -> bool {
    FAULT.load(Ordering::Relaxed) == fault
}

/// Runs `protocol` under every interleaving of at most three preemptions, or of
/// `LOOM_MAX_PREEMPTIONS`.
///
/// # Panics
/// If some interleaving fails.
pub fn holds(protocol: impl Fn() + Sync + Send + 'static) {
    explore(PREEMPTIONS, protocol);
}

/// The same of at most two: a model in which three take half a minute.
///
/// # Panics
/// If some interleaving fails.
pub fn holds_within_two(protocol: impl Fn() + Sync + Send + 'static) {
    explore(2, protocol);
}

/// Runs `protocol` with a seeded fault, which some interleaving must show; in a
/// child process, because a deadlock found by loom may abort.
///
/// # Panics
/// If no interleaving fails.
pub fn fails_with(fault: usize, protocol: impl Fn() + Sync + Send + 'static) {
    if std::env::var_os(CHILD).is_some() {
        FAULT.store(fault, Ordering::Relaxed);
        return explore(PREEMPTIONS, protocol);
    }
    let test = std::thread::current().name().unwrap_or_default().to_string();
    let child = std::env::current_exe().and_then(|program| {
        Command::new(program).args([&test, "--exact", "--nocapture"]).env(CHILD, "1").output()
    });
    let caught = child.as_ref().is_ok_and(|child| {
        let said = String::from_utf8_lossy(&child.stderr);
        !child.status.success() && said.contains("panicked")
    });
    assert!(caught, "the seeded fault was not found: {child:?}");
}

fn explore(preemptions: usize, protocol: impl Fn() + Sync + Send + 'static) {
    // Each interleaving maps stacks anew, for which the threads of a process wait for each other: two
    // models at once take longer than one after the other.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // Loom looks for `LOOM_MAX_PREEMPTIONS`.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(preemptions));
    model.check(protocol);
}
