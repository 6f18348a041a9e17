//! Detects a host-driven run that stands still: if nothing is under way although items are
//! unaccounted for, no task would ever wake another. A run that is not polled may have been
//! woken already, so it does not count as standing still.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use millstream_device::Device;

use crate::coordinator::{Coordinator, Signals};
use crate::statistics::{Counter, Counters, DeviceStatistics};
use crate::{Error, Result};

/// Watches a run until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Never used to send: dropping it wakes the thread.
    _run: Sender<()>,
}

impl Watch {
    /// Watches from a thread of its own, which tells the coordinator when nothing has
    /// changed for `patience`.
    ///
    /// # Errors
    /// No thread.
    pub(crate) fn start(coordinator: &Arc<Coordinator>, patience: Duration) -> Result<Watch> {
        let (run, ended) = mpsc::channel::<()>();
        let coordinator = Arc::clone(coordinator);
        // Half: a process that was suspended for long has one more check's time to get going again.
        let pause = patience / 2;
        let watch = move || {
            let (mut known, mut looks, mut answers) = (None, 0, coordinator.answers());
            coordinator.ask();
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let now = coordinator.standstill();
                let before = std::mem::replace(&mut answers, coordinator.answers());
                let is_polled = answers != before;
                looks = if now.is_some() && now == known && is_polled { looks + 1 } else { 0 };
                known = now;
                if looks == 2 {
                    return coordinator.stall();
                }
                coordinator.ask();
            }
        };
        std::thread::Builder::new().name("millstream watch".to_string()).spawn(watch).map_err(
            |error| {
                let reason = error.to_string();
                Error::from(millstream_device::Error::Start { reason })
            },
        )?;
        Ok(Watch { _run: run })
    }
}

/// The error of a run that stands still, with the value of every counter.
pub(crate) fn stalled(coordinator: &Coordinator, devices: &[Device], patience: Duration) -> Error {
    let known = coordinator.counters.iter().zip(&coordinator.signals);
    let text = |(device, (known, signals)): (&Device, (&Counters, &Signals))| {
        // Relaxed: nothing changes any more.
        let words = [&signals.lowest_deferred, &signals.ready_entries, &signals.deferred_entries];
        let [lowest, ready, deferred] = words.map(|word| word.load(Ordering::Relaxed));
        let text = progress_text(device, known) + &traffic_text(known);
        format!("{text}, lowest deferred {lowest}, entries: {ready} ready, {deferred} deferred")
    };
    let counters = devices.iter().zip(known).map(text).collect();
    Error::Stalled { patience, threshold: coordinator.threshold(), counters }
}

/// How far a device has come, as the continuation of an error's text.
pub(crate) fn progress_text(device: &Device, known: &Counters) -> String {
    let [produced, consumed, deferred_in, deferred_out] =
        [Counter::Produced, Counter::Consumed, Counter::DeferredIn, Counter::DeferredOut]
            .map(|counter| known.get(counter));
    let work_items = known.statistics().work_items;
    format!(
        "; {device}: {produced} produced, {consumed} consumed, {deferred_in} deferred, \
         {deferred_out} of them brought back, {work_items} work items"
    )
}

/// What the device has exchanged with others. Kernels count that when they end.
pub(crate) fn traffic_text(known: &Counters) -> String {
    let DeviceStatistics { sent, received, kept, passed, dropped, filtered, .. } =
        known.statistics();
    format!(
        ", {sent} sent, {filtered} filtered, {received} received, of them {kept} kept, \
         {passed} passed on and {dropped} dropped"
    )
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::coordinator::ThresholdSteps;
    use crate::statistics::COUNTERS;

    const PATIENCE: Duration = Duration::from_millis(20);

    /// A run of one device that has produced `produced` items and consumed one less.
    fn run(produced: u64) -> Arc<Coordinator> {
        let coordinator = Arc::new(Coordinator::new(1, 0, ThresholdSteps::default()));
        report(&coordinator, produced);
        coordinator
    }

    fn report(coordinator: &Coordinator, produced: u64) {
        let mut words = [0; COUNTERS];
        words[Counter::Produced as usize] = produced;
        words[Counter::Consumed as usize] = produced - 1;
        coordinator.counters[0].update(words.into_iter());
    }

    /// Polls the run for so long.
    fn ends_in(coordinator: &Coordinator, wait: Duration) -> Option<bool> {
        for _ in 0..10 {
            if let Some(is_finished) = coordinator.over().now_or_never() {
                return Some(is_finished);
            }
            std::thread::sleep(wait / 10);
        }
        None
    }

    #[test]
    fn a_run_that_stands_still_is_ended() {
        let coordinator = run(7);
        let _watch = Watch::start(&coordinator, PATIENCE).unwrap();
        while coordinator.over().now_or_never().is_none() {
            std::thread::sleep(PATIENCE);
        }
        let context = millstream_flow::Context::builder();
        let context = context.devices(millstream_flow::Devices::host(1)).build().unwrap();
        let error = stalled(&coordinator, context.devices(), PATIENCE).to_string();
        for part in [
            "host:0: 7 produced, 6 consumed, 0 deferred, ",
            ", 0 work items, 0 sent, 0 filtered, 0 received, of them 0 kept, 0 passed on and 0 ",
            ", lowest deferred 0, entries: 0 ready, 0 deferred",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn a_run_that_nobody_polls_does_not_stand_still() {
        let coordinator = run(7);
        let _watch = Watch::start(&coordinator, PATIENCE).unwrap();
        std::thread::sleep(PATIENCE * 5);
        assert!(!coordinator.is_stalled());
    }

    #[test]
    fn a_run_with_a_kernel_under_way_goes_on() {
        let coordinator = run(7);
        let launch = coordinator.launch();
        let _watch = Watch::start(&coordinator, PATIENCE).unwrap();
        assert_eq!(ends_in(&coordinator, PATIENCE * 5), None);
        drop(launch);
    }

    #[test]
    fn a_run_whose_counters_grow_goes_on() {
        let coordinator = run(7);
        // Checks are an hour apart: none comes after these reports.
        let _watch = Watch::start(&coordinator, Duration::from_secs(7200)).unwrap();
        let before = coordinator.standstill();
        report(&coordinator, 8);
        assert_ne!(coordinator.standstill(), before);
    }

    #[test]
    fn a_run_that_has_ended_is_over() {
        let coordinator = Arc::new(Coordinator::new(1, 0, ThresholdSteps::default()));
        let watch = Watch::start(&coordinator, PATIENCE).unwrap();
        coordinator.check();
        assert_eq!(ends_in(&coordinator, Duration::ZERO), Some(true));
        drop(watch);
    }
}
