//! Waiting for packets without a thread of one's own.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use millstream_device::{Bell, DeviceSet};

use super::segment::SegmentCore;
use super::watcher::Attention;
use crate::{Item, Result};

/// The state of packets that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Full,
    Empty,
}

/// Packets of a segment in one of its epochs, and the condition that they should meet.
#[derive(Debug)]
pub(super) struct Wanted<T: Item> {
    pub(super) segment: Arc<SegmentCore<T>>,
    pub(super) epoch: u32,
    pub(super) packets: Range<usize>,
    pub(super) condition: Condition,
}

impl<T: Item> Wanted<T> {
    /// The first packet that does not meet the condition, if any.
    pub(super) fn missing(&self) -> Result<Option<usize>> {
        let is_full = self.condition == Condition::Full;
        for packet in self.packets.clone() {
            if self.segment.is_full(packet, self.epoch)? != is_full {
                return Ok(Some(packet));
            }
        }
        Ok(None)
    }

    /// Fails if it makes no sense to go on waiting for a packet.
    pub(super) fn goes_on(&self, packet: usize, deadline: Option<Instant>) -> Result<()> {
        let group = &self.segment.group;
        group.check()?;
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            group.time_out(self.segment.number, packet)?;
            group.check()?;
        }
        Ok(())
    }
}

/// The first of these with a packet that does not meet its condition, and that packet.
pub(super) fn first_missing<T: Item>(wanted: &[Wanted<T>]) -> Result<Option<(usize, usize)>> {
    for (at, wanted) in wanted.iter().enumerate() {
        if let Some(packet) = wanted.missing()? {
            return Ok(Some((at, packet)));
        }
    }
    Ok(None)
}

/// Somebody waits in this epoch, which does not end before this is dropped.
pub(super) struct Wait<T: Item> {
    pub(super) segment: Arc<SegmentCore<T>>,
    pub(super) epoch: u32,
}

impl<T: Item> Wait<T> {
    pub(super) fn new(segment: &Arc<SegmentCore<T>>, epoch: u32) -> Wait<T> {
        // Relaxed: only the segment's owner, who is waiting, begins a new epoch.
        segment.waits.fetch_add(1, Ordering::Relaxed);
        Wait { segment: Arc::clone(segment), epoch }
    }
}

impl<T: Item> Drop for Wait<T> {
    fn drop(&mut self) {
        // Release: pairs with `next_epoch`.
        self.segment.waits.fetch_sub(1, Ordering::Release);
    }
}

/// Somebody awaits packets until this is dropped. Afterwards nobody looks for them any more, they
/// may be late, and the epoch may end, though a look may still be under way.
pub(super) struct Waiter {
    has_left: Arc<AtomicBool>,
    bell: Arc<Bell>,
}

impl Waiter {
    pub(super) fn new(set: &DeviceSet) -> Waiter {
        Waiter { has_left: Arc::default(), bell: Arc::clone(set.bell()) }
    }

    /// A flag for those who look for the packets.
    pub(super) fn has_left(&self) -> HasLeft {
        HasLeft(Some(Arc::clone(&self.has_left)))
    }
}

/// Whether the waiter has left, if packets are only awaited; otherwise never.
#[derive(Clone, Default)]
pub(super) struct HasLeft(Option<Arc<AtomicBool>>);

impl HasLeft {
    fn look(&self) -> bool {
        // Relaxed: as in `Waiter::drop`.
        self.0.as_ref().is_some_and(|has_left| has_left.load(Ordering::Relaxed))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let somebody_looks = Arc::strong_count(&self.has_left) > 1;
        if somebody_looks {
            // Relaxed: the bell orders this before the look that follows the ring; a look under way
            // may miss it.
            self.has_left.store(true, Ordering::Relaxed);
            self.bell.ring();
        }
    }
}

/// What is done once packets are as wanted.
pub(super) trait Then<T: Item>: Send + 'static {
    /// Which of the wanted ones hold it up, because others use them or they are no longer as
    /// wanted; none if it can be done now. The bell rings when it may be.
    fn in_use(&mut self, wanted: &[Wanted<T>]) -> Result<Range<usize>>;

    /// Does it, or hears why the packets will never be as wanted.
    fn go(self, met: Result<()>);
}

/// Something to be done when packets of some segments are as wanted.
pub(super) struct Pending<T: Item, F> {
    wanted: Vec<Wanted<T>>,
    /// One for each wanted: groups differ in how long they wait.
    deadlines: Vec<Option<Instant>>,
    has_left: HasLeft,
    then: F,
    _attention: Attention,
}

impl<T: Item, F: Then<T>> Pending<T, F> {
    /// Calls `then.go` when everything is as wanted, or with the reason why it never will be: now,
    /// if that is known now, else on whatever thread finds it. Drops `then` once the waiter has
    /// left.
    pub(super) fn begin(wanted: Vec<Wanted<T>>, has_left: HasLeft, then: F) {
        let Some(group) = wanted.first().map(|wanted| wanted.segment.group.clone()) else {
            return then.go(Ok(()));
        };
        let deadlines = wanted.iter().map(|wanted| wanted.segment.group.deadline()).collect();
        let _attention = group.attend();
        Pending { wanted, deadlines, has_left, then, _attention }.go_on();
    }

    fn go_on(mut self) {
        loop {
            if self.has_left.look() {
                return;
            }
            let Some(bell) = self.bell() else { return self.then.go(Ok(())) };
            // Read before the look, so that no ring is missed.
            let seen = bell.rings();
            match self.is_met() {
                Ok(false) => match bell.leave(seen, self, Pending::go_on) {
                    None => return,
                    Some(again) => self = again,
                },
                met => return self.then.go(met.map(drop)),
            }
        }
    }

    fn is_met(&mut self) -> Result<bool> {
        let (late, missing) = match first_missing(&self.wanted)? {
            Some((at, packet)) => (at..at + 1, Some(packet)),
            None => (self.then.in_use(&self.wanted)?, None),
        };
        if late.is_empty() {
            return Ok(true);
        }
        for (at, (wanted, deadline)) in self.wanted.iter().zip(&self.deadlines).enumerate() {
            // Only those that hold it up can be late, and not if the waiter has left during the
            // look; but any group may have ended.
            let deadline = deadline.filter(|_| late.contains(&at) && !self.has_left.look());
            wanted.goes_on(missing.unwrap_or(wanted.packets.start), deadline)?;
        }
        Ok(false)
    }

    fn bell(&self) -> Option<Arc<Bell>> {
        let wanted = self.wanted.first()?;
        Some(Arc::clone(wanted.segment.group.context().device_set().bell()))
    }
}
