//! Copies of packets with triggers and actions on both sides.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream_device::{Event, Promise, Stream};

use super::segment::{FullEmptySegment, SegmentCore};
use super::trigger::{Condition, Pending};
use crate::{Item, Result};

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
    /// It is full.
    Fill,
    /// It is empty. Of a segment of the host that kernels [wait for](crate::PacketShape::read_by),
    /// on a stream of a device that reaches theirs; what waited for the packet has found it full.
    Empty,
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

/// One side of a copy, in the epoch in which it was asked for: that does not end before the
/// copy has been submitted, or never will be.
struct Side<T: Item> {
    segment: Arc<SegmentCore<T>>,
    epoch: u32,
    packet: usize,
    action: Action,
}

impl<T: Item> Drop for Side<T> {
    fn drop(&mut self) {
        // Release: pairs with `next_epoch`.
        self.segment.pending_copies.fetch_sub(1, Ordering::Release);
    }
}

impl<T: Item> Side<T> {
    fn act(&self, stream: &Stream) -> Result<()> {
        match self.action {
            Action::None => Ok(()),
            Action::Fill => self.segment.signal_full(stream, self.packet, self.epoch),
            Action::Empty => self.segment.signal_empty(stream, self.packet),
        }
    }
}

impl<T: Item> FullEmptySegment<T> {
    /// Copies a packet to a packet of another segment once both sides' triggers are
    /// met, and then does both sides' actions. Proactive return is a copy to a segment
    /// of the host with [`Trigger::Full`] at the source; back-pressure one with
    /// [`Trigger::Empty`] at the destination. Returns at once.
    ///
    /// With a trigger, the copy is submitted to `stream` when that is met: it does not
    /// hold up what is submitted there meanwhile.
    ///
    /// # Errors
    /// Packets that do not exist or differ in length; what a copy may fail with. The
    /// event fails where waiting for a trigger would.
    ///
    /// # Device ordering
    /// The event is complete when copy and actions are over.
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
        let source = self.side(packet, guard.action);
        let target = destination.side(its_packet, its_guard.action);
        let wanted = [self.trigger(packet, guard), destination.trigger(its_packet, its_guard)];
        let wanted: Vec<_> = wanted.into_iter().flatten().collect();
        if wanted.is_empty() {
            return submit(stream, &source, &target);
        }
        let context = self.core.group.context();
        let label = self.core.group.label(self.core.number);
        let promise = context.device_set().promise(format!("copy of packet {packet} of {label}"));
        let (event, stream) = (promise.event().clone(), stream.clone());
        Pending::begin(wanted, None, move |met| {
            let copied = met.and_then(|()| submit(&stream, &source, &target));
            // Whoever waits for the copy may begin a new epoch then.
            drop((source, target));
            keep(promise, copied);
        });
        Ok(event)
    }

    fn side(&self, packet: usize, action: Action) -> Side<T> {
        // Relaxed: only this segment's owner begins a new epoch.
        self.core.pending_copies.fetch_add(1, Ordering::Relaxed);
        Side { segment: Arc::clone(&self.core), epoch: self.epoch, packet, action }
    }

    fn trigger(&self, packet: usize, guard: Guard) -> Option<super::trigger::Wanted<T>> {
        let condition = match guard.trigger {
            Trigger::None => return None,
            Trigger::Full => Condition::Full,
            Trigger::Empty => Condition::Empty,
        };
        Some(self.wanted(packet..packet + 1, condition))
    }
}

/// The promise is kept when the copy is over.
fn keep(promise: Promise, copied: Result<Event>) {
    let refused = |reason: String| {
        let promise = promise.event().to_string();
        millstream_device::Error::Unkept { promise, reason }
    };
    match copied {
        Err(error) => {
            let error = refused(error.to_string());
            promise.complete(Err(error));
        }
        Ok(event) => {
            let copied = event.clone();
            event.on_complete(move |result| {
                // Whoever waits for the promise comes after the copy.
                copied.merge_into_host();
                promise.complete(result);
            });
        }
    }
}

fn submit<T: Item>(stream: &Stream, source: &Side<T>, target: &Side<T>) -> Result<Event> {
    source.segment.group.listen(stream);
    target.segment.group.listen(stream);
    let from = source.segment.items.part(source.segment.shape.range(source.packet))?;
    let to = target.segment.items.part_mut(target.segment.shape.range(target.packet))?;
    stream.copy(from, to)?;
    source.act(stream)?;
    target.act(stream)?;
    Ok(stream.record()?)
}
