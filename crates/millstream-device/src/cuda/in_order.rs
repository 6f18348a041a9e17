//! Submissions in their order, some of which must wait for the host or are left to a thread. The
//! driver that they are for is not part of this. `README.md` beside this file says why.

use std::collections::VecDeque;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicUsize, Fault, Mutex, Ordering, seeded};

/// What has become of an operation.
#[derive(Debug)]
pub(crate) enum Step<T, O> {
    /// It has been submitted, or never will be.
    Done,
    /// It must come after something that is not over yet: the operation comes back.
    HeldUp(T, O),
}

/// What waits after an operation that had waited was performed or not.
#[derive(Debug)]
pub(crate) enum Rest<O> {
    /// Nothing: the next to let an operation wait learns whether somebody has to resume.
    None,
    /// Something that the same thread has to resume.
    More,
    /// The same, but nothing was performed: the operation lets others join first.
    Gathers,
    /// The operation itself waits for this.
    HeldUp(O),
}

/// Operations of one lane or stream, performed on `S` one at a time and in the order in which they
/// come. When one waits, all behind it wait, too.
#[derive(Debug)]
pub(crate) struct InOrder<S, T> {
    shared: CachePadded<Shared<T>>,
    /// Locked as long as the driver takes: either together with `waiting`, or by the thread that resumes.
    target: Mutex<S>,
    /// Operations taken out of `waiting`, and before what is left there. Only the thread that
    /// resumes uses them, so it does not hold up those who add more. Each has the number of
    /// operations that have joined into it.
    taken: Mutex<VecDeque<(T, usize)>>,
}

/// What those who let operations wait touch, kept apart from what only the thread that resumes touches.
#[derive(Debug)]
struct Shared<T> {
    waiting: Mutex<Waiting<T>>,
    /// The number of operations that wait, or are being performed after they have waited. Changed
    /// with `waiting` locked; whoever raises it from 0 has to see to it that somebody resumes.
    outstanding: AtomicUsize,
}

#[derive(Debug)]
struct Waiting<T> {
    operations: VecDeque<T>,
    /// Whether the first operation is held up: nobody is performing it now.
    is_held_up: bool,
    /// How many operations that had waited have been performed.
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
        // Acquire: pairs with the release in `resume`, so that what the operations did is seen.
        self.shared.outstanding.load(Ordering::Acquire)
    }

    /// The value that `performed` has once all operations that wait now have been performed.
    pub(crate) fn arrived(&self) -> u64 {
        let waiting = self.shared.waiting.lock();
        waiting.performed + self.outstanding() as u64
    }

    /// Whether `count` operations that had waited have been performed, or the first one is held up.
    pub(crate) fn has_performed(&self, count: u64) -> bool {
        let waiting = self.shared.waiting.lock();
        waiting.is_held_up || waiting.performed >= count
    }

    /// Whether more than `most` operations wait for nothing but their turn.
    pub(crate) fn is_behind(&self, most: usize) -> bool {
        self.outstanding() > most && !self.shared.waiting.lock().is_held_up
    }

    /// Looks at the target, unless an operation waits.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&S) -> R) -> Option<R> {
        let _none_more = self.shared.waiting.lock();
        (self.outstanding() == 0).then(|| look(&self.target.lock()))
    }

    /// Performs `operation`, or lets it wait. If it is the first to wait, this returns what it
    /// waits for, and [`InOrder::resume`] must be called once that is over. `perform` must not call
    /// back.
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
        // Relaxed: whoever asks at the same time may see either value.
        self.shared.outstanding.fetch_add(1, Ordering::Relaxed);
        obstacle
    }

    /// Lets `operation` wait. If it is the only one, [`InOrder::resume`] must be called; `begin` is
    /// then called before anybody can see that something waits, and its result is returned. Also
    /// returns how many operations wait now.
    #[must_use]
    pub(crate) fn leave<B>(&self, operation: T, begin: impl FnOnce() -> B) -> (Option<B>, usize) {
        let mut waiting = self.shared.waiting.lock();
        waiting.operations.push_back(operation);
        let begun = (self.outstanding() == 0).then(begin);
        // Relaxed: as above.
        (begun, self.shared.outstanding.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Lets `operation` wait until the caller resumes. Returns whether it is the first to wait:
    /// then [`InOrder::resume`] must be called, at any time, by this thread or, after
    /// [`InOrder::let_go`], by another. Otherwise it is performed after those before it.
    #[must_use]
    pub(crate) fn hold(&self, operation: T) -> bool {
        let mut waiting = self.shared.waiting.lock();
        waiting.operations.push_back(operation);
        // Relaxed: as above.
        let is_first = self.shared.outstanding.fetch_add(1, Ordering::Relaxed) == 0;
        waiting.is_held_up |= is_first;
        is_first
    }

    /// What is [held](InOrder::hold) will soon be resumed by another thread: from now on, those who
    /// settle wait for it.
    pub(crate) fn let_go(&self) {
        if !seeded(Fault::LetGoLate) {
            self.shared.waiting.lock().is_held_up = false;
        }
    }

    /// Performs the first operation that waits, together with those behind it that `join` merges
    /// into it, one after another (`join` returns those that it does not merge). If nothing is
    /// behind it and `gathers` says so, the operation goes on waiting. Called by whoever has to
    /// resume: when the obstacle that was returned last is over, or when [`InOrder::leave`] or
    /// [`InOrder::hold`] asks for it; and again as long as this returns [`Rest::More`] or
    /// [`Rest::Gathers`]. So only one thread at a time is in here.
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
        // More operations may queue up while the driver takes its time.
        let step = perform(&mut self.target.lock(), first);
        let (done, held_up) = match step {
            Step::Done => (count, None),
            Step::HeldUp(operation, obstacle) => {
                taken.push_front((operation, 1));
                (count - 1, Some(obstacle))
            }
        };
        // Unlocked before another thread may resume.
        drop(taken);
        // With the lock: whoever lets an operation wait counts it before this can see that none is left.
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

/// The first operation, and how many operations have been merged into it.
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
