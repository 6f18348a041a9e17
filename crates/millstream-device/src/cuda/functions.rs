//! A kernel's functions on the GPUs that it has run on.

use std::sync::OnceLock;

use super::module::Function;

/// Functions by the number of their GPU's context. Every launch looks here, from the threads of all
/// GPUs: hence a list that only grows, without a lock.
#[derive(Debug, Default)]
pub(crate) struct Functions(OnceLock<Box<Entry>>);

#[derive(Debug)]
struct Entry {
    gpu: u64,
    function: Function,
    next: Functions,
}

impl Functions {
    pub(crate) fn of(&self, gpu: u64) -> Option<&Function> {
        let mut entry = self.0.get();
        while let Some(found) = entry {
            if found.gpu == gpu {
                return Some(&found.function);
            }
            entry = found.next.0.get();
        }
        None
    }

    /// Adds a function, unless another thread has added one already.
    pub(crate) fn add(&self, gpu: u64, function: &Function) -> &Function {
        let mut end = self;
        loop {
            let new =
                || Box::new(Entry { gpu, function: function.clone(), next: Functions::default() });
            let entry = end.0.get_or_init(new);
            if entry.gpu == gpu {
                return &entry.function;
            }
            end = &entry.next;
        }
    }
}
