//! Full/empty segments: early launch, filling and proactive return in all orders, many
//! rounds on the same memory; publishing by count; kernels that fill for each other;
//! packets that never come. `MILLSTREAM_RUNS` rounds, 500 unless set; kernels that need no
//! host between rounds are in `gpus::litmus`.

use std::time::{Duration, Instant};

use millstream::device::StreamKind;
use millstream::flow::{Error, FullEmpty, FullEmptySegment, PacketShape, Result};

use super::{Needs, context, scaled, skip};
use crate::full_empty_cases::{chain, counted, deserted, pulled, refilled, rounds, withheld};
use crate::full_empty_copies::{
    between, emptied, queued, triggers_and_actions, waiting_after_a_fill, waiting_for_a_kernel,
    waiting_stream,
};
use crate::full_empty_kernels::SCALE;

fn runs() -> u32 {
    std::env::var("MILLSTREAM_RUNS").map_or(scaled(500, 50), |runs| runs.parse().unwrap())
}

#[test]
fn every_order_of_launch_fill_and_return() {
    let context = context();
    for (device, seed) in context.devices().iter().zip(1..) {
        let share = runs() / context.devices().len() as u32 + 1;
        context.block_on(rounds(&context, device, share, seed)).unwrap().unwrap();
    }
}

#[test]
fn packets_are_worked_on_while_one_is_withheld() {
    let context = context();
    for device in context.devices() {
        context.block_on(withheld(&context, device)).unwrap().unwrap();
    }
}

#[test]
fn many_writers_publish_by_count() {
    let context = context();
    for device in context.devices() {
        let share = runs() / context.devices().len() as u32 + 1;
        context.block_on(counted(&context, device, share)).unwrap().unwrap();
    }
}

#[test]
fn blocks_fetch_packets_for_each_other() {
    let context = context();
    for (device, seed) in context.devices().iter().zip(1..) {
        let share = runs() / context.devices().len() as u32 + 1;
        context.block_on(pulled(&context, device, share, seed)).unwrap().unwrap();
    }
}

#[test]
fn packets_are_filled_again_in_one_epoch() {
    let context = context();
    for device in context.devices() {
        for (turns, times) in [(scaled(2000, 50), [0, 20_000]), (20, [30, 300])] {
            let times = times.map(Duration::from_millis);
            context.block_on(refilled(&context, device, turns, times)).unwrap().unwrap();
        }
    }
}

#[test]
fn writers_that_did_not_come_are_not_waited_for_later() {
    let context = context();
    for device in context.devices() {
        context.block_on(deserted(&context, device, 5)).unwrap().unwrap();
    }
}

#[test]
fn packets_that_a_stream_empties_are_waited_for_again() {
    let context = context();
    for device in context.devices() {
        context.block_on(emptied(&context, device, 5)).unwrap().unwrap();
    }
}

#[test]
fn copies_that_wait_for_one_packet_have_it_one_by_one() {
    let context = context();
    for (device, streams) in context.devices().iter().flat_map(|device| [(device, 1), (device, 3)])
    {
        context.block_on(queued(&context, device, scaled(200, 20), streams)).unwrap().unwrap();
    }
}

#[test]
fn triggers_with_actions() {
    let context = context();
    for device in context.devices() {
        context.block_on(triggers_and_actions(&context, device)).unwrap().unwrap();
    }
}

#[test]
fn a_stream_waits_for_a_packet() {
    let context = context();
    for device in context.devices() {
        context.block_on(waiting_stream(&context, device)).unwrap().unwrap();
    }
}

#[test]
fn what_a_stream_waits_for_after_a_fill_holds_up_nobody() {
    let context = context();
    for device in context.devices() {
        context.block_on(waiting_after_a_fill(&context, device)).unwrap().unwrap();
    }
}

#[test]
fn streams_that_wait_for_a_kernel_hold_up_no_fills() {
    let context = context();
    for device in context.devices() {
        context.block_on(waiting_for_a_kernel(&context, device)).unwrap().unwrap();
    }
}

/// From each device to the next, where it reaches that one's memory.
#[test]
fn packets_come_from_other_devices() {
    let context = context();
    let devices = context.devices();
    let share = runs() / devices.len() as u32 + 1;
    for ((from, to), seed) in devices.iter().zip(devices.iter().cycle().skip(1)).zip(1..) {
        if !from.reaches(to) {
            continue;
        }
        context.block_on(between(&context, from, to, share, seed)).unwrap().unwrap();
    }
}

/// Where kernels reach the memory of the next device.
#[test]
fn packets_go_through_kernels_of_all_devices() {
    let context = context();
    let devices = 0..context.devices().len();
    if !devices.clone().skip(1).all(|next| context.topology().are_peers(next - 1, next)) {
        return skip(Needs::Peers, "kernels write into the memory of the next device");
    }
    context.block_on(chain(&context, runs())).unwrap().unwrap();
}

/// Ends waiting in one way, and then uses the same device again.
async fn ends(end: impl Fn(&FullEmpty) -> Result<()>, patience: Duration) -> Result<()> {
    let context = context();
    for device in context.devices() {
        let group = FullEmpty::new(&context, patience)?;
        let shape = PacketShape::new(10, 5);
        let input: FullEmptySegment<u32> = group.segment(device, shape.clone())?;
        let output = group.segment(context.host(), shape)?;
        let stream = device.stream_of(StreamKind::Gang)?;
        SCALE.prepare(device, 2)?;
        let start = Instant::now();
        let ended = group.launch_early(&stream, &SCALE, 2, (&input, &output, 1)).await?;
        end(&group)?;
        let waited = output.wait_full(0..2).await;
        match group.check() {
            Err(Error::PacketTimeout { packet, patience, .. }) => {
                assert!(start.elapsed() >= patience && packet < 2);
                assert!(matches!(waited, Err(Error::PacketTimeout { .. })), "{waited:?}");
            }
            Err(Error::Released) => assert!(matches!(waited, Err(Error::Released))),
            other => panic!("{other:?}"),
        }
        // On a GPU, too, where the kernel just ends.
        let error = ended.completed().await.unwrap_err();
        let expected = group.check().unwrap_err();
        assert_eq!(error.to_string(), expected.to_string(), "{device}");
        assert!(start.elapsed() < Duration::from_secs(5));
        rounds(&context, device, 2, 1).await?;
    }
    Ok(())
}

#[test]
fn a_packet_that_never_comes_ends_everyone() {
    let context = context();
    context.block_on(ends(|_| Ok(()), Duration::from_millis(50))).unwrap().unwrap();
}

#[test]
fn all_who_wait_are_released() {
    let context = context();
    let release = FullEmpty::release_all;
    context.block_on(ends(release, Duration::from_secs(60))).unwrap().unwrap();
}
