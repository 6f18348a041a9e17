//! Packets of one message that GPUs copy together, also emulated ones: packets are as large there.

use millstream::device::Trace;
use millstream::flow::{Buffers, Context, Devices, Error, Graph};

use super::list;

const PACKET: usize = 8 << 20;

/// Sends a message of ten packets and a half to the host, which keeps so many of them until others have come.
/// Returns the bytes of each copy, and whether the first device copies several together.
fn copies(buffers: usize, keeps: usize) -> (Vec<u64>, bool) {
    let trace = Trace::new();
    let devices = Devices::List(list());
    let context = Context::builder().devices(devices).trace(&trace).build().unwrap();
    let items = |index: usize| (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let len = (10 * PACKET + PACKET / 2) / 8;
    let run = async {
        let graph = Graph::new(&context);
        let (from, host) = (&context.devices()[0], context.host());
        let stream = from.stream()?;
        let source = stream.uploaded((0..len).map(items).collect::<Vec<_>>())?;
        let buffers = Buffers::bytes(PACKET).count(buffers);
        let (mut sender, mut receiver) = graph.link::<u64>(from, host, buffers)?;
        graph.spawn(async move {
            let sent = sender.send_from(&source, &stream, 0)?;
            sender.shutdown()?;
            sent.await.map(drop)
        });
        let received = async move {
            let (mut kept, mut at) = (Vec::new(), 0);
            while let Some(pending) = receiver.recv().await? {
                let segment = pending.ready().await?;
                let mut found = segment.host_view()?.iter().zip(at..);
                assert!(found.all(|(&item, index)| item == items(index)));
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
        let (copies, joins) = copies(buffers, keeps);
        // Two keep an engine busy: the first two go alone.
        assert!(copies.iter().filter(|&&bytes| bytes == packet).count() >= 2);
        assert!(copies.iter().all(|&bytes| bytes <= most * packet));
        let are_joined = copies.iter().any(|&bytes| bytes > packet);
        assert_eq!(are_joined, joins && most > 1, "{buffers}: {copies:?}");
    }
}
