//! Kernels that fill, read and empty packets of full/empty segments, with their twins.

use std::sync::atomic::Ordering;

use millstream_device::{CudaSource, Kernel, KernelFault, Shared, Step, Trusted, Value};
use millstream_flow::FullEmptyPackets;

const SOURCE: &str = r#"
#include "full_empty.cuh"
using namespace millstream;

extern "C" __global__ void scale_packets(FullEmptySegment<u32> input,
                                         FullEmptySegment<u32> output, u32 factor) {
    for (u32 packet = blockIdx.x; packet < output.packets(); packet += gridDim.x) {
        if (!input.wait_full(packet)) return;
        for (u64 at = input.begin(packet) + threadIdx.x; at < input.end(packet); at += blockDim.x)
            output.items[at] = input.items[at] * factor;
        output.publish(packet);
    }
}

// Packets come from the host's memory once, and are read by other blocks than those
// that fetch them.
extern "C" __global__ void scale_pulled(FullEmptySegment<u32> from, FullEmptySegment<u32> input,
                                        FullEmptySegment<u32> output, u32 factor) {
    const u32 packets = output.packets();
    for (u32 packet = blockIdx.x; packet < packets; packet += gridDim.x)
        if (!input.pull(from, packet)) return;
    for (u32 packet = blockIdx.x; packet < packets; packet += gridDim.x) {
        if (!input.wait_full(0, packets)) return;
        for (u64 at = output.begin(packet) + threadIdx.x; at < output.end(packet); at += blockDim.x)
            output.items[at] = input.items[input.items.len - 1 - at] * factor;
        output.publish(packet);
    }
}

// Each packet is pulled twice, the second time when its source is empty.
extern "C" __global__ void pull_again(FullEmptySegment<u32> from, FullEmptySegment<u32> input,
                                      FullEmptySegment<u32> output) {
    for (u32 packet = blockIdx.x; packet < output.packets(); packet += gridDim.x) {
        if (!input.pull(from, packet)) return;
        from.mark_empty(packet);
        if (!input.pull(from, packet)) return;
        for (u64 at = output.begin(packet) + threadIdx.x; at < output.end(packet); at += blockDim.x)
            output.items[at] = input.items[at];
        output.publish(packet);
    }
}

// Each block counts one packet of the input; the last writes the one packet of the
// output.
extern "C" __global__ void count_packets(FullEmptySegment<u32> input,
                                         FullEmptySegment<u32> output, Span<u32> counts) {
    for (u32 packet = blockIdx.x; packet < input.packets(); packet += gridDim.x) {
        if (!input.wait_full(packet)) return;
        for (u64 at = input.begin(packet) + threadIdx.x; at < input.end(packet); at += blockDim.x)
            fetch_add_relaxed_gpu(&counts[input.items[at] % counts.len], 1u);
        if (!output.arrive(0)) continue;
        for (u64 at = threadIdx.x; at < counts.len; at += blockDim.x)
            output.items[at] = fetch_exchange_relaxed_gpu(&counts[at], 0u);
        __syncthreads();
        if (threadIdx.x == 0) output.mark_full(0);
    }
}

// Each block writes an item of the first packet.
extern "C" __global__ void write_together(FullEmptySegment<u32> output, u32 value) {
    if (threadIdx.x == 0) output.items[blockIdx.x] = value;
    output.publish(0);
}

// Takes the first packet again and again, and says what was in it.
extern "C" __global__ void take_again(FullEmptySegment<u32> input, Span<u32> sums, u32 turns) {
    for (u32 turn = 0; turn < turns; ++turn) {
        if (!input.wait_full(0)) return;
        for (u64 at = threadIdx.x; at < input.end(0); at += blockDim.x)
            fetch_add_relaxed_gpu(&sums[turn], input.items[at]);
        input.mark_empty(0);
    }
}
"#;

/// The kernels' source, for tests that compile it.
#[allow(dead_code)]
pub fn packets_source() -> CudaSource {
    CudaSource::new("packets.cu", "scale_packets", SOURCE)
}

/// An argument of the kernels.
pub type Packets = FullEmptyPackets<u32>;

/// Multiplies each packet as it comes.
pub static SCALE: Kernel<(Packets, Packets, Value<u32>)> = Kernel::of_steps(
    "scale_packets",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("packets.cu", "scale_packets", SOURCE).block_each()) },
    |packet, (input, output, factor)| {
        let Some(items) = input.items(packet)? else { return Ok(Step::Waits) };
        let scaled = items.iter().map(|item| item.wrapping_mul(*factor));
        let write = |to: &mut [u32]| to.iter_mut().zip(scaled).for_each(|(to, item)| *to = item);
        if output.write(packet, write)?.is_none() {
            return Ok(Step::Waits);
        }
        output.publish(packet)?;
        Ok(Step::Done)
    },
);

/// Multiplies all items, in reverse order, each packet fetched by one block.
pub static SCALE_PULLED: Kernel<(Packets, Packets, Packets, Value<u32>)> = Kernel::of_steps(
    "scale_pulled",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("packets.cu", "scale_pulled", SOURCE).block_each()) },
    |packet, (from, input, output, factor)| {
        if !input.pull(from, packet)? {
            return Ok(Step::Waits);
        }
        let mut items = Vec::new();
        for packet in 0..input.packets() {
            let Some(more) = input.items(packet)? else { return Ok(Step::Waits) };
            items.extend(more);
        }
        let range =
            items.len() - output.range(packet).end..items.len() - output.range(packet).start;
        let scaled = items[range].iter().rev().map(|item| item.wrapping_mul(*factor));
        let write = |to: &mut [u32]| to.iter_mut().zip(scaled).for_each(|(to, item)| *to = item);
        if output.write(packet, write)?.is_none() {
            return Ok(Step::Waits);
        }
        output.publish(packet)?;
        Ok(Step::Done)
    },
);

/// Pulls each packet twice, the second time when its source is empty.
pub static PULL_AGAIN: Kernel<(Packets, Packets, Packets)> = Kernel::of_steps(
    "pull_again",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("packets.cu", "pull_again", SOURCE).block_each()) },
    |packet, (from, input, output)| {
        if !input.pull(from, packet)? {
            return Ok(Step::Waits);
        }
        from.mark_empty(packet)?;
        if !input.pull(from, packet)? {
            return Err(KernelFault::new(format!("packet {packet} is full, and not found so")));
        }
        let Some(items) = input.items(packet)? else { return Ok(Step::Waits) };
        if output.write(packet, |to| to.copy_from_slice(&items))?.is_none() {
            return Ok(Step::Waits);
        }
        output.publish(packet)?;
        Ok(Step::Done)
    },
);

/// Takes the first packet again and again. The last word counts turns, for twins.
pub static TAKE_AGAIN: Kernel<(Packets, Shared<u32>, Value<u32>)> = Kernel::of_steps(
    "take_again",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("packets.cu", "take_again", SOURCE).block_each()) },
    |_, (input, sums, turns)| {
        let [sums @ .., done] = &sums[..] else { return Ok(Step::Done) };
        loop {
            let turn = done.load(Ordering::Relaxed);
            if turn == *turns {
                return Ok(Step::Done);
            }
            let Some(items) = input.items(0)? else { return Ok(Step::Waits) };
            sums[turn as usize].store(items.iter().sum(), Ordering::Relaxed);
            done.store(turn + 1, Ordering::Relaxed);
            input.mark_empty(0)?;
        }
    },
);

/// Counts what all packets hold.
pub static COUNT: Kernel<(Packets, Packets, Shared<u32>)> = Kernel::of_steps(
    "count_packets",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("packets.cu", "count_packets", SOURCE).block_each()) },
    |packet, (input, output, counts)| {
        let Some(items) = input.items(packet)? else { return Ok(Step::Waits) };
        for item in items {
            counts[item as usize % counts.len()].fetch_add(1, Ordering::Relaxed);
        }
        if output.arrive(0)? {
            let total = |to: &mut [u32]| {
                let totals = to.iter_mut().zip(*counts);
                totals.for_each(|(to, count)| *to = count.swap(0, Ordering::Relaxed));
            };
            // Nobody else is at it: all others have arrived, and nobody reads it yet.
            output
                .write(0, total)?
                .ok_or_else(|| KernelFault::new("somebody uses a packet that is empty"))?;
            output.mark_full(0)?;
        }
        Ok(Step::Done)
    },
);

/// Writes an item of the first packet in each block.
pub static WRITE_TOGETHER: Kernel<(Packets, Value<u32>)> = Kernel::of_steps(
    "write_together",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("packets.cu", "write_together", SOURCE).block_each()) },
    |block, (output, value)| {
        if output.write(0, |items| items[block] = *value)?.is_none() {
            return Ok(Step::Waits);
        }
        output.publish(0)?;
        Ok(Step::Done)
    },
);
