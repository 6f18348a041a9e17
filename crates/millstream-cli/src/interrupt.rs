//! Ctrl-C, and the signals SIGTERM and SIGHUP: they stop the devices first, then end the command
//! with exit code 130.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{self, Poll};

use futures_util::future::{Either, select};
use futures_util::task::AtomicWaker;
use millstream::flow::Context;
use millstream::graph::write::discard_unfinished;

use crate::error::Error;
use crate::remark::remark;

/// Exit code of a command that was interrupted.
pub(crate) const EXIT_CODE: u8 = 130;

/// Whether devices run, which must be stopped before the command ends. Whoever presses writes `PRESSED`
/// and looks here, whoever ends the run the other way round: in one order of all (`SeqCst`), so that
/// one of the two sees the other.
static RUNNING: AtomicBool = AtomicBool::new(false);
static PRESSED: AtomicBool = AtomicBool::new(false);
static WAKER: AtomicWaker = AtomicWaker::new();

/// Listens to Ctrl-C, SIGTERM and SIGHUP from now on.
pub(crate) fn listen() {
    // Before there is any other thread.
    #[cfg(unix)]
    wait_for_termination();
    #[cfg(unix)]
    ignore_size_limit();
    // Without a handler they end the process at once, which is as well.
    let _ = keep_ignored_hangup(|| ctrlc::set_handler(pressed));
}

/// While it divides a graph, METIS has a handler of SIGTERM of its own, which jumps to where it is,
/// from whatever thread the signal comes to. So it comes to none, but for one that waits for it:
/// threads begin with the signals blocked that are so where they are started.
#[cfg(unix)]
fn wait_for_termination() {
    use nix::sys::signal::{SigSet, Signal};
    let signals = SigSet::from_iter([Signal::SIGTERM]);
    if signals.thread_block().is_err() {
        return;
    }
    let thread = std::thread::Builder::new().name("termination".to_string());
    let waits = thread.spawn(move || {
        while signals.wait().is_ok() {
            pressed();
        }
    });
    if waits.is_err() {
        // As without it.
        let _ = signals.thread_unblock();
    }
}

/// A file that may not become larger is an error of whoever writes it, who leaves nothing of it.
#[cfg(unix)]
fn ignore_size_limit() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: nothing is called when the signal comes.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
}

/// `nohup` starts commands that ignore SIGHUP, as this one does then, whatever `listen` sets.
#[cfg(unix)]
fn keep_ignored_hangup<E>(listen: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: nothing is called when a signal comes that is ignored, or that ends the process.
    let set = |handler| unsafe { signal(Signal::SIGHUP, handler) };
    let before = set(SigHandler::SigIgn);
    let result = listen();
    match before {
        Ok(SigHandler::SigIgn) => drop(set(SigHandler::SigIgn)),
        _ if result.is_err() => drop(set(SigHandler::SigDfl)),
        _ => {}
    }
    result
}

#[cfg(not(unix))]
fn keep_ignored_hangup<E>(listen: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    listen()
}

fn pressed() {
    let pressed_before = PRESSED.swap(true, Ordering::SeqCst);
    if pressed_before || !RUNNING.load(Ordering::SeqCst) {
        remark(Error::Interrupted);
        // Nothing is dropped.
        discard_unfinished(|| std::process::exit(EXIT_CODE.into()));
    }
    WAKER.wake();
}

/// Runs a future until it ends or Ctrl-C is pressed, which drops it and so stops
/// the devices; pressed again, it ends the process at once.
pub(crate) fn run_interruptibly<F: Future>(
    context: &Context,
    future: F,
) -> Result<F::Output, Error> {
    let future = std::pin::pin!(future);
    RUNNING.store(true, Ordering::SeqCst);
    let result = context.block_on(select(future, std::future::poll_fn(poll_pressed)));
    RUNNING.store(false, Ordering::SeqCst);
    match result? {
        Either::Left((output, _)) if !PRESSED.load(Ordering::SeqCst) => Ok(output),
        _ => Err(Error::Interrupted),
    }
}

fn poll_pressed(context: &mut task::Context<'_>) -> Poll<()> {
    WAKER.register(context.waker());
    match PRESSED.load(Ordering::Acquire) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }
}
