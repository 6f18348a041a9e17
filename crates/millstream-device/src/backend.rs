//! Who runs a stream's operations.

use std::sync::Arc;

use crate::Result;
use crate::device::{Device, DevicePlace};
use crate::event::Event;
use crate::first_cause::FirstCause;
use crate::host::{Operation, StreamQueue, Work};
use crate::kernel::Step;
use crate::ledger::{Ledger, StreamIndex};
use crate::needs_host::NeedsHost;
use crate::stream_kind::StreamKind;
use crate::task::{Submitting, Task};
use crate::trace::Tracing;

/// Who runs a stream's operations.
pub(crate) enum Backend {
    Host(Arc<StreamQueue>),
    #[cfg(feature = "cuda")]
    Cuda(crate::cuda::CudaStream),
}

/// What is left to do after an operation has been submitted. It is done without the stream's lock:
/// those who then hear of events and failures may submit more.
#[must_use = "somebody may wait"]
pub(crate) enum Submitted {
    /// Nothing.
    Done,
    #[cfg(feature = "cuda")]
    Cuda(crate::cuda::Submitted),
}

impl Submitted {
    /// Does what is left.
    ///
    /// # Errors
    /// What the driver refused.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Submitted::Done => Ok(()),
            #[cfg(feature = "cuda")]
            Submitted::Cuda(submitted) => submitted.finish(),
        }
    }

    /// Whether the operation waits until its submitter begins it.
    pub(crate) fn is_held(&self) -> bool {
        match self {
            Submitted::Done => false,
            #[cfg(feature = "cuda")]
            Submitted::Cuda(submitted) => matches!(submitted, crate::cuda::Submitted::Held(_)),
        }
    }

    /// Does what is left; an operation that waits for its submitter is given to the driver on this thread.
    ///
    /// # Errors
    /// What the driver refused at once, if the operation did not wait.
    pub(crate) fn begin_here(self) -> Result<()> {
        match self {
            Submitted::Done => Ok(()),
            #[cfg(feature = "cuda")]
            Submitted::Cuda(submitted) => submitted.begin_here(),
        }
    }
}

/// A stream's place in the clocks, free for others when dropped.
pub(crate) struct OpenStream {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) index: StreamIndex,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.ledger.close_stream(self.index);
    }
}

impl Backend {
    /// The backend of a new stream.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables))]
    pub(crate) fn new(
        device: &Device,
        (kind, turn): (StreamKind, Option<usize>),
        place: &Arc<str>,
        index: StreamIndex,
    ) -> Result<Backend> {
        match &device.core.place {
            DevicePlace::Host => {
                let queue = StreamQueue::new(Arc::clone(place), device.core.name(), index);
                Ok(Backend::Host(queue))
            }
            #[cfg(feature = "cuda")]
            DevicePlace::Gpu(gpu) => gpu.stream(kind, turn).map(Backend::Cuda),
        }
    }

    /// The first cause, if an operation has failed.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Backend::Host(queue) => queue.cause().get().map_or(Ok(()), |cause| Err(cause.clone())),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => stream.check(),
        }
    }

    pub(crate) fn cause(&self) -> &FirstCause {
        match self {
            Backend::Host(queue) => queue.cause(),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => stream.cause(),
        }
    }

    /// Does in advance what may take long, and what may be refused. The caller holds no lock.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables))]
    pub(crate) fn prepare(&self, task: &Task, submitting: Submitting) -> Result<()> {
        match self {
            Backend::Host(_) => Ok(()),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => stream.prepare(task, submitting),
        }
    }

    /// Queues a task.
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables))]
    pub(crate) fn submit(
        &self,
        device: &Device,
        name: Arc<str>,
        task: Task,
        submitting: Submitting,
    ) -> Submitted {
        match self {
            Backend::Host(queue) => submit_to_host(queue, device, name, task),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => {
                let fault = device.core.faults.check(&name, device.core.name());
                Submitted::Cuda(match fault {
                    Ok(()) => stream.submit(&name, task, submitting),
                    Err(fault) => stream.fail(fault),
                })
            }
        }
    }

    /// Records an event.
    pub(crate) fn record(&self, device: &Device, event: Event) -> Submitted {
        match self {
            Backend::Host(queue) => {
                let operation = Operation { name: Arc::from("record"), work: Work::Record(event) };
                device.core.runner.submit(queue, operation);
                Submitted::Done
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => Submitted::Cuda(stream.record(event)),
        }
    }

    /// Records an event that only the host waits for.
    pub(crate) fn end(&self, device: &Device, event: Event) -> Submitted {
        match self {
            Backend::Host(_) => self.record(device, event),
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => Submitted::Cuda(stream.end(event)),
        }
    }

    /// Counts a need for the host in the lane; host devices have no lanes to count it in.
    pub(crate) fn need_host(&self) -> NeedsHost {
        NeedsHost::new(match self {
            Backend::Host(_) => None,
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => Some(stream.needs_host()),
        })
    }

    /// Makes what comes next on the stream come after an event.
    pub(crate) fn wait(&self, device: &Device, event: Event) -> Submitted {
        match self {
            Backend::Host(queue) => {
                let operation = Operation { name: Arc::from("wait"), work: Work::Wait(event) };
                device.core.runner.submit(queue, operation);
                Submitted::Done
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => Submitted::Cuda(stream.wait(event)),
        }
    }

    /// Gives the stream's place in the clocks back when its operations are over.
    pub(crate) fn close(&self, device: &Device, open: OpenStream) {
        match self {
            Backend::Host(queue) => {
                let operation = Operation { name: Arc::from("close"), work: Work::Close(open) };
                device.core.runner.submit(queue, operation);
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(stream) => stream.close(Box::new(open)),
        }
    }
}

fn submit_to_host(
    queue: &Arc<StreamQueue>,
    device: &Device,
    name: Arc<str>,
    mut task: Task,
) -> Submitted {
    let (faults, place) = (Arc::clone(&device.core.faults), Arc::clone(device.core.name()));
    let operation = Arc::clone(&name);
    let mut tracing = device
        .core
        .trace
        .as_ref()
        .map(|trace| Tracing::of(trace, (Arc::clone(&place), queue.lane()), (&name, &task)));
    let mut is_begun = false;
    let run = Box::new(move || {
        if !std::mem::replace(&mut is_begun, true) {
            tracing.iter_mut().for_each(Tracing::begin);
            faults.check(&operation, &place)?;
        }
        // SAFETY: the ledger has accepted the operation, and its stream runs it in the order of the ledger.
        let step = unsafe { task.run(&place) };
        if !matches!(step, Ok(Step::Waits)) {
            tracing.iter_mut().for_each(Tracing::end);
        }
        step
    });
    device.core.runner.submit(queue, Operation { name, work: Work::Run(run) });
    Submitted::Done
}
