//! What there is once for each open context, such as a kernel's functions.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

/// Which context it is: no other one of the process has its number, not even an earlier one, and
/// no other one that is open has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextId {
    number: u64,
    place: usize,
}

/// The identity of a context that is open: its place is free once this is dropped.
#[derive(Debug)]
pub(super) struct OpenContext(ContextId);

/// Places of open contexts.
static TAKEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

impl OpenContext {
    /// The next number, and the first free place.
    pub(super) fn new() -> OpenContext {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the numbers need only differ.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut taken = TAKEN.lock();
        let place = taken.iter().enumerate().take_while(|&(at, &place)| at == place).count();
        taken.insert(place);
        OpenContext(ContextId { number, place })
    }

    pub(super) fn id(&self) -> ContextId {
        self.0
    }
}

impl Drop for OpenContext {
    fn drop(&mut self) {
        TAKEN.lock().remove(&self.0.place);
    }
}

/// A value for each context. Every launch looks here, from the threads of all GPUs: hence a lock
/// for each place. A context's value replaces that of the closed context whose place it has.
#[derive(Debug)]
pub(crate) struct ByContext<T>(OnceLock<Box<Place<T>>>);

#[derive(Debug)]
struct Place<T> {
    /// With the number of its context.
    value: RwLock<Option<(u64, T)>>,
    next: ByContext<T>,
}

impl<T> Default for ByContext<T> {
    fn default() -> ByContext<T> {
        ByContext(OnceLock::new())
    }
}

impl<T: Clone> ByContext<T> {
    pub(crate) fn get(&self, context: ContextId) -> Option<T> {
        let value = self.place(context).value.read();
        let (number, value) = value.as_ref()?;
        (*number == context.number).then(|| value.clone())
    }

    pub(crate) fn set(&self, context: ContextId, value: T) {
        *self.place(context).value.write() = Some((context.number, value));
    }

    fn place(&self, context: ContextId) -> &Place<T> {
        let new = || Box::new(Place { value: RwLock::new(None), next: ByContext::default() });
        let mut place = self.0.get_or_init(new);
        for _ in 0..context.place {
            place = place.next.0.get_or_init(new);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_closed_contexts_are_replaced() {
        let values = ByContext::default();
        let first = OpenContext::new();
        values.set(first.id(), 1);
        let places = || std::iter::successors(values.0.get(), |place| place.next.0.get()).count();
        for _ in 0..100 {
            let second = OpenContext::new();
            assert_ne!(second.id().place, first.id().place);
            // Another one's, of the same place.
            assert_eq!(values.get(second.id()), None);
            values.set(second.id(), 2);
            assert_eq!((values.get(first.id()), values.get(second.id())), (Some(1), Some(2)));
        }
        // Other tests have contexts, too.
        assert!(places() < 50, "{}", places());
    }
}
