//! The rounds of one device. Each is a launch of `process`; where it is worth it, the next round is
//! launched before the host has heard of the previous one.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use futures_util::FutureExt;
use millstream_device::{Completion, Parameter, SharedBuffer};
use millstream_flow::Result;

use crate::common::Common;
use crate::coordinator::Launch;
use crate::program::Program;
use crate::solver::{ReadyNews, Solver, Task};

/// The fewest threads to process with, unless a batch is smaller: some for each multiprocessor of a GPU.
const HUB_THREADS: usize = 1 << 15;

/// The most rounds that a GPU has under way at a time.
const MOST_ROUNDS: usize = 2;

/// A launch of `process` that the host has not heard of.
struct Round<'a> {
    launch: Launch<'a>,
    completion: Completion,
    report: &'a SharedBuffer<u64>,
    undefers: bool,
}

/// What the task that launches a device's rounds hears next.
enum Heard {
    /// The first round is over.
    Over,
    /// There are items for the device, or the run is over.
    Signal,
}

impl<P: Program> Solver<P> {
    /// Processes ready items until the run is over.
    pub(crate) async fn work(&self, task: Task) -> Result<()> {
        let reports: [_; MOST_ROUNDS] = [self.report()?, self.report()?];
        let (mut rounds, mut launched) = (VecDeque::new(), 0);
        let (mut wanted, mut is_signalled) = (0, false);
        loop {
            // Rounds launched just before the run was over do nothing; wait for them, and end.
            let (most, is_finished) = (self.most_rounds(), self.coordinator.is_finished());
            if is_finished && rounds.is_empty() {
                return Ok(());
            }
            while !is_finished && rounds.len() < most && (is_signalled || rounds.len() < wanted) {
                is_signalled = false;
                // The last round that used this report has been heard of.
                rounds.push_back(self.round(&task, &reports[launched % MOST_ROUNDS])?);
                launched += 1;
            }
            match self.hear(rounds.front_mut()).await? {
                Heard::Signal => is_signalled = true,
                Heard::Over => {
                    if let Some(round) = rounds.pop_front() {
                        wanted = self.end(round)?;
                    }
                }
            }
        }
    }

    /// Launches `process`.
    fn round<'a>(&'a self, task: &Task, report: &'a SharedBuffer<u64>) -> Result<Round<'a>> {
        let kernels = &self.device.kernels;
        let launch = self.coordinator.launch();
        // Acquire: pairs with the release in `move_threshold`, so the threshold read next is the new one:
        // with an older one nothing would be brought back.
        let undefers = self.signals().undefer.swap(false, Ordering::AcqRel);
        let threshold = self.coordinator.threshold();
        let signals = self.signals();
        let mut entries = hint(&signals.ready_entries);
        if undefers {
            let deferred = hint(&signals.deferred_entries);
            let (threads, arguments) =
                (self.threads(deferred), (self.common(task, report), threshold));
            kernels.undefer.bind(&task.stream, threads, arguments)?.submit_soon()?;
            entries = entries.saturating_add(deferred);
        }
        let arguments = (self.common(task, report), self.batch, threshold);
        let process = kernels.process.bind(&task.stream, self.threads(entries), arguments)?;
        const { assert!(<Common<P> as Parameter>::TELLS, "of rounds the host hears early") };
        Ok(Round { launch, completion: process.submit_soon_with_completion()?, report, undefers })
    }

    /// Waits until the first round is over, or there is a signal.
    async fn hear(&self, first: Option<&mut Round<'_>>) -> Result<Heard> {
        let mut over = first.map(|round| &mut round.completion);
        let signal = self.signals().worker.notified();
        let mut signal = std::pin::pin!(signal);
        poll_fn(|context| {
            if let Some(Poll::Ready(over)) = over.as_mut().map(|over| over.poll_unpin(context)) {
                return Poll::Ready(over.map(|()| Heard::Over));
            }
            signal.poll_unpin(context).map(|()| Ok(Heard::Signal))
        })
        .await
        .map_err(Into::into)
    }

    /// Takes in the report of a round. Returns how many rounds should be under way now.
    fn end(&self, round: Round<'_>) -> Result<usize> {
        let Round { launch, report, undefers, .. } = round;
        let ReadyNews(is_ready) = self.take_in(report, launch)?;
        if undefers {
            self.coordinator.undeferred();
        }
        self.coordinator.check();
        let is_thin = wanted_threads(hint(&self.signals().ready_entries)) <= HUB_THREADS;
        Ok(match is_ready {
            // The next round and one ahead: a round of few items takes less time than the host needs to
            // hear of it and to launch another.
            true if is_thin => MOST_ROUNDS,
            true => 1,
            false => 0,
        })
    }

    /// One for host devices: their twins go on from round to round by themselves.
    fn most_rounds(&self) -> usize {
        if self.device.device.is_gpu() { MOST_ROUNDS } else { 1 }
    }

    /// The number of threads wanted for `entries`, within limits: any number is correct, and even a single
    /// item may be a hub with arcs for many threads.
    fn threads(&self, entries: usize) -> usize {
        let most = self.batch as usize;
        wanted_threads(entries).clamp(HUB_THREADS.min(most), most)
    }
}

/// A quarter of a warp for each queued item: this spreads items over the device, and they have several
/// arcs each.
fn wanted_threads(entries: usize) -> usize {
    entries.saturating_mul(8)
}

/// About how many entries there are: the host's number may be out of date.
fn hint(entries: &AtomicU64) -> usize {
    // Relaxed: a hint.
    entries.load(Ordering::Relaxed) as usize
}
