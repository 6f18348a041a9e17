//! Searches whose devices go through phases together, on host devices: twins do what a gang's
//! kernels do between barriers, one launch each, and the host is the barrier.

use std::result::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::try_join_all;
use millstream_device::{KernelFault, KernelResult, Stream};
use millstream_flow::GangMemory;
use parking_lot::Mutex;

/// One device has nobody to meet between phases: a launch goes on until it has found so
/// many vertices. Many, since a launch takes longer than many a phase, and few enough
/// to be stopped.
const VERTICES_ALONE: u64 = 1 << 18;

/// How far a search has come, which says what all devices do next.
pub trait Course: Clone + Send + 'static {
    /// The word of each device that counts the vertices found there.
    const FOUND: usize;

    /// Whether no phase is left.
    fn is_finished(&self) -> bool;

    /// Goes on to the next phase; `word` is one of a device's.
    ///
    /// # Errors
    /// Those of `word`.
    fn advance<E>(&mut self, word: impl Fn(usize, usize) -> Result<u64, E>) -> Result<(), E>;
}

/// The phases of a search. Its twins and the host share how far it has come.
#[derive(Clone, Debug)]
pub struct Phases<C> {
    course: Arc<Mutex<C>>,
    devices: usize,
}

impl<C: Course> Phases<C> {
    /// From the beginning of a course, on so many devices.
    pub fn new(course: C, devices: usize) -> Phases<C> {
        Phases { course: Arc::new(Mutex::new(course)), devices }
    }

    /// What a twin does in one launch: a phase, by `step`; several, if its device is the only one.
    /// `words` are the device's.
    ///
    /// # Errors
    /// Those of `step`.
    pub fn run_twin(
        &self,
        words: &[AtomicU64],
        mut step: impl FnMut(&C) -> KernelResult,
    ) -> KernelResult {
        let mut course = self.course.lock().clone();
        if self.devices > 1 {
            return step(&course);
        }
        // Relaxed: the device's own.
        let load = |word: usize| words[word].load(Ordering::Relaxed);
        let enough = load(C::FOUND) + VERTICES_ALONE;
        while !course.is_finished() && load(C::FOUND) < enough {
            step(&course)?;
            course.advance(|_, word| Ok::<_, KernelFault>(load(word)))?;
        }
        *self.course.lock() = course;
        Ok(())
    }

    /// Runs all phases, from the first to the last: `launch` launches the twin of each device, all of
    /// which are waited for before the next phase.
    ///
    /// # Errors
    /// Those of `launch`; a failed device.
    ///
    /// # Cancel safety
    /// Dropping the future ends the search after the phase that runs.
    pub async fn run(
        &self,
        gangs: &[&GangMemory],
        launch: impl FnMut(usize, &Stream) -> millstream_device::Result<()>,
    ) -> millstream_device::Result<()> {
        let goes_on = || {
            let mut course = self.course.lock();
            if self.devices > 1 {
                course.advance(|device, word| gangs[device].words.load(word))?;
            }
            Ok(!course.is_finished())
        };
        in_rounds(gangs, launch, goes_on).await
    }
}

/// Launches something on each device, waits for all, and begins again, for as long as the search
/// `goes_on` then.
///
/// # Errors
/// Those of `launch` and `goes_on`; a failed device.
///
/// # Cancel safety
/// Dropping the future ends the search after the round that runs.
pub(crate) async fn in_rounds(
    gangs: &[&GangMemory],
    mut launch: impl FnMut(usize, &Stream) -> millstream_device::Result<()>,
    mut goes_on: impl FnMut() -> millstream_device::Result<bool>,
) -> millstream_device::Result<()> {
    let streams = gangs.iter().map(|its| its.device.stream());
    let streams = streams.collect::<millstream_device::Result<Vec<_>>>()?;
    loop {
        let mut events = Vec::new();
        for (place, stream) in streams.iter().enumerate() {
            launch(place, stream)?;
            events.push(stream.completed()?);
        }
        try_join_all(events).await?;
        if !goes_on()? {
            return Ok(());
        }
    }
}
