//! Kernels, and their host twins.

#[cfg(feature = "cuda")]
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use crate::cuda_source::CudaSource;
use crate::device::{Device, DevicePlace};
use crate::event::Event;
use crate::grid::Grid;
#[cfg(feature = "cuda")]
use crate::layout::ArgumentWriter;
use crate::parameter::{Accesses, Argument, Parameter};
use crate::stream::{Stream, Submitting};
use crate::task::{Launch, Task};
use crate::{Error, Result};

/// What a twin found wrong; fails its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFault(String);

impl KernelFault {
    /// A fault with this message.
    pub fn new(message: impl Into<String>) -> KernelFault {
        KernelFault(message.into())
    }
}

impl fmt::Display for KernelFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What a twin returns.
pub type KernelResult = Result<(), KernelFault>;

/// How far a block of a twin has come: see [`Kernel::of_steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To its end.
    Done,
    /// To something that is not there yet; it is called again after the
    /// [`Bell`](crate::Bell) has rung, and begins where it began.
    Waits,
}

type Function<S> = for<'a> fn(&Grid, <S as Parameter>::View<'a>) -> KernelResult;
type StepFunction<S> = for<'a> fn(usize, &<S as Parameter>::View<'a>) -> Result<Step, KernelFault>;
type StepClosure<S> =
    dyn for<'a> Fn(usize, &<S as Parameter>::View<'a>) -> Result<Step, KernelFault> + Send + Sync;
type Closure<S> = dyn for<'a> Fn(&Grid, <S as Parameter>::View<'a>) -> KernelResult + Send + Sync;

enum Twin<S: Parameter> {
    Function(Function<S>),
    Closure(Arc<Closure<S>>),
    Steps(StepFunction<S>),
    StepClosure(Arc<StepClosure<S>>),
}

impl<S: Parameter> Clone for Twin<S> {
    fn clone(&self) -> Twin<S> {
        match self {
            Twin::Function(function) => Twin::Function(*function),
            Twin::Closure(closure) => Twin::Closure(Arc::clone(closure)),
            Twin::Steps(function) => Twin::Steps(*function),
            Twin::StepClosure(closure) => Twin::StepClosure(Arc::clone(closure)),
        }
    }
}

/// A kernel with signature `S`. Its host twin is what host devices run:
/// block-wise, never waiting.
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet, Kernel, Read, Value, Write};
///
/// static SCALE: Kernel<(Read<u32>, Write<u32>, Value<u32>)> =
///     Kernel::new("scale", |_, (input, output, factor)| {
///         for (to, from) in output.iter_mut().zip(input) {
///             *to = from * factor;
///         }
///         Ok(())
///     });
///
/// let set = DeviceSet::builder().devices(DeviceList::host(1)).open()?;
/// let stream = set.devices()[0].stream()?;
/// let input = stream.uploaded(vec![1, 2, 3])?;
/// let mut output = set.devices()[0].buffer(3)?;
/// SCALE.launch(&stream, 3, (&input, &mut output, 10))?;
/// assert_eq!(set.block_on(stream.download(&output)?)??, [10, 20, 30]);
/// # Ok::<(), millstream_device::Error>(())
/// ```
///
/// # Arguments are checked when the program is compiled
/// A call fits the signature:
///
/// ```
/// # use millstream_device::{DeviceList, DeviceSet, Kernel, Read, Write};
/// # static COPY: Kernel<(Read<u32>, Write<u32>)> = Kernel::new("copy", |_, _| Ok(()));
/// # let set = DeviceSet::builder().devices(DeviceList::host(1)).open()?;
/// # let stream = set.devices()[0].stream()?;
/// let input = stream.uploaded(vec![1u32, 2, 3])?;
/// let mut output = set.devices()[0].buffer::<u32>(3)?;
/// COPY.launch(&stream, 3, (&input, &mut output))?;
/// # Ok::<(), millstream_device::Error>(())
/// ```
///
/// Items of another type do not:
///
/// ```compile_fail,E0277
/// # use millstream_device::{DeviceList, DeviceSet, Kernel, Read, Write};
/// # static COPY: Kernel<(Read<u32>, Write<u32>)> = Kernel::new("copy", |_, _| Ok(()));
/// # let set = DeviceSet::builder().devices(DeviceList::host(1)).open()?;
/// # let stream = set.devices()[0].stream()?;
/// let input = stream.uploaded(vec![1f32, 2.0, 3.0])?;
/// let mut output = set.devices()[0].buffer::<u32>(3)?;
/// COPY.launch(&stream, 3, (&input, &mut output))?;
/// # Ok::<(), millstream_device::Error>(())
/// ```
///
/// Nor does a buffer to be written that is only lent to be read:
///
/// ```compile_fail,E0277
/// # use millstream_device::{DeviceList, DeviceSet, Kernel, Read, Write};
/// # static COPY: Kernel<(Read<u32>, Write<u32>)> = Kernel::new("copy", |_, _| Ok(()));
/// # let set = DeviceSet::builder().devices(DeviceList::host(1)).open()?;
/// # let stream = set.devices()[0].stream()?;
/// let input = stream.uploaded(vec![1u32, 2, 3])?;
/// let output = set.devices()[0].buffer::<u32>(3)?;
/// COPY.launch(&stream, 3, (&input, &output))?;
/// # Ok::<(), millstream_device::Error>(())
/// ```
///
/// Nor does a call with an argument too few:
///
/// ```compile_fail,E0277
/// # use millstream_device::{DeviceList, DeviceSet, Kernel, Read, Write};
/// # static COPY: Kernel<(Read<u32>, Write<u32>)> = Kernel::new("copy", |_, _| Ok(()));
/// # let set = DeviceSet::builder().devices(DeviceList::host(1)).open()?;
/// # let stream = set.devices()[0].stream()?;
/// let input = stream.uploaded(vec![1u32, 2, 3])?;
/// COPY.launch(&stream, 3, (&input,))?;
/// # Ok::<(), millstream_device::Error>(())
/// ```
pub struct Kernel<S: Parameter> {
    name: Name,
    twin: Twin<S>,
    source: Option<CudaSource>,
    code: OnceLock<Arc<Code<S>>>,
}

/// What launches of a kernel hold together.
struct Code<S: Parameter> {
    name: Arc<str>,
    twin: Twin<S>,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code))]
    source: Option<CudaSource>,
    /// On the GPUs that it has run on.
    #[cfg(feature = "cuda")]
    functions: parking_lot::Mutex<Vec<(u64, crate::cuda::Function)>>,
}

#[cfg(feature = "cuda")]
impl<S: Parameter> Code<S> {
    fn source(&self, device: &str) -> Result<&CudaSource> {
        self.source.as_ref().ok_or_else(|| Error::NoDeviceCode {
            kernel: self.name.to_string(),
            device: device.to_string(),
        })
    }

    fn is_loaded(&self, gpu: u64) -> bool {
        self.functions.lock().iter().any(|(known, _)| *known == gpu)
    }

    /// The kernel on a GPU; `load` is called if it has never been there.
    fn function(
        &self,
        gpu: u64,
        load: impl FnOnce() -> Result<crate::cuda::Function>,
    ) -> Result<crate::cuda::Function> {
        let mut functions = self.functions.lock();
        if let Some((_, function)) = functions.iter().find(|(known, _)| *known == gpu) {
            return Ok(function.clone());
        }
        let function = load()?;
        functions.push((gpu, function.clone()));
        Ok(function)
    }
}

enum Name {
    Static(&'static str),
    Shared(Arc<str>),
}

impl<S: Parameter> fmt::Debug for Kernel<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Kernel({})", self.name())
    }
}

impl<S: Parameter> Kernel<S> {
    /// A kernel with a twin that captures nothing.
    pub const fn new(name: &'static str, twin: Function<S>) -> Kernel<S> {
        let (name, twin) = (Name::Static(name), Twin::Function(twin));
        Kernel { name, twin, source: None, code: OnceLock::new() }
    }

    /// A kernel with the code that GPUs run, and a twin that captures nothing: see
    /// [`Kernel::with_cuda`].
    pub const fn with_source(
        name: &'static str,
        source: CudaSource,
        twin: Function<S>,
    ) -> Kernel<S> {
        let (name, twin) = (Name::Static(name), Twin::Function(twin));
        Kernel { name, twin, source: Some(source), code: OnceLock::new() }
    }

    /// A kernel with a twin that holds what it captures.
    pub fn from_closure(
        name: impl Into<Arc<str>>,
        twin: impl for<'a> Fn(&Grid, S::View<'a>) -> KernelResult + Send + Sync + 'static,
    ) -> Kernel<S> {
        let (name, twin) = (Name::Shared(name.into()), Twin::Closure(Arc::new(twin)));
        Kernel { name, twin, source: None, code: OnceLock::new() }
    }

    /// A kernel of blocks that may have to wait for what others fill while it runs: the
    /// launch's size is the number of blocks, which is what
    /// [`CudaSource::block_each`] launches. The twin is called for each block, and
    /// called again, from its beginning, when it says that it [waits](Step::Waits); so
    /// it must do nothing twice that may be done once only.
    pub const fn of_steps(
        name: &'static str,
        source: CudaSource,
        twin: StepFunction<S>,
    ) -> Kernel<S> {
        let (name, twin) = (Name::Static(name), Twin::Steps(twin));
        Kernel { name, twin, source: Some(source), code: OnceLock::new() }
    }

    /// As [`Kernel::of_steps`], with a twin that holds what it captures.
    pub fn of_step_closure(
        name: impl Into<Arc<str>>,
        twin: impl for<'a> Fn(usize, &S::View<'a>) -> Result<Step, KernelFault> + Send + Sync + 'static,
    ) -> Kernel<S> {
        let (name, twin) = (Name::Shared(name.into()), Twin::StepClosure(Arc::new(twin)));
        Kernel { name, twin, source: None, code: OnceLock::new() }
    }

    /// Adds the code that GPUs run.
    ///
    /// The source must do what the twin does, and touch nothing but its
    /// arguments, as the signature says: read what is [`Read`](crate::Read),
    /// and use atomics on what is [`Shared`](crate::Shared). Whoever writes it
    /// promises that, as with any foreign code.
    #[must_use]
    pub fn with_cuda(self, source: CudaSource) -> Kernel<S> {
        Kernel { source: Some(source), code: OnceLock::new(), ..self }
    }

    /// The name, as errors give it.
    pub fn name(&self) -> &str {
        match &self.name {
            Name::Static(name) => name,
            Name::Shared(name) => name,
        }
    }

    /// Compiles and loads the kernel for a GPU, as its first launch there would:
    /// before kernels run that wait for this one, because loading may wait for them.
    /// How many blocks a launch over `size` work elements will have; 1 on host
    /// devices, where nothing happens.
    ///
    /// # Errors
    /// No device code, or code that does not compile.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables))]
    pub fn prepare(&self, device: &Device, size: usize) -> Result<u32> {
        match &device.core.place {
            DevicePlace::Host => Ok(1),
            #[cfg(feature = "cuda")]
            DevicePlace::Gpu(gpu) => {
                let code = self.code();
                let source = code.source(device.core.name())?;
                if !code.is_loaded(gpu.id()) {
                    // Before the lock, which those want who are waited for.
                    crate::cuda::settle();
                }
                let load = || gpu.load(self.name(), source);
                Ok(code.function(gpu.id(), load)?.blocks(source, size))
            }
        }
    }

    /// Submits the kernel over `size` work elements.
    ///
    /// # Errors
    /// [`Error::Hazard`] if an argument is not ordered after its earlier uses;
    /// the first cause on a failed stream.
    pub fn launch(&self, stream: &Stream, size: usize, arguments: impl Argument<S>) -> Result<()>
    where
        S: 'static,
    {
        self.bind(stream, size, arguments)?.submit()
    }

    /// The kernel with its arguments, to be submitted later, by any thread: each takes
    /// microseconds, which those of several devices can take at the same time.
    ///
    /// # Errors
    /// An argument whose range does not lie in its buffer.
    pub fn bind(
        &self,
        stream: &Stream,
        size: usize,
        arguments: impl Argument<S>,
    ) -> Result<BoundKernel>
    where
        S: 'static,
    {
        let mut accesses = Accesses::default();
        let bound = arguments.bind(&mut accesses)?;
        let code = Arc::clone(self.code());
        let waiting = match code.twin {
            Twin::Steps(_) | Twin::StepClosure(_) => (0..size).collect(),
            Twin::Function(_) | Twin::Closure(_) => Vec::new(),
        };
        let waiting = parking_lot::Mutex::new(waiting);
        let (name, device) = (Arc::clone(&code.name), Arc::clone(stream.device().core.name()));
        let launch = BoundLaunch { code, bound, size, waiting, device };
        let task = Task::Launch(Box::new(launch));
        Ok(BoundKernel { stream: stream.clone(), name, accesses, task })
    }

    fn code(&self) -> &Arc<Code<S>> {
        self.code.get_or_init(|| {
            let name = match &self.name {
                Name::Static(name) => Arc::from(*name),
                Name::Shared(name) => Arc::clone(name),
            };
            Arc::new(Code {
                name,
                twin: self.twin.clone(),
                source: self.source.clone(),
                #[cfg(feature = "cuda")]
                functions: parking_lot::Mutex::default(),
            })
        })
    }
}

/// A kernel with its arguments, from [`Kernel::bind`]. Dropped, nothing happens.
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet, Kernel, Value, Write};
///
/// static SET: Kernel<(Write<u32>, Value<u32>)> = Kernel::new("set", |_, (items, value)| {
///     items.fill(value);
///     Ok(())
/// });
///
/// let set = DeviceSet::builder().devices(DeviceList::host(1)).open()?;
/// let stream = set.devices()[0].stream()?;
/// let mut items = set.devices()[0].buffer(2)?;
/// let bound = SET.bind(&stream, 2, (&mut items, 7))?;
/// std::thread::spawn(|| bound.submit()).join().expect("no panic")?;
/// assert_eq!(set.block_on(stream.download(&items)?)??, [7, 7]);
/// # Ok::<(), millstream_device::Error>(())
/// ```
pub struct BoundKernel {
    stream: Stream,
    name: Arc<str>,
    accesses: Accesses,
    task: Task,
}

impl fmt::Debug for BoundKernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BoundKernel({} on {:?})", self.name, self.stream)
    }
}

impl BoundKernel {
    /// Submits the kernel to its stream. What it uses is ordered from here on.
    ///
    /// # Errors
    /// As [`Kernel::launch`].
    pub fn submit(self) -> Result<()> {
        self.submit_by(Submitting::Caller)
    }

    /// The same, but a thread gives the kernel to the GPU's driver, and the caller goes on at
    /// once; what is submitted to the stream afterwards comes after it. The kernel has been
    /// [prepared](Kernel::prepare). Several that follow each other may become one launch, if
    /// their arguments [join](Parameter::join). On host devices, and where devices share a
    /// GPU, there is no difference.
    ///
    /// # Errors
    /// As [`Kernel::launch`]; a launch that the driver refuses fails the stream.
    pub fn submit_soon(self) -> Result<()> {
        self.submit_by(Submitting::Thread)
    }

    fn submit_by(self, submitting: Submitting) -> Result<()> {
        self.stream.submit_by(self.name, &self.accesses.list, self.task, submitting)
    }

    /// Submits a kernel that [tells](ArgumentWriter::tell), and records an event.
    pub(crate) fn submit_and_record(self) -> Result<Event> {
        self.stream.submit_and_record(self.name, &self.accesses.list, self.task)
    }
}

/// A kernel with its arguments.
struct BoundLaunch<S: Parameter> {
    code: Arc<Code<S>>,
    bound: S::Bound,
    size: usize,
    /// Blocks of a twin of steps that are not done.
    waiting: parking_lot::Mutex<Vec<usize>>,
    device: Arc<str>,
}

/// Calls every block that waits. Not generic, so that it is compiled once, and not for each
/// kernel.
fn step_blocks(
    waiting: &mut Vec<usize>,
    twin: &(dyn Fn(usize) -> Result<Step, KernelFault> + Send + Sync),
) -> Result<Step, KernelFault> {
    let blocks = std::mem::take(waiting);
    let step = |block: usize| Ok((block, twin(block)?));
    // On a simulated device, or outside of a pool of its own, one by one.
    let steps: Result<Vec<_>, KernelFault> = match rayon::current_thread_index() {
        None => blocks.into_iter().map(step).collect(),
        Some(_) => blocks.into_par_iter().map(step).collect(),
    };
    waiting.extend(steps?.iter().filter(|(_, step)| *step == Step::Waits).map(|(at, _)| *at));
    Ok(if waiting.is_empty() { Step::Done } else { Step::Waits })
}

impl<S: Parameter + 'static> Launch for BoundLaunch<S> {
    fn step_twin(&self) -> Result<Step> {
        // SAFETY: the ledger has accepted the accesses declared by `bind`, and
        // this is their operation.
        let view = unsafe { S::view(&self.bound) };
        let grid = Grid::new(self.size);
        let mut waiting = self.waiting.lock();
        let result = match &self.code.twin {
            Twin::Function(twin) => twin(&grid, view).map(|()| Step::Done),
            Twin::Closure(twin) => twin(&grid, view).map(|()| Step::Done),
            Twin::Steps(twin) => step_blocks(&mut waiting, &|block| twin(block, &view)),
            Twin::StepClosure(twin) => step_blocks(&mut waiting, &|block| twin(block, &view)),
        };
        result.map_err(|fault| Error::KernelFailed {
            kernel: Arc::clone(&self.code.name),
            device: self.device.to_string(),
            message: fault.0.into(),
        })
    }

    #[cfg(feature = "cuda")]
    fn load(&self, lane: &crate::cuda::LaneStream<'_>) -> Result<()> {
        self.function(lane, &mut ArgumentWriter::telling(lane.tell)).map(drop)
    }

    #[cfg(feature = "cuda")]
    fn submit(&self, lane: &crate::cuda::LaneStream<'_>) -> Result<()> {
        let mut arguments = ArgumentWriter::telling(lane.tell);
        let (function, source) = self.function(lane, &mut arguments)?;
        lane.launch(function, source, self.size, &mut arguments)
    }

    #[cfg(feature = "cuda")]
    fn join(&mut self, next: Box<dyn Launch>) -> Option<Box<dyn Launch>> {
        let is_alike = |next: &&BoundLaunch<S>| Arc::ptr_eq(&next.code, &self.code);
        if next.as_any().downcast_ref().filter(is_alike).is_none() {
            return Some(next);
        }
        let BoundLaunch { bound, size, waiting, device, code } =
            *next.into_any().downcast::<BoundLaunch<S>>().ok()?;
        match S::join(&mut self.bound, bound) {
            Some(bound) => Some(Box::new(BoundLaunch { bound, size, waiting, device, code })),
            None => {
                self.size = self.size.max(size);
                None
            }
        }
    }

    #[cfg(feature = "cuda")]
    fn as_any(&self) -> &dyn Any {
        self
    }

    #[cfg(feature = "cuda")]
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(feature = "cuda")]
impl<S: Parameter> BoundLaunch<S> {
    /// What the GPU runs, loaded there; writes its arguments.
    fn function(
        &self,
        lane: &crate::cuda::LaneStream<'_>,
        arguments: &mut ArgumentWriter,
    ) -> Result<(crate::cuda::Function, &CudaSource)> {
        let source = self.code.source(&self.device)?;
        S::write(&self.bound, arguments);
        let load = || lane.load(&self.code.name, source);
        let function = self.code.function(lane.gpu(), load)?;
        function.check(&self.code.name, arguments.parameters())?;
        Ok((function, source))
    }
}
