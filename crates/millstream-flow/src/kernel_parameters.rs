//! What a program's own kernels take from this crate by value.

use millstream_device::CudaSource;

use crate::collectives::BlockSettings;
use crate::{full_empty, peer_ring, warm_up};

/// CUDA C++ with the structures of links, segments and collectives that kernels use, to be compiled
/// without running it: they are the same in all kernels; and the kernel that gangs are warmed up with.
#[doc(hidden)]
pub fn cuda_sources() -> Vec<CudaSource> {
    const TEXT: &str = r#"
        #include "block_collectives.cuh"
        #include "device_link.cuh"
        #include "full_empty.cuh"
        extern "C" __global__ void kernel_parameters() {}
    "#;
    let structs =
        [BlockSettings::LAYOUT, peer_ring::Settings::LAYOUT, full_empty::Settings::LAYOUT];
    let parameters = CudaSource::new("kernel_parameters.cu", "kernel_parameters", TEXT);
    vec![parameters.structs(&structs), warm_up::cuda_source()]
}
