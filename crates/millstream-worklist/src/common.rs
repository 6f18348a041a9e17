//! What every kernel of a worklist takes; `worklist_words.cuh`.

use bytemuck::{Pod, Zeroable};
use millstream_device::{Accesses, Argument, Parameter, Result, Shared, SharedBuffer, Tell, Value};

use crate::problem::Problem;
use crate::program::{Here, Program};

/// Place of the queue of ready items.
pub(crate) const READY: usize = 0;
/// Place of the queue of deferred items.
pub(crate) const DEFERRED: usize = 1;
/// Place of the first outbox.
pub(crate) const OUTBOXES: usize = 2;

/// What every kernel takes: problem; bits, entries and control words of all queues, one queue after the
/// other, and how many items a queue may hold; status; the task's scratch memory and report; where the
/// kernel runs; how it tells the host that it is over.
pub(crate) type Common<P> =
    (<P as Program>::Problem, Queues, Shared<u64>, Shared<u64>, Shared<u64>, Value<Place>, Tell);

type Queues = (Shared<u32>, Shared<u32>, Shared<u32>, Value<u32>);

/// A twin's view of [`Common`].
pub(crate) type CommonView<'a, P> = <Common<P> as Parameter>::View<'a>;

millstream_device::cuda_struct! {
    /// [`Here`] as kernels take it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(crate) struct Place as "millstream::Here" {
        device: u32,
        devices: u32,
        /// `u32::MAX` without a ring.
        next: u32,
    }
}

impl Place {
    pub(crate) fn new(here: &Here) -> Place {
        let next = here.next.map_or(u32::MAX, |next| next as u32);
        Place { device: here.device as u32, devices: here.devices as u32, next }
    }
}

/// All queues of one device, all of the same length.
#[derive(Clone, Debug)]
pub(crate) struct QueueBuffers {
    pub(crate) bits: SharedBuffer<u32>,
    pub(crate) entries: SharedBuffer<u32>,
    pub(crate) control: SharedBuffer<u32>,
    /// The most items that a queue may hold at once.
    pub(crate) most: u32,
}

/// Words that a task's kernels use among themselves; zero between launches.
pub(crate) const SCRATCH_WORDS: usize = 4;
/// Scratch words of a worker's task: also for 16384 items whose arcs all warps share.
pub(crate) const WORKER_SCRATCH_WORDS: usize = SCRATCH_WORDS + 1 + 3 * 16384;

/// What a launch passes for [`Common`].
pub(crate) struct CommonArgument<'a, P: Program> {
    pub(crate) problem: &'a P::Problem,
    pub(crate) queues: &'a QueueBuffers,
    pub(crate) status: &'a SharedBuffer<u64>,
    pub(crate) scratch: &'a SharedBuffer<u64>,
    pub(crate) report: &'a SharedBuffer<u64>,
    pub(crate) place: Place,
}

// SAFETY: the problem and the other parts meet the requirements.
unsafe impl<P: Program> Argument<Common<P>> for CommonArgument<'_, P> {
    fn bind(self, accesses: &mut Accesses) -> Result<<Common<P> as Parameter>::Bound> {
        let problem = self.problem.bind(accesses)?;
        let QueueBuffers { bits, entries, control, most } = self.queues;
        let queues = Argument::<Queues>::bind((bits, entries, control, *most), accesses)?;
        let mut words = |words| Argument::<Shared<u64>>::bind(words, accesses);
        let (status, scratch) = (words(self.status)?, words(self.scratch)?);
        Ok((problem, queues, status, scratch, words(self.report)?, self.place, ()))
    }
}
