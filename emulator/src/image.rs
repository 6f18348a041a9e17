//! Compiled code: a shared library of the host, as bytes.

use std::sync::Arc;

/// A loaded library.
pub(crate) struct Image {}

/// A kernel of an image, which stays loaded with it.
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// Offset and size of each parameter, in bytes.
    pub(crate) parameters: Vec<(usize, usize)>,
}

impl Image {
    /// Loads the code that starts at `bytes`, which holds its own length.
    ///
    /// # Safety
    /// `bytes` starts what the compiler here made.
    pub(crate) unsafe fn load(bytes: *const u8) -> Result<Arc<Image>, String> {
        todo!()
    }

    pub(crate) fn kernel(self: &Arc<Self>, name: &str) -> Option<Arc<Kernel>> {
        todo!()
    }
}
