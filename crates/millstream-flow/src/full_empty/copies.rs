//! Copies of packets with triggers and actions on both sides.

use std::ops::Range;
use std::sync::Arc;

use millstream_device::{Error as DeviceError, Event, Promise, SharedBuffer, Stream};

use super::claims::Use;
use super::holders::CopyUnderWay;
use super::segment::FullEmptySegment;
use super::trigger::{Condition, HasLeft, Pending, Then, Wait, Wanted, first_missing};
use crate::{Error, Item, Result};

/// What a copy waits for (the paper's `cudaMemcpyTrigger...`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// Nothing.
    #[default]
    None,
    /// The packet is full.
    Full,
    /// The packet is empty: whoever read it has said so, or it was not filled in this
    /// epoch.
    Empty,
}

/// What a copy does to the packet when it is over (the paper's `cudaMemcpyAction...`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    #[default]
    None,
    /// Marks it full.
    MarkFull,
    /// Marks it empty. If the segment is on the host and kernels
    /// [wait for it](crate::PacketShape::read_by), the stream's device must reach the memory of
    /// theirs. Those that were waiting for the packet have found it full by then.
    MarkEmpty,
}

/// What a copy waits for on one side, and does there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// What it waits for.
    pub trigger: Trigger,
    /// What it does when it is over.
    pub action: Action,
}

impl Guard {
    /// This trigger, then this action.
    pub fn new(trigger: Trigger, action: Action) -> Guard {
        Guard { trigger, action }
    }
}

/// One side of a copy, until it has been submitted, or never will be.
struct Side<T: Item> {
    of: Wait<T>,
    packet: usize,
    guard: Guard,
    /// What the copy does with this side's items, or with their word.
    usage: Use,
}

impl<T: Item> Side<T> {
    fn claim(&self, copy: &Arc<CopyUnderWay>) -> Option<u64> {
        let leaves = match self.guard.action {
            Action::None => None,
            Action::MarkFull => Some(Condition::Full),
            Action::MarkEmpty => Some(Condition::Empty),
        };
        let waits = self.guard.trigger != Trigger::None;
        self.of.segment.claim_for_copy(
            (self.packet, self.of.epoch),
            self.usage,
            leaves,
            (copy, waits),
        )
    }

    fn give_back(&self, number: u64) {
        self.of.segment.give_back(&(self.packet..self.packet + 1), number);
    }

    /// The words that this side's action changes.
    fn words(&self) -> Vec<(&SharedBuffer<u32>, usize, u32)> {
        match self.guard.action {
            Action::None => Vec::new(),
            Action::MarkFull => self.of.segment.full_words(self.packet, self.of.epoch),
            Action::MarkEmpty => self.of.segment.empty_words(self.packet),
        }
    }
}

/// A copy that is to be submitted.
struct Copying<T: Item> {
    stream: Stream,
    source: Side<T>,
    target: Side<T>,
    copy: Arc<CopyUnderWay>,
    /// The numbers of the claims of both packets, once claimed.
    claims: Option<[u64; 2]>,
}

impl<T: Item> Copying<T> {
    /// Claims both packets, or neither; then returns the side at which others are.
    fn claim(&mut self) -> Option<&Side<T>> {
        let Some(source) = self.source.claim(&self.copy) else { return Some(&self.source) };
        let Some(target) = self.target.claim(&self.copy) else {
            self.source.give_back(source);
            return Some(&self.target);
        };
        self.claims = Some([source, target]);
        None
    }

    fn give_back(&mut self) {
        let numbers = self.claims.take().into_iter().flatten();
        [&self.source, &self.target]
            .into_iter()
            .zip(numbers)
            .for_each(|(side, number)| side.give_back(number));
    }

    /// Submits the copy, whose packets have been claimed. The claims last until the copy is over,
    /// or end here if it is refused.
    fn submit(&mut self) -> Result<Event> {
        if let Err(refused) = self.submit_items() {
            self.give_back();
            return Err(refused);
        }
        let Copying { stream, source, target, .. } = &*self;
        let words = [source, target].map(Side::words);
        let mut words = words.iter().filter(|words| !words.is_empty());
        let told = words.try_for_each(|words| stream.signal(words));
        let event = stream.record();
        let completion = event.clone().map(|event| event.completed());
        // The target's group, too, hears of this error, as of any other.
        source.of.segment.end_claim_with(&self.copy, completion)?;
        Ok(told.and(event)?)
    }

    fn submit_items(&self) -> Result<()> {
        let Copying { stream, source, target, .. } = self;
        let words = [source, target].map(Side::words);
        // Checked before anything is submitted, so that every copy is also announced by its words.
        words.iter().try_for_each(|words| stream.check_signal(words))?;
        source.of.segment.group.listen(stream);
        target.of.segment.group.listen(stream);
        let from = source.of.segment.items.part(source.of.segment.shape.range(source.packet))?;
        // SAFETY: the claim keeps everybody on the host away from the packet until the copy is over.
        let to = unsafe {
            target.of.segment.items.part_mut(target.of.segment.shape.range(target.packet))?
        };
        Ok(stream.copy(from, to)?)
    }
}

/// A copy that waits for its packets, and the promise to keep when it is over.
struct Waiting<T: Item> {
    copying: Copying<T>,
    promise: Promise,
}

impl<T: Item> Then<T> for Waiting<T> {
    fn in_use(&mut self, wanted: &[Wanted<T>]) -> Result<Range<usize>> {
        if let Some(side) = self.copying.claim() {
            let is_its = |wanted: &Wanted<T>| {
                Arc::ptr_eq(&wanted.segment, &side.of.segment)
                    && wanted.packets.start == side.packet
            };
            // If this side has no trigger, the other side's wait stands for it.
            let its = wanted.iter().position(is_its);
            return Ok(its.map_or(0..wanted.len(), |at| at..at + 1));
        }
        // A copy that has ended meanwhile may have changed a word since the last look.
        let missing = first_missing(wanted);
        if !matches!(missing, Ok(None)) {
            self.copying.give_back();
        }
        Ok(missing?.map_or(0..0, |(at, _)| at..at + 1))
    }

    fn go(self, met: Result<()>) {
        let Waiting { mut copying, promise } = self;
        let copied = met.and_then(|()| copying.submit());
        if let Err(error) = &copied {
            // Others would wait in vain for what this copy was to change.
            copying.source.of.segment.group.fail(error);
            copying.target.of.segment.group.fail(error);
        }
        // Ends the wait first: whoever waits for the copy may begin a new epoch then.
        drop(copying);
        keep(promise, copied);
    }
}

impl<T: Item> FullEmptySegment<T> {
    /// Copies a packet to another one, usually of another segment, once the triggers of both sides
    /// are met, and then does the actions of both sides. For a proactive return, copy to a segment
    /// of the host with [`Trigger::Full`] at the source; for back-pressure, use [`Trigger::Empty`]
    /// at the destination. Returns at once.
    ///
    /// A copy with a trigger is submitted to `stream` only when the trigger is met and no other
    /// copy that changes the packet is under way. It does not hold up what is submitted there
    /// meanwhile. So any number of copies may wait for one packet, and each has the packet to
    /// itself; their order is not defined.
    ///
    /// # Errors
    /// Packets that do not exist, are the same or differ in length; a trigger of packets that the
    /// host [does not see](super::PacketShape::unseen_by_host); without triggers, a packet that
    /// host code or a twin is using ([`Error::InFlight`](crate::Error::InFlight)); words that the
    /// stream's device does not reach; whatever a copy may fail with. The event fails where waiting
    /// for a trigger would fail; if a copy that waited for its trigger is refused, the event and
    /// the groups fail for the same reason.
    ///
    /// # Device ordering
    /// The event is complete when the copy and its actions are over. The host completes it, so what
    /// [`Stream::wait`](millstream_device::Stream::wait) says of such events holds for streams that
    /// wait for it.
    pub fn copy(
        &self,
        stream: &Stream,
        packet: usize,
        guard: Guard,
        to: (&FullEmptySegment<T>, usize, Guard),
    ) -> Result<Event> {
        let (destination, its_packet, its_guard) = to;
        self.core.check_packet(packet)?;
        destination.core.check_packet(its_packet)?;
        let lens = [(&self.core, packet), (&destination.core, its_packet)]
            .map(|(core, packet)| core.shape.range(packet).len());
        if lens[0] != lens[1] {
            return Err(DeviceError::LengthMismatch { from: lens[0], to: lens[1] }.into());
        }
        if Arc::ptr_eq(&self.core, &destination.core) && packet == its_packet {
            let segment = self.core.group.label(self.core.number);
            return Err(Error::PacketOntoItself { segment, packet });
        }
        let usage = match guard.action {
            Action::None => Use::Read,
            Action::MarkFull | Action::MarkEmpty => Use::Write,
        };
        let mut copying = Copying {
            stream: stream.clone(),
            source: self.side(packet, guard, usage),
            target: destination.side(its_packet, its_guard, Use::Write),
            copy: Arc::default(),
            claims: None,
        };
        let wanted = [self.trigger(packet, guard), destination.trigger(its_packet, its_guard)];
        let wanted: Vec<_> = wanted.into_iter().flatten().collect();
        if wanted.is_empty() {
            if let Some(side) = copying.claim() {
                return Err(side.of.segment.in_use(side.packet, "copied"));
            }
            return copying.submit();
        }
        for wanted in &wanted {
            wanted.segment.check_seen()?;
        }
        let context = self.core.group.context();
        let label = self.core.group.label(self.core.number);
        let promise = context.device_set().promise(format!("copy of packet {packet} of {label}"));
        let event = promise.event().clone();
        Pending::begin(wanted, HasLeft::default(), Waiting { copying, promise });
        Ok(event)
    }

    fn side(&self, packet: usize, guard: Guard, usage: Use) -> Side<T> {
        Side { of: Wait::new(&self.core, self.epoch), packet, guard, usage }
    }

    fn trigger(&self, packet: usize, guard: Guard) -> Option<Wanted<T>> {
        let condition = match guard.trigger {
            Trigger::None => return None,
            Trigger::Full => Condition::Full,
            Trigger::Empty => Condition::Empty,
        };
        Some(self.wanted(packet..packet + 1, condition))
    }
}

/// Keeps the promise when the copy is over.
fn keep(promise: Promise, copied: Result<Event>) {
    let refused = |reason: String| {
        let promise = promise.event().to_string();
        DeviceError::Unkept { promise, reason }
    };
    match copied {
        Err(error) => {
            let error = refused(error.to_string());
            promise.complete(Err(error));
        }
        Ok(event) => {
            let copied = event.clone();
            event.on_complete(move |result| {
                // Orders whoever waits for the promise after the copy.
                copied.merge_into_host();
                promise.complete(result);
            });
        }
    }
}
