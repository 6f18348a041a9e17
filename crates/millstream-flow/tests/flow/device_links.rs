//! Links between kernels, on host devices: threaded and simulated.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millstream_device::{
    InjectedFault, Injection, Kernel, KernelFault, Shared, Step, Topology, TransferWay, Value,
};
use millstream_flow::{
    Context, DeviceLink, DeviceLinkEnd, DeviceLinkView, Devices, Error, Gang, LinkRoom, Result,
};

use crate::common::{assert_nothing_leaked, everywhere};

const PACKETS: u32 = 200;

/// The items of a packet, of which there are as many as its number says, up to four.
fn items(packet: u32) -> Vec<u32> {
    (0..packet % 5).map(|at| packet * 10 + at).collect()
}

fn sending() -> Kernel<(DeviceLinkEnd<u32>,)> {
    Kernel::<(DeviceLinkEnd<u32>,)>::of_step_closure("send", |_, (link,)| {
        while link.sent() < PACKETS {
            if !link.try_send(&items(link.sent()))? {
                return Ok(Step::Waits);
            }
        }
        Ok(Step::Done)
    })
}

/// Counts the packets that are as they should be.
fn receiving() -> Kernel<(DeviceLinkEnd<u32>, Shared<u32>)> {
    Kernel::<(DeviceLinkEnd<u32>, Shared<u32>)>::of_step_closure("receive", |_, (link, right)| {
        while link.received() < PACKETS {
            let expected = items(link.received());
            let Some(found) = link.try_receive()? else { return Ok(Step::Waits) };
            right[0].fetch_add(u32::from(found == expected), Ordering::Relaxed);
        }
        Ok(Step::Done)
    })
}

async fn packets(context: &Context, room: usize, patience: Duration, both: bool) -> Result<u32> {
    let [one, other] = context.devices() else { panic!("two devices") };
    let link = DeviceLink::new(context, one, other, (room, 4), patience)?;
    let right = context.host().shared(1)?;
    let gang = Gang::new(context)?;
    gang.run(|member| match member.place {
        0 => Ok(sending().launch(member.stream, 1, (&link,))?),
        _ if both => Ok(receiving().launch(member.stream, 1, (&link, &right))?),
        _ => Ok(()),
    })
    .await?;
    Ok(right.load(0)?)
}

#[test]
fn packets_arrive_in_order_through_few_slots() {
    for room in [1, 2, 3] {
        let run = move |context: Context| async move {
            packets(&context, room, Duration::from_secs(20), true).await
        };
        for right in everywhere(2, run) {
            assert_eq!(right.unwrap(), PACKETS);
        }
    }
}

#[test]
fn a_sender_without_a_receiver_ends() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let run = packets(&context, 2, Duration::from_millis(20), false);
    let error = context.block_on(run).unwrap().unwrap_err();
    assert!(error.to_string().contains("did not come in time"), "{error}");
}

const CHANNELS: usize = 3;

/// Each block fills packets of its channel where they are.
fn filling() -> Kernel<(DeviceLinkEnd<u32>,)> {
    Kernel::<(DeviceLinkEnd<u32>,)>::of_step_closure("fill", |block, (link,)| {
        let link = link.channel(block)?;
        while link.sent() < PACKETS {
            let packet = items(link.sent());
            let claimed = link.try_claim(|slot| {
                assert_eq!(slot.len(), 5);
                slot.fill(u32::MAX);
                slot[..packet.len()].copy_from_slice(&packet);
                packet.len()
            })?;
            if !claimed {
                return Ok(Step::Waits);
            }
        }
        Ok(Step::Done)
    })
}

/// Counts those that are as they should be where they are.
fn taking() -> Kernel<(DeviceLinkEnd<u32>, Shared<u32>)> {
    Kernel::<(DeviceLinkEnd<u32>, Shared<u32>)>::of_step_closure("take", |block, (link, right)| {
        let link = link.channel(block)?;
        while link.received() < PACKETS {
            let expected = items(link.received());
            let Some(is_right) = link.try_take(|packet| packet == expected)? else {
                return Ok(Step::Waits);
            };
            right[block].fetch_add(u32::from(is_right), Ordering::Relaxed);
        }
        Ok(Step::Done)
    })
}

/// Slots of five items do not begin where they would without gaps.
#[test]
fn blocks_fill_and_read_slots_of_their_channels() {
    for room in [1, 2] {
        let run = move |context: Context| async move {
            let [one, other] = context.devices() else { panic!("two devices") };
            let room = LinkRoom::new(room, 5).channels(CHANNELS);
            let link = DeviceLink::new(&context, one, other, room, Duration::from_secs(20))?;
            let right = context.host().shared(CHANNELS)?;
            let gang = Gang::new(&context)?;
            gang.run(|member| match member.place {
                0 => Ok(filling().launch(member.stream, CHANNELS, (&link,))?),
                _ => Ok(taking().launch(member.stream, CHANNELS, (&link, &right))?),
            })
            .await?;
            (0..CHANNELS).map(|channel| Ok(right.load(channel)?)).collect::<Result<Vec<_>>>()
        };
        for right in everywhere(2, run) {
            assert_eq!(right.unwrap(), [PACKETS; CHANNELS]);
        }
    }
}

/// What comes before a twin on its stream is no wait, nor is what it does itself.
#[test]
fn patience_begins_with_each_wait() {
    let patience = Duration::from_millis(150);
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let [one, other] = context.devices() else { panic!("two devices") };
    let link = DeviceLink::<u32>::new(&context, one, other, (2, 4), patience).unwrap();
    let right = context.host().shared(1).unwrap();
    let slow = Kernel::<(Value<u32>,)>::from_closure("slow", move |_, _| {
        std::thread::sleep(2 * patience);
        Ok(())
    });
    let gang = Gang::new(&context).unwrap();
    let run = gang.run(|member| {
        slow.launch(member.stream, 1, (0,))?;
        match member.place {
            0 => {
                // The receiver comes first, and misses a packet.
                Kernel::<(Value<u32>,)>::from_closure("later", move |_, _| {
                    std::thread::sleep(patience / 4);
                    Ok(())
                })
                .launch(member.stream, 1, (0,))?;
                Ok(sending().launch(member.stream, 1, (&link,))?)
            }
            _ => Ok(receiving().launch(member.stream, 1, (&link, &right))?),
        }
    });
    context.block_on(run).unwrap().unwrap();
    assert_eq!(right.load(0).unwrap(), PACKETS);
}

/// An end of a link that takes the gang's words, and how many packets it lives for.
type MortalEnd = (DeviceLinkEnd<u32>, Shared<u32>, Value<u32>);

fn lives(packets: u32, most: u32) -> std::result::Result<(), KernelFault> {
    if packets == most { Err(KernelFault::new("out of luck")) } else { Ok(()) }
}

fn mortal_sender() -> Kernel<MortalEnd> {
    Kernel::<MortalEnd>::of_step_closure("send", |_, (link, words, most)| {
        let link = link.of_gang(words);
        loop {
            lives(link.sent(), *most)?;
            if !link.try_send(&items(link.sent()))? {
                return Ok(Step::Waits);
            }
        }
    })
}

fn mortal_receiver() -> Kernel<MortalEnd> {
    Kernel::<MortalEnd>::of_step_closure("receive", |_, (link, words, most)| {
        let link = link.of_gang(words);
        loop {
            lives(link.received(), *most)?;
            if link.try_receive()?.is_none() {
                return Ok(Step::Waits);
            }
        }
    })
}

/// Runs a sender and a receiver that live for so many packets; what the gang ends with.
fn ends_with(context: &Context, [sends, receives]: [u32; 2]) -> String {
    let [one, other] = context.devices() else { panic!("two devices") };
    let link = DeviceLink::new(context, one, other, (2, 4), FOR_EVER).unwrap();
    let gang = Gang::new(context).unwrap();
    let words = gang.words().clone();
    let run = gang.run(|member| match member.place {
        0 => Ok(mortal_sender().launch(member.stream, 1, (&link, &words, sends))?),
        _ => Ok(mortal_receiver().launch(member.stream, 1, (&link, &words, receives))?),
    });
    let error = context.block_on(run).unwrap().unwrap_err().to_string();
    drop((link, words));
    assert_nothing_leaked(context);
    error
}

/// On threads and simulated.
fn two(injection: &Injection) -> Vec<Context> {
    let builder = || Context::builder().devices(Devices::host(2)).injection(injection.clone());
    let simulated = (0..6).map(|seed| builder().simulated(seed));
    simulated.chain([builder()]).map(|builder| builder.build().unwrap()).collect()
}

/// As where the ends have no words of a gang, but that nobody's device fails for it.
#[test]
fn an_end_that_has_waited_for_too_long_fails_its_gang() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let [one, other] = context.devices() else { panic!("two devices") };
    let patience = Duration::from_millis(20);
    for place in 0..2 {
        let link = DeviceLink::new(&context, one, other, (2, 4), patience).unwrap();
        let gang = Gang::new(&context).unwrap();
        let words = gang.words().clone();
        let run = gang.run(|member| match member.place {
            0 if place == 0 => {
                Ok(mortal_sender().launch(member.stream, 1, (&link, &words, u32::MAX))?)
            }
            1 if place == 1 => {
                Ok(mortal_receiver().launch(member.stream, 1, (&link, &words, u32::MAX))?)
            }
            _ => Ok(()),
        });
        let error = context.block_on(run).unwrap().unwrap_err();
        assert!(matches!(error, Error::PeerIsLate), "{error}");
        let error = link.check().unwrap_err();
        assert!(matches!(error, Error::LinkTimeout { .. }), "{error}");
    }
    // The devices go on.
    let run = packets(&context, 2, FOR_EVER, true);
    assert_eq!(context.block_on(run).unwrap().unwrap(), PACKETS);
}

/// Nor does anybody wait for the whole patience once the gang is stopped.
#[test]
fn a_stopped_gang_waits_for_no_link() {
    let start = Instant::now();
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let [one, other] = context.devices() else { panic!("two devices") };
    let link = DeviceLink::new(&context, one, other, (2, 4), FOR_EVER).unwrap();
    let gang = Gang::new(&context).unwrap();
    let words = gang.words().clone();
    let mut run = Box::pin(gang.run(|member| match member.place {
        0 => Ok(mortal_sender().launch(member.stream, 1, (&link, &words, u32::MAX))?),
        _ => Ok(()),
    }));
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(run.as_mut().poll(&mut task).is_pending());
    drop(run);
    // The next gang waits until that one has ended.
    let run = packets(&context, 2, FOR_EVER, true);
    assert_eq!(context.block_on(run).unwrap().unwrap(), PACKETS);
    assert!(start.elapsed() < FOR_EVER / 2, "{:?}", start.elapsed());
}

/// Longer than all of these cases may take.
const FOR_EVER: Duration = Duration::from_secs(60);

#[test]
fn one_end_fails_while_the_other_waits() {
    let start = Instant::now();
    let never = u32::MAX;
    for (lives, place) in [([50, never], 0), ([never, 50], 1), ([0, never], 0), ([never, 0], 1)] {
        for context in two(&Injection::default()) {
            let error = ends_with(&context, lives);
            let is_cause =
                error.contains("out of luck") && error.contains(&format!("host:{place}"));
            assert!(is_cause, "{lives:?}: {error}");
        }
    }
    assert!(start.elapsed() < FOR_EVER / 2, "{:?}", start.elapsed());
}

#[test]
fn one_end_does_not_begin_while_the_other_waits() {
    let start = Instant::now();
    for (operation, device) in [("send", "host:0"), ("receive", "host:1")] {
        let faults = vec![InjectedFault::new(operation).on(device)];
        for context in two(&Injection { faults, ..Injection::default() }) {
            let error = ends_with(&context, [u32::MAX; 2]);
            assert_eq!(error, format!("injected failure of {operation} on {device}"));
        }
    }
    assert!(start.elapsed() < FOR_EVER / 2, "{:?}", start.elapsed());
}

/// Kernels without the gang's words wait until their patience ends. Even then the cause is what
/// has failed, and not who waited for it.
#[test]
fn the_first_cause_is_not_the_end_of_patience() {
    for (operation, device) in [("send", "host:0"), ("receive", "host:1")] {
        let faults = vec![InjectedFault::new(operation).on(device)];
        let builder = Context::builder().devices(Devices::host(2));
        let context =
            builder.injection(Injection { faults, ..Injection::default() }).build().unwrap();
        let run = packets(&context, 2, Duration::from_millis(20), true);
        let error = context.block_on(run).unwrap().unwrap_err();
        assert_eq!(error.to_string(), format!("injected failure of {operation} on {device}"));
    }
}

#[test]
fn what_a_link_has_not_is_refused() {
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let device = &context.devices()[0];
    let ends_with = |twin: fn(&DeviceLinkView<'_, u32>) -> std::result::Result<(), KernelFault>| {
        let link = DeviceLink::new(&context, device, device, (1, 4), FOR_EVER).unwrap();
        let kernel = Kernel::<(DeviceLinkEnd<u32>,)>::of_step_closure("send", move |_, (link,)| {
            twin(link).map(|()| Step::Done)
        });
        let stream = device.stream().unwrap();
        kernel.launch(&stream, 1, (&link,)).unwrap();
        stream.record().and_then(|event| event.synchronize()).unwrap_err().to_string()
    };
    let too_many = "5 items in a packet of at most 4";
    let sent = ends_with(|link| link.try_send(&[0; 5]).map(drop));
    assert!(sent.contains(too_many), "{sent}");
    let filled = ends_with(|link| link.try_claim(|slot| slot.len() + 1).map(drop));
    assert!(filled.contains(too_many), "{filled}");
    let channel = ends_with(|link| link.channel(1).map(drop));
    assert!(channel.contains("channel 1 of a link of 1"), "{channel}");
}

#[test]
fn links_larger_than_memory_are_refused() {
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let device = &context.devices()[0];
    for room in [(usize::MAX, 1), ((1 << 63) + 1, 1), (1 << 62, 4), (4, usize::MAX)] {
        let link = DeviceLink::<u32>::new(&context, device, device, room, Duration::from_secs(1));
        let refused =
            matches!(link, Err(Error::Device(millstream_device::Error::OutOfMemory { .. })));
        assert!(refused, "{room:?}: {link:?}");
    }
}

/// Those that do not reach each other's memory meet in the host's.
#[test]
fn packets_go_through_the_host_between_devices_apart() {
    let shape = |one, other| -> Topology {
        format!(r#"{{ "links": [["memory", "{one}"], ["{other}", "memory"]] }}"#).parse().unwrap()
    };
    let builder = || Context::builder().devices(Devices::host(2));
    let cases = [
        (builder().topology(shape("host", "host")), TransferWay::Host),
        (builder().topology(shape("pcie", "host")), TransferWay::Host),
        (builder().topology(shape("pcie", "pcie")), TransferWay::Push),
        (builder().transfer(TransferWay::Host), TransferWay::Host),
        (builder().transfer(TransferWay::Copy), TransferWay::Push),
    ];
    for (builder, way) in cases {
        let context = builder.build().unwrap();
        let [one, other] = context.devices() else { panic!("two devices") };
        let link = DeviceLink::new(&context, one, other, (2, 4), FOR_EVER).unwrap();
        let right = context.host().shared(1).unwrap();
        let used = context.host().memory().in_use;
        assert_eq!((link.way(), used > 100), (way, way == TransferWay::Host));
        let gang = Gang::new(&context).unwrap();
        let run = gang.run(|member| match member.place {
            0 => Ok(sending().launch(member.stream, 1, (&link,))?),
            _ => Ok(receiving().launch(member.stream, 1, (&link, &right))?),
        });
        context.block_on(run).unwrap().unwrap();
        assert_eq!(right.load(0).unwrap(), PACKETS);
        let sent = context.block_on(link.statistics()).unwrap().unwrap();
        assert_eq!(sent.packets_by(way), u64::from(PACKETS));
        assert_eq!(sent.packets_through_host > 0, way == TransferWay::Host);
    }
}

#[test]
fn what_is_sent_is_counted() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    let [one, other] = context.devices() else { panic!("two devices") };
    let room = LinkRoom::new(2, 5).channels(CHANNELS);
    let link = DeviceLink::new(&context, one, other, room, FOR_EVER).unwrap();
    let right = context.host().shared(CHANNELS).unwrap();
    let statistics = || context.block_on(link.statistics()).unwrap().unwrap();
    assert_eq!((statistics().packets, statistics().bytes), (0, 0));
    let gang = Gang::new(&context).unwrap();
    let run = gang.run(|member| match member.place {
        0 => Ok(filling().launch(member.stream, CHANNELS, (&link,))?),
        _ => Ok(taking().launch(member.stream, CHANNELS, (&link, &right))?),
    });
    context.block_on(run).unwrap().unwrap();
    let sent = statistics();
    let items: usize = (0..PACKETS).map(|packet| items(packet).len()).sum();
    let [packets, bytes] = [PACKETS as usize, 4 * items].map(|one| (CHANNELS * one) as u64);
    assert_eq!((sent.from.as_str(), sent.to.as_str()), ("host:0", "host:1"));
    assert_eq!((sent.packets, sent.packets_pushed, sent.bytes), (packets, packets, bytes));
    assert_eq!(sent.largest_packet_bytes, 16);
}

/// What was launched before ends, and the next gang runs.
#[test]
fn a_launch_that_panics_is_an_error() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    // It ends when it is told to stop.
    let waits = Kernel::<(Shared<u32>,)>::of_step_closure("waits", |_, (words,)| {
        // Relaxed: the word is all there is to see.
        Ok(match words[1].load(Ordering::Relaxed) {
            0 => Step::Waits,
            _ => Step::Done,
        })
    });
    let gang = Gang::new(&context).unwrap();
    let words = gang.words().clone();
    let launched = gang.run(|member| match member.place {
        0 => Ok(waits.launch(member.stream, 1, (&words,))?),
        _ => panic!("the second"),
    });
    let error = context.block_on(launched).unwrap().unwrap_err();
    assert!(error.to_string().contains("panicked: the second"), "{error}");
    let ends = Kernel::<(Shared<u32>,)>::of_step_closure("ends", |_, _| Ok(Step::Done));
    let next = Gang::new(&context).unwrap();
    let words = next.words().clone();
    let run = next.run(|member| Ok(ends.launch(member.stream, 1, (&words,))?));
    context.block_on(run).unwrap().unwrap();
    context.device_set().quiesce().unwrap();
}
