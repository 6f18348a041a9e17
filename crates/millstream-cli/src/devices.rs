//! `--devices`, `--topology`, `--transfer` and `--trace`: which devices a command uses, how they are
//! connected, how packets get from one to another, and what they did.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use millstream::device::{Error as DeviceError, Topology, TransferWay, gpu_fault};
use millstream::flow::{Context, ContextBuilder, Devices, Error as FlowError};

use crate::error::Error;
use crate::output::Named;
use crate::remark::remark;
use crate::trace;

/// The devices to use.
#[derive(Debug, Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct DeviceOptions {
    /// A comma list: cuda:0-3 (GPUs), cuda:0x4 (four virtual devices on one
    /// GPU), host:4 (host devices), host:2x3 (three virtual devices on each
    /// of two), cuda:0,host:1 (both). Unless given, what the
    /// variable MILLSTREAM_DEVICES names; else every GPU; else host:4.
    #[arg(long, value_name = "LIST")]
    devices: Option<String>,
    /// Connects the devices as this file says: {"links": [[...], ...]}, a row
    /// for each device, of memory, nvlink, pcie and host (no direct access).
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
}

/// The same, for commands that send packets.
#[derive(Debug, Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct LinkedDeviceOptions {
    #[command(flatten)]
    devices: DeviceOptions,
    /// Sends all packets this way, or the closest to it that a pair of devices has; chosen for
    /// each packet unless given. Kernels that stay on their devices always push: with another
    /// way the host drives the devices instead.
    #[arg(long, value_enum)]
    transfer: Option<Transfer>,
    /// Writes when each kernel and copy began and ended, for ui.perfetto.dev or chrome://tracing.
    /// Takes some microseconds for each.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// How packets get from device to device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Transfer {
    /// By copy engines.
    Copy,
    /// By kernels that write into the memory of other devices.
    Push,
    /// By kernels that write into host memory, and others that read it from there.
    Host,
}

impl From<Transfer> for TransferWay {
    fn from(transfer: Transfer) -> TransferWay {
        match transfer {
            Transfer::Copy => TransferWay::Copy,
            Transfer::Push => TransferWay::Push,
            Transfer::Host => TransferWay::Host,
        }
    }
}

impl DeviceOptions {
    /// Opens the devices.
    ///
    /// # Errors
    /// [`Error::Usage`] for a list or a topology that cannot be read, or devices
    /// that are not here.
    pub(crate) fn open(&self) -> Result<Context, Error> {
        self.opened(self.builder()?)
    }

    /// The same, but without remarks on earlier measurements.
    pub(crate) fn open_to_measure(&self) -> Result<Context, Error> {
        let context = self.built(self.builder()?)?;
        if self.devices.is_none() && !context.all_gpus() {
            gpu_fault().iter().for_each(remark);
        }
        Ok(context)
    }

    fn builder(&self) -> Result<ContextBuilder, Error> {
        if !cfg!(feature = "cuda") && has_nvidia_device(Path::new("/dev")) {
            remark("this build has no GPU support (feature cuda)");
        }
        let devices = match &self.devices {
            Some(list) => list.parse().map_err(refused)?,
            None => Devices::All,
        };
        let mut builder = Context::builder().devices(devices);
        if let Some(file) = &self.topology {
            builder =
                builder.topology(Topology::read(file).map_err(FlowError::Device).map_err(refused)?);
        }
        Ok(builder)
    }

    /// Opens the devices described, and remarks on what only costs time.
    fn opened(&self, builder: ContextBuilder) -> Result<Context, Error> {
        let context = self.built(builder)?;
        context.warnings().iter().for_each(remark);
        Ok(context)
    }

    fn built(&self, builder: ContextBuilder) -> Result<Context, Error> {
        builder.build().map_err(|error| match (error, &self.topology) {
            (FlowError::Device(error @ DeviceError::Topology { .. }), Some(file)) => {
                Error::Usage(format!("{}: {error}", file.display()))
            }
            (error, _) => refused(error),
        })
    }
}

impl LinkedDeviceOptions {
    /// The file of `--trace`.
    pub(crate) fn trace(&self) -> Option<&PathBuf> {
        self.trace.as_ref()
    }

    /// The file of `--topology`, with that name.
    pub(crate) fn topology(&self) -> Named<'_> {
        ("--topology", self.devices.topology.as_ref())
    }

    /// As [`DeviceOptions::open`].
    pub(crate) fn open(&self) -> Result<Context, Error> {
        let mut builder = self.devices.builder()?;
        if let Some(transfer) = self.transfer {
            builder = builder.transfer(transfer.into());
        }
        if let Some(file) = &self.trace {
            builder = builder.trace(trace::begin(file));
        }
        self.devices.opened(builder)
    }
}

/// A usage error if another list would have been accepted; else the devices' failure.
fn refused(error: FlowError) -> Error {
    match error {
        FlowError::Device(
            DeviceError::DeviceList { .. }
            | DeviceError::DriverUnavailable { .. }
            | DeviceError::GpuTooOld { .. }
            | DeviceError::NoSuchGpu { .. }
            | DeviceError::Topology { .. },
        ) => Error::Usage(error.to_string()),
        error => Error::Flow(error),
    }
}

/// Whether a folder of devices has an NVIDIA GPU in it.
fn has_nvidia_device(folder: &Path) -> bool {
    let is_gpu = |name: &str| {
        let number = name.strip_prefix("nvidia").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| name.to_str().is_some_and(is_gpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_numbered_files() {
        let folder = tempfile::tempdir().unwrap();
        let add = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
        ["nvidiactl", "nvidia-uvm", "nvidia", "null"].into_iter().for_each(add);
        assert!(!has_nvidia_device(folder.path()));
        add("nvidia3");
        assert!(has_nvidia_device(folder.path()));
        assert!(!has_nvidia_device(&folder.path().join("nothing")));
    }
}
