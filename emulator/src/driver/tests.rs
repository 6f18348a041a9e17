//! Streams, events, memory and faults. Each test that hurts a device has one of its own.

use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{
    CUcontext, CUevent, CUevent_flags, CUfunction, CUmodule, CUresult, CUstream,
};

use super::context::*;
use super::device::*;
use super::event::*;
use super::launch::*;
use super::memory::*;
use super::module::*;
use super::status::*;
use super::stream::*;
use super::transfer::*;
use crate::compiler::compile;
use crate::execute::Fault;

const OK: CUresult = CUresult::CUDA_SUCCESS;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const NOT_READY: CUresult = CUresult::CUDA_ERROR_NOT_READY;
const FAILED: CUresult = CUresult::CUDA_ERROR_LAUNCH_FAILED;

/// Calls functions of the driver.
macro_rules! cu {
    ($call:expr) => {
        // SAFETY: every test keeps what it passes until it is over.
        unsafe { $call }
    };
}

mod batches;

/// A device's context, current on this thread.
struct Used {
    ordinal: i32,
    context: CUcontext,
}

impl Used {
    fn new(ordinal: i32) -> Used {
        let mut context = std::ptr::null_mut();
        assert_eq!(cu!(cuInit(0)), OK);
        assert_eq!(cu!(cuDevicePrimaryCtxRetain(&mut context, ordinal)), OK);
        let used = Used { ordinal, context };
        used.bind();
        used
    }

    fn bind(&self) {
        assert_eq!(cu!(cuCtxSetCurrent(self.context)), OK);
    }

    fn stream(&self) -> CUstream {
        self.bind();
        let mut stream = std::ptr::null_mut();
        assert_eq!(cu!(cuStreamCreate(&mut stream, 1)), OK);
        stream
    }

    fn event(&self) -> CUevent {
        self.event_of(CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn event_of(&self, flags: CUevent_flags) -> CUevent {
        self.bind();
        let mut event = std::ptr::null_mut();
        assert_eq!(cu!(cuEventCreate(&mut event, flags as u32)), OK);
        event
    }

    fn allocate(&self, bytes: usize) -> u64 {
        self.bind();
        let mut address = 0;
        assert_eq!(cu!(cuMemAlloc_v2(&mut address, bytes)), OK);
        assert!(address.is_multiple_of(512));
        address
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let _ = cu!(cuDevicePrimaryCtxRelease_v2(self.ordinal));
    }
}

/// Holds a stream up until it is opened.
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn on(stream: CUstream) -> Gate {
        let open = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&open);
        let wait = move |stop: &AtomicBool| {
            while !seen.load(Ordering::Acquire) && !stop.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            Ok(())
        };
        STREAMS.get(stream).unwrap().submit(wait).unwrap();
        Gate(open)
    }

    fn open(self) {}
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn read(address: u64, bytes: usize) -> Vec<u8> {
    let from: *const u8 = std::ptr::with_exposed_provenance(address as usize);
    // SAFETY: allocated by the test, and nobody writes.
    unsafe { std::slice::from_raw_parts(from, bytes) }.to_vec()
}

fn soon(mut what: impl FnMut() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::yield_now();
    }
}

#[test]
fn devices_say_what_they_are() {
    assert_eq!(cu!(cuInit(0)), OK);
    let (mut count, mut can, mut version) = (0, 0, 0);
    assert_eq!(cu!(cuDeviceGetCount(&mut count)), OK);
    assert_eq!(cu!(cuDriverGetVersion(&mut version)), OK);
    assert_eq!((count, version), (8, 13_000));
    assert_eq!(cu!(cuDeviceGet(&mut can, 8)), CUresult::CUDA_ERROR_INVALID_DEVICE);
    assert_eq!(cu!(cuDeviceCanAccessPeer(&mut can, 0, 1)), OK);
    assert_eq!(can, 1);
    let (mut name, mut short) = ([1; 64], [1; 5]);
    assert_eq!(cu!(cuDeviceGetPCIBusId(name.as_mut_ptr(), 64, 3)), OK);
    assert_eq!(name.map(|it| it as u8)[..13], *b"FFFF:04:00.0\0");
    assert_eq!(cu!(cuDeviceGetName(short.as_mut_ptr(), 4, 3)), OK);
    assert_eq!(short.map(|it| it as u8), *b"Mil\0\x01");
    let mut text = std::ptr::null();
    assert_eq!(cu!(cuGetErrorName(FAILED, &mut text)), OK);
    // SAFETY: a text that stays.
    let text = unsafe { CStr::from_ptr(text) };
    assert_eq!(text.to_str(), Ok("CUDA_ERROR_LAUNCH_FAILED"));
}

#[test]
fn without_a_context_nothing_is_done() {
    let (mut address, mut stream) = (0, std::ptr::null_mut());
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, 1)), CUresult::CUDA_ERROR_INVALID_CONTEXT);
    assert_eq!(cu!(cuStreamCreate(&mut stream, 1)), CUresult::CUDA_ERROR_INVALID_CONTEXT);
    let device = Used::new(5);
    let (stream, mut address) = (device.stream(), device.allocate(4));
    drop(device);
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, 1)), CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(5)), CUresult::CUDA_ERROR_INVALID_CONTEXT);
    let device = Used::new(5);
    assert_eq!(cu!(cuStreamQuery(stream)), CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(cu!(cuMemFree_v2(address)), INVALID, "freed with its context");
    let code = std::ptr::null();
    assert_eq!(cu!(cuModuleLoadData(std::ptr::null_mut(), code)), INVALID);
    drop(device);
}

#[test]
fn a_stream_is_in_order() {
    let device = Used::new(0);
    let (stream, event) = (device.stream(), device.event());
    let (one, other) = (device.allocate(64), device.allocate(64));
    let word: u32 = 7;
    let word_address = std::ptr::from_ref(&word).expose_provenance() as u64;
    let gate = Gate::on(stream);
    assert_eq!(cu!(cuMemsetD8Async(one, 1, 64, stream)), OK);
    assert_eq!(cu!(cuMemcpyAsync(one + 8, word_address, 4, stream)), OK);
    assert_eq!(cu!(cuMemcpyAsync(other, one, 64, stream)), OK);
    assert_eq!(cu!(cuMemsetD8Async(one, 2, 64, stream)), OK);
    assert_eq!(cu!(cuStreamWriteValue32_v2(stream, other + 60, 9, 0)), OK);
    assert_eq!(cu!(cuEventRecord(event, stream)), OK);
    assert_eq!((cu!(cuStreamQuery(stream)), cu!(cuEventQuery(event))), (NOT_READY, NOT_READY));
    assert_eq!(read(one, 64), [0xA5; 64]);
    gate.open();
    assert_eq!(cu!(cuStreamSynchronize(stream)), OK);
    assert_eq!((cu!(cuStreamQuery(stream)), cu!(cuEventQuery(event))), (OK, OK));
    let mut expected = [1; 64];
    expected[8..12].copy_from_slice(&7u32.to_ne_bytes());
    expected[60..].copy_from_slice(&9u32.to_ne_bytes());
    assert_eq!(read(other, 64), expected);
    assert_eq!(read(one, 64), [2; 64]);
}

#[test]
fn fills_reach_their_items_only() {
    let device = Used::new(0);
    let stream = device.stream();
    let address = device.allocate(48);
    assert_eq!(cu!(cuMemsetD32Async(address, 0x0403_0201, 12, stream)), OK);
    assert_eq!(cu!(cuMemsetD2D8Async(address + 1, 12, 9, 2, 4, stream)), OK);
    assert_eq!(cu!(cuMemsetD2D32Async(address + 4, 12, 0, 1, 4, stream)), OK);
    assert_eq!(cu!(cuStreamSynchronize(stream)), OK);
    assert_eq!(read(address, 48), [1, 9, 9, 4, 0, 0, 0, 0, 1, 2, 3, 4].repeat(4));
    for (start, pitch, width, rows) in [(4, 12, 1, 5), (0, 12, 4, 1), (0, 2, 1, 2), (2, 12, 1, 1)] {
        let filled = cu!(cuMemsetD2D32Async(address + start, pitch, 1, width, rows, stream));
        let fits = start == 0 && width == 4 && rows == 1;
        assert_eq!(filled, if fits { OK } else { INVALID }, "{start} {pitch} {width} {rows}");
    }
    let huge = cu!(cuMemsetD2D32Async(address, usize::MAX / 2, 1, 1, 4, stream));
    assert_eq!(huge, INVALID);
    let large = device.allocate(3 << 20);
    assert_eq!(cu!(cuMemsetD8Async(large, 5, 3 << 20, stream)), OK);
    assert_eq!(cu!(cuMemsetD8Async(large + 3, 0, (2 << 20) + 7, stream)), OK);
    assert_eq!(cu!(cuStreamSynchronize(stream)), OK);
    let (bytes, end) = (read(large, 3 << 20), 3 + (2 << 20) + 7);
    assert!(bytes[..3].iter().chain(&bytes[end..]).all(|byte| *byte == 5));
    assert!(bytes[3..end].iter().all(|byte| *byte == 0));
}

#[test]
fn memory_has_bounds() {
    let device = Used::new(4);
    let (stream, mut more) = (device.stream(), 0);
    let (one, other) = (device.allocate(100), device.allocate(100));
    assert_eq!(cu!(cuMemcpyAsync(one, other, 100, stream)), OK);
    assert_eq!(cu!(cuMemcpyAsync(one + 1, other, 100, stream)), INVALID);
    assert_eq!(cu!(cuMemcpyAsync(one, other + 100, 1, stream)), INVALID);
    assert_eq!(cu!(cuMemcpyAsync(one, 0, 4, stream)), INVALID);
    assert_eq!(cu!(cuMemcpyAsync(one, other, usize::MAX, stream)), INVALID);
    assert_eq!(cu!(cuMemsetD8Async(one, 0, 101, stream)), INVALID);
    assert_eq!(cu!(cuStreamWriteValue32_v2(stream, one + 100, 0, 0)), INVALID);
    let word = std::ptr::from_ref(&more).expose_provenance() as u64;
    assert_eq!(cu!(cuStreamWriteValue32_v2(stream, word, 0, 0)), INVALID, "not pinned");
    for wrong in [one + 1, one + 512, word, 0] {
        assert_eq!(cu!(cuMemFree_v2(wrong)), INVALID);
    }
    assert_eq!(cu!(cuStreamSynchronize(stream)), OK);
    assert_eq!(cu!(cuMemFree_v2(one)), OK);
    assert_eq!(read(one, 100), [0xDE; 100]);
    assert_eq!(cu!(cuMemFree_v2(one)), INVALID, "twice");
    assert_eq!(cu!(cuMemcpyAsync(other, one, 100, stream)), INVALID, "stale");
    let none = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    assert_eq!(cu!(cuMemAlloc_v2(&mut more, usize::MAX)), none);
    assert_eq!(cu!(cuMemAlloc_v2(&mut more, 4 << 30)), none);
    assert_eq!(cu!(cuMemAlloc_v2(&mut more, (4 << 30) - 512)), OK);
    assert_eq!(cu!(cuMemFree_v2(more)), OK);
    assert_eq!(cu!(cuMemAlloc_v2(&mut more, 0)), INVALID);
}

#[test]
fn pinned_memory_is_for_all_devices() {
    let (one, other) = (Used::new(1), Used::new(2));
    let stream = other.stream();
    one.bind();
    let mut pinned: *mut c_void = std::ptr::null_mut();
    assert_eq!(cu!(cuMemHostAlloc(&mut pinned, 8, 3)), OK);
    let address = pinned.addr() as u64;
    other.bind();
    assert_eq!(cu!(cuStreamWriteValue32_v2(stream, address + 4, 5, 0)), OK);
    assert_eq!(cu!(cuStreamSynchronize(stream)), OK);
    assert_eq!(read(address, 8)[4..], 5u32.to_ne_bytes());
    assert_eq!(cu!(cuMemFree_v2(address)), INVALID);
    assert_eq!(cu!(cuMemFreeHost(pinned)), OK);
    assert_eq!(cu!(cuMemFreeHost(pinned)), INVALID);
}

#[test]
fn an_event_orders_streams_of_different_devices() {
    let (one, other) = (Used::new(1), Used::new(2));
    let (first, second) = (one.stream(), other.stream());
    let (from, to) = (one.allocate(4), other.allocate(4));
    let event = one.event();
    assert_eq!(cu!(cuEventQuery(event)), OK, "never recorded");
    assert_eq!(cu!(cuStreamWaitEvent(second, event, 0)), OK);
    assert_eq!(cu!(cuStreamSynchronize(second)), OK);
    let gate = Gate::on(first);
    assert_eq!(cu!(cuStreamWriteValue32_v2(first, from, 3, 0)), OK);
    assert_eq!(cu!(cuEventRecord(event, first)), OK);
    other.bind();
    assert_eq!(cu!(cuStreamWaitEvent(second, event, 0)), OK);
    assert_eq!(cu!(cuMemcpyAsync(to, from, 4, second)), OK);
    one.bind();
    // A later record, and the end of the event, change nothing for who waits.
    let third = one.stream();
    let closed = Gate::on(third);
    assert_eq!(cu!(cuEventRecord(event, third)), OK);
    assert_eq!((cu!(cuEventQuery(event)), cu!(cuStreamQuery(second))), (NOT_READY, NOT_READY));
    assert_eq!(cu!(cuEventDestroy_v2(event)), OK);
    assert_eq!(cu!(cuEventQuery(event)), CUresult::CUDA_ERROR_INVALID_HANDLE);
    gate.open();
    assert_eq!(cu!(cuStreamSynchronize(second)), OK);
    assert_eq!(read(to, 4), 3u32.to_ne_bytes());
    assert_eq!(cu!(cuStreamQuery(third)), NOT_READY);
    closed.open();
    let foreign = other.event();
    assert_eq!(cu!(cuEventRecord(foreign, first)), CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn a_later_event_is_not_over_earlier() {
    let device = Used::new(2);
    let stream = device.stream();
    let [first, second] = [0; 2].map(|_| device.event_of(CUevent_flags::CU_EVENT_DEFAULT));
    for round in 0..20_000 {
        let gate = Gate::on(stream);
        assert_eq!(cu!(cuEventRecord(first, stream)), OK);
        gate.open();
        // Where the stream may be at the first.
        (0..round % 500).for_each(|_| std::hint::spin_loop());
        assert_eq!(cu!(cuEventRecord(second, stream)), OK);
        assert_eq!(cu!(cuStreamSynchronize(stream)), OK);
        let mut milliseconds = 0.0;
        assert_eq!(cu!(cuEventElapsedTime_v2(&mut milliseconds, first, second)), OK);
        assert!(milliseconds >= 0.0, "round {round}: {milliseconds}");
    }
}

#[test]
fn a_stream_that_was_waited_for_is_idle() {
    let device = Used::new(2);
    let (stream, event) = (device.stream(), device.event());
    for _ in 0..2_000 {
        let gate = Gate::on(stream);
        assert_eq!(cu!(cuEventRecord(event, stream)), OK);
        gate.open();
        soon(|| cu!(cuEventQuery(event)) == OK);
        assert_eq!(cu!(cuStreamQuery(stream)), OK);
        let gate = Gate::on(stream);
        gate.open();
        assert_eq!(cu!(cuStreamSynchronize(stream)), OK);
        assert_eq!(cu!(cuStreamQuery(stream)), OK);
    }
}

#[test]
fn a_destroyed_stream_finishes() {
    let device = Used::new(2);
    let (stream, event) = (device.stream(), device.event());
    let word = device.allocate(4);
    let gate = Gate::on(stream);
    assert_eq!(cu!(cuStreamWriteValue32_v2(stream, word, 4, 0)), OK);
    assert_eq!(cu!(cuEventRecord(event, stream)), OK);
    assert_eq!(cu!(cuStreamDestroy_v2(stream)), OK);
    assert_eq!(cu!(cuStreamQuery(stream)), CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(cu!(cuEventQuery(event)), NOT_READY);
    // Whoever frees waits for it too.
    let opener = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(20));
        gate.open();
    });
    let unused = device.allocate(4);
    assert_eq!(cu!(cuMemFree_v2(unused)), OK);
    assert_eq!(cu!(cuEventQuery(event)), OK);
    assert_eq!(read(word, 4), 4u32.to_ne_bytes());
    opener.join().unwrap();
}

#[test]
fn a_fault_stays() {
    let (device, other) = (Used::new(7), Used::new(0));
    let (stream, beside, elsewhere) = (device.stream(), device.stream(), other.stream());
    let (word, there) = (device.allocate(4), other.allocate(4));
    let event = device.event();
    // What runs beside ends early, and what is queued is given up.
    let _gate = Gate::on(beside);
    assert_eq!(cu!(cuStreamWriteValue32_v2(beside, word, 1, 0)), OK);
    assert_eq!(cu!(cuEventRecord(event, beside)), OK);
    assert_eq!(cu!(cuStreamWaitEvent(elsewhere, event, 0)), OK);
    other.bind();
    assert_eq!(cu!(cuStreamWriteValue32_v2(elsewhere, there, 2, 0)), OK);
    let fault = |_: &AtomicBool| Err(Fault("planted".to_string()));
    STREAMS.get(stream).unwrap().submit(fault).unwrap();
    assert_eq!(cu!(cuStreamSynchronize(stream)), FAILED);
    assert_eq!([stream, beside].map(|stream| cu!(cuStreamQuery(stream))), [FAILED; 2]);
    assert_eq!(cu!(cuStreamSynchronize(elsewhere)), OK, "other devices go on");
    assert_eq!(read(there, 4), 2u32.to_ne_bytes());
    assert_eq!(read(word, 4), [0xA5; 4]);
    assert_eq!((cu!(cuEventQuery(event)), cu!(cuCtxSetCurrent(device.context))), (FAILED, FAILED));
    let mut address = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, 4)), FAILED);
    assert_eq!(cu!(cuMemcpyAsync(word, word, 4, stream)), FAILED);
}

#[test]
fn memory_freed_before_its_use_is_a_fault() {
    let (device, other) = (Used::new(6), Used::new(1));
    let stream = device.stream();
    let (from, to) = (device.allocate(4), other.allocate(4));
    let gate = Gate::on(stream);
    device.bind();
    assert_eq!(cu!(cuMemcpyAsync(to, from, 4, stream)), OK);
    other.bind();
    assert_eq!(cu!(cuMemFree_v2(to)), OK, "waits for its own device only");
    gate.open();
    soon(|| cu!(cuStreamQuery(stream)) == FAILED);
}

const KERNELS: &str = r#"
    extern "C" __global__ void scale(unsigned char by, unsigned* numbers, unsigned short most) {
        const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
        if (at < most) numbers[at] *= by;
    }
    extern "C" __global__ void spin(unsigned* word) {
        unsigned now;
        do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
        while (now != 1);
    }
    extern "C" __global__ void traps() { asm volatile("trap;"); }"#;

fn function(module: CUmodule, name: &CStr) -> CUfunction {
    let mut function = std::ptr::null_mut();
    assert_eq!(cu!(cuModuleGetFunction(&mut function, module, name.as_ptr())), OK);
    function
}

fn launch(
    function: CUfunction,
    blocks: u32,
    threads: [u32; 3],
    stream: CUstream,
    arguments: &mut [*mut c_void],
) -> CUresult {
    let [x, y, z] = threads;
    let (places, extra) = (arguments.as_mut_ptr(), std::ptr::null_mut());
    cu!(cuLaunchKernel(function, blocks, 1, 1, x, y, z, 0, stream, places, extra))
}

#[test]
fn kernels_run_until_one_traps() {
    let device = Used::new(3);
    let (stream, beside) = (device.stream(), device.stream());
    let (numbers, word) = (device.allocate(400), device.allocate(4));
    let (code, mut module) = (compile(KERNELS).unwrap(), std::ptr::null_mut());
    assert_eq!(cu!(cuModuleLoadData(&mut module, code.as_ptr().cast())), OK);
    let (mut none, mut blocks) = (std::ptr::null_mut(), 0);
    let name = c"missing".as_ptr();
    let found = cu!(cuModuleGetFunction(&mut none, module, name));
    assert_eq!(found, CUresult::CUDA_ERROR_NOT_FOUND);
    let [scale, spin, traps] = [c"scale", c"spin", c"traps"].map(|name| function(module, name));
    assert_eq!(function(module, c"scale"), scale);

    let (mut offset, mut size) = (0, 0);
    let parameters = (0..).map_while(|place| {
        let answer = cu!(cuFuncGetParamInfo(scale, place, &mut offset, &mut size));
        (answer == OK).then_some((offset, size))
    });
    assert_eq!(parameters.collect::<Vec<_>>(), [(0, 1), (8, 8), (16, 2)]);
    let occupancy = cu!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, scale, 128, 0));
    assert_eq!((occupancy, blocks), (OK, 4));

    let (dynamic, declared) = {
        use cudarc::driver::sys::CUfunction_attribute as Attribute;
        let most = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        (most, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
    };
    let mut bytes = -1;
    assert_eq!((cu!(cuFuncGetAttribute(&mut bytes, declared, scale)), bytes), (OK, 0));
    assert_eq!(cu!(cuFuncSetAttribute(scale, dynamic, 4096)), OK);
    assert_eq!(cu!(cuFuncSetAttribute(scale, dynamic, 4097)), INVALID);

    let (mut by, mut address, mut most) = (3_u8, numbers, 99_u16);
    let mut arguments = [(&raw mut by).cast(), (&raw mut address).cast(), (&raw mut most).cast()];
    for wrong in [[0, 1, 1], [1025, 1, 1], [32, 33, 1], [1, 1, 65]] {
        assert_eq!(launch(scale, 1, wrong, stream, &mut arguments), INVALID, "{wrong:?}");
    }
    assert_eq!(launch(scale, 0, [1; 3], stream, &mut arguments), INVALID);
    assert_eq!(cu!(cuMemsetD32Async(numbers, 5, 100, stream)), OK);
    assert_eq!(launch(scale, 4, [32, 1, 1], stream, &mut arguments), OK);
    // Copied when it was launched.
    (by, address, most) = (0, 0, 0);
    assert_eq!((by, address, most, cu!(cuStreamSynchronize(stream))), (0, 0, 0, OK));
    let expected = [[15_u32; 99].as_slice(), &[5]].concat();
    assert_eq!(
        read(numbers, 400),
        expected.iter().flat_map(|it| it.to_ne_bytes()).collect::<Vec<_>>()
    );

    // Kernels of two streams run at once, and one that never ends is stopped.
    let mut word = word;
    let mut argument = [(&raw mut word).cast()];
    for _ in 0..2 {
        assert_eq!(launch(spin, 1, [1; 3], beside, &mut argument), OK);
    }
    assert_eq!(launch(scale, 4, [32, 1, 1], stream, &mut arguments), OK);
    assert_eq!((cu!(cuStreamSynchronize(stream)), cu!(cuStreamQuery(beside))), (OK, NOT_READY));
    assert_eq!(launch(traps, 2, [64, 1, 1], stream, &mut []), OK);
    assert_eq!(cu!(cuStreamSynchronize(beside)), FAILED);
    assert_eq!(launch(scale, 4, [32, 1, 1], stream, &mut arguments), FAILED);
}
