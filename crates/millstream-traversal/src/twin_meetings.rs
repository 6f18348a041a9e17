//! Searches whose devices go from phase to phase together, on host devices: twins do what a gang's kernels
//! do between barriers, and meet where kernels have a barrier. A twin must not block its thread, which
//! others may need, so one that comes to a meeting early returns, and is called again when the last has
//! come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use millstream_device::{Device, KernelFault, KernelResult, Step, Stream};
use millstream_flow::Context;

use crate::shared_course::{Called, SharedCourse, Waiting};

/// How long a twin goes on before it gives up its thread for other work: say, for a search during which
/// this one was begun.
const TURN: Duration = Duration::from_millis(1);

/// Where the twins of a search meet. They and the host share the course of the search: how far it has
/// come, and so what all devices do until they meet again.
#[derive(Debug)]
pub struct TwinMeetings<C> {
    course: SharedCourse<C>,
    /// `None` in a simulation, whose runs must not depend on a clock.
    turn: Option<Duration>,
}

impl<C: Clone + Send> TwinMeetings<C> {
    /// For all devices of a context, with the course at its beginning.
    pub fn new(context: &Context, course: C) -> Arc<TwinMeetings<C>> {
        TwinMeetings::of(context, context.devices().len(), course)
    }

    /// The same, for the first `devices` devices only.
    pub(crate) fn of(context: &Context, devices: usize, course: C) -> Arc<TwinMeetings<C>> {
        let set = context.device_set();
        let course = SharedCourse::new(devices, course, Arc::clone(set.bell()));
        Arc::new(TwinMeetings { course, turn: set.simulation().is_none().then_some(TURN) })
    }

    /// What the twin of a device does: one `step` before each meeting. The last twin to come calls
    /// `advance`, which says whether the search goes on. What the steps before a meeting have written is
    /// visible to `advance`, and to the steps after it.
    ///
    /// # Errors
    /// Those of `step`. The other twins end when the host has learned of the error.
    pub fn run_twin(
        &self,
        here: usize,
        step: impl FnMut(&C) -> KernelResult,
        advance: impl Fn(&mut C) -> bool,
    ) -> Result<Step, KernelFault> {
        let start = Instant::now();
        let is_long = || self.turn.is_some_and(|turn| start.elapsed() > turn);
        let called = self.course.call(here, is_long, step, advance)?;
        Ok(match called {
            Called::Over => Step::Done,
            Called::Waits => Step::Waits,
        })
    }

    /// How far the devices have come.
    pub fn course(&self) -> C {
        self.course.course()
    }

    /// Whether the search is over: for long steps to ask as they go.
    pub fn is_over(&self) -> bool {
        self.course.is_over()
    }

    /// Launches the twin of each device by `launch`, on these streams, and waits for all of them.
    ///
    /// # Errors
    /// Those of `launch`; a failed device.
    ///
    /// # Cancel safety
    /// Dropping the future ends the search, after each device's current step.
    pub async fn run(
        &self,
        streams: &[Stream],
        mut launch: impl FnMut(usize, &Stream) -> millstream_device::Result<()>,
    ) -> millstream_device::Result<()> {
        // Ends the search even if a device fails: the others would wait for it.
        let _waiting = Waiting(&self.course);
        let mut twins = Vec::new();
        for (place, stream) in streams.iter().enumerate() {
            launch(place, stream)?;
            twins.push(stream.completed()?);
        }
        try_join_all(twins).await.map(drop)
    }
}

/// A stream of each device.
///
/// # Errors
/// That of opening one.
pub fn streams(context: &Context) -> millstream_device::Result<Vec<Stream>> {
    context.devices().iter().map(Device::stream).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use millstream_device::{Kernel, Read};
    use millstream_flow::Devices;

    use super::*;

    const DEVICES: usize = 5;
    const ROUNDS: u64 = 50;

    /// Contexts of one and of several threads, and simulated ones.
    fn contexts() -> Vec<Context> {
        let builder = || Context::builder().devices(Devices::host(DEVICES));
        let threads = [1, 3].map(|threads| builder().threads(threads));
        let simulated = (0..5).map(|seed| builder().simulated(seed));
        threads.into_iter().chain(simulated).map(|builder| builder.build().unwrap()).collect()
    }

    /// Each device counts its steps; at each meeting all counts must be equal. `step` may fail.
    fn count(
        context: &Context,
        step: impl Fn(usize, u64) -> KernelResult + Send + Sync + Copy + 'static,
    ) -> millstream_flow::Result<Vec<u64>> {
        let counts: Arc<[AtomicU64]> = (0..DEVICES).map(|_| AtomicU64::new(0)).collect();
        let meetings = TwinMeetings::new(context, 0u64);
        let (shared, counted) = (Arc::clone(&meetings), Arc::clone(&counts));
        let kernel: Kernel<(Read<u32>,)> =
            Kernel::of_step_closure("count", move |_, (here,): &(&[u32],)| {
                let here = here[0] as usize;
                let all = |round| counted.iter().all(|it| it.load(Ordering::Relaxed) == round);
                let once = |round: &u64| {
                    counted[here].fetch_add(1, Ordering::Relaxed);
                    step(here, *round)
                };
                let advance = |round: &mut u64| {
                    *round += 1;
                    assert!(all(*round), "somebody has not come");
                    *round < ROUNDS
                };
                shared.run_twin(here, once, advance)
            });
        let launch = |place: usize, stream: &Stream| {
            let here = stream.uploaded(vec![place as u32])?;
            kernel.launch(stream, 1, (&here,))
        };
        context.block_on(meetings.run(&streams(context)?, launch))??;
        Ok(counts.iter().map(|it| it.load(Ordering::Relaxed)).collect())
    }

    #[test]
    fn all_do_every_step_before_anybody_goes_on() {
        for context in contexts() {
            assert_eq!(count(&context, |_, _| Ok(())).unwrap(), [ROUNDS; DEVICES]);
        }
    }

    #[test]
    fn who_fails_ends_it_for_all() {
        for context in contexts() {
            let error = count(&context, |here, round| match (here, round) {
                (3, 7) => Err(KernelFault::new("no more")),
                _ => Ok(()),
            });
            assert!(error.unwrap_err().to_string().contains("no more"));
            // No twin is left waiting: this would deadlock, or go on for ever.
            context.device_set().quiesce().unwrap();
        }
    }
}
