//! Advice on the driver's answers whose names do not say what to do.

use cudarc::driver::sys::CUresult;

/// What to do about an answer, if there is more to say than its name does.
pub(super) fn advice(answer: CUresult) -> Option<&'static str> {
    Some(match answer {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
            "the GPU's memory, or the machine's, is full; nvidia-smi shows which processes have it: \
             end those, use another GPU, or drop what this one does not need any more"
        }
        CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => {
            "another process has the GPU for itself, or nobody may use it; nvidia-smi shows \
             its compute mode and processes: use another GPU, or set the mode to DEFAULT"
        }
        CUresult::CUDA_ERROR_SYSTEM_NOT_READY => {
            "GPUs on NVSwitch need the Fabric Manager: start nvidia-fabricmanager, \
             of the driver's version"
        }
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            "libcuda.so and the kernel's module are of different versions: restart the machine \
             after an update; in a container, use the libcuda.so of its host"
        }
        CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
            "a compatibility libcuda.so was loaded, which this GPU does not allow: \
             take its folder out of LD_LIBRARY_PATH"
        }
        CUresult::CUDA_ERROR_STUB_LIBRARY => {
            "the toolkit's stub was loaded for libcuda.so: take its folder out of LD_LIBRARY_PATH, \
             and install NVIDIA's driver"
        }
        CUresult::CUDA_ERROR_MPS_CONNECTION_FAILED
        | CUresult::CUDA_ERROR_MPS_RPC_FAILURE
        | CUresult::CUDA_ERROR_MPS_SERVER_NOT_READY
        | CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED => {
            "the MPS server does not answer, or has ended this process: see nvidia-cuda-mps-control, \
             or unset CUDA_MPS_PIPE_DIRECTORY"
        }
        CUresult::CUDA_ERROR_MPS_MAX_CLIENTS_REACHED
        | CUresult::CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED => {
            "the MPS server has no room for more: end another process, or open fewer GPUs"
        }
        CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
        | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
        | CUresult::CUDA_ERROR_CONTAINED => {
            "the hardware failed; start the process again, and have the GPU reset if that comes again"
        }
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
        | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
        | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | CUresult::CUDA_ERROR_INVALID_PC
        | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
        | CUresult::CUDA_ERROR_LAUNCH_FAILED
        | CUresult::CUDA_ERROR_ASSERT
        | CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK => {
            "a kernel that ran by then is at fault; compute-sanitizer says which, and with \
             MILLSTREAM_EXACT_ALLOCATIONS=1 finds every access beyond a buffer"
        }
        CUresult::CUDA_ERROR_LAUNCH_TIMEOUT => {
            "a kernel took longer than a GPU with a display allows: use one without"
        }
        CUresult::CUDA_ERROR_EXTERNAL_DEVICE => {
            "a device that the GPU works with failed: dmesg may say which"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::context::is_fault_of_work;
    use super::*;

    /// Such a fault is reported to whoever makes the next call, so the call's name does not help.
    #[test]
    fn faults_of_kernels_come_with_advice() {
        let answers = [
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
            CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
            CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
            CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
            CUresult::CUDA_ERROR_INVALID_PC,
            CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
            CUresult::CUDA_ERROR_LAUNCH_FAILED,
            CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
            CUresult::CUDA_ERROR_ASSERT,
            CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
            CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
            CUresult::CUDA_ERROR_CONTAINED,
            CUresult::CUDA_ERROR_EXTERNAL_DEVICE,
            CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK,
        ];
        for answer in answers {
            assert!(is_fault_of_work(answer) && advice(answer).is_some(), "{answer:?}");
        }
        assert!(!is_fault_of_work(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
    }
}
