//! Memory that was dropped: whoever needs it gets it, in all contexts of a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use cudarc::driver::sys;
use millstream::device::{
    Device, DeviceSet, Error, Kernel, KernelFault, LibraryCall, Trusted, Write,
};

use super::telling::WAITS;
use super::{is_gpu, list};

/// Two of this size are more than a GPU has.
fn most_of(device: &Device) -> usize {
    usize::try_from(device.memory().budget.unwrap()).unwrap() / 10 * 6
}

/// Bytes of a device that no process has.
fn free_on(device: &Device) -> usize {
    let free = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&free);
    let ask = move |_: &LibraryCall<'_>| {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the device's context is current; the driver stores two numbers.
        match unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) } {
            sys::CUresult::CUDA_SUCCESS => told.store(free, Ordering::Release),
            refused => return Err(KernelFault::new(format!("{refused:?}"))),
        }
        Ok(())
    };
    let kernel: Kernel<(Write<u8>,)> = Kernel::from_closure("ask", |_, (_,)| Ok(()));
    // SAFETY: it submits nothing.
    let kernel = kernel.with_library(unsafe { Trusted::new(ask) });
    let (stream, mut any) = (device.stream().unwrap(), device.buffer(1).unwrap());
    kernel.launch(&stream, 1, (&mut any,)).unwrap();
    stream.record().unwrap().synchronize().unwrap();
    free.load(Ordering::Acquire)
}

fn sets() -> [DeviceSet; 2] {
    [0; 2].map(|_| DeviceSet::builder().devices(list()).build().unwrap())
}

#[test]
fn another_context_gets_what_one_has_dropped() {
    let sets = sets();
    let gpus = sets.each_ref().map(|set| set.devices().iter().filter(|device| is_gpu(device)));
    let [first, second] = gpus;
    for (first, second) in first.zip(second) {
        let bytes = most_of(first);
        for device in [first, second, first] {
            let buffer = device.buffer_to_overwrite::<u8>(bytes).unwrap();
            assert!(matches!(second.buffer::<u8>(bytes), Err(Error::OutOfMemory { .. })));
            drop(buffer);
        }
    }
}

#[test]
fn what_nobody_uses_is_given_back() {
    let [set, other] = sets();
    for (device, seen) in set.devices().iter().zip(other.devices()).filter(|it| is_gpu(it.0)) {
        let bytes = most_of(device);
        drop(device.buffer_to_overwrite::<u8>(bytes).unwrap());
        let kept = free_on(seen);
        other.give_back_unused_memory().unwrap();
        let free = free_on(seen);
        assert!(free >= kept + bytes, "{device}: {kept} and {free} bytes are free");
    }
    // Host devices have nothing to give back.
    DeviceSet::builder().build().unwrap().give_back_unused_memory().unwrap();
}

/// Else a link that pins memory in its run could wait for a kernel that waits for its packet.
#[test]
fn pinning_waits_for_no_kernel() {
    let count = sets()[0].devices().len();
    for place in 0..count {
        // A context of its own, which has not pinned anything yet.
        let [set, _] = sets();
        let device = &set.devices()[place];
        if !is_gpu(device) {
            continue;
        }
        WAITS.prepare(device, 1).unwrap();
        let stream = device.stream().unwrap();
        let stop = set.host().shared::<u32>(1).unwrap();
        WAITS.launch(&stream, 1, (&stop,)).unwrap();
        let over = stream.record().unwrap();
        let (done, hear) = mpsc::channel();
        let host = set.host().clone();
        let pins = std::thread::spawn(move || {
            let buffers = (1..=8).map(|size| host.buffer_to_overwrite::<u8>(size << 20));
            done.send(buffers.collect::<Result<Vec<_>, _>>().map(drop))
        });
        let pinned = hear.recv_timeout(Duration::from_secs(10));
        let is_over = over.is_complete();
        stop.store(0, 1).unwrap();
        pins.join().unwrap().unwrap();
        pinned.unwrap_or_else(|_| panic!("{device}: pinning waits for a kernel")).unwrap();
        assert!(!is_over, "{device}: nothing was waited for");
        over.synchronize().unwrap();
    }
}
