//! Submissions in their order, some of which must wait for the host or are left to a
//! thread, without the driver that they are for. `README.md` beside this file says why.

use std::collections::VecDeque;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicUsize, Fault, Mutex, Ordering, seeded};

/// What became of an operation.
#[derive(Debug)]
pub(crate) enum Step<T, O> {
    /// It is submitted, or never will be.
    Done,
    /// It must come after something that is not over; back it goes.
    HeldUp(T, O),
}

/// What waits behind an operation that has waited.
#[derive(Debug)]
pub(crate) enum Rest<O> {
    /// Nothing: whoever lets an operation wait next says who resumes.
    None,
    /// Something that is the same thread's to resume.
    More,
    /// The same, and nothing was performed: it lets others join first.
    Gathers,
    /// The operation itself, for this.
    HeldUp(O),
}

/// Operations of one lane or stream, performed on `S` one at a time and in the order they
/// come. Those behind one that waits wait with it.
#[derive(Debug)]
pub(crate) struct InOrder<S, T> {
    shared: CachePadded<Shared<T>>,
    /// Locked for as long as the driver takes, with `waiting` or by whoever resumes.
    target: Mutex<S>,
    /// Taken out of what waits, and before what is there: of whoever resumes, who does not hold up those
    /// who let more wait. With how many each has become.
    taken: Mutex<VecDeque<(T, usize)>>,
}

/// What those who let operations wait touch, apart from what only who resumes them does.
#[derive(Debug)]
struct Shared<T> {
    waiting: Mutex<Waiting<T>>,
    /// Operations that wait, and those of them that are being performed. Changes with
    /// `waiting` locked; from 0 on somebody has to resume.
    outstanding: AtomicUsize,
}

#[derive(Debug)]
struct Waiting<T> {
    operations: VecDeque<T>,
    /// Whether the first is: nobody performs it now.
    is_held_up: bool,
    /// Operations that have waited and are performed.
    performed: u64,
}

impl<S, T> InOrder<S, T> {
    /// Nothing waits.
    pub(crate) fn new(target: S) -> InOrder<S, T> {
        let (operations, is_held_up, performed) = (VecDeque::new(), false, 0);
        let waiting = Mutex::new(Waiting { operations, is_held_up, performed });
        let shared = CachePadded::new(Shared { waiting, outstanding: AtomicUsize::new(0) });
        InOrder { shared, target: Mutex::new(target), taken: Mutex::new(VecDeque::new()) }
    }

    /// Operations that wait, or are being performed after they have waited.
    pub(crate) fn outstanding(&self) -> usize {
        // Acquire: pairs with the release in `resume`, after which what the
        // operations did is to be seen.
        self.shared.outstanding.load(Ordering::Acquire)
    }

    /// Of how many operations that have waited so far all are performed, once they are.
    pub(crate) fn arrived(&self) -> u64 {
        let waiting = self.shared.waiting.lock();
        waiting.performed + self.outstanding() as u64
    }

    /// Whether so many operations are performed that have waited, or one is held up.
    pub(crate) fn has_performed(&self, count: u64) -> bool {
        let waiting = self.shared.waiting.lock();
        waiting.is_held_up || waiting.performed >= count
    }

    /// Whether more operations than these wait for nothing but their turn.
    pub(crate) fn is_behind(&self, most: usize) -> bool {
        self.outstanding() > most && !self.shared.waiting.lock().is_held_up
    }

    /// What the target is like, unless an operation waits.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&S) -> R) -> Option<R> {
        let _none_more = self.shared.waiting.lock();
        (self.outstanding() == 0).then(|| look(&self.target.lock()))
    }

    /// Performs `operation`, or lets it wait. If it is the first to wait, what it
    /// waits for comes back: [`InOrder::resume`] must be called once that is over.
    /// `perform` must not call back.
    pub(crate) fn submit<O>(
        &self,
        operation: T,
        perform: impl FnOnce(&mut S, T) -> Step<T, O>,
    ) -> Option<O> {
        let mut waiting = self.shared.waiting.lock();
        let is_free = self.outstanding() == 0
            || seeded(Fault::OvertakeTheHeldUp)
            || seeded(Fault::OvertakeWhatIsUnderWay) && waiting.operations.is_empty();
        let (operation, obstacle) = match is_free {
            false => (operation, None),
            true => match perform(&mut self.target.lock(), operation) {
                Step::Done => return None,
                Step::HeldUp(operation, obstacle) => {
                    waiting.is_held_up = true;
                    (operation, Some(obstacle))
                }
            },
        };
        waiting.operations.push_back(operation);
        // Relaxed: whoever asks meanwhile may hear either.
        self.shared.outstanding.fetch_add(1, Ordering::Relaxed);
        obstacle
    }

    /// Lets `operation` wait. If it is the only one, [`InOrder::resume`] must be called; then
    /// `begin` has been, before anybody sees that something waits. And how many wait now.
    #[must_use]
    pub(crate) fn leave<B>(&self, operation: T, begin: impl FnOnce() -> B) -> (Option<B>, usize) {
        let mut waiting = self.shared.waiting.lock();
        waiting.operations.push_back(operation);
        let begun = (self.outstanding() == 0).then(begin);
        // Relaxed: as above.
        (begun, self.shared.outstanding.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Lets `operation` wait for whoever calls this. Whether it is the first to wait: then
    /// [`InOrder::resume`] must be called, at any time, by this thread or, after
    /// [`InOrder::let_go`], another; else it is performed after those before.
    #[must_use]
    pub(crate) fn hold(&self, operation: T) -> bool {
        let mut waiting = self.shared.waiting.lock();
        waiting.operations.push_back(operation);
        // Relaxed: as above.
        let is_first = self.shared.outstanding.fetch_add(1, Ordering::Relaxed) == 0;
        waiting.is_held_up |= is_first;
        is_first
    }

    /// What is [held](InOrder::hold) will be resumed by somebody else, soon: who settles waits for it
    /// from now on.
    pub(crate) fn let_go(&self) {
        if !seeded(Fault::LetGoLate) {
            self.shared.waiting.lock().is_held_up = false;
        }
    }

    /// Performs the first that waits, and what `join` lets it take over of those behind, the
    /// next one at a time; others come back from it. If nothing is behind and `gathers` says so, it
    /// goes on waiting. Called by whoever resumes: when the
    /// obstacle that came back last is over, or when [`InOrder::leave`] or [`InOrder::hold`] asks
    /// for it; and again while there is [`Rest::More`] or [`Rest::Gathers`]. So one thread at a time
    /// is here.
    pub(crate) fn resume<O>(
        &self,
        join: impl FnMut(&mut T, T) -> Option<T>,
        gathers: impl FnOnce(&T) -> bool,
        perform: impl FnOnce(&mut S, T) -> Step<T, O>,
    ) -> Rest<O> {
        let mut taken = self.taken.lock();
        {
            let mut waiting = self.shared.waiting.lock();
            waiting.is_held_up = false;
            taken.extend(waiting.operations.drain(..).map(|operation| (operation, 1)));
        }
        let Some((first, count)) = take(&mut taken, join) else { return Rest::None };
        if taken.is_empty() && gathers(&first) {
            taken.push_front((first, count));
            return Rest::Gathers;
        }
        // Others may queue up while the driver takes its time.
        let step = perform(&mut self.target.lock(), first);
        let (done, held_up) = match step {
            Step::Done => (count, None),
            Step::HeldUp(operation, obstacle) => {
                taken.push_front((operation, 1));
                (count - 1, Some(obstacle))
            }
        };
        // Before another one may resume.
        drop(taken);
        // Who lets an operation wait has counted it before it is seen that none is left.
        let mut waiting = self.shared.waiting.lock();
        waiting.is_held_up = held_up.is_some();
        waiting.performed += done as u64;
        // Release: see `outstanding`.
        let left = self.shared.outstanding.fetch_sub(done, Ordering::Release) - done;
        match held_up {
            Some(obstacle) => Rest::HeldUp(obstacle),
            None if left == 0 => Rest::None,
            None => Rest::More,
        }
    }
}

/// The first operation, and of how many it is made.
fn take<T>(
    operations: &mut VecDeque<(T, usize)>,
    mut join: impl FnMut(&mut T, T) -> Option<T>,
) -> Option<(T, usize)> {
    let (mut first, mut count) = operations.pop_front()?;
    while let Some((next, its)) = operations.pop_front() {
        if let Some(next) = join(&mut first, next) {
            operations.push_front((next, its));
            break;
        }
        count += its;
    }
    Some((first, count))
}
