//! What can go wrong with devices.

use std::any::Any;
use std::sync::Arc;

use crate::contain::panic_text;

/// The result of a device operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a device refused or failed an operation. Cheap to clone: the first cause
/// travels to everyone who waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device list that cannot be read, or has too many devices.
    #[error("device list {list:?}: {reason}")]
    DeviceList {
        /// The list as written.
        list: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A driver, or a compiler of kernels, that this build or this machine does not have.
    #[error("{device} needs {driver}: {reason}")]
    DriverUnavailable {
        /// Who needs it: the device asked for, or a kernel.
        device: String,
        /// What is needed.
        driver: &'static str,
        /// Why it is not there and what to do.
        reason: String,
    },
    /// A GPU without instructions that kernels need.
    #[error(
        "{device} has compute capability {}.{}; kernels need 8.0 or later: use other GPUs, or host devices (host:4)",
        architecture / 10, architecture % 10
    )]
    GpuTooOld {
        /// The device asked for.
        device: String,
        /// Its compute capability, such as 75 for 7.5.
        architecture: u32,
    },
    /// A GPU that is not one of this machine's.
    #[error("there is no {device}: {here}")]
    NoSuchGpu {
        /// The device asked for.
        device: String,
        /// Which there are.
        here: String,
    },
    /// A topology that cannot be read, or is not one of these devices.
    #[error("topology: {reason}")]
    Topology {
        /// What is wrong with it.
        reason: String,
    },
    /// The cache on disk cannot be written.
    #[error("cannot write to the cache {folder}: {reason}; set MILLSTREAM_CACHE to another folder")]
    Cache {
        /// Its folder.
        folder: String,
        /// The system's reason.
        reason: String,
    },
    /// The operating system refused something that opening devices needs.
    #[error("cannot start: {reason}")]
    Start {
        /// Its reason.
        reason: String,
    },
    /// A device's memory, or its budget, is used up: by this process, or on a GPU by others too.
    #[error(
        "{device}: out of memory: {requested} bytes requested, {}; drop what is not needed any \
         more, or spread the data over more devices", used_of(*in_use, *budget, *free)
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes requested.
        requested: u64,
        /// Bytes in use.
        in_use: u64,
        /// Bytes the device may use; [`u64::MAX`] without a limit.
        budget: u64,
        /// Bytes that no process uses, where it was the driver that refused.
        free: Option<u64>,
    },
    /// Items that must be aligned to more than memory from the CUDA driver is.
    #[error("{device}: items aligned to {alignment} bytes, in memory aligned to {most}")]
    Alignment {
        /// The device.
        device: String,
        /// What an item's address must be a multiple of.
        alignment: usize,
        /// What the memory's address is a multiple of.
        most: usize,
    },
    /// A range outside of a buffer.
    #[error("items {start}..{end} of {buffer}, which holds {len}")]
    OutOfRange {
        /// The buffer.
        buffer: String,
        /// First item asked for.
        start: usize,
        /// One past the last.
        end: usize,
        /// Items in the buffer.
        len: usize,
    },
    /// A copy between ranges of different lengths.
    #[error("{from} items copied into {to}")]
    LengthMismatch {
        /// Items at the source.
        from: usize,
        /// Items at the destination.
        to: usize,
    },
    /// Host code touched a buffer that is not the host endpoint's.
    #[error("{buffer} cannot be reached by host code; copy it to the host")]
    NotHostAccessible {
        /// The buffer.
        buffer: String,
    },
    /// A kernel's argument in memory that its device cannot reach.
    #[error("{device} does not reach {buffer} of {owner}; copy it, or use a link")]
    OutOfReach {
        /// The buffer.
        buffer: String,
        /// The device whose memory it is.
        owner: String,
        /// The device of the kernel.
        device: String,
    },
    /// More buffers than kernels take together, one of each device.
    #[error("a kernel takes at most {most} buffers together; these are {buffers}")]
    TooManyBuffers {
        /// Buffers given.
        buffers: usize,
        /// As many as it takes.
        most: usize,
    },
    /// A call of the CUDA driver failed.
    #[error("{device}: {call} failed with {reason}")]
    Cuda {
        /// The device.
        device: String,
        /// The driver's function.
        call: &'static str,
        /// The driver's name for it.
        reason: String,
    },
    /// A kernel without device code was launched on a GPU.
    #[error("kernel {kernel} has no CUDA source and cannot run on {device}")]
    NoDeviceCode {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
    },
    /// CUDA source that does not compile.
    #[error("{file} does not compile for {architecture}:\n{log}")]
    Compile {
        /// Name of the source.
        file: String,
        /// The architecture, such as `sm_90`.
        architecture: String,
        /// What the compiler said.
        log: Arc<str>,
    },
    /// A kernel whose parameters are not what its signature says.
    #[error("kernel {kernel}: {reason}")]
    Signature {
        /// The kernel.
        kernel: String,
        /// How they differ.
        reason: String,
    },
    /// An access that no event orders after the one it depends on.
    #[error(
        "{operation} uses {buffer}, but is not ordered after {conflicting}: wait for {event} first"
    )]
    Hazard {
        /// The operation refused.
        operation: String,
        /// The buffer, with its label.
        buffer: String,
        /// The operation that it should come after.
        conflicting: String,
        /// The earliest event that would order them.
        event: String,
    },
    /// Two arguments of one operation, one of which is written, are the same buffer.
    #[error("{operation} has {buffer} twice, and writes it: pass it once, or as Shared")]
    BoundTwice {
        /// The operation refused.
        operation: String,
        /// The buffer, with its label.
        buffer: String,
    },
    /// Memory that is [lent](crate::Stream::lent), to be written.
    #[error("{operation} would write {buffer}, which is lent and only read; upload it instead")]
    Lent {
        /// The operation refused.
        operation: String,
        /// The buffer, with its label.
        buffer: String,
    },
    /// Memory that words guard, given to a kernel that knows nothing of them.
    #[error("{buffer} is guarded by words: kernels take it as Guarded")]
    Guarded {
        /// The buffer.
        buffer: String,
    },
    /// Host code that is at items of a guarded buffer, and would wait for itself.
    #[error("host code is at items of {buffer} already; one closure at a time")]
    Nested {
        /// The buffer.
        buffer: String,
    },
    /// A buffer or an event of another device set: the sets' orders are not
    /// comparable.
    #[error("{operation} on {device} uses something of another device set")]
    DifferentDeviceSet {
        /// The operation refused.
        operation: String,
        /// The device it was meant for.
        device: String,
    },
    /// A kernel reported a fault or panicked.
    #[error("kernel {kernel} failed on {device}: {message}")]
    KernelFailed {
        /// The kernel.
        kernel: Arc<str>,
        /// The device it ran on.
        device: String,
        /// Its fault, or what the panic said.
        message: Arc<str>,
    },
    /// An [`Injection`](crate::Injection) that makes no sense.
    #[error("injection: {reason}")]
    Injection {
        /// What is wrong with it.
        reason: String,
    },
    /// A failure asked for by an [`Injection`](crate::Injection).
    #[error("injected failure of {operation} on {device}")]
    Injected {
        /// The operation.
        operation: String,
        /// The device.
        device: String,
    },
    /// A simulation in which nothing can run although somebody waits.
    #[error(
        "deadlock after {steps} steps with seed {seed}: {}",
        deadlock_text(outstanding, waiting)
    )]
    Deadlock {
        /// The seed that replays it.
        seed: u64,
        /// Operations run before.
        steps: u64,
        /// Operations that cannot run, with what they wait for.
        outstanding: Vec<String>,
        /// What tasks wait for: events that are awaited, and what the layers above know
        /// ([`Waits`](crate::Waits)).
        waiting: Vec<String>,
    },
    /// A [`Promise`](crate::Promise) that will not be kept.
    #[error("{promise} will not come: {reason}")]
    Unkept {
        /// What was promised.
        promise: String,
        /// Why not.
        reason: String,
    },
    /// The object was given up before this call.
    #[error("the buffer is no longer here")]
    Closed,
}

impl Error {
    /// The error of a kernel in which code of the program panicked.
    pub(crate) fn panicked(kernel: &Arc<str>, device: &str, panic: Box<dyn Any + Send>) -> Error {
        let text = panic_text(panic);
        Error::KernelFailed {
            kernel: Arc::clone(kernel),
            device: device.to_string(),
            message: text.as_deref().unwrap_or("a panic without a message").into(),
        }
    }
}

fn deadlock_text(outstanding: &[String], waiting: &[String]) -> String {
    let none = match waiting.is_empty() {
        true => "a task waits and no operation is outstanding".to_string(),
        false => "no operation is outstanding".to_string(),
    };
    let operations = if outstanding.is_empty() { std::slice::from_ref(&none) } else { outstanding };
    [operations, waiting].concat().join("; ")
}
fn used_of(in_use: u64, budget: u64, free: Option<u64>) -> String {
    let used = match budget {
        u64::MAX => format!("{in_use} in use"),
        _ => format!("{in_use} of {budget} in use"),
    };
    match free {
        Some(free) => {
            format!("{used} here, {free} free for all processes, which nvidia-smi shows")
        }
        None => used,
    }
}
