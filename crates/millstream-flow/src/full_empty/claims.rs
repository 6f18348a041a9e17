//! Claims: who is using a packet's items, which the packet's word does not tell. States, races and
//! the model are in `README.md`.
//!
//! A copy changes a word when it is over, not when it is submitted. So if two copies wait for the
//! same packet to be empty, both could find it empty. Therefore whoever uses a packet's items
//! claims the packet first, and then looks at its word. Many may read, or one may write; whoever is
//! refused looks again when the bell tells that a claim has ended.

use std::collections::HashMap;
use std::ops::Range;

use crate::sync::{Fault, Mutex, seeded};

/// What is done to the items. A change of the packet's word counts as writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

/// Claims of a segment's packets. Each has a holder of type `H`.
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
    /// Nobody has claimed the packet beside this claim, neither before nor since.
    is_alone: bool,
    /// Somebody was refused because of this claim.
    has_refused: bool,
}

impl<H> Default for Claims<H> {
    fn default() -> Claims<H> {
        Claims { state: Mutex::new(State { of_packets: HashMap::new(), last: 0 }) }
    }
}

impl<H: Clone> State<H> {
    /// The holders of claims that are in the way. Claims that are over are moved to `ended`.
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
    /// Claims packets and returns the claim's number, or, if others are in the way, their holders.
    /// Claims that are `over`, and holders for which `not_mind` is true, are not in the way. The
    /// third argument of `over` tells whether the claim has been alone at the packet; if not, what
    /// the packet's word says may be due to others. `holder` is called while nobody else can claim,
    /// so that it may record what it finds at that time; its argument tells whether nobody else is
    /// at any of the packets. Neither `holder` nor `over` may call back into these claims.
    pub(crate) fn claim(
        &self,
        packets: Range<usize>,
        usage: Use,
        holder: impl FnOnce(bool) -> H,
        over: impl Fn(usize, &H, bool) -> bool,
        not_mind: impl Fn(&H) -> bool,
    ) -> Result<u64, Vec<H>> {
        // Dropped without the lock, here and below: a holder's drop may notify others.
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

    /// Looks whether packets could be claimed, without claiming them. Holders that are in the way
    /// are marked as if somebody had been refused.
    ///
    /// # Errors
    /// The holders that are in the way.
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

    /// Whether there are claims of any packet.
    pub(crate) fn are_any(&self) -> bool {
        self.state.lock().of_packets.values().any(|claims| !claims.is_empty())
    }

    /// Ends a claim. Returns whether somebody was refused because of it and must be told to look
    /// again. (Ringing for those whom other claims refuse would be endless: they would be refused
    /// again, ring again, and so on.)
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

    /// Drops all claims, which are over.
    pub(crate) fn clear(&self) {
        let ended = std::mem::take(&mut self.state.lock().of_packets);
        drop(ended);
    }
}
