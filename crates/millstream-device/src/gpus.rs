//! The GPUs of a device set, if it has any and if this build can use them.

#[cfg(feature = "cuda")]
use std::sync::Arc;
use std::time::Duration;

use sysinfo::{CpuRefreshKind, RefreshKind, System};

use crate::block::HostMemory;
use crate::device::DevicePlace;
use crate::device_list::Driver;
use crate::device_set::{DeviceSetBuilder, PlannedDevice};
use crate::memory_budget::MemoryBudget;
use crate::poison::Poison;
use crate::topology::Topology;
use crate::{Error, Result};

/// The driver's side of a device set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gpus {
    #[cfg(feature = "cuda")]
    runtime: Option<Arc<crate::cuda::Runtime>>,
}

fn unavailable(builder: &DeviceSetBuilder, reason: &str) -> Error {
    let (device, reason) = (builder.devices.to_string(), reason.to_string());
    Error::DriverUnavailable { device, driver: "the CUDA driver", reason }
}

/// How many GPUs [`DeviceSet`](crate::DeviceSet)s may use here: none without a
/// driver, or in a build without the feature `cuda`.
pub fn gpu_count() -> usize {
    #[cfg(feature = "cuda")]
    return crate::cuda::count();
    #[cfg(not(feature = "cuda"))]
    return 0;
}

/// Why [`gpu_count`] finds no GPU although there is a driver: it is too old, or does not
/// start. Nothing where there is none, or no GPU, or in a build without the feature `cuda`.
pub fn gpu_fault() -> Option<Error> {
    #[cfg(feature = "cuda")]
    return crate::cuda::fault();
    #[cfg(not(feature = "cuda"))]
    return None;
}

/// The description of a machine whose GPUs are not used: its processors, but not how many of them
/// this process may use.
fn host_machine() -> String {
    let processors = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let system = System::new_with_specifics(processors);
    let all = system.as_ref().map_or(&[][..], System::cpus);
    let name = all.first().map_or("", |processor| processor.brand().trim());
    format!("host devices, {} processors {name}", all.len())
}

#[cfg(not(feature = "cuda"))]
impl Gpus {
    pub(crate) fn open(builder: &DeviceSetBuilder) -> Result<Gpus> {
        match builder.devices.entries().iter().any(|entry| entry.driver == Driver::Cuda) {
            true => Err(unavailable(
                builder,
                "this build has no GPU support (feature cuda); use host devices (host:4)",
            )),
            false => Ok(Gpus::default()),
        }
    }

    pub(crate) fn host_memory(&self) -> HostMemory {
        HostMemory::Heap
    }

    pub(crate) fn poison(&self) -> Poison {
        Poison::default()
    }

    pub(crate) fn memory(&self, _: usize, budget: Option<u64>) -> Result<MemoryBudget> {
        Ok(MemoryBudget::new(budget))
    }

    pub(crate) fn place(&self, _: Driver, _: usize) -> Result<DevicePlace> {
        Ok(DevicePlace::Host)
    }

    pub(crate) fn topology(&self, devices: &[PlannedDevice]) -> Topology {
        Topology::uniform(devices.iter().map(|device| device.name.clone()))
    }

    pub(crate) fn machine(&self) -> Result<String> {
        Ok(host_machine())
    }

    pub(crate) fn warning(&self) -> Option<String> {
        None
    }

    pub(crate) fn outstanding(&self) -> usize {
        0
    }

    pub(crate) fn quiesce(&self) -> Result<()> {
        Ok(())
    }

    pub(crate) fn give_back_unused(&self) -> Result<()> {
        Ok(())
    }

    pub(crate) fn stay_awake(&self, _: Duration) -> bool {
        false
    }
}

#[cfg(feature = "cuda")]
impl Gpus {
    /// Opens the GPUs that the list names, each once.
    pub(crate) fn open(builder: &DeviceSetBuilder) -> Result<Gpus> {
        let mut ordinals: Vec<usize> = Vec::new();
        for entry in builder.devices.entries() {
            if entry.driver == Driver::Cuda {
                ordinals.extend(entry.first..entry.first + entry.count);
            }
        }
        ordinals.sort_unstable();
        ordinals.dedup();
        if ordinals.is_empty() {
            return Ok(Gpus::default());
        }
        if builder.seed.is_some() {
            return Err(unavailable(builder, "only host devices can be simulated"));
        }
        Ok(Gpus { runtime: Some(crate::cuda::Runtime::open(&ordinals, builder.trace.as_ref())?) })
    }

    /// The source of host memory, which GPUs must reach if there are any.
    pub(crate) fn host_memory(&self) -> HostMemory {
        match &self.runtime {
            Some(runtime) => HostMemory::Pinned(Arc::clone(runtime.pinned())),
            None => HostMemory::Heap,
        }
    }

    /// The record of the first fault of one of these GPUs.
    pub(crate) fn poison(&self) -> Poison {
        self.runtime.as_ref().map_or_else(Poison::default, |runtime| runtime.poison().clone())
    }

    /// The budget of a GPU: what is set or, if nothing is, all its memory.
    pub(crate) fn memory(&self, ordinal: usize, budget: Option<u64>) -> Result<MemoryBudget> {
        match (budget, self.gpu(ordinal)) {
            (None, Some(gpu)) => Ok(MemoryBudget::new(Some(gpu.total_memory()?))),
            _ => Ok(MemoryBudget::new(budget)),
        }
    }

    /// The place of one more device.
    pub(crate) fn place(&self, driver: Driver, ordinal: usize) -> Result<DevicePlace> {
        match (driver, self.gpu(ordinal)) {
            (Driver::Host, _) => Ok(DevicePlace::Host),
            (Driver::Cuda, Some(gpu)) => {
                gpu.add_device();
                Ok(DevicePlace::Gpu(Arc::clone(gpu)))
            }
            (Driver::Cuda, None) => {
                Err(Error::Start { reason: format!("cuda:{ordinal} was not opened") })
            }
        }
    }

    pub(crate) fn topology(&self, devices: &[PlannedDevice]) -> Topology {
        let names = devices.iter().map(|device| device.name.clone());
        let Some(runtime) = &self.runtime else {
            return Topology::uniform(names);
        };
        let gpu =
            |device: &PlannedDevice| (device.driver == Driver::Cuda).then_some(device.ordinal);
        let gpus: Vec<Option<usize>> = devices.iter().map(gpu).collect();
        let link = |from: usize, to: usize| match (gpus[from], gpus[to]) {
            (Some(from), Some(to)) => runtime.link(from, to),
            (None, None) => crate::LinkKind::Memory,
            _ => crate::LinkKind::Host,
        };
        let locations = gpus.iter().map(|gpu| runtime.location((*gpu)?));
        Topology::from_links(names, link).with_locations(locations.collect())
    }

    /// A description of the driver and all GPUs of the machine, or of the machine itself if there
    /// are only host devices.
    pub(crate) fn machine(&self) -> Result<String> {
        match &self.runtime {
            Some(runtime) => runtime.machine(),
            None => Ok(host_machine()),
        }
    }

    /// What settings the driver should have had before it was started.
    pub(crate) fn warning(&self) -> Option<String> {
        self.runtime.as_ref().and_then(|_| crate::driver_defaults::warning())
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.runtime.as_ref().map_or(0, |runtime| runtime.outstanding())
    }

    /// Whether a thread that has waited for this long should look again, after a pause that this
    /// call makes, instead of sleeping.
    pub(crate) fn stay_awake(&self, waited: Duration) -> bool {
        self.runtime.is_some() && crate::cuda::stay_awake(waited)
    }

    pub(crate) fn quiesce(&self) -> Result<()> {
        self.runtime.as_ref().map_or(Ok(()), |runtime| runtime.quiesce())
    }

    pub(crate) fn give_back_unused(&self) -> Result<()> {
        self.runtime.as_ref().map_or(Ok(()), |runtime| runtime.give_back_unused())
    }

    fn gpu(&self, ordinal: usize) -> Option<&Arc<crate::cuda::Gpu>> {
        self.runtime.as_ref()?.gpu(ordinal)
    }
}
