//! Packets of one message that are copied together.

use millstream_device::Trace;
use millstream_flow::{Buffers, Context, ContextBuilder, Devices, Graph};

use crate::common::assert_nothing_leaked;

const PACKET: usize = 8 << 20;

/// Receives a message of ten packets and a half, and keeps so many of them until others have come. Returns the
/// bytes of each copy.
fn copies(builder: ContextBuilder, buffers: usize, keeps: usize) -> Vec<u64> {
    let trace = Trace::new();
    let context = builder.devices(Devices::host(2)).trace(&trace).build().unwrap();
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
                assert!(
                    segment.host_view()?.iter().enumerate().all(|(i, &it)| it == items(at + i))
                );
                at += segment.len();
                kept.push(segment);
                if kept.len() > keeps {
                    kept.remove(0).release()?;
                }
            }
            kept.into_iter().try_for_each(|segment| segment.release())?;
            Ok::<_, millstream_flow::Error>(at)
        };
        graph.run(received).await
    };
    assert_eq!(context.block_on(run).unwrap().unwrap(), len);
    assert_nothing_leaked(&context);
    let copies = trace.operations().into_iter().filter(|copy| copy.name.starts_with("copy"));
    let copies: Vec<u64> = copies.map(|copy| copy.bytes).collect();
    assert_eq!(copies.iter().sum::<u64>(), len as u64 * 8);
    copies
}

/// On threads first, then simulated.
fn everywhere(buffers: usize, keeps: usize) -> Vec<Vec<u64>> {
    let simulated = (0..3).map(|seed| Context::builder().simulated(seed));
    let builders = [Context::builder()].into_iter().chain(simulated);
    builders.map(|builder| copies(builder, buffers, keeps)).collect()
}

#[test]
fn large_packets_are_copied_together() {
    let packets = PACKET as u64;
    for (buffers, keeps, most) in [(4, 0, 2), (6, 2, 3), (9, 8, 4)] {
        for (place, copies) in everywhere(buffers, keeps).into_iter().enumerate() {
            // Two keep an engine busy: the first two go alone.
            assert!(copies.iter().filter(|&&bytes| bytes == packets).count() >= 2, "{copies:?}");
            // A thread may be too slow to find any under way.
            let are_joined = copies.iter().any(|&bytes| bytes >= 2 * packets);
            assert!(are_joined || place == 0, "{buffers}: {copies:?}");
            assert!(copies.iter().all(|&bytes| bytes <= most * packets), "{buffers}: {copies:?}");
        }
    }
}

#[test]
fn packets_of_few_buffers_go_alone() {
    for copies in everywhere(3, 1) {
        assert_eq!(copies.len(), 11);
    }
}
