//! What kernels take for a link: `DeviceLink` of `device_link.cuh`.

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    Accesses, Argument, ArgumentWriter, Guarded, GuardedItems, KernelFault, Parameter, Shared,
    Value, Words, WordsView,
};

use super::core::{PeerRing, RingReceiver};
use super::link::DeviceLink;
use crate::full_empty::Attention;
use crate::sync::Mutex;
use crate::{Context, Item};

/// A [`DeviceLink`] of `T` as a kernel's parameter, at either end. GPUs take
/// `millstream::DeviceLink<T>` by value; the twin sees [`DeviceLinkView`].
#[derive(Debug)]
pub struct DeviceLinkEnd<T>(PhantomData<T>);

type Parts<T> = (Words, Words, Shared<u32>, Guarded<T>, Shared<u32>, Value<Settings>);

/// `DeviceLinkSettings` of the header.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
#[doc(hidden)]
pub struct Settings {
    patience_ns: u64,
    packet_items: u32,
    unused: u32,
}

impl Settings {
    pub(super) fn new(patience: Duration, packet_items: usize) -> Settings {
        Settings {
            patience_ns: u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX),
            packet_items: u32::try_from(packet_items).unwrap_or(u32::MAX),
            unused: 0,
        }
    }

    pub(super) fn packet_items(&self) -> usize {
        self.packet_items as usize
    }
}

/// A link that a launch holds.
#[derive(Debug)]
#[doc(hidden)]
pub struct HeldLink<T: Item> {
    parts: <Parts<T> as Parameter>::Bound,
    patience: Option<Duration>,
    /// When the twin sent or received last.
    progress: Mutex<Instant>,
    context: Context,
    /// While a twin waits; GPUs look at the time themselves.
    attention: OnceLock<Attention>,
}

impl<T: Item> Parameter for DeviceLinkEnd<T> {
    type Bound = HeldLink<T>;
    type View<'a> = DeviceLinkView<'a, T>;

    fn write(bound: &HeldLink<T>, to: &mut ArgumentWriter) {
        Parts::<T>::write(&bound.parts, to);
    }

    unsafe fn view(bound: &HeldLink<T>) -> DeviceLinkView<'_, T> {
        // SAFETY: the caller's promise covers every part.
        let parts = unsafe { Parts::<T>::view(&bound.parts) };
        let (sender, slots, taken, payloads, late, settings) = parts;
        bound.attention.get_or_init(|| bound.context.watcher().attend());
        let (patience, progress) = (bound.patience, &bound.progress);
        DeviceLinkView { sender, slots, taken, payloads, late, settings, patience, progress }
    }
}

impl<T: Item> Argument<DeviceLinkEnd<T>> for &DeviceLink<T> {
    fn bind(self, accesses: &mut Accesses) -> millstream_device::Result<HeldLink<T>> {
        let (payloads, late, settings) = (&self.payloads, &self.late, self.settings);
        let parts = (&self.sender, &self.slots, &self.taken, payloads, late, settings);
        let parts = Argument::<Parts<T>>::bind(parts, accesses)?;
        Ok(HeldLink {
            parts,
            patience: self.patience(),
            progress: Mutex::new(Instant::now()),
            context: self.context.clone(),
            attention: OnceLock::new(),
        })
    }
}

/// What the host twin of a kernel sees of a link. It never waits: a block that cannot go
/// on returns [`Step::Waits`](millstream_device::Step::Waits), and is called again from
/// its beginning, where [`sent`](Self::sent) and [`received`](Self::received) say how far
/// it has come.
#[derive(Debug)]
pub struct DeviceLinkView<'a, T> {
    sender: WordsView<'a>,
    slots: WordsView<'a>,
    taken: &'a [AtomicU32],
    payloads: GuardedItems<'a, T>,
    late: &'a [AtomicU32],
    settings: Settings,
    patience: Option<Duration>,
    progress: &'a Mutex<Instant>,
}

impl<T: Item> DeviceLinkView<'_, T> {
    /// Packets sent since the link was made; wraps around.
    pub fn sent(&self) -> u32 {
        self.ring().map_or(0, |ring| ring.claimed())
    }

    /// Packets received since the link was made; wraps around.
    pub fn received(&self) -> u32 {
        // Relaxed: the receiver's own.
        self.taken.first().map_or(0, |taken| taken.load(Ordering::Relaxed))
    }

    /// Sends a packet of these items; false, and nothing is sent, if there is no free
    /// slot, or somebody is at one.
    ///
    /// # Errors
    /// More items than a packet has; no slot came free in time.
    pub fn try_send(&self, items: &[T]) -> Result<bool, KernelFault> {
        let most = self.settings.packet_items();
        if items.len() > most {
            let fault = format!("it sends {} items in a packet of at most {most}", items.len());
            return Err(KernelFault::new(fault));
        }
        // The turn first: a claimed slot holds up all later ones.
        let sent = self.payloads.try_write(0..self.payloads.len(), |payloads| {
            let (ring, claim) = self.ring().and_then(|ring| Some((ring, ring.try_claim()?)))?;
            let first = claim.slot * most;
            payloads[first..first + items.len()].copy_from_slice(items);
            ring.publish(claim, items.len() as u32);
            Some(())
        });
        self.done(sent.flatten()).map(|sent| sent.is_some())
    }

    /// Takes the next packet, if it is there and nobody is at one.
    ///
    /// # Errors
    /// No packet came in time.
    pub fn try_receive(&self) -> Result<Option<Vec<T>>, KernelFault> {
        let most = self.settings.packet_items();
        let received = self.payloads.try_read(0..self.payloads.len(), |payloads| {
            let (ring, mut receiver) = (self.ring()?, RingReceiver::new(self.received()));
            let packet = receiver.take(ring)?;
            let first = packet.slot * most;
            let items = payloads[first..first + packet.count as usize].to_vec();
            receiver.give_back(ring);
            // Relaxed: the receiver's own.
            self.taken.first()?.store(receiver.taken(), Ordering::Relaxed);
            Some(items)
        });
        self.done(received.flatten())
    }

    /// Something has changed, or it was too late for that.
    fn done<R>(&self, result: Option<R>) -> Result<Option<R>, KernelFault> {
        if result.is_some() {
            *self.progress.lock() = Instant::now();
            self.slots.ring();
        } else if self.patience.is_some_and(|most| self.progress.lock().elapsed() >= most) {
            // Relaxed: the kernel's end publishes it.
            self.late.iter().for_each(|late| late.store(1, Ordering::Relaxed));
            return Err(KernelFault::new("the other end of its link did not come in time"));
        }
        Ok(result)
    }

    fn ring(&self) -> Option<PeerRing<'_>> {
        PeerRing::new(self.sender.words(), self.slots.words())
    }
}
