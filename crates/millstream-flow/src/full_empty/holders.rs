//! Who holds claims of packets: copies until they are over, host code and twins while they are at
//! the items.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use millstream_device::{Bell, Completion, EventStatus};

use super::claims::Use;
use super::segment::SegmentCore;
use super::trigger::Condition;
use crate::{Error, Item};

#[derive(Clone, Debug)]
pub(super) enum Holder {
    /// Host code or a twin, until it gives the claim back.
    Host,
    /// A copy, until it is over: its event says so, or, before anybody hears of that, the packet's
    /// word, if the copy changes that and nobody else does.
    Copy { copy: Arc<CopyUnderWay>, tells: Option<Told> },
}

/// What a packet's word says when a copy is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    epoch: u32,
    condition: Condition,
    /// How many kernels had been given the segment.
    kernels: u64,
}

/// A copy, or a change of its word alone, from before it is submitted until it is over.
#[derive(Debug, Default)]
pub(super) struct CopyUnderWay {
    /// Once it is submitted.
    completion: OnceLock<Completion>,
}

impl CopyUnderWay {
    /// It is submitted, and over with this, of which nothing else is part: behind what comes next on its
    /// stream, that may wait for who wants the packet.
    pub(super) fn submitted(&self, completion: Completion, bell: &Arc<Bell>) {
        let bell = Arc::clone(bell);
        // Kept first: who was refused and looks again finds it over.
        let told = completion.clone();
        let _ = self.completion.set(completion);
        told.on_complete(move |_| bell.ring());
    }

    fn is_over(&self) -> bool {
        // A failed one, too: the group has ended, and whoever looks hears why. If a GPU has had a
        // fault, the copy may go on, and guarded items are refused.
        self.completion.get().is_some_and(|it| it.status() != EventStatus::Pending)
    }
}

impl<T: Item> SegmentCore<T> {
    pub(super) fn bell(&self) -> &Arc<Bell> {
        self.group.context().device_set().bell()
    }

    /// Claims packets, unless others are at them, of whose end the bell tells.
    fn claim(
        &self,
        packets: &Range<usize>,
        usage: Use,
        holder: impl FnOnce() -> Holder,
        not_mind: impl Fn(&Holder) -> bool,
    ) -> Option<u64> {
        let over = |packet, holder: &Holder, alone| self.is_over(packet, holder, alone);
        self.claims.claim(packets.clone(), usage, holder, over, not_mind)
    }

    fn is_over(&self, packet: usize, holder: &Holder, was_alone: bool) -> bool {
        let Holder::Copy { copy, tells } = holder else { return false };
        let has_told = |Told { epoch, condition, kernels }| {
            let is_full = self.is_full(packet, epoch);
            // Looked at after the word: whose kernel has changed it has been given the segment before.
            is_full.is_ok_and(|is_full| is_full == (condition == Condition::Full))
                && self.kernels.given() == kernels
        };
        // A GPU may be done before the thread that has submitted the copy says so.
        copy.is_over() || was_alone && tells.is_some_and(has_told)
    }

    /// Claims a packet for a copy, which leaves it full or empty if it changes its word. Of other
    /// copies only one that waits for the packet takes notice: streams order the rest.
    pub(super) fn claim_for_copy(
        &self,
        (packet, epoch): (usize, u32),
        usage: Use,
        leaves: Option<Condition>,
        (copy, waits): (&Arc<CopyUnderWay>, bool),
    ) -> Option<u64> {
        let becomes = |condition: &Condition| {
            let is_full = self.is_full(packet, epoch);
            is_full.is_ok_and(|is_full| is_full != (*condition == Condition::Full))
        };
        // A mirror may still be written when the word has changed. What others leave there, copies who
        // are at the packet, too, or kernels, is not this copy's.
        let holder = || {
            let tells = leaves.filter(|_| self.mirror.is_empty()).filter(becomes);
            let tells = tells.zip(self.kernels.given_to_none());
            let told = |(condition, kernels)| Told { epoch, condition, kernels };
            Holder::Copy { copy: Arc::clone(copy), tells: tells.map(told) }
        };
        let not_mind = |other: &Holder| !waits && matches!(other, Holder::Copy { .. });
        self.claim(&(packet..packet + 1), usage, holder, not_mind)
    }

    /// Whether host code may use packets so now, if it is to. The bell rings when it may be.
    pub(super) fn is_free(&self, packets: &Range<usize>, usage: Option<Use>) -> bool {
        usage.is_none_or(|usage| self.use_on_host(packets.clone(), usage).is_some())
    }

    /// Ends a claim early.
    pub(super) fn give_back(&self, packets: &Range<usize>, number: u64) {
        if self.claims.give_back(packets.clone(), number) {
            self.bell().ring();
        }
    }

    /// Host code or a twin is at these packets' items, if nobody else is.
    pub(super) fn use_on_host(&self, packets: Range<usize>, usage: Use) -> Option<HostUse<'_, T>> {
        let number = self.claim(&packets, usage, || Holder::Host, |_| false)?;
        Some(HostUse { segment: self, packets, number })
    }

    /// Why a packet cannot be used now: the group has ended, or somebody is at it.
    pub(super) fn in_use(&self, packet: usize, action: &'static str) -> Error {
        let (buffer, access) =
            (self.group.label(self.number), format!("packet {packet} is in use"));
        self.group.check().err().unwrap_or(Error::InFlight { buffer, action, access })
    }
}

/// Until it is dropped, host code or a twin is at packets.
pub(super) struct HostUse<'a, T: Item> {
    segment: &'a SegmentCore<T>,
    packets: Range<usize>,
    number: u64,
}

impl<T: Item> Drop for HostUse<'_, T> {
    fn drop(&mut self) {
        self.segment.give_back(&self.packets, self.number);
    }
}
