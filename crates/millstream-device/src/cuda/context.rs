//! The context of one GPU: what every call on the GPU needs.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute as Attribute, CUevent, CUresult,
};
use parking_lot::Mutex;

use super::by_context::{ContextId, OpenContext};
use super::driver::{check, check_traces, failure};
use super::gpu_clock::GpuClock;
use super::large_copies::LargeCopies;
use super::module::Modules;
use super::settle::settle;
use crate::launching::while_nobody_launches;
use crate::poison::Poison;
use crate::trace::Trace;
use crate::{Error, Result};

/// The primary context of a GPU.
pub(crate) struct GpuContext {
    id: OpenContext,
    pub(super) ordinal: usize,
    pub(super) name: String,
    is_alone: bool,
    pub(super) device: CUdevice,
    pub(super) context: CUcontext,
    /// Such as 90 for `sm_90`.
    pub(super) architecture: u32,
    pub(super) multiprocessors: u32,
    /// The most bytes of shared memory that a block may have.
    pub(super) block_memory: u32,
    pub(super) poison: Poison,
    /// Events that are free for use.
    events: Mutex<Vec<NativeHandle>>,
    pub(super) modules: Modules,
    /// The stream on which host devices copy; created by the first that does.
    copies: Mutex<Option<CopyStream>>,
    pub(super) large_copies: LargeCopies,
    /// Set if the GPU is traced.
    clock: OnceLock<GpuClock>,
}

/// A stream of the driver for copies that a thread waits for.
#[derive(Clone, Copy)]
struct CopyStream(sys::CUstream);

/// A driver's event.
#[derive(Clone, Copy, Debug)]
pub(super) struct NativeHandle(CUevent);

// SAFETY: driver handles may be used from any thread.
unsafe impl Send for NativeHandle {}
// SAFETY: as above, also by several threads at once.
unsafe impl Sync for NativeHandle {}

impl NativeHandle {
    /// A new event of the context, which must be current; destroyed with the context.
    pub(super) fn new(context: &GpuContext, flags: sys::CUevent_flags) -> Result<NativeHandle> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the context is current.
        let answer = unsafe { sys::cuEventCreate(&mut event, flags as u32) };
        context.check(answer, "cuEventCreate").map(|()| NativeHandle(event))
    }

    /// Records the event; its context must be current.
    ///
    /// # Safety
    /// `stream` is a live stream of `context`, whose event this is.
    pub(super) unsafe fn record(self, context: &GpuContext, stream: sys::CUstream) -> Result<()> {
        // SAFETY: the caller's promise.
        context.check(unsafe { sys::cuEventRecord(self.0, stream) }, "cuEventRecord")
    }

    /// Whether the stream has come to where the event was recorded. A fault is remembered.
    pub(super) fn is_over(self, context: &GpuContext) -> Result<bool> {
        // SAFETY: an event of the context, which need not be current on this thread.
        context.is_over(unsafe { sys::cuEventQuery(self.0) }, WORK)
    }

    /// The time until another event, if both are over and record times.
    pub(super) fn milliseconds_until(self, other: NativeHandle) -> Option<f32> {
        let mut milliseconds = 0.0;
        // SAFETY: neither event is destroyed; the driver stores a number.
        let answer = unsafe { sys::cuEventElapsedTime_v2(&mut milliseconds, self.0, other.0) };
        (answer == CUresult::CUDA_SUCCESS).then_some(milliseconds)
    }
}
// SAFETY: driver handles, contexts included, may be used from any thread.
unsafe impl Send for GpuContext {}
// SAFETY: as above; what changes is behind locks.
unsafe impl Sync for GpuContext {}

impl std::fmt::Debug for GpuContext {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "GpuContext({})", self.name)
    }
}

/// Kernels combine the numbers of a warp in one instruction, which GPUs older than this do not have.
const OLDEST_ARCHITECTURE: u32 = 80;

fn check_architecture(architecture: u32, device: &str) -> Result<()> {
    match architecture >= OLDEST_ARCHITECTURE {
        true => Ok(()),
        false => Err(Error::GpuTooOld { device: device.to_string(), architecture }),
    }
}

impl GpuContext {
    /// `is_alone`: no other GPU is opened together with it.
    pub(super) fn new(ordinal: usize, is_alone: bool, poison: &Poison) -> Result<Arc<GpuContext>> {
        let name = format!("cuda:{ordinal}");
        let (mut device, mut context) = (0, std::ptr::null_mut());
        let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: the driver runs, and stores a device.
        match unsafe { sys::cuDeviceGet(&mut device, number) } {
            CUresult::CUDA_ERROR_INVALID_DEVICE => {
                let here = match super::driver::count() {
                    1 => "the only GPU here is cuda:0; virtual devices of it are cuda:0x2".into(),
                    count => format!("the GPUs here are cuda:0-{}", count.saturating_sub(1)),
                };
                return Err(Error::NoSuchGpu { device: name, here });
            }
            answer => check(answer, "cuDeviceGet", &name)?,
        }
        let attribute = |attribute| -> Result<u32> {
            let mut value = 0;
            // SAFETY: the device was just given by the driver.
            let answer = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) };
            check(answer, "cuDeviceGetAttribute", &name)?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let architecture = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
            + attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        check_architecture(architecture, &name)?;
        let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let block_memory =
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        // SAFETY: as above; released when this is dropped.
        let answer = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) };
        check(answer, "cuDevicePrimaryCtxRetain", &name)?;
        Ok(Arc::new(GpuContext {
            id: OpenContext::new(),
            ordinal,
            name,
            is_alone,
            device,
            context,
            architecture,
            multiprocessors,
            block_memory,
            poison: poison.clone(),
            events: Mutex::new(Vec::new()),
            modules: Modules::default(),
            copies: Mutex::new(None),
            large_copies: LargeCopies::default(),
            clock: OnceLock::new(),
        }))
    }

    /// From now on, operations are timed for this trace.
    pub(super) fn trace(&self, trace: &Trace) -> Result<()> {
        check_traces(&self.name)?;
        self.bind()?;
        let _ = self.clock.set(GpuClock::start(self, trace)?);
        Ok(())
    }

    pub(super) fn clock(&self) -> Option<&GpuClock> {
        self.clock.get()
    }

    /// Copies, and waits for the copy without holding the driver's locks: the driver's own blocking
    /// copy would hold up those who submit.
    ///
    /// # Safety
    /// Both places are this long, and nothing conflicts with the copy.
    pub(super) unsafe fn copy_now(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        settle();
        let mut copies = self.copies.lock();
        self.bind()?;
        let stream = match *copies {
            Some(CopyStream(stream)) => stream,
            None => {
                let mut stream = std::ptr::null_mut();
                let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
                // SAFETY: the context is current; destroyed with it.
                let answer = unsafe { sys::cuStreamCreate(&mut stream, flags) };
                self.check(answer, "cuStreamCreate")?;
                *copies = Some(CopyStream(stream));
                stream
            }
        };
        // SAFETY: the caller's promise; a live stream of this context.
        let answer = unsafe { sys::cuMemcpyAsync(to, from, bytes, stream) };
        self.check(answer, "cuMemcpyAsync")?;
        // SAFETY: a live stream of the current context.
        while !self.is_over(unsafe { sys::cuStreamQuery(stream) }, "cuMemcpyAsync")? {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Makes this the calling thread's context.
    ///
    /// # Errors
    /// The failure that poisoned the process.
    pub(super) fn bind(&self) -> Result<()> {
        self.poison.check()?;
        // SAFETY: retained until this is dropped.
        match unsafe { sys::cuCtxSetCurrent(self.context) } {
            CUresult::CUDA_SUCCESS => Ok(()),
            // A retained context that cannot be made current is lost.
            answer => Err(self.fault(answer, "cuCtxSetCurrent")),
        }
    }

    /// Turns an answer of the driver into an error. A device's fault is remembered: whoever meets a
    /// later one gets the first.
    pub(super) fn check(&self, answer: CUresult, call: &'static str) -> Result<()> {
        match is_fault(answer) {
            true => Err(self.fault(answer, call)),
            false => check(answer, call, &self.name),
        }
    }

    /// What the driver's answer about a stream or an event says: whether it is over. Any other
    /// answer is a fault, even one that [`is_fault`] does not know, since whoever waits would get
    /// it for ever.
    pub(super) fn is_over(&self, answer: CUresult, call: &'static str) -> Result<bool> {
        match answer {
            CUresult::CUDA_SUCCESS => Ok(true),
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            answer => Err(self.fault(answer, call)),
        }
    }

    /// The first fault: this one, unless an earlier one is set. If earlier work has failed, the
    /// call that got this answer is not to blame.
    fn fault(&self, answer: CUresult, call: &'static str) -> Error {
        let cause = || match is_fault_of_work(answer) {
            // A healthy GPU may answer with the fault of another that has access to it.
            true if !self.is_alone => failure(answer, WORK, &format!("{} or a peer", self.name)),
            true => failure(answer, WORK, &self.name),
            false => failure(answer, call, &self.name),
        };
        self.poison.get_or_init(cause).clone()
    }

    /// The GPU's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The GPU's number, as the driver counts.
    pub(crate) fn number(&self) -> usize {
        self.ordinal
    }

    /// Identifies the GPU among all contexts of the process.
    pub(crate) fn id(&self) -> ContextId {
        self.id.id()
    }

    /// Bytes of the GPU's memory that no process uses, if the driver says so.
    pub(super) fn free_memory(&self) -> Option<u64> {
        self.bind().ok()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is current; the driver stores two numbers.
        let answer = unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) };
        self.check(answer, "cuMemGetInfo").ok().map(|()| free as u64)
    }

    pub(super) fn total_memory(&self) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: the device was given by the driver.
        let answer = unsafe { sys::cuDeviceTotalMem_v2(&mut bytes, self.device) };
        self.check(answer, "cuDeviceTotalMem")?;
        Ok(bytes as u64)
    }

    /// Whether this GPU can reach the other's memory, and if so, whether with atomics.
    pub(super) fn peer(&self, other: &GpuContext) -> Result<Option<Peer>> {
        let (mut can, mut atomics) = (0, 0);
        let native = sys::CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
        // SAFETY: both devices were given by the driver.
        let answer = unsafe { sys::cuDeviceCanAccessPeer(&mut can, self.device, other.device) };
        self.check(answer, "cuDeviceCanAccessPeer")?;
        if can == 0 {
            return Ok(None);
        }
        // SAFETY: as above.
        let answer = unsafe {
            sys::cuDeviceGetP2PAttribute(&mut atomics, native, self.device, other.device)
        };
        self.check(answer, "cuDeviceGetP2PAttribute")?;
        Ok(Some(if atomics == 0 { Peer::Plain } else { Peer::WithAtomics }))
    }

    /// Lets kernels of this GPU touch the other's memory. Returns whether they may: a GPU without
    /// NVSwitch has at most eight peers, and a hypervisor that hides GPUs from a guest may refuse
    /// only now.
    pub(super) fn enable_peer(&self, other: &GpuContext) -> Result<bool> {
        self.bind()?;
        // SAFETY: both contexts are retained; the flags must be 0.
        match unsafe { sys::cuCtxEnablePeerAccess(other.context, 0) } {
            CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(true),
            CUresult::CUDA_ERROR_TOO_MANY_PEERS | CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED => {
                Ok(false)
            }
            answer => self.check(answer, "cuCtxEnablePeerAccess").map(|()| true),
        }
    }

    /// An event that is free for use.
    fn event(&self) -> Result<NativeHandle> {
        let idle = self.events.lock().pop();
        idle.map_or_else(
            || NativeHandle::new(self, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING),
            Ok,
        )
    }
}

/// How one GPU reaches another's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// Reads and writes.
    Plain,
    /// Atomics, too: as a rule only over NVLink.
    WithAtomics,
}

/// What errors call the work that runs on streams.
pub(super) const WORK: &str = "a kernel or a copy";

/// Answers after which the driver refuses everything else, whichever call they answer.
fn is_fault(answer: CUresult) -> bool {
    is_fault_of_work(answer)
        || matches!(
            answer,
            CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED
                | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
                | CUresult::CUDA_ERROR_UNKNOWN
        )
}

/// Those faults that tell how earlier work ended, whatever the call was.
pub(super) fn is_fault_of_work(answer: CUresult) -> bool {
    matches!(
        answer,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_ASSERT
            | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
            | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUresult::CUDA_ERROR_CONTAINED
            | CUresult::CUDA_ERROR_EXTERNAL_DEVICE
            | CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK
    )
}

impl Drop for GpuContext {
    fn drop(&mut self) {
        // After a fault the driver refuses, or waits for what never ends: its objects belong to the
        // process until that ends.
        if self.poison.get().is_some() {
            return;
        }
        while_nobody_launches(|| self.give_up());
    }
}

impl GpuContext {
    fn give_up(&mut self) {
        let timed = self.clock.take().into_iter().flat_map(GpuClock::into_events);
        for event in timed.chain(std::mem::take(self.events.get_mut())) {
            // SAFETY: made by this context and unused. There is nothing to do about a failure.
            let _ = unsafe { sys::cuEventDestroy_v2(event.0) };
        }
        self.modules.unload();
        if let Some(CopyStream(stream)) = *self.copies.get_mut() {
            // SAFETY: a stream of this context that nobody uses any more.
            let _ = unsafe { sys::cuStreamDestroy_v2(stream) };
        }
        // SAFETY: this has retained it once.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A recorded event of the driver, by which other streams wait. Returns to its context's pool when dropped.
pub(crate) struct NativeEvent {
    handle: NativeHandle,
    context: Arc<GpuContext>,
    /// Identifies the stream that it was recorded on.
    pub(super) lane: usize,
    /// The point of that stream that the event belongs to.
    pub(super) point: u64,
    /// The lane's count.
    needs_host: Arc<AtomicUsize>,
}

impl NativeEvent {
    /// Records an event on `stream`, whose context is current.
    ///
    /// # Safety
    /// `stream` is a live stream of `context`.
    pub(super) unsafe fn record(
        context: &Arc<GpuContext>,
        stream: sys::CUstream,
        (lane, point, needs_host): (usize, u64, Arc<AtomicUsize>),
    ) -> Result<NativeEvent> {
        let handle = context.event()?;
        let event = NativeEvent { handle, context: Arc::clone(context), lane, point, needs_host };
        // SAFETY: the caller's promise; the event is the context's.
        unsafe { handle.record(context, stream) }.map(|()| event)
    }

    /// Whether some operation of its lane, before or behind the event, needs the host in order to end.
    pub(crate) fn needs_host(&self) -> bool {
        // Relaxed: operations before the event were counted before it was recorded.
        self.needs_host.load(Ordering::Relaxed) > 0
    }

    pub(super) fn handle(&self) -> CUevent {
        self.handle.0
    }

    /// Whether the stream has come to the event. A fault is remembered.
    pub(super) fn is_over(&self) -> bool {
        self.handle.is_over(&self.context).unwrap_or(false)
    }
}

impl Drop for NativeEvent {
    fn drop(&mut self) {
        self.context.events.lock().push(self.handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_gpus_are_refused_by_name() {
        assert_eq!(
            [80, 90, 100].map(|number| check_architecture(number, "cuda:0")),
            [Ok(()), Ok(()), Ok(())]
        );
        let refused = check_architecture(75, "cuda:1").unwrap_err().to_string();
        assert!(
            refused.starts_with("cuda:1 has compute capability 7.5; kernels need 8.0"),
            "{refused}"
        );
    }
}
