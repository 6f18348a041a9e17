//! Compiles the kernels of the examples for each architecture that Millstream runs
//! on, which needs NVRTC and no GPU; none may spill registers. Skipped without
//! NVRTC unless `MILLSTREAM_REQUIRE_NVRTC` is 1.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use millstream::device::{CudaSource, Error};

/// Kernels in the text of an example, which has its CUDA source between `r#"` and
/// `"#`: their names, and the source.
fn kernels(example: &str) -> Option<(Vec<&str>, &str)> {
    let source = example.split_once("r#\"")?.1.split_once("\"#")?.0;
    let signatures = source.split("extern \"C\" __global__ void ").skip(1);
    Some((signatures.map(|text| text.split_once('(').unwrap().0).collect(), source))
}

#[test]
fn every_kernel_compiles_without_spills() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut found = Vec::new();
    for file in folder.read_dir().unwrap() {
        let file = file.unwrap().path();
        let example = std::fs::read_to_string(&file).unwrap();
        let Some((names, source)) = kernels(&example) else { continue };
        let name = file.file_name().unwrap().to_str().unwrap();
        let source = CudaSource::generated(name, names[0], source);
        for architecture in [80, 90, 100] {
            let log = match source.compile(architecture) {
                Ok((_, log)) => log,
                Err(Error::DriverUnavailable { reason, .. })
                    if std::env::var_os("MILLSTREAM_REQUIRE_NVRTC").is_none() =>
                {
                    return println!("skipped: {reason}");
                }
                Err(error) => panic!("{error}"),
            };
            println!("{name} for sm_{architecture}\n{log}");
            for entry in &names {
                assert!(log.contains(&format!("Compiling entry function '{entry}'")), "{entry}");
            }
            let none = "0 bytes spill stores, 0 bytes spill loads";
            assert_eq!(log.matches("bytes spill stores").count(), log.matches(none).count());
        }
        found.extend(names.into_iter().map(String::from));
    }
    found.sort();
    assert_eq!(found, ["add", "count_up", "filter"]);
}
