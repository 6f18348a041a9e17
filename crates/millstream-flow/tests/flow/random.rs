//! Random messages through random buffers: everything arrives, in order, in
//! packets that are never too large.

use futures_util::future::try_join_all;
use futures_util::try_join;
use millstream_flow::{
    Buffers, Context, Devices, Graph, Receiver, Result, RoutingPolicy, first_available, scatter,
};
use proptest::prelude::*;

use crate::common::assert_nothing_leaked;

/// Lengths of messages, items of a packet, buffers, and a schedule.
fn cases() -> impl Strategy<Value = (Vec<usize>, usize, usize, u64)> {
    (prop::collection::vec(0..200usize, 0..8), 1..40usize, 1..4usize, any::<u64>())
}

/// What a receiver saw of a packet.
#[derive(Debug)]
struct Packet {
    sequence: u64,
    offset: usize,
    message_len: usize,
    metadata: u64,
    items: Vec<u32>,
}

/// Item `place` of message `sequence`.
fn item(sequence: usize, place: usize) -> u32 {
    (sequence * 1000 + place) as u32
}

async fn receive(mut input: Receiver<u32>) -> Result<Vec<Packet>> {
    let stream = input.device().stream()?;
    let mut packets = Vec::new();
    while let Some(pending) = input.recv().await? {
        stream.wait(&pending)?;
        packets.push(Packet {
            sequence: pending.sequence(),
            offset: pending.offset(),
            message_len: pending.message_len(),
            metadata: pending.metadata(),
            items: stream.download(pending.part()?)?.await?,
        });
        pending.release_after(&stream)?;
    }
    Ok(packets)
}

/// Sends messages from the host to `devices` devices; what each received.
fn run(
    policy: RoutingPolicy,
    devices: usize,
    lengths: &[usize],
    buffers: Buffers,
    schedule: u64,
) -> Vec<Vec<Packet>> {
    let builder = Context::builder().devices(Devices::host(devices));
    let context = builder.simulated(schedule).build().unwrap();
    let graph = Graph::new(&context);
    let router = graph.router::<u32>(policy).unwrap();
    let mut feed = router.sender(context.host()).unwrap();
    let receiver = |device| router.receiver(device, buffers).unwrap();
    let receivers: Vec<_> = context.devices().iter().map(receiver).collect();
    let feeding = async move {
        for (sequence, &len) in lengths.iter().enumerate() {
            let items: Vec<u32> = (0..len).map(|place| item(sequence, place)).collect();
            feed.send_data(items, 7 * sequence as u64)?;
        }
        feed.shutdown()
    };
    let receiving = try_join_all(receivers.into_iter().map(receive));
    let main = graph.run(async { try_join!(feeding, receiving) });
    let (_, packets) = context.block_on(main).unwrap().unwrap();
    assert_nothing_leaked(&context);
    packets
}

/// Whether `packets` are the messages, each item once, and what describes them
/// is true.
fn assert_complete<'a>(packets: impl Iterator<Item = &'a Packet>, lengths: &[usize], most: usize) {
    let mut seen: Vec<Vec<bool>> = lengths.iter().map(|&len| vec![false; len]).collect();
    for packet in packets {
        let sequence = packet.sequence as usize;
        assert!((1..=most).contains(&packet.items.len()), "{packet:?}");
        assert_eq!(packet.message_len, lengths[sequence], "{packet:?}");
        assert_eq!(packet.metadata, 7 * packet.sequence, "{packet:?}");
        for (place, &found) in (packet.offset..).zip(&packet.items) {
            assert_eq!(found, item(sequence, place), "{packet:?}");
            let twice = std::mem::replace(&mut seen[sequence][place], true);
            assert!(!twice, "item {place} of message {sequence} came twice");
        }
    }
    assert!(seen.iter().flatten().all(|&seen| seen), "something did not arrive");
}

/// Whether packets came message after message, and front to back.
fn assert_in_order(packets: &[Packet]) {
    let place = |packet: &Packet| (packet.sequence, packet.offset);
    assert!(packets.windows(2).all(|pair| place(&pair[0]) < place(&pair[1])), "{packets:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_link_delivers_everything_in_order((lengths, most, count, schedule) in cases()) {
        let buffers = Buffers::items(most).count(count);
        let received = run(first_available(), 1, &lengths, buffers, schedule);
        assert_complete(received[0].iter(), &lengths, most);
        assert_in_order(&received[0]);
    }

    #[test]
    fn first_available_delivers_every_item_once(
        (lengths, most, count, schedule) in cases(), devices in 2..6usize,
    ) {
        let buffers = Buffers::items(most).count(count);
        let received = run(first_available(), devices, &lengths, buffers, schedule);
        assert_complete(received.iter().flatten(), &lengths, most);
        received.iter().for_each(|packets| assert_in_order(packets));
    }

    #[test]
    fn scatter_gives_each_device_an_equal_part(
        (lengths, most, count, schedule) in cases(), devices in 1..6usize,
    ) {
        let buffers = Buffers::items(most).count(count);
        let received = run(scatter(), devices, &lengths, buffers, schedule);
        assert_complete(received.iter().flatten(), &lengths, most);
        for (device, packets) in received.iter().enumerate() {
            assert_in_order(packets);
            for (sequence, &len) in lengths.iter().enumerate() {
                let of_message = packets.iter().filter(|packet| packet.sequence == sequence as u64);
                let items: usize = of_message.map(|packet| packet.items.len()).sum();
                prop_assert_eq!(items, len / devices + usize::from(device < len % devices));
            }
        }
    }
}
