//! Gangs: kernels, one a device, that wait for each other while they run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use millstream_device::{
    BoundKernel, CudaSource, EnteredKernel, FailureListener, Kernel, KernelFault, Launching,
    Parameter, SharedBuffer, Stream, Trusted,
};

use crate::gang_permit::GangPermit;
use crate::warm_up::warm_up;
use crate::{Context, Error, Result};

/// Words in the host's memory: `HostWord` of `gang.cuh`.
const OPEN: usize = 0;
pub(crate) const STOP: usize = 1;

/// What the word *stop* says: `StopReason` of `gang.cuh`.
pub(crate) const IS_STOPPED: u32 = 1;
pub(crate) const PEER_IS_LATE: u32 = 2;
pub(crate) const NOT_LEFT: u32 = 3;
pub(crate) const NO_MEMORY: u32 = 4;

/// Ends a twin that cannot go on: the gang fails with `reason`, unless it has been stopped already
/// (`give_up` of `gang.cuh`). Returns what the twin must return. Whoever waits for something must
/// be told, too: that is left to the caller.
pub(crate) fn give_up(stop: &AtomicU32, reason: u32) -> KernelFault {
    // Relaxed: the word itself is all that is communicated.
    let _ = stop.compare_exchange(0, reason, Ordering::Relaxed, Ordering::Relaxed);
    KernelFault::early_return()
}

/// The word *stop* of a gang's words, as a twin has them.
pub(crate) fn stop_word(words: &[AtomicU32]) -> std::result::Result<&AtomicU32, KernelFault> {
    words.get(STOP).ok_or_else(|| KernelFault::new("it has not the words of its gang"))
}

/// A set of kernels, one for each device of a context, that wait for each other. So all of them
/// must have started, and while they run nothing may happen that could wait for a device (such as
/// allocating memory or loading modules). Therefore make the gang and all its memory first, let the
/// devices [`prepare`](Gang::prepare) the kernel, and then [`run`](Gang::run) it. On each GPU, the
/// gangs of a process run one after the other.
///
/// The kernels take the [words](Gang::words) of the gang in the host's memory: *open* is set when
/// all kernels are launched; once *stop* is set, they end soon. A kernel that cannot go on sets
/// *stop* itself, to a value that says why.
///
/// Kernels that wait inside a launch run on GPUs only: [`Gang::kernel`] makes them without a twin,
/// and [`Gang::is_possible`] says whether they can run. A gang can be made and run on any number of
/// host devices, too, with kernels whose twins do not wait or go on in [steps](Kernel::of_steps):
/// see [`DeviceLink`](crate::DeviceLink) and [`ResidentCollectives`](crate::ResidentCollectives).
///
/// ```no_run
/// # use millstream_device::{Kernel, Shared};
/// # use millstream_flow::{Context, Gang};
/// # async fn run(context: Context, kernel: Kernel<(Shared<u32>,)>) -> millstream_flow::Result<()> {
/// let gang = Gang::new(&context)?;
/// gang.prepare(&kernel)?;
/// let words = gang.words().clone();
/// gang.run(|member| Ok(kernel.launch(member.stream, member.sharers, (&words,))?)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Gang {
    context: Context,
    /// Listeners to the streams' failures.
    _listeners: Vec<FailureListener>,
    streams: Vec<Stream>,
    words: Arc<StopOnDrop>,
}

/// What one device's kernel is launched with.
#[derive(Clone, Copy, Debug)]
pub struct GangMember<'a> {
    /// The device's place in the context.
    pub place: usize,
    /// The stream to launch the kernel on.
    pub stream: &'a Stream,
    /// How many kernels of the gang run on the same GPU; this is the size of a launch of
    /// [`resident`](millstream_device::CudaSource::resident) blocks.
    pub sharers: usize,
}

/// Stops the kernels that still run, once nobody waits for them.
#[derive(Debug)]
struct StopOnDrop {
    words: SharedBuffer<u32>,
    /// Why the first of the failed streams failed.
    cause: OnceLock<millstream_device::Error>,
}

impl StopOnDrop {
    fn stop(&self) {
        // There is nobody to report a failure to, and the kernels' own patience ends them.
        let _ = self.words.store(STOP, IS_STOPPED);
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Gang {
    /// The most kernels that a gang may have; those of one GPU have a stream each.
    pub const MOST: usize = 8;

    /// Whether the devices of a context can run a gang of kernels that wait inside a launch and
    /// reach each other's memory. They must be GPUs that are all peers, at most [`Gang::MOST`] of
    /// them; a host device rules it out, since its twins never wait.
    pub fn is_possible(context: &Context) -> bool {
        context.all_gpus()
            && (1..=Gang::MOST).contains(&context.devices().len())
            && context.topology().all_peers()
    }

    /// Whether kernels of a gang can meet in its barrier (`gang_barrier.cuh`). For that they add to
    /// words in each other's memory atomically, which does not work over PCIe.
    pub fn can_meet(context: &Context) -> bool {
        Gang::is_possible(context) && context.topology().all_have_atomics()
    }

    /// A kernel for gangs: it has no twin, since a twin never waits.
    pub fn kernel<S: Parameter + 'static>(name: &str, source: Trusted<CudaSource>) -> Kernel<S> {
        Kernel::without_twin(name, source, "a gang runs on GPUs only")
    }

    /// Prepares a kernel and runs it as a gang of all devices of a context. `bind` is called for
    /// every device before the first launch, and is also given the host's words. Before that, where
    /// [`Gang::is_possible`], each GPU's stream gets a kernel that does nothing, which brings what a
    /// launch needs into the caches. Returns how long the launches and the kernels took, as [`Gang::run`] does.
    ///
    /// # Errors
    /// As [`Gang::new`], [`Gang::prepare`] and [`Gang::run`].
    ///
    /// # Cancel safety
    /// That of [`Gang::run`].
    ///
    /// # Device ordering
    /// That of [`Gang::run`].
    pub async fn run_kernel<S: Parameter>(
        context: &Context,
        kernel: &Kernel<S>,
        mut bind: impl FnMut(&SharedBuffer<u32>, GangMember<'_>) -> Result<BoundKernel>,
    ) -> Result<Duration> {
        let gang = Gang::new(context)?;
        gang.prepare(kernel)?;
        if Gang::is_possible(context) {
            warm_up(&gang.streams)?;
        }
        let words = gang.words().clone();
        let bound = gang.members().map(|member| bind(&words, member));
        let bound = bound.collect::<Result<Vec<_>>>()?;
        gang.launch_and_wait(|_| Gang::launch_together(bound)).await
    }

    /// A gang of all devices of a context.
    ///
    /// # Errors
    /// More than [`Gang::MOST`] devices with a GPU among them; no memory, or a failed device.
    pub fn new(context: &Context) -> Result<Gang> {
        let devices = context.devices().len();
        if devices > Gang::MOST && context.any_gpu() {
            return Err(Error::NotAGang { devices });
        }
        let streams = Stream::of_gang(context.devices())?;
        let words = context.host().shared(2)?;
        let words = Arc::new(StopOnDrop { words, cause: OnceLock::new() });
        // A failed stream stops all kernels: they might wait for one that is never launched.
        let listen = |stream: &Stream| {
            let words = Arc::downgrade(&words);
            stream.on_failure(move |cause| {
                if let Some(words) = words.upgrade() {
                    // The first cause stays.
                    let _ = words.cause.set(cause);
                    words.stop();
                }
            })
        };
        let listeners = streams.iter().map(listen).collect();
        Ok(Gang { context: context.clone(), _listeners: listeners, streams, words })
    }

    /// The host's words, which every kernel takes.
    pub fn words(&self) -> &SharedBuffer<u32> {
        &self.words.words
    }

    /// Loads a kernel on all devices: see [`Kernel::prepare`]. Returns the number of blocks of its
    /// smallest launch.
    ///
    /// # Errors
    /// No device code, or code that does not compile.
    pub fn prepare<S: Parameter>(&self, kernel: &Kernel<S>) -> Result<u32> {
        let mut least = u32::MAX;
        for (place, device) in self.context.devices().iter().enumerate() {
            least = least.min(kernel.prepare(device, self.sharers(place))?);
        }
        Ok(least)
    }

    /// Waits until no other gang runs, launches a kernel on each device with `launch`, one after
    /// the other, and waits for all of them. `launch` must do nothing but launch. Returns the time
    /// from the first launch to the end of the last kernel.
    ///
    /// # Errors
    /// The first launch that fails or panics, or the first cause of a device's failure;
    /// [`Error::PeerIsLate`] if a kernel has waited for another one for too long;
    /// [`Error::CollectivesNotLeft`] or [`Error::CollectivesWithoutMemory`] if a kernel calls
    /// [collectives](crate::ResidentCollectives) that it cannot use.
    ///
    /// # Cancel safety
    /// Dropping the future stops the kernels. The next gang waits until they have
    /// really ended.
    ///
    /// # Device ordering
    /// When it resolves without an error, all kernels are over and host code comes after them.
    pub async fn run(
        self,
        mut launch: impl FnMut(GangMember<'_>) -> Result<()>,
    ) -> Result<Duration> {
        let launch = |gang: &Gang| {
            let start = Instant::now();
            (start, gang.members().try_for_each(&mut launch).map(|()| Vec::new()))
        };
        self.launch_and_wait(launch).await
    }

    /// [`Gang::run`], for a `launch` that returns the time of the first launch and what must be
    /// kept until the end.
    async fn launch_and_wait(
        self,
        launch: impl FnOnce(&Gang) -> (Instant, Result<Vec<EnteredKernel>>),
    ) -> Result<Duration> {
        let permit = self.context.gang_permit().await;
        // With nothing between: none goes on before the last has begun.
        let launching = Launching::begin();
        // If `launch` panics, the kernels that it has launched are stopped, and the next gang waits
        // for their end.
        let launched = catch_unwind(AssertUnwindSafe(|| launch(&self)));
        let (start, launched) =
            launched.unwrap_or_else(|panic| (Instant::now(), Err(Error::panicked(panic))));
        // Open the gang before other threads may call the driver again: such a call may wait for
        // these kernels, and calls of this thread would wait for the driver meanwhile.
        let launched = launched.and_then(|kept| {
            self.words.words.store(OPEN, 1)?;
            Ok(kept)
        });
        drop(launching);
        let (launched, kept) = match launched {
            Ok(kept) => (Ok(()), kept),
            Err(error) => (Err(error), Vec::new()),
        };
        let finished = self.finish(permit, launched).await;
        drop(kept);
        // A stream that waited for a failed one may have failed as a consequence: report the first cause.
        let first_cause =
            |error| self.words.cause.get().map_or(error, |cause| cause.clone().into());
        let end = finished.map_err(first_cause)?;
        self.check()?;
        Ok(end - start)
    }

    /// Launches a kernel on each device. All kernels have been entered before the first begins,
    /// since it waits for the others. This thread gives the last one to the driver itself.
    fn launch_together(bound: Vec<BoundKernel>) -> (Instant, Result<Vec<EnteredKernel>>) {
        let before = Instant::now();
        let entered = bound.into_iter().map(BoundKernel::enter);
        let entered = entered.collect::<Result<Vec<EnteredKernel>, _>>();
        let are_held = entered.iter().flatten().all(EnteredKernel::is_held);
        let start = if are_held { Instant::now() } else { before };
        let launched = entered.and_then(|mut entered| {
            if let Some((last, others)) = entered.split_last_mut() {
                others.iter_mut().try_for_each(EnteredKernel::begin)?;
                last.begin_here()?;
            }
            Ok(entered)
        });
        (start, launched.map_err(Into::into))
    }

    /// Whether the kernels ended as they should: a stream may have failed meanwhile, or a kernel
    /// could not go on.
    fn check(&self) -> Result<()> {
        if let Some(cause) = self.words.cause.get() {
            return Err(cause.clone().into());
        }
        match self.words.words.load(STOP)? {
            PEER_IS_LATE => Err(Error::PeerIsLate),
            NOT_LEFT => Err(Error::CollectivesNotLeft),
            NO_MEMORY => Err(Error::CollectivesWithoutMemory),
            _ => Ok(()),
        }
    }

    fn members(&self) -> impl Iterator<Item = GangMember<'_>> {
        let member = |(place, stream)| GangMember { place, stream, sharers: self.sharers(place) };
        self.streams.iter().enumerate().map(member)
    }

    /// Waits for what was launched. Returns when the host heard of the last kernel's end.
    async fn finish(&self, permit: GangPermit, launched: Result<()>) -> Result<Instant> {
        let ends: Vec<_> = self.streams.iter().map(|stream| permit.completed(stream)).collect();
        drop(permit);
        launched?;
        let ends = ends.into_iter().collect::<Result<Vec<_>, _>>()?;
        for end in ends {
            end.await?;
        }
        let end = Instant::now();
        self.context.waking().used();
        Ok(end)
    }

    /// The number of devices on the same GPU.
    fn sharers(&self, place: usize) -> usize {
        let devices = self.context.devices();
        devices.iter().filter(|other| other.shares_gpu_with(&devices[place])).count()
    }
}
