//! Launches: kernels with their arguments.

#[cfg(feature = "cuda")]
use std::any::Any;
use std::fmt;
#[cfg(feature = "cuda")]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;

use crate::cuda_source::CudaSource;
use crate::entered_kernel::{EnteredKernel, KeptLaunch};
use crate::event::{Completion, Event};
use crate::grid::Grid;
use crate::kernel::{KernelFault, KernelResult, Step};
#[cfg(feature = "cuda")]
use crate::layout::ArgumentWriter;
use crate::library_call::LibraryCall;
use crate::parameter::{Accesses, Parameter};
use crate::stream::Stream;
use crate::task::{Followers, Launch, Submitting, Task};
use crate::trusted::Trusted;
use crate::{Error, Result};

pub(crate) type Function<S> = for<'a> fn(&Grid, <S as Parameter>::View<'a>) -> KernelResult;
pub(crate) type StepFunction<S> =
    for<'a> fn(usize, &<S as Parameter>::View<'a>) -> Result<Step, KernelFault>;
type StepClosure<S> =
    dyn for<'a> Fn(usize, &<S as Parameter>::View<'a>) -> Result<Step, KernelFault> + Send + Sync;
type Closure<S> = dyn for<'a> Fn(&Grid, <S as Parameter>::View<'a>) -> KernelResult + Send + Sync;

/// What host devices run.
pub(crate) enum Twin<S: Parameter> {
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

/// What GPUs run.
#[derive(Clone)]
#[cfg_attr(not(feature = "cuda"), expect(dead_code))]
pub(crate) enum DeviceCode {
    Cuda(Trusted<CudaSource>),
    Library(Arc<Library>),
}

pub(crate) type Library = dyn Fn(&LibraryCall<'_>) -> KernelResult + Send + Sync;

/// What all launches of a kernel share.
pub(crate) struct Code<S: Parameter> {
    name: Arc<str>,
    twin: Twin<S>,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code))]
    device_code: Option<DeviceCode>,
    /// The functions on the GPUs that the kernel has run on.
    #[cfg(feature = "cuda")]
    functions: crate::cuda::ByContext<crate::cuda::Function>,
}

impl<S: Parameter> Code<S> {
    pub(crate) fn new(name: Arc<str>, twin: Twin<S>, device_code: Option<DeviceCode>) -> Code<S> {
        Code {
            name,
            twin,
            device_code,
            #[cfg(feature = "cuda")]
            functions: Default::default(),
        }
    }
}

#[cfg(feature = "cuda")]
impl<S: Parameter> Code<S> {
    pub(crate) fn on_device(&self, device: &str) -> Result<&DeviceCode> {
        self.device_code.as_ref().ok_or_else(|| Error::NoDeviceCode {
            kernel: self.name.to_string(),
            device: device.to_string(),
        })
    }

    /// The kernel on a GPU; `load` is called if the kernel has not been loaded there yet.
    pub(crate) fn function(
        &self,
        context: crate::cuda::ContextId,
        load: impl FnOnce() -> Result<crate::cuda::Function>,
    ) -> Result<crate::cuda::Function> {
        if let Some(function) = self.functions.get(context) {
            return Ok(function);
        }
        let function = load()?;
        self.functions.set(context, function.clone());
        Ok(function)
    }
}

/// A kernel with its arguments, from [`Kernel::bind`](crate::Kernel::bind). Dropped, nothing happens.
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet, Kernel, Value, Write};
///
/// static SET: Kernel<(Write<u32>, Value<u32>)> = Kernel::new("set", |_, (items, value)| {
///     items.fill(value);
///     Ok(())
/// });
///
/// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
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
    pub(crate) fn new<S: Parameter + 'static>(
        stream: &Stream,
        code: Arc<Code<S>>,
        size: usize,
        bound: S::Bound,
        accesses: Accesses,
    ) -> BoundKernel {
        let waiting = match code.twin {
            Twin::Steps(_) | Twin::StepClosure(_) => Some(Box::default()),
            Twin::Function(_) | Twin::Closure(_) => None,
        };
        let name = Arc::clone(&code.name);
        let launch = BoundLaunch {
            code,
            bound,
            size,
            waiting,
            #[cfg(feature = "cuda")]
            ready: None,
        };
        let task = Task::Launch(Box::new(launch));
        BoundKernel { stream: stream.clone(), name, accesses, task }
    }

    /// The program goes on before the kernel is submitted, so its uses of memory are noted as bound.
    pub(crate) fn hold(&mut self) {
        self.accesses.bind();
    }

    /// Submits the kernel to its stream. What it uses is ordered from here on.
    ///
    /// # Errors
    /// As [`Kernel::launch`](crate::Kernel::launch).
    pub fn submit(self) -> Result<()> {
        self.submit_by(Submitting::Caller)
    }

    /// As [`submit`](BoundKernel::submit), except that a thread gives the kernel to the GPU's
    /// driver and the caller goes on at once. What is submitted to the stream afterwards still
    /// comes after the kernel. The kernel must have been [prepared](crate::Kernel::prepare).
    /// Several kernels that follow each other may become one launch, if their arguments
    /// [join](Parameter::join). On host devices, and where devices share a GPU, this is the same as
    /// `submit`.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet, Kernel, Shared};
    /// use std::sync::atomic::Ordering;
    ///
    /// static ADD: Kernel<(Shared<u32>,)> = Kernel::new("add", |_, (items,)| {
    ///     items[0].fetch_add(1, Ordering::Relaxed);
    ///     Ok(())
    /// });
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let device = &set.devices()[0];
    /// let (stream, items) = (device.stream()?, device.shared(1)?);
    /// ADD.prepare(device, 1)?;
    /// for _ in 0..5 {
    ///     ADD.bind(&stream, 1, (&items,))?.submit_soon()?;
    /// }
    /// assert_eq!(set.block_on(stream.download_shared(&items, 0..1)?)??, [5]);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Kernel::launch`](crate::Kernel::launch); a launch that the driver refuses fails the stream.
    pub fn submit_soon(self) -> Result<()> {
        self.submit_by(Submitting::Thread)
    }

    /// Gives the kernel its place in its stream's order, but does not let it begin before
    /// [`EnteredKernel::begin`]. This way kernels that wait for each other begin together, however
    /// long it takes to enter them. The kernel must have been [prepared](crate::Kernel::prepare).
    /// On host devices, where devices share a GPU, and behind work that the GPU's thread has yet to
    /// submit, it begins without being told to. Uses of its arguments are ordered from here on.
    ///
    /// # Errors
    /// As [`Kernel::launch`](crate::Kernel::launch).
    pub fn enter(self) -> Result<EnteredKernel> {
        let BoundKernel { stream, name, mut accesses, task } = self;
        let (task, kept) = KeptLaunch::keep(task);
        let submitted = stream.submit_without_end(name, &mut accesses, task, Submitting::Later)?;
        Ok(EnteredKernel::new(submitted, stream, kept))
    }

    fn submit_by(mut self, submitting: Submitting) -> Result<()> {
        self.stream.submit_by(self.name, &mut self.accesses, self.task, submitting)
    }

    /// As [`BoundKernel::submit_soon`] followed by [`Stream::completed`], but cheaper.
    ///
    /// # Errors
    /// As [`BoundKernel::submit_soon`]; and when it resolves, if an operation before failed, or the
    /// launch was refused.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Device ordering
    /// That of [`Stream::completed`].
    pub fn submit_soon_with_completion(mut self) -> Result<Completion> {
        let (name, task) = (self.name, self.task);
        let end = self.stream.submit_with_event(name, &mut self.accesses, task, Followers::Host)?;
        Ok(end.completed())
    }

    /// Submits the kernel, and records an event.
    pub(crate) fn submit_and_record(mut self) -> Result<Event> {
        let (name, task) = (self.name, self.task);
        self.stream.submit_with_event(name, &mut self.accesses, task, Followers::Streams)
    }
}

/// A kernel with its arguments.
struct BoundLaunch<S: Parameter> {
    code: Arc<Code<S>>,
    bound: S::Bound,
    size: usize,
    /// For twins that run in steps, once called: the blocks that are not done. Other twins have
    /// none, so it is boxed, to keep launches small: freeing memory that another thread has
    /// allocated takes long for large blocks.
    waiting: Option<Box<Mutex<Option<Vec<usize>>>>>,
    /// The arguments, except what a kernel tells, if they were written beforehand.
    #[cfg(feature = "cuda")]
    ready: Option<Box<ArgumentWriter>>,
}

impl<S: Parameter> BoundLaunch<S> {
    fn failed(&self, device: &str, fault: KernelFault) -> Error {
        fault.into_error(&self.code.name, device)
    }
}

/// Calls every block that waits. Not generic, so that it is compiled only once instead of once for
/// each kernel.
fn step_blocks(
    waiting: &mut Option<Vec<usize>>,
    size: usize,
    twin: &(dyn Fn(usize) -> Result<Step, KernelFault> + Send + Sync),
) -> Result<Step, KernelFault> {
    let blocks = match waiting.take() {
        Some(blocks) => blocks,
        None => all_blocks(size)?,
    };
    let step = |block: usize| Ok((block, over_if_early(twin(block))?));
    // On a simulated device, or outside of a device's thread pool, one by one.
    let steps: Result<Vec<_>, KernelFault> = match rayon::current_thread_index() {
        None => blocks.into_iter().map(step).collect(),
        Some(_) => blocks.into_par_iter().map(step).collect(),
    };
    let steps = steps?.into_iter();
    let left: Vec<_> = steps.filter(|(_, step)| *step == Step::Waits).map(|(at, _)| at).collect();
    let step = if left.is_empty() { Step::Done } else { Step::Waits };
    *waiting = Some(left);
    Ok(step)
}

fn all_blocks(size: usize) -> Result<Vec<usize>, KernelFault> {
    let mut blocks = Vec::new();
    let reserved = blocks.try_reserve_exact(size);
    reserved.map_err(|_| KernelFault::new(format!("no memory for a list of {size} blocks")))?;
    blocks.extend(0..size);
    Ok(blocks)
}

/// A twin that returns early is done.
fn over_if_early(result: Result<Step, KernelFault>) -> Result<Step, KernelFault> {
    match result {
        Err(fault) if fault.is_early_return() => Ok(Step::Done),
        result => result,
    }
}

impl<S: Parameter + 'static> Launch for BoundLaunch<S> {
    fn step_twin(&self, device: &str) -> Result<Step> {
        // SAFETY: the ledger has accepted the accesses that `bind` declared, and this is the
        // operation that makes them.
        let view = unsafe { S::view(&self.bound) };
        let grid = Grid::new(self.size);
        let step = |twin: &_| match &self.waiting {
            Some(waiting) => step_blocks(&mut waiting.lock(), self.size, twin),
            None => Ok(Step::Done),
        };
        let result = match &self.code.twin {
            Twin::Function(twin) => twin(&grid, view).map(|()| Step::Done),
            Twin::Closure(twin) => twin(&grid, view).map(|()| Step::Done),
            Twin::Steps(twin) => step(&|block| twin(block, &view)),
            Twin::StepClosure(twin) => step(&|block| twin(block, &view)),
        };
        over_if_early(result).map_err(|fault| self.failed(device, fault))
    }

    #[cfg(feature = "cuda")]
    fn is_loaded(&self, context: crate::cuda::ContextId) -> bool {
        matches!(self.code.device_code, Some(DeviceCode::Library(_)))
            || self.code.functions.get(context).is_some()
    }

    #[cfg(feature = "cuda")]
    fn load(&self, context: &crate::cuda::GpuContext) -> Result<()> {
        match self.code.on_device(context.name())? {
            DeviceCode::Cuda(source) => {
                let mut arguments = ArgumentWriter::telling((0, 0));
                self.write(context, &mut arguments)?;
                self.function(context, source, &arguments).map(drop)
            }
            DeviceCode::Library(_) => Ok(()),
        }
    }

    #[cfg(feature = "cuda")]
    fn make_ready(&mut self, context: &crate::cuda::GpuContext) -> Result<()> {
        let mut arguments = Box::new(ArgumentWriter::telling((0, 0)));
        self.write(context, &mut arguments)?;
        self.ready = Some(arguments);
        Ok(())
    }

    #[cfg(feature = "cuda")]
    fn tells(&self) -> bool {
        // A library's call does not take the word.
        S::TELLS && matches!(self.code.device_code, Some(DeviceCode::Cuda(_)))
    }

    #[cfg(feature = "cuda")]
    fn submit(&mut self, lane: &crate::cuda::LaneStream<'_>) -> Result<()> {
        match self.ready.take() {
            Some(mut arguments) => {
                arguments.set_tell(lane.tell);
                self.submit_with(lane, &arguments)
            }
            None => {
                let mut arguments = ArgumentWriter::telling(lane.tell);
                self.write(lane.context(), &mut arguments)?;
                self.submit_with(lane, &arguments)
            }
        }
    }

    #[cfg(feature = "cuda")]
    fn join(&mut self, next: Box<dyn Launch>) -> Option<Box<dyn Launch>> {
        let is_alike = |next: &&BoundLaunch<S>| Arc::ptr_eq(&next.code, &self.code);
        if next.as_any().downcast_ref().filter(is_alike).is_none() {
            return Some(next);
        }
        let BoundLaunch { bound, size, waiting, code, ready } =
            *next.into_any().downcast::<BoundLaunch<S>>().ok()?;
        match S::join(&mut self.bound, bound) {
            Some(bound) => Some(Box::new(BoundLaunch { bound, size, waiting, code, ready })),
            None => {
                self.size = self.size.max(size);
                None
            }
        }
    }

    #[cfg(feature = "cuda")]
    fn gathers(&self) -> bool {
        S::gathers(&self.bound)
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
    /// The code that the GPU runs, loaded there, whose parameters fit these arguments.
    fn function(
        &self,
        context: &crate::cuda::GpuContext,
        source: &CudaSource,
        arguments: &ArgumentWriter,
    ) -> Result<crate::cuda::Function> {
        let name = &self.code.name;
        let function = self.code.function(context.id(), || context.load(name, source))?;
        function.check(name, arguments.parameters())?;
        Ok(function)
    }

    fn submit_with(
        &self,
        lane: &crate::cuda::LaneStream<'_>,
        arguments: &ArgumentWriter,
    ) -> Result<()> {
        let context = lane.context();
        match self.code.on_device(context.name())? {
            DeviceCode::Cuda(source) => {
                let function = self.function(context, source, arguments)?;
                lane.launch(&function, source, self.size, arguments)
            }
            DeviceCode::Library(library) => {
                let call = lane.library_call(self.size, arguments);
                let called = self.guarded(context, || library(&call))?.map(|()| Step::Done);
                over_if_early(called).map(drop).map_err(|fault| self.failed(context.name(), fault))
            }
        }
    }

    fn write(&self, context: &crate::cuda::GpuContext, to: &mut ArgumentWriter) -> Result<()> {
        self.guarded(context, || S::write(&self.bound, to))
    }

    /// Runs code of the program: if it panics, the lane goes on.
    fn guarded<R>(&self, context: &crate::cuda::GpuContext, work: impl FnOnce() -> R) -> Result<R> {
        catch_unwind(AssertUnwindSafe(work))
            .map_err(|panic| Error::panicked(&self.code.name, context.name(), panic))
    }
}
