//! Messages that kernels of the sender write into packet buffers of the receiver.

use std::pin::pin;
use std::task::Poll;

use futures_util::{poll, try_join};
use millstream_device::{DeviceBuffer, TransferWay};
use millstream_flow::{
    Buffers, Context, Devices, Error, Graph, PendingSegment, Receiver, Result, Sender,
    first_available,
};

use crate::common::{ADD, KEEP_EVEN, everywhere};
use crate::link_cases::{collect, in_place};

fn link(context: &Context, buffers: Buffers) -> (Graph, Sender<u32>, Receiver<u32>) {
    let graph = Graph::new(context);
    let [from, to] = [0, 1].map(|place| &context.devices()[place]);
    let (output, input) = graph.link(from, to, buffers).unwrap();
    (graph, output, input)
}

/// Sends `items` as they are in place, or not.
async fn send(output: &mut Sender<u32>, items: &[u32]) -> Result<bool> {
    let stream = output.device().stream()?;
    let mut packet = output.packet(items.len(), &stream).await?;
    let is_in_place = packet.is_in_place();
    stream.upload(items.to_vec(), packet.part_mut()?)?;
    output.send(packet, &stream)?;
    Ok(is_in_place)
}

#[test]
fn they_arrive_among_others_in_order() {
    everywhere(2, |context| async move {
        let (devices, host) = (context.devices(), context.host());
        for to in [host, &devices[1]] {
            let (written, pushed) = in_place(&context, (&devices[0], to), 9).await.unwrap();
            // At least the first, of at most three a round.
            assert!(written == pushed && (1..27).contains(&written), "{written} {pushed}");
        }
        // The host has no kernels.
        assert_eq!(in_place(&context, (host, &devices[0]), 3).await.unwrap(), (0, 0));
    });
}

#[test]
fn one_buffer_is_left_to_others() {
    for (count, expected) in [(1, [false, false]), (2, [true, false]), (3, [true, true])] {
        everywhere(2, |context| async move {
            let (graph, mut output, mut input) = link(&context, Buffers::items(4).count(count));
            let run = graph.run(async move {
                let stream = output.device().stream()?;
                let packets = [output.packet(4, &stream).await?, output.packet(4, &stream).await?];
                assert_eq!([packets[0].is_in_place(), packets[1].is_in_place()], expected);
                // However many are out, others arrive.
                output.send_data(vec![1, 2, 3, 4, 5], 0)?;
                for len in [4, 1] {
                    let segment = input.recv().await?.ok_or(Error::Ended)?.ready().await?;
                    assert_eq!(segment.len(), len);
                    segment.release()?;
                }
                drop(packets);
                assert_eq!(send(&mut output, &[7]).await?, expected[0]);
                output.shutdown()?;
                let last = input.recv().await?.ok_or(Error::Ended)?.ready().await?;
                last.release()?;
                assert!(input.recv().await?.is_none());
                Ok::<(), Error>(())
            });
            run.await.unwrap();
        });
    }
}

#[test]
fn where_it_cannot_be_it_is_copied() {
    let context = Context::builder().devices(Devices::host(3)).build().unwrap();
    let devices = context.devices();
    let several = Graph::new(&context);
    let router = several.router::<u32>(first_available()).unwrap();
    let mut output = router.sender(&devices[0]).unwrap();
    let inputs = [1, 2].map(|to| router.receiver(&devices[to], Buffers::items(4)).unwrap());
    let run = several.run(async move {
        assert!(!send(&mut output, &[1]).await?);
        output.shutdown()?;
        let [one, other] = inputs.map(collect);
        try_join!(one, other).map(drop)
    });
    context.block_on(run).unwrap().unwrap();

    for way in [TransferWay::Copy, TransferWay::Host, TransferWay::Push] {
        let builder = Context::builder().devices(Devices::host(2)).transfer(way);
        let context = builder.build().unwrap();
        let [from, to] = [0, 1].map(|place| &context.devices()[place]);
        let (written, _) = context.block_on(in_place(&context, (from, to), 3)).unwrap().unwrap();
        assert_eq!(written > 0, way == TransferWay::Push, "{way}");
    }
}

#[test]
fn a_reservation_that_is_given_up_keeps_nothing() {
    everywhere(2, |context| async move {
        let (graph, mut output, mut input) = link(&context, Buffers::items(1).count(3));
        let run = graph.run(async move {
            let stream = output.device().stream()?;
            for item in 0..3 {
                send(&mut output, &[item]).await?;
            }
            let mut held = Vec::new();
            for _ in 0..3 {
                held.push(input.recv().await?.ok_or(Error::Ended)?.ready().await?);
            }
            // No buffer is free now.
            for _ in 0..5 {
                let mut waits = pin!(output.packet(1, &stream));
                assert!(matches!(poll!(&mut waits), Poll::Pending));
            }
            // One that has been given a buffer before it looks again.
            {
                let mut waits = pin!(output.packet(1, &stream));
                assert!(matches!(poll!(&mut waits), Poll::Pending));
                held.remove(0).release()?;
            }
            assert!(send(&mut output, &[3]).await?);
            let packet = input.recv().await?.ok_or(Error::Ended)?.ready().await?;
            // Given up while the receiver keeps everything: its stream ends.
            {
                let mut waits = pin!(output.packet(1, &stream));
                assert!(matches!(poll!(&mut waits), Poll::Pending));
            }
            output.shutdown()?;
            assert!(input.recv().await?.is_none());
            held.into_iter().chain([packet]).try_for_each(|segment| segment.release())
        });
        run.await.unwrap();
    });
}

#[test]
fn the_device_may_count_the_items() {
    everywhere(2, |context| async move {
        let (graph, mut output, input) = link(&context, Buffers::items(8).count(2));
        let device = context.devices()[0].clone();
        let run = async {
            let stream = device.stream()?;
            for first in [0u32, 100, 101] {
                let items: DeviceBuffer<u32> = stream.uploaded(
                    (0..8).map(|at| first * 2 + at * (1 + first % 2)).collect::<Vec<_>>(),
                )?;
                let count = output.counter()?;
                let mut packet = output.packet(8, &stream).await?;
                KEEP_EVEN.launch(&stream, 8, (&items, &mut packet, &count))?;
                output.send_counted(packet, count, &stream)?;
            }
            // None at all.
            let items: DeviceBuffer<u32> = stream.uploaded(vec![1; 8])?;
            let count = output.counter()?;
            let mut packet = output.packet(8, &stream).await?;
            KEEP_EVEN.launch(&stream, 8, (&items, &mut packet, &count))?;
            output.send_counted(packet, count, &stream)?;
            send(&mut output, &[9]).await?;
            output.shutdown()
        };
        let (_, items) = graph.run(async { try_join!(run, collect(input)) }).await.unwrap();
        let even =
            |first: u32, step: usize| (first..first + 8).step_by(step).filter(|item| item % 2 == 0);
        let mut expected: Vec<u32> = even(0, 1).chain(even(200, 1)).collect();
        expected.extend((0..8).map(|at| 202 + at * 2));
        expected.push(9);
        assert_eq!(items, expected);
    });
}

#[test]
fn who_waits_hears_that_the_graph_has_failed() {
    everywhere(2, |context| async move {
        let (graph, mut output, mut input) = link(&context, Buffers::items(1).count(2));
        let error = graph.run(async move {
            let stream = output.device().stream()?;
            send(&mut output, &[1]).await?;
            send(&mut output, &[2]).await?;
            let held = [input.recv().await?, input.recv().await?];
            let waits = async {
                let waits = output.packet(1, &stream).await;
                waits.map(drop)
            };
            let fails = async { Err::<(), _>(Error::task(std::io::Error::other("asked for"))) };
            let ended = try_join!(waits, fails);
            drop(held);
            ended.map(drop)
        });
        let error = error.await.unwrap_err();
        assert!(error.to_string().contains("asked for"), "{error}");
    });
}

/// A sender of each of two devices to one receiver, in place and copied.
#[test]
fn several_senders_write_side_by_side() {
    everywhere(3, |context| async move {
        let graph = Graph::new(&context);
        let router = graph.router::<u32>(first_available()).unwrap();
        for (place, device) in context.devices()[..2].iter().enumerate() {
            let mut output = router.sender(device).unwrap();
            graph.spawn(async move {
                for number in 0..20 {
                    let items = vec![place as u32 * 1000 + number; 3];
                    match number % 3 {
                        0 => output.send_data(items, 0)?,
                        _ => send(&mut output, &items).await.map(drop)?,
                    }
                }
                output.shutdown()
            });
        }
        let input = router.receiver(&context.devices()[2], Buffers::items(3).count(3)).unwrap();
        let received = graph.run(collect(input)).await.unwrap();
        let mut next = [0; 2];
        for items in received.chunks(3) {
            let (from, number) = (items[0] as usize / 1000, items[0] % 1000);
            assert_eq!((number, items), (next[from], &[items[0]; 3][..]));
            next[from] += 1;
        }
        assert_eq!(next, [20; 2]);
    });
}

/// The receiver's task waits for no kernel of its own, and whoever gets the buffer next does nothing
/// with it.
#[test]
fn what_is_dropped_is_not_in_use() {
    everywhere(2, |context| async move {
        let (graph, mut output, mut input) = link(&context, Buffers::items(4).count(2));
        let to = context.devices()[1].clone();
        let run = graph.run(async move {
            let (sending, receiving) = (output.device().stream()?, to.stream()?);
            let mut sum = to.buffer::<u32>(4)?;
            for round in 0..6 {
                assert!(send(&mut output, &[round; 4]).await?);
                let pending = input.recv().await?.ok_or(Error::Ended)?;
                receiving.wait(&pending)?;
                ADD.launch(&receiving, 4, (&pending, &mut sum, 1))?;
                pending.release_after(&receiving)?;
                // One of them is the receiver's until its kernel has ended.
                let packets =
                    [output.packet(4, &sending).await?, output.packet(4, &sending).await?];
                assert!(packets[0].is_in_place());
                drop(packets);
            }
            output.shutdown()?;
            assert!(input.recv().await?.is_none());
            assert_eq!(receiving.download(&sum)?.await?, [6; 4]);
            Ok::<(), Error>(())
        });
        run.await.unwrap();
    });
}

/// Counted, behind one that is copied, while the receiver keeps the packet before.
#[test]
fn none_is_reserved_while_a_copy_needs_it() {
    everywhere(2, |context| async move {
        let (graph, mut output, mut input) = link(&context, Buffers::items(4).count(2));
        let to = context.devices()[1].clone();
        let run = graph.run(async move {
            let (stream, receiving) = (output.device().stream()?, to.stream()?);
            let sending = async {
                for round in 0..8 {
                    let items: DeviceBuffer<u32> =
                        stream.uploaded(vec![2 * round, 2 * round, 2 * round, 1])?;
                    let count = output.counter()?;
                    let mut packet = output.packet(4, &stream).await?;
                    KEEP_EVEN.launch(&stream, 4, (&items, &mut packet, &count))?;
                    output.send_counted(packet, count, &stream)?;
                }
                output.shutdown()
            };
            let receiving = async {
                let mut kept = None;
                for round in 0..8 {
                    let pending = input.recv().await?.ok_or(Error::Ended)?;
                    receiving.wait(&pending)?;
                    assert_eq!(receiving.download(pending.part()?)?.await?, [2 * round; 3]);
                    if let Some(last) = kept.replace(pending) {
                        PendingSegment::release_after(last, &receiving)?;
                    }
                }
                drop(kept);
                assert!(input.recv().await?.is_none());
                Ok(())
            };
            try_join!(sending, receiving).map(drop)
        });
        run.await.unwrap();
    });
}

#[test]
fn buffers_of_other_links_are_refused() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let (graph, mut output, input) = link(&context, Buffers::items(4).count(2));
    let [from, to] = [0, 1].map(|place| &context.devices()[place]);
    let (mut other, other_input) = graph.link::<u32>(to, from, Buffers::items(4)).unwrap();
    let run = graph.run(async move {
        let stream = output.device().stream()?;
        for buffer in [output.packet(4, &stream).await?, output.buffer(4).await?] {
            let refused = other.send(buffer, &stream).unwrap_err();
            assert!(matches!(refused, Error::ForeignBuffer { .. }), "{refused}");
        }
        // Both are free again.
        assert!(send(&mut output, &[1]).await?);
        output.shutdown()?;
        other.shutdown()?;
        let items = try_join!(collect(input), collect(other_input))?;
        assert_eq!(items, (vec![1], vec![]));
        Ok::<(), Error>(())
    });
    context.block_on(run).unwrap().unwrap();
}
