//! Compiled kernels on a GPU.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUfunction, CUmodule, CUresult};
use parking_lot::Mutex;

use super::compile::compile;
use super::context::GpuContext;
use super::lane_stream::LaneStream;
use crate::cuda_source::{Capacity, CudaSource};
use crate::launching::while_nobody_launches;
use crate::layout::ArgumentWriter;
use crate::{Error, Result};

/// The modules of one context, by source text.
#[derive(Default)]
pub(super) struct Modules {
    loaded: Mutex<HashMap<Arc<str>, Module>>,
}

struct Module(CUmodule);

// SAFETY: driver handles may be used from any thread.
unsafe impl Send for Module {}

impl Modules {
    /// Unloads all modules; the context is about to go.
    pub(super) fn unload(&mut self) {
        for (_, module) in self.loaded.get_mut().drain() {
            // SAFETY: loaded by this context; no kernel of it is used any more.
            let _ = unsafe { sys::cuModuleUnload(module.0) };
        }
    }
}

/// A kernel of a loaded module.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    function: CUfunction,
    capacity: Capacity,
    /// Bytes of shared memory that a launch gives each block.
    shared_bytes: u32,
    /// The parameters' sizes in bytes.
    parameters: Arc<[usize]>,
}

// SAFETY: driver handles may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl GpuContext {
    /// The kernel, compiled and loaded. The GPU's context must be current on this thread.
    pub(crate) fn load(&self, kernel: &str, source: &CudaSource) -> Result<Function> {
        let loaded = match self.loaded(source) {
            Some(module) => Ok(module),
            None => Err(compile(source, self.architecture)?),
        };
        // All of this: where modules are loaded lazily, looking a kernel up loads it. The context
        // is bound once more, since whatever happens while this thread waits may bind another.
        while_nobody_launches(|| {
            self.bind()?;
            let module = loaded.or_else(|code| self.load_module(source, &code))?;
            self.find(kernel, source, module)
        })
    }

    fn find(&self, kernel: &str, source: &CudaSource, module: CUmodule) -> Result<Function> {
        let mut function = std::ptr::null_mut();
        let signature = |reason: String| Error::Signature { kernel: kernel.to_string(), reason };
        let entry = CString::new(source.entry()).map_err(|error| signature(error.to_string()))?;
        // SAFETY: the module is loaded until its context goes.
        let get = || unsafe { sys::cuModuleGetFunction(&mut function, module, entry.as_ptr()) };
        match self.with_memory(get)? {
            CUresult::CUDA_ERROR_NOT_FOUND => {
                let (file, entry) = (source.file(), source.entry());
                return Err(signature(format!("{file} has no kernel extern \"C\" {entry}")));
            }
            answer => self.check(answer, "cuModuleGetFunction")?,
        }
        let shared_bytes =
            if source.has_shared_memory() { self.give_shared_memory(function)? } else { 0 };
        let mut blocks = 0;
        let (_, threads) = source.dimensions(1, Capacity { full: 1, spare: 0 });
        let threads = threads as i32;
        // SAFETY: a function of this context.
        let answer = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                function,
                threads,
                shared_bytes as usize,
            )
        };
        self.check(answer, "cuOccupancyMaxActiveBlocksPerMultiprocessor")?;
        let blocks = u32::try_from(blocks).unwrap_or(1).max(1);
        let capacity = Capacity { full: blocks * self.multiprocessors, spare: blocks * 2 };
        Ok(Function { function, capacity, shared_bytes, parameters: parameters(function) })
    }

    /// Lets a function's blocks have all shared memory that is left beside what they declare.
    /// Returns how much.
    fn give_shared_memory(&self, function: CUfunction) -> Result<u32> {
        let declared = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let mut bytes = 0;
        // SAFETY: a function of this context.
        let answer = unsafe { sys::cuFuncGetAttribute(&mut bytes, declared, function) };
        self.check(answer, "cuFuncGetAttribute")?;
        let left = self.block_memory.saturating_sub(u32::try_from(bytes).unwrap_or(0));
        // SAFETY: as above.
        let answer = unsafe { sys::cuFuncSetAttribute(function, most, left as i32) };
        self.check(answer, "cuFuncSetAttribute")?;
        Ok(left)
    }

    fn loaded(&self, source: &CudaSource) -> Option<CUmodule> {
        self.modules.loaded.lock().get(source.text()).map(|module| module.0)
    }

    fn load_module(&self, source: &CudaSource, code: &[u8]) -> Result<CUmodule> {
        let mut loaded = self.modules.loaded.lock();
        // Another thread may have been faster.
        if let Some(module) = loaded.get(source.text()) {
            return Ok(module.0);
        }
        let mut module = std::ptr::null_mut();
        // SAFETY: the context is current; the code is whole.
        let load = || unsafe { sys::cuModuleLoadData(&mut module, code.as_ptr().cast()) };
        let answer = self.with_memory(load)?;
        self.check(answer, "cuModuleLoadData")?;
        loaded.insert(Arc::from(source.text()), Module(module));
        Ok(module)
    }
}

impl LaneStream<'_> {
    /// Launches a kernel over `size` work elements.
    pub(crate) fn launch(
        &self,
        function: &Function,
        source: &CudaSource,
        size: usize,
        arguments: &ArgumentWriter,
    ) -> Result<()> {
        let mut pointers = arguments.addresses();
        let (blocks, threads) = source.dimensions(size, function.capacity);
        // SAFETY: the function's parameters have the sizes of the arguments, which the call copies.
        // What they point to is held until the stream has passed this point, and the ledger has
        // ordered its uses. What the kernel does with it is vouched for by whoever wrote its
        // source.
        let answer = unsafe {
            sys::cuLaunchKernel(
                function.function,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                function.shared_bytes,
                self.stream,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        self.context.check(answer, "cuLaunchKernel")
    }
}

impl Function {
    /// Blocks of a launch over `size` work elements.
    pub(crate) fn blocks(&self, source: &CudaSource, size: usize) -> u32 {
        source.dimensions(size, self.capacity).0
    }

    /// Checks the sizes of the kernel's parameters against those of the arguments.
    pub(crate) fn check(&self, kernel: &str, arguments: &[(usize, usize)]) -> Result<()> {
        let sizes = arguments.iter().map(|(_, size)| size);
        if self.parameters.iter().eq(sizes.clone()) {
            return Ok(());
        }
        let differs = |(parameter, size): (&usize, &usize)| parameter != size;
        let place = self.parameters.iter().zip(sizes).position(differs);
        let reason = match place {
            Some(place) => format!(
                "parameter {place} of its CUDA source has {} bytes, not {}",
                self.parameters[place], arguments[place].1
            ),
            None => format!(
                "its CUDA source takes {} parameters, not {}",
                self.parameters.len(),
                arguments.len()
            ),
        };
        Err(Error::Signature { kernel: kernel.to_string(), reason })
    }
}

/// The sizes of a kernel's parameters.
fn parameters(function: CUfunction) -> Arc<[usize]> {
    let (mut offset, mut size) = (0, 0);
    let parameter = |place| {
        // SAFETY: the function is loaded; the driver refuses a place behind the last.
        let answer = unsafe { sys::cuFuncGetParamInfo(function, place, &mut offset, &mut size) };
        (answer == CUresult::CUDA_SUCCESS).then_some(size)
    };
    (0..).map_while(parameter).collect()
}
