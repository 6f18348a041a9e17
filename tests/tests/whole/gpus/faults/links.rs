//! A kernel at one end of a link fails while that at the other end waits for it: both ends hear
//! the first cause, long before their patience.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use millstream::device::{CudaSource, InjectedFault, Injection, KernelFault, Step, Trusted};
use millstream::flow::{ContextBuilder, DeviceLink, DeviceLinkEnd, Gang};

use super::super::child::in_child;
use super::super::{Needs, list, skip};
use super::ranks::{PATIENCE, SOON};
use super::{Kernel, LIMIT, Shared, Value, builder, works};

const SOURCE: &str = r#"
#include "device_link.cuh"
using namespace millstream;

// Both trap after so many packets, and say when they leave.
extern "C" __global__ void sends(DeviceLink<u32> link, Span<u32> host, Span<u32> report, u32 most) {
    const DeviceSender<u32> out(link, host);
    for (u32 number = 0;; ++number) {
        if (number == most) asm volatile("trap;");
        if (!out.send(&number, 1)) break;
    }
    if (threadIdx.x == 0) store_relaxed_sys(&report[0], 1u);
}

extern "C" __global__ void receives(DeviceLink<u32> link, Span<u32> host, Span<u32> report,
                                    u32 most) {
    DeviceReceiver<u32> in(link, host);
    u32 number, count;
    for (u32 packet = 0;; ++packet) {
        if (packet == most) asm volatile("trap;");
        if (!in.receive(&number, &count)) break;
    }
    if (threadIdx.x == 0) store_relaxed_sys(&report[1], 1u);
}
"#;

type Signature = (DeviceLinkEnd<u32>, Shared<u32>, Shared<u32>, Value<u32>);

fn source(name: &'static str) -> CudaSource {
    CudaSource::new("ends.cu", name, SOURCE).blocks(1).threads(1)
}

/// What a twin does before each packet: it fails, or says that it leaves.
fn leaves(
    packets: u32,
    most: &u32,
    host: &[AtomicU32],
    left: &AtomicU32,
) -> Result<bool, KernelFault> {
    if packets == *most {
        return Err(KernelFault::new("a fault on purpose"));
    }
    let is_stopped = host[1].load(Ordering::Acquire);
    left.store(is_stopped, Ordering::Release);
    Ok(is_stopped != 0)
}

fn sender() -> Kernel<Signature> {
    let twin = Kernel::<Signature>::of_step_closure("sends", |_, (link, host, report, most)| {
        while !leaves(link.sent(), most, host, &report[0])? {
            if !link.try_send(&[link.sent()])? {
                return Ok(Step::Waits);
            }
        }
        Ok(Step::Done)
    });
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    twin.with_cuda(unsafe { Trusted::new(source("sends")) })
}

fn receiver() -> Kernel<Signature> {
    let twin = Kernel::<Signature>::of_step_closure("receives", |_, (link, host, report, most)| {
        while !leaves(link.received(), most, host, &report[1])? {
            if link.try_receive()?.is_none() {
                return Ok(Step::Waits);
            }
        }
        Ok(Step::Done)
    });
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    twin.with_cuda(unsafe { Trusted::new(source("receives")) })
}

/// Runs both ends, on the first and the last device, for so many packets each; the end of the
/// fewer fails, with what `expected` says.
fn one_end_fails(builder: ContextBuilder, most: [u32; 2], expected: &str) {
    let context = builder.build().unwrap();
    let [one, .., other] = context.devices() else {
        return skip(Needs::Several, "a link has two ends");
    };
    if !one.reaches(other) || !other.reaches(one) {
        return skip(Needs::Peers, "kernels write into each other's memory");
    }
    let link = DeviceLink::<u32>::new(&context, one, other, (4, 1), PATIENCE).unwrap();
    let report = context.host().shared::<u32>(2).unwrap();
    let (kernels, places) = ([sender(), receiver()], [0, context.devices().len() - 1]);
    let gang = Gang::new(&context).unwrap();
    for kernel in &kernels {
        gang.prepare(kernel).unwrap();
    }
    let (host, start) = (gang.words().clone(), Instant::now());
    let run = gang.run(|member| {
        let end = places.iter().position(|place| *place == member.place);
        let Some(end) = end else { return Ok(()) };
        Ok(kernels[end].launch(member.stream, 1, (&link, &host, &report, most[end]))?)
    });
    let cause = context.block_on(run).unwrap().unwrap_err().to_string();
    println!("{cause}, heard after {:?}", start.elapsed());
    assert!(cause.contains(expected), "{cause}");
    let is_trap = cause.contains("CUDA_ERROR_");
    for device in [one, other] {
        match is_trap {
            true => assert_eq!(device.stream().unwrap_err().to_string(), cause, "{device}"),
            false => works(device),
        }
    }
    // A trap ends the other kernels of its GPU.
    let leaves = !is_trap || !one.shares_gpu_with(other);
    let waiting = usize::from(most[0] < most[1]);
    while leaves && report.load(waiting).unwrap() == 0 {
        assert!(start.elapsed() < SOON, "{} waits", [one, other][waiting]);
    }
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

/// What the kernel of a device says that traps, or its twin.
fn trapped() -> &'static str {
    if list().to_string().contains("cuda") { "CUDA_ERROR_" } else { "a fault on purpose" }
}

#[test]
fn a_sender_traps() {
    in_child(concat!(module_path!(), "::a_sender_traps"), LIMIT, || {
        one_end_fails(builder(), [100, u32::MAX], trapped());
    });
}

#[test]
fn a_receiver_traps() {
    in_child(concat!(module_path!(), "::a_receiver_traps"), LIMIT, || {
        one_end_fails(builder(), [u32::MAX, 100], trapped());
    });
}

#[test]
fn an_end_is_not_launched() {
    in_child(concat!(module_path!(), "::an_end_is_not_launched"), LIMIT, || {
        for (kernel, most) in [("sends", [0, 1]), ("receives", [1, 0])] {
            let most = most.map(|most| most * u32::MAX);
            let faults = vec![InjectedFault::new(kernel)];
            let injection = Injection { faults, ..Injection::default() };
            let expected = format!("injected failure of {kernel} on ");
            one_end_fails(builder().injection(injection), most, &expected);
        }
    });
}
