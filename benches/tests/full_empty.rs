//! The benchmarks of full/empty segments give the right answers on the first device that
//! `MILLSTREAM_TEST_DEVICES` names, or else a host device, and their kernels compile
//! without spills; the latter is skipped without NVRTC unless `MILLSTREAM_REQUIRE_NVRTC`
//! is 1.

#![allow(clippy::unwrap_used, clippy::panic)]

#[cfg(feature = "cuda")]
use millstream::device::{Error, spills};
use millstream::flow::{Context, Devices};
#[cfg(feature = "cuda")]
use millstream_benches::full_empty::source;
use millstream_benches::full_empty::{Bed, Mode, Moved, NAMES, Sizes, workloads};
#[cfg(feature = "cuda")]
use rayon::prelude::*;

#[test]
fn benchmarks_go_by_their_names() {
    let found: Vec<_> = workloads(Sizes::Small).iter().map(|work| work.name).collect();
    assert_eq!(found, NAMES);
}

#[test]
fn every_mode_gives_the_answer() {
    let devices = match std::env::var("MILLSTREAM_TEST_DEVICES") {
        Ok(list) => Devices::List(list.parse().unwrap()),
        Err(_) => Devices::host(1),
    };
    let context = Context::builder().devices(devices).build().unwrap();
    let modes = [
        Mode::Baseline,
        Mode::EarlyLaunch(Moved::Copied),
        Mode::EarlyLaunch(Moved::Mapped),
        Mode::EarlyLaunch(Moved::Pulled),
        Mode::ProactiveReturn,
        Mode::FullOverlap(Moved::Copied),
        Mode::FullOverlap(Moved::Mapped),
        Mode::FullOverlap(Moved::Pulled),
    ];
    for work in workloads(Sizes::Small) {
        let mut bed = Bed::new(&context, &context.devices()[0], &work, 4096).unwrap();
        for mode in modes {
            for run in 0..3 {
                let checked = bed.checked(mode).unwrap();
                bed.run(mode).unwrap();
                for answer in [checked, bed.answer(mode).unwrap()] {
                    let is_right = work.is_right(&work.expected(), &answer);
                    assert!(is_right, "{} {mode:?} {run}", work.name);
                }
            }
        }
    }
}

#[cfg(feature = "cuda")]
#[test]
fn kernels_compile_without_spills() {
    NAMES.par_iter().for_each(|name| {
        for architecture in [80, 90, 100] {
            let log = match source(name, "full").compile(architecture) {
                Ok((_, log)) => log,
                Err(Error::DriverUnavailable { reason, .. })
                    if std::env::var_os("MILLSTREAM_REQUIRE_NVRTC").is_none() =>
                {
                    return println!("skipped: {reason}");
                }
                Err(error) => panic!("{error}"),
            };
            for mode in ["plain", "return", "early", "full", "early_pulled", "full_pulled"] {
                let entry = format!("Compiling entry function '{name}_{mode}'");
                assert!(log.contains(&entry), "{entry}");
            }
            assert!(log.contains("bytes spill stores"), "{log}");
            assert_eq!(spills(&log), [""; 0]);
        }
    });
}
