//! What a program's own kernels take from this crate by value.

use millstream_device::CudaSource;

use crate::collectives::BlockSettings;
use crate::{full_empty, peer_ring};

/// CUDA C++ with the structures of links, segments and collectives that kernels use, to be compiled
/// without running it: they are the same in all kernels.
pub(crate) fn cuda_source() -> CudaSource {
    const TEXT: &str = r#"
        #include "block_collectives.cuh"
        #include "device_link.cuh"
        #include "full_empty.cuh"
        extern "C" __global__ void kernel_parameters() {}
    "#;
    let structs =
        [BlockSettings::LAYOUT, peer_ring::Settings::LAYOUT, full_empty::Settings::LAYOUT];
    CudaSource::new("kernel_parameters.cu", "kernel_parameters", TEXT).structs(&structs)
}
