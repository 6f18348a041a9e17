//! Links between kernels.

use std::time::Duration;

use millstream_device::{Device, GuardedBuffer, SharedBuffer};

use super::core::{SENDER_WORDS, SLOT_WORDS};
use super::ends::Settings;
use crate::{Context, Error, Item, Result};

/// A link from a kernel of one device to a kernel of another, both of which run at the
/// same time: packets go through a peer ring in the receiver's memory, and the host takes
/// no part.
///
/// Both kernels take the link as an argument ([`DeviceLinkEnd`](crate::DeviceLinkEnd)).
/// On GPUs they use `device_link.cuh`: any blocks of the one send, a block of the other
/// receives. They wait for each other, so they must be a [`Gang`](crate::Gang), or
/// otherwise sure to run side by side. Twins
/// ([of steps](millstream_device::Kernel::of_steps)) never wait.
///
/// A kernel that waits for longer than its patience ends, on a host device with an error: see
/// [`DeviceLink::check`].
///
/// Packets arrive in the order of their claims, each once; what is on its way when the
/// kernels end is there for the next ones.
///
/// ```
/// use std::time::Duration;
/// use millstream_device::{CudaSource, Kernel, Shared, Step, Trusted};
/// use millstream_flow::{Context, DeviceLink, DeviceLinkEnd, Devices, Gang};
///
/// const SOURCE: &str = r#"
///     #include "device_link.cuh"
///     using namespace millstream;
///     extern "C" __global__ void count(DeviceLink<u32> link) {
///         const DeviceSender<u32> out(link);
///         for (u32 number = 1; number <= 100; ++number)
///             if (!out.send(&number, 1)) return;
///     }
///     extern "C" __global__ void sum(DeviceLink<u32> link, Span<u32> total) {
///         DeviceReceiver<u32> in(link);
///         u32 number, items;
///         for (u32 packet = 0; packet < 100; ++packet) {
///             if (!in.receive(&number, &items)) return;
///             if (threadIdx.x == 0) total[0] += number;
///         }
///     }
/// "#;
///
/// static COUNT: Kernel<(DeviceLinkEnd<u32>,)> = Kernel::of_steps(
///     "count",
///     // SAFETY: it uses the link's functions only.
///     unsafe { Trusted::new(CudaSource::new("count.cu", "count", SOURCE).blocks(1).threads(1)) },
///     |_, (link,)| {
///         while link.sent() < 100 {
///             if !link.try_send(&[link.sent() + 1])? {
///                 return Ok(Step::Waits);
///             }
///         }
///         Ok(Step::Done)
///     },
/// );
/// static SUM: Kernel<(DeviceLinkEnd<u32>, Shared<u32>)> = Kernel::of_steps(
///     "sum",
///     // SAFETY: as above, and the one word of `total`.
///     unsafe { Trusted::new(CudaSource::new("count.cu", "sum", SOURCE).blocks(1).threads(1)) },
///     |_, (link, total)| {
///         use std::sync::atomic::Ordering;
///         while link.received() < 100 {
///             let Some(packet) = link.try_receive()? else { return Ok(Step::Waits) };
///             total[0].fetch_add(packet[0], Ordering::Relaxed);
///         }
///         Ok(Step::Done)
///     },
/// );
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let [one, other] = context.devices() else { unreachable!() };
/// let link = DeviceLink::new(&context, one, other, (8, 1), Duration::from_secs(5))?;
/// let total = context.host().shared::<u32>(1)?;
/// let gang = Gang::new(&context)?;
/// let run = gang.run(|member| match member.place {
///     0 => Ok(COUNT.launch(member.stream, 1, (&link,))?),
///     _ => Ok(SUM.launch(member.stream, 1, (&link, &total))?),
/// });
/// context.block_on(run)??;
/// link.check()?;
/// assert_eq!(total.load(0)?, 5050);
/// # Ok::<(), millstream_flow::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceLink<T: Item> {
    pub(super) context: Context,
    patience: Duration,
    pub(super) sender: SharedBuffer<u32>,
    pub(super) slots: SharedBuffer<u32>,
    /// Packets that the receiver has taken: its own.
    pub(super) taken: SharedBuffer<u32>,
    pub(super) payloads: GuardedBuffer<T>,
    /// In the host's memory: not 0 once an end has waited for too long.
    pub(super) late: SharedBuffer<u32>,
    label: String,
    pub(super) settings: Settings,
}

impl<T: Item> DeviceLink<T> {
    /// An empty link with so many packets of so many items at most, each at least one;
    /// the packets are rounded up to a power of two. Nobody waits longer than `patience`
    /// for the other side.
    ///
    /// # Errors
    /// [`OutOfReach`](millstream_device::Error::OutOfReach) unless each device reaches
    /// the other's memory; no memory; a device of another context; no thread for those
    /// who wait.
    pub fn new(
        context: &Context,
        from: &Device,
        to: &Device,
        (packets, packet_items): (usize, usize),
        patience: Duration,
    ) -> Result<DeviceLink<T>> {
        for (device, owner) in [(from, to), (to, from)] {
            if !context.manages(device) {
                return Err(Error::ForeignDevice { device: device.id(), name: device.name() });
            }
            if !device.reaches(owner) {
                let (buffer, owner) = ("a link between kernels".to_string(), owner.name());
                let device = device.name();
                return Err(millstream_device::Error::OutOfReach { buffer, owner, device }.into());
            }
        }
        context.watcher().prepare(context.device_set())?;
        // So many that there is no memory, if there is no such power.
        let packets = packets.max(1).checked_next_power_of_two().unwrap_or(usize::MAX);
        let packet_items = packet_items.max(1);
        let label = format!("link from kernels of {from} to {to}");
        Ok(DeviceLink {
            context: context.clone(),
            patience,
            sender: from.shared(SENDER_WORDS)?.with_label(format!("credit of {label}")),
            slots: to
                .shared(packets.saturating_mul(SLOT_WORDS))?
                .with_label(format!("slots of {label}")),
            taken: to.shared(1)?.with_label(format!("position of {label}")),
            payloads: to.guarded(packets.saturating_mul(packet_items))?.with_label(label.clone()),
            late: context.host().shared(1)?.with_label(format!("patience of {label}")),
            label,
            settings: Settings::new(patience, packet_items),
        })
    }

    /// To be asked when its kernels are over: a kernel that has lost its patience just ends. Those
    /// of a [`Gang`](crate::Gang) that give their ends its words fail the gang, too.
    ///
    /// # Errors
    /// [`Error::LinkTimeout`] if an end has waited for too long, at any time.
    pub fn check(&self) -> Result<()> {
        match self.late.load(0)? {
            0 => Ok(()),
            _ => Err(Error::LinkTimeout { link: self.label.clone(), patience: self.patience }),
        }
    }

    /// Items of a packet, at most.
    pub fn packet_items(&self) -> usize {
        self.settings.packet_items()
    }

    /// How long a twin waits; for ever on simulated devices, whose deadlocks are found.
    pub(super) fn patience(&self) -> Option<Duration> {
        let is_simulated = self.context.device_set().simulation().is_some();
        (!is_simulated).then_some(self.patience)
    }
}
