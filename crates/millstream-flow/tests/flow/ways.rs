//! The same messages on every way: contents, order, and what statistics say.

use millstream_device::{DeviceBuffer, Topology, Transfer, TransferTable, TransferWay};
use millstream_flow::{
    Algorithm, Buffers, Collectives, Communicator, Context, ContextBuilder, Devices, Error, Graph,
    LinkStatistics, Operator, Result, broadcast,
};
use proptest::prelude::*;

use crate::collective_model::{ALGORITHMS, all_types, options};
use crate::common::assert_nothing_leaked;

/// Four devices of which each pair of neighbours is connected.
fn pairs() -> Topology {
    let row = |place: usize| {
        let kinds = (0..4).map(|to| if place / 2 == to / 2 { "\"memory\"" } else { "\"host\"" });
        format!("[{}]", kinds.collect::<Vec<_>>().join(","))
    };
    let rows: Vec<_> = (0..4).map(row).collect();
    format!("{{ \"links\": [{}] }}", rows.join(",")).parse().unwrap()
}

/// Those, with packets that all go this way, or choose.
pub(crate) fn four(way: Option<TransferWay>) -> ContextBuilder {
    let builder = Context::builder().devices(Devices::host(4)).topology(pairs());
    match way {
        Some(way) => builder.transfer(way),
        None => builder,
    }
}

/// Sends messages of these lengths from one device to another.
async fn send(
    context: &Context,
    from: usize,
    to: usize,
    lengths: &[usize],
    buffers: Buffers,
) -> Result<LinkStatistics> {
    let [from, to] = [from, to].map(|place| &context.devices()[place]);
    let graph = Graph::new(context);
    let (mut output, mut input) = graph.link::<u32>(from, to, buffers)?;
    let (sending, receiving) = (from.stream()?, to.stream()?);
    let message = |number: usize, len: usize| (0..len).map(move |at| (number * 10_000 + at) as u32);
    let lens = lengths.to_vec();
    graph.spawn(async move {
        for (number, len) in lens.into_iter().enumerate() {
            let mut buffer = output.buffer(len).await?;
            sending.upload(message(number, len).collect::<Vec<_>>(), buffer.part_mut()?)?;
            output.send(buffer, &sending)?;
        }
        output.shutdown()
    });
    let statistics = graph.statistics();
    let received = graph.run(async move {
        let mut items = Vec::new();
        while let Some(pending) = input.recv().await? {
            receiving.wait(&pending)?;
            items.extend(receiving.download(pending.part()?)?.await?);
            pending.release_after(&receiving)?;
        }
        Ok::<_, Error>(items)
    });
    let expected = lengths.iter().enumerate().flat_map(|(number, len)| message(number, *len));
    assert!(received.await?.into_iter().eq(expected));
    Ok(statistics.links().pop().expect("a link"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_way_delivers_everything_in_order(
        lengths in prop::collection::vec(1..300usize, 1..6),
        items in 1..60usize,
        count in 1..4usize,
        to in 1..4usize,
        seed in any::<u64>(),
    ) {
        let packets: u64 = lengths.iter().map(|len| len.div_ceil(items) as u64).sum();
        let are_peers = to == 1;
        for asked_for in [None, Some(TransferWay::Copy), Some(TransferWay::Push), Some(TransferWay::Host)] {
            let context = four(asked_for).simulated(seed).build().unwrap();
            let buffers = Buffers::items(items).count(count);
            let link = context.block_on(send(&context, 0, to, &lengths, buffers)).unwrap().unwrap();
            let expected = match (asked_for, are_peers) {
                (None, true) => TransferWay::Copy,
                (None | Some(TransferWay::Push), false) => TransferWay::Host,
                (Some(way), _) => way,
            };
            prop_assert_eq!(link.packets, packets);
            prop_assert_eq!(link.packets_by(expected), packets, "{:?}", asked_for);
            let through_host = !are_peers || expected == TransferWay::Host;
            prop_assert_eq!(link.packets_through_host, if through_host { packets } else { 0 });
            assert_nothing_leaked(&context);
        }
    }
}

/// On threads, large and small messages in turn, each on lanes of their own.
#[test]
fn small_messages_and_large_ones_by_every_way() {
    for way in TransferWay::ALL {
        let context = four(Some(way)).build().unwrap();
        let lengths = [100_000, 1, 50_000, 2, 3, 300_000, 16_384, 16_385];
        for to in [1, 2] {
            let buffers = Buffers::bytes(20_000).count(3);
            let link = context.block_on(send(&context, 0, to, &lengths, buffers)).unwrap().unwrap();
            assert_eq!(link.bytes, 4 * lengths.iter().sum::<usize>() as u64);
        }
        assert_nothing_leaked(&context);
    }
}

/// One message, a way of its own to each destination.
#[test]
fn a_broadcast_takes_the_way_of_each_pair() {
    let context = four(None).build().unwrap();
    let graph = Graph::new(&context);
    let router = graph.router::<u32>(broadcast()).unwrap();
    let (source, others) = context.devices().split_first().unwrap();
    let mut output = router.sender(source).unwrap();
    for device in others {
        let mut input = router.receiver(device, Buffers::items(100)).unwrap();
        let stream = device.stream().unwrap();
        graph.spawn(async move {
            let mut items = Vec::new();
            while let Some(pending) = input.recv().await? {
                stream.wait(&pending)?;
                items.extend(stream.download(pending.part()?)?.await?);
                pending.release_after(&stream)?;
            }
            assert!(items.into_iter().eq(0..1000));
            Ok::<_, Error>(())
        });
    }
    let stream = source.stream().unwrap();
    let statistics = graph.statistics();
    let sending = graph.run(async move {
        let mut buffer = output.buffer(1000).await?;
        stream.upload((0..1000).collect::<Vec<u32>>(), buffer.part_mut()?)?;
        output.send(buffer, &stream)?;
        output.shutdown()
    });
    context.block_on(sending).unwrap().unwrap();
    for link in statistics.links() {
        let way = if link.to == "host:1" { TransferWay::Copy } else { TransferWay::Host };
        assert_eq!(link.packets_by(way), 10, "{link:?}");
    }
}

#[test]
fn collectives_on_every_way() {
    for way in TransferWay::ALL.map(Some).into_iter().chain([None]) {
        let threads = four(way).build().unwrap();
        let simulated = (0..4).map(|seed| four(way).simulated(seed).build().unwrap());
        for context in [threads].into_iter().chain(simulated) {
            context.block_on(all_types(&context, 103, 40)).unwrap().unwrap();
            assert_nothing_leaked(&context);
        }
    }
}

/// Packets lie in the host's memory where ranks do not reach each other, and where that is
/// asked for.
#[test]
fn packets_of_collectives_through_the_host() {
    let through_host = |builder: ContextBuilder, algorithm| {
        // Nothing is over before somebody waits.
        let context = builder.simulated(1).build().unwrap();
        let mut buffers: Vec<_> =
            context.devices().iter().map(|device| device.buffer::<u32>(100).unwrap()).collect();
        let mut communicator =
            Communicator::with_options(&context, options(algorithm, 64)).unwrap();
        let submitted = context.block_on(async {
            let mut collectives = communicator.begin().await?;
            collectives.all_reduce(&mut buffers, &Operator::sum())?;
            let in_use = context.host().memory().in_use;
            collectives.completed().await?;
            Ok::<_, Error>(in_use > 0)
        });
        submitted.unwrap().unwrap()
    };
    let peers = |way: TransferWay| Context::builder().devices(Devices::host(4)).transfer(way);
    for algorithm in ALGORITHMS {
        for way in TransferWay::ALL {
            assert!(through_host(four(Some(way)), algorithm), "{way}, {algorithm:?}");
            assert_eq!(through_host(peers(way), algorithm), way == TransferWay::Host, "{way}");
        }
        assert!(through_host(four(None), algorithm), "{algorithm:?}");
    }
}

/// Buffers of all devices, used by nothing.
fn buffers(context: &Context, len: usize) -> Vec<DeviceBuffer<u32>> {
    context.devices().iter().map(|device| device.buffer(len).unwrap()).collect()
}

/// Of a collective that has been done before nothing is allocated: on a GPU that makes the host
/// wait.
#[test]
fn collectives_keep_their_memory() {
    let sum = Operator::<u32>::sum();
    type Step = fn(&mut Collectives<'_>, &mut Vec<DeviceBuffer<u32>>, &Operator<u32>) -> Result<()>;
    let steps: [Step; 6] = [
        |collectives, buffers, _| collectives.broadcast(1, buffers),
        |collectives, buffers, sum| collectives.reduce(2, buffers, sum),
        |collectives, buffers, sum| collectives.all_reduce(buffers, sum),
        |collectives, buffers, sum| collectives.reduce_scatter(buffers, sum),
        |collectives, buffers, _| collectives.all_gather(buffers),
        |collectives, buffers, _| collectives.all_to_all(buffers),
    ];
    for algorithm in ALGORITHMS {
        // Nothing is over before somebody waits.
        let context = four(None).simulated(1).build().unwrap();
        let in_use = || {
            let all = context.devices().iter().chain([context.host()]);
            all.map(|device| device.memory().in_use).collect::<Vec<_>>()
        };
        let mut vectors = buffers(&context, 120);
        let before = in_use();
        let mut communicator =
            Communicator::with_options(&context, options(algorithm, 64)).unwrap();
        for step in steps {
            let run = async {
                let mut collectives = communicator.begin().await?;
                step(&mut collectives, &mut vectors, &sum)?;
                collectives.completed().await?;
                let kept = in_use();
                let mut collectives = communicator.begin().await?;
                step(&mut collectives, &mut vectors, &sum)?;
                assert_eq!(in_use(), kept, "{algorithm:?}");
                collectives.completed().await
            };
            context.block_on(run).unwrap().unwrap();
        }
        assert_ne!(in_use(), before, "{algorithm:?}");
        drop((vectors, communicator));
        assert_nothing_leaked(&context);
    }
}

/// A chain of four: what went over it, and how.
fn chain(table: TransferTable, len: usize) -> Vec<LinkStatistics> {
    let shape = Topology::uniform(["0", "1", "2", "3"]).with_transfer_table(table);
    let context = Context::builder().devices(Devices::host(4)).topology(shape).build().unwrap();
    let mut vectors = buffers(&context, len);
    let options = options(Algorithm::Ring, 1 << 10);
    let mut communicator = Communicator::with_options(&context, options).unwrap();
    assert!(communicator.statistics().is_empty());
    context
        .block_on(async {
            let mut collectives = communicator.begin().await?;
            collectives.broadcast(0, &mut vectors)?;
            collectives.completed().await
        })
        .unwrap()
        .unwrap();
    communicator.statistics()
}

/// A slice of a long vector goes as packets of bulk do, not as a message of its size; and all
/// are counted.
#[test]
fn slices_go_by_the_time_of_many() {
    let transfer = |way, bytes, time_us, latency_us| {
        let (from, to) = ("host".to_string(), "host".to_string());
        Transfer { from, to, way, bytes, time_us, latency_us }
    };
    use TransferWay::{Copy, Push};
    let table = || {
        TransferTable::new([
            transfer(Copy, 1 << 10, 2.0, 10.0),
            transfer(Push, 1 << 10, 4.0, 5.0),
            transfer(Copy, 1 << 20, 20.0, 100.0),
            transfer(Push, 1 << 20, 40.0, 50.0),
        ])
    };
    for (len, packets, way) in [(256, 1, Push), (2_000, 8, Copy)] {
        let links = chain(table(), len);
        let pairs: Vec<_> = links.iter().map(|link| (&link.from[..], &link.to[..])).collect();
        assert_eq!(pairs, [("host:0", "host:1"), ("host:1", "host:2"), ("host:2", "host:3")]);
        for link in links {
            assert_eq!((link.packets, link.bytes), (packets, 4 * len as u64), "{link:?}");
            assert_eq!(link.packets_by(way), packets, "{link:?}");
        }
    }
}
