//! How large the packets of links are, and how many buffers they have.

use millstream_flow::Buffers;

/// Where all devices are the host's: bytes of one packet of each link, together. With two buffers each, links
/// of 32 devices took some five times as much memory as that.
const HOST_PACKETS: usize = 1 << 26;

/// Bytes of a packet, up to `wanted`: of items of `item_bytes` an outbox has `most_items` at most, and many
/// host devices have many links, `host_links`.
pub(crate) fn packet_bytes(
    wanted: usize,
    item_bytes: usize,
    most_items: usize,
    host_links: Option<usize>,
) -> usize {
    let bytes = wanted.min(most_items.max(1).saturating_mul(item_bytes));
    let share = |links: usize| (HOST_PACKETS / links.max(1)).max(item_bytes);
    host_links.map_or(bytes, |links| bytes.min(share(links)))
}

/// The buffers of a link: as many as it chooses, or `wanted`, but not more than hold all of an outbox, and
/// one to be filled meanwhile, since others would stay empty.
pub(crate) fn buffers(
    packet_bytes: usize,
    wanted: Option<usize>,
    item_bytes: usize,
    most_items: usize,
) -> Buffers {
    let packet_items = (packet_bytes / item_bytes.max(1)).max(1);
    let most = most_items.div_ceil(packet_items) + 1;
    let buffers = Buffers::bytes(packet_bytes);
    wanted.map_or(buffers, |count| buffers.count(count.min(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_hold_what_there_is_to_send_and_less_on_many_host_devices() {
        const WANTED: usize = 1 << 18;
        assert_eq!(packet_bytes(WANTED, 8, 1 << 20, None), WANTED);
        assert_eq!(packet_bytes(WANTED, 8, 100, None), 800);
        assert_eq!(packet_bytes(WANTED, 8, 0, None), 8);
        // Eight devices, 32, and more than there is memory for.
        assert_eq!(packet_bytes(WANTED, 8, 1 << 20, Some(8 * 7)), WANTED);
        assert_eq!(packet_bytes(WANTED, 8, 1 << 20, Some(32 * 31)), HOST_PACKETS / 992);
        assert_eq!(packet_bytes(WANTED, 8, 1 << 20, Some(usize::MAX)), 8);
        assert_eq!(packet_bytes(WANTED, 8, 1 << 20, Some(0)), WANTED);
    }

    #[test]
    fn no_buffer_that_is_wanted_stays_empty() {
        let of = |count| Buffers::bytes(64).count(count);
        assert_eq!(buffers(64, None, 8, 1000), Buffers::bytes(64));
        for (wanted, items, count) in [(3, 1000, 3), (1000, 1000, 126), (1000, 8, 2), (7, 0, 1)] {
            assert_eq!(buffers(64, Some(wanted), 8, items), of(count), "{wanted} {items}");
        }
    }
}
