//! Lengths of messages that only a kernel knows.

use millstream_device::{Accesses, Argument, Device, Parameter, Shared, SharedBuffer};

use crate::Result;

/// How many items a kernel produced, from [`Sender::counter`](crate::Sender::counter): one word on
/// the host that kernels write (pass `&counter`) and
/// [`Sender::send_counted`](crate::Sender::send_counted) reads once they are done.
///
/// A counter belongs to one message. By the time the host reads it, a later kernel may already be
/// running, and neither that kernel nor one that was bound earlier may write the same word. So a
/// counter cannot be given to two messages:
///
/// ```compile_fail,E0382
/// # use millstream_device::Stream;
/// # use millstream_flow::{Result, Sender};
/// async fn send_twice(output: &mut Sender<u32>, stream: &Stream) -> Result<()> {
///     let (one, other) = (output.buffer(8).await?, output.buffer(8).await?);
///     let count = output.counter()?;
///     output.send_counted(one, count, stream)?;
///     output.send_counted(other, count, stream)
/// }
/// ```
#[derive(Debug)]
pub struct Counter(SharedBuffer<u32>);

impl Counter {
    /// A counter at 0.
    pub(crate) fn new(host: &Device) -> Result<Counter> {
        Ok(Counter(host.shared(1)?))
    }

    /// What the kernels have counted.
    pub(crate) fn count(&self) -> Result<usize> {
        Ok(self.0.load(0)? as usize)
    }
}

// SAFETY: the buffer, which this delegates to, keeps the promise.
unsafe impl Argument<Shared<u32>> for &Counter {
    fn bind(
        self,
        accesses: &mut Accesses,
    ) -> millstream_device::Result<<Shared<u32> as Parameter>::Bound> {
        Argument::<Shared<u32>>::bind(&self.0, accesses)
    }
}
