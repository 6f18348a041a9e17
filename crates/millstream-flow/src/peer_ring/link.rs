//! Links between kernels.

use std::time::Duration;

use millstream_device::{Device, GuardedBuffer, SharedBuffer, TransferWay};

use super::room::{LinkRoom, Settings};
use super::traffic::{TRAFFIC_WORDS, Traffic};
use crate::patience::Patience;
use crate::{Context, Error, Item, LinkStatistics, Result};

/// A link from a kernel of one device to a kernel of another one that runs at the same time. Both
/// devices are GPUs, or neither is. Packets go through a peer ring in the receiver's memory (or in
/// the host's, between devices that do not reach each other's memory), and the host takes no part.
///
/// Both kernels take the link as an argument ([`DeviceLinkEnd`](crate::DeviceLinkEnd)). On GPUs
/// they use `device_link.cuh`: a block of the sender claims a slot in the receiver's memory, fills
/// it and publishes it; a block of the receiver takes the packet, reads it in place and gives it
/// back. Any number of blocks may send on a channel, and one block receives from it; a link has as
/// many channels as its [room](LinkRoom) says. The two ends wait for each other, so they must be a
/// [`Gang`](crate::Gang), or be certain to run side by side in some other way. Twins
/// ([of steps](millstream_device::Kernel::of_steps)) never wait.
///
/// On GPUs, a packet of at most 8 bytes that is sent with `send` takes the shortest way, and is not
/// ordered with the other stores of its block. Larger packets, empty ones, and those that a block
/// publishes after a claim come after all earlier stores of the block.
///
/// A kernel that waits for longer than its patience ends. If its ends have the gang's words
/// (`DeviceSender(link, host)`, [`DeviceLinkView::of_gang`](crate::DeviceLinkView::of_gang)), the
/// gang then fails. Without these words, a twin fails its device, and [`DeviceLink::check`] reports
/// what happened to a GPU's kernel.
///
/// Packets of a channel arrive in the order of their claims, each once; what is on its way
/// when the kernels end is there for the next ones.
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
    from: Device,
    to: Device,
    way: TransferWay,
    patience: Duration,
    pub(super) sender: SharedBuffer<u32>,
    pub(super) slots: SharedBuffer<u32>,
    /// For each channel, the packets that the receiver has taken: the receiver's own words.
    pub(super) taken: SharedBuffer<u32>,
    pub(super) payloads: GuardedBuffer<T>,
    /// For each channel, the statistics of what was sent: the sender's own words.
    pub(super) traffic: SharedBuffer<u64>,
    /// In the host's memory: not 0 once one end has waited for too long.
    pub(super) late: SharedBuffer<u32>,
    label: String,
    pub(super) settings: Settings,
}

impl<T: Item> DeviceLink<T> {
    /// An empty link with that room. Nobody waits longer than `patience` for the other side.
    ///
    /// # Errors
    /// [`Error::MixedLink`] between a GPU and a host device, or the host; a device of another
    /// context; no memory; no thread for those who wait.
    pub fn new(
        context: &Context,
        from: &Device,
        to: &Device,
        room: impl Into<LinkRoom>,
        patience: Duration,
    ) -> Result<DeviceLink<T>> {
        const { assert!(size_of::<T>() > 0, "packets are of items that have a size") };
        for device in [from, to] {
            if !context.manages(device) {
                return Err(Error::ForeignDevice { device: device.id(), name: device.name() });
            }
        }
        // GPUs and twins store words of different sizes.
        if from.is_gpu() != to.is_gpu() {
            return Err(Error::MixedLink { from: from.name(), to: to.name() });
        }
        context.watcher().prepare(context.device_set())?;
        let way = way_between(context, from, to);
        let settings = Settings::new(patience, room.into(), size_of::<T>(), way);
        let label = format!("link from kernels of {from} to {to}");
        // The memory for each side's words, and for the slots.
        let [sender, receiver] = match way {
            TransferWay::Host => [context.host(); 2],
            _ => [from, to],
        };
        Ok(DeviceLink {
            context: context.clone(),
            sender: sender
                .shared(settings.all_line_words())?
                .with_label(format!("credit of {label}")),
            slots: receiver
                .shared(settings.all_slot_words())?
                .with_label(format!("slots of {label}")),
            taken: receiver
                .shared(settings.all_line_words())?
                .with_label(format!("positions of {label}")),
            traffic: sender
                .shared(settings.all_traffic_words())?
                .with_label(format!("traffic of {label}")),
            payloads: receiver.guarded(settings.all_items())?.with_label(label.clone()),
            late: context.host().shared(1)?.with_label(format!("patience of {label}")),
            label,
            from: from.clone(),
            to: to.clone(),
            way,
            patience,
            settings,
        })
    }

    /// Where the link's packets lie: in the receiver's memory ([`TransferWay::Push`]), or in the
    /// host's ([`TransferWay::Host`]) if the devices do not reach each other's memory or the
    /// context [asks for that way](crate::ContextBuilder::transfer).
    pub fn way(&self) -> TransferWay {
        self.way
    }

    /// Reports a timeout; call it when the link's kernels are over, since a kernel that runs out of
    /// patience just ends. Kernels of a [`Gang`](crate::Gang) whose ends have the gang's words fail
    /// the gang, too.
    ///
    /// # Errors
    /// [`Error::LinkTimeout`] if an end has waited for too long, at any time.
    pub fn check(&self) -> Result<()> {
        match self.late.load(0)? {
            0 => Ok(()),
            _ => Err(Error::LinkTimeout { link: self.label.clone(), patience: self.patience }),
        }
    }

    /// How much it holds.
    pub fn room(&self) -> LinkRoom {
        self.settings.room()
    }

    /// What kernels have sent since the link was made.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use millstream_device::{Kernel, Step};
    /// # use millstream_flow::{Context, DeviceLink, DeviceLinkEnd, Devices};
    /// # let context = Context::builder().devices(Devices::host(2)).build()?;
    /// # let [one, other] = context.devices() else { unreachable!() };
    /// let link = DeviceLink::<u32>::new(&context, one, other, (8, 4), Duration::from_secs(5))?;
    /// # let send = Kernel::<(DeviceLinkEnd<u32>,)>::of_step_closure("send", |_, (link,)| {
    /// #     Ok(if link.try_send(&[1, 2, 3])? { Step::Done } else { Step::Waits })
    /// # });
    /// # let stream = one.stream()?;
    /// send.launch(&stream, 1, (&link,))?; // a packet of three items
    /// stream.record()?.synchronize()?;
    /// let sent = context.block_on(link.statistics())??;
    /// assert_eq!((sent.packets, sent.packets_pushed, sent.bytes), (1, 1, 12));
    /// # Ok::<(), millstream_flow::Error>(())
    /// ```
    ///
    /// # Errors
    /// A kernel of the sender that may still run; no memory, or a failed device.
    ///
    /// # Cancel safety
    /// Nothing has changed if it is dropped.
    ///
    /// # Device ordering
    /// It counts what kernels have sent that the host has waited for.
    pub async fn statistics(&self) -> Result<LinkStatistics> {
        let sender = if self.way == TransferWay::Host { self.context.host() } else { &self.from };
        let stream = sender.stream()?;
        let words = stream.download_shared(&self.traffic, 0..self.traffic.len())?.await?;
        let item_bytes = size_of::<T>() as u64;
        let mut statistics = LinkStatistics::new(self.from.name(), self.to.name());
        for channel in words.chunks(TRAFFIC_WORDS) {
            let traffic = Traffic::of(channel);
            statistics.packets += traffic.packets;
            statistics.bytes += traffic.items * item_bytes;
            let largest = traffic.largest * item_bytes;
            statistics.largest_packet_bytes = statistics.largest_packet_bytes.max(largest);
        }
        match self.way {
            TransferWay::Host => {
                statistics.packets_by_host = statistics.packets;
                statistics.packets_through_host = statistics.packets;
            }
            _ => statistics.packets_pushed = statistics.packets,
        }
        Ok(statistics)
    }

    /// How long a twin waits.
    pub(super) fn patience(&self) -> Patience {
        Patience::new(&self.context, self.patience)
    }
}

/// The kernels copy themselves, whichever way is asked for.
fn way_between(context: &Context, from: &Device, to: &Device) -> TransferWay {
    let are_peers = from.reaches(to) && to.reaches(from);
    match context.transfer() {
        Some(TransferWay::Host) => TransferWay::Host,
        _ if !are_peers => TransferWay::Host,
        _ => TransferWay::Push,
    }
}
