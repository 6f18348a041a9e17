//! What can go wrong with a distributed worklist.

use std::time::Duration;

/// The result of a run.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a distributed worklist refused to start, or failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The dataflow graph below failed; this is its first cause.
    #[error(transparent)]
    Flow(#[from] millstream_flow::Error),
    /// The number of problems is not that of the devices.
    #[error("{problems} problems for {devices} devices")]
    ProblemCount {
        /// Problems given.
        problems: usize,
        /// Devices of the context.
        devices: usize,
    },
    /// An initial item that does not exist.
    #[error(
        "initial item {item} of device {device}: there are {items} items and {devices} devices"
    )]
    InitialItem {
        /// The device it was given to.
        device: usize,
        /// The item.
        item: u32,
        /// Items of the worklist.
        items: usize,
        /// Devices of the context.
        devices: usize,
    },
    /// An initial item of a device that does not own it.
    #[error("initial item {item} of device {device}: it is owned by device {owner}")]
    NotTheOwner {
        /// The device it was given to.
        device: usize,
        /// The item.
        item: u32,
        /// The device that owns it.
        owner: usize,
    },
    /// A device's place or an outbox that does not exist.
    #[error("there is no {what} {number}: there are {count}")]
    NoSuch {
        /// What does not exist: `"device"` or `"outbox"`.
        what: &'static str,
        /// Its number, from 0 on.
        number: usize,
        /// How many there are.
        count: usize,
    },
    /// More items than 32-bit numbers can name.
    #[error("{items} items do not fit 32-bit numbers")]
    TooManyItems {
        /// Items asked for.
        items: usize,
    },
    /// The fused worker was asked for where it cannot run.
    #[error("the fused worker cannot run: {reason}; let the host drive the worklist")]
    NotFused {
        /// What it would need.
        reason: &'static str,
    },
    /// A run that the host drives stands still: no kernel is under way, although there are
    /// unprocessed items. A fault of the worklist or of a program's kernels.
    #[error(
        "nothing has changed for {patience:?}, at threshold {threshold}, and no kernel is \
         under way{counters}"
    )]
    Stalled {
        /// How long nothing may change.
        patience: Duration,
        /// The priority threshold.
        threshold: u32,
        /// Where the counters of each device stand.
        counters: String,
    },
    /// A failure below, on devices of a fused run.
    #[error("{cause}{counters}")]
    Fused {
        /// The first cause.
        cause: millstream_flow::Error,
        /// Where the counters of each device stood when it last told the host, up to a
        /// millisecond before.
        counters: String,
    },
    /// Direct routing for a program without owners.
    #[error("direct routing needs a program that says who owns item {item}")]
    NoOwner {
        /// An item without an owner.
        item: u32,
    },
}

impl Error {
    /// The failure below, if that is the cause.
    pub fn cause(&self) -> Option<&millstream_flow::Error> {
        match self {
            Error::Flow(cause) | Error::Fused { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

impl From<millstream_device::Error> for Error {
    fn from(error: millstream_device::Error) -> Error {
        Error::Flow(millstream_flow::Error::Device(error))
    }
}
