//! Segments that end together, and kernels launched before their data is there.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::lock::Mutex as AsyncMutex;
use millstream_device::{
    Argument, Device, FailureListener, Kernel, Parameter, SharedBuffer, Stream, StreamKind,
};
use parking_lot::Mutex;

use super::early_kernel::EarlyKernel;
use super::segment::FullEmptySegment;
use super::shape::PacketShape;
use super::watcher::Attention;
use crate::gang_permit::{GangPermit, WeakGangPermit};
use crate::patience::Patience;
use crate::{Context, Error, Item, Result};

/// Values of the control word: nothing has happened; the program has released everybody; a stream
/// has failed. A packet that did not come in time is shown by its segment and number.
const RUNNING: u64 = 0;
const RELEASED: u64 = 1;
const FAILED: u64 = 2;
const TIMED_OUT: u64 = 1 << 63;

/// Segments whose packets are full or empty (Lustig and Martonosi, HPCA 2013). All waiting for
/// their packets ends at once if a packet is not filled within the group's patience, if
/// [`release_all`](FullEmpty::release_all) is called, or if a stream fails on which packets are
/// filled or kernels were launched early. Cheap to clone.
///
/// A kernel [launched early](FullEmpty::launch_early) waits for packets of its inputs,
/// block by block, while they are copied; packets of its outputs are seen by the host
/// while it still runs:
///
/// ```
/// use std::time::Duration;
/// use millstream_device::{Kernel, Step, StreamKind};
/// use millstream_flow::{Context, Devices, FullEmpty, FullEmptyPackets, PacketShape};
///
/// let context = Context::builder().devices(Devices::host(1)).build()?;
/// let device = &context.devices()[0];
/// let group = FullEmpty::new(&context, Duration::from_secs(5))?;
/// let input = group.segment::<u32>(device, PacketShape::new(1000, 250))?;
/// let output = group.segment::<u32>(context.host(), PacketShape::new(1000, 250))?;
///
/// // The twin of one block: packet `block` of the input becomes that of the output.
/// let double = Kernel::<(FullEmptyPackets<u32>, FullEmptyPackets<u32>)>::of_step_closure(
///     "double",
///     |block, (input, output)| {
///         let Some(items) = input.items(block)? else { return Ok(Step::Waits) };
///         let doubled = items.iter().map(|item| 2 * item);
///         let written = output.write(block, |to| to.iter_mut().zip(doubled).for_each(|(to, item)| *to = item))?;
///         if written.is_none() {
///             return Ok(Step::Waits);
///         }
///         output.publish(block)?;
///         Ok(Step::Done)
///     },
/// );
/// let compute = device.stream_of(StreamKind::Gang)?;
/// let copy = device.stream_of(StreamKind::Copy)?;
/// context.block_on(async {
///     let ended = group.launch_early(&compute, &double, 4, (&input, &output)).await?;
///     let data = copy.uploaded((0..1000).collect::<Vec<u32>>())?; // comes later
///     for packet in (0..4).rev() {
///         input.fill_from(&copy, packet, data.part(input.shape().range(packet))?)?;
///         output.wait_full(packet..packet + 1).await?; // the kernel still runs
///         assert_eq!(output.read(packet, |items| items[1])?, 2 * (250 * packet as u32 + 1));
///     }
///     ended.completed().await
/// })??;
/// # Ok::<(), millstream_flow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FullEmpty {
    core: Arc<GroupCore>,
}

#[derive(Debug)]
struct GroupCore {
    context: Context,
    control: SharedBuffer<u64>,
    patience: Duration,
    labels: Mutex<Vec<String>>,
    /// Why a stream failed.
    cause: OnceLock<millstream_device::Error>,
    /// Listeners to the streams' failures.
    listeners: Mutex<Vec<FailureListener>>,
    /// Held while kernels that were launched early run.
    permit: AsyncMutex<WeakGangPermit>,
}

impl FullEmpty {
    /// A group without segments. Nobody waits longer than `patience` for a packet.
    ///
    /// # Errors
    /// No memory; no thread for those who wait.
    pub fn new(context: &Context, patience: Duration) -> Result<FullEmpty> {
        context.watcher().prepare(context.device_set())?;
        let control = context.host().shared(1)?.with_label("control of full/empty segments");
        let core = GroupCore {
            context: context.clone(),
            control,
            patience,
            labels: Mutex::default(),
            cause: OnceLock::new(),
            listeners: Mutex::default(),
            permit: AsyncMutex::default(),
        };
        Ok(FullEmpty { core: Arc::new(core) })
    }

    /// A segment in the memory of `device`: the device whose kernels read it, or [`Context::host`]
    /// for results that kernels write straight to the host. All packets are empty, in the first
    /// epoch.
    ///
    /// # Errors
    /// No memory; a device, here or in `shape`, of another context; 2^31 packets or more.
    pub fn segment<T: Item>(
        &self,
        device: &Device,
        shape: PacketShape,
    ) -> Result<FullEmptySegment<T>> {
        const { assert!(size_of::<T>() > 0, "packets are of items that have a size") };
        let its = [Some(device), shape.writing_device(), shape.reading_device()];
        if let Some(foreign) = its.into_iter().flatten().find(|it| !self.core.context.manages(it)) {
            return Err(Error::ForeignDevice { device: foreign.id(), name: foreign.name() });
        }
        let number = {
            let mut labels = self.core.labels.lock();
            let number = labels.len();
            labels.push(format!("segment {number} of {device}"));
            number
        };
        FullEmptySegment::new(self, device, shape, number)
    }

    /// Launches a kernel that waits for packets, before they are full. `blocks` is the size of the
    /// launch: see [`Kernel::of_steps`].
    ///
    /// While such a kernel runs on a GPU, loading modules, freeing memory and making contexts may
    /// wait for it. So load all other kernels first ([`Kernel::prepare`]), and copy from pinned
    /// memory, on streams of kind [`Copy`](millstream_device::StreamKind::Copy). Gangs, runs of the
    /// fused worklist, and early kernels of other groups wait until it has ended if they use the
    /// same GPUs, whatever their context; other kernels of this group may run beside it. `stream`
    /// must be of kind [`Gang`](millstream_device::StreamKind::Gang), which shares a hardware queue
    /// with no copies. If one of several kernels may wait for packets of another, make their
    /// streams [together](Stream::of_gang).
    ///
    /// # Errors
    /// A stream of another kind; what a launch may fail with; a group that has ended.
    ///
    /// # Cancel safety
    /// Nothing is launched if the future is dropped.
    ///
    /// # Device ordering
    /// The kernel's event is complete when it has ended.
    pub async fn launch_early<S: Parameter + 'static>(
        &self,
        stream: &Stream,
        kernel: &Kernel<S>,
        blocks: usize,
        arguments: impl Argument<S>,
    ) -> Result<EarlyKernel> {
        if stream.kind() != StreamKind::Gang {
            return Err(Error::NotAGangStream {
                kernel: kernel.name().into(),
                found: stream.kind(),
            });
        }
        let permit = self.permit().await;
        self.check()?;
        self.listen(stream);
        let needs_host = stream.need_host();
        kernel.launch(stream, blocks, arguments).inspect_err(|_| permit.ends_with(stream))?;
        let ended = permit.record(stream)?;
        ended.on_complete(move |_| drop(needs_host));
        Ok(EarlyKernel::new(self, ended))
    }

    /// The permit for kernels that wait for each other, which all of the group share.
    async fn permit(&self) -> GangPermit {
        // The lock is held while this waits for the permit, so that others of the group get the same one.
        let mut known = self.core.permit.lock().await;
        if let Some(permit) = known.upgrade() {
            return permit;
        }
        let permit = self.core.context.gang_permit().await;
        *known = permit.downgrade();
        permit
    }

    /// Ends all waiting for packets of the group, now and later, with
    /// [`Error::Released`]; kernels that wait end soon. What is full stays readable.
    ///
    /// # Errors
    /// None while the context lives.
    pub fn release_all(&self) -> Result<()> {
        self.end(RELEASED)
    }

    /// # Errors
    /// Why waiting has ended, if it has: [`Error::PacketTimeout`], [`Error::Released`], or the
    /// first cause of a stream's failure.
    pub fn check(&self) -> Result<()> {
        let state = self.core.control.load(0)?;
        match state {
            RUNNING => Ok(()),
            RELEASED => Err(Error::Released),
            FAILED => match self.core.cause.get() {
                Some(cause) => Err(cause.clone().into()),
                None => Err(Error::Released),
            },
            _ => {
                let (segment, packet) = ((state & !TIMED_OUT) >> 32, state as u32);
                let labels = self.core.labels.lock();
                let segment = labels.get(segment as usize).cloned().unwrap_or_default();
                let patience = self.core.patience;
                Err(Error::PacketTimeout { segment, packet: packet as usize, patience })
            }
        }
    }

    /// Ends all waiting: a packet did not come in time.
    pub(super) fn time_out(&self, segment: usize, packet: usize) -> Result<()> {
        self.end(timed_out(segment, packet))
    }

    /// Ends all waiting if the stream fails, since what should come on it will not.
    pub(super) fn listen(&self, stream: &Stream) {
        let listens = |listener: &FailureListener| listener.listens_to(stream);
        if self.core.listeners.lock().iter().any(listens) {
            return;
        }
        let core = Arc::downgrade(&self.core);
        // Without the lock: the callback may run at once, and those it lets go on may call this function.
        let listener = stream.on_failure(move |cause| {
            let Some(core) = core.upgrade() else { return };
            // The first cause stays. It is set before the word, so that whoever sees the word finds it.
            let _ = core.cause.set(cause);
            // This fails only if nobody is left to see the word.
            let _ = FullEmpty { core }.end(FAILED);
        });
        let mut listeners = self.core.listeners.lock();
        listeners.retain(|listener| !listener.is_left());
        listeners.push(listener);
    }

    /// Ends all waiting for this reason.
    pub(super) fn fail(&self, cause: &Error) {
        let device_error = match cause {
            Error::Device(error) => error.clone(),
            other => millstream_device::Error::Unkept {
                promise: "a copy that waited for packets".to_string(),
                reason: other.to_string(),
            },
        };
        // As in `listen`.
        let _ = self.core.cause.set(device_error);
        let _ = self.end(FAILED);
    }

    /// Sets the control word unless it is set: the first cause stays, unless two end the group at
    /// the same moment.
    fn end(&self, state: u64) -> Result<()> {
        if self.core.control.load(0)? == RUNNING {
            self.core.control.store(0, state)?;
        }
        Ok(())
    }

    pub(super) fn context(&self) -> &Context {
        &self.core.context
    }

    pub(super) fn control(&self) -> &SharedBuffer<u64> {
        &self.core.control
    }

    pub(super) fn patience(&self) -> Duration {
        self.core.patience
    }

    /// How long a twin or the host waits.
    pub(super) fn host_patience(&self) -> Patience {
        Patience::new(&self.core.context, self.core.patience)
    }

    /// When a wait on the host that begins now will have lasted for too long, if ever.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.host_patience().deadline()
    }

    pub(super) fn label(&self, segment: usize) -> String {
        self.core.labels.lock().get(segment).cloned().unwrap_or_default()
    }

    /// Makes somebody look at words that ring nothing, and at the time, until the answer is dropped.
    pub(super) fn attend(&self) -> Attention {
        self.core.context.watcher().attend()
    }
}

/// The value of the control word when this packet did not come in time; the header computes the same.
pub(super) fn timed_out(segment: usize, packet: usize) -> u64 {
    TIMED_OUT | (segment as u64) << 32 | packet as u64
}
