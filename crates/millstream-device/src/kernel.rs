//! Kernels, and their host twins.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::cuda_source::CudaSource;
use crate::device::{Device, DevicePlace};
use crate::grid::Grid;
use crate::launch::{BoundKernel, Code, DeviceCode, Function, StepFunction, Twin};
use crate::library_call::LibraryCall;
use crate::parameter::{Accesses, Argument, Parameter};
use crate::stream::Stream;
use crate::trusted::Trusted;
use crate::{Error, Result};

/// What a twin found wrong; fails its stream, unless it [returns early](Self::early_return).
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet, Kernel, KernelFault, Shared};
/// use std::sync::atomic::Ordering;
///
/// static LOOK: Kernel<(Shared<u32>,)> = Kernel::new("look", |_, (items,)| {
///     match items[0].load(Ordering::Relaxed) {
///         0 => Err(KernelFault::early_return()),
///         item => Err(KernelFault::new(format!("{item} is not 0"))),
///     }
/// });
///
/// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
/// let (stream, items) = (set.devices()[0].stream()?, set.host().shared(1)?);
/// LOOK.launch(&stream, 1, (&items,))?;
/// stream.record()?.synchronize()?;
/// items.store(0, 5)?;
/// LOOK.launch(&stream, 1, (&items,))?;
/// let error = stream.record()?.synchronize().unwrap_err();
/// assert!(error.to_string().contains("5 is not 0"));
/// # Ok::<(), millstream_device::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFault(Fault);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    EarlyReturn,
    Message(String),
    /// An error that the twin did not cause itself.
    Cause(Box<Error>),
}

/// The stream fails with this very error.
impl From<Error> for KernelFault {
    fn from(cause: Error) -> KernelFault {
        KernelFault(Fault::Cause(Box::new(cause)))
    }
}

impl KernelFault {
    /// A fault with this message.
    pub fn new(message: impl Into<String>) -> KernelFault {
        KernelFault(Fault::Message(message.into()))
    }

    /// Not a fault: the kernel (or, if its twin is of steps, the block) is over before its work is
    /// done, and its stream goes on, as it does behind a GPU's kernel that returns early. Whoever
    /// relies on the kernel's work must find out about this in another way.
    pub fn early_return() -> KernelFault {
        KernelFault(Fault::EarlyReturn)
    }

    pub(crate) fn is_early_return(&self) -> bool {
        self.0 == Fault::EarlyReturn
    }

    /// The error that the stream fails with.
    pub(crate) fn into_error(self, kernel: &Arc<str>, device: &str) -> Error {
        match self.0 {
            Fault::Cause(cause) => *cause,
            fault => Error::KernelFailed {
                kernel: Arc::clone(kernel),
                device: device.to_string(),
                message: KernelFault(fault).to_string().into(),
            },
        }
    }
}

impl fmt::Display for KernelFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Fault::EarlyReturn => formatter.write_str("returns early"),
            Fault::Message(message) => formatter.write_str(message),
            Fault::Cause(cause) => fmt::Display::fmt(cause, formatter),
        }
    }
}

/// What a twin returns.
pub type KernelResult = Result<(), KernelFault>;

/// How far a block of a twin has come: see [`Kernel::of_steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The block ran to its end.
    Done,
    /// The block came to something that is not there yet. It is called again, from its beginning,
    /// once host code, a stream or another twin has written a word that it may be waiting for.
    Waits,
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
/// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
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
/// # let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
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
/// # let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
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
/// # let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
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
/// # let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
/// # let stream = set.devices()[0].stream()?;
/// let input = stream.uploaded(vec![1u32, 2, 3])?;
/// COPY.launch(&stream, 3, (&input,))?;
/// # Ok::<(), millstream_device::Error>(())
/// ```
pub struct Kernel<S: Parameter> {
    name: Name,
    twin: Twin<S>,
    device_code: Option<DeviceCode>,
    code: OnceLock<Arc<Code<S>>>,
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
        Kernel { name, twin, device_code: None, code: OnceLock::new() }
    }

    /// A kernel with the code that GPUs run, and a twin that captures nothing: see
    /// [`Kernel::with_cuda`].
    pub const fn with_source(
        name: &'static str,
        source: Trusted<CudaSource>,
        twin: Function<S>,
    ) -> Kernel<S> {
        let (name, twin) = (Name::Static(name), Twin::Function(twin));
        let device_code = Some(DeviceCode::Cuda(source));
        Kernel { name, twin, device_code, code: OnceLock::new() }
    }

    /// A kernel with a twin that holds what it captures.
    pub fn from_closure(
        name: impl Into<Arc<str>>,
        twin: impl for<'a> Fn(&Grid, S::View<'a>) -> KernelResult + Send + Sync + 'static,
    ) -> Kernel<S> {
        let (name, twin) = (Name::Shared(name.into()), Twin::Closure(Arc::new(twin)));
        Kernel { name, twin, device_code: None, code: OnceLock::new() }
    }

    /// A kernel that runs on GPUs only: on a host device it fails, and says why.
    pub fn without_twin(
        name: impl Into<Arc<str>>,
        source: Trusted<CudaSource>,
        why: &'static str,
    ) -> Kernel<S> {
        let fails = move |_: &Grid, _: S::View<'_>| Err(KernelFault::new(why));
        Kernel::from_closure(name, fails).with_cuda(source)
    }

    /// A kernel of blocks that may have to wait for what others fill while it runs. The launch's
    /// size is the number of blocks, which is what [`CudaSource::block_each`] launches. The twin is
    /// called for each block, and called again, from its beginning, when it says that it
    /// [waits](Step::Waits). So it must repeat nothing that may be done only once.
    pub const fn of_steps(
        name: &'static str,
        source: Trusted<CudaSource>,
        twin: StepFunction<S>,
    ) -> Kernel<S> {
        let (name, twin) = (Name::Static(name), Twin::Steps(twin));
        let device_code = Some(DeviceCode::Cuda(source));
        Kernel { name, twin, device_code, code: OnceLock::new() }
    }

    /// As [`Kernel::of_steps`], with a twin that holds what it captures.
    pub fn of_step_closure(
        name: impl Into<Arc<str>>,
        twin: impl for<'a> Fn(usize, &S::View<'a>) -> Result<Step, KernelFault> + Send + Sync + 'static,
    ) -> Kernel<S> {
        let (name, twin) = (Name::Shared(name.into()), Twin::StepClosure(Arc::new(twin)));
        Kernel { name, twin, device_code: None, code: OnceLock::new() }
    }

    /// Adds the code that GPUs run, which does what the twin does.
    #[must_use]
    pub fn with_cuda(self, source: Trusted<CudaSource>) -> Kernel<S> {
        Kernel { device_code: Some(DeviceCode::Cuda(source)), code: OnceLock::new(), ..self }
    }

    /// Adds a function that does the twin's work on GPUs by calling a CUDA library, instead of
    /// device code.
    ///
    /// By vouching for the function you vouch for the work that it submits, too: it goes to the
    /// call's stream, or is waited for there, and touches nothing but the arguments. The function
    /// runs while the stream is locked, on any thread, with the GPU's context current. So it must
    /// be short, wait for nothing, and use nothing of Millstream but what it is given. If it
    /// returns a fault or panics, the stream fails.
    ///
    /// ```
    /// use millstream_device::{
    ///     DeviceList, DeviceSet, Kernel, KernelFault, KernelResult, LibraryCall, Trusted, Write,
    /// };
    ///
    /// // What a library would declare; cuMemsetD32Async for instance.
    /// type Fill = unsafe extern "C" fn(u64, u32, usize, *mut std::ffi::c_void) -> u32;
    ///
    /// fn ones(fill: Fill) -> Kernel<(Write<u32>,)> {
    ///     let call = move |call: &LibraryCall<'_>| -> KernelResult {
    ///         let (address, len) = call.span(0)?;
    ///         // SAFETY: the argument's items; the stream is the call's.
    ///         match unsafe { fill(address, 1, len, call.stream()) } {
    ///             0 => Ok(()),
    ///             error => Err(KernelFault::new(format!("the library says {error}"))),
    ///         }
    ///     };
    ///     let kernel = Kernel::from_closure("ones", |_, (items,): (&mut [u32],)| Ok(items.fill(1)));
    ///     // SAFETY: the library writes these items, in the order of the stream.
    ///     kernel.with_library(unsafe { Trusted::new(call) })
    /// }
    /// # unsafe extern "C" fn none(_: u64, _: u32, _: usize, _: *mut std::ffi::c_void) -> u32 { 1 }
    /// # let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// # let stream = set.devices()[0].stream()?;
    /// # let mut items = set.devices()[0].buffer(2)?;
    /// # ones(none).launch(&stream, 2, (&mut items,))?;
    /// # assert_eq!(set.block_on(stream.download(&items)?)??, [1, 1]);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    #[must_use]
    pub fn with_library(
        self,
        call: Trusted<impl Fn(&LibraryCall<'_>) -> KernelResult + Send + Sync + 'static>,
    ) -> Kernel<S> {
        let library = Arc::new(call.into_inner());
        Kernel { device_code: Some(DeviceCode::Library(library)), code: OnceLock::new(), ..self }
    }

    /// The name, as errors give it.
    pub fn name(&self) -> &str {
        match &self.name {
            Name::Static(name) => name,
            Name::Shared(name) => name,
        }
    }

    /// Compiles and loads the kernel for a GPU, as its first launch there would. Call this before
    /// other kernels run that wait for this one, because loading may wait for those. Returns the
    /// number of blocks that a launch over `size` work elements will have. For library calls, and
    /// on host devices (where nothing is loaded), this is 1.
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
                let DeviceCode::Cuda(source) = code.on_device(device.core.name())? else {
                    return Ok(1);
                };
                let load = || gpu.load(self.name(), source);
                Ok(code.function(gpu.id(), load)?.blocks(source, size))
            }
        }
    }

    /// Submits the kernel over `size` work elements.
    ///
    /// # Errors
    /// [`Error::Hazard`](crate::Error::Hazard) if an argument is not ordered after its earlier uses,
    /// [`Error::BoundTwice`](crate::Error::BoundTwice) if two are one buffer that the kernel writes,
    /// [`Error::OutOfReach`](crate::Error::OutOfReach) and
    /// [`Error::DifferentDeviceSet`](crate::Error::DifferentDeviceSet) if one lies where the device does
    /// not reach it, [`Error::TooManyBuffers`](crate::Error::TooManyBuffers) of a set; those of
    /// [`Kernel::prepare`] if it first runs on the device; the first cause on a
    /// failed stream. Nothing is submitted then.
    pub fn launch(&self, stream: &Stream, size: usize, arguments: impl Argument<S>) -> Result<()>
    where
        S: 'static,
    {
        self.bind_at_once(stream, size, arguments)?.submit()
    }

    /// Binds the kernel to its arguments, to be submitted later and by any thread. Binding takes
    /// microseconds, so several threads can do it for several devices at the same time. Until the
    /// kernel is submitted or dropped, host code cannot view what the kernel writes, and cannot
    /// mutably view anything that it uses.
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
        let mut bound = self.bind_at_once(stream, size, arguments)?;
        bound.hold();
        Ok(bound)
    }

    /// As [`Kernel::bind`], but the kernel is submitted while the caller still borrows the arguments.
    pub(crate) fn bind_at_once(
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
        Ok(BoundKernel::new(stream, Arc::clone(self.code()), size, bound, accesses))
    }

    fn code(&self) -> &Arc<Code<S>> {
        self.code.get_or_init(|| {
            let name = match &self.name {
                Name::Static(name) => Arc::from(*name),
                Name::Shared(name) => Arc::clone(name),
            };
            Arc::new(Code::new(name, self.twin.clone(), self.device_code.clone()))
        })
    }
}
