//! Compiles the kernels of the examples for each architecture that Millstream runs
//! on, which needs NVRTC and no GPU; none may spill registers. And what a user sees of
//! a mistake in theirs. Skipped without
//! NVRTC unless `MILLSTREAM_REQUIRE_NVRTC` is 1.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use millstream::device::{CudaSource, Error, spills};
use millstream::prelude::*;
use millstream::traversal::Vertices;
use millstream::worklist::CudaProgram;

use k_core::KCore;
use widest_path::WidestPath;

#[path = "../examples/10-k-core/k_core.rs"]
#[allow(dead_code)]
mod k_core;
#[path = "../examples/09-widest-path/widest_path.rs"]
#[allow(dead_code)]
mod widest_path;

/// Kernels in the text of an example, which has its CUDA source between `r#"` and
/// `"#`: their names, and the source.
fn kernels(example: &str) -> Option<(Vec<&str>, &str)> {
    let source = example.split_once("r#\"")?.1.split_once("\"#")?.0;
    let signatures = source.split("extern \"C\" __global__ void ").skip(1);
    Some((signatures.map(|text| text.split_once('(').unwrap().0).collect(), source))
}

/// What the compiler says of a source; `None` without NVRTC where it may be missing.
fn log(source: &CudaSource, architecture: u32) -> Option<Result<String, Error>> {
    match source.compile(architecture) {
        Err(Error::DriverUnavailable { reason, .. })
            if std::env::var_os("MILLSTREAM_REQUIRE_NVRTC").is_none() =>
        {
            println!("skipped: {reason}");
            None
        }
        result => Some(result.map(|(_, log)| log)),
    }
}

fn compile(source: &CudaSource, entries: &[&str]) {
    for architecture in [80, 90, 100] {
        let Some(log) = log(source, architecture) else { return };
        let log = log.unwrap();
        println!("{} for sm_{architecture}\n{log}", source.file());
        for entry in entries {
            assert!(log.contains(&format!("Compiling entry function '{entry}'")), "{entry}");
        }
        assert!(log.matches("bytes spill stores").count() >= entries.len());
        assert_eq!(spills(&log), [""; 0]);
    }
}

#[test]
fn every_kernel_compiles_without_spills() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut found = Vec::new();
    for file in folder.read_dir().unwrap() {
        let file = file.unwrap().path();
        if file.is_dir() {
            continue;
        }
        let example = std::fs::read_to_string(&file).unwrap();
        let Some((names, source)) = kernels(&example) else { continue };
        let name = file.file_name().unwrap().to_str().unwrap();
        compile(&CudaSource::generated(name, names[0], source), &names);
        found.extend(names.into_iter().map(String::from));
    }
    found.sort();
    assert_eq!(found, ["add", "count_up", "filter", "median", "primes", "squares", "sum"]);
}

fn compile_program<P: Program>() {
    let cuda = P::cuda().unwrap();
    let [host_driven, fused] = &cuda.cuda_sources::<P>()[..] else { panic!("two workers") };
    compile(host_driven, &["insert", "process", "pack", "split_receive", "undefer"]);
    compile(fused, &["fused"]);
}

#[test]
fn every_program_compiles_without_spills() {
    compile_program::<Vertices<WidestPath>>();
    compile_program::<Vertices<KCore>>();
}

/// What the compiler says of the widest path's text with `right` made `wrong`, and the
/// line where that is.
fn says(right: &str, wrong: &str) -> Option<(usize, String)> {
    let cuda = Vertices::<WidestPath>::cuda().unwrap();
    let line = cuda.text[..cuda.text.find(right).unwrap()].lines().count();
    let text = cuda.text.replacen(right, wrong, 1).leak();
    let sources = CudaProgram { text, ..*cuda }.cuda_sources::<Vertices<WidestPath>>();
    let Err(Error::Compile { log, .. }) = log(sources.last().unwrap(), 90)? else {
        panic!("it compiles")
    };
    Some((line, log.to_string()))
}

#[test]
fn an_error_names_the_users_own_line() {
    let Some((line, log)) = says("problem.owners.owns(", "problem.owners.own(") else { return };
    let place = format!("09-widest-path/widest_path.cuh({line}): error");
    assert!(log.contains(&place), "{place} is not in\n{log}");
}

#[test]
fn a_callback_that_is_missing_is_named() {
    let Some((_, log)) = says("static bool receive(", "static bool accept(") else { return };
    assert!(log.contains("class \"WidestPath\" has no member \"receive\""), "{log}");
}

#[test]
fn arcs_without_a_target_are_named() {
    let Some((_, log)) = says("u32 target;\n", "u32 end;\n") else { return };
    assert!(log.contains("a program has a struct Arc, with a member target"), "{log}");
}

#[test]
fn a_problem_that_differs_is_refused() {
    let Some((_, log)) = says("Span<u32> widths;", "u32 widths;") else { return };
    assert!(log.contains("Problem::widths: in Rust 16 bytes, from byte 48 on"), "{log}");
    let swapped = "Span<const u32> capacities;\n        Span<const u32> targets;";
    let Some((_, log)) =
        says("Span<const u32> targets;\n        Span<const u32> capacities;", swapped)
    else {
        return;
    };
    assert!(log.contains("Problem::targets: in Rust 16 bytes, from byte 16 on"), "{log}");
    let Some((_, log)) = says("Owners owners;", "Owners owners; u32 more;") else { return };
    assert!(log.contains("Problem: in Rust 80 bytes"), "{log}");
}
