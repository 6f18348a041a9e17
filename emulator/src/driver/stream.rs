//! Streams: each a thread that does one operation after another.

use std::collections::VecDeque;
use std::ffi::{c_int, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cudarc::driver::sys::{CUresult, CUstream};
use parking_lot::{Condvar, Mutex};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::asked::asked;
use super::context::current;
use super::device::Device;
use super::handles::{Handles, Owned};
use super::point::{Arrival, Point};
use super::status::{Answer, answer, store};
use crate::execute::Fault;

pub(super) static STREAMS: Handles<Stream> = Handles::new();

/// What a stream does; ends early, if it can, when the flag is set. Dropped instead
/// when the device has had a fault.
type Operation = Box<dyn FnOnce(&AtomicBool) -> Result<(), Fault> + Send>;

/// A stream.
pub(super) struct Stream {
    device: &'static Device,
    number: u64,
    state: Mutex<State>,
    changed: Condvar,
}

enum Step {
    Perform(Operation),
    /// Somebody wants to know when the stream is here.
    Arrive {
        _arrival: Arrival,
    },
}

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    /// Steps that are not over.
    pending: usize,
    has_thread: bool,
    is_closed: bool,
}

impl Owned for Stream {
    fn device(&self) -> &'static Device {
        self.device
    }
}

impl Stream {
    fn new(device: &'static Device) -> Arc<Stream> {
        let mut context = device.context.lock();
        context.numbered += 1;
        // The same in every process, and no two alike.
        let number = (device.ordinal as u64) << 32 | context.numbered;
        let (state, changed) = (Mutex::default(), Condvar::new());
        let stream = Arc::new(Stream { device, number, state, changed });
        context.streams.push(Arc::clone(&stream));
        stream
    }

    /// Puts an operation behind all others.
    pub(super) fn submit(
        self: &Arc<Self>,
        operation: impl FnOnce(&AtomicBool) -> Result<(), Fault> + Send + 'static,
    ) -> Answer<()> {
        self.device.check()?;
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        if !state.has_thread {
            let stream = Arc::clone(self);
            let name = format!("emulated {:x}", self.number);
            let thread = std::thread::Builder::new().name(name).spawn(move || stream.run());
            thread.map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
            state.has_thread = true;
        }
        state.steps.push_back(Step::Perform(Box::new(operation)));
        state.pending += 1;
        self.changed.notify_one();
        Ok(())
    }

    /// The place behind everything submitted so far, also of a stream that is closed.
    pub(super) fn mark(&self) -> Arc<Point> {
        let (point, arrival) = Point::new();
        let mut state = self.state.lock();
        // Without, the stream is there. With something pending there is a thread, which
        // looks again before it leaves.
        if state.pending > 0 {
            state.steps.push_back(Step::Arrive { _arrival: arrival });
            state.pending += 1;
        }
        point
    }

    fn is_idle(&self) -> bool {
        self.state.lock().pending == 0
    }

    /// Takes nothing more; what was submitted comes to its end.
    pub(super) fn close(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.is_closed = true;
        self.changed.notify_one();
        let has_thread = state.has_thread;
        drop(state);
        if !has_thread {
            self.leave();
        }
    }

    fn leave(self: &Arc<Self>) {
        let mut context = self.device.context.lock();
        context.streams.retain(|stream| !Arc::ptr_eq(stream, self));
    }

    fn run(self: Arc<Self>) {
        let mut delays = Delays::new(self.number);
        while let Some(step) = self.next() {
            delays.pause();
            if let Step::Perform(operation) = step {
                self.perform(operation);
                self.state.lock().pending -= 1;
            } else {
                // At once: who knows of the arrival finds the stream idle, and a mark that
                // finds it idle comes after the arrival.
                let mut state = self.state.lock();
                drop(step);
                state.pending -= 1;
            }
        }
        self.leave();
    }

    /// The next step; `None` when there will be none.
    fn next(&self) -> Option<Step> {
        let mut state = self.state.lock();
        while state.steps.is_empty() && !state.is_closed {
            self.changed.wait(&mut state);
        }
        state.steps.pop_front()
    }

    fn perform(&self, operation: Operation) {
        if self.device.has_stopped() {
            return;
        }
        let stop = self.device.stop();
        // What fails in the emulator itself must not leave a stream that never moves.
        let done = catch_unwind(AssertUnwindSafe(|| operation(stop)));
        let done = done.unwrap_or_else(|_| Err(Fault("the emulator panicked".to_string())));
        if let Err(fault) = done {
            self.device.fail(&fault);
        }
    }
}

/// Pauses before operations, to shake out what relies on luck.
struct Delays(Option<SmallRng>);

impl Delays {
    fn new(number: u64) -> Delays {
        let is_on =
            std::env::var_os("MILLSTREAM_EMULATOR_DELAYS").is_some_and(|value| value == "1");
        let seed = std::env::var("MILLSTREAM_EMULATOR_SEED").ok();
        let seed: u64 = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
        Delays(is_on.then(|| SmallRng::seed_from_u64(mixed)))
    }

    fn pause(&mut self) {
        let Some(random) = &mut self.0 else { return };
        if random.random_ratio(1, 16) {
            std::thread::sleep(Duration::from_micros(random.random_range(0..=200)));
        }
    }
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> CUresult {
    // SAFETY: the caller's promise, here and below.
    unsafe { cuStreamCreateWithPriority(stream, flags, 0) }
}

/// Priorities change nothing: whatever can run does.
///
/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(
    stream: *mut CUstream,
    flags: c_uint,
    _priority: c_int,
) -> CUresult {
    answer(|| {
        asked("cuStreamCreate")?;
        let device = current()?;
        if stream.is_null() || flags > 1 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: as above.
        unsafe { store(stream, STREAMS.insert(Stream::new(device))) }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(stream: CUstream) -> CUresult {
    answer(|| {
        let stream = STREAMS.remove(stream)?;
        stream.close();
        stream.device.check()
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamQuery(stream: CUstream) -> CUresult {
    answer(|| {
        asked("cuStreamQuery")?;
        let stream = STREAMS.get(stream)?;
        let is_idle = stream.is_idle();
        // Afterwards: what is over may have ended with a fault.
        stream.device.check()?;
        if is_idle { Ok(()) } else { Err(CUresult::CUDA_ERROR_NOT_READY) }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(stream: CUstream) -> CUresult {
    answer(|| {
        let stream = STREAMS.get(stream)?;
        stream.device.check()?;
        stream.mark().wait(stream.device.failed());
        stream.device.check()
    })
}
