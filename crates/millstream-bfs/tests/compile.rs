//! Compiles the kernels of BFS for each architecture that Millstream runs on,
//! which needs NVRTC and no GPU; none may spill registers. Skipped without NVRTC
//! unless `MILLSTREAM_REQUIRE_NVRTC` is 1.

use millstream_bfs::cuda_sources;
use millstream_device::Error;

#[test]
fn every_kernel_compiles_without_spills() {
    for source in cuda_sources() {
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
            let driven = ["insert", "process", "pack", "split_receive", "undefer"];
            let entries = if source.entry() == "fused" { &["fused"][..] } else { &driven };
            for entry in entries {
                assert!(log.contains(&format!("Compiling entry function '{entry}'")), "{entry}");
            }
            let none = "0 bytes spill stores, 0 bytes spill loads";
            assert_eq!(log.matches("bytes spill stores").count(), log.matches(none).count());
        }
    }
}
