//! Kernels that say themselves that they are over.

use millstream::device::{CudaSource, Kernel, KernelResult, Tell, Trusted, Write};

use super::set;

pub(super) const ITEMS: usize = 1000;

const SOURCE: &str = r#"
#include "span.cuh"
#include "tell.cuh"
using namespace millstream;

__device__ void set_all(Span<u32> items) {
    for (u64 at = threadIdx.x; at < items.len; at += blockDim.x) items[at] += 7;
    __syncthreads();
}

extern "C" __global__ void tells(Span<u32> items, Tell tell) {
    set_all(items);
    if (threadIdx.x == 0) tell.say();
}

extern "C" __global__ void says_nothing(Span<u32> items) { set_all(items); }
"#;

const fn source(entry: &'static str) -> CudaSource {
    CudaSource::new("telling.cu", entry, SOURCE).blocks(1)
}

fn add_seven(items: &mut [u32]) -> KernelResult {
    items.iter_mut().for_each(|item| *item += 7);
    Ok(())
}

pub(super) static TELLS: Kernel<(Write<u32>, Tell)> = Kernel::with_source(
    "tells",
    // SAFETY: it keeps to its arguments, and tells when its only block is done.
    unsafe { Trusted::new(source("tells")) },
    |_, (items, ())| add_seven(items),
);

static SAYS_NOTHING: Kernel<(Write<u32>,)> = Kernel::with_source(
    "says nothing",
    // SAFETY: it keeps to its arguments.
    unsafe { Trusted::new(source("says_nothing")) },
    |_, (items,)| add_seven(items),
);

#[test]
fn completions_of_kernels_that_tell_and_that_do_not() {
    let set = set();
    for device in set.devices() {
        TELLS.prepare(device, 1).unwrap();
        SAYS_NOTHING.prepare(device, 1).unwrap();
        let stream = device.stream().unwrap();
        let mut items = stream.uploaded(vec![0; ITEMS]).unwrap();
        for round in 1..=50 {
            let tells = TELLS.bind(&stream, 1, (&mut items, Tell)).unwrap();
            set.block_on(tells.submit_soon_with_completion().unwrap()).unwrap().unwrap();
            // Whoever is not asked for it says nothing.
            TELLS.launch(&stream, 1, (&mut items, Tell)).unwrap();
            let other = SAYS_NOTHING.bind(&stream, 1, (&mut items,)).unwrap();
            set.block_on(other.submit_soon_with_completion().unwrap()).unwrap().unwrap();
            let found = set.block_on(stream.download(&items).unwrap()).unwrap().unwrap();
            assert_eq!(found, vec![21 * round; ITEMS], "{device}");
        }
    }
    set.quiesce().unwrap();
}
