//! What Millstream's benches share: `cargo bench -p millstream-benches`. Five of them use
//! criterion; the others are programs that print tables.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use millstream::device::DeviceList;
use millstream::flow::{Context, Devices};
use mimalloc::MiMalloc;

/// The same allocator as the command's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

pub mod collective;
pub mod device_link;
pub mod full_empty;
#[cfg_attr(not(feature = "cuda"), path = "nccl/absent.rs")]
pub mod nccl;
pub mod textbook;

/// Ends the program, which cannot do anything with what it was given.
pub fn refuse(reason: impl Display) -> ! {
    eprintln!("{reason}");
    std::process::exit(2)
}

/// The devices of `MILLSTREAM_DEVICES`, or all; ends the program if the variable cannot be read.
pub fn available() -> DeviceList {
    DeviceList::available().unwrap_or_else(|error| refuse(error))
}

/// Opens devices; ends the program if that cannot be done.
pub fn open(devices: DeviceList) -> Context {
    let context = Context::builder().devices(Devices::List(devices)).build();
    context.unwrap_or_else(|error| refuse(error))
}

/// A file of `datasets/`: of the folder beside the program, as in a bundle, or else
/// of the repository.
pub fn dataset(name: &str) -> PathBuf {
    let program = std::env::current_exe().ok();
    let beside = program.and_then(|program| Some(program.parent()?.join("datasets").join(name)));
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets").join(name);
    beside.filter(|file| file.exists()).unwrap_or(repository)
}
