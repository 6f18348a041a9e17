//! Modules and their kernels.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUfunction_attribute as Attribute, CUmodule, CUresult};
use parking_lot::Mutex;

use super::asked::asked;
use super::context::current;
use super::device::Device;
use super::handles::{Handles, Owned};
use super::status::{Answer, answer, store};
use crate::image::{Image, Kernel};
use crate::ptx::SHARED_BYTES;

pub(super) static MODULES: Handles<Module> = Handles::new();
pub(super) static FUNCTIONS: Handles<Function> = Handles::new();

/// Loaded code.
pub(super) struct Module {
    device: &'static Device,
    image: Arc<Image>,
    /// Numbers of its functions' handles, by name.
    functions: Mutex<BTreeMap<String, usize>>,
}

/// A kernel of a module.
pub(super) struct Function {
    device: &'static Device,
    pub(super) kernel: Arc<Kernel>,
}

impl Owned for Module {
    fn device(&self) -> &'static Device {
        self.device
    }
}

impl Owned for Function {
    fn device(&self) -> &'static Device {
        self.device
    }
}

impl Module {
    fn function(&self, name: &str) -> Answer<CUfunction> {
        let mut functions = self.functions.lock();
        if let Some(number) = functions.get(name) {
            return Ok(std::ptr::without_provenance_mut(*number));
        }
        let kernel = self.image.kernel(name).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        let handle: CUfunction =
            FUNCTIONS.insert(Arc::new(Function { device: self.device, kernel }));
        functions.insert(name.to_string(), handle.addr());
        Ok(handle)
    }
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut CUmodule, code: *const c_void) -> CUresult {
    answer(|| {
        asked("cuModuleLoadData")?;
        let device = current()?;
        if module.is_null() || code.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller's promise, here and below.
        let image = unsafe { Image::load(code.cast()) }.map_err(|reason| {
            let _ = writeln!(std::io::stderr(), "emulated device {}: {reason}", device.ordinal);
            CUresult::CUDA_ERROR_INVALID_IMAGE
        })?;
        let loaded = Module { device, image, functions: Mutex::new(BTreeMap::new()) };
        // SAFETY: as above.
        unsafe { store(module, MODULES.insert(Arc::new(loaded))) }
    })
}

/// Kernels that were launched keep what they need.
///
/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleUnload(module: CUmodule) -> CUresult {
    answer(|| {
        current()?;
        let module = MODULES.remove(module)?;
        for number in module.functions.lock().values() {
            let handle: CUfunction = std::ptr::without_provenance_mut(*number);
            FUNCTIONS.remove(handle)?;
        }
        Ok(())
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    function: *mut CUfunction,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    answer(|| {
        current()?;
        if name.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: as above; ends in NUL.
        let name = unsafe { CStr::from_ptr(name) }.to_str();
        let name = name.map_err(|_| CUresult::CUDA_ERROR_NOT_FOUND)?;
        let found = MODULES.get(module)?.function(name)?;
        // SAFETY: as above.
        unsafe { store(function, found) }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetParamInfo(
    function: CUfunction,
    place: usize,
    offset: *mut usize,
    size: *mut usize,
) -> CUresult {
    answer(|| {
        let function = FUNCTIONS.get(function)?;
        let parameter = function.kernel.parameters.get(place);
        let (start, bytes) = *parameter.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: as above.
        unsafe { store(offset, start) }?;
        // The size may be left out.
        if !size.is_null() {
            // SAFETY: as above.
            unsafe { store(size, bytes) }?;
        }
        Ok(())
    })
}

/// What a kernel declares is not known; it counts as nothing.
///
/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(
    value: *mut c_int,
    attribute: Attribute,
    function: CUfunction,
) -> CUresult {
    answer(|| {
        FUNCTIONS.get(function)?;
        match attribute {
            // SAFETY: the caller's promise.
            Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => unsafe { store(value, 0) },
            _ => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        }
    })
}

/// # Safety
/// As CUDA's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetAttribute(
    function: CUfunction,
    attribute: Attribute,
    value: c_int,
) -> CUresult {
    answer(|| {
        FUNCTIONS.get(function)?;
        match attribute {
            Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                if value >= 0 && value as u32 <= SHARED_BYTES =>
            {
                Ok(())
            }
            Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                Err(CUresult::CUDA_ERROR_INVALID_VALUE)
            }
            _ => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        }
    })
}
