//! The fault after which nothing of a device set runs on GPUs any more.

use std::sync::{Arc, OnceLock};

use crate::{Error, Result};

/// The first fault of a GPU of a device set. It fails what all GPUs of the set have been given,
/// whatever has become of that: those that are well run on, and nobody hears when they are done. So
/// does an event that others wait for and that the driver refuses to record. It is set before anything
/// fails by it.
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

    /// The first fault: this one, unless there was another before.
    #[cfg(feature = "cuda")]
    pub(crate) fn get_or_init(&self, fault: impl FnOnce() -> Error) -> &Error {
        self.0.get_or_init(fault)
    }
}
