//! Threads that submit kernels which wait for each other, those of a collective or of a
//! gang, side by side: each submission takes microseconds, and with one thread all wait for
//! as many times that as there are ranks.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_device::BoundKernel;

use crate::{Error, Result};

/// How long a thread looks for the next kernel before it sleeps: waking it takes longer
/// than most submissions.
const LOOKS: Duration = Duration::from_micros(100);

/// One thread for each rank but the first, whose kernel the caller submits.
pub(crate) struct Submitters {
    others: Vec<Submitter>,
}

struct Submitter {
    /// `None` ends the thread.
    kernels: Option<Sender<BoundKernel>>,
    results: Receiver<millstream_device::Result<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Submitters {
    pub(crate) fn new(ranks: usize) -> Submitters {
        Submitters { others: (1..ranks).map(|_| Submitter::new()).collect() }
    }

    /// Submits a kernel of each rank, and returns when all are submitted.
    ///
    /// # Errors
    /// The first rank's error; the others' kernels are submitted nevertheless.
    pub(crate) fn submit(&self, kernels: Vec<BoundKernel>) -> Result<()> {
        let mut kernels = kernels.into_iter();
        let first = kernels.next();
        let (mut busy, mut left) = (Vec::new(), Vec::new());
        for (submitter, kernel) in self.others.iter().zip(kernels) {
            match submitter.give(kernel) {
                None => busy.push(submitter),
                Some(kernel) => left.push(kernel),
            }
        }
        let mut result = first.map_or(Ok(()), |kernel| Ok(kernel.submit()?));
        for submitter in busy {
            let submitted = next(&submitter.results).map_or(Err(Error::Ended), |done| Ok(done?));
            result = result.and(submitted);
        }
        for kernel in left {
            result = result.and(kernel.submit().map_err(Error::from));
        }
        result
    }
}

impl Submitter {
    fn new() -> Submitter {
        let (kernels, incoming) = channel::<BoundKernel>();
        let (outgoing, results) = channel();
        let work = move || {
            while let Some(kernel) = next(&incoming) {
                if outgoing.send(kernel.submit()).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("submitter".to_string()).spawn(work).ok();
        Submitter { kernels: Some(kernels), results, thread }
    }

    /// Gives the thread a kernel, which comes back if there is none.
    fn give(&self, kernel: BoundKernel) -> Option<BoundKernel> {
        match &self.kernels {
            Some(kernels) => kernels.send(kernel).err().map(|error| error.0),
            None => Some(kernel),
        }
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        self.kernels = None;
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
