//! Decides, on the host, what happens when nothing is ready: raise the priority
//! threshold or end \[G §4.3, §4.4\].

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::notify::Notify;
use crate::statistics::{Counter, Counters};
use crate::termination::nothing_ready;

/// What a device's tasks wait for.
#[derive(Debug)]
pub(crate) struct Signals {
    /// There may be ready items, or deferred ones to bring back.
    pub(crate) worker: Notify,
    /// One for each outbox: it may have items.
    pub(crate) outboxes: Vec<Notify>,
    /// The worker has yet to bring back deferred items up to the latest threshold.
    pub(crate) undefer: AtomicBool,
    /// The lowest priority that this device has deferred; of no meaning if not above the threshold.
    pub(crate) lowest_deferred: AtomicU64,
    /// About how many entries its queues of ready and of deferred items have.
    pub(crate) ready_entries: AtomicU64,
    pub(crate) deferred_entries: AtomicU64,
}

/// The view of all devices that ends a run.
#[derive(Debug)]
pub(crate) struct Coordinator {
    /// The counters of each device, as of the reports that the host has read.
    pub(crate) counters: Vec<Counters>,
    pub(crate) signals: Vec<Signals>,
    launches: Launches,
    threshold: AtomicU32,
    steps: ThresholdSteps,
    /// How many items had been processed when the threshold last fell back to its first step; changed under
    /// `deciding`.
    worked_there: AtomicU64,
    /// How many devices have yet to bring back items for the latest threshold.
    undeferring: AtomicUsize,
    finished: AtomicBool,
    stalled: AtomicBool,
    /// Raised when `finished` or `stalled` is set, and by `ask`, to see whether the run is polled.
    over: Notify,
    /// How often the run has taken `over` down.
    answers: AtomicU64,
    deciding: Mutex<()>,
}

/// How the threshold moves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThresholdSteps {
    /// The step, not 0; `None` runs everything at once.
    pub(crate) delta: Option<u32>,
    /// Falls back to the first step after this many items; `None`: never.
    pub(crate) falls_after: Option<u64>,
}

impl ThresholdSteps {
    /// The threshold at the start.
    pub(crate) fn first(self) -> u32 {
        self.delta.map_or(u32::MAX, |delta| delta - 1)
    }
}

/// Kernels launched, and kernels whose reports the host has read.
#[derive(Debug, Default)]
struct Launches {
    begun: AtomicU64,
    over: AtomicU64,
}

/// A kernel whose report the host has not read.
#[derive(Debug)]
pub(crate) struct Launch<'a>(&'a Launches);

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        // Release: the report has been taken in before; pairs with `nothing_ready`.
        self.0.over.fetch_add(1, Ordering::AcqRel);
    }
}

impl Coordinator {
    pub(crate) fn new(devices: usize, outboxes: usize, steps: ThresholdSteps) -> Coordinator {
        let signals = (0..devices).map(|_| Signals {
            worker: Notify::default(),
            outboxes: (0..outboxes).map(|_| Notify::default()).collect(),
            undefer: AtomicBool::new(false),
            lowest_deferred: AtomicU64::new(0),
            ready_entries: AtomicU64::new(0),
            deferred_entries: AtomicU64::new(0),
        });
        let signals = signals.collect();
        Coordinator {
            counters: (0..devices).map(|_| Counters::default()).collect(),
            signals,
            launches: Launches::default(),
            threshold: AtomicU32::new(steps.first()),
            steps,
            worked_there: AtomicU64::new(0),
            undeferring: AtomicUsize::new(0),
            finished: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            over: Notify::default(),
            answers: AtomicU64::new(0),
            deciding: Mutex::new(()),
        }
    }

    /// Items whose priority value is higher than this are deferred.
    pub(crate) fn threshold(&self) -> u32 {
        // Acquire: pairs with the release in `move_threshold`, which publishes nothing else by it.
        self.threshold.load(Ordering::Acquire)
    }

    /// Whether the run is over.
    pub(crate) fn is_finished(&self) -> bool {
        // Acquire: pairs with the release in `finish`.
        self.finished.load(Ordering::Acquire)
    }

    /// Waits for the end of the run; false if it stands still.
    pub(crate) async fn over(&self) -> bool {
        while !self.is_finished() && !self.is_stalled() {
            self.over.notified().await;
            // Relaxed: only the count matters.
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
        self.is_finished()
    }

    /// Wakes the run, which answers when it is polled; by then it has also seen to all else that woke it.
    pub(crate) fn ask(&self) {
        self.over.notify();
    }

    /// A number that grows when the run answers.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Whether the run stands still.
    pub(crate) fn is_stalled(&self) -> bool {
        // Acquire: pairs with the release in `stall`.
        self.stalled.load(Ordering::Acquire)
    }

    /// Says that the run stands still.
    pub(crate) fn stall(&self) {
        // Release: pairs with the acquire in `is_stalled`.
        self.stalled.store(true, Ordering::Release);
        self.over.notify();
    }

    /// A number that grows with everything that happens; `None` while a kernel is under
    /// way, which may take any time.
    pub(crate) fn standstill(&self) -> Option<u64> {
        // The same order of acquire loads as in `nothing_ready`.
        let over = self.launches.over.load(Ordering::Acquire);
        let counted: u64 = self.counters.iter().map(Counters::total).sum();
        let begun = self.launches.begun.load(Ordering::Acquire);
        (begun == over).then_some(counted + begun)
    }

    /// Says that a kernel is about to be launched.
    pub(crate) fn launch(&self) -> Launch<'_> {
        // Precedes everything the kernel does; pairs with the last load in `nothing_ready`.
        self.launches.begun.fetch_add(1, Ordering::AcqRel);
        Launch(&self.launches)
    }

    /// Whether nothing is ready anywhere. The host's counters equal the devices' only if no kernel
    /// runs while they are read: that is, if the number of kernels over, read before the counters,
    /// equals the number begun, read after them.
    fn nothing_ready(&self) -> bool {
        // Acquire: pairs with the release at the end of a `Launch`, so that the reports of all kernels
        // that are over are in the counters. The counters are read with acquire, so `begun` is read last.
        let over = self.launches.over.load(Ordering::Acquire);
        nothing_ready(&self.counters) && self.launches.begun.load(Ordering::Acquire) == over
    }

    /// A device has brought back its items up to the threshold.
    pub(crate) fn undeferred(&self) {
        // Release: pairs with the acquires in `check`; the report has been taken in before.
        self.undeferring.fetch_sub(1, Ordering::AcqRel);
    }

    /// Checks whether anything is ready anywhere. If not, moves the threshold to the
    /// next step that has work, or back to the first step, or ends the run. Called after
    /// every kernel that consumes items.
    pub(crate) fn check(&self) {
        // Acquire, here and below: pairs with the release in `undeferred`.
        if self.is_finished() || self.undeferring.load(Ordering::Acquire) > 0 {
            return;
        }
        if !self.nothing_ready() {
            return;
        }
        let _one = self.deciding.lock();
        // Another task may have moved the threshold in the meantime.
        if self.undeferring.load(Ordering::Acquire) > 0 || !self.nothing_ready() {
            return;
        }
        let deferred = |counters: &Counters| {
            // Only this task moves items out of deferral now.
            counters.get(Counter::DeferredIn).saturating_sub(counters.get(Counter::DeferredOut))
        };
        match self.counters.iter().map(deferred).sum::<u64>() {
            0 => self.finish(),
            _ => self.move_threshold(),
        }
    }

    fn finish(&self) {
        // Release: pairs with the acquire in `is_finished`.
        self.finished.store(true, Ordering::Release);
        self.over.notify();
        for signals in &self.signals {
            signals.worker.notify();
            signals.outboxes.iter().for_each(Notify::notify);
        }
    }

    /// Moves the threshold, and tells the devices to bring back their deferred items up to it.
    fn move_threshold(&self) {
        // The next step that has work; or the first one, for items that have become urgent meanwhile.
        let threshold = if self.falls() { self.steps.first() } else { self.next_step() };
        self.threshold.store(threshold, Ordering::Release);
        self.undeferring.store(self.signals.len(), Ordering::Release);
        for signals in &self.signals {
            // Release: pairs with the worker's acquire; publishes both stores above.
            signals.undefer.store(true, Ordering::Release);
            signals.worker.notify();
        }
    }

    /// Whether enough has been done since the threshold was at its first step for it to fall back.
    fn falls(&self) -> bool {
        let Some(falls_after) = self.steps.falls_after else { return false };
        let items = |counters: &Counters| counters.get(Counter::WorkItems);
        let worked = self.counters.iter().map(items).sum::<u64>();
        // Relaxed: under the lock.
        let falls = worked - self.worked_there.load(Ordering::Relaxed) >= falls_after;
        if falls {
            self.worked_there.store(worked, Ordering::Relaxed);
        }
        falls
    }

    /// The end of the lowest step above the threshold that has an item deferred.
    fn next_step(&self) -> u32 {
        let threshold = u64::from(self.threshold());
        // Relaxed: stored with the reports, which `nothing_ready` has acquired.
        let lowest = self.signals.iter().map(|own| own.lowest_deferred.load(Ordering::Relaxed));
        let lowest = lowest.filter(|lowest| *lowest > threshold).min();
        let lowest = lowest.and_then(|lowest| u32::try_from(lowest).ok()).unwrap_or(u32::MAX);
        step_end(lowest, self.steps.delta.unwrap_or(u32::MAX))
    }
}

/// The last priority of the step that `priority` lies in.
pub(crate) fn step_end(priority: u32, delta: u32) -> u32 {
    (priority / delta).saturating_mul(delta).saturating_add(delta - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::COUNTERS;

    #[test]
    fn the_threshold_rises_and_falls_back_after_so_many_items() {
        let steps = |falls_after| ThresholdSteps { delta: Some(10), falls_after };
        // Items processed so far, and the lowest priority deferred; then the threshold.
        for (steps, moves) in [
            (steps(None), &[(50, 34, 39), (500, 47, 49), (501, 62, 69)][..]),
            (
                steps(Some(100)),
                &[
                    (50, 34, 39),
                    (99, 47, 49),
                    (100, 52, 9),
                    (100, 31, 39),
                    (199, 66, 69),
                    (200, 71, 9),
                ],
            ),
            (steps(Some(1)), &[(0, 34, 39), (1, 47, 9), (1, 34, 39), (1, 47, 49)]),
        ] {
            let coordinator = Coordinator::new(1, 0, steps);
            assert_eq!(coordinator.threshold(), 9);
            for &(worked, lowest, threshold) in moves {
                let mut words = [0; COUNTERS];
                words[Counter::WorkItems as usize] = worked;
                words[Counter::Consumed as usize] = worked;
                words[Counter::Produced as usize] = worked + 1;
                words[Counter::DeferredIn as usize] = 1;
                coordinator.counters[0].update(words.into_iter());
                coordinator.signals[0].lowest_deferred.store(lowest, Ordering::Relaxed);
                coordinator.check();
                assert_eq!(coordinator.threshold(), threshold, "{steps:?} after {worked}");
                assert!(coordinator.signals[0].undefer.swap(false, Ordering::Acquire));
                coordinator.undeferred();
            }
        }
    }
}
