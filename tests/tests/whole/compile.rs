//! Compiles the kernels of every algorithm, of the command and of benches for each architecture that Millstream runs
//! on, which needs NVRTC and no GPU; none may spill registers. Skipped without NVRTC
//! unless `MILLSTREAM_REQUIRE_NVRTC` is 1.

use millstream::device::{CudaSource, Error, Trusted, spills};
use millstream::{bfs, cc, flow, pagerank, sssp};

fn compile(source: &CudaSource, entries: &[&str]) {
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
        assert!(log.matches("bytes spill stores").count() >= entries.len());
        assert_eq!(spills(&log), [""; 0]);
    }
}

/// A worklist's kernels come together, those of the fused worker by themselves.
fn compile_worklist(sources: Vec<CudaSource>) {
    assert!(!sources.is_empty());
    for source in &sources {
        match source.entry() {
            entry @ ("fused" | "levels" | "find_hubs" | "steps" | "lights" | "near_far"
            | "pack_near_rows") => compile(source, &[entry]),
            _ => compile(source, &["insert", "process", "pack", "split_receive", "undefer"]),
        }
    }
}

#[test]
fn bfs_without_spills() {
    compile_worklist(bfs::cuda_sources());
}

#[test]
fn sssp_without_spills() {
    compile_worklist(sssp::cuda_sources());
}

#[test]
fn pagerank_without_spills() {
    compile_worklist(pagerank::push::cuda_sources());
    for source in pagerank::pull_cuda_sources() {
        match source.entry() {
            "sweep_f32" => compile(&source, &["sweep_f32", "sweep_f64"]),
            "pack_f32" => compile(&source, &["pack_f32", "pack_f64", "unpack_f32", "unpack_f64"]),
            _ => {
                compile(&source, &["plain_f32", "plain_f64", "general_f32", "general_f64"]);
            }
        }
    }
}

#[test]
fn components_without_spills() {
    let sources = cc::cuda_sources();
    // All in two texts: what the host launches step by step, and a gang's kernels.
    for same in sources.chunk_by(|one, other| one.text() == other.text()) {
        let entries: Vec<_> = same.iter().map(|source| source.entry()).collect();
        compile(&same[0], &entries);
    }
}

#[test]
fn full_empty_cases_without_spills() {
    compile(&crate::full_empty_kernels::packets_source(), &["scale_packets", "count_packets"]);
}

#[test]
fn collectives_without_spills() {
    use flow::{Operator, moving_sources};
    let operators = [
        Operator::<u32>::sum().cuda_sources(),
        Operator::<u64>::min().cuda_sources(),
        Operator::<i32>::sum().cuda_sources(),
        Operator::<i64>::max().cuda_sources(),
        Operator::<f32>::sum().cuda_sources(),
        Operator::<f64>::max().cuda_sources(),
    ];
    for sources in operators {
        assert_eq!(sources.len(), 4);
        sources.iter().for_each(|source| compile(source, &[source.entry()]));
    }
    let moving =
        [moving_sources::<u8>(), moving_sources::<[u16; 3]>(), moving_sources::<[u64; 9]>()];
    for source in moving.concat() {
        compile(&source, &[source.entry()]);
    }
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
    for source in sources.concat() {
        compile(&source, &[source.entry()]);
    }
    let source = CudaSource::new("resident.cu", "resident", RESIDENT).threads(128);
    compile(&source, &[source.entry()]);
}

#[test]
fn parameters_as_in_rust() {
    compile(&flow::kernel_parameters(), &["kernel_parameters"]);
}

/// Texts of programs that this one cannot use otherwise.
#[test]
fn programs_without_spills() {
    let filter = include_str!("../../../crates/millstream-cli/src/filter/filter.cu");
    compile(&CudaSource::new("filter.cu", "filter", filter), &["filter"]);
    let access = include_str!("../../../benches/benches/figure_2/access.cu");
    compile(&CudaSource::new("access.cu", "access", access), &["access"]);
    let links = include_str!("../../../benches/src/device_link/kernels.cu");
    let source = CudaSource::new("device_link.cu", "fill", links).threads(1024);
    compile(&source, &["fill", "check", "echo", "relay"]);
    let ends = CudaSource::new("device_links.cu", "fills", include_str!("gpus/device_links.cu"));
    compile(&ends, &["fills", "reads"]);
    let resident = include_str!("../../../benches/benches/collectives/resident.cu");
    let source = CudaSource::new("resident.cu", "resident_sums", resident).blocks(1);
    compile(&source, &["resident_sums"]);
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
