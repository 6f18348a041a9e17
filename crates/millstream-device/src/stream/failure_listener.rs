//! Who is told that a stream has failed.

use std::fmt;
use std::sync::{Arc, Weak};

use super::{Stream, StreamCore};
use crate::Error;

/// Whoever is told of a stream's failure: see [`Stream::on_failure`].
#[must_use = "nobody is told once this is dropped"]
pub struct FailureListener {
    stream: Weak<StreamCore>,
    number: u64,
}

impl Stream {
    /// Calls `callback` with the first cause when an operation of the stream fails, at once if
    /// one has: for those who would wait for what does not come now. A GPU's may be heard of as
    /// late as the next event recorded after it.
    ///
    /// It is called on the thread that finds out, so that it must be short, and not wait. Once the
    /// listener is dropped, no call begins any more, but one may be under way; if the stream was
    /// dropped before, it goes with the stream's last operation.
    ///
    /// ```
    /// # use std::sync::mpsc::channel;
    /// # use millstream_device::{DeviceList, DeviceSet, Error, Kernel, KernelFault, Shared};
    /// static FAIL: Kernel<(Shared<u32>,)> = Kernel::new("fail", |_, _| Err(KernelFault::new("no")));
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
    /// let (stream, items) = (set.devices()[0].stream()?, set.devices()[0].shared(1)?);
    /// let (told, hear) = channel();
    /// let listener = stream.on_failure(move |cause| drop(told.send(cause)));
    /// FAIL.launch(&stream, 1, (&items,))?;
    /// assert!(matches!(hear.recv(), Ok(Error::KernelFailed { .. })));
    /// assert!(listener.listens_to(&stream));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn on_failure(&self, callback: impl FnOnce(Error) + Send + 'static) -> FailureListener {
        let number = self.core.backend.cause().on_set(callback);
        FailureListener { stream: Arc::downgrade(&self.core), number }
    }
}

impl FailureListener {
    /// Whether it is this stream's.
    pub fn listens_to(&self, stream: &Stream) -> bool {
        Weak::as_ptr(&self.stream) == Arc::as_ptr(&stream.core)
    }

    /// Whether the stream is gone. What was submitted to it may still fail, of which is told.
    pub fn is_left(&self) -> bool {
        self.stream.strong_count() == 0
    }
}

impl Drop for FailureListener {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.upgrade() {
            stream.backend.cause().forget(self.number);
        }
    }
}

impl fmt::Debug for FailureListener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FailureListener")
    }
}
