//! What full/empty segments refuse, and how long each group waits.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use millstream_device::{Kernel, Step, StreamKind};
use millstream_flow::{
    Action, Context, Devices, Error, FullEmpty, FullEmptyPackets, Guard, PacketShape, Trigger,
};

use crate::common::everywhere;
use crate::full_empty_copies::set;
use crate::full_empty_kernels::SCALE;

type WritesPackets = (FullEmptyPackets<u32>,);

/// Each block writes its packet, and nobody is told.
fn write() -> Kernel<WritesPackets> {
    Kernel::<WritesPackets>::of_step_closure("write", |packet, (output,)| {
        Ok(output.write(packet, |items| items.fill(1))?.map_or(Step::Waits, |()| Step::Done))
    })
}

/// Each block says that its packet is there.
fn publish() -> Kernel<WritesPackets> {
    Kernel::<WritesPackets>::of_step_closure("publish", |packet, (output,)| {
        output.publish(packet)?;
        Ok(Step::Done)
    })
}

/// At once, whether they would wait or not.
#[test]
fn copies_that_cannot_be_are_refused() {
    for result in everywhere(1, |context| async move {
        let group = FullEmpty::new(&context, Duration::from_secs(20))?;
        let segment = |shape| group.segment::<u32>(context.host(), shape);
        let (one, other) = (segment(PacketShape::new(10, 5))?, segment(PacketShape::new(12, 6))?);
        let stream = context.host().stream()?;
        for trigger in [Trigger::None, Trigger::Full] {
            let guard = Guard::new(trigger, Action::None);
            let longer = one.copy(&stream, 0, guard, (&other, 1, Guard::default()));
            let found = millstream_device::Error::LengthMismatch { from: 5, to: 6 };
            assert!(matches!(longer, Err(Error::Device(error)) if error == found));
            let itself = one.copy(&stream, 1, guard, (&one, 1, Guard::default()));
            assert!(matches!(itself, Err(Error::PacketOntoItself { packet: 1, .. })));
        }
        // Words that the host does not see.
        let shape = PacketShape::new(10, 5).unseen_by_host();
        let unseen = group.segment::<u32>(&context.devices()[0], shape)?;
        let full = Guard::new(Trigger::Full, Action::None);
        let copied = unseen.copy(&stream, 0, full, (&one, 0, Guard::default()));
        assert!(matches!(copied, Err(Error::UnseenPackets { .. })));
        assert!(matches!(unseen.wait_full(0..1).await, Err(Error::UnseenPackets { .. })));
        assert!(matches!(unseen.full_event(0..1), Err(Error::UnseenPackets { .. })));
        group.check()
    }) {
        result.unwrap();
    }
}

/// Each side of a copy waits as long as its own group.
#[test]
fn groups_differ_in_their_patience() {
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let group = |patience| FullEmpty::new(&context, patience).unwrap();
    let (short, long) = (group(Duration::from_millis(20)), group(Duration::from_secs(3600)));
    let segment =
        |group: &FullEmpty| group.segment::<u32>(context.host(), PacketShape::new(4, 4)).unwrap();
    let (source, target) = (segment(&short), segment(&long));
    let stream = context.host().stream().unwrap();
    context.block_on(set(&stream, &source, 0, true)).unwrap().unwrap();
    context.block_on(set(&stream, &target, 0, true)).unwrap().unwrap();
    let (full, empty) = (Trigger::Full, Trigger::Empty);
    let to = (&target, 0, Guard::new(empty, Action::MarkFull));
    let copied = source.copy(&stream, 0, Guard::new(full, Action::None), to).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    long.check().unwrap();
    context.block_on(set(&stream, &target, 0, false)).unwrap().unwrap();
    context.block_on(copied.completed()).unwrap().unwrap();
    assert!(target.is_full(0).unwrap());
}

/// Nothing is late on the side that nobody else uses; but if its group ends, so does the copy.
#[test]
fn who_waits_for_another_copy_is_late_on_its_side_only() {
    for ends in [false, true] {
        wait_for_another_copy(ends);
    }
}

fn wait_for_another_copy(ends: bool) {
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let group = |patience| FullEmpty::new(&context, patience).unwrap();
    let (short, long) = (group(Duration::from_millis(20)), group(Duration::from_secs(3600)));
    let segment =
        |group: &FullEmpty| group.segment::<u32>(context.host(), PacketShape::new(4, 4)).unwrap();
    let (source, other, target) = (segment(&short), segment(&long), segment(&long));
    let streams = [(); 2].map(|()| context.host().stream().unwrap());
    context.block_on(set(&streams[0], &source, 0, true)).unwrap().unwrap();
    let promise = context.device_set().promise("a gate");
    streams[0].wait(promise.event()).unwrap();
    // It has the packet, and waits.
    let none = || Guard::new(Trigger::None, Action::None);
    let held_up = other.copy(&streams[0], 0, none(), (&target, 0, none())).unwrap();
    let to = (&target, 0, Guard::new(Trigger::Empty, Action::MarkFull));
    let copied = source.copy(&streams[1], 0, Guard::new(Trigger::Full, Action::None), to).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    short.check().unwrap();
    if ends {
        short.release_all().unwrap();
        assert!(context.block_on(copied.completed()).unwrap().is_err());
        assert!(held_up.completed().now_or_never().is_none());
    }
    promise.complete(Ok(()));
    context.block_on(held_up.completed()).unwrap().unwrap();
    if !ends {
        context.block_on(copied.completed()).unwrap().unwrap();
        assert!(target.is_full(0).unwrap());
    }
}

#[test]
fn kernels_that_wait_have_streams_for_that() {
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let group = FullEmpty::new(&context, Duration::from_secs(20)).unwrap();
    let segment = || group.segment::<u32>(context.host(), PacketShape::new(4, 2)).unwrap();
    let (input, output) = (segment(), segment());
    let stream = context.devices()[0].stream().unwrap();
    let launched = group.launch_early(&stream, &SCALE, 2, (&input, &output, 1));
    let error = context.block_on(launched).unwrap().unwrap_err();
    assert!(matches!(error, Error::NotAGangStream { .. }), "{error}");
}

/// What a kernel may be reading is not written; and a twin does not wait for what will never be.
#[test]
fn packets_that_kernels_have_are_filled_once_and_are_there() {
    for result in everywhere(1, |context| async move {
        let device = &context.devices()[0];
        let group = FullEmpty::new(&context, Duration::from_secs(20))?;
        let shape = PacketShape::new(10, 5);
        let segment = || group.segment::<u32>(context.host(), shape.clone().read_by(device));
        let (input, output) = (segment()?, segment()?);
        let compute = device.stream_of(StreamKind::Gang)?;
        let launch = |blocks| group.launch_early(&compute, &SCALE, blocks, (&input, &output, 3));
        // It does not end before the second packet is filled.
        let launched = launch(shape.packets()).await?;
        input.fill(0, |items| items.fill(1))?;
        let again = input.fill(0, |items| items.fill(2));
        assert!(matches!(again, Err(Error::PacketFull { packet: 0, .. })), "{again:?}");
        input.fill(1, |items| items.fill(3))?;
        launched.completed().await?;
        // Who launches may hear of it already.
        let faulted = async { launch(shape.packets() + 1).await?.completed().await };
        let ended = faulted.await.unwrap_err().to_string();
        assert!(ended.contains("packet 2 of segment 0, which has 2"), "{ended}");
        Ok::<_, Error>(())
    }) {
        result.unwrap();
    }
}

/// As on a GPU, where it would be somebody else's memory.
#[test]
fn twins_do_not_write_packets_that_do_not_exist() {
    for kernel in [write, publish] {
        refuses_a_third_packet(kernel);
    }
}

fn refuses_a_third_packet(kernel: fn() -> Kernel<WritesPackets>) {
    for result in everywhere(1, |context| async move {
        let device = &context.devices()[0];
        let group = FullEmpty::new(&context, Duration::from_secs(20))?;
        let output = group.segment::<u32>(context.host(), PacketShape::new(8, 4))?;
        let compute = device.stream_of(StreamKind::Gang)?;
        let launched = group.launch_early(&compute, &kernel(), 3, (&output,)).await?;
        let ended = launched.completed().await.unwrap_err().to_string();
        assert!(ended.contains("packet 2 of segment 0, which has 2"), "{ended}");
        Ok::<_, Error>(())
    }) {
        result.unwrap();
    }
}

/// Who has been given up does not hold up the next epoch, though somebody may still be looking.
#[test]
fn an_epoch_ends_after_a_wait_that_was_dropped() {
    const PACKETS: usize = 20_000;
    let context = Context::builder().devices(Devices::host(1)).threads(2).build().unwrap();
    let group = FullEmpty::new(&context, Duration::from_secs(3600)).unwrap();
    let shape = PacketShape::new(PACKETS, 1);
    let mut segment = group.segment::<u32>(context.host(), shape).unwrap();
    let bell = context.host().shared::<u32>(1).unwrap();
    for round in 0..10 {
        for packet in 0..PACKETS - 1 {
            segment.fill(packet, |items| items.fill(round)).unwrap();
        }
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Each store rings for those who wait, on this thread: it looks at all packets.
                while !is_over.load(Ordering::Relaxed) {
                    bell.store(0, 1).unwrap();
                }
            });
            let mut waits = Vec::new();
            {
                let mut wait = std::pin::pin!(segment.wait_full(0..PACKETS));
                for _ in 0..10 {
                    waits.push(wait.as_mut().now_or_never());
                    std::thread::yield_now();
                }
            }
            let begun = segment.next_epoch();
            // Whatever has gone wrong: else the other thread never ends.
            is_over.store(true, Ordering::Relaxed);
            begun.unwrap();
            assert!(waits.iter().all(Option::is_none), "{waits:?}");
        });
    }
    group.check().unwrap();
}

/// Of devices, ranges and counts.
#[test]
fn segments_that_cannot_be_are_refused() {
    let context = || Context::builder().devices(Devices::host(1)).build().unwrap();
    let (ours, foreign) = (context(), context());
    let group = FullEmpty::new(&ours, Duration::from_secs(20)).unwrap();
    let device = &foreign.devices()[0];
    let shape = PacketShape::new(4, 2);
    for shape in [shape.clone().read_by(device), shape.clone().written_by(device, 2)] {
        let error = group.segment::<u32>(ours.host(), shape).unwrap_err();
        assert!(matches!(error, Error::ForeignDevice { .. }), "{error}");
    }
    let segment = group.segment::<u32>(ours.host(), shape).unwrap();
    let error = segment.blocking_wait_full(Range { start: 5, end: 2 }).unwrap_err();
    assert!(matches!(error, Error::NoSuchPacket { packet: 5, packets: 2, .. }), "{error}");
}
