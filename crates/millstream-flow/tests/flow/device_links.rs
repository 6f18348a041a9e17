//! Links between kernels, on host devices: threaded and simulated.

use std::sync::atomic::Ordering;
use std::time::Duration;

use millstream_device::{Kernel, Shared, Step, Topology};
use millstream_flow::{Context, DeviceLink, DeviceLinkEnd, Devices, Error, Gang, Result};

use crate::common::everywhere;

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

#[test]
fn more_items_than_a_packet_has_are_refused() {
    let context = Context::builder().devices(Devices::host(1)).build().unwrap();
    let device = &context.devices()[0];
    let link = DeviceLink::new(&context, device, device, (1, 4), Duration::from_secs(5)).unwrap();
    let kernel = Kernel::<(DeviceLinkEnd<u32>,)>::of_step_closure("send", |_, (link,)| {
        link.try_send(&[0; 5]).map(|_| Step::Done)
    });
    let stream = device.stream().unwrap();
    kernel.launch(&stream, 1, (&link,)).unwrap();
    let error = stream.record().and_then(|event| event.synchronize()).unwrap_err();
    assert!(error.to_string().contains("5 items in a packet of at most 4"), "{error}");
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

#[test]
fn both_ends_must_reach_each_other() {
    let apart: Topology =
        r#"{ "links": [["memory", "host"], ["host", "memory"]] }"#.parse().unwrap();
    let builder = Context::builder().devices(Devices::host(2)).topology(apart);
    let context = builder.build().unwrap();
    let [one, other] = context.devices() else { panic!("two devices") };
    let link = DeviceLink::<u32>::new(&context, one, other, (1, 1), Duration::from_secs(1));
    let refused = matches!(link, Err(Error::Device(millstream_device::Error::OutOfReach { .. })));
    assert!(refused, "{link:?}");
}
