use std::time::{Duration, Instant};

use futures_util::FutureExt;
use millstream_device::Injection;
use millstream_flow::{Buffers, Context, Devices, Error, Graph, Receiver, Sender};

use crate::common::{ADD, KEEP_EVEN, assert_nothing_leaked, block_on, everywhere};
use crate::link_cases::{forwarded, spread, unready};

/// Receives on a device, adds one, sends on.
async fn add_one(mut input: Receiver<u32>, mut output: Sender<u32>) -> millstream_flow::Result<()> {
    let stream = input.device().stream()?;
    while let Some(pending) = input.recv().await? {
        stream.wait(&pending)?;
        let mut sum = output.buffer(pending.len()).await?;
        ADD.launch(&stream, pending.len(), (&pending, &mut sum, 1))?;
        pending.release_after(&stream)?;
        output.send(sum, &stream)?;
    }
    output.shutdown()
}

/// host -> device 0 -> device 1 -> host, each device adding one.
fn pipeline(
    context: &Context,
    items: u32,
    buffers: Buffers,
) -> (Graph, Sender<u32>, Receiver<u32>) {
    let graph = Graph::new(context);
    let (host, devices) = (context.host(), context.devices());
    let (feed, first) = graph.link(host, &devices[0], buffers).unwrap();
    let (to_second, second) = graph.link(&devices[0], &devices[1], buffers).unwrap();
    let (to_host, results) = graph.link(&devices[1], host, buffers).unwrap();
    graph.spawn(add_one(first, to_second));
    graph.spawn(add_one(second, to_host));
    let _ = items;
    (graph, feed, results)
}

async fn feed_and_collect(
    graph: Graph,
    mut feed: Sender<u32>,
    results: Receiver<u32>,
    items: u32,
) -> millstream_flow::Result<Vec<u32>> {
    let numbers: Vec<u32> = (0..items).collect();
    let send = async move {
        feed.send_all(numbers).await?;
        feed.shutdown()
    };
    let main = async { futures_util::try_join!(send, results.collect()).map(|(_, kept)| kept) };
    graph.run(main).await
}

#[test]
fn a_message_a_hundred_times_larger_than_all_buffers_arrives() {
    let outputs = everywhere(2, |context| async move {
        // 3 links of 2 buffers of 5 items, and 2 send buffers of 5 items a link.
        let items = 100 * 10 * 5;
        let (graph, feed, results) = pipeline(&context, items, Buffers::items(5));
        let statistics = graph.statistics();
        let sums = feed_and_collect(graph, feed, results, items).await.unwrap();
        assert_eq!(sums, (2..items + 2).collect::<Vec<_>>());
        for link in statistics.links() {
            assert!(link.largest_packet_bytes <= 20, "{link:?}");
            assert_eq!(link.bytes, u64::from(items) * 4, "{link:?}");
        }
        statistics.links().len()
    });
    assert!(outputs.iter().all(|&links| links == 3));
}

#[test]
fn any_executor_will_do() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let (graph, feed, results) = pipeline(&context, 1000, Buffers::items(64));
    let sums = block_on(feed_and_collect(graph, feed, results, 1000)).unwrap();
    assert_eq!(sums, (2..1002).collect::<Vec<_>>());
    assert_nothing_leaked(&context);
}

#[test]
fn several_graphs_run_at_once_on_one_context() {
    everywhere(2, |context| async move {
        let one = |items| {
            let (graph, feed, results) = pipeline(&context, items, Buffers::items(7));
            feed_and_collect(graph, feed, results, items)
        };
        let (first, second, third) = futures_util::try_join!(one(100), one(200), one(300)).unwrap();
        assert_eq!((first.len(), second.len(), third.len()), (100, 200, 300));
    });
}

#[test]
fn counted_messages_go_out_in_order_with_what_the_device_counted() {
    everywhere(2, |context| async move {
        let graph = Graph::new(&context);
        let (host, device) = (context.host(), &context.devices()[0]);
        let (mut feed, mut input) = graph.link::<u32>(host, device, Buffers::items(3)).unwrap();
        let (mut output, results) = graph.link::<u32>(device, host, Buffers::items(2)).unwrap();
        let stream = device.stream().unwrap();
        graph.spawn(async move {
            while let Some(pending) = input.recv().await? {
                stream.wait(&pending)?;
                let mut kept = output.buffer(pending.len()).await?;
                let count = output.counter()?;
                KEEP_EVEN.launch(&stream, pending.len(), (&pending, &mut kept, &count))?;
                pending.release_after(&stream)?;
                output.send_counted(kept, count, &stream)?;
            }
            output.shutdown()
        });
        let main = async move {
            feed.send_data(vec![1, 3, 5], 0)?;
            feed.send_data((0..100).collect::<Vec<u32>>(), 0)?;
            feed.shutdown()?;
            results.collect().await
        };
        let kept = graph.run(main).await.unwrap();
        assert_eq!(kept, (0..100).filter(|item| item % 2 == 0).collect::<Vec<_>>());
    });
}

#[test]
fn segments_say_where_they_come_from() {
    everywhere(1, |context| async move {
        let graph = Graph::new(&context);
        let (host, device) = (context.host(), &context.devices()[0]);
        let (mut feed, mut input) = graph.link::<u32>(host, device, Buffers::items(4)).unwrap();
        let seen = graph.run(async move {
            feed.send_data(vec![0; 6], 11)?;
            feed.send_data(vec![0; 3], 22)?;
            feed.shutdown()?;
            let mut seen = Vec::new();
            while let Some(pending) = input.recv().await? {
                assert!(pending.source().is_host_endpoint());
                let place = (pending.sequence(), pending.offset(), pending.len());
                seen.push((place, pending.message_len(), pending.metadata()));
                pending.ready().await?.release()?;
            }
            Ok::<_, Error>(seen)
        });
        let expected = [((0, 0, 4), 6, 11), ((0, 4, 2), 6, 11), ((1, 0, 3), 3, 22)];
        assert_eq!(seen.await.unwrap(), expected);
    });
}

/// As many as are asked for are out at once, at least one; whoever wants more waits.
#[test]
fn send_buffers_are_as_many_as_asked_for() {
    everywhere(2, |context| async move {
        for (asked_for, expected) in [(None, 2), (Some(0), 1), (Some(1), 1), (Some(5), 5)] {
            let graph = Graph::new(&context);
            let (device, host) = (&context.devices()[0], context.host());
            let (output, results) = graph.link::<u32>(device, host, Buffers::items(4)).unwrap();
            let mut output = match asked_for {
                Some(count) => output.with_send_buffers(count),
                None => output,
            };
            let stream = device.stream().unwrap();
            let main = async move {
                let mut taken = Vec::new();
                while let Some(buffer) = output.buffer(1).now_or_never().transpose()? {
                    taken.push(buffer);
                }
                assert_eq!(taken.len(), expected, "{asked_for:?}");
                for (mut buffer, item) in taken.into_iter().zip(0..) {
                    stream.upload(vec![item], buffer.part_mut()?)?;
                    output.send(buffer, &stream)?;
                }
                // Those that have been copied are free again.
                let receive = results.collect();
                let send = async move {
                    let mut again = output.buffer(1).await?;
                    stream.upload(vec![77], again.part_mut()?)?;
                    output.send(again, &stream)?;
                    output.shutdown()
                };
                futures_util::try_join!(send, receive).map(|(_, all)| all)
            };
            let all = graph.run(main).await.unwrap();
            assert!(all.into_iter().eq((0..expected as u32).chain([77])), "{asked_for:?}");
        }
    });
}

#[test]
fn a_shared_buffer_may_be_written_again_after_its_copies() {
    everywhere(2, |context| async move {
        let graph = Graph::new(&context);
        let device = &context.devices()[0];
        let (mut output, results) =
            graph.link::<u32>(device, context.host(), Buffers::items(3)).unwrap();
        let stream = device.stream().unwrap();
        let mut buffer = stream.uploaded((0..10).collect::<Vec<u32>>()).unwrap();
        let main = async move {
            let send = async move {
                for _ in 0..3 {
                    output.send_from(&buffer, &stream, 0)?.await?;
                    stream.fill(&mut buffer, 5)?;
                }
                output.shutdown()
            };
            futures_util::try_join!(send, results.collect()).map(|(_, all)| all)
        };
        let all = graph.run(main).await.unwrap();
        assert_eq!(all[..10], (0..10).collect::<Vec<u32>>());
        assert_eq!(all[10..], [5; 20]);
    });
}

/// Whoever hears that a message is over finds nobody at its buffer.
#[test]
fn a_shared_buffer_of_the_host_may_be_written_again_at_once() {
    everywhere(1, |context| async move {
        let graph = Graph::new(&context);
        let (host, device) = (context.host(), &context.devices()[0]);
        let (mut output, mut input) = graph.link::<u32>(host, device, Buffers::items(3)).unwrap();
        let stream = host.stream().unwrap();
        let mut buffer = host.buffer::<u32>(1).unwrap();
        let main = async move {
            let send = async move {
                for turn in 0..200 {
                    buffer.host_view_mut()?[0] = turn;
                    output.send_from(&buffer, &stream, 0)?.await?;
                }
                output.shutdown()
            };
            let receive = async move {
                let (mut received, stream) = (0, input.device().stream()?);
                while let Some(segment) = input.recv().await? {
                    received += segment.len();
                    stream.wait(&segment)?;
                    segment.release_after(&stream)?;
                }
                Ok(received)
            };
            futures_util::try_join!(send, receive).map(|(_, received)| received)
        };
        assert_eq!(graph.run(main).await.unwrap(), 200);
    });
}

/// On simulated devices, where copies wait until somebody waits for them.
#[test]
fn a_segment_released_too_early_ends_the_graph() {
    let context = Context::builder().devices(Devices::host(1)).simulated(3).build().unwrap();
    let graph = Graph::new(&context);
    let (host, device) = (context.host(), &context.devices()[0]);
    let buffers = Buffers::items(4).count(1);
    let (mut output, mut input) = graph.link::<u32>(host, device, buffers).unwrap();
    let main = async move {
        output.send_data(vec![1; 4], 0)?;
        output.send_data(vec![2; 4], 0)?;
        let first = input.recv().await?.expect("two messages are sent");
        let refused = first.release();
        assert!(matches!(refused, Err(Error::InFlight { .. })), "{refused:?}");
        // Without the buffer of the first it never comes.
        input.recv().await.map(drop)
    };
    let ended = context.block_on(graph.run(main)).unwrap().unwrap_err();
    assert!(matches!(ended, Error::InFlight { .. }), "{ended}");
}

#[test]
fn impossible_links_are_refused() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let stranger = Context::builder().devices(Devices::host(2)).build().unwrap();
    let graph = Graph::new(&context);
    let (first, second) = (&context.devices()[0], &context.devices()[1]);
    let buffers = Buffers::bytes(64);
    let refused = |result: millstream_flow::Result<(Sender<u64>, Receiver<u64>)>| {
        result.map(drop).unwrap_err()
    };
    assert!(matches!(refused(graph.link(first, first, buffers)), Error::SelfLoop { .. }));
    let foreign = graph.link(first, &stranger.devices()[0], buffers);
    assert!(matches!(refused(foreign), Error::ForeignDevice { .. }));
    let small = graph.link(first, second, Buffers::bytes(7));
    assert!(matches!(refused(small), Error::PacketTooSmall { bytes: 7, item_bytes: 8 }));
    let none = graph.link(first, second, buffers.count(0));
    assert!(matches!(refused(none), Error::NoBuffers));
    let ends = graph.link::<u64>(first, second, buffers).unwrap();
    assert!(matches!(refused(graph.link(first, second, buffers)), Error::DuplicateLink { .. }));
    // Named alike, but of another context.
    let [other_first, other_second] = stranger.devices() else { panic!("two devices") };
    for (from, to) in [(other_first, second), (first, other_second), (other_first, other_second)] {
        assert!(matches!(refused(graph.link(from, to, buffers)), Error::ForeignDevice { .. }));
    }
    drop(ends);
}

/// What a refused link has made is gone, and does not count as dropped.
#[test]
fn a_refused_link_leaves_nothing() {
    for result in everywhere(1, |context| async move {
        let (host, device) = (context.host(), &context.devices()[0]);
        let graph = Graph::new(&context);
        for buffers in [Buffers::bytes(1), Buffers::items(1 << 60)] {
            assert!(graph.link::<u32>(host, device, buffers).is_err(), "{buffers:?}");
        }
        let (mut feed, mut input) = graph.link::<u32>(host, device, Buffers::items(4))?;
        graph
            .run(async move {
                feed.send_all(vec![1, 2, 3]).await?;
                feed.shutdown()?;
                while let Some(pending) = input.recv().await? {
                    pending.ready().await?.release()?;
                }
                Ok::<_, Error>(())
            })
            .await
    }) {
        result.unwrap();
    }
}

#[test]
fn a_small_message_that_is_not_there_yet_holds_up_no_other() {
    for place in 0..3 {
        for result in
            everywhere(
                1,
                |context| async move { unready(&context, &context.devices()[0], place).await },
            )
        {
            result.unwrap();
        }
    }
}

#[test]
fn packets_are_sent_on_out_of_the_buffers_they_came_in() {
    // Small ones, and others, which have lanes of their own.
    for items in [3, 20_000] {
        for result in everywhere(3, |context| async move {
            forwarded(&context, 20, items).await?;
            spread(&context, 20, items).await
        }) {
            result.unwrap();
        }
    }
}

/// A packet leaves a device while the next one arrives.
#[test]
fn packets_over_many_links_overlap() {
    const DEVICES: u32 = 8;
    const PACKETS: u32 = 8;
    const COPY: Duration = Duration::from_millis(20);
    let injection = Injection { delay: Some(COPY..=COPY), ..Injection::default() };
    let devices = Devices::host(DEVICES as usize);
    let builder = Context::builder().devices(devices).injection(injection).threads(32);
    let context = builder.build().unwrap();
    for items in [3, 20_000] {
        let start = Instant::now();
        context.block_on(forwarded(&context, PACKETS as usize, items)).unwrap().unwrap();
        let time = start.elapsed();
        // One more link leads back to the host.
        assert!(time >= COPY * (PACKETS + DEVICES), "{time:?} for {items} items");
        assert!(time < COPY * (PACKETS * DEVICES) * 2 / 3, "{time:?} for {items} items");
    }
}

#[test]
fn a_segment_is_forwarded_where_it_lies() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let (host, devices) = (context.host(), context.devices());
    let graph = Graph::new(&context);
    let (mut feed, mut input) = graph.link::<u32>(host, &devices[0], Buffers::items(4)).unwrap();
    let (mut output, _idle) = graph.link(&devices[1], host, Buffers::items(4)).unwrap();
    let run = graph.run(async move {
        feed.send_all(vec![1]).await?;
        let pending = input.recv().await?.ok_or(Error::Ended)?;
        let stream = devices[0].stream()?;
        stream.wait(&pending)?;
        output.forward(pending, &stream)
    });
    let refused = context.block_on(run).unwrap();
    assert!(matches!(refused, Err(Error::SegmentElsewhere { .. })), "{refused:?}");
}

/// More often than there are send buffers.
#[test]
fn a_message_before_the_graph_runs_takes_no_buffer() {
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let graph = Graph::new(&context);
    let (host, device) = (context.host(), &context.devices()[0]);
    let (mut output, input) = graph.link::<u32>(device, host, Buffers::items(4)).unwrap();
    let stream = device.stream().unwrap();
    let early = async {
        for _ in 0..5 {
            let buffer = output.buffer(4).await?;
            let refused = output.send(buffer, &stream);
            assert!(matches!(refused, Err(Error::NotRunning)));
        }
        Ok::<_, Error>(output)
    };
    let mut output = context.block_on(early).unwrap().unwrap();
    let run = graph.run(async move {
        output.send_all(vec![7]).await?;
        output.shutdown()?;
        input.collect().await
    });
    assert_eq!(context.block_on(run).unwrap().unwrap(), [7]);
}
