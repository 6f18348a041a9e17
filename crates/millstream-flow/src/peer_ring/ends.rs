//! What kernels take of a link: `DeviceLink` of `device_link.cuh`.

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use millstream_device::{
    Accesses, Argument, ArgumentWriter, Guarded, GuardedItems, KernelFault, Parameter, Shared,
    Value, Words, WordsView,
};

use super::core::{PeerRing, RingReceiver};
use super::link::DeviceLink;
use super::room::{LinkRoom, Settings};
use super::traffic;
use crate::full_empty::Attention;
use crate::gang::{PEER_IS_LATE, give_up, stop_word};
use crate::patience::{Patience, Waits};
use crate::{Context, Item};

/// A [`DeviceLink`] of `T` as a kernel's parameter, at either end. GPUs take
/// `millstream::DeviceLink<T>` by value; the twin sees [`DeviceLinkView`].
#[derive(Debug)]
pub struct DeviceLinkEnd<T>(PhantomData<T>);

type Parts<T> = (Words, Words, Shared<u32>, Guarded<T>, Shared<u64>, Shared<u32>, Value<Settings>);

/// What a twin may miss on a channel: a packet or a free slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Missed {
    Slot,
    Packet,
}

/// A link that a launch holds.
#[derive(Debug)]
#[doc(hidden)]
pub struct HeldLink<T: Item> {
    parts: <Parts<T> as Parameter>::Bound,
    patience: Patience,
    waits: Waits<(u32, Missed)>,
    context: Context,
    /// Set while a twin waits; GPUs look at the time themselves.
    attention: OnceLock<Attention>,
}

// SAFETY: the parts keep the promise, and are given out as what they are.
unsafe impl<T: Item> Parameter for DeviceLinkEnd<T> {
    type Bound = HeldLink<T>;
    type View<'a> = DeviceLinkView<'a, T>;

    fn write(bound: &HeldLink<T>, to: &mut ArgumentWriter) {
        Parts::<T>::write(&bound.parts, to);
    }

    unsafe fn view(bound: &HeldLink<T>) -> DeviceLinkView<'_, T> {
        // SAFETY: the caller's promise covers every part.
        let parts = unsafe { Parts::<T>::view(&bound.parts) };
        let (sender, slots, taken, payloads, traffic, late, settings) = parts;
        bound.attention.get_or_init(|| bound.context.watcher().attend());
        let (patience, waits) = (bound.patience, &bound.waits);
        DeviceLinkView {
            sender,
            slots,
            taken,
            payloads,
            traffic,
            late,
            settings,
            patience,
            waits,
            host: None,
            channel: 0,
        }
    }
}

// SAFETY: the parts keep the promise, and nothing else is held.
unsafe impl<T: Item> Argument<DeviceLinkEnd<T>> for &DeviceLink<T> {
    fn bind(self, accesses: &mut Accesses) -> millstream_device::Result<HeldLink<T>> {
        let (payloads, traffic, late) = (&self.payloads, &self.traffic, &self.late);
        let parts =
            (&self.sender, &self.slots, &self.taken, payloads, traffic, late, self.settings);
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

/// What the host twin of a kernel sees of a link, at its first [channel](Self::channel). It
/// never waits: a block that cannot go on returns
/// [`Step::Waits`](millstream_device::Step::Waits), and is called again from its beginning,
/// where [`sent`](Self::sent) and [`received`](Self::received) say how far it has come.
#[derive(Clone, Copy, Debug)]
pub struct DeviceLinkView<'a, T> {
    sender: WordsView<'a>,
    slots: WordsView<'a>,
    taken: &'a [AtomicU32],
    payloads: GuardedItems<'a, T>,
    traffic: &'a [AtomicU64],
    late: &'a [AtomicU32],
    settings: Settings,
    patience: Patience,
    waits: &'a Waits<(u32, Missed)>,
    /// The gang's words.
    host: Option<&'a [AtomicU32]>,
    channel: u32,
}

impl<'a, T: Item> DeviceLinkView<'a, T> {
    /// The same link at another of its channels, counted from 0.
    ///
    /// # Errors
    /// The link does not have that channel.
    pub fn channel(&self, channel: usize) -> Result<DeviceLinkView<'a, T>, KernelFault> {
        let channels = self.settings.channels();
        match u32::try_from(channel).ok().filter(|channel| *channel < channels) {
            Some(channel) => Ok(DeviceLinkView { channel, ..*self }),
            None => Err(KernelFault::new(format!("channel {channel} of a link of {channels}"))),
        }
    }

    /// The same link with its gang's [words](crate::Gang::words), as a kernel may give them to its
    /// ends. A twin then stops waiting when the gang is stopped, and the gang fails with
    /// [`Error::PeerIsLate`](crate::Error::PeerIsLate) if a twin has waited for too long. In both
    /// cases the call ends in an [early return](KernelFault::early_return).
    #[must_use]
    pub fn of_gang(&self, words: &'a [AtomicU32]) -> DeviceLinkView<'a, T> {
        DeviceLinkView { host: Some(words), ..*self }
    }

    /// How much the link holds.
    pub fn room(&self) -> LinkRoom {
        self.settings.room()
    }

    /// Packets sent on the channel since the link was made; wraps around.
    pub fn sent(&self) -> u32 {
        self.ring().map_or(0, |ring| ring.claimed())
    }

    /// Packets received from it since the link was made; wraps around.
    pub fn received(&self) -> u32 {
        // Relaxed: only the receiver writes it.
        self.taken().map_or(0, |taken| taken.load(Ordering::Relaxed))
    }

    /// Claims a slot, lets `fill` write items into it, and publishes as many of them, from the
    /// first one on, as `fill` returns. Returns false, and sends nothing, if no slot is free or
    /// another block is using one.
    ///
    /// # Errors
    /// More items than a packet has, after which nothing more can be sent; no slot came free in
    /// time; a fault of a GPU.
    pub fn try_claim(&self, fill: impl FnOnce(&mut [T]) -> usize) -> Result<bool, KernelFault> {
        // First take the turn to write: a claimed slot holds up all later ones.
        let sent = self.payloads.try_write(0..self.payloads.len(), |payloads| {
            let (ring, claim) = self.ring().and_then(|ring| Some((ring, ring.try_claim()?)))?;
            let count = fill(payloads.get_mut(self.settings.items(self.channel, claim.slot))?);
            if let Err(fault) = self.fits(count) {
                return Some(Err(fault));
            }
            ring.publish(claim, count as u32);
            traffic::count(self.traffic.get(self.settings.traffic(self.channel))?, count);
            Some(Ok(()))
        })?;
        Ok(self.met_or_missed(Missed::Slot, sent.flatten())?.transpose()?.is_some())
    }

    /// Takes the next packet, lets `read` see its items in place, and gives the packet back.
    /// Returns `None` if no packet is there or another block is using one.
    ///
    /// # Errors
    /// No packet came in time; a fault of a GPU.
    pub fn try_take<R>(&self, read: impl FnOnce(&[T]) -> R) -> Result<Option<R>, KernelFault> {
        let read = self.payloads.try_read(0..self.payloads.len(), |payloads| {
            let (ring, mut receiver) = (self.ring()?, RingReceiver::new(self.received()));
            let packet = receiver.take(ring)?;
            let items = payloads.get(self.settings.items(self.channel, packet.slot))?;
            let result = read(items.get(..packet.count as usize)?);
            receiver.give_back(ring);
            // Relaxed: only the receiver uses it.
            self.taken()?.store(receiver.taken(), Ordering::Relaxed);
            Some(result)
        })?;
        self.met_or_missed(Missed::Packet, read.flatten())
    }

    /// Sends a packet of these items. Returns false, and sends nothing, if no slot is free or
    /// another block is using one.
    ///
    /// # Errors
    /// More items than a packet has; no slot came free in time.
    pub fn try_send(&self, items: &[T]) -> Result<bool, KernelFault> {
        self.fits(items.len())?;
        self.try_claim(|slot| {
            slot[..items.len()].copy_from_slice(items);
            items.len()
        })
    }

    /// Takes the next packet; `None` if no packet is there or another block is using one.
    ///
    /// # Errors
    /// No packet came in time.
    pub fn try_receive(&self) -> Result<Option<Vec<T>>, KernelFault> {
        self.try_take(<[T]>::to_vec)
    }

    fn fits(&self, items: usize) -> Result<(), KernelFault> {
        let most = self.settings.packet_items();
        match items <= most {
            true => Ok(()),
            false => Err(KernelFault::new(format!(
                "it sends {items} items in a packet of at most {most}"
            ))),
        }
    }

    /// Patience begins anew with each wait.
    fn met_or_missed<R>(
        &self,
        missed: Missed,
        result: Option<R>,
    ) -> Result<Option<R>, KernelFault> {
        let wait = (self.channel, missed);
        if result.is_some() {
            self.waits.met(&wait);
            self.slots.ring();
            return Ok(result);
        }
        let stop = self.host.map(stop_word).transpose()?;
        // Relaxed: the word itself is all that is communicated.
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed) != 0) {
            return Err(KernelFault::early_return());
        }
        if !self.patience.is_over(self.waits.missed(wait)) {
            return Ok(None);
        }
        // Relaxed: the kernel's end publishes it.
        self.late.iter().for_each(|late| late.store(1, Ordering::Relaxed));
        let Some(stop) = stop else {
            return Err(KernelFault::new("the other end of its link did not come in time"));
        };
        let fault = give_up(stop, PEER_IS_LATE);
        self.slots.ring();
        Err(fault)
    }

    fn taken(&self) -> Option<&'a AtomicU32> {
        self.taken.get(self.settings.taken(self.channel))
    }

    fn ring(&self) -> Option<PeerRing<'a>> {
        let sender = self.sender.words().get(self.settings.sender_words(self.channel))?;
        PeerRing::new(sender, self.slots.words().get(self.settings.words_of_slots(self.channel))?)
    }
}
