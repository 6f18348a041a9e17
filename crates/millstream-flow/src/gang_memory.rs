//! What each kernel of a gang meets the others by, and tells the host.

use std::time::Duration;

use millstream_device::{Device, Error, SharedBuffer};

use crate::{Context, Result};

/// Memory of one device for kernels that meet in the gang's barrier
/// (`gang_barrier.cuh`). On a host device, where twins do what the kernels do and the
/// host is the barrier, the words are in the host's memory, so that it may look.
///
/// ```
/// use millstream_flow::{Context, Devices, GangMemory};
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let memory = GangMemory::of_all(&context, 32, 3)?;
/// assert_eq!(memory.len(), 2);
/// assert_eq!(memory[0].words.len(), GangMemory::BARRIER_WORDS + 32);
/// assert_eq!(memory[1].report.load(2)?, 0);
/// # Ok::<(), millstream_flow::Error>(())
/// ```
#[derive(Debug)]
pub struct GangMemory {
    /// The barrier's words, and behind them those of the kernel. All are 0 at first.
    pub words: SharedBuffer<u64>,
    /// In the host's memory: what the kernel writes at its end.
    pub report: SharedBuffer<u64>,
    /// Whose memory it is.
    pub device: Device,
}

impl GangMemory {
    /// Words of a device that the barrier takes, or more.
    pub const BARRIER_WORDS: usize = 512;
    /// How long the kernels wait for each other.
    pub const PATIENCE: Duration = Duration::from_secs(10);

    /// For each device of a context `words` more than the barrier takes, and a report of
    /// `reported` words. [Wakes the links](Context::wake_links).
    ///
    /// # Errors
    /// No memory, or a failed device.
    pub fn of_all(context: &Context, words: usize, reported: usize) -> Result<Vec<GangMemory>> {
        context.wake_links()?;
        let of = |device: &Device| {
            let owner = if device.is_gpu() { device } else { context.host() };
            Ok(GangMemory {
                words: owner.shared(GangMemory::BARRIER_WORDS + words)?,
                report: context.host().shared(reported)?,
                device: device.clone(),
            })
        };
        context.devices().iter().map(of).collect()
    }

    /// Why a run has failed whose kernel on this device has given up waiting, in `place`.
    pub fn not_met(&self, kernel: &str, place: &str) -> Error {
        let patience = GangMemory::PATIENCE;
        let message = format!("the devices have not met for {patience:?}, in {place}");
        let (kernel, device) = (kernel.into(), self.device.name());
        Error::KernelFailed { kernel, device, message: message.into() }
    }
}
