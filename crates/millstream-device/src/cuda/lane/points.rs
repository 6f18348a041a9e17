//! Points of a lane: how the driver's stream tells that it has come to one, and waits for those of
//! other lanes.

use std::sync::Arc;

use cudarc::driver::sys;

use super::super::context::NativeEvent;
use super::super::pending::Pending;
use super::super::submission::Submission;
use super::Lane;
use crate::Result;
use crate::event::Event;
use crate::first_cause::FirstCause;
use crate::reactor::shown;

impl Lane {
    /// `is_placed`: other lanes may wait for the event. If the last kernel tells, the driver's
    /// stream need not write the word.
    pub(super) fn submit_point(
        &self,
        submission: &mut Submission,
        event: Option<&Event>,
        is_placed: bool,
        cause: &Arc<FirstCause>,
    ) -> Result<()> {
        self.context.bind()?;
        // Taken only once: if two points had the same number, the first to be finished would count for both.
        let tells = std::mem::take(&mut submission.tells);
        let point = submission.point + u64::from(!tells);
        let is_placed = is_placed || self.word.is_none();
        let native = is_placed.then(|| self.place(event, point)).transpose()?;
        if let Some(word) = self.word.as_ref().filter(|_| !tells) {
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

    /// Records an event of the driver at the current end of its stream.
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

    /// Registers what happens when the stream has come to the last point.
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
        submission.tells = false;
        let Some(native) = event.native() else { return Ok(()) };
        // Even if the call is refused: in the ledger the stream comes after the event, and so does
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
