//! Devices opened together: one ledger, one runner.

use std::future::Future;
use std::num::NonZero;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::bell::Bell;
use crate::device::{Common, Device, DeviceId, DevicePlace};
use crate::device_list::{DeviceList, Driver};
use crate::event::Promise;
use crate::gpus::Gpus;
use crate::host::{Faults, Runner, Simulation, SimulationReport};
use crate::injection::{InjectedFault, Injection};
use crate::ledger::Ledger;
use crate::memory_budget::MemoryBudget;
use crate::topology::Topology;
use crate::trace::Trace;
use crate::{Result, Waits, cache, transfer_cache};

/// Describes a [`DeviceSet`].
#[derive(Debug)]
pub struct DeviceSetBuilder {
    pub(crate) devices: DeviceList,
    /// Why GPUs are not among the devices, if there is a reason.
    unused: Option<String>,
    memory_budget: Option<u64>,
    threads: Option<usize>,
    pub(crate) seed: Option<u64>,
    injection: Injection,
    topology: Option<Topology>,
    pub(crate) trace: Option<Trace>,
}

impl DeviceSetBuilder {
    /// The devices; four host devices unless set.
    #[must_use]
    pub fn devices(self, devices: DeviceList) -> DeviceSetBuilder {
        DeviceSetBuilder { devices, unused: None, ..self }
    }

    /// What `MILLSTREAM_DEVICES` names, else every GPU, else four host devices: see
    /// [`DeviceList::available`]. If there are GPUs that cannot be used, [`DeviceSet::warnings`] say why.
    ///
    /// # Errors
    /// A value of `MILLSTREAM_DEVICES` that cannot be read.
    pub fn available(self) -> Result<DeviceSetBuilder> {
        let (devices, fault) = DeviceList::available_or_fault()?;
        let unused = fault.map(|fault| format!("{fault}; running on {devices} instead"));
        Ok(DeviceSetBuilder { devices, unused, ..self })
    }

    /// Bytes that each physical device may allocate. Unless set, a GPU may use all of its memory,
    /// and all host devices of the process together all memory of the host.
    #[must_use]
    pub fn memory_budget(self, bytes: u64) -> DeviceSetBuilder {
        DeviceSetBuilder { memory_budget: Some(bytes), ..self }
    }

    /// Threads that run host devices; one for each core unless set.
    #[must_use]
    pub fn threads(self, threads: usize) -> DeviceSetBuilder {
        DeviceSetBuilder { threads: Some(threads), ..self }
    }

    /// Runs host devices on the thread that waits, one operation at a time, in
    /// an order chosen by `seed`.
    #[must_use]
    pub fn simulated(self, seed: u64) -> DeviceSetBuilder {
        DeviceSetBuilder { seed: Some(seed), ..self }
    }

    /// Delays, reorders or fails operations of host devices, and delays packets of
    /// persistent kernels.
    #[must_use]
    pub fn injection(self, injection: Injection) -> DeviceSetBuilder {
        DeviceSetBuilder { injection, ..self }
    }

    /// Connects the devices as `topology` says, but never better than they really are: devices that
    /// it does not connect do not reach each other's memory. If it has a transfer table, that
    /// replaces the devices' own; names in the table stand for the devices at the same places.
    /// [`Topology::read`] reads files.
    #[must_use]
    pub fn topology(self, topology: Topology) -> DeviceSetBuilder {
        DeviceSetBuilder { topology: Some(topology), ..self }
    }

    /// Records in `trace` what the devices do. GPUs then need a driver for CUDA 12.8 or later; otherwise
    /// [`build`](DeviceSetBuilder::build) fails.
    #[must_use]
    pub fn trace(self, trace: &Trace) -> DeviceSetBuilder {
        DeviceSetBuilder { trace: Some(trace.clone()), ..self }
    }

    /// Opens the devices.
    ///
    /// # Errors
    /// A driver or a GPU that is not there, with what to do about it; GPUs in a simulation; threads that
    /// cannot be started; a topology of another number of devices; no device, or more than 32; an
    /// injection that makes no sense.
    pub fn build(self) -> Result<DeviceSet> {
        self.devices.check()?;
        self.injection.check()?;
        let runner = match self.seed {
            Some(seed) => Runner::simulated(seed, &self.injection),
            None => Runner::threaded(self.threads, &self.injection)?,
        };
        let gpus = Gpus::open(&self)?;
        let planned = self.plan(&gpus)?;
        let (topology, mut warnings) = self.connect(&gpus, &planned)?;
        warnings.extend(gpus.warning());
        warnings.extend(self.unused.clone());
        let common = Common {
            ledger: Arc::new(Ledger::new(gpus.poison())),
            runner: Arc::new(runner),
            faults: Arc::new(Faults::new(&self.injection)),
            host_memory: Arc::new(gpus.host_memory()),
            gpus: gpus.clone(),
            topology,
            next_buffer: Arc::new(AtomicU64::new(0)),
            trace: self.trace.clone(),
        };
        let names = planned.iter().map(|device| &*device.name).chain(["host"]);
        self.injection.check_devices(names)?;
        let mut devices = Vec::new();
        for (index, PlannedDevice { name, driver, ordinal, memory }) in
            planned.into_iter().enumerate()
        {
            let place = gpus.place(driver, ordinal)?;
            devices.push(Device::new(DeviceId(index), Some(index), name, place, memory, &common));
        }
        let memory = Arc::new(MemoryBudget::of_host(None));
        let host = Device::new(
            DeviceId(devices.len()),
            None,
            "host".to_string(),
            DevicePlace::Host,
            memory,
            &common,
        );
        let Common { topology, runner, .. } = common;
        let injection = self.injection;
        let set = Shared { devices, host, topology, warnings, runner, gpus, injection };
        Ok(DeviceSet { shared: Arc::new(set) })
    }

    /// The devices that the list asks for, in its order.
    fn plan(&self, gpus: &Gpus) -> Result<Vec<PlannedDevice>> {
        let mut planned = Vec::new();
        let mut hosts = 0;
        for entry in self.devices.entries() {
            for place in 0..entry.count {
                let (prefix, ordinal) = match entry.driver {
                    Driver::Host => ("host", hosts),
                    Driver::Cuda => ("cuda", entry.first + place),
                };
                hosts += usize::from(entry.driver == Driver::Host);
                let memory = match entry.driver {
                    Driver::Host => MemoryBudget::of_host(self.memory_budget),
                    Driver::Cuda => gpus.memory(ordinal, self.memory_budget)?,
                };
                let memory = Arc::new(memory);
                for part in 0..entry.virtual_devices {
                    let name = match entry.virtual_devices {
                        1 => format!("{prefix}:{ordinal}"),
                        _ => format!("{prefix}:{ordinal}.{part}"),
                    };
                    let (driver, memory) = (entry.driver, Arc::clone(&memory));
                    planned.push(PlannedDevice { name, driver, ordinal, memory });
                }
            }
        }
        Ok(planned)
    }

    /// How the devices are connected, and what is wrong with stored data about it, if anything.
    fn connect(
        &self,
        gpus: &Gpus,
        planned: &[PlannedDevice],
    ) -> Result<(Arc<Topology>, Vec<String>)> {
        let discovered = gpus.topology(planned);
        if let Some(shape) = &self.topology {
            return Ok((Arc::new(discovered.shaped_like(shape)?), Vec::new()));
        }
        // A simulation must not depend on earlier measurements.
        let Some(folder) = cache::folder().filter(|_| self.seed.is_none()) else {
            return Ok((Arc::new(discovered), Vec::new()));
        };
        Ok(match transfer_cache::load(&folder, &gpus.machine()?) {
            Ok(Some(table)) => (Arc::new(discovered.with_transfer_table(table)), Vec::new()),
            Ok(None) => (Arc::new(discovered), Vec::new()),
            Err(warning) => (Arc::new(discovered), vec![warning]),
        })
    }
}

/// A device to be opened.
#[derive(Debug)]
pub(crate) struct PlannedDevice {
    pub(crate) name: String,
    pub(crate) driver: Driver,
    /// Number of the physical device among those of its driver.
    pub(crate) ordinal: usize,
    memory: Arc<MemoryBudget>,
}

/// Devices opened together; operations of one set can be ordered against each other. Cheap to clone.
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet};
///
/// let set = DeviceSet::builder().devices(DeviceList::host(2)).build()?;
/// let stream = set.devices()[1].stream()?;
/// let buffer = stream.uploaded(vec![1u32, 2, 3])?;
/// let download = stream.download(&buffer)?;
/// assert_eq!(set.block_on(download)??, [1, 2, 3]);
/// # Ok::<(), millstream_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeviceSet {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    devices: Vec<Device>,
    host: Device,
    topology: Arc<Topology>,
    warnings: Vec<String>,
    runner: Arc<Runner>,
    gpus: Gpus,
    injection: Injection,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Operations still hold memory. Threads finish them on their own; a simulation is run here.
        if let Runner::Simulated(simulation) = &*self.runner {
            let _ = simulation.run_until(|| simulation.outstanding() == 0);
        }
    }
}

impl DeviceSet {
    /// Starts to describe a set: four host devices unless told otherwise.
    pub fn builder() -> DeviceSetBuilder {
        DeviceSetBuilder {
            devices: DeviceList::host(4),
            memory_budget: None,
            threads: None,
            seed: None,
            injection: Injection::default(),
            topology: None,
            trace: None,
            unused: None,
        }
    }

    /// The devices, in the order of their list.
    pub fn devices(&self) -> &[Device] {
        &self.shared.devices
    }

    /// The delays and faults that were asked for.
    pub fn injection(&self) -> &Injection {
        &self.shared.injection
    }

    /// The host as an endpoint.
    pub fn host(&self) -> &Device {
        &self.shared.host
    }

    /// How the devices are connected.
    pub fn topology(&self) -> &Topology {
        &self.shared.topology
    }

    /// Problems that did not keep the set from opening: no usable driver, so that
    /// [host devices](DeviceSetBuilder::available) are used; no cache; no
    /// [`set_driver_defaults`](crate::set_driver_defaults).
    pub fn warnings(&self) -> &[String] {
        &self.shared.warnings
    }

    /// The driver and the GPUs of this machine.
    pub(crate) fn machine(&self) -> Result<String> {
        self.shared.gpus.machine()
    }

    /// What a simulation has done so far; `None` on threads.
    pub fn simulation(&self) -> Option<SimulationReport> {
        match &*self.shared.runner {
            Runner::Simulated(simulation) => Some(simulation.report()),
            Runner::Threaded(_) => None,
        }
    }

    /// Makes a simulation that stands still ([`Error::Deadlock`](crate::Error::Deadlock)) ask `of`, as long
    /// as that exists, what its tasks wait for. Devices on threads never ask.
    ///
    /// ```
    /// use std::sync::{Arc, Weak};
    ///
    /// use millstream_device::{DeviceSet, Waits};
    ///
    /// struct Kitchen;
    ///
    /// impl Waits for Kitchen {
    ///     fn waits(&self) -> Vec<String> {
    ///         vec!["the cook waits for onions".to_string()]
    ///     }
    /// }
    ///
    /// let set = DeviceSet::builder().simulated(1).build()?;
    /// let kitchen = Arc::new(Kitchen);
    /// let of: Weak<Kitchen> = Arc::downgrade(&kitchen);
    /// set.report_waits_of(of);
    /// let error = set.block_on(std::future::pending::<()>()).unwrap_err().to_string();
    /// assert!(error.contains("the cook waits for onions"), "{error}");
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    pub fn report_waits_of(&self, of: Weak<dyn Waits>) {
        self.shared.runner.report_waits_of(of);
    }

    /// What is rung when a word was written that somebody may wait for.
    #[doc(hidden)]
    pub fn bell(&self) -> &Arc<Bell> {
        self.shared.runner.bell()
    }

    /// An event that the program completes: see [`Promise`].
    pub fn promise(&self, what: impl Into<Arc<str>>) -> Promise {
        let host = &self.shared.host.core;
        Promise::new(what.into(), Arc::clone(&host.ledger), Arc::clone(&host.runner))
    }

    /// Whether a thread that has waited for `waited` should look again rather than sleep. If so,
    /// this call has made a short pause first. Only true where GPUs write what the thread looks at.
    pub fn stay_awake(&self, waited: Duration) -> bool {
        self.shared.gpus.stay_awake(waited)
    }

    /// Operations submitted and not over.
    pub fn outstanding(&self) -> usize {
        self.shared.runner.outstanding() + self.shared.gpus.outstanding()
    }

    /// Faults of the [injection](DeviceSetBuilder::injection) that have not happened yet. If some are left
    /// when everything is [over](DeviceSet::quiesce), a test has not tested what it should.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet, InjectedFault, Injection};
    ///
    /// let faults = vec![InjectedFault::new("filll")];
    /// let injection = Injection { faults, ..Injection::default() };
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).injection(injection).build()?;
    /// set.quiesce()?;
    /// assert_eq!(set.faults_left(), [InjectedFault::new("filll")]);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    pub fn faults_left(&self) -> Vec<InjectedFault> {
        self.shared.host.core.faults.left()
    }

    /// Waits until nothing is under way, including what others submit meanwhile; host code then comes after
    /// all that was submitted before this call. Only this waits for a failed run that had its own streams.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let mut items = set.host().buffer::<u32>(3)?;
    /// set.devices()[0].stream()?.upload(vec![1, 2, 3], &mut items)?;
    /// // Nobody can record an event on that stream any more.
    /// assert!(items.host_view().is_err());
    /// set.quiesce()?;
    /// assert_eq!(items.host_view()?, [1, 2, 3]);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// A simulation whose operations cannot run; a GPU that has had a fault, after which nothing is ordered.
    pub fn quiesce(&self) -> Result<()> {
        let ledger = &self.shared.host.core.ledger;
        let given = ledger.given();
        self.wait_until_idle()?;
        ledger.check_gpus()?;
        ledger.host_waited(&given);
        Ok(())
    }

    fn wait_until_idle(&self) -> Result<()> {
        match &*self.shared.runner {
            Runner::Simulated(simulation) => {
                simulation.run_until(|| simulation.outstanding() == 0)?;
            }
            Runner::Threaded(threads) => threads.wait_until_idle(),
        }
        self.shared.gpus.quiesce()
    }

    /// Gives memory of these GPUs that no buffer of the process uses, and pinned memory of the host
    /// that nothing of this set uses, back to the driver: for libraries and other processes.
    /// Millstream keeps the memory of dropped buffers for new ones, and gives it back by itself
    /// only when it finds no other memory for a buffer. This call may wait until kernels are over.
    /// Host devices keep nothing.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// drop(set.devices()[0].buffer::<u32>(1000)?);
    /// set.give_back_unused_memory()?;
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// A GPU that has failed.
    pub fn give_back_unused_memory(&self) -> Result<()> {
        self.shared.gpus.give_back_unused()
    }

    /// Runs a future to its end on this thread. On threaded devices any
    /// executor will do as well; simulated devices run only in here.
    ///
    /// # Errors
    /// [`Error::Deadlock`](crate::Error::Deadlock) in a simulation: the future waits for something and
    /// no operation can run.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output> {
        let mut future = pin!(future);
        let signal =
            Arc::new(Signal { woken: AtomicBool::new(true), thread: std::thread::current() });
        let waker = Waker::from(Arc::clone(&signal));
        let mut context = Context::from_waker(&waker);
        loop {
            // Acquire: pairs with the release in `wake`.
            let poll_now = match &*self.shared.runner {
                Runner::Threaded(_) => signal.woken.swap(false, Ordering::Acquire),
                Runner::Simulated(simulation) => self.turn(simulation, &signal)?,
            };
            if poll_now {
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    return Ok(output);
                }
            } else if let Runner::Threaded(_) = &*self.shared.runner {
                self.park(&signal);
            }
        }
    }

    /// Waits until woken.
    fn park(&self, signal: &Signal) {
        let start = Instant::now();
        // Relaxed: the swap before the next poll acquires.
        while !signal.woken.load(Ordering::Relaxed) {
            if !self.shared.gpus.stay_awake(start.elapsed()) {
                return std::thread::park();
            }
        }
    }

    /// Either runs an operation, or returns whether it is the future's turn.
    fn turn(&self, simulation: &Simulation, signal: &Signal) -> Result<bool> {
        let woken = signal.woken.load(Ordering::Acquire);
        if woken && (simulation.prefers_task() || !simulation.can_step()) {
            signal.woken.store(false, Ordering::Release);
            return Ok(true);
        }
        match simulation.step() {
            // Others may have run what this waited for.
            Err(error) if !signal.woken.load(Ordering::Acquire) => Err(error),
            _ => Ok(false),
        }
    }
}

struct Signal {
    woken: AtomicBool,
    thread: Thread,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        // Release: pairs with the acquire before the next poll.
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}
