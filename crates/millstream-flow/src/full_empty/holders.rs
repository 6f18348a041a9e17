//! Holders of claims: a copy holds one until it is over, host code and twins while they use the items.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream_device::{Bell, Completion, EventStatus};
use parking_lot::Mutex;

use super::claims::Use;
use super::segment::SegmentCore;
use super::trigger::Condition;
use crate::{Error, Item, Result};

#[derive(Clone, Debug)]
pub(super) enum Holder {
    /// Host code or a twin, until it gives the claim back.
    Host,
    /// A copy, until it is over. Its event tells; so does, perhaps earlier, the packet's word, if
    /// the copy changes the word and nobody else does.
    Copy { copy: Arc<CopyUnderWay>, tells: Option<Told> },
}

/// What a packet's word shows once a copy is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    epoch: u32,
    condition: Condition,
    /// How many kernels had been given the segment when the claim was made.
    kernels: u64,
}

/// A copy, or a mere change of a packet's word, from before its submission until it is over.
#[derive(Debug, Default)]
pub(super) struct CopyUnderWay {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Set right after the submission, before anything else is submitted to the stream: what comes
    /// next there may wait for somebody who wants the packet.
    completion: Option<Completion>,
    /// Somebody was refused because of this copy: the bell must announce its end.
    is_wanted: bool,
}

impl CopyUnderWay {
    /// The copy has been submitted, and is over with `completion`.
    pub(super) fn submitted(&self, completion: Completion, bell: &Arc<Bell>) {
        let is_wanted = {
            let mut state = self.state.lock();
            state.completion = Some(completion.clone());
            state.is_wanted
        };
        if is_wanted {
            tell(&completion, bell);
        }
    }

    fn is_over(&self) -> bool {
        // A failed copy counts as over, too: the group has ended, and whoever looks hears why.
        // After a fault of a GPU, the copy may still be running, but then guarded items are
        // refused.
        let state = self.state.lock();
        state.completion.as_ref().is_some_and(|it| it.status() != EventStatus::Pending)
    }

    /// Makes the bell announce the copy's end. This is not done for every copy, since as a rule nobody waits.
    fn want(&self, bell: &Arc<Bell>) {
        let completion = {
            let mut state = self.state.lock();
            let is_news = !std::mem::replace(&mut state.is_wanted, true);
            state.completion.clone().filter(|_| is_news)
        };
        if let Some(completion) = completion {
            tell(&completion, bell);
        }
    }
}

/// Called without a lock: if the copy is over already, those who wait look again within this call.
fn tell(completion: &Completion, bell: &Arc<Bell>) {
    let bell = Arc::clone(bell);
    completion.on_complete(move |_| bell.ring());
}

impl<T: Item> SegmentCore<T> {
    pub(super) fn bell(&self) -> &Arc<Bell> {
        self.group.context().device_set().bell()
    }

    /// Claims packets, unless others are at them; then the bell announces the others' ends.
    fn claim(
        &self,
        packets: &Range<usize>,
        usage: Use,
        holder: impl FnOnce(bool) -> Holder,
        not_mind: impl Fn(&Holder) -> bool,
    ) -> Option<u64> {
        let over = |packet, holder: &Holder, alone| self.is_over(packet, holder, alone);
        let claimed = self.claims.claim(packets.clone(), usage, holder, over, not_mind);
        claimed.map_err(|others| self.want(others)).ok()
    }

    /// Makes the bell announce the ends of these claims.
    fn want(&self, others: Vec<Holder>) {
        for other in others {
            if let Holder::Copy { copy, .. } = other {
                copy.want(self.bell());
            }
        }
    }

    fn is_over(&self, packet: usize, holder: &Holder, was_alone: bool) -> bool {
        let Holder::Copy { copy, tells } = holder else { return false };
        let has_told = |Told { epoch, condition, kernels }| {
            let is_full = self.is_full(packet, epoch);
            // Looked at after the word: a kernel that changed the word had been given the segment before.
            is_full.is_ok_and(|is_full| is_full == (condition == Condition::Full))
                && self.kernels.given() == kernels
        };
        // A GPU may be done before the thread that submitted the copy has recorded its completion.
        copy.is_over() || was_alone && tells.is_some_and(has_told)
    }

    /// Claims a packet for a copy, which `leaves` it full or empty if it changes its word. The copy
    /// minds other copies only if it waits for the packet (`waits`): streams order the rest.
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
        // The word tells nothing if there is a mirror, which may still be written after the word
        // has changed; nor if others, copies at the same packet or kernels, may have caused what it
        // shows.
        let holder = |is_alone: bool| {
            let tells = leaves.filter(|_| self.mirror.is_empty()).filter(becomes);
            let tells = tells.zip(self.kernels.given_to_none());
            let told = |(condition, kernels)| Told { epoch, condition, kernels };
            let tells = tells.map(told);
            if tells.is_none() || !is_alone {
                self.mark_untold();
            }
            Holder::Copy { copy: Arc::clone(copy), tells }
        };
        let not_mind = |other: &Holder| !waits && matches!(other, Holder::Copy { .. });
        self.claim(&(packet..packet + 1), usage, holder, not_mind)
    }

    /// Makes a submitted copy's claim end with `completion`. Without a completion nobody would hear
    /// of the end, so the group ends.
    pub(super) fn end_claim_with(
        &self,
        copy: &CopyUnderWay,
        completion: millstream_device::Result<Completion>,
    ) -> Result<()> {
        let completion = completion.map_err(|error| {
            let error = error.into();
            self.group.fail(&error);
            error
        })?;
        copy.submitted(completion, self.bell());
        Ok(())
    }

    /// From now on, some copy's end is announced by its event only.
    pub(super) fn mark_untold(&self) {
        // Relaxed: those who wait for what the copy does have learnt of it after this call.
        self.untold.store(true, Ordering::Relaxed);
    }

    /// Whether host code that has found packets to be as it wants may use them now (`None`: it will
    /// not use them). If not, the bell rings when it may be.
    pub(super) fn is_free(&self, packets: &Range<usize>, usage: Option<Use>) -> bool {
        // As a rule, the words alone tell.
        let Some(usage) = usage.filter(|_| self.untold.load(Ordering::Relaxed)) else {
            return true;
        };
        let over = |packet, holder: &Holder, alone| self.is_over(packet, holder, alone);
        self.claims.look(packets.clone(), usage, over).map_err(|others| self.want(others)).is_ok()
    }

    /// Gives a claim back before its holder is over.
    pub(super) fn give_back(&self, packets: &Range<usize>, number: u64) {
        if self.claims.give_back(packets.clone(), number) {
            self.bell().ring();
        }
    }

    /// Claims these packets' items for host code or a twin, unless somebody else is at them.
    pub(super) fn use_on_host(&self, packets: Range<usize>, usage: Use) -> Option<HostUse<'_, T>> {
        let number = self.claim(&packets, usage, |_| Holder::Host, |_| false)?;
        Some(HostUse { segment: self, packets, number })
    }

    /// Why a packet cannot be used now: the group has ended, or somebody is at the packet.
    pub(super) fn in_use(&self, packet: usize, action: &'static str) -> Error {
        let (buffer, access) =
            (self.group.label(self.number), format!("packet {packet} is in use"));
        self.group.check().err().unwrap_or(Error::InFlight { buffer, action, access })
    }
}

/// Host code or a twin uses packets until this is dropped.
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
