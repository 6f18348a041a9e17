//! A kernel launched before its data is there: each block waits for its packet, and the host gets
//! the first results while the last data is still on its way.
//! `MILLSTREAM_DEVICES` names the devices, such as `cuda:0` or `host:1`.

use std::time::Duration;

use millstream::flow::{FullEmpty, FullEmptyPackets, PacketShape};
use millstream::prelude::*;

const SOURCE: &str = r#"
#include "full_empty.cuh"
using namespace millstream;
extern "C" __global__ void squares(FullEmptySegment<u32> input, FullEmptySegment<u32> output) {
    for (u32 packet = blockIdx.x; packet < output.packets(); packet += gridDim.x) {
        if (!input.wait_full(packet)) return; // waiting has ended: it came too late
        for (u64 at = input.begin(packet) + threadIdx.x; at < input.end(packet); at += blockDim.x)
            output.items[at] = input.items[at] * input.items[at];
        output.publish(packet);
    }
}
"#;

/// The kernel for GPUs, and what one block does on host devices.
static SQUARES: Kernel<(FullEmptyPackets<u32>, FullEmptyPackets<u32>)> = Kernel::of_steps(
    "squares",
    // SAFETY: like its twin, the kernel uses its arguments only as the signature says.
    unsafe { Trusted::new(CudaSource::new("squares.cu", "squares", SOURCE).block_each()) },
    |packet, (input, output)| {
        let Some(items) = input.items(packet)? else { return Ok(Step::Waits) };
        let square = |to: &mut [u32]| to.iter_mut().zip(&items).for_each(|(to, n)| *to = n * n);
        if output.write(packet, square)?.is_none() {
            return Ok(Step::Waits);
        }
        output.publish(packet)?;
        Ok(Step::Done)
    },
);

const LEN: usize = 10_000;
const PACKET: usize = 2500;

fn main() -> Result<(), millstream::flow::Error> {
    set_driver_defaults();
    let context = Context::builder().devices(Devices::All).build()?;
    let device = &context.devices()[0];
    let shape = PacketShape::new(LEN, PACKET);
    // Nobody waits longer than this for a packet.
    let group = FullEmpty::new(&context, Duration::from_secs(5))?;
    let mut input = group.segment::<u32>(device, shape.clone())?;
    let mut output = group.segment::<u32>(context.host(), shape.clone())?;
    let mut data = context.host().buffer::<u32>(LEN)?;
    let compute = device.stream_of(StreamKind::Gang)?;
    let copy = device.stream_of(StreamKind::Copy)?;
    SQUARES.prepare(device, shape.packets())?;

    context.block_on(async {
        for round in 0..3 {
            let launched =
                group.launch_early(&compute, &SQUARES, shape.packets(), (&input, &output));
            let ended = launched.await?;
            // The data exists only from now on.
            data.host_view_mut()?.iter_mut().zip(round..).for_each(|(item, n)| *item = n);
            for packet in 0..shape.packets() {
                input.fill_from(&copy, packet, data.part(shape.range(packet))?)?;
                output.wait_full(packet..packet + 1).await?;
                let last = output.read(packet, |items| items[items.len() - 1])?;
                let n = round + shape.range(packet).end as u32 - 1;
                assert_eq!(last, n * n);
                println!("round {round}, packet {packet}: {n} squared is {last}");
            }
            // Wait for the end before the memory is used again.
            ended.completed().await?;
            copy.completed()?.await?;
            input.next_epoch()?;
            output.next_epoch()?;
        }
        Ok(())
    })?
}
