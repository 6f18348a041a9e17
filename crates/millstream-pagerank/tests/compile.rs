//! Compiles the kernels of PageRank for each architecture that Millstream runs on,
//! which needs NVRTC and no GPU; none may spill registers. Skipped without NVRTC
//! unless `MILLSTREAM_REQUIRE_NVRTC` is 1.

#![allow(clippy::panic)]

use millstream_device::{CudaSource, Error};
use millstream_pagerank::{pull_cuda_sources, push_cuda_sources};

fn compile(sources: Vec<CudaSource>, entries: &[&str]) {
    for source in sources {
        for architecture in [80, 90, 100] {
            let log = match source.compile(architecture) {
                Ok((code, log)) => {
                    assert!(!code.is_empty());
                    log
                }
                Err(Error::DriverUnavailable { reason, .. })
                    if std::env::var_os("MILLSTREAM_REQUIRE_NVRTC").is_none() =>
                {
                    return println!("skipped: {reason}");
                }
                Err(error) => panic!("{error}"),
            };
            println!("sm_{architecture}\n{log}");
            for entry in entries {
                assert!(log.contains(&format!("Compiling entry function '{entry}'")), "{entry}");
            }
            let none = "0 bytes spill stores, 0 bytes spill loads";
            assert_eq!(log.matches("bytes spill stores").count(), log.matches(none).count());
        }
    }
}

#[test]
fn pushing_compiles_without_spills() {
    compile(push_cuda_sources(), &["insert", "process", "pack", "split_receive", "undefer"]);
}

#[test]
fn sweeps_compile_without_spills() {
    compile(pull_cuda_sources(), &["sweep_f32", "sweep_f64"]);
}
