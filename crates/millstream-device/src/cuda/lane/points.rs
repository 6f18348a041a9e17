//! Points of a lane: how the driver's stream says that it has come to one, and waits for those of
//! others.

use std::sync::Arc;

use cudarc::driver::sys;

use super::super::context::NativeEvent;
use super::super::lane_stream::LaneStream;
use super::super::operation::TracedTask;
use super::super::pending::{Held, Pending};
use super::super::submission::Submission;
use super::Lane;
use crate::Result;
use crate::event::Event;
use crate::first_cause::FirstCause;
use crate::reactor::shown;
use crate::task::Task;

impl Lane {
    /// `is_placed`: other lanes may wait for the event.
    pub(super) fn submit_point(
        &self,
        submission: &mut Submission,
        event: Option<&Event>,
        is_placed: bool,
        cause: &Arc<FirstCause>,
    ) -> Result<()> {
        self.context.bind()?;
        let point = submission.point + 1;
        let is_placed = is_placed || self.word.is_none();
        let native = is_placed.then(|| self.place(event, point)).transpose()?;
        if let Some(word) = &self.word {
            // SAFETY: the word lives as long as the lane; without the flag that omits
            // it, the write comes after everything before and makes that visible.
            let answer = unsafe {
                sys::cuStreamWriteValue32_v2(self.stream.0, word.address(), shown(point), 0)
            };
            self.context.check(answer, "cuStreamWriteValue32")?;
        }
        submission.point = point;
        self.expect(submission, event, native, cause);
        Ok(())
    }

    /// Runs `task`, whose kernel writes the word if it can: its release makes what it did visible, and it
    /// began after everything before. False if it does not, and a point has to follow.
    pub(super) fn submit_telling(
        &self,
        submission: &mut Submission,
        (task, tracing): TracedTask,
        (event, is_placed): (&Event, bool),
        cause: &Arc<FirstCause>,
    ) -> Result<bool> {
        // Of what is traced, its end is known only after what the kernel says.
        let may_tell = cause.get().is_none() && tracing.is_none();
        let tells = may_tell && matches!(&task, Task::Launch(launch) if launch.tells());
        let Some(word) = self.word.as_ref().filter(|_| tells) else {
            return self.run(submission, (task, tracing), cause).map(|()| false);
        };
        let point = submission.point + 1;
        let telling = LaneStream { tell: (word.address(), shown(point)), ..self.driver_stream() };
        let submitted = self.context.bind().and_then(|()| telling.submit(&task));
        // Held, and its number taken, even if the call fails: it may have begun.
        submission.held.push(Held::Task(task));
        submission.point = point;
        submitted?;
        let native = is_placed.then(|| self.place(Some(event), point)).transpose()?;
        self.expect(submission, Some(event), native, cause);
        Ok(true)
    }

    /// Records the driver's event where the driver's stream is now.
    fn place(&self, event: Option<&Event>, point: u64) -> Result<Arc<NativeEvent>> {
        let place = (self.number, point, self.needs_host());
        // SAFETY: a live stream of the context.
        let native = unsafe { NativeEvent::record(&self.context, self.stream.0, place) }?;
        let native = Arc::new(native);
        if let Some(event) = event {
            event.set_native(Arc::clone(&native));
        }
        Ok(native)
    }

    /// What happens when the stream has come to the last point.
    fn expect(
        &self,
        submission: &mut Submission,
        event: Option<&Event>,
        native: Option<Arc<NativeEvent>>,
        cause: &Arc<FirstCause>,
    ) {
        let held = std::mem::take(&mut submission.held);
        let after = std::mem::take(&mut submission.after);
        let (point, event, cause) = (submission.point, event.cloned(), Arc::clone(cause));
        let failed = cause.get().cloned();
        self.waiting.push(point, Pending { point, event, native, cause, failed, after, held });
        self.reactor.notify();
    }

    pub(super) fn submit_wait(
        &self,
        submission: &mut Submission,
        event: Event,
        cause: &Arc<FirstCause>,
    ) -> Result<()> {
        let Some(native) = event.native() else { return Ok(()) };
        // Also if the call is refused: in the ledger the stream comes after the event, and so does
        // whoever goes on in its place.
        submission.after.push((event.clone(), Arc::clone(cause)));
        if native.lane != self.number && !submission.passes(native.lane, native.point) {
            self.context.bind()?;
            // SAFETY: the event was recorded, and lives as long as `event`, which is
            // held below.
            let answer = unsafe { sys::cuStreamWaitEvent(self.stream.0, native.handle(), 0) };
            self.context.check(answer, "cuStreamWaitEvent")?;
            submission.passed(native.lane, native.point);
        }
        Ok(())
    }
}
