//! What goes wrong with NCCL.

/// Of NCCL's functions and of the driver's.
pub type Result<T> = std::result::Result<T, Error>;

/// Why NCCL cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program has no CUDA.
    #[error("this program was built without GPUs, which NCCL needs")]
    WithoutGpus,
    /// A host device, or one of several on a GPU.
    #[error("NCCL runs on whole GPUs only, such as cuda:0-1, not on {device}")]
    NotAGpu {
        /// Its name.
        device: String,
    },
    /// NCCL could use NVLink's multicast.
    #[error(
        "set NCCL_NVLS_ENABLE=0: NVLink's multicast must be off, as Millstream does not use it"
    )]
    Multicast,
    /// Not found, not NCCL, too old.
    #[error("no NCCL in {library}: {reason}")]
    Unavailable {
        /// The file.
        library: String,
        /// What the loader says.
        reason: String,
    },
    /// A call failed.
    #[error("NCCL: {call}: {reason}")]
    Call {
        /// The function, or the collective.
        call: &'static str,
        /// What it says.
        reason: String,
    },
    /// Not what the collective should give.
    #[error("NCCL's {collective} gave rank {rank} {found}, not {expected}, as item {item}")]
    Wrong {
        /// The name.
        collective: &'static str,
        /// Whose result.
        rank: usize,
        /// The first item that is wrong.
        item: usize,
        /// What is there.
        found: String,
        /// What should be.
        expected: String,
    },
}
