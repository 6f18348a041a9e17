//! The fault of a GPU after which nothing of a device set runs on GPUs any more.

use std::sync::{Arc, OnceLock};

use crate::{Error, Result};

/// The first fault of a GPU of a device set. It fails everything that all GPUs of the set have been
/// given, whatever has become of it: healthy GPUs run on, and nobody hears when they are done. An
/// event that the driver refuses to record has the same effect if others wait for it. The poison is
/// set before anything fails because of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Poison(Arc<OnceLock<Error>>);

impl Poison {
    pub(crate) fn get(&self) -> Option<&Error> {
        self.0.get()
    }

    /// # Errors
    /// The fault, if there was one.
    pub(crate) fn check(&self) -> Result<()> {
        self.get().map_or(Ok(()), |cause| Err(cause.clone()))
    }

    /// The first fault: this one, unless an earlier one is set.
    #[cfg(feature = "cuda")]
    pub(crate) fn get_or_init(&self, fault: impl FnOnce() -> Error) -> &Error {
        self.0.get_or_init(fault)
    }
}
