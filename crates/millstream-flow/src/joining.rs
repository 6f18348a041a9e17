//! Packets of a message that are copied together: between copies an engine pauses, but not between those that
//! it gets in one call.

/// When packets are copied together. `README.md` beside this file says why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    /// How many at most.
    most: usize,
    /// With so many under way, an engine has enough to do until the receiver has released another one.
    busy: usize,
}

impl Joining {
    /// Four packets together take as long as one copy of their size, but for 2 %.
    const MOST: usize = 4;
    /// These take an engine between GPUs some 40 us.
    const BUSY_BYTES: usize = 16 << 20;

    /// For so many buffers of so many bytes.
    pub(crate) fn of(buffers: usize, packet_bytes: usize) -> Joining {
        let busy = Joining::BUSY_BYTES.div_ceil(packet_bytes.max(1));
        let is_enough = buffers >= busy.saturating_add(2);
        // The other half is for what is under way meanwhile.
        let most = if is_enough { (buffers / 2).min(Joining::MOST) } else { 1 };
        Joining { most, busy }
    }

    /// Whether packets join at all.
    pub(crate) fn joins(self) -> bool {
        self.most > 1
    }

    /// How many packets may go together. The first one goes alone, so that the receiver can begin.
    pub(crate) fn together(self, under_way: usize) -> usize {
        if under_way >= self.busy { self.most.min(under_way + 1) } else { 1 }
    }

    /// Whether a packet waits for another one.
    pub(crate) fn waits(self, under_way: usize) -> bool {
        under_way >= self.busy.max(2) && self.joins()
    }
}

/// How many packets of an offer that joins are under way to a destination at least: of the one of which packets
/// were submitted last. A packet that waits for others waits for these alone, as they wait for nothing that it does
/// not wait for itself.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    /// Its address. Whoever is to report packets keeps the offer.
    offer: usize,
    packets: usize,
}

impl UnderWay {
    pub(crate) fn of(&self, offer: usize) -> usize {
        if offer == self.offer { self.packets } else { 0 }
    }

    /// Packets of this offer have been submitted.
    pub(crate) fn begin(&mut self, offer: usize, packets: usize) {
        let packets = self.of(offer) + packets;
        *self = UnderWay { offer, packets };
    }

    /// Packets of this offer have arrived, perhaps such as were submitted before those of another.
    pub(crate) fn end(&mut self, offer: usize, packets: usize) {
        if offer == self.offer {
            self.packets = self.packets.saturating_sub(packets);
        }
    }
}
