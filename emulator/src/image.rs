//! Compiled code: a shared library of the host, as bytes.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::block::{HOOKS, Hooks, Thread};

/// Before the code's length and the code itself.
const MAGIC: [u8; 8] = *b"MILLEMUL";

/// The library's bytes, with what tells them from other code.
pub(crate) fn pack(library: Vec<u8>) -> Vec<u8> {
    [&MAGIC[..], &(library.len() as u64).to_le_bytes(), &library].concat()
}

/// A parameter, as module.hpp writes it.
#[repr(C)]
struct RawParameter {
    offset: u64,
    size: u64,
}

/// A kernel, as module.hpp writes it.
#[repr(C)]
pub(crate) struct RawKernel {
    name: *const c_char,
    call: unsafe extern "C" fn(*const u8),
    parameters: *const RawParameter,
    count: u64,
}

type Kernels = unsafe extern "C" fn(*const Hooks, *mut u32) -> *const RawKernel;
type Begin = unsafe extern "C" fn();
type Call = unsafe extern "C" fn(*const RawKernel, *const u64, *const Thread);

/// A loaded library, with variables of its own. It stays loaded: threads may hold its
/// variables.
pub(crate) struct Image {
    kernels: Vec<Arc<Kernel>>,
}

/// A kernel of an image.
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// Offset and size of each parameter, in bytes.
    pub(crate) parameters: Vec<(usize, usize)>,
    raw: *const RawKernel,
    begin: Begin,
    call: Call,
}

// SAFETY: constants of a library that is never unloaded.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Image {
    /// Loads the code that starts at `bytes`, which holds its own length.
    ///
    /// # Safety
    /// `bytes` starts what [`pack`] made, or at least its first eight bytes can be read.
    pub(crate) unsafe fn load(bytes: *const u8) -> Result<Arc<Image>, String> {
        // SAFETY: the caller's promise.
        if unsafe { bytes.cast::<[u8; 8]>().read_unaligned() } != MAGIC {
            return Err("not code of this emulator".to_string());
        }
        // SAFETY: the caller's promise, now that these are our bytes.
        let library = unsafe {
            let length = bytes.add(8).cast::<u64>().read_unaligned() as usize;
            std::slice::from_raw_parts(bytes.add(16), length)
        };
        // A file of its own for each image: the loader would give the same one again.
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        std::fs::write(file.path(), library).map_err(|error| error.to_string())?;
        // SAFETY: its initializers only register kernels.
        let library = unsafe { Library::open(Some(file.path()), RTLD_NOW | RTLD_LOCAL) };
        let library = std::mem::ManuallyDrop::new(library.map_err(|error| format!("{error:?}"))?);
        let missing = |error: libloading::Error| error.to_string();
        // SAFETY: the types are those of module.hpp, here and below.
        let list = *unsafe { library.get::<Kernels>(b"emulated_kernels\0") }.map_err(missing)?;
        // SAFETY: as above.
        let begin = *unsafe { library.get::<Begin>(b"emulated_begin\0") }.map_err(missing)?;
        // SAFETY: as above.
        let call = *unsafe { library.get::<Call>(b"emulated_call\0") }.map_err(missing)?;
        let mut count = 0;
        // SAFETY: as above; the hooks live as long as the process.
        let first = unsafe { list(&HOOKS, &mut count) };
        // SAFETY: as many kernels as it says, for ever.
        let kernels = unsafe { std::slice::from_raw_parts(first, count as usize) };
        let kernels = kernels.iter().map(|raw| Arc::new(Kernel::new(raw, begin, call)));
        Ok(Arc::new(Image { kernels: kernels.collect() }))
    }

    pub(crate) fn kernel(&self, name: &str) -> Option<Arc<Kernel>> {
        self.kernels.iter().find(|kernel| kernel.name == name).cloned()
    }
}

impl Kernel {
    fn new(raw: &'static RawKernel, begin: Begin, call: Call) -> Kernel {
        // SAFETY: constants of the library: a string that ends in NUL, and an array.
        let (name, parameters) = unsafe {
            let parameters = std::slice::from_raw_parts(raw.parameters, raw.count as usize);
            (CStr::from_ptr(raw.name).to_string_lossy().into_owned(), parameters)
        };
        let parameters = parameters.iter().map(|one| (one.offset as usize, one.size as usize));
        Kernel { name, parameters: parameters.collect(), raw, begin, call }
    }

    /// Begins a block on the calling thread, of which none runs.
    pub(crate) fn begin(&self) {
        // SAFETY: fills variables that nobody uses.
        unsafe { (self.begin)() }
    }

    /// Runs the kernel as one thread, on the calling coroutine.
    ///
    /// # Safety
    /// The arguments are laid out as `parameters` says and are what the kernel may use.
    pub(crate) unsafe fn call(&self, arguments: &[u64], thread: &Thread) {
        // SAFETY: the caller's promise; the kernel is the library's.
        unsafe { (self.call)(self.raw, arguments.as_ptr(), thread) }
    }
}
