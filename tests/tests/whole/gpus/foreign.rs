//! What programs bring along: memory of their own, and libraries that submit to streams.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cudarc::driver::sys;
use millstream::device::{
    Device, Error, Kernel, KernelFault, KernelResult, LibraryCall, Trusted, Write,
};

use super::{is_gpu, set};

/// Of the memory, too.
pub(super) const ITEMS: usize = 10_007;
type Fill = (Write<u32>, millstream::device::Value<u32>);

/// Fills with a value, by a call of the driver.
fn by_the_driver(call: &LibraryCall<'_>) -> KernelResult {
    let ((address, len), value) = (call.span(0)?, call.value(1)?);
    // SAFETY: the argument's items, in the order of the call's stream.
    match unsafe { sys::cuMemsetD32Async(address, value, len, call.stream().cast()) } {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        refused => Err(KernelFault::new(format!("{refused:?}"))),
    }
}

fn fill(call: impl Fn(&LibraryCall<'_>) -> KernelResult + Send + Sync + 'static) -> Kernel<Fill> {
    let kernel = Kernel::from_closure("fill", |_, (items, value): (&mut [u32], u32)| {
        items.fill(value);
        Ok(())
    });
    // SAFETY: what is called writes the argument's items, if any.
    kernel.with_library(unsafe { Trusted::new(call) })
}

#[test]
fn libraries_submit_in_the_order_of_the_stream() {
    let (set, kernel) = (set(), fill(by_the_driver));
    for device in set.devices() {
        let stream = device.stream().unwrap();
        let mut items = stream.uploaded(vec![5u32; ITEMS]).unwrap();
        kernel.launch(&stream, ITEMS, (&mut items, 7)).unwrap();
        let after = set.block_on(stream.download(&items).unwrap()).unwrap().unwrap();
        assert_eq!(after, vec![7; ITEMS], "{device}");
    }
}

/// Copies go through the driver; of kernels it would be a fault where the GPU does not reach the
/// program's pages.
#[test]
fn kernels_of_gpus_do_not_touch_the_programs_own_memory() {
    let (set, kernel) = (set(), fill(by_the_driver));
    let mut own = vec![3u32; ITEMS];
    let address = own.as_mut_ptr().expose_provenance();
    // SAFETY: the vector keeps the items, and nobody else has it.
    let mut items = unsafe { set.host().adopt::<u32>(address, ITEMS, own) };
    for device in set.devices().iter().filter(|device| is_gpu(device)) {
        let stream = device.stream().unwrap();
        let refused = kernel.launch(&stream, ITEMS, (&mut items, 7));
        assert!(matches!(refused, Err(Error::OutOfReach { .. })), "{refused:?}");
        let mut copy = device.buffer(ITEMS).unwrap();
        stream.copy(&items, &mut copy).unwrap();
        kernel.launch(&stream, ITEMS, (&mut copy, 5)).unwrap();
        stream.copy(&copy, &mut items).unwrap();
        set.block_on(stream.completed().unwrap()).unwrap().unwrap();
        assert_eq!(items.host_view().unwrap(), vec![5; ITEMS], "{device}");
    }
}

#[test]
fn a_library_that_fails_fails_the_stream() {
    let set = set();
    let says_no = fill(|_| Err(KernelFault::new("out of luck")));
    let wrong = fill(|call| call.value::<u64>(1).map(drop));
    let panics = fill(|_| panic!("no luck at all"));
    for device in set.devices().iter().filter(|device| is_gpu(device)) {
        for (kernel, message) in [
            (&says_no, "out of luck"),
            (&wrong, "argument 1 has 4 bytes, not 8"),
            (&panics, "no luck at all"),
        ] {
            let stream = device.stream().unwrap();
            let mut items = device.buffer(ITEMS).unwrap();
            let launched = kernel.launch(&stream, ITEMS, (&mut items, 7));
            let error = launched.and_then(|()| stream.record()).unwrap_err();
            assert!(matches!(&error, Error::KernelFailed { .. }), "{error}");
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}

/// Memory that the program has taken from the driver itself.
pub(super) struct Own {
    pub(super) address: u64,
    context: usize,
    is_freed: Arc<AtomicBool>,
}

impl Own {
    /// So many bytes; `None` on a host device.
    pub(super) fn take(device: &Device, bytes: usize) -> Option<Own> {
        let context = Arc::new(Mutex::new(0));
        let here = Arc::clone(&context);
        let ask = fill(move |call| {
            *here.lock().unwrap() = call.context().expose_provenance();
            by_the_driver(call)
        });
        let mut items = device.buffer(1).unwrap();
        ask.launch(&device.stream().unwrap(), 1, (&mut items, 1)).unwrap();
        let context = *context.lock().unwrap();
        let mut address = 0;
        (context != 0).then(|| {
            // SAFETY: the GPU's context, which its device set keeps.
            unsafe {
                let current = sys::cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context));
                assert_eq!(current, sys::CUresult::CUDA_SUCCESS);
                let taken = sys::cuMemAlloc_v2(&mut address, bytes);
                assert_eq!(taken, sys::CUresult::CUDA_SUCCESS);
            }
            Own { address, context, is_freed: Arc::default() }
        })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let (address, context) = (self.address, self.context);
        let is_freed = Arc::clone(&self.is_freed);
        // Not here: this may be a thread that kernels wait for.
        std::thread::spawn(move || {
            // SAFETY: the context lives, and nobody uses the memory any more.
            let freed = unsafe {
                let _ = sys::cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context));
                sys::cuMemFree_v2(address)
            };
            is_freed.store(freed == sys::CUresult::CUDA_SUCCESS, Ordering::Release);
        });
    }
}

#[test]
fn memory_of_the_program_is_a_buffer() {
    let (set, kernel) = (set(), fill(by_the_driver));
    for device in set.devices() {
        let Some(own) = Own::take(device, 4 * ITEMS) else { continue };
        let (stream, is_freed) = (device.stream().unwrap(), Arc::clone(&own.is_freed));
        // SAFETY: as many items, which only this uses until it is dropped.
        let mut items = unsafe { device.adopt::<u32>(own.address as usize, ITEMS, own) };
        kernel.launch(&stream, ITEMS, (&mut items, 3)).unwrap();
        let other = set.host().stream().unwrap();
        let mut copy = set.host().buffer::<u32>(ITEMS).unwrap();
        other.wait(&stream.record().unwrap()).unwrap();
        other.copy(&items, &mut copy).unwrap();
        set.block_on(other.record().unwrap().completed()).unwrap().unwrap();
        assert_eq!(copy.host_view().unwrap(), vec![3; ITEMS], "{device}");
        assert!(items.host_view().is_err());
        assert!(!is_freed.load(Ordering::Acquire));
        drop(items);
        let deadline = Instant::now() + Duration::from_secs(5);
        while !is_freed.load(Ordering::Acquire) {
            assert!(Instant::now() < deadline, "{device}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
