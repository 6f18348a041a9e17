//! Who may touch which buffer when: vector clocks of streams, and last accesses of buffers.
//! `README.md` beside this file has the rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::memory::Allocation;
use crate::poison::Poison;
use crate::{Error, Result};

/// Position of a stream in every clock.
pub(crate) type StreamIndex = usize;

/// For each stream, the last of its operations that is known to come before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<u64>);

impl Clock {
    fn get(&self, stream: StreamIndex) -> u64 {
        self.0.get(stream).copied().unwrap_or(0)
    }

    fn set(&mut self, stream: StreamIndex, sequence: u64) {
        if self.0.len() <= stream {
            self.0.resize(stream + 1, 0);
        }
        self.0[stream] = sequence;
    }

    fn merge(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }
}

/// How an operation uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessKind {
    /// Reads it.
    Read,
    /// Writes it, alone.
    Write,
    /// Uses it through atomics only, beside others that do.
    Shared,
}

impl AccessKind {
    fn conflicts_with(self, other: AccessKind) -> bool {
        self == AccessKind::Write || self != other
    }
}

/// An access that may still be under way.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    stream: StreamIndex,
    sequence: u64,
    kind: AccessKind,
    operation: Arc<str>,
    place: Arc<str>,
}

/// An operation on a buffer that the host has not waited for: names it, and
/// the event to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    operation: String,
    event: String,
}

impl std::fmt::Display for InFlight {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}; wait for {}", self.operation, self.event)
    }
}

impl Access {
    fn is_like(&self, stream: StreamIndex, kind: AccessKind) -> bool {
        self.stream == stream && self.kind == kind
    }

    /// The stream makes the same access again. Names are replaced only where they differ, since
    /// changing reference counts would cost more than all the rest.
    fn repeat(&mut self, sequence: u64, place: &Arc<str>, operation: &Arc<str>) {
        self.sequence = sequence;
        for (old, new) in [(&mut self.place, place), (&mut self.operation, operation)] {
            if !Arc::ptr_eq(old, new) {
                *old = Arc::clone(new);
            }
        }
    }

    fn operation(&self) -> String {
        format!("{} (operation {} of {})", self.operation, self.sequence, self.place)
    }

    fn event(&self) -> String {
        format!("an event recorded on {} at or after operation {}", self.place, self.sequence)
    }

    fn in_flight(&self) -> InFlight {
        InFlight { operation: self.operation(), event: self.event() }
    }
}

/// The clocks of one set of devices.
#[derive(Debug)]
pub(crate) struct Ledger {
    clocks: Mutex<Clocks>,
    /// If it is set, failed events do not tell who still uses a buffer.
    poison: Poison,
}

#[derive(Debug, Default)]
struct Clocks {
    /// What each stream's next operation comes after, including the stream's own earlier operations.
    streams: Vec<Clock>,
    /// What host code has waited for.
    host: Clock,
    /// Indices of streams that are gone. A new stream continues the clock of an old one, whose
    /// operations are all over.
    unused: Vec<StreamIndex>,
    /// For each stream, the last operation that its device has been given.
    given: Vec<Given>,
}

/// The last operation of a stream that its device has been given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given(Arc<AtomicU64>);

impl Given {
    /// Called right after an operation has been given to the device.
    pub(crate) fn set(&self, sequence: u64) {
        // Release, pairs with `Ledger::given`: whoever has read this number finds the operation
        // among those that are not over.
        self.0.store(sequence, Ordering::Release);
    }
}

impl Clocks {
    /// An access that is not ordered before an operation of `kind` on `stream`, or before host code.
    fn conflict<'a>(
        &self,
        stream: Option<StreamIndex>,
        kind: AccessKind,
        accesses: &'a [Access],
    ) -> Option<&'a Access> {
        let known = stream.map(|stream| &self.streams[stream]);
        // From the end: a later access is more likely to be the one that the program has forgotten.
        accesses.iter().rfind(|access| {
            let seen = known.map_or(0, |clock| clock.get(access.stream));
            kind.conflicts_with(access.kind)
                && access.sequence > seen.max(self.host.get(access.stream))
        })
    }
}

impl Ledger {
    /// The ledger of devices whose GPUs, if any, share this poison.
    pub(crate) fn new(poison: Poison) -> Ledger {
        Ledger { clocks: Mutex::default(), poison }
    }

    /// # Errors
    /// The fault of a GPU, after which others may use memory that nobody waits for.
    pub(crate) fn check_gpus(&self) -> Result<()> {
        self.poison.check()
    }

    /// A place in the clocks for a new stream, and its record of what its device has been given.
    pub(crate) fn open_stream(&self) -> (StreamIndex, Given) {
        let mut clocks = self.clocks.lock();
        let index = clocks.unused.pop().unwrap_or_else(|| {
            clocks.streams.push(Clock::default());
            clocks.given.push(Given::default());
            clocks.streams.len() - 1
        });
        (index, clocks.given[index].clone())
    }

    /// For each stream, the operations that devices have been given.
    pub(crate) fn given(&self) -> Clock {
        let clocks = self.clocks.lock();
        Clock(clocks.given.iter().map(|given| given.0.load(Ordering::Acquire)).collect())
    }

    /// The stream is gone and all its operations are over.
    pub(crate) fn close_stream(&self, stream: StreamIndex) {
        self.clocks.lock().unused.push(stream);
    }

    /// Enters an operation and returns its number, or refuses it and changes nothing.
    pub(crate) fn submit(
        &self,
        stream: StreamIndex,
        place: &Arc<str>,
        operation: &Arc<str>,
        accesses: &[(Arc<Allocation>, AccessKind)],
    ) -> Result<u64> {
        // After a fault, refuse all accesses: a stream that waited for what has failed does not
        // run, but others are ordered after it.
        if !accesses.is_empty() {
            self.check_gpus()?;
        }
        let mut clocks = self.clocks.lock();
        for (position, (allocation, kind)) in accesses.iter().enumerate() {
            let twice = accesses[..position].iter().any(|(earlier, earlier_kind)| {
                Arc::ptr_eq(earlier, allocation) && kind.conflicts_with(*earlier_kind)
            });
            allocation.check_lent(operation, *kind)?;
            let record = allocation.record.lock();
            if let Some(access) = clocks.conflict(Some(stream), *kind, &record) {
                return Err(self.hazard(operation, allocation, access));
            }
            if twice {
                return Err(Error::BoundTwice {
                    operation: operation.to_string(),
                    buffer: allocation.to_string(),
                });
            }
        }
        let Clocks { streams, host, .. } = &mut *clocks;
        let clock = &mut streams[stream];
        clock.merge(host);
        let sequence = clock.get(stream) + 1;
        clock.set(stream, sequence);
        for (allocation, kind) in accesses {
            let mut record = allocation.record.lock();
            // Everything before is ordered before a write; and a stream's last access of a kind is
            // ordered before its next one of that kind.
            let is_write = *kind == AccessKind::Write;
            record.retain(|old| {
                old.is_like(stream, *kind) || !is_write && old.sequence > host.get(old.stream)
            });
            match record.iter_mut().find(|old| old.is_like(stream, *kind)) {
                Some(access) => access.repeat(sequence, place, operation),
                None => {
                    let (operation, place) = (Arc::clone(operation), Arc::clone(place));
                    record.push(Access { stream, sequence, kind: *kind, operation, place });
                }
            }
        }
        Ok(sequence)
    }

    /// What an event recorded on `stream` now comes after, and the event's number.
    pub(crate) fn record(&self, stream: StreamIndex) -> (Clock, u64) {
        let mut clocks = self.clocks.lock();
        let clock = &mut clocks.streams[stream];
        let sequence = clock.get(stream) + 1;
        clock.set(stream, sequence);
        (clock.clone(), sequence)
    }

    /// Orders what `stream` does next after an event.
    pub(crate) fn wait(&self, stream: StreamIndex, event: &Clock) {
        self.clocks.lock().streams[stream].merge(event);
    }

    /// Host code has seen an event complete, or fail in a way that ends everything before it.
    pub(crate) fn host_waited(&self, event: &Clock) {
        self.clocks.lock().host.merge(event);
    }

    /// The accesses that an event covers are over: drops them from the record.
    pub(crate) fn retire(&self, allocation: &Allocation, event: &Clock) {
        allocation.record.lock().retain(|access| access.sequence > event.get(access.stream));
    }

    /// An access that the host has not waited for.
    pub(crate) fn in_flight(&self, allocation: &Allocation) -> Option<InFlight> {
        let clocks = self.clocks.lock();
        let record = allocation.record.lock();
        clocks.conflict(None, AccessKind::Write, &record).map(Access::in_flight)
    }

    /// Whether the host may use `allocation` in this way.
    pub(crate) fn check_host(&self, allocation: &Allocation, kind: AccessKind) -> Result<()> {
        let clocks = self.clocks.lock();
        let record = allocation.record.lock();
        match clocks.conflict(None, kind, &record) {
            Some(access) => Err(self.hazard("host code", allocation, access)),
            None => Ok(()),
        }
    }

    /// Lets the host use items of `allocation` beside kernels that use them atomically: nothing
    /// that conflicts is submitted meanwhile. `kind` is reading or sharing.
    pub(crate) fn on_host<R>(
        &self,
        allocation: &Allocation,
        kind: AccessKind,
        work: impl FnOnce() -> R,
    ) -> Result<R> {
        let record = allocation.record.lock();
        // The usual case: no clock has to be consulted.
        if record.iter().all(|access| access.kind == AccessKind::Shared) {
            return Ok(work());
        }
        drop(record);
        let clocks = self.clocks.lock();
        let mut record = allocation.record.lock();
        record.retain(|access| access.sequence > clocks.host.get(access.stream));
        // Kernels and host code use these items atomically, so they do not conflict; reading
        // conflicts with writes only.
        let conflicting = record.iter().find(|access| match access.kind {
            AccessKind::Shared => false,
            AccessKind::Read => kind != AccessKind::Read,
            AccessKind::Write => true,
        });
        match conflicting {
            Some(access) => Err(self.hazard("host code", allocation, access)),
            None => Ok(work()),
        }
    }

    /// Whether what `stream` does next comes after all accesses so far. `name` is what the error calls it.
    pub(crate) fn check_covered(
        &self,
        stream: StreamIndex,
        allocation: &Allocation,
        name: impl FnOnce() -> String,
    ) -> Result<()> {
        // The usual case: no clock has to be consulted.
        if allocation.record.lock().iter().all(|access| access.stream == stream) {
            return Ok(());
        }
        let clocks = self.clocks.lock();
        let record = allocation.record.lock();
        match clocks.conflict(Some(stream), AccessKind::Write, &record) {
            Some(access) => Err(self.hazard(&name(), allocation, access)),
            None => Ok(()),
        }
    }

    /// The error that says what to wait for; after a fault, the fault, since nothing then tells
    /// when the access is over.
    fn hazard(&self, operation: &str, allocation: &Allocation, access: &Access) -> Error {
        self.poison.get().cloned().unwrap_or_else(|| Error::Hazard {
            operation: operation.to_string(),
            buffer: allocation.to_string(),
            conflicting: access.operation(),
            event: access.event(),
        })
    }
}
