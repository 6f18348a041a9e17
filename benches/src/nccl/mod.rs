//! NCCL's collectives, timed like Millstream's: on the same GPUs, in the same process.

use std::ffi::c_int;
use std::panic::resume_unwind;
use std::path::Path;
use std::process;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crate::collective::{Collective, Element};
use library::Library;
use rank::Rank;

pub use error::{Error, Result};
pub use series::Series;

mod check;
mod error;
mod library;
mod rank;
mod series;

/// Communicators of all ranks, each with a stream and vectors on its GPU.
pub struct Nccl<T: Element> {
    library: Library,
    version: String,
    ranks: Vec<Rank<T>>,
    /// Items that fit into each of a rank's vectors.
    capacity: usize,
    /// How many ranks a thread submits for.
    ranks_of_thread: usize,
}

impl<T: Element> std::fmt::Debug for Nccl<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Nccl({}, {} ranks)", self.version, self.ranks.len())
    }
}

impl<T: Element> Nccl<T> {
    /// NCCL of this file on devices of these names, for vectors of up to `len` items.
    /// A thread for each GPU submits, or, `grouped`, one for all. Whether the results of
    /// all collectives are right is checked.
    ///
    /// # Errors
    /// No such library, not all are GPUs, failures of NCCL, wrong results.
    pub fn load(path: &Path, devices: &[String], len: usize, grouped: bool) -> Result<Nccl<T>> {
        // If multicast is on, a failing program may take GPUs out of service.
        if std::env::var_os("NCCL_NVLS_ENABLE").is_none_or(|value| value != "0") {
            return Err(Error::Multicast);
        }
        let ordinals = devices.iter().map(|name| ordinal(name)).collect::<Result<Vec<_>>>()?;
        let library = Library::load(path)?;
        let version = library.version()?;
        let version = format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100);
        let capacity = len.max(check::len(ordinals.len()));
        let ranks = ordinals.iter().map(|ordinal| Rank::new(*ordinal, capacity));
        let mut ranks = ranks.collect::<Result<Vec<_>>>()?;
        for (rank, communicator) in ranks.iter_mut().zip(library.communicators(&ordinals)?) {
            rank.communicator = communicator;
        }
        let ranks_of_thread = if grouped { ranks.len() } else { 1 };
        let mut nccl = Nccl { library, version, ranks, capacity, ranks_of_thread };
        nccl.check()?;
        nccl.ranks.iter().try_for_each(|rank| rank.clear(capacity))?;
        Ok(nccl)
    }

    /// Such as 2.28.9.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Seconds of one operation, after one that is not counted. The clock starts when the
    /// last thread does, so that no rank's late start is NCCL's.
    ///
    /// A rank that fails ends the program: the others' operations would wait for it for ever.
    ///
    /// # Panics
    /// Vectors longer than `load` was told.
    pub fn seconds(&mut self, collective: Collective, series: Series) -> f64 {
        assert!(series.len <= self.capacity, "NCCL's vectors are shorter than {}", series.len);
        let nccl = &*self;
        let parts = nccl.ranks.chunks(nccl.ranks_of_thread);
        let ready = Barrier::new(parts.len());
        let run = |part| {
            nccl.run(part, collective, series, &ready).unwrap_or_else(|error| {
                eprintln!("{error}");
                process::exit(1)
            })
        };
        let run = &run;
        let times: Vec<(Instant, Instant)> = thread::scope(|scope| {
            let threads: Vec<_> =
                parts.enumerate().map(|part| scope.spawn(move || run(part))).collect();
            let times = threads.into_iter().map(|thread| thread.join());
            times.map(|times| times.unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        let start = times.iter().map(|(start, _)| *start).max();
        let end = times.iter().map(|(_, end)| *end).max();
        let seconds = start.zip(end).map_or(0.0, |(start, end)| (end - start).as_secs_f64());
        seconds / series.rounds.max(1) as f64
    }

    /// The work of one thread, for some ranks. Returns when its operations began, and when they were over.
    fn run(
        &self,
        (number, ranks): (usize, &[Rank<T>]),
        collective: Collective,
        series: Series,
        ready: &Barrier,
    ) -> Result<(Instant, Instant)> {
        let first = number * self.ranks_of_thread;
        let submit = || {
            ranks.iter().enumerate().try_for_each(|(place, rank)| {
                let operands = rank.operands((first + place, self.ranks.len()), series.len);
                // SAFETY: `seconds` has checked the vectors' length; they live until the wait
                // below, after which nothing is submitted.
                unsafe { self.library.submit(collective, &operands) }
            })
        };
        let submit = || if ranks.len() == 1 { submit() } else { self.library.group(submit) };
        let wait = || ranks.iter().try_for_each(Rank::wait);
        ranks.iter().try_for_each(Rank::bind)?;
        // The first operation of a kind connects the ranks.
        submit()?;
        wait()?;
        ready.wait();
        let start = Instant::now();
        for _ in 0..series.rounds {
            submit()?;
            if series.awaited {
                wait()?;
            }
        }
        wait()?;
        Ok((start, Instant::now()))
    }
}

impl<T: Element> Drop for Nccl<T> {
    fn drop(&mut self) {
        for rank in &self.ranks {
            // SAFETY: all streams have ended. There is nothing to do about a failure.
            let _ = unsafe { self.library.destroy(rank.communicator) };
        }
    }
}

/// The number in a GPU's name, such as `cuda:3`.
fn ordinal(device: &str) -> Result<c_int> {
    let number = device.strip_prefix("cuda:").and_then(|number| number.parse().ok());
    number.ok_or_else(|| Error::NotAGpu { device: device.to_string() })
}
