//! A kernel and an event after it, submitted together.

use std::sync::Arc;

use super::Stream;
use crate::Result;
use crate::backend::Backend;
use crate::event::Event;
use crate::parameter::Accesses;
use crate::task::{Followers, Task};

impl Stream {
    /// Submits a kernel, and then either [records](Stream::record) an event or, if only the host
    /// follows, [completes](Stream::completed) one.
    pub(crate) fn submit_with_event(
        &self,
        name: Arc<str>,
        accesses: &mut Accesses,
        task: Task,
        followers: Followers,
    ) -> Result<Event> {
        #[cfg(feature = "cuda")]
        if let Backend::Cuda(stream) = &self.core.backend {
            let device = &self.core.device.core;
            stream.prepare(&task, followers.submitting())?;
            let (event, failed, submitted) = {
                let _entered = self.enter(&name, accesses, &task)?;
                let event = self.new_event();
                match device.faults.check(&name, device.name()) {
                    Ok(()) => {
                        let submitted =
                            stream.submit_with_event(&name, task, event.clone(), followers);
                        (event, None, submitted)
                    }
                    Err(fault) => {
                        let failed = stream.fail(fault);
                        (event.clone(), Some(failed), stream.record(event))
                    }
                }
            };
            failed.map_or(Ok(()), crate::cuda::Submitted::finish)?;
            return submitted.finish().map(|()| event);
        }
        self.submit_by(name, accesses, task, followers.submitting())?;
        self.record_with(match followers {
            Followers::Streams => Backend::record,
            Followers::Host => Backend::end,
        })
    }
}
