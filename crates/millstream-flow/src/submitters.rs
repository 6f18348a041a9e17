//! Threads that submit kernels and record events of all ranks of a collective side by side:
//! each call takes microseconds, and with one thread all wait for as many times that as there
//! are ranks.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// How long a thread looks for what comes next before it sleeps: waking it takes longer
/// than most calls.
const LOOKS: Duration = Duration::from_micros(200);

type Work = Box<dyn FnOnce() + Send>;

/// One thread for each rank but the first, whose calls are the caller's.
#[derive(Debug)]
pub(crate) struct Submitters {
    others: Vec<Submitter>,
}

#[derive(Debug)]
struct Submitter {
    /// `None` ends the thread.
    work: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl Submitters {
    pub(crate) fn new(ranks: usize) -> Submitters {
        Submitters { others: (1..ranks).map(|_| Submitter::new()).collect() }
    }

    /// Makes the calls of all ranks, and returns what they return, in the order of the
    /// ranks.
    ///
    /// # Errors
    /// A call has panicked.
    pub(crate) fn run<R: Send + 'static>(
        &self,
        calls: impl IntoIterator<Item = impl FnOnce() -> R + Send + 'static>,
    ) -> Result<Vec<R>> {
        let (outgoing, incoming) = channel();
        let mut calls = calls.into_iter().enumerate().map(|(rank, call)| {
            let outgoing = outgoing.clone();
            // Whoever waits for it is there until all have answered or gone.
            let work = move || drop(outgoing.send((rank, call())));
            Box::new(work) as Work
        });
        let first = calls.next();
        let left: Vec<Work> =
            self.others.iter().zip(calls).filter_map(|(other, work)| other.give(work)).collect();
        drop(outgoing);
        first.into_iter().chain(left).for_each(|work| work());
        let mut results: Vec<(usize, R)> = std::iter::from_fn(|| next(&incoming)).collect();
        results.sort_by_key(|(rank, _)| *rank);
        match results.len() <= self.others.len() {
            true => Err(Error::Ended),
            false => Ok(results.into_iter().map(|(_, result)| result).collect()),
        }
    }
}

impl Submitter {
    fn new() -> Submitter {
        let (work, incoming) = channel::<Work>();
        let run = move || std::iter::from_fn(|| next(&incoming)).for_each(|work| work());
        let thread = std::thread::Builder::new().name("submitter".to_string()).spawn(run).ok();
        Submitter { work: Some(work), thread }
    }

    /// Gives the thread work, which comes back if there is none.
    fn give(&self, work: Work) -> Option<Work> {
        match &self.work {
            Some(sender) => sender.send(work).err().map(|error| error.0),
            None => Some(work),
        }
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // What it panicked with has been reported.
            let _ = thread.join();
        }
    }
}

/// The next message, looked for before the thread sleeps; `None` after the last.
fn next<T>(messages: &Receiver<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        match messages.try_recv() {
            Ok(message) => return Some(message),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if start.elapsed() > LOOKS => return messages.recv().ok(),
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
}
