//! Kernels of gangs, each made once for the life of the process.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::LazyLock;

use millstream_device::{CudaSource, Kernel, Parameter, Trusted};
use millstream_flow::Gang;
use parking_lot::Mutex;

/// Keyed by the types of the signature and of the closure that makes the source.
static KERNELS: LazyLock<Mutex<Kernels>> = LazyLock::new(Default::default);

type Kernels = HashMap<TypeId, &'static (dyn Any + Send + Sync)>;

/// The gang's kernel of a source, kept for the life of the process: making the text takes some 25
/// microseconds, and looking the loaded kernel up by its text takes as long again on each GPU, while a
/// short search takes 50. `source` captures nothing, so it always makes the same text; whatever it
/// depends on is in its type.
pub fn gang_kernel<S, F>(name: &str, source: F) -> &'static Kernel<S>
where
    S: Parameter + 'static,
    F: Fn() -> Trusted<CudaSource> + 'static,
{
    const { assert!(size_of::<F>() == 0, "what makes a source captures nothing") };
    let mut kernels = KERNELS.lock();
    let key = TypeId::of::<(S, F)>();
    let known = kernels.get(&key).and_then(|kernel| kernel.downcast_ref());
    known.unwrap_or_else(|| {
        let kernel: &'static Kernel<S> = Box::leak(Box::new(Gang::kernel(name, source())));
        kernels.insert(key, kernel);
        kernel
    })
}

#[cfg(test)]
mod tests {
    use millstream_device::{Shared, Value};

    use super::*;

    fn source(entry: &'static str) -> Trusted<CudaSource> {
        // SAFETY: nobody launches it.
        unsafe { Trusted::new(CudaSource::new("some.cu", entry, "")) }
    }

    fn kernel<S: Parameter + 'static>(is_first: bool) -> &'static Kernel<S> {
        match is_first {
            true => gang_kernel("first", || source("first")),
            false => gang_kernel("second", || source("second")),
        }
    }

    #[test]
    fn kernels_are_told_apart_by_source_and_signature() {
        type One = (Shared<u32>,);
        type Other = (Value<u32>,);
        assert_eq!((kernel::<One>(true).name(), kernel::<One>(false).name()), ("first", "second"));
        assert!(std::ptr::eq(kernel::<One>(true), kernel::<One>(true)));
        assert!(!std::ptr::eq(kernel::<One>(true), kernel::<One>(false)));
        assert_eq!(kernel::<Other>(true).name(), "first");
    }
}
