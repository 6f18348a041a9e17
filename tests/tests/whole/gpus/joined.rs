//! Packets of one message that GPUs copy together, also emulated ones: packets are as large there.

use std::time::Duration;

use millstream::device::{Trace, TransferWay};
use millstream::flow::{Buffers, Context, Devices, Error, Graph};

use super::child::in_child_with;
use super::{Needs, context, is_gpu, list, scaled, skip};

const PACKET: usize = 8 << 20;

/// Sends a message of ten packets and a half from the first device to the host, or to the last device, where so many of
/// them are kept until others have come. Returns the bytes of each copy, and whether the first device copies several
/// together.
fn copies(to_host: bool, buffers: Buffers, keeps: usize) -> (Vec<u64>, bool) {
    let trace = Trace::new();
    let devices = Devices::List(list());
    let context = Context::builder().devices(devices).transfer(TransferWay::Copy).trace(&trace);
    let context = context.build().unwrap();
    let items = |index: usize| (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let len = (10 * PACKET + PACKET / 2) / 8;
    let run = async {
        let graph = Graph::new(&context);
        let devices = context.devices();
        let to = if to_host { context.host() } else { &devices[devices.len() - 1] };
        let (stream, reading) = (devices[0].stream()?, to.stream()?);
        let source = stream.uploaded((0..len).map(items).collect::<Vec<_>>())?;
        let (mut sender, mut receiver) = graph.link::<u64>(&devices[0], to, buffers)?;
        // Nothing arrives before a packet for each buffer is under way.
        let items_are_there = context.device_set().promise("items");
        stream.wait(items_are_there.event())?;
        graph.spawn(async move {
            let sent = sender.send_from(&source, &stream, 0)?;
            items_are_there.complete(Ok(()));
            sender.shutdown()?;
            sent.await.map(drop)
        });
        let received = async move {
            let (mut kept, mut at) = (Vec::new(), 0);
            while let Some(pending) = receiver.recv().await? {
                let segment = pending.ready().await?;
                let found = match to_host {
                    true => segment.host_view()?.to_vec(),
                    false => reading.download(segment.part()?)?.await?,
                };
                assert!(found.into_iter().zip(at..).all(|(item, index)| item == items(index)));
                at += segment.len();
                kept.push(segment);
                if kept.len() > keeps {
                    kept.remove(0).release()?;
                }
            }
            kept.into_iter().try_for_each(|segment| segment.release())?;
            Ok::<_, Error>(at)
        };
        graph.run(received).await
    };
    assert_eq!(context.block_on(run).unwrap().unwrap(), len);
    let copies = trace.operations().into_iter().filter(|copy| copy.name.starts_with("copy"));
    let copies: Vec<u64> = copies.map(|copy| copy.bytes).collect();
    assert_eq!(copies.iter().sum::<u64>(), len as u64 * 8);
    (copies, context.devices()[0].copies_together())
}

#[test]
fn large_packets_are_copied_together() {
    let packet = PACKET as u64;
    for (buffers, keeps, most) in [(3, 1, 1), (4, 0, 2), (6, 2, 3), (9, 8, 4)] {
        let (copies, joins) = copies(true, Buffers::bytes(PACKET).count(buffers), keeps);
        // Two keep an engine busy: the first two go alone.
        assert!(copies.iter().filter(|&&bytes| bytes == packet).count() >= 2);
        assert!(copies.iter().all(|&bytes| bytes <= most * packet));
        let are_joined = copies.iter().any(|&bytes| bytes > packet);
        assert_eq!(are_joined, joins && most > 1, "{buffers}: {copies:?}");
    }
}

#[test]
fn links_between_gpus_have_buffers_enough_by_themselves() {
    let context = context();
    let (first, last) = (&context.devices()[0], context.devices().last().unwrap());
    if first == last {
        return skip(Needs::Several, "a link has two ends");
    }
    if ![first, last].into_iter().all(is_gpu) || !first.reaches(last) {
        return skip(Needs::Peers, "others copy packet by packet");
    }
    let (copies, joins) = copies(false, Buffers::bytes(PACKET), 0);
    let are_joined = copies.iter().any(|&bytes| bytes > PACKET as u64);
    assert_eq!(are_joined, joins, "{copies:?}");
}

/// Several copies in one operation are as many calls of the driver, and links copy packet by packet.
#[test]
fn a_driver_that_takes_no_batches() {
    if scaled(true, false) {
        return skip(Needs::Emulation, "a real driver has its version");
    }
    let case = concat!(module_path!(), "::a_driver_that_takes_no_batches");
    let older = ("MILLSTREAM_EMULATED_VERSION", "12080");
    in_child_with(case, Duration::from_secs(60), &[older], || {
        let (copies, joins) = copies(true, Buffers::bytes(PACKET).count(4), 0);
        assert!(!joins && copies.iter().all(|&bytes| bytes <= PACKET as u64), "{copies:?}");
        let context = context();
        let stream = context.devices()[0].stream().unwrap();
        let source = stream.uploaded((0..100).collect::<Vec<u32>>()).unwrap();
        let mut sinks = [0, 40, 60].map(|items| stream.device().buffer::<u32>(items).unwrap());
        let [none, low, high] = &mut sinks;
        let part = |range| source.part(range).unwrap();
        let pairs = [(0..0, none), (60..100, low), (0..60, high)];
        stream.copy_each(pairs.map(|(range, sink)| (part(range), sink.into()))).unwrap();
        let found = sinks.map(|sink| {
            let items = stream.download(&sink).unwrap();
            context.block_on(items).unwrap().unwrap()
        });
        assert_eq!(found, [Vec::new(), (60..100).collect(), (0..60).collect()]);
    });
}
