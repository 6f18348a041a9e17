//! Full/empty segments on host devices, threaded and simulated.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use millstream_device::{Grid, InjectedFault, Injection, Kernel, Shared, Step, StreamKind};
use millstream_flow::{
    Action, Context, Devices, Error, FullEmpty, FullEmptyPackets, FullEmptySegment, Guard,
    PacketShape, Result, Trigger,
};

use crate::common::everywhere;
use crate::full_empty_cases::{chain, counted, deserted, pulled, refilled, rounds, withheld};
use crate::full_empty_copies::{between, emptied, queued, set, triggers_and_actions};
use crate::full_empty_kernels::SCALE;
use crate::shape_cases::QUADRUPLETS;

fn host_rounds() -> u32 {
    std::env::var("MILLSTREAM_RUNS").map_or(25, |runs| runs.parse().unwrap())
}

#[test]
fn every_order_of_launch_fill_and_return() {
    for result in everywhere(2, |context| async move {
        rounds(&context, &context.devices()[1], host_rounds(), 5).await
    }) {
        result.unwrap();
    }
}

#[test]
fn what_is_there_is_worked_on_while_the_rest_is_withheld() {
    for result in
        everywhere(1, |context| async move { withheld(&context, &context.devices()[0]).await })
    {
        result.unwrap();
    }
}

#[test]
fn many_writers_publish_by_count() {
    for result in everywhere(1, |context| async move {
        counted(&context, &context.devices()[0], host_rounds()).await
    }) {
        result.unwrap();
    }
}

#[test]
fn writers_that_did_not_come_are_not_waited_for_later() {
    for result in
        everywhere(1, |context| async move { deserted(&context, &context.devices()[0], 3).await })
    {
        result.unwrap();
    }
}

#[test]
fn copies_that_wait_for_one_packet_have_it_one_by_one() {
    for result in everywhere(1, |context| async move {
        queued(&context, &context.devices()[0], 20, 1).await?;
        queued(&context, &context.devices()[0], 20, 3).await
    }) {
        result.unwrap();
    }
}

#[test]
fn blocks_fetch_packets_for_each_other() {
    for result in everywhere(1, |context| async move {
        pulled(&context, &context.devices()[0], host_rounds(), 7).await
    }) {
        result.unwrap();
    }
}

#[test]
fn packets_go_through_kernels_of_all_devices() {
    for result in everywhere(3, |context| async move { chain(&context, 5).await }) {
        result.unwrap();
    }
}

#[test]
fn packets_are_filled_again_in_one_epoch() {
    let times = [Duration::ZERO, Duration::from_secs(20)];
    for result in everywhere(1, |context| async move {
        refilled(&context, &context.devices()[0], host_rounds(), times).await
    }) {
        result.unwrap();
    }
    // Longer than anybody's patience in all.
    let times = [Duration::from_millis(30), Duration::from_millis(300)];
    let context = threaded();
    context.block_on(refilled(&context, &context.devices()[0], 20, times)).unwrap().unwrap();
}

#[test]
fn packets_that_a_stream_empties_are_waited_for_again() {
    for result in
        everywhere(1, |context| async move { emptied(&context, &context.devices()[0], 3).await })
    {
        result.unwrap();
    }
}

/// The packets that it waits for are those of this epoch.
#[test]
fn no_epoch_ends_before_its_copies_have_begun() {
    for result in everywhere(1, |context| async move {
        let stream = context.devices()[0].stream()?;
        let group = FullEmpty::new(&context, Duration::from_secs(20))?;
        let source = group.segment::<u32>(context.host(), PacketShape::new(10, 5))?;
        let mut destination = group.segment::<u32>(context.host(), PacketShape::new(10, 5))?;
        destination.fill(0, |items| items.fill(1))?;
        let guard = Guard::new(Trigger::Empty, Action::MarkFull);
        let copied = source.copy(&stream, 0, Guard::default(), (&destination, 0, guard))?;
        let early = destination.next_epoch();
        assert!(matches!(early, Err(Error::InFlight { .. })), "{early:?}");
        set(&stream, &destination, 0, false).await?;
        copied.completed().await?;
        destination.mark_empty(&stream, 0)?;
        let early = destination.next_epoch();
        assert!(matches!(early, Err(Error::InFlight { .. })), "{early:?}");
        stream.completed()?.await?;
        destination.next_epoch()?;
        assert!(!destination.is_full(0)?);
        Ok::<_, Error>(())
    }) {
        result.unwrap();
    }
}

/// The kernel is not in flight yet, and will be at the packets of this epoch.
#[test]
fn no_epoch_ends_while_a_kernel_is_bound_to_it() {
    for result in everywhere(1, |context| async move {
        let stream = context.devices()[0].stream()?;
        let (_, input, mut output) = pair(&context)?;
        let bound = SCALE.bind(&stream, 2, (&input, &output, 3))?;
        let early = output.next_epoch();
        assert!(matches!(early, Err(Error::InFlight { .. })), "{early:?}");
        drop(bound);
        output.next_epoch()
    }) {
        result.unwrap();
    }
}

/// Of two copies into a packet the one that is over makes it full.
#[test]
fn the_end_of_one_copy_is_not_that_of_another() {
    let context = threaded();
    let (_, _, target) = pair(&context).unwrap();
    let device = &context.devices()[0];
    let (late, soon) = (device.stream().unwrap(), device.stream().unwrap());
    let items = [1, 2].map(|value| late.uploaded(vec![value; 5]).unwrap());
    context.block_on(late.completed().unwrap()).unwrap().unwrap();
    let promise = context.device_set().promise("the first copy");
    late.wait(promise.event()).unwrap();
    target.fill_from(&late, 0, &items[0]).unwrap();
    target.fill_from(&soon, 0, &items[1]).unwrap();
    context.block_on(soon.completed().unwrap()).unwrap().unwrap();
    assert!(target.is_full(0).unwrap());
    let early = target.read(0, |_| ());
    assert!(matches!(early, Err(Error::InFlight { .. })), "{early:?}");
    promise.complete(Ok(()));
    for stream in [&late, &soon] {
        context.block_on(stream.completed().unwrap()).unwrap().unwrap();
    }
    target.read(0, |items| assert_eq!(items[0], 1)).unwrap();
}

type Pair = (FullEmpty, FullEmptySegment<u32>, FullEmptySegment<u32>);

fn pair(context: &Context) -> Result<Pair> {
    patient_pair(context, Duration::from_millis(30))
}

fn patient_pair(context: &Context, patience: Duration) -> Result<Pair> {
    let group = FullEmpty::new(context, patience)?;
    let shape = PacketShape::new(10, 5);
    let source = group.segment(context.host(), shape.clone())?;
    let destination = group.segment(context.host(), shape)?;
    Ok((group, source, destination))
}

fn threaded() -> Context {
    Context::builder().devices(Devices::host(1)).build().unwrap()
}

#[test]
fn triggers_with_actions() {
    for result in everywhere(1, |context| async move {
        triggers_and_actions(&context, &context.devices()[0]).await
    }) {
        result.unwrap();
    }
}

#[test]
fn packets_come_from_other_devices() {
    for result in everywhere(3, |context| async move {
        let [one, other, _] = context.devices() else { panic!("three devices") };
        for (from, to) in [(one, other), (other, one), (one, one)] {
            between(&context, from, to, 5, 3).await?;
        }
        Ok::<_, Error>(())
    }) {
        result.unwrap();
    }
}

#[test]
fn a_packet_that_never_comes_is_an_error() {
    let context = threaded();
    let device = &context.devices()[0];
    let wait = async {
        // The other packet has to come in time, however busy the machine is.
        let (group, input, output) = patient_pair(&context, Duration::from_secs(1))?;
        let stream = device.stream_of(StreamKind::Gang)?;
        let ended = group.launch_early(&stream, &SCALE, 2, (&input, &output, 1)).await?;
        input.fill(1, |items| items.fill(1))?;
        output.wait_full(1..2).await?;
        let late = output.wait_full(0..2).await;
        assert!(matches!(late, Err(Error::PacketTimeout { packet: 0, .. })), "{late:?}");
        assert!(ended.completed().await.is_err());
        assert!(matches!(group.check(), Err(Error::PacketTimeout { .. })));
        // What is full stays readable, and the device works.
        output.read(1, |items| assert_eq!(items, [1; 5]))?;
        rounds(&context, device, 2, 1).await
    };
    context.block_on(wait).unwrap().unwrap();
}

/// Nobody waits any more when the time is over.
#[test]
fn a_wait_that_was_given_up_ends_nothing() {
    for result in everywhere(1, |context| async move {
        let (group, source, _) = pair(&context)?;
        assert!(source.wait_full(0..2).now_or_never().is_none());
        source.fill(0, |items| items.fill(1))?;
        assert!(source.wait_empty(0..1).now_or_never().is_none());
        std::thread::sleep(Duration::from_millis(100));
        group.check()?;
        source.fill(1, |items| items.fill(1))?;
        source.wait_full(0..2).await
    }) {
        result.unwrap();
    }
}

/// Who fails: the copy that fills a packet, or the kernel that would fill others. Everybody
/// hears why, and long before the group's patience ends.
#[test]
fn a_failure_ends_all_waiting_with_its_cause() {
    for operation in ["upload", "copy", "scale_packets"] {
        let fault = InjectedFault::new(operation).on("host:0");
        let injection = Injection { faults: vec![fault], ..Injection::default() };
        let builder = Context::builder().devices(Devices::host(1)).injection(injection);
        let context = builder.build().unwrap();
        let device = &context.devices()[0];
        let start = Instant::now();
        let wait = async {
            let group = FullEmpty::new(&context, Duration::from_secs(60))?;
            let shape = PacketShape::new(10, 5);
            let input = group.segment::<u32>(device, shape.clone())?;
            let output = group.segment::<u32>(context.host(), shape)?;
            let (compute, copy) = (device.stream_of(StreamKind::Gang)?, device.stream()?);
            let ended = group.launch_early(&compute, &SCALE, 2, (&input, &output, 1)).await?;
            let event = output.full_event(0..1)?;
            let data = copy.uploaded(vec![7; 5])?;
            // It may be known already that the stream has failed.
            let _ = input.fill_from(&copy, 0, data.part(0..5)?);
            let is_cause = |error: &Error| error.to_string().contains("injected");
            let heard = output.wait_full(0..1).await.unwrap_err();
            assert!(is_cause(&heard), "{operation}: {heard}");
            let heard = output.blocking_wait_full(1..2).unwrap_err();
            assert!(is_cause(&heard), "{operation}: {heard}");
            assert!(is_cause(&group.check().unwrap_err()));
            assert!(event.completed().await.is_err());
            assert!(ended.completed().await.is_err());
            Ok::<_, Error>(())
        };
        context.block_on(wait).unwrap().unwrap();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}

#[test]
fn all_who_wait_are_released() {
    let context = threaded();
    let device = &context.devices()[0];
    let wait = async {
        let group = FullEmpty::new(&context, Duration::from_secs(60))?;
        let shape = PacketShape::new(10, 5);
        let input = group.segment::<u32>(device, shape.clone())?;
        let output = group.segment::<u32>(context.host(), shape)?;
        let stream = device.stream_of(StreamKind::Gang)?;
        let ended = group.launch_early(&stream, &SCALE, 2, (&input, &output, 1)).await?;
        let event = output.full_event(0..1)?;
        group.release_all()?;
        assert!(event.completed().await.is_err());
        assert!(ended.completed().await.is_err());
        let released = output.wait_full(0..1).await;
        assert!(matches!(released, Err(Error::Released)), "{released:?}");
        Ok::<_, Error>(())
    };
    context.block_on(wait).unwrap().unwrap();
}

/// Simulated time does not pass: a packet that never comes is a deadlock, reported
/// with the kernel that waits.
#[test]
fn a_simulation_reports_the_deadlock() {
    let context = Context::builder().devices(Devices::host(1)).simulated(3).build().unwrap();
    let wait = async {
        let (group, input, output) = pair(&context)?;
        let stream = context.devices()[0].stream_of(StreamKind::Gang)?;
        group.launch_early(&stream, &SCALE, 2, (&input, &output, 1)).await?.completed().await?;
        Ok::<_, Error>(())
    };
    let said = context.block_on(wait).unwrap_err().to_string();
    assert!(said.contains("waits in scale_packets"), "{said}");
}

/// And one that only a task waits for, with the packet.
#[test]
fn a_simulation_names_the_packet_that_a_task_waits_for() {
    let context = Context::builder().devices(Devices::host(1)).simulated(3).build().unwrap();
    let wait = async {
        let (_group, input, _output) = pair(&context)?;
        // Nobody waits for these.
        let (_event, _promise) = (input.full_event(0..1)?, context.device_set().promise("lunch"));
        input.wait_full(1..2).await
    };
    let said = context.block_on(wait).unwrap_err().to_string();
    assert!(said.contains("; a task waits for packets 1..2 of segment 0 of host"), "{said}");
    assert!(!said.contains("0..1") && !said.contains("lunch"), "{said}");
}

/// On simulated devices, where copies wait until somebody waits for them.
#[test]
fn host_code_keeps_away_from_packets_that_copies_are_at() {
    let context = Context::builder().devices(Devices::host(1)).simulated(3).build().unwrap();
    let (_, source, target) = pair(&context).unwrap();
    let stream = context.devices()[0].stream().unwrap();
    let fill = |segment: &FullEmptySegment<u32>, value| segment.fill(0, |items| items.fill(value));
    fill(&source, 1).unwrap();
    fill(&target, 2).unwrap();
    let here = Guard::default();
    let copied = source.copy(&stream, 0, here, (&target, 0, here)).unwrap();
    // It reads the one and writes the other.
    source.read(0, |items| assert_eq!(items[0], 1)).unwrap();
    for refused in [fill(&source, 3), fill(&target, 3), target.read(0, |_| ())] {
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("packet 0 is in use"), "{said}");
    }
    context.block_on(copied.completed()).unwrap().unwrap();
    target.read(0, |items| assert_eq!(items[0], 1)).unwrap();
    // Nor does a copy begin while host code is at a packet.
    let begun = target.read(0, |_| source.copy(&stream, 0, here, (&target, 0, here)).map(drop));
    let at = |begun: Result<()>| match begun {
        Err(Error::InFlight { buffer, .. }) => buffer,
        other => panic!("{other:?}"),
    };
    assert_eq!(at(begun.unwrap()), "segment 1 of host");
    let begun = source.fill(0, |_| source.copy(&stream, 0, here, (&target, 0, here)).map(drop));
    assert_eq!(at(begun.unwrap()), "segment 0 of host");
    fill(&target, 3).unwrap();
}

/// A thread that helps with the blocks of a twin at one packet is given the copy of another, which waits
/// for its turn without it.
#[test]
fn twins_share_the_work_on_a_packet_while_others_are_copied() {
    let context = threaded();
    // Who is lent what, and when, is different each time.
    (0..30).for_each(|_| share_the_work(&context));
}

fn share_the_work(context: &Context) {
    let device = &context.devices()[0];
    let group = FullEmpty::new(context, Duration::from_secs(20)).unwrap();
    let input = group.segment::<u32>(device, PacketShape::new(400, 100)).unwrap();
    let sum = context.host().shared::<u32>(1).unwrap();
    let add = Kernel::<(FullEmptyPackets<u32>, Shared<u32>)>::of_step_closure(
        "add",
        |packet, (input, sum)| {
            let done = input.read(packet, |items| {
                Grid::of_blocks(items.len(), 5).for_each_block(|block| {
                    std::thread::sleep(Duration::from_micros(200));
                    let part = items[block.range].iter().sum();
                    sum[0].fetch_add(part, Ordering::Relaxed);
                    Ok(())
                })
            })?;
            match done {
                Some(added) => added.map(|()| Step::Done),
                None => Ok(Step::Waits),
            }
        },
    );
    let (compute, copies) =
        (device.stream_of(StreamKind::Gang).unwrap(), [device.stream(), device.stream()]);
    let ones = copies[0].as_ref().unwrap().uploaded(vec![1_u32; 100]).unwrap();
    let run = async {
        let ended = group.launch_early(&compute, &add, 4, (&input, &sum)).await?;
        for packet in 0..4 {
            let stream = copies[packet % 2].as_ref().unwrap();
            if packet == 0 {
                copies[1].as_ref().unwrap().wait(&stream.record()?)?;
            }
            input.fill_from(stream, packet, &ones)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        ended.completed().await
    };
    context.block_on(run).unwrap().unwrap();
    assert_eq!(sum.load(0).unwrap(), 400);
}

/// Whoever would wait for the packet hears why it does not come, and nothing is copied that is not told.
#[test]
fn words_out_of_reach_are_refused_before_the_copy() {
    let context = Context::builder().devices(Devices::host(8));
    let context = context.topology(QUADRUPLETS.topology()).build().unwrap();
    let (near, far) = (&context.devices()[0], &context.devices()[4]);
    let group = FullEmpty::new(&context, Duration::from_secs(20)).unwrap();
    let shape = PacketShape::new(10, 5);
    let source = group.segment::<u32>(context.host(), shape.clone()).unwrap();
    let target = group.segment::<u32>(far, shape).unwrap();
    let stream = near.stream().unwrap();
    let mut buffer = near.buffer::<u32>(5).unwrap();
    stream.fill(&mut buffer, 7).unwrap();
    let is_far =
        |error: &Error| matches!(error, Error::Device(millstream_device::Error::OutOfReach { .. }));
    let refused = target.fill_from(&stream, 0, &buffer).unwrap_err();
    assert!(is_far(&refused), "{refused}");
    let fill = Guard::new(Trigger::Empty, Action::MarkFull);
    let full = Guard::new(Trigger::Full, Action::None);
    let copied = source.copy(&stream, 0, full, (&target, 0, fill)).unwrap();
    source.fill(0, |items| items.fill(9)).unwrap();
    assert!(context.block_on(copied.completed()).unwrap().is_err());
    let waited = context.block_on(target.wait_full(0..1)).unwrap().unwrap_err();
    assert!(is_far(&waited), "{waited}");
}

#[test]
fn unseen_packets_cannot_be_looked_at() {
    let context = threaded();
    let group = FullEmpty::new(&context, Duration::from_secs(1)).unwrap();
    let shape = PacketShape::new(10, 5).unseen_by_host();
    let unseen = group.segment::<u32>(&context.devices()[0], shape).unwrap();
    assert!(matches!(unseen.is_full(0), Err(Error::UnseenPackets { .. })));
    assert!(matches!(unseen.blocking_wait_full(0..1), Err(Error::UnseenPackets { .. })));
}

#[test]
fn what_is_not_there_cannot_be_read() {
    let context = threaded();
    let (_, source, other) = pair(&context).unwrap();
    assert!(matches!(source.read(0, |_| ()), Err(Error::PacketEmpty { packet: 0, .. })));
    assert!(matches!(source.fill(2, |_| ()), Err(Error::NoSuchPacket { packets: 2, .. })));
    let here = Guard::default();
    let stream = context.host().stream().unwrap();
    assert!(source.copy(&stream, 0, here, (&other, 5, here)).is_err());
    let last = usize::MAX;
    for refused in [
        source.is_full(last).map(drop),
        source.fill(last, |_| ()),
        source.read(last, |_| ()),
        source.fill_from(&stream, last, &context.host().buffer(1).unwrap()),
        source.mark_empty(&stream, last),
        source.copy(&stream, last, here, (&other, 0, here)).map(drop),
        source.copy(&stream, 0, here, (&other, last, here)).map(drop),
    ] {
        let found = refused.unwrap_err();
        assert!(matches!(found, Error::NoSuchPacket { packet: usize::MAX, .. }), "{found}");
    }
}
