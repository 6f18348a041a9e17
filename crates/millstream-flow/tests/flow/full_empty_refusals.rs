//! What full/empty segments refuse, and how long each group waits.

use std::time::Duration;

use millstream_device::StreamKind;
use millstream_flow::{Action, Context, Devices, Error, FullEmpty, Guard, PacketShape, Trigger};

use crate::common::everywhere;
use crate::full_empty_copies::set;
use crate::full_empty_kernels::SCALE;

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
        let blocks = shape.packets() + 1;
        let launched = group.launch_early(&compute, &SCALE, blocks, (&input, &output, 3)).await?;
        input.fill(0, |items| items.fill(1))?;
        let again = input.fill(0, |items| items.fill(2));
        assert!(matches!(again, Err(Error::PacketFull { packet: 0, .. })), "{again:?}");
        let ended = launched.completed().await.unwrap_err().to_string();
        assert!(ended.contains("packet 2 of segment 0, which has 2"), "{ended}");
        Ok::<_, Error>(())
    }) {
        result.unwrap();
    }
}
