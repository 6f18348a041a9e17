//! CUDA C++ of the kernels between peers, made for a type and an operator.

use millstream_device::{CudaSource, StructLayout};

use super::chain_settings::ChainSettings;
use super::channel_settings::ChannelSettings;
use super::line_operations::NoOperation;
use super::line_settings::{Items, LinePieces, LineSettings};
use super::operator::program;
use super::pass_settings::{Job, PassSettings};
use super::peer_words::BEGUN;
use super::rank_settings::{RANK_WORDS, RankSettings, THREADS};
use super::ring_settings::{RingPart, RingSettings};
use crate::Item;

/// Bytes of the words that items are moved in: as wide as their alignment allows.
pub(super) fn word_bytes<T>() -> usize {
    align_of::<T>().min(8)
}

/// The kernels for an operator, or for items that are only moved: in lines, in one
/// pass, along a chain, and round a ring.
pub(super) fn cuda_sources<T: Item>(operator: Option<&str>) -> [CudaSource; 4] {
    let [pass, chain, ring] =
        [("pass", "PassSettings", 1), ("chain", "ChainSettings", 2), ("ring", "RingSettings", 2)]
            .map(|(way, settings, blocks)| of_all_buffers(way, settings, blocks));
    let kernels = [
        ("lines.cu", "collective_lines.cuh", "lines_of_items", LINES, LINE_STRUCTS),
        ("pass.cu", "collective_pass.cuh", "pass_of_items", &pass, PASS_STRUCTS),
        ("chain.cu", "collective_chain.cuh", "chain_of_items", &chain, CHAIN_STRUCTS),
        ("ring.cu", "collective_ring.cuh", "ring_of_items", &ring, RING_STRUCTS),
    ];
    kernels.map(|(file, header, entry, kernel, structs)| {
        let kernel = format!("{kernel}{}", as_in_rust());
        let text = match operator {
            Some(operator) => program(header, operator, size_of::<T>(), &kernel),
            None => program(header, &moved::<T>(), word_bytes::<T>(), &kernel),
        };
        CudaSource::generated(file, entry, text).structs(structs).threads(THREADS as u32)
    })
}

/// Asserts that CUDA C++ and Rust agree on the words before the lines, the host's words, and the
/// number of blocks.
fn as_in_rust() -> String {
    [("rank_words", RANK_WORDS), ("rank_threads", THREADS), ("host_words", BEGUN)]
        .map(|(name, value)| {
            format!("static_assert(millstream::{name} == {value}, \"as in Rust\");\n")
        })
        .concat()
}

fn moved<T>() -> String {
    let word = match word_bytes::<T>() {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned int",
        _ => "unsigned long long",
    };
    format!(
        "using Element = {word};\n\
         __device__ Element combine(Element one, Element) {{ return one; }}\n"
    )
}

const LINE_STRUCTS: &[StructLayout<'static>] = &[
    Items::LAYOUT,
    LinePieces::LAYOUT,
    NoOperation::LAYOUT,
    RankSettings::LAYOUT,
    LineSettings::LAYOUT,
];
const PASS_STRUCTS: &[StructLayout<'static>] =
    &[Job::LAYOUT, RankSettings::LAYOUT, PassSettings::LAYOUT];
const CHAIN_STRUCTS: &[StructLayout<'static>] =
    &[RankSettings::LAYOUT, ChannelSettings::LAYOUT, ChainSettings::LAYOUT];
const RING_STRUCTS: &[StructLayout<'static>] =
    &[RankSettings::LAYOUT, ChannelSettings::LAYOUT, RingPart::LAYOUT, RingSettings::LAYOUT];

const LINES: &str = "
extern \"C\" __global__ void __launch_bounds__(millstream::rank_threads, 1) lines_of_items(
    const __grid_constant__ millstream::LineOperations<Element> operations,
    const __grid_constant__ millstream::SpanSet<millstream::u64> memory, millstream::Span<millstream::u32> host,
    const __grid_constant__ millstream::LineSettings settings) {
    millstream::collective_lines(operations, memory, host, settings,
                     [](Element one, Element other) { return combine(one, other); });
}
";

/// A kernel that takes the buffers of all ranks; `blocks` of its blocks share a multiprocessor.
fn of_all_buffers(way: &str, settings: &str, blocks: usize) -> String {
    format!(
        "
extern \"C\" __global__ void __launch_bounds__(millstream::rank_threads, {blocks}) {way}_of_items(
    const __grid_constant__ millstream::SpanSet<const Element> inputs,
    const __grid_constant__ millstream::SpanSet<Element> outputs,
    const __grid_constant__ millstream::SpanSet<millstream::u64> memory,
    millstream::Span<millstream::u32> host,
    const __grid_constant__ millstream::{settings} settings) {{
    millstream::collective_{way}(inputs, outputs, memory, host, settings,
                     [](Element one, Element other) {{ return combine(one, other); }});
}}
"
    )
}
