//! Who is at a packet of a full/empty segment, and who hears when that is over.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use millstream_device::{Device, Error as DeviceError, EventStatus, Promise, Stream, StreamKind};
use millstream_flow::{
    Action, Context, Devices, Error, FullEmpty, FullEmptySegment, Guard, PacketShape, Trigger,
};

const PATIENCE: Duration = Duration::from_secs(20);

fn context() -> Context {
    Context::builder().devices(Devices::host(1)).build().unwrap()
}

fn segments<const N: usize>(context: &Context, group: &FullEmpty) -> [FullEmptySegment<u32>; N] {
    [(); N].map(|()| group.segment(context.host(), PacketShape::new(8, 4)).unwrap())
}

/// A stream that holds up what is submitted to it until the promise is kept.
fn held_up(context: &Context) -> (Stream, Promise) {
    let stream = context.devices()[0].stream_of(StreamKind::Copy).unwrap();
    let gate = context.device_set().promise("gate".to_string());
    stream.wait(gate.event()).unwrap();
    (stream, gate)
}

fn copy_stream(device: &Device) -> Stream {
    device.stream_of(StreamKind::Copy).unwrap()
}

/// The word that it changes is not that of the copy that is under way.
#[test]
fn emptying_a_packet_does_not_end_a_copy_of_it() {
    let context = context();
    let group = FullEmpty::new(&context, PATIENCE).unwrap();
    let [source, target] = segments(&context, &group);
    let (held_up, gate) = held_up(&context);
    let free = copy_stream(&context.devices()[0]);
    source.fill(0, |items| items.fill(7)).unwrap();
    let take = Guard::new(Trigger::None, Action::MarkEmpty);
    let put = Guard::new(Trigger::None, Action::MarkFull);
    let copied = source.copy(&held_up, 0, take, (&target, 0, put)).unwrap();
    source.mark_empty(&free, 0).unwrap();
    free.record().unwrap().synchronize().unwrap();
    let refused = source.fill(0, |items| items.fill(9)).unwrap_err();
    assert!(matches!(refused, Error::InFlight { .. }), "{refused}");
    assert_eq!(copied.status(), EventStatus::Pending);
    gate.complete(Ok(()));
    copied.synchronize().unwrap();
    target.read(0, |items| assert_eq!(items, [7; 4])).unwrap();
    source.fill(0, |items| items.fill(9)).unwrap();
    assert!(source.is_full(0).unwrap());
}

#[test]
fn nobody_empties_what_host_code_reads() {
    let context = context();
    let group = FullEmpty::new(&context, PATIENCE).unwrap();
    let [segment] = segments(&context, &group);
    let stream = copy_stream(&context.devices()[0]);
    segment.fill(0, |items| items.fill(7)).unwrap();
    let refused = segment.read(0, |_| segment.mark_empty(&stream, 0)).unwrap().unwrap_err();
    assert!(matches!(refused, Error::InFlight { action: "emptied", .. }), "{refused}");
    segment.mark_empty(&stream, 0).unwrap();
    stream.record().unwrap().synchronize().unwrap();
    assert!(!segment.is_full(0).unwrap());
    // And what has been emptied is free at once.
    segment.fill(0, |items| items.fill(8)).unwrap();
}

#[test]
fn host_code_does_not_wait_for_itself() {
    let context = context();
    let group = FullEmpty::new(&context, PATIENCE).unwrap();
    let [segment, other] = segments(&context, &group);
    segment.fill(0, |items| items.fill(7)).unwrap();
    let is_nested = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::Device(DeviceError::Nested { .. }))), "{result:?}");
    };
    segment.read(0, |_| is_nested(segment.fill(1, |_| ()))).unwrap();
    segment.fill(1, |_| is_nested(segment.read(0, |_| ()))).unwrap();
    segment.read(0, |_| is_nested(segment.read(1, |_| ()))).unwrap();
    segment.read(0, |from| other.fill(1, |to| to.copy_from_slice(from)).unwrap()).unwrap();
    other.read(1, |items| assert_eq!(items, [7; 4])).unwrap();
}

/// Not after a patience of its own, and not for a reason of its own.
#[test]
fn the_end_of_a_source_is_heard_where_its_copies_would_have_gone() {
    let context = context();
    let group = FullEmpty::new(&context, PATIENCE).unwrap();
    let others = FullEmpty::new(&context, PATIENCE).unwrap();
    let ([source], [target]) = (segments(&context, &group), segments(&context, &others));
    let stream = copy_stream(&context.devices()[0]);
    let take = Guard::new(Trigger::Full, Action::None);
    let put = Guard::new(Trigger::None, Action::MarkFull);
    let copied = source.copy(&stream, 0, take, (&target, 0, put)).unwrap();
    let start = Instant::now();
    group.release_all().unwrap();
    copied.synchronize().unwrap_err();
    let error = target.blocking_wait_full(0..1).unwrap_err().to_string();
    assert!(error.contains("all were released"), "{error}");
    assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
}

/// Packets of this epoch that are waited for never come in the next one.
#[test]
fn no_epoch_begins_while_an_event_waits_for_packets() {
    let context = context();
    let group = FullEmpty::new(&context, PATIENCE).unwrap();
    let [mut segment] = segments(&context, &group);
    let event = segment.full_event(0..1).unwrap();
    let refused = segment.next_epoch().unwrap_err();
    assert!(matches!(refused, Error::InFlight { action: "begun anew", .. }), "{refused}");
    segment.fill(0, |items| items.fill(7)).unwrap();
    event.synchronize().unwrap();
    segment.next_epoch().unwrap();
    // Who no longer waits holds up nobody.
    context
        .block_on(async {
            let waits = segment.wait_full(0..1);
            let soon = async { Ok::<_, Error>(()) };
            futures_util::pin_mut!(waits, soon);
            futures_util::future::select(waits, soon).await;
        })
        .unwrap();
    segment.next_epoch().unwrap();
}

/// One copy waits until another is through with packet 1 of the source, and one until another is through
/// with packet 0 of the target: its tries leave the first one alone.
#[test]
fn copies_that_wait_for_others_do_not_wake_each_other() {
    for simulated in [false, true] {
        let (tell, hear) = channel();
        std::thread::spawn(move || {
            let builder = Context::builder().devices(Devices::host(1));
            let builder = if simulated { builder.simulated(1) } else { builder };
            let rings = rings_of_copies_that_wait(&builder.build().unwrap());
            let _ = tell.send(rings);
        });
        let rings = hear.recv_timeout(PATIENCE).expect("copies return at once");
        assert!(rings < 20, "{rings} rings");
    }
}

fn rings_of_copies_that_wait(context: &Context) -> u64 {
    let group = FullEmpty::new(context, PATIENCE).unwrap();
    let [source, target, elsewhere] = segments(context, &group);
    let (held_up, gate) = held_up(context);
    let free = copy_stream(&context.devices()[0]);
    source.fill(0, |items| items.fill(6)).unwrap();
    source.fill(1, |items| items.fill(7)).unwrap();
    elsewhere.fill(0, |items| items.fill(8)).unwrap();
    let none = Guard::default();
    let copies = [
        source.copy(&held_up, 1, none, (&elsewhere, 1, none)).unwrap(),
        elsewhere.copy(&held_up, 0, none, (&target, 0, none)).unwrap(),
    ];
    let take = Guard::new(Trigger::Full, Action::MarkEmpty);
    let put = Guard::new(Trigger::Empty, Action::MarkFull);
    let before = context.device_set().bell().rings();
    let waiting = [1, 0].map(|packet| source.copy(&free, packet, take, (&target, packet, put)));
    let rings = context.device_set().bell().rings() - before;
    gate.complete(Ok(()));
    for event in copies.into_iter().chain(waiting.map(|copied| copied.unwrap())) {
        event.synchronize().unwrap();
    }
    for (packet, items) in [[6; 4], [7; 4]].iter().enumerate() {
        target.read(packet, |copied| assert_eq!(copied, items)).unwrap();
    }
    rings
}
