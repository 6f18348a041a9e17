//! Criterion benches of Millstream: `cargo bench -p millstream-benches`.

use std::path::{Path, PathBuf};

pub mod collective;
pub mod full_empty;
#[cfg_attr(not(feature = "cuda"), path = "nccl/absent.rs")]
pub mod nccl;
pub mod textbook;

/// A file of `datasets/`: of the folder beside the program, as in a bundle, or else
/// of the repository.
pub fn dataset(name: &str) -> PathBuf {
    let program = std::env::current_exe().ok();
    let beside = program.and_then(|program| Some(program.parent()?.join("datasets").join(name)));
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets").join(name);
    beside.filter(|file| file.exists()).unwrap_or(repository)
}
