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

/// Whether devices run, which must be stopped before the command ends. The signal handler writes `PRESSED`
/// and then reads this; the thread that runs devices writes this and then reads `PRESSED`. All accesses
/// are `SeqCst`, in one total order, so at least one of the two sees the other's write.
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
    // Without a handler the signals end the process at once, which is acceptable.
    let _ = keep_ignored_hangup(|| ctrlc::set_handler(pressed));
}

/// While it divides a graph, METIS has its own handler of SIGTERM, which jumps into METIS from whatever
/// thread receives the signal. So SIGTERM is blocked in all threads (which inherit the signal mask of the
/// thread that starts them), except one that waits for it.
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

/// Ignores SIGXFSZ: exceeding the file-size limit is then an error for the writer, which removes the file.
#[cfg(unix)]
fn ignore_size_limit() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: nothing is called when the signal comes.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
}

/// Keeps SIGHUP ignored, whatever `listen` sets, if the command was started so, as by `nohup`.
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
        // Exiting runs no destructors, so unfinished files are discarded here.
        discard_unfinished(|| std::process::exit(EXIT_CODE.into()));
    }
    WAKER.wake();
}

/// Runs a future until it ends or Ctrl-C is pressed, which drops the future and so stops
/// the devices; a second Ctrl-C ends the process at once.
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
