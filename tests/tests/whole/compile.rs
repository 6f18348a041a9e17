//! Compiles the kernels of every algorithm, of the command and of benches for each architecture that Millstream runs
//! on, or for those of `MILLSTREAM_ARCHITECTURES`, which needs NVRTC and no GPU; none may spill registers. Skipped
//! without NVRTC unless `MILLSTREAM_REQUIRE_NVRTC` is 1.

use std::collections::{BTreeMap, BTreeSet};

use millstream::device::{CudaSource, Error, Trusted, spills};
use millstream::{bfs, cc, flow, pagerank, sssp};
use rayon::prelude::*;

/// Such as 90.
fn architectures() -> Vec<u32> {
    let given = std::env::var("MILLSTREAM_ARCHITECTURES").unwrap_or("80,90,100".to_string());
    given.split(',').map(|architecture| architecture.parse().unwrap()).collect()
}

/// All at once, on all processors, and each text once, of which several sources may be kernels.
fn compile_all(sources: Vec<(&CudaSource, Vec<&str>)>) {
    assert!(!sources.is_empty());
    let mut texts = BTreeMap::new();
    for (source, entries) in sources {
        let (_, all) = texts.entry(source.text()).or_insert((source, BTreeSet::new()));
        all.extend(entries);
    }
    let architectures = architectures();
    let logs = texts.par_iter().flat_map_iter(|(_, (source, entries))| {
        architectures.iter().map(|architecture| compile(source, entries, *architecture))
    });
    // Here, since what another thread says as it panics is not this test's.
    match logs.collect::<Result<Vec<_>, _>>() {
        Ok(logs) => println!("{}", logs.concat()),
        Err(mistake) => panic!("{mistake}"),
    }
}

/// What the compiler says, or what is wrong with that.
fn compile(
    source: &CudaSource,
    entries: &BTreeSet<&str>,
    architecture: u32,
) -> Result<String, String> {
    let log = match source.compile(architecture) {
        Ok((code, log)) if !code.is_empty() => log,
        Ok((_, log)) => return Err(format!("no code: {log}")),
        Err(Error::DriverUnavailable { reason, .. })
            if std::env::var_os("MILLSTREAM_REQUIRE_NVRTC").is_none() =>
        {
            return Ok(format!("skipped: {reason}\n"));
        }
        Err(error) => return Err(error.to_string()),
    };
    let log = format!("sm_{architecture}\n{log}\n");
    let has = |entry: &&str| log.contains(&format!("Compiling entry function '{entry}'"));
    let are_there =
        entries.iter().all(has) && log.matches("bytes spill stores").count() >= entries.len();
    match are_there && spills(&log).is_empty() {
        true => Ok(log),
        false => Err(format!("{entries:?} are not all there, or spill: {log}")),
    }
}

/// Those of a text that has several, such as the host-driven worklist's.
fn entries(source: &CudaSource) -> Vec<&str> {
    match source.entry() {
        "process" => vec!["insert", "process", "pack", "split_receive", "undefer"],
        "pack_f32" => vec!["pack_f32", "pack_f64"],
        entry => vec![entry],
    }
}

/// Each has one kernel.
fn compile_each(sources: &[CudaSource]) {
    compile_all(sources.iter().map(|source| (source, vec![source.entry()])).collect());
}

/// Together, as they have kernels in common.
#[test]
fn algorithms_without_spills() {
    let sources =
        [bfs::cuda_sources(), sssp::cuda_sources(), pagerank::cuda_sources(), cc::cuda_sources()];
    compile_all(sources.concat().iter().map(|source| (source, entries(source))).collect());
}

#[test]
fn full_empty_cases_without_spills() {
    let source = crate::full_empty_kernels::packets_source();
    compile_all(vec![(
        &source,
        vec!["scale_packets", "count_packets", "scale_pulled", "pull_again"],
    )]);
}

#[test]
fn collectives_without_spills() {
    use flow::{Communicator, Operator, bf16, f16};
    let operators = [
        Operator::<u32>::sum().cuda_sources(),
        Operator::<u64>::min().cuda_sources(),
        Operator::<i32>::sum().cuda_sources(),
        Operator::<i64>::max().cuda_sources(),
        Operator::<f32>::sum().cuda_sources(),
        Operator::<f64>::max().cuda_sources(),
        Operator::<f16>::sum().cuda_sources(),
        Operator::<f16>::max().cuda_sources(),
        Operator::<bf16>::sum().cuda_sources(),
        Operator::<bf16>::min().cuda_sources(),
    ];
    assert!(operators.iter().all(|sources| sources.len() == 5));
    compile_each(&operators.concat());
    let moving = [
        Communicator::cuda_sources::<u8>(),
        Communicator::cuda_sources::<[u16; 3]>(),
        Communicator::cuda_sources::<[u64; 9]>(),
    ];
    compile_each(&moving.concat());
    // Items that take several lines, and such as do not fit in any.
    let words = |count: usize| {
        let text = format!(
            "struct Element {{ millstream::u32 words[{count}]; }};
             __device__ Element combine(Element one, Element) {{ return one; }}"
        );
        // SAFETY: it touches its arguments only.
        unsafe { Trusted::new(text) }
    };
    let sources = [
        Operator::new("wide", words(3), |one: [u32; 3], _| one).cuda_sources(),
        Operator::new("huge", words(27), |one: [u32; 27], _| one).cuda_sources(),
    ];
    compile_each(&sources.concat());
    compile_each(&[CudaSource::new("resident.cu", "resident", RESIDENT).threads(128)]);
}

#[test]
fn parameters_as_in_rust() {
    compile_each(&flow::cuda_sources());
}

/// Texts of programs that this one cannot use otherwise.
#[test]
fn programs_without_spills() {
    let filter = include_str!("../../../crates/millstream-cli/src/filter/filter.cu");
    let filter = CudaSource::new("filter.cu", "filter", filter);
    let access = include_str!("../../../benches/benches/figure_2/access.cu");
    let access = CudaSource::new("access.cu", "access", access);
    let resident = include_str!("../../../benches/benches/collectives/resident.cu");
    let resident = CudaSource::new("resident.cu", "resident_sums", resident).blocks(1);
    compile_each(&[filter, access, resident]);
    let links = include_str!("../../../benches/src/device_link/kernels.cu");
    let links = CudaSource::new("device_link.cu", "fill", links).threads(1024);
    let ends = CudaSource::new("device_links.cu", "fills", include_str!("gpus/device_links.cu"));
    compile_all(vec![
        (&links, vec!["fill", "check", "echo", "relay"]),
        (&ends, vec!["fills", "reads"]),
    ]);
}

/// One collective of a resident kernel: all of them in one kernel, as a case of GPUs has
/// them, take more registers than there are on sm_100.
const RESIDENT: &str = r#"
#include "block_collectives.cuh"
using namespace millstream;
extern "C" __global__ void resident(Span<u32> items,
                                    const __grid_constant__ ResidentCollectives resident) {
    BlockCollectives collectives(resident);
    const auto add = [](u32 one, u32 other) { return one + other; };
    if (collectives.all_reduce(items.items, items.items, items.len, add)) collectives.leave();
}
"#;
