//! How much a link between kernels holds, and where each channel's share of it lies.

use std::ops::Range;
use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use millstream_device::{TransferWay, patience_ns};

use super::core::{SENDER_WORDS, SLOT_WORDS};
use super::traffic::TRAFFIC_WORDS;

/// Room of a [`DeviceLink`](crate::DeviceLink): packets of so many items, on so many channels.
/// A pair `(packets, items)` is the room of one channel.
///
/// ```
/// use millstream_flow::LinkRoom;
///
/// let room = LinkRoom::new(8, 1024).channels(16);
/// assert_eq!((room.packets(), room.packet_items(), room.channel_count()), (8, 1024, 16));
/// assert_eq!(LinkRoom::from((8, 1024)).channels(16), room);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRoom {
    packets: usize,
    packet_items: usize,
    channels: usize,
}

impl LinkRoom {
    /// One channel of `packets` packets of up to `packet_items` items. Both numbers are at least
    /// one; the number of packets is rounded up to a power of two.
    pub fn new(packets: usize, packet_items: usize) -> LinkRoom {
        // If there is no such power of two: so many that there is no such memory.
        let packets = packets.max(1).checked_next_power_of_two().unwrap_or(usize::MAX);
        LinkRoom { packets, packet_items: packet_items.max(1), channels: 1 }
    }

    /// `channels` channels, at least one, each with this room. One block receives from each;
    /// packets of different channels arrive in no particular order.
    #[must_use]
    pub fn channels(self, channels: usize) -> LinkRoom {
        LinkRoom { channels: channels.max(1), ..self }
    }

    /// Packets of a channel.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Items of a packet, at most.
    pub fn packet_items(&self) -> usize {
        self.packet_items
    }

    /// Channels.
    pub fn channel_count(&self) -> usize {
        self.channels
    }
}

impl From<(usize, usize)> for LinkRoom {
    fn from((packets, packet_items): (usize, usize)) -> LinkRoom {
        LinkRoom::new(packets, packet_items)
    }
}

/// Words of a line of a GPU's cache. Words that blocks poll lie in lines of their own.
const LINE_WORDS: usize = 32;
/// Slots begin at multiples of this many bytes, so that kernels copy in words of that size.
const SLOT_ALIGNMENT: usize = 16;

millstream_device::cuda_struct! {
    /// `DeviceLinkSettings` of the header, which has the same layout of a link's buffers.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    #[doc(hidden)]
    pub struct Settings as "millstream::DeviceLinkSettings" {
        patience_ns: u64,
        packet_items: u32,
        slot_items: u32,
        packets: u32,
        channels: u32,
        sends_few: u32,
        unused: u32,
    }
}

impl Settings {
    /// The room of a link whose items have this many bytes, and whose words lie in the memory of
    /// its receiver or of the host.
    pub(super) fn new(
        patience: Duration,
        room: LinkRoom,
        item_bytes: usize,
        way: TransferWay,
    ) -> Settings {
        // A packet's number of items must leave one bit free.
        let word = |number: usize| i32::try_from(number).map_or(u32::MAX, i32::cast_unsigned);
        // One of any 16 consecutive numbers of items fills a multiple of 16 bytes.
        let slot_items = (0..SLOT_ALIGNMENT)
            .map(|more| room.packet_items.saturating_add(more))
            .find(|items| items.saturating_mul(item_bytes).is_multiple_of(SLOT_ALIGNMENT))
            .unwrap_or(usize::MAX);
        Settings {
            patience_ns: patience_ns(patience),
            packet_items: word(room.packet_items),
            slot_items: word(slot_items),
            packets: word(room.packets),
            channels: word(room.channels),
            sends_few: u32::from(way == TransferWay::Push),
            unused: 0,
        }
    }

    pub(super) fn room(&self) -> LinkRoom {
        LinkRoom {
            packets: self.packets as usize,
            packet_items: self.packet_items as usize,
            channels: self.channels as usize,
        }
    }

    pub(super) fn packet_items(&self) -> usize {
        self.packet_items as usize
    }

    pub(super) fn channels(&self) -> u32 {
        self.channels
    }

    /// More than any memory, if the words of all channels cannot be counted.
    fn of_all_channels(&self, of_one: usize) -> usize {
        let numbers = [self.packet_items, self.slot_items, self.packets, self.channels];
        match numbers.contains(&u32::MAX) {
            true => usize::MAX,
            false => of_one.saturating_mul(self.channels as usize),
        }
    }

    fn slot_words(&self) -> usize {
        (self.packets as usize).saturating_mul(SLOT_WORDS).next_multiple_of(LINE_WORDS)
    }

    /// The lines with the words of the sender's side, and with the receiver's positions, of all channels.
    pub(super) fn all_line_words(&self) -> usize {
        self.of_all_channels(LINE_WORDS)
    }

    pub(super) fn all_slot_words(&self) -> usize {
        self.of_all_channels(self.slot_words())
    }

    pub(super) fn all_items(&self) -> usize {
        self.of_all_channels((self.packets as usize).saturating_mul(self.slot_items as usize))
    }

    pub(super) fn all_traffic_words(&self) -> usize {
        self.of_all_channels(TRAFFIC_WORDS)
    }

    /// The words with the statistics of a channel.
    pub(super) fn traffic(&self, channel: u32) -> Range<usize> {
        let first = channel as usize * TRAFFIC_WORDS;
        first..first + TRAFFIC_WORDS
    }

    /// The words of a channel's sender side.
    pub(super) fn sender_words(&self, channel: u32) -> Range<usize> {
        let first = channel as usize * LINE_WORDS;
        first..first + SENDER_WORDS
    }

    /// The words of a channel's slots.
    pub(super) fn words_of_slots(&self, channel: u32) -> Range<usize> {
        let first = channel as usize * self.slot_words();
        first..first + self.packets as usize * SLOT_WORDS
    }

    /// The word with the position of a channel's receiver.
    pub(super) fn taken(&self, channel: u32) -> usize {
        channel as usize * LINE_WORDS
    }

    /// The place of a slot's items.
    pub(super) fn items(&self, channel: u32, slot: usize) -> Range<usize> {
        let slots_before = channel as usize * self.packets as usize + slot;
        let first = slots_before * self.slot_items as usize;
        first..first + self.packet_items()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_begin_at_multiples_of_16_bytes() {
        for (item_bytes, packet_items) in [(4, 1), (4, 7), (12, 5), (1, 33), (24, 3), (16, 1)] {
            let room = LinkRoom::new(3, packet_items).channels(2);
            let settings = Settings::new(Duration::ZERO, room, item_bytes, TransferWay::Push);
            for (channel, slot) in [(0, 0), (0, 1), (0, 3), (1, 0), (1, 3)] {
                let items = settings.items(channel, slot);
                assert_eq!((items.len(), items.start * item_bytes % 16), (packet_items, 0));
            }
            assert!(settings.items(0, 3).end <= settings.items(1, 0).start);
            assert!(settings.items(1, 3).end <= settings.all_items());
        }
    }
}
