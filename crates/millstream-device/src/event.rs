//! Events: completions that streams, tasks and host code can wait for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use parking_lot::{Condvar, Mutex};

use crate::contain::contain;
use crate::host::Runner;
use crate::ledger::{Clock, Ledger};
use crate::{Error, Result, Waits};

/// Something that carries an event, such as a segment on its way.
pub trait Awaitable {
    /// The event to wait for.
    fn event(&self) -> &Event;
}

impl Awaitable for Event {
    fn event(&self) -> &Event {
        self
    }
}

impl<A: Awaitable> Awaitable for &A {
    fn event(&self) -> &Event {
        (*self).event()
    }
}

/// How far an event is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventStatus {
    /// Operations before it are outstanding.
    Pending,
    /// Everything before it is done and visible.
    Complete,
    /// An operation before it failed; this is the first cause.
    Failed(Error),
}

/// An event that the program completes rather than a stream: streams and tasks can wait for
/// something else, such as a packet that a kernel fills, as they wait for other events. Whoever
/// holds the promise completes or fails its event in time; if it is dropped, the event fails.
///
/// Waiting for the event does not order uses of buffers: if an operation needs another event for
/// that, the ledger still refuses it. A stream that waits for a promise holds up no other stream.
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet};
///
/// let set = DeviceSet::builder().devices(DeviceList::host(1)).build()?;
/// let promise = set.promise("lunch");
/// let event = promise.event().clone();
/// assert!(!event.is_complete());
/// promise.complete(Ok(()));
/// event.synchronize()?;
/// # Ok::<(), millstream_device::Error>(())
/// ```
#[derive(Debug)]
pub struct Promise {
    event: Event,
    is_kept: bool,
}

impl Promise {
    pub(crate) fn new(what: Arc<str>, ledger: Arc<Ledger>, runner: Arc<Runner>) -> Promise {
        let event = Event::new(0, what, Clock::default(), ledger, runner);
        let core: Weak<EventCore> = Arc::downgrade(&event.core);
        event.core.runner.report_waits_of(core);
        Promise { event, is_kept: false }
    }

    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Completes the event, or fails it.
    pub fn complete(mut self, result: Result<()>) {
        self.is_kept = true;
        self.event.complete(result);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if !self.is_kept {
            let promise = self.event.to_string();
            let reason = "it was given up".to_string();
            self.event.complete(Err(Error::Unkept { promise, reason }));
        }
    }
}

type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// A point in a stream's order \[G §4.1, event futures\]. It exists only once it
/// is recorded ([`Stream::record`](crate::Stream::record)), so nobody can wait
/// for one that never comes. Cheap to clone.
///
/// ```
/// use millstream_device::{DeviceList, DeviceSet};
///
/// let set = DeviceSet::builder().devices(DeviceList::host(2)).build()?;
/// let (one, other) = (set.devices()[0].stream()?, set.devices()[1].stream()?);
/// let buffer = one.uploaded(vec![1u32, 2, 3])?;
/// let written = one.record()?;
/// other.wait(&written)?;
/// let download = other.download(&buffer)?;
/// set.block_on(written.completed())??;
/// assert_eq!(set.block_on(download)??, [1, 2, 3]);
/// # Ok::<(), millstream_device::Error>(())
/// ```
#[derive(Clone)]
pub struct Event {
    core: Arc<EventCore>,
}

struct EventCore {
    /// Number and stream, as in "event 17 of host:0 compute 2".
    name: (u64, Arc<str>),
    clock: Clock,
    ledger: Arc<Ledger>,
    runner: Arc<Runner>,
    state: Mutex<State>,
    changed: Condvar,
    /// The driver's event, for streams of GPUs.
    #[cfg(feature = "cuda")]
    native: std::sync::OnceLock<Arc<crate::cuda::NativeEvent>>,
}

struct State {
    status: EventStatus,
    /// Wakers of waiting [`Completion`]s, by the completion's number.
    wakers: Vec<(u64, Waker)>,
    numbers: u64,
    callbacks: Vec<Callback>,
    /// Callbacks of those who wait until the driver can wait for the event.
    on_recorded: Vec<Box<dyn FnOnce() + Send>>,
}

impl Waits for EventCore {
    fn waits(&self) -> Vec<String> {
        let state = self.state.lock();
        let is_awaited = state.status == EventStatus::Pending && !state.wakers.is_empty();
        is_awaited.then(|| format!("a task waits for {}", self.name.1)).into_iter().collect()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, place) = &self.core.name;
        write!(formatter, "event {number} of {place}")
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Event({self}, {:?})", self.status())
    }
}

impl Event {
    pub(crate) fn new(
        number: u64,
        place: Arc<str>,
        clock: Clock,
        ledger: Arc<Ledger>,
        runner: Arc<Runner>,
    ) -> Event {
        let state = State {
            status: EventStatus::Pending,
            wakers: Vec::new(),
            numbers: 0,
            callbacks: Vec::new(),
            on_recorded: Vec::new(),
        };
        let name = (number, place);
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Event {
            core: Arc::new(EventCore {
                name,
                clock,
                ledger,
                runner,
                state,
                changed,
                #[cfg(feature = "cuda")]
                native: std::sync::OnceLock::new(),
            }),
        }
    }

    /// Sets the driver's event; only for events of a GPU's stream. [`Event::recorded`] must follow.
    #[cfg(feature = "cuda")]
    pub(crate) fn set_native(&self, native: Arc<crate::cuda::NativeEvent>) {
        let _ = self.core.native.set(native);
    }

    /// The event has been recorded. If the driver can now wait for it, tells those who wait for that.
    #[cfg(feature = "cuda")]
    pub(crate) fn recorded(&self) {
        if self.is_for_driver() {
            self.let_go();
        }
    }

    fn let_go(&self) {
        let callbacks = std::mem::take(&mut self.core.state.lock().on_recorded);
        callbacks.into_iter().for_each(|callback| callback());
    }

    /// Whether streams may wait for it in the driver: it has been recorded, and ends without the host's help.
    #[cfg(feature = "cuda")]
    fn is_for_driver(&self) -> bool {
        self.native().is_some_and(|native| !native.needs_host())
    }

    /// Calls `callback` once the driver can wait for the event, or the event is complete; at once
    /// if that is already so. `callback` must be short, and must not panic.
    #[cfg(feature = "cuda")]
    pub(crate) fn on_recorded(&self, callback: impl FnOnce() + Send + 'static) {
        {
            let mut state = self.core.state.lock();
            if state.status == EventStatus::Pending && !self.is_for_driver() {
                state.on_recorded.push(Box::new(callback));
                return;
            }
        }
        callback();
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn native(&self) -> Option<&Arc<crate::cuda::NativeEvent>> {
        self.core.native.get()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.core.clock
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.core.ledger
    }

    /// How far the event is. Does not order anything: see [`Event::completed`].
    pub fn status(&self) -> EventStatus {
        self.core.state.lock().status.clone()
    }

    /// Whether everything before the event is done.
    pub fn is_complete(&self) -> bool {
        self.status() == EventStatus::Complete
    }

    /// Waits for the event. When it resolves, what host code does next comes
    /// after everything before the event.
    ///
    /// # Errors
    /// The first cause, if an operation before the event failed.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub fn completed(&self) -> Completion {
        Completion { event: self.clone(), number: None }
    }

    /// As [`Event::completed`], blocking the thread. On simulated devices it
    /// runs operations until the event is complete.
    ///
    /// # Errors
    /// The first cause, if an operation before the event failed; a deadlock of
    /// the simulation, such as that of a twin that waits for its own stream.
    pub fn synchronize(&self) -> Result<()> {
        if let Runner::Simulated(simulation) = &*self.core.runner {
            simulation.run_until(|| self.status() != EventStatus::Pending)?;
        }
        let mut state = self.core.state.lock();
        while state.status == EventStatus::Pending {
            self.core.changed.wait(&mut state);
        }
        let result = outcome(&state.status);
        drop(state);
        self.merge_into_host();
        result
    }

    /// Calls `callback` when the event is complete, on the thread that completes it, or at once if
    /// it is complete already. `callback` must be short; its call orders nothing. If it panics on
    /// another thread, the panic is caught.
    pub fn on_complete(&self, callback: impl FnOnce(Result<()>) + Send + 'static) {
        let result = {
            let mut state = self.core.state.lock();
            if state.status == EventStatus::Pending {
                state.callbacks.push(Box::new(callback));
                return;
            }
            outcome(&state.status)
        };
        callback(result);
    }

    /// States that host code has learnt of the completion in some other way: what it does next
    /// comes after the event. After a failure this holds, too, since nothing before the event runs
    /// any more, unless a GPU has had a fault, after which other GPUs may still run. Does nothing
    /// while the event is pending.
    pub fn merge_into_host(&self) {
        let is_over = match self.status() {
            EventStatus::Pending => false,
            EventStatus::Complete => true,
            EventStatus::Failed(_) => self.core.ledger.check_gpus().is_ok(),
        };
        if is_over {
            self.core.ledger.host_waited(&self.core.clock);
        }
    }

    /// Everything before the event is over; `result` has the first failure, if any.
    pub(crate) fn complete(&self, result: Result<()>) {
        let (wakers, callbacks) = {
            let mut state = self.core.state.lock();
            state.status = match &result {
                Ok(()) => EventStatus::Complete,
                Err(error) => EventStatus::Failed(error.clone()),
            };
            (std::mem::take(&mut state.wakers), std::mem::take(&mut state.callbacks))
        };
        self.core.changed.notify_all();
        self.let_go();
        for callback in callbacks {
            let result = result.clone();
            contain(move || callback(result));
        }
        wakers.into_iter().for_each(|(_, waker)| contain(move || waker.wake()));
    }

    /// `number` identifies the asker; it is set when the asker first has to wait.
    fn poll(&self, number: &mut Option<u64>, waker: &Waker) -> Poll<Result<()>> {
        let mut before = None;
        let result = {
            let mut state = self.core.state.lock();
            match state.status {
                EventStatus::Pending => {
                    before = state.register(number, waker);
                    None
                }
                _ => Some(outcome(&state.status)),
            }
        };
        // A waker's drop may run any code: do it without a lock.
        drop(before);
        let Some(result) = result else { return Poll::Pending };
        self.merge_into_host();
        Poll::Ready(result)
    }

    /// The asker with this number no longer waits.
    fn forget(&self, number: u64) {
        let forgotten = {
            let mut state = self.core.state.lock();
            let place = state.wakers.iter().position(|(its, _)| *its == number);
            place.map(|place| state.wakers.swap_remove(place))
        };
        drop(forgotten);
    }
}

impl State {
    /// Registers a waker. Returns the one that it replaces, if any.
    fn register(&mut self, number: &mut Option<u64>, waker: &Waker) -> Option<Waker> {
        let is_here = |(its, _): &&mut (u64, Waker)| Some(*its) == *number;
        if let Some((_, registered)) = self.wakers.iter_mut().find(is_here) {
            let is_another = !registered.will_wake(waker);
            return is_another.then(|| std::mem::replace(registered, waker.clone()));
        }
        self.numbers += 1;
        *number = Some(self.numbers);
        self.wakers.push((self.numbers, waker.clone()));
        None
    }
}

fn outcome(status: &EventStatus) -> Result<()> {
    match status {
        EventStatus::Failed(error) => Err(error.clone()),
        EventStatus::Pending | EventStatus::Complete => Ok(()),
    }
}

/// Waits for an event, or for what a stream was given: see [`Event::completed`] and
/// [`Stream::completed`](crate::Stream::completed).
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Completion {
    event: Event,
    /// Set once it has had to wait.
    number: Option<u64>,
}

impl Clone for Completion {
    fn clone(&self) -> Completion {
        Completion { event: self.event.clone(), number: None }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.event.forget(number);
        }
    }
}

impl Completion {
    /// As [`Event::status`].
    pub fn status(&self) -> EventStatus {
        self.event.status()
    }

    /// As [`Event::on_complete`].
    pub fn on_complete(&self, callback: impl FnOnce(Result<()>) + Send + 'static) {
        self.event.on_complete(callback);
    }
}

impl Future for Completion {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Completion { event, number } = &mut *self;
        event.poll(number, context.waker())
    }
}
