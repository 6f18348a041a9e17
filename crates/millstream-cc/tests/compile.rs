//! Compiles the kernels of connected components for each architecture that
//! Millstream runs on, which needs NVRTC and no GPU; none may spill registers.
//! Skipped without NVRTC unless `MILLSTREAM_REQUIRE_NVRTC` is 1.

use millstream_cc::cuda_sources;
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
            let entry = format!("Compiling entry function '{}'", source.entry());
            assert!(log.contains(&entry), "{entry}");
            let none = "0 bytes spill stores, 0 bytes spill loads";
            assert_eq!(log.matches("bytes spill stores").count(), log.matches(none).count());
        }
    }
}
