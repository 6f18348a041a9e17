//! Devices: where memory lies and streams run.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;

use crate::block::{Contents, HostMemory};
use crate::gpus::Gpus;
use crate::guarded::GuardedBuffer;
use crate::host::{Faults, Runner};
use crate::ledger::Ledger;
use crate::memory::{Allocation, DeviceBuffer};
use crate::memory_budget::{MemoryBudget, MemoryUse};
use crate::shared::{AtomicPod, SharedBuffer};
use crate::stream::Stream;
use crate::stream_kind::StreamKind;
use crate::task::Task;
use crate::topology::{LinkKind, Topology};
use crate::trace::Trace;
use crate::{Error, Result};

/// Number of an endpoint in its device set: devices in order, then the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub(crate) usize);

impl DeviceId {
    /// The number itself.
    pub fn number(self) -> usize {
        self.0
    }
}

/// What all handles of a device share.
#[derive(Debug)]
pub(crate) struct DeviceCore {
    pub(crate) id: DeviceId,
    /// `None` for the host endpoint.
    index: Option<usize>,
    name: Arc<str>,
    memory: Arc<MemoryBudget>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) runner: Arc<Runner>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) host_memory: Arc<HostMemory>,
    pub(crate) place: DevicePlace,
    topology: Arc<Topology>,
    /// Keeps the threads alive that watch the GPUs' streams.
    _gpus: Gpus,
    next_buffer: Arc<AtomicU64>,
    pub(crate) trace: Option<Trace>,
}

/// Where a device's memory and streams are.
#[derive(Debug)]
pub(crate) enum DevicePlace {
    /// The host's.
    Host,
    /// A GPU's, or a share of one.
    #[cfg(feature = "cuda")]
    Gpu(Arc<crate::cuda::Gpu>),
}

impl DevicePlace {
    fn is_host(&self) -> bool {
        matches!(self, DevicePlace::Host)
    }
}

impl DeviceCore {
    pub(crate) fn is_host_endpoint(&self) -> bool {
        self.index.is_none()
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Takes `bytes` from the budget. Returns how many were really taken.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<u64> {
        // An empty buffer counts, too: it belongs to the device's memory.
        let bytes = bytes.max(1);
        match self.memory.take(bytes) {
            Ok(()) => Ok(bytes),
            Err(memory) => Err(self.refused(bytes, memory, None)),
        }
    }

    pub(crate) fn number_buffer(&self) -> u64 {
        // Relaxed: the numbers need only differ.
        self.next_buffer.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the topology lets operations of this device touch memory of `owner`.
    pub(crate) fn is_connected(&self, owner: &DeviceCore) -> bool {
        match (self.index, owner.index) {
            (Some(here), Some(there)) => self.topology.link(here, there) > LinkKind::Host,
            // Every device reaches the host's memory.
            _ => true,
        }
    }

    /// Whether operations of this device may touch `allocation` in this way.
    pub(crate) fn check_reach(&self, task: &Task, allocation: &Allocation) -> Result<()> {
        let reaches = match (&self.place, task) {
            // Copies go through the driver.
            (_, Task::Copy(_)) => true,
            (DevicePlace::Host, _) => {
                allocation.is_host_memory() && self.is_connected(&allocation.device)
            }
            #[cfg(feature = "cuda")]
            (DevicePlace::Gpu(_), _) if allocation.is_of_the_program() => {
                matches!(task, Task::Upload { .. })
            }
            #[cfg(feature = "cuda")]
            (DevicePlace::Gpu(gpu), _) => allocation
                .gpu()
                .is_none_or(|other| gpu.reaches(other) && self.is_connected(&allocation.device)),
        };
        match reaches {
            true => Ok(()),
            false => Err(Error::OutOfReach {
                buffer: allocation.to_string(),
                owner: allocation.device.name.to_string(),
                device: self.name.to_string(),
            }),
        }
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.memory.give_back(bytes);
    }

    /// The error when memory within the budget does not exist.
    pub(crate) fn out_of_memory(&self, requested: u64) -> Error {
        let free = match &self.place {
            DevicePlace::Host => None,
            #[cfg(feature = "cuda")]
            DevicePlace::Gpu(gpu) => gpu.free_memory(),
        };
        self.refused(requested, self.memory.in_use(), free)
    }

    /// The error when the host has no memory for something that a device needs there.
    pub(crate) fn out_of_host_memory(&self, requested: u64) -> Error {
        let MemoryUse { in_use, budget, .. } = MemoryBudget::of_machine();
        let (device, budget) = ("host".to_string(), budget.unwrap_or(u64::MAX));
        Error::OutOfMemory { device, requested, in_use, budget, free: None }
    }

    fn refused(&self, requested: u64, memory: MemoryUse, free: Option<u64>) -> Error {
        let (device, in_use) = (self.name.to_string(), memory.in_use);
        let budget = memory.budget.unwrap_or(u64::MAX);
        Error::OutOfMemory { device, requested, in_use, budget, free }
    }
}

/// A device, or the host as an endpoint. Cheap to clone.
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet};
///
/// let set = DeviceSet::builder().devices(DeviceList::host(2)).build()?;
/// assert_eq!(set.devices()[1].name(), "host:1");
/// assert_eq!(set.host().name(), "host");
/// # Ok::<(), millstream_device::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    pub(crate) core: Arc<DeviceCore>,
}

impl fmt::Debug for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Device({})", self.core.name)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.core.name)
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }
}

impl Eq for Device {}

impl Hash for Device {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.core).hash(state);
    }
}

/// What the devices of one set have in common.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) runner: Arc<Runner>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) host_memory: Arc<HostMemory>,
    pub(crate) gpus: Gpus,
    pub(crate) topology: Arc<Topology>,
    pub(crate) next_buffer: Arc<AtomicU64>,
    pub(crate) trace: Option<Trace>,
}

impl Device {
    pub(crate) fn new(
        id: DeviceId,
        index: Option<usize>,
        name: String,
        place: DevicePlace,
        memory: Arc<MemoryBudget>,
        common: &Common,
    ) -> Device {
        let Common { ledger, runner, faults, host_memory, gpus, topology, next_buffer, trace } =
            common.clone();
        let name = name.into();
        let core = DeviceCore {
            id,
            index,
            name,
            memory,
            ledger,
            runner,
            faults,
            host_memory,
            place,
            topology,
            _gpus: gpus,
            next_buffer,
            trace,
        };
        Device { core: Arc::new(core) }
    }

    /// Number of the endpoint in its device set.
    pub fn id(&self) -> DeviceId {
        self.core.id
    }

    /// Place among the set's devices; `None` for the host endpoint.
    pub fn index(&self) -> Option<usize> {
        self.core.index
    }

    /// Whether this is the host as an endpoint: host code reads and writes its
    /// buffers, and kernels of every device may use them.
    pub fn is_host_endpoint(&self) -> bool {
        self.core.is_host_endpoint()
    }

    /// Whether the two devices are virtual devices of one GPU, or the same device of a GPU: their
    /// kernels share its multiprocessors, whatever a topology says about their links.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(2)).build()?;
    /// let [one, other] = [&set.devices()[0], &set.devices()[1]];
    /// assert!(!one.shares_gpu_with(other) && !one.shares_gpu_with(one));
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    pub fn shares_gpu_with(&self, other: &Device) -> bool {
        match (&self.core.place, &other.core.place) {
            #[cfg(feature = "cuda")]
            (DevicePlace::Gpu(gpu), DevicePlace::Gpu(its)) => Arc::ptr_eq(gpu, its),
            _ => false,
        }
    }

    /// The number of the device's GPU, as in `cuda:1`; all virtual devices of a GPU have the same
    /// number. `None` for host devices and the host endpoint.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// assert_eq!(set.devices()[0].gpu_number(), None);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    pub fn gpu_number(&self) -> Option<usize> {
        match &self.core.place {
            DevicePlace::Host => None,
            #[cfg(feature = "cuda")]
            DevicePlace::Gpu(gpu) => Some(gpu.context().number()),
        }
    }

    /// Call this before you leave launches to the thread of the device's GPU
    /// ([`BoundKernel::submit_soon`](crate::BoundKernel::submit_soon)): it wakes that thread, which
    /// sleeps after 2 ms without launches and takes up to 0.2 ms to wake. Until the thread is
    /// awake, the thread that submits a launch makes it itself. Does nothing on host devices, and
    /// where devices share a GPU.
    ///
    /// ```
    /// # use millstream_device::{DeviceList, DeviceSet};
    /// let set = DeviceSet::builder().devices(DeviceList::host(2)).build()?;
    /// set.devices().iter().for_each(|device| device.expect_launches());
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    pub fn expect_launches(&self) {
        #[cfg(feature = "cuda")]
        if let DevicePlace::Gpu(gpu) = &self.core.place {
            gpu.expect_launches();
        }
    }

    /// Copies of up to this many bytes are short enough for others to wait behind them: 64 KiB.
    pub const SMALL_COPY_BYTES: usize = 64 << 10;

    /// Whether copies of more than [`SMALL_COPY_BYTES`](Device::SMALL_COPY_BYTES) are under way on
    /// streams of the device's GPU, including those of other virtual devices on it. A copy engine
    /// finishes such copies before it serves another stream. A copy counts from when the driver
    /// gets it until the host knows that it is over. That is some microseconds after its end or, if
    /// no event is recorded behind it, when the host hears of something later. `false` on host
    /// devices.
    ///
    /// ```
    /// # use millstream_device::{DeviceList, DeviceSet};
    /// let set = DeviceSet::builder().devices(DeviceList::host(2)).build()?;
    /// assert!(!set.devices()[0].is_copying());
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    pub fn is_copying(&self) -> bool {
        match &self.core.place {
            DevicePlace::Host => false,
            #[cfg(feature = "cuda")]
            DevicePlace::Gpu(gpu) => gpu.is_copying(),
        }
    }

    /// Whether streams of this device copy several buffers faster together
    /// ([`Stream::copy_each`](crate::Stream::copy_each)): those of a GPU do, with a driver for CUDA 13.0 or later.
    pub fn copies_together(&self) -> bool {
        match &self.core.place {
            DevicePlace::Host => false,
            #[cfg(feature = "cuda")]
            DevicePlace::Gpu(_) => crate::cuda::copies_batches(),
        }
    }

    /// Whether this is a GPU, or a virtual device on one.
    pub fn is_gpu(&self) -> bool {
        !matches!(self.core.place, DevicePlace::Host)
    }

    /// The name, as in device lists; `host` for the host endpoint.
    pub fn name(&self) -> String {
        self.core.name.to_string()
    }

    /// Whether packets to the other device go through memory of the host: the topology says that
    /// the two do not reach each other's memory, and neither of them is the host \[G §2.1\].
    pub fn copies_through_host(&self, to: &Device) -> bool {
        let (Some(here), Some(there)) = (self.index(), to.index()) else {
            return false;
        };
        let one_is_the_hosts = self.core.place.is_host() != to.core.place.is_host();
        here != there && !one_is_the_hosts && !self.core.topology.are_peers(here, there)
    }

    /// A new in-order stream for kernels.
    ///
    /// # Errors
    /// On a GPU: one that has failed, a refusal of the driver, no pinned memory.
    pub fn stream(&self) -> Result<Stream> {
        self.stream_of(StreamKind::Compute)
    }

    /// A new in-order stream of this kind.
    ///
    /// # Errors
    /// As [`Device::stream`].
    pub fn stream_of(&self, kind: StreamKind) -> Result<Stream> {
        Stream::new(self.clone(), kind, None)
    }

    /// A buffer of `len` zeroed items.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Alignment`] of items aligned to more than 256 bytes, where
    /// memory comes from the CUDA driver.
    pub fn buffer<T: Pod>(&self, len: usize) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::new(self, len, Contents::Zeros)
    }

    /// As [`Device::buffer`], for items that are written before they are read. On a GPU, and in
    /// memory of the host that GPUs reach, the buffer first contains whatever the memory held
    /// before. This saves the time to clear it, and lets memory checkers detect reads of items that
    /// were never written.
    ///
    /// # Errors
    /// As [`Device::buffer`].
    pub fn buffer_to_overwrite<T: Pod>(&self, len: usize) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::new(self, len, Contents::Any)
    }

    /// A buffer of memory that the program already has on the device, with its present contents: on
    /// a GPU, memory from `cuMemAlloc`, of another library or of another program; on a host device,
    /// the program's own memory, which GPUs' streams can copy but their kernels do not reach. It
    /// does not count against the device's budget. `owner` is dropped when neither the buffer nor
    /// an operation uses the memory any more. This may happen on any thread, even on one that must
    /// not wait. So if `owner` frees something with a call that waits for kernels, as `cuMemFree`
    /// does, let it do so on a thread of its own. A panic in its drop is caught.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let device = &set.devices()[0];
    /// let mut items = vec![1u32, 2, 3];
    /// let address = items.as_mut_ptr().expose_provenance();
    /// // SAFETY: the vector keeps the items, and nobody else has it.
    /// let buffer = unsafe { device.adopt::<u32>(address, 3, items) };
    /// let copy = set.block_on(device.stream()?.download(&buffer)?)??;
    /// assert_eq!(copy, [1, 2, 3]);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Safety
    /// Until `owner` is dropped, there must be `len` items at `address` in the device's memory,
    /// aligned as `T` is, and with their provenance exposed if it is the program's memory. Only
    /// this buffer uses them, or all other uses are ordered with its operations (see
    /// [`LibraryCall`](crate::LibraryCall)). If peers are to reach the memory, it must be plain
    /// memory: peers do not reach memory of stream-ordered pools.
    pub unsafe fn adopt<T: Pod>(
        &self,
        address: usize,
        len: usize,
        owner: impl Send + 'static,
    ) -> DeviceBuffer<T> {
        DeviceBuffer::adopted(self, address, len, Box::new(owner))
    }

    /// A buffer of `len` zeroed items that are only touched atomically.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn shared<T: AtomicPod>(&self, len: usize) -> Result<SharedBuffer<T>> {
        Ok(SharedBuffer::new(self.buffer(len)?))
    }

    /// As [`Device::shared`], for items that are written before they are read: see
    /// [`Device::buffer_to_overwrite`].
    ///
    /// # Errors
    /// As [`Device::shared`].
    pub fn shared_to_overwrite<T: AtomicPod>(&self, len: usize) -> Result<SharedBuffer<T>> {
        Ok(SharedBuffer::new(self.buffer_to_overwrite(len)?))
    }

    /// A buffer of `len` zeroed items that words guard.
    ///
    /// # Errors
    /// As [`Device::buffer`].
    pub fn guarded<T: Pod>(&self, len: usize) -> Result<GuardedBuffer<T>> {
        GuardedBuffer::new(self, len)
    }

    /// Memory of the physical device.
    pub fn memory(&self) -> MemoryUse {
        self.core.memory.in_use()
    }
}
