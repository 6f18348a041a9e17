//! Shows at a terminal what a command is busy with.

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::trace::span;

/// Work shorter than this goes without a spinner.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two pictures of the spinner.
const TICK: Duration = Duration::from_millis(100);

/// Does some work. If it takes over a second, a spinner on standard error shows the
/// work's name and the time so far until it is done. If standard error is not a
/// terminal, nothing is written.
pub(crate) fn phase<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    let _span = span(name);
    if !std::io::stderr().is_terminal() {
        return work();
    }
    thread::scope(|scope| {
        // Dropped when the work is done or panics, which ends the spinner.
        let (_working, is_working) = channel::<()>();
        scope.spawn(move || spin(name, &is_working));
        let result = work();
        drop(_working);
        result
    })
}

fn spin(name: &'static str, is_working: &Receiver<()>) {
    let spinner = ProgressBar::new_spinner().with_message(name);
    // The template is valid; if it were not, the plain spinner would do.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        spinner.set_style(style);
    }
    let mut pause = PATIENCE;
    while is_working.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        spinner.tick();
        pause = TICK;
    }
    spinner.finish_and_clear();
}
