//! What kernels take of a segment: `FullEmptySegment` of `full_empty.cuh`.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    Accesses, Argument, ArgumentWriter, Guarded, GuardedItems, KernelFault, KernelResult,
    Parameter, Shared, Value, Words, WordsView, patience_ns,
};

use super::claims::Use;
use super::core::PacketWords;
use super::group::timed_out;
use super::segment::{FullEmptySegment, SegmentCore};
use super::watcher::Attention;
use crate::Item;
use crate::patience::Waits;

/// A [`FullEmptySegment`] of `T` as a kernel's parameter. GPUs take
/// `millstream::FullEmptySegment<T>` by value; the twin sees [`PacketsView`].
#[derive(Debug)]
pub struct FullEmptyPackets<T>(std::marker::PhantomData<T>);

type Parts<T> = (Guarded<T>, Words, Words, Shared<u64>, Shared<u64>, Shared<u32>, Value<Settings>);

millstream_device::cuda_struct! {
    /// `FullEmptySettings` of the header.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    #[doc(hidden)]
    pub struct Settings as "millstream::FullEmptySettings" {
        patience_ns: u64,
        packet_items: u64,
        packets: u32,
        epoch: u32,
        writers: u32,
        segment: u32,
    }
}

/// What a twin waits for: a packet, and whether it should be full.
type Wait = (usize, bool);

/// A segment that a launch holds.
#[derive(Debug)]
#[doc(hidden)]
pub struct HeldPackets<T: Item> {
    parts: <Parts<T> as Parameter>::Bound,
    waits: Waits<Wait>,
    given: Given<T>,
    /// Set while a twin waits; GPUs look at the time themselves.
    attention: OnceLock<Attention>,
}

/// A kernel has the segment until this is dropped.
#[derive(Debug)]
struct Given<T: Item>(Arc<SegmentCore<T>>);

impl<T: Item> Given<T> {
    fn to(core: &Arc<SegmentCore<T>>) -> Given<T> {
        core.kernels.begin();
        // From now on, the kernel may change the words of packets that copies have claimed.
        if core.claims.are_any() {
            core.mark_untold();
        }
        Given(Arc::clone(core))
    }
}

impl<T: Item> Drop for Given<T> {
    fn drop(&mut self) {
        self.0.kernels.end();
    }
}

// SAFETY: the parts keep the promise, and are given out as what they are.
unsafe impl<T: Item> Parameter for FullEmptyPackets<T> {
    type Bound = HeldPackets<T>;
    type View<'a> = PacketsView<'a, T>;

    fn write(bound: &HeldPackets<T>, to: &mut ArgumentWriter) {
        Parts::<T>::write(&bound.parts, to);
    }

    unsafe fn view(bound: &HeldPackets<T>) -> PacketsView<'_, T> {
        // SAFETY: the caller's promise covers every part.
        let (items, words, mirror, arrivals, control, _, settings) =
            unsafe { Parts::<T>::view(&bound.parts) };
        let (waits, core) = (&bound.waits, &bound.given.0);
        bound.attention.get_or_init(|| core.group.attend());
        PacketsView { items, words, mirror, arrivals, control, settings, waits, core }
    }
}

// SAFETY: the parts keep the promise, and nothing else is held.
unsafe impl<T: Item> Argument<FullEmptyPackets<T>> for &FullEmptySegment<T> {
    fn bind(self, accesses: &mut Accesses) -> millstream_device::Result<HeldPackets<T>> {
        let core = &self.core;
        let settings = Settings {
            patience_ns: patience_ns(core.group.patience()),
            packet_items: core.shape.packet_items() as u64,
            packets: core.shape.packets() as u32,
            epoch: self.epoch,
            writers: u32::try_from(core.shape.writers()).unwrap_or(u32::MAX),
            segment: core.number as u32,
        };
        let parts = (
            &core.items,
            &core.words,
            &core.mirror,
            &core.arrivals,
            core.group.control(),
            &core.local,
            settings,
        );
        Ok(HeldPackets {
            given: Given::to(core),
            parts: Argument::<Parts<T>>::bind(parts, accesses)?,
            waits: Waits::default(),
            attention: OnceLock::new(),
        })
    }
}

/// What the host twin of a kernel sees of a segment. It never waits: a block that finds
/// a packet empty returns [`Step::Waits`](millstream_device::Step::Waits), and is called
/// again.
#[derive(Debug)]
pub struct PacketsView<'a, T: Item> {
    items: GuardedItems<'a, T>,
    words: WordsView<'a>,
    mirror: WordsView<'a>,
    arrivals: &'a [AtomicU64],
    control: &'a [AtomicU64],
    settings: Settings,
    waits: &'a Waits<Wait>,
    core: &'a SegmentCore<T>,
}

impl<T: Item> PacketsView<'_, T> {
    /// Packets.
    pub fn packets(&self) -> usize {
        self.settings.packets as usize
    }

    /// Items of a packet.
    pub fn range(&self, packet: usize) -> Range<usize> {
        let (len, size) = (self.items.len(), self.settings.packet_items as usize);
        let start = packet.saturating_mul(size).min(len);
        start..start.saturating_add(size).min(len)
    }

    /// The words of a packet; a fault if there is no such packet, as on a GPU.
    fn words_of(&self, packet: usize) -> Result<PacketWords<'_>, KernelFault> {
        self.of(&self.words, packet).ok_or_else(|| {
            let (segment, packets) = (self.settings.segment, self.packets());
            KernelFault::new(format!("packet {packet} of segment {segment}, which has {packets}"))
        })
    }

    fn of<'w>(&'w self, words: &'w WordsView<'_>, packet: usize) -> Option<PacketWords<'w>> {
        let Settings { epoch, writers, .. } = self.settings;
        let (word, arrivals) = (words.words().get(packet)?, self.arrivals.get(packet)?);
        Some(PacketWords { word, arrivals, epoch, writers })
    }

    /// Whether a packet is full.
    ///
    /// # Errors
    /// A packet that did not become full in time; a packet that does not exist; a group that has
    /// ended.
    pub fn is_full(&self, packet: usize) -> Result<bool, KernelFault> {
        let is_full = self.words_of(packet)?.is_full();
        self.met_or_missed(packet, true, is_full)
    }

    fn are_full(&self, mut packets: Range<usize>) -> Result<bool, KernelFault> {
        packets.try_fold(true, |are, packet| Ok::<_, KernelFault>(are && self.is_full(packet)?))
    }

    /// Whether a packet is empty.
    ///
    /// # Errors
    /// As [`PacketsView::is_full`].
    pub fn is_empty(&self, packet: usize) -> Result<bool, KernelFault> {
        let is_empty = self.words_of(packet)?.is_empty();
        self.met_or_missed(packet, false, is_empty)
    }

    /// Notes whether a wait is met, and returns that. Patience begins anew with each wait.
    fn met_or_missed(&self, packet: usize, full: bool, is_met: bool) -> Result<bool, KernelFault> {
        if is_met {
            self.waits.met(&(packet, full));
            return Ok(true);
        }
        self.goes_on(packet, self.waits.missed((packet, full))).map(|()| false)
    }

    /// Fails if it makes no sense to go on waiting for a packet that has been missed since `since`.
    fn goes_on(&self, packet: usize, since: Instant) -> Result<(), KernelFault> {
        let Some(control) = self.control.first() else { return Ok(()) };
        if self.core.group.host_patience().is_over(since) {
            let cause = timed_out(self.settings.segment as usize, packet);
            // Relaxed: the word itself is all that is communicated.
            let _ = control.compare_exchange(0, cause, Ordering::Relaxed, Ordering::Relaxed);
        }
        match control.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(KernelFault::new(format!(
                "it waits for packet {packet} of segment {}, and waiting has ended",
                self.settings.segment
            ))),
        }
    }

    /// A copy of a packet's items; `None` if the block must wait for it.
    ///
    /// # Errors
    /// As [`PacketsView::read`].
    pub fn items(&self, packet: usize) -> Result<Option<Vec<T>>, KernelFault> {
        self.read(packet, <[T]>::to_vec)
    }

    /// Reads a packet; `None` if the block must wait for it. `read` must not use the segment, since
    /// it would wait for itself.
    ///
    /// # Errors
    /// As [`PacketsView::is_full`]; a fault of a GPU, since other GPUs may still copy into the
    /// packet.
    pub fn read<R>(
        &self,
        packet: usize,
        read: impl FnOnce(&[T]) -> R,
    ) -> Result<Option<R>, KernelFault> {
        if !self.is_full(packet)? {
            return Ok(None);
        }
        let Some(_claim) = self.core.use_on_host(packet..packet + 1, Use::Read) else {
            return Ok(None);
        };
        // A copy that has ended meanwhile may have emptied the packet.
        if !self.is_full(packet)? {
            return Ok(None);
        }
        self.items.try_read(self.range(packet), read)
    }

    /// Writes the items of a packet, without marking it full; `None` if the block must wait because
    /// others are using them. `write` must not use the segment, since it would wait for itself.
    ///
    /// # Errors
    /// A packet that does not exist; a fault of a GPU: others may still copy into the packet.
    pub fn write<R>(
        &self,
        packet: usize,
        write: impl FnOnce(&mut [T]) -> R,
    ) -> Result<Option<R>, KernelFault> {
        self.words_of(packet)?;
        let claim = self.core.use_on_host(packet..packet + 1, Use::Write);
        let written = claim.map(|_claim| self.items.try_write(self.range(packet), write));
        Ok(written.transpose()?.flatten())
    }

    /// Copies the items of a packet from another segment of the same length, which may be cut into
    /// other packets, and marks the packet full here, unless it is full already. Returns false if
    /// the block must wait for the items. Kernels do this with items of the host's memory that they
    /// read more than once.
    ///
    /// # Errors
    /// As [`PacketsView::read`].
    pub fn pull(&self, from: &PacketsView<'_, T>, packet: usize) -> Result<bool, KernelFault> {
        if self.words_of(packet)?.is_full() {
            return Ok(true);
        }
        let range = self.range(packet);
        if from.items.len() != self.items.len() {
            return Err(KernelFault::new("it pulls from a segment of another length"));
        }
        let size = (from.settings.packet_items as usize).max(1);
        let there = range.start / size..range.end.div_ceil(size);
        if !from.are_full(there.clone())? {
            return Ok(false);
        }
        let Some(_claim) = from.core.use_on_host(there.clone(), Use::Read) else {
            return Ok(false);
        };
        // As in `read`.
        if !from.are_full(there)? {
            return Ok(false);
        }
        let Some(items) = from.items.try_read(range, <[T]>::to_vec)? else { return Ok(false) };
        let copied = self.write(packet, |to| to.copy_from_slice(&items))?.is_some();
        if copied {
            self.publish(packet)?;
        }
        Ok(copied)
    }

    /// Says that one writer's items are there. Returns true for the last of the packet's writers,
    /// which must then [mark it full](PacketsView::mark_full).
    ///
    /// # Errors
    /// A packet that does not exist.
    pub fn arrive(&self, packet: usize) -> Result<bool, KernelFault> {
        self.words_of(packet).map(|words| words.arrive())
    }

    /// Marks the packet full: all its items are there.
    ///
    /// # Errors
    /// As [`PacketsView::arrive`].
    pub fn mark_full(&self, packet: usize) -> KernelResult {
        self.words_of(packet)?;
        self.catch_up(packet, false);
        self.change(packet, |words| words.mark_full());
        Ok(())
    }

    /// [Arrives](PacketsView::arrive), and marks the packet full if this is its last writer.
    ///
    /// # Errors
    /// As [`PacketsView::arrive`].
    pub fn publish(&self, packet: usize) -> KernelResult {
        match self.arrive(packet)? {
            true => self.mark_full(packet),
            false => Ok(()),
        }
    }

    /// Marks the packet empty: its items are read, and may be replaced.
    ///
    /// # Errors
    /// As [`PacketsView::arrive`].
    pub fn mark_empty(&self, packet: usize) -> KernelResult {
        self.words_of(packet)?;
        self.catch_up(packet, true);
        self.change(packet, |words| words.mark_empty());
        Ok(())
    }

    fn change(&self, packet: usize, change: impl Fn(&PacketWords<'_>)) {
        let words = [&self.words, &self.mirror].into_iter().filter_map(|of| self.of(of, packet));
        words.for_each(|words| change(&words));
        self.words.ring();
    }

    /// Waits until the mirror shows what the word does, as in the header. The mirror changes right
    /// after the word, unless the stream that changes both fails in between.
    fn catch_up(&self, packet: usize, full: bool) {
        let (Some(word), Some(mirror)) =
            (self.of(&self.words, packet), self.of(&self.mirror, packet))
        else {
            return;
        };
        let since = Instant::now();
        while word.is_full() == full && mirror.is_full() != full {
            if self.goes_on(packet, since).is_err() {
                return;
            }
            std::thread::yield_now();
        }
    }
}
