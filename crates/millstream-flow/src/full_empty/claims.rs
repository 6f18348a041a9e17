//! Who is at a packet's items, beside what its word says. States, races and the model are in
//! `README.md`.
//!
//! A word changes when a copy is over, not when it is submitted: of two copies that wait for the
//! same packet to be empty, both would find it so. Who uses a packet's items claims it first, and
//! then looks at its word. Many may read, or one may write; whoever is refused looks again when a
//! claim has ended, of which the bell tells.

use std::collections::HashMap;
use std::ops::Range;

use crate::sync::{Fault, Mutex, seeded};

/// What is done to the items; what changes the word counts as writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

/// Claims of a segment's packets, each by an `H`.
#[derive(Debug)]
pub(crate) struct Claims<H> {
    state: Mutex<State<H>>,
}

#[derive(Debug)]
struct State<H> {
    of_packets: HashMap<usize, Vec<Claim<H>>>,
    last: u64,
}

#[derive(Debug)]
struct Claim<H> {
    number: u64,
    usage: Use,
    holder: H,
    /// Nobody else has claimed the packet since it has.
    is_alone: bool,
    /// Somebody was refused because of it.
    has_refused: bool,
}

impl<H> Default for Claims<H> {
    fn default() -> Claims<H> {
        Claims { state: Mutex::new(State { of_packets: HashMap::new(), last: 0 }) }
    }
}

impl<H: Clone> State<H> {
    /// Whose claims are in the way; those who are over have `ended`.
    fn others(
        &mut self,
        packets: Range<usize>,
        usage: Use,
        over: impl Fn(usize, &H, bool) -> bool,
        not_mind: impl Fn(&H) -> bool,
        ended: &mut Vec<Claim<H>>,
    ) -> Vec<H> {
        let mut others = Vec::new();
        for packet in packets {
            let Some(claims) = self.of_packets.get_mut(&packet) else { continue };
            ended
                .extend(claims.extract_if(.., |claim| over(packet, &claim.holder, claim.is_alone)));
            let conflicts = |claim: &&mut Claim<H>| {
                (usage == Use::Write || claim.usage == Use::Write) && !not_mind(&claim.holder)
            };
            others.extend(claims.iter_mut().filter(conflicts).map(|claim| {
                claim.has_refused = true;
                claim.holder.clone()
            }));
        }
        others
    }

    fn is_alone(&self, packet: usize) -> bool {
        self.of_packets.get(&packet).is_none_or(Vec::is_empty)
    }
}

impl<H: Clone> Claims<H> {
    /// Claims packets: the claim's number. Or nothing, if others are at them, but for those who are
    /// `over` and those whom it does `not_mind`: who they are. `over` is asked with whether the holder
    /// has been alone at the packet; what others do there says nothing of one that has not. The `holder`
    /// is made when nobody else can claim, so that it may tell what it has found then, and told whether
    /// nobody else is at any of the packets. Neither that nor `over` must come back here.
    pub(crate) fn claim(
        &self,
        packets: Range<usize>,
        usage: Use,
        holder: impl FnOnce(bool) -> H,
        over: impl Fn(usize, &H, bool) -> bool,
        not_mind: impl Fn(&H) -> bool,
    ) -> Result<u64, Vec<H>> {
        // Dropped without the lock, here and below: a holder may tell others as it goes.
        let mut ended = Vec::new();
        let mut state = self.state.lock();
        let others = state.others(packets.clone(), usage, over, not_mind, &mut ended);
        if !others.is_empty() && !seeded(Fault::ClaimBesideOthers) {
            return Err(others);
        }
        state.last += 1;
        let are_alone = packets.clone().all(|packet| state.is_alone(packet));
        let (number, holder) = (state.last, holder(are_alone));
        for packet in packets {
            let is_alone = state.is_alone(packet);
            let claims = state.of_packets.entry(packet).or_default();
            claims.iter_mut().for_each(|other| other.is_alone = false);
            let holder = holder.clone();
            claims.push(Claim { number, usage, holder, is_alone, has_refused: false });
        }
        Ok(number)
    }

    /// Whether packets could be claimed, which they are not. Who is at them hears of it as if they had
    /// been refused.
    ///
    /// # Errors
    /// Those who are at them.
    pub(crate) fn look(
        &self,
        packets: Range<usize>,
        usage: Use,
        over: impl Fn(usize, &H, bool) -> bool,
    ) -> Result<(), Vec<H>> {
        let mut ended = Vec::new();
        let others = self.state.lock().others(packets, usage, over, |_| false, &mut ended);
        if others.is_empty() { Ok(()) } else { Err(others) }
    }

    /// Whether there are claims, of whatever packet.
    pub(crate) fn are_any(&self) -> bool {
        self.state.lock().of_packets.values().any(|claims| !claims.is_empty())
    }

    /// Ends a claim. Whether somebody was refused because of it, who must be told to look again: a ring
    /// for those whom others refuse would find them refused again, and so on.
    #[must_use]
    pub(crate) fn give_back(&self, packets: Range<usize>, number: u64) -> bool {
        let mut ended = Vec::new();
        let mut state = self.state.lock();
        for packet in packets {
            if let Some(claims) = state.of_packets.get_mut(&packet) {
                ended.extend(claims.extract_if(.., |claim| claim.number == number));
            }
        }
        ended.iter().any(|claim| claim.has_refused) && !seeded(Fault::GiveBackInSilence)
    }

    /// All are over.
    pub(crate) fn clear(&self) {
        let ended = std::mem::take(&mut self.state.lock().of_packets);
        drop(ended);
    }
}
