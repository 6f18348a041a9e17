//! The segment: its packets, its epochs, and host code that fills and reads them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use millstream_device::{Event, GuardedBuffer, InFlight, Part, Promise, SharedBuffer, Stream};

use super::claims::{Claims, Use};
use super::core::next_epoch;
use super::group::FullEmpty;
use super::holders::{CopyUnderWay, Holder, HostUse};
use super::kernel_uses::KernelUses;
use super::shape::PacketShape;
use super::trigger::{Condition, Pending, Then, Wait, Waiter, Wanted};
use crate::{Error, Item, Result};

/// `local_words` of the header.
const LOCAL_WORDS: usize = 2;

/// A buffer whose packets are each full or empty.
///
/// Packets are filled by host code, by copies, or by kernels, whichever device they
/// run on, and waited for in the same places. A new [epoch](Self::next_epoch) makes
/// all of them empty, without clearing anything.
pub struct FullEmptySegment<T: Item> {
    pub(super) core: Arc<SegmentCore<T>>,
    pub(super) epoch: u32,
}

/// What stays the same in all epochs.
#[derive(Debug)]
pub(super) struct SegmentCore<T: Item> {
    pub(super) group: FullEmpty,
    pub(super) number: usize,
    pub(super) shape: PacketShape,
    pub(super) items: GuardedBuffer<T>,
    /// One word for each packet, beside the items: kernels look at these.
    pub(super) words: SharedBuffer<u32>,
    /// The same words once more for host code, if it cannot reach the former; else empty.
    pub(super) mirror: SharedBuffer<u32>,
    /// Those of the two that host code looks at, if any.
    seen: Option<SharedBuffer<u32>>,
    /// One word for each packet, in which those who write it together arrive.
    pub(super) arrivals: SharedBuffer<u64>,
    /// `LocalWord`s of the header, on the device where kernels wait.
    pub(super) local: SharedBuffer<u32>,
    /// Copies of this epoch that have not been submitted yet, and events that are not complete yet.
    pub(super) waits: AtomicUsize,
    /// Claims of packets by those who use their items.
    pub(super) claims: Claims<Holder>,
    /// Some copy of this epoch announces its end by its event only: a packet's word may change earlier.
    pub(super) untold: AtomicBool,
    pub(super) kernels: KernelUses,
}

/// A wait for packets, with a promise to complete.
struct Reached<T: Item> {
    promise: Promise,
    /// Absent if the waiter awaits: it borrows the segment, so that no epoch begins meanwhile.
    wait: Option<Wait<T>>,
    /// How the waiter will use the packets; `None` if those who have claimed them need not be over by then.
    then: Option<Use>,
}

impl<T: Item> Then<T> for Reached<T> {
    fn in_use(&mut self, wanted: &[Wanted<T>]) -> Result<Range<usize>> {
        let in_use = |wanted: &Wanted<T>| !wanted.segment.is_free(&wanted.packets, self.then);
        Ok(wanted.iter().position(in_use).map_or(0..0, |at| at..at + 1))
    }

    fn go(self, met: Result<()>) {
        // Ends the wait first: whoever hears of the promise may begin a new epoch.
        drop(self.wait);
        let reason = met.map_err(|error| millstream_device::Error::Unkept {
            promise: self.promise.event().to_string(),
            reason: error.to_string(),
        });
        self.promise.complete(reason);
    }
}

/// Words to be written: buffer, place, and value.
type Signal<'a> = Vec<(&'a SharedBuffer<u32>, usize, u32)>;

impl<T: Item> fmt::Debug for FullEmptySegment<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FullEmptySegment")
            .field("items", &self.core.items)
            .field("shape", &self.core.shape)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl<T: Item> SegmentCore<T> {
    /// Whether a packet is full, as the host sees it.
    pub(super) fn is_full(&self, packet: usize, epoch: u32) -> Result<bool> {
        // An acquire load, as in `core.rs`.
        Ok(self.check_seen()?.load(packet)? == epoch)
    }

    /// The words that the host looks at; an error if the host does not see packets.
    pub(super) fn check_seen(&self) -> Result<&SharedBuffer<u32>> {
        let unseen = || Error::UnseenPackets { segment: self.group.label(self.number) };
        self.seen.as_ref().ok_or_else(unseen)
    }

    /// The words that make a packet full, and their value.
    pub(super) fn full_words(&self, packet: usize, epoch: u32) -> Signal<'_> {
        let words = [&self.words, &self.mirror].into_iter().filter(|words| !words.is_empty());
        words.map(|words| (words, packet, epoch)).collect()
    }

    /// The words that make a packet empty. They include the local ones, so that blocks that wait
    /// afterwards look for the next fill and not at what one of them has found before.
    pub(super) fn empty_words(&self, packet: usize) -> Signal<'_> {
        let near = [packet, self.shape.packets() + packet].map(|place| LOCAL_WORDS + place);
        let near = near.into_iter().filter(|place| *place < self.local.len());
        let near = near.map(|place| (&self.local, place, 0));
        near.chain(self.full_words(packet, 0)).collect()
    }

    /// How host code uses packets that it has waited for, if it reaches them.
    fn host_use(&self, condition: Condition) -> Option<Use> {
        let usage = match condition {
            Condition::Full => Use::Read,
            Condition::Empty => Use::Write,
        };
        (self.seen.is_some() && self.mirror.is_empty()).then_some(usage)
    }

    /// An access that the host has not waited for, if any.
    fn in_flight(&self) -> Option<InFlight> {
        self.items.in_flight().or_else(|| self.words.in_flight())
    }

    pub(super) fn check(&self, packets: &Range<usize>) -> Result<()> {
        let (count, Range { start, end }) = (self.shape.packets(), packets.clone());
        match start <= end && end <= count {
            true => Ok(()),
            false => Err(self.no_such_packet(end.saturating_sub(1).max(start))),
        }
    }

    pub(super) fn check_packet(&self, packet: usize) -> Result<()> {
        match packet < self.shape.packets() {
            true => Ok(()),
            false => Err(self.no_such_packet(packet)),
        }
    }

    fn no_such_packet(&self, packet: usize) -> Error {
        let segment = self.group.label(self.number);
        Error::NoSuchPacket { segment, packet, packets: self.shape.packets() }
    }
}

impl<T: Item> FullEmptySegment<T> {
    pub(super) fn new(
        group: &FullEmpty,
        device: &millstream_device::Device,
        shape: PacketShape,
        number: usize,
    ) -> Result<FullEmptySegment<T>> {
        let (label, packets) = (group.label(number), shape.packets());
        if packets > i32::MAX as usize {
            return Err(Error::NoSuchPacket { segment: label, packet: packets, packets: 1 << 31 });
        }
        let host = group.context().host();
        let mirrored = if device == host || !shape.is_seen_by_host() { 0 } else { packets };
        let reading = shape.reading_device().unwrap_or(device);
        let near = if device == host && reading != host { 2 * packets } else { 0 };
        let writing = shape.writing_device().unwrap_or(device);
        let words = device.shared(packets)?.with_label(format!("words of {label}"));
        let mirror = host.shared(mirrored)?.with_label(format!("host's words of {label}"));
        let seen = match device == host {
            true => Some(words.clone()),
            false => shape.is_seen_by_host().then(|| mirror.clone()),
        };
        let core = SegmentCore {
            group: group.clone(),
            number,
            items: device.guarded(shape.items())?.with_label(label.clone()),
            words,
            mirror,
            seen,
            arrivals: writing.shared(packets)?.with_label(format!("arrivals of {label}")),
            local: reading
                .shared(LOCAL_WORDS + near)?
                .with_label(format!("local words of {label}")),
            shape,
            waits: AtomicUsize::new(0),
            claims: Claims::default(),
            untold: AtomicBool::new(false),
            kernels: KernelUses::default(),
        };
        Ok(FullEmptySegment { core: Arc::new(core), epoch: next_epoch(0) })
    }

    /// How it is cut into packets.
    pub fn shape(&self) -> &PacketShape {
        &self.core.shape
    }

    /// The group that the segment belongs to, and ends with.
    pub fn group(&self) -> &FullEmpty {
        &self.core.group
    }

    /// Which use of the segment this is, from 1; it wraps around.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Begins a new epoch: all packets are empty, and nothing is written to make them
    /// so.
    ///
    /// # Errors
    /// A kernel or a copy of this epoch that the host has not waited for, that is bound but not
    /// submitted, or whose trigger is not met yet; an [event](Self::full_event) of packets that are
    /// not full yet; a group that has ended.
    pub fn next_epoch(&mut self) -> Result<()> {
        self.core.group.check()?;
        // Acquire: pairs with the release when a copy has been submitted: that copy is then seen to
        // be in flight.
        let waits = self.core.waits.load(Ordering::Acquire);
        let pending = match (waits, self.core.kernels.under_way()) {
            (0, 0) => self.core.in_flight().map(|access| access.to_string()),
            (0, kernels) => Some(format!("{kernels} kernels are bound to it")),
            (waits, _) => Some(format!("{waits} copies or events wait for packets")),
        };
        if let Some(access) = pending {
            let buffer = self.core.group.label(self.core.number);
            return Err(Error::InFlight { buffer, action: "begun anew", access });
        }
        // All of them belong to copies that are over.
        self.core.claims.clear();
        self.core.untold.store(false, Ordering::Relaxed);
        self.epoch = next_epoch(self.epoch);
        Ok(())
    }

    /// Whether a packet is full in this epoch, as the host sees it now.
    ///
    /// # Errors
    /// A packet that does not exist.
    pub fn is_full(&self, packet: usize) -> Result<bool> {
        self.core.check_packet(packet)?;
        self.core.is_full(packet, self.epoch)
    }

    /// Waits until packets are full; what was written before is then visible to host
    /// code, and to what it submits.
    ///
    /// # Errors
    /// [`Error::PacketTimeout`] after the group's patience; [`Error::Released`].
    ///
    /// # Cancel safety
    /// Cancel safe: once dropped, it does not end the group when the packets are late.
    pub async fn wait_full(&self, packets: Range<usize>) -> Result<()> {
        self.reached(packets, Condition::Full).await
    }

    /// Waits until packets are empty: not filled in this epoch, or emptied by a kernel, by
    /// [a copy](super::Action::MarkEmpty) or by [host code](FullEmptySegment::mark_empty).
    ///
    /// # Errors
    /// As [`FullEmptySegment::wait_full`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_empty(&self, packets: Range<usize>) -> Result<()> {
        self.reached(packets, Condition::Empty).await
    }

    async fn reached(&self, packets: Range<usize>, condition: Condition) -> Result<()> {
        let waiter = Waiter::new(self.core.group.context().device_set());
        let then = self.core.host_use(condition);
        let event = self.event(packets, condition, then, Some(&waiter))?;
        event.completed().await.or_else(|error| self.cause(error))
    }

    /// The group's own reason, if it has ended, says more than a failed event.
    fn cause(&self, error: millstream_device::Error) -> Result<()> {
        self.core.group.check()?;
        Err(error.into())
    }

    /// An event that is complete when packets are full, for streams to wait for
    /// ([`Stream::wait`]).
    ///
    /// # Errors
    /// A packet that does not exist. The event fails where
    /// [`wait_full`](FullEmptySegment::wait_full) would fail, and the group then ends, no matter
    /// who still has the event.
    pub fn full_event(&self, packets: Range<usize>) -> Result<Event> {
        self.event(packets, Condition::Full, None, None)
    }

    fn event(
        &self,
        packets: Range<usize>,
        condition: Condition,
        then: Option<Use>,
        waiter: Option<&Waiter>,
    ) -> Result<Event> {
        self.core.check(&packets)?;
        self.core.check_seen()?;
        let label = self.core.group.label(self.core.number);
        let set = self.core.group.context().device_set();
        let promise = set.promise(format!("packets {packets:?} of {label}"));
        let event = promise.event().clone();
        let wait = waiter.is_none().then(|| Wait::new(&self.core, self.epoch));
        let has_left = waiter.map(Waiter::has_left).unwrap_or_default();
        let reached = Reached { promise, then, wait };
        Pending::begin(vec![self.wanted(packets, condition)], has_left, reached);
        Ok(event)
    }

    pub(super) fn wanted(&self, packets: Range<usize>, condition: Condition) -> Wanted<T> {
        Wanted { segment: Arc::clone(&self.core), epoch: self.epoch, packets, condition }
    }

    /// As [`wait_full`](FullEmptySegment::wait_full), blocking the thread, which spins for a
    /// while: the shortest way from a kernel to host code.
    ///
    /// # Errors
    /// As [`FullEmptySegment::wait_full`].
    pub fn blocking_wait_full(&self, packets: Range<usize>) -> Result<()> {
        self.core.check(&packets)?;
        self.core.check_seen()?;
        let set = self.core.group.context().device_set();
        let (deadline, start) = (self.core.group.deadline(), Instant::now());
        let then = self.core.host_use(Condition::Full);
        let mut wanted = self.wanted(packets.clone(), Condition::Full);
        loop {
            let missing = wanted.missing()?;
            if missing.is_none() && self.core.is_free(&packets, then) {
                return Ok(());
            }
            wanted.goes_on(missing.unwrap_or(packets.start), deadline)?;
            // Packets found full need not be looked at again.
            wanted.packets.start = missing.unwrap_or(wanted.packets.start);
            if !set.stay_awake(start.elapsed()) {
                // Wait for all of them: a copy may still be using one that was found full.
                let event = self.event(packets, Condition::Full, then, None)?;
                return event.synchronize().or_else(|error| self.cause(error));
            }
        }
    }

    /// Fills a packet from host code: `write` writes its items, and then the packet is full. This
    /// works only for segments in the host's memory, which kernels then read there, and not while
    /// another thread gives the segment to a kernel. `write` must be short and must not use the
    /// segment.
    ///
    /// # Errors
    /// A packet that does not exist, that is full while a kernel has the segment
    /// ([`Error::PacketFull`]), or that a copy or a twin is using ([`Error::InFlight`]); a segment
    /// that lies elsewhere, or that the calling closure is already using
    /// ([`Nested`](millstream_device::Error::Nested)); after a fault of a GPU, that fault
    /// ([`Error::Device`]), since other GPUs may still copy into whatever memory they reach.
    pub fn fill<R>(&self, packet: usize, write: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        self.core.check_packet(packet)?;
        let _claim = self.use_on_host(packet, Use::Write, "filled")?;
        if self.core.kernels.under_way() > 0 && self.is_full(packet)? {
            let segment = self.core.group.label(self.core.number);
            return Err(Error::PacketFull { segment, packet });
        }
        let result = self.core.items.write(self.core.shape.range(packet), write)?;
        // A release store, as in `core.rs`.
        self.core.words.store(packet, self.epoch)?;
        Ok(result)
    }

    /// Lets host code read a packet that is full. This works only for segments in the host's
    /// memory. `read` must be short and must not use the segment.
    ///
    /// # Errors
    /// A packet that is not full, does not exist, or is being written by a copy or a twin
    /// ([`Error::InFlight`]); a segment that lies elsewhere, or that the calling closure is already
    /// using; a fault of a GPU, as in [`fill`](FullEmptySegment::fill).
    pub fn read<R>(&self, packet: usize, read: impl FnOnce(&[T]) -> R) -> Result<R> {
        self.check_full(packet)?;
        let _claim = self.use_on_host(packet, Use::Read, "read")?;
        // A copy that has ended meanwhile may have emptied the packet.
        self.check_full(packet)?;
        Ok(self.core.items.read(self.core.shape.range(packet), read)?)
    }

    fn check_full(&self, packet: usize) -> Result<()> {
        if self.is_full(packet)? {
            return Ok(());
        }
        Err(Error::PacketEmpty { segment: self.core.group.label(self.core.number), packet })
    }

    fn use_on_host(
        &self,
        packet: usize,
        usage: Use,
        action: &'static str,
    ) -> Result<HostUse<'_, T>> {
        let claim = self.core.use_on_host(packet..packet + 1, usage);
        claim.ok_or_else(|| self.core.in_use(packet, action))
    }

    /// Fills a packet by a copy from anywhere: the packet is full when the copy is
    /// over. Returns at once.
    ///
    /// # Errors
    /// A packet that does not exist, has another length, or is being used by host code or a twin
    /// ([`Error::InFlight`]); words of the segment that the stream's device does not reach;
    /// whatever a copy may fail with.
    pub fn fill_from<'a>(
        &self,
        stream: &Stream,
        packet: usize,
        source: impl Into<Part<'a, T>>,
    ) -> Result<()> {
        self.core.check_packet(packet)?;
        let words = self.core.full_words(packet, self.epoch);
        stream.check_signal(&words)?;
        self.core.group.listen(stream);
        let copy = Arc::<CopyUnderWay>::default();
        let (place, leaves) = ((packet, self.epoch), Some(Condition::Full));
        let number = self.core.claim_for_copy(place, Use::Write, leaves, (&copy, false));
        let number = number.ok_or_else(|| self.core.in_use(packet, "filled"))?;
        // SAFETY: the claim keeps everybody on the host away from the packet until the copy is over.
        let items = unsafe { self.core.items.part_mut(self.core.shape.range(packet))? };
        stream.copy(source, items).inspect_err(|_| {
            self.core.give_back(&(packet..packet + 1), number);
        })?;
        let told = stream.signal(&words);
        self.core.end_claim_with(&copy, stream.completed())?;
        Ok(told?)
    }

    /// Makes a packet empty once everything submitted to `stream` so far is done: for host code
    /// that has read the packet and wants it filled again in this epoch.
    /// [`Action::MarkEmpty`](super::Action::MarkEmpty) does the same after a copy. Those who waited
    /// for the full packet have either found it, or wait for the next fill. Returns at once.
    ///
    /// # Errors
    /// A packet that does not exist, or that host code or a twin is using ([`Error::InFlight`]);
    /// memory of the segment, or of the device that [reads](PacketShape::read_by) it, that the
    /// stream's device does not reach.
    pub fn mark_empty(&self, stream: &Stream, packet: usize) -> Result<()> {
        self.core.check_packet(packet)?;
        let words = self.core.empty_words(packet);
        stream.check_signal(&words)?;
        self.core.group.listen(stream);
        // Claimed as by a copy, since others may then change the word, too: it does not tell of one
        // copy alone.
        let change = Arc::<CopyUnderWay>::default();
        let (place, leaves) = ((packet, self.epoch), Some(Condition::Empty));
        let number = self.core.claim_for_copy(place, Use::Write, leaves, (&change, false));
        let number = number.ok_or_else(|| self.core.in_use(packet, "emptied"))?;
        stream.signal(&words).inspect_err(|_| {
            self.core.give_back(&(packet..packet + 1), number);
        })?;
        self.core.end_claim_with(&change, stream.completed())
    }
}
