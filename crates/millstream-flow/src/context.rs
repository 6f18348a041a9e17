//! The runtime environment of a program \[G §4, Table 1\].

use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;

use millstream_device::{
    Device, DeviceList, DeviceSet, DeviceSetBuilder, Injection, Topology, Trace, TransferWay,
};

use crate::Result;
use crate::full_empty::Watcher;
use crate::gang_permit::GangPermit;
use crate::gang_turns::GangTurns;
use crate::waking::Waking;

/// Which devices a [`Context`] manages.
#[derive(Clone, Debug, Default)]
pub enum Devices {
    /// The devices that the environment variable `MILLSTREAM_DEVICES` names. If it is unset or
    /// empty: every GPU, or four host devices if there is no usable GPU. If the driver is too old
    /// or does not start, [`Context::warnings`] says so.
    #[default]
    All,
    /// These, as written on a command line.
    List(DeviceList),
}

impl Devices {
    /// `count` host devices.
    pub fn host(count: usize) -> Devices {
        Devices::List(DeviceList::host(count))
    }

    /// The first `count` GPUs.
    pub fn cuda(count: usize) -> Devices {
        Devices::List(DeviceList::cuda(count))
    }
}

/// As on a command line.
///
/// ```
/// use millstream_flow::{Context, Devices};
///
/// // Such as "cuda:0-1", or "cuda:0x4" for four virtual devices on one GPU.
/// let devices: Devices = "host:2".parse()?;
/// assert_eq!(Context::builder().devices(devices).build()?.devices().len(), 2);
/// # Ok::<(), millstream_flow::Error>(())
/// ```
impl FromStr for Devices {
    type Err = crate::Error;

    fn from_str(list: &str) -> Result<Devices> {
        Ok(Devices::List(list.parse()?))
    }
}

/// The devices in use, their topology and memory. Cheap to clone. Several graphs may run on one context
/// at once, and several contexts may exist.
///
/// Only gangs, kernels that wait for each other, exclude each other: on a GPU one runs after the other,
/// whichever contexts of the process they belong to. So end a series of collectives, for example, before
/// you wait for another gang.
///
/// ```
/// use millstream_flow::{Context, Devices};
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// assert_eq!(context.devices().len(), 2);
/// # Ok::<(), millstream_flow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Context {
    devices: DeviceSet,
    gangs: GangTurns,
    transfer: Option<TransferWay>,
    watcher: Arc<Watcher>,
    waking: Arc<Waking>,
}

impl Context {
    /// Starts to describe a context.
    pub fn builder() -> ContextBuilder {
        let devices = DeviceSet::builder();
        ContextBuilder { devices, list: None, is_simulated: false, transfer: None }
    }

    /// The devices, in the order they were given.
    pub fn devices(&self) -> &[Device] {
        self.devices.devices()
    }

    /// Whether all devices are GPUs.
    pub fn all_gpus(&self) -> bool {
        self.devices().iter().all(Device::is_gpu)
    }

    /// Whether one of the devices is a GPU.
    pub fn any_gpu(&self) -> bool {
        self.devices().iter().any(Device::is_gpu)
    }

    /// The host as an endpoint: its buffers are readable and writable by host
    /// code, and kernels of every device may use them.
    pub fn host(&self) -> &Device {
        self.devices.host()
    }

    /// How the devices are connected.
    pub fn topology(&self) -> &Topology {
        self.devices.topology()
    }

    /// The way set with [`ContextBuilder::transfer`]; `None` if it is chosen for each packet.
    pub fn transfer(&self) -> Option<TransferWay> {
        self.transfer
    }

    /// Whether kernels that stay on their devices may tell each other what they find. They do so by
    /// pushing, so the answer is `false` if packets are to go
    /// [another way](ContextBuilder::transfer). It is always `true` with a single device, which has
    /// nobody to tell.
    ///
    /// ```
    /// use millstream_device::TransferWay;
    /// use millstream_flow::{Context, Devices};
    ///
    /// let pushes = |devices, way| {
    ///     let builder = Context::builder().devices(Devices::host(devices)).transfer(way);
    ///     Ok::<_, millstream_flow::Error>(builder.build()?.kernels_push())
    /// };
    /// assert!(pushes(2, TransferWay::Push)? && !pushes(2, TransferWay::Copy)?);
    /// assert!(pushes(1, TransferWay::Copy)?);
    /// # Ok::<(), millstream_flow::Error>(())
    /// ```
    pub fn kernels_push(&self) -> bool {
        self.devices().len() < 2 || matches!(self.transfer, None | Some(TransferWay::Push))
    }

    /// Problems found when the devices were opened that did not keep them from opening: see
    /// [`DeviceSet::warnings`](millstream_device::DeviceSet::warnings).
    pub fn warnings(&self) -> &[String] {
        self.devices.warnings()
    }

    /// The layer below.
    pub fn device_set(&self) -> &DeviceSet {
        &self.devices
    }

    /// Runs a future to its end on this thread. Any executor will do; this one
    /// is needed on a simulated context, where it also runs the devices.
    ///
    /// # Errors
    /// On a simulated context, a deadlock: the future waits and nothing can run.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output> {
        Ok(self.devices.block_on(future)?)
    }

    /// Begins to wake the links between GPUs, which fall asleep when nothing crosses them, and returns
    /// whether there was any to wake; links that a gang has just used are left alone. Call it before
    /// preparing memory for kernels that store into other devices' memory. The copies that wake links run
    /// beside whatever else does, and touch nobody's buffers.
    ///
    /// # Errors
    /// No memory, or a failed device.
    ///
    /// ```
    /// use millstream_flow::{Context, Devices};
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// assert!(!context.wake_links()?); // host devices have one memory
    /// # Ok::<(), millstream_flow::Error>(())
    /// ```
    pub fn wake_links(&self) -> Result<bool> {
        self.waking.wake(self.devices(), self.topology())
    }

    /// Wakes the links between GPUs.
    pub(crate) fn waking(&self) -> &Waking {
        &self.waking
    }

    /// Waits until no gang runs on the context's devices; they are free again when the permit is dropped.
    pub(crate) async fn gang_permit(&self) -> GangPermit {
        self.gangs.take().await
    }

    /// Looks at words that ring nothing.
    pub(crate) fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// Whether `device` is one of this context's endpoints.
    pub(crate) fn manages(&self, device: &Device) -> bool {
        device == self.host() || self.devices().contains(device)
    }
}

/// Describes a [`Context`].
#[derive(Debug)]
pub struct ContextBuilder {
    devices: DeviceSetBuilder,
    list: Option<DeviceList>,
    is_simulated: bool,
    transfer: Option<TransferWay>,
}

impl ContextBuilder {
    /// The devices to manage.
    #[must_use]
    pub fn devices(mut self, devices: Devices) -> ContextBuilder {
        self.list = match devices {
            Devices::All => None,
            Devices::List(list) => Some(list),
        };
        self
    }

    /// Bytes each physical device may allocate.
    #[must_use]
    pub fn memory_budget(mut self, bytes: u64) -> ContextBuilder {
        self.devices = self.devices.memory_budget(bytes);
        self
    }

    /// Threads that run host devices.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> ContextBuilder {
        self.devices = self.devices.threads(threads);
        self
    }

    /// Runs host devices on one thread, in an order chosen by `seed`. There are four of them,
    /// unless [`devices`](ContextBuilder::devices) lists others.
    #[must_use]
    pub fn simulated(mut self, seed: u64) -> ContextBuilder {
        self.devices = self.devices.simulated(seed);
        self.is_simulated = true;
        self
    }

    /// Delays, reorders or fails operations of host devices, and delays packets of
    /// persistent kernels.
    #[must_use]
    pub fn injection(mut self, injection: Injection) -> ContextBuilder {
        self.devices = self.devices.injection(injection);
        self
    }

    /// Connects the devices as `topology` says, but never better than they really are. Between
    /// devices that it does not connect, packets go through memory of the host, and kernels do not
    /// reach each other's memory.
    ///
    /// ```
    /// use millstream_flow::{Context, Devices};
    ///
    /// let pairs = r#"{ "links": [["memory", "pcie", "host", "host"],
    ///                            ["pcie", "memory", "host", "host"],
    ///                            ["host", "host", "memory", "pcie"],
    ///                            ["host", "host", "pcie", "memory"]] }"#;
    /// let builder = Context::builder().devices(Devices::host(4));
    /// let context = builder.topology(pairs.parse()?).build()?;
    /// assert!(context.topology().are_peers(0, 1) && !context.topology().all_peers());
    /// # Ok::<(), millstream_flow::Error>(())
    /// ```
    #[must_use]
    pub fn topology(mut self, topology: Topology) -> ContextBuilder {
        self.devices = self.devices.topology(topology);
        self
    }

    /// Sends the packets of all links and of collectives this way \[G §2.1\]. Where two endpoints
    /// cannot use it, the closest way is taken: a push to memory out of reach goes through the host
    /// instead; the way through the host is just a push if the host itself is the destination; and
    /// the host, which has no kernels, always copies. Algorithms that would keep kernels on the
    /// devices, which push, send packets over links instead if another way than a push is set
    /// ([`Context::kernels_push`]).
    ///
    /// Unless set, the way is chosen for each packet: the one measured to be fastest
    /// ([`TransferTable`](millstream_device::TransferTable)), by latency if the packet is a whole
    /// message, and by rate if it is one of many. Without measurements, packets between devices
    /// that do not reach each other's memory are moved by kernels through the host, and all others
    /// by copy engines. A message of up to 64 KiB out of a GPU does not wait for a copy engine that
    /// is moving a large one: kernels move it instead.
    ///
    /// ```
    /// use millstream_device::TransferWay;
    /// use millstream_flow::{Buffers, Context, Devices, Graph};
    ///
    /// let builder = Context::builder().devices(Devices::host(2)).transfer(TransferWay::Push);
    /// let context = builder.build()?;
    /// let [one, other] = context.devices() else { panic!() };
    /// let graph = Graph::new(&context);
    /// let (mut output, input) = graph.link::<u32>(one, other, Buffers::items(4))?;
    /// let statistics = graph.statistics();
    /// let stream = one.stream()?;
    /// context.block_on(graph.run(async move {
    ///     let mut buffer = output.buffer(3).await?;
    ///     stream.upload(vec![1, 2, 3], buffer.part_mut()?)?;
    ///     output.send(buffer, &stream)?;
    ///     output.shutdown()?;
    ///     let mut input = input;
    ///     let arrived = input.recv().await?.expect("a packet").ready().await?;
    ///     assert_eq!(arrived.len(), 3);
    ///     arrived.release()?;
    ///     assert!(input.recv().await?.is_none());
    ///     Ok::<_, millstream_flow::Error>(())
    /// }))??;
    /// assert_eq!(statistics.links()[0].packets_by(TransferWay::Push), 1);
    /// # Ok::<(), millstream_flow::Error>(())
    /// ```
    #[must_use]
    pub fn transfer(self, way: TransferWay) -> ContextBuilder {
        ContextBuilder { transfer: Some(way), ..self }
    }

    /// Records in `trace` what the devices do. GPUs need a driver for CUDA 12.8 or later
    /// then, else [`build`](ContextBuilder::build) fails.
    ///
    /// ```
    /// use millstream_device::Trace;
    /// use millstream_flow::{Context, Devices};
    ///
    /// let trace = Trace::new();
    /// let context = Context::builder().devices(Devices::host(1)).trace(&trace).build()?;
    /// let buffer = context.devices()[0].stream()?.uploaded(vec![1_u32, 2, 3])?;
    /// context.device_set().quiesce()?;
    /// assert_eq!(trace.operations()[0].bytes, 12);
    /// # Ok::<(), millstream_flow::Error>(())
    /// ```
    #[must_use]
    pub fn trace(mut self, trace: &Trace) -> ContextBuilder {
        self.devices = self.devices.trace(trace);
        self
    }

    /// Opens the devices.
    ///
    /// # Errors
    /// A device that cannot be opened, or a driver that is not there; a value of
    /// `MILLSTREAM_DEVICES` that cannot be read; a topology of another number of
    /// devices.
    pub fn build(self) -> Result<Context> {
        let devices = match self.list {
            Some(list) => self.devices.devices(list),
            None if self.is_simulated => self.devices.devices(DeviceList::host(4)),
            None => self.devices.available()?,
        };
        let devices = devices.build()?;
        let watcher = Arc::new(Watcher::new(&devices));
        let (gangs, waking) = (GangTurns::new(devices.devices()), Arc::default());
        Ok(Context { devices, gangs, transfer: self.transfer, watcher, waking })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_may_be_told_in_any_order() {
        let names = |builder: ContextBuilder| {
            let context = builder.build().unwrap();
            context.devices().iter().map(Device::name).collect::<Vec<_>>().join(" ")
        };
        let (all, two) = (|| Devices::All, || Devices::host(2));
        for (devices, expected) in
            [(all as fn() -> Devices, "host:0 host:1 host:2 host:3"), (two, "host:0 host:1")]
        {
            let builder = Context::builder;
            assert_eq!(names(builder().simulated(1).devices(devices())), expected);
            assert_eq!(names(builder().devices(devices()).simulated(1)), expected);
        }
        assert_eq!(names(Context::builder().simulated(1)), "host:0 host:1 host:2 host:3");
    }
}
