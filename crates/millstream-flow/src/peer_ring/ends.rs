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

type Parts<T> = (Words, Words, Shared<u32>, Guarded<T>, Value<Settings>);

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

/// Since when a twin waits for a slot, or for a packet, that it has missed.
#[derive(Debug, Default)]
struct Waits {
    slot: Mutex<Option<Instant>>,
    packet: Mutex<Option<Instant>>,
}

/// A link that a launch holds.
#[derive(Debug)]
#[doc(hidden)]
pub struct HeldLink<T: Item> {
    parts: <Parts<T> as Parameter>::Bound,
    patience: Option<Duration>,
    waits: Waits,
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
        let (sender, slots, taken, payloads, settings) = unsafe { Parts::<T>::view(&bound.parts) };
        bound.attention.get_or_init(|| bound.context.watcher().attend());
        let (patience, waits) = (bound.patience, &bound.waits);
        DeviceLinkView { sender, slots, taken, payloads, settings, patience, waits }
    }
}

impl<T: Item> Argument<DeviceLinkEnd<T>> for &DeviceLink<T> {
    fn bind(self, accesses: &mut Accesses) -> millstream_device::Result<HeldLink<T>> {
        let parts = (&self.sender, &self.slots, &self.taken, &self.payloads, self.settings);
        let parts = Argument::<Parts<T>>::bind(parts, accesses)?;
        Ok(HeldLink {
            parts,
            patience: self.patience(),
            waits: Waits::default(),
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
    settings: Settings,
    patience: Option<Duration>,
    waits: &'a Waits,
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
        self.met_or_missed(&self.waits.slot, sent.flatten()).map(|sent| sent.is_some())
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
        self.met_or_missed(&self.waits.packet, received.flatten())
    }

    /// Patience begins anew with each wait, as on GPUs: when a slot or a packet is missed first.
    fn met_or_missed<R>(
        &self,
        wait: &Mutex<Option<Instant>>,
        result: Option<R>,
    ) -> Result<Option<R>, KernelFault> {
        let mut start = wait.lock();
        if result.is_some() {
            *start = None;
            self.slots.ring();
            return Ok(result);
        }
        let waited = start.get_or_insert_with(Instant::now).elapsed();
        match self.patience.is_some_and(|most| waited >= most) {
            true => Err(KernelFault::new("the other end of its link did not come in time")),
            false => Ok(None),
        }
    }

    fn ring(&self) -> Option<PeerRing<'_>> {
        PeerRing::new(self.sender.words(), self.slots.words())
    }
}
