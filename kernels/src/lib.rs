//! CUDA C++ sources of Millstream: freestanding headers, one concept a file.
//!
//! They include nothing but each other, so that NVRTC compiles a program made of
//! them in tens of milliseconds: pass [`HEADERS`] as its in-memory headers and
//! `#include` them by name. Everything is in namespace `millstream`.
//!
//! ```
//! let atomics = millstream_kernels::ATOMICS;
//! assert_eq!(atomics.name, "atomics.cuh");
//! assert!(atomics.text.contains("namespace millstream"));
//! ```

mod spills;

pub use spills::spills;

/// A header: the name that programs include it by, and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// File name, such as `atomics.cuh`.
    pub name: &'static str,
    /// CUDA C++.
    pub text: &'static str,
}

macro_rules! source {
    ($name:literal) => {
        Source { name: $name, text: include_str!($name) }
    };
}

/// Acquire, release and relaxed operations, of device and of system scope.
pub const ATOMICS: Source = source!("atomics.cuh");
/// Two words in one operation, of which one says that both have come.
pub const LINES: Source = source!("lines.cuh");
/// Where a thread stands, and appending once for a warp.
pub const GRID: Source = source!("grid.cuh");
/// What the lanes of a warp say to each other.
pub const LANES: Source = source!("lanes.cuh");
/// What kernels take for a buffer.
pub const SPAN: Source = source!("span.cuh");
/// Where fields of structures lie that Rust writes.
pub const STRUCT_LAYOUT: Source = source!("struct_layout.cuh");
/// How a kernel says that it is over.
pub const TELL: Source = source!("tell.cuh");
/// Copies by threads instead of the copy engine (Ben-Nun et al., *Groute*, section 2.1).
pub const COPY_BYTES: Source = source!("copy_bytes.cuh");
/// Queues of work-items whose truth is a bit for each item.
pub const QUEUE: Source = source!("queue.cuh");
/// Arcs of items that have very many, visited by all warps.
pub const SHARED_ARCS: Source = source!("shared_arcs.cuh");
/// Which row an arc is in.
pub const ROW_INDEX: Source = source!("row_index.cuh");
/// Arcs of a warp's items, spread over its lanes.
pub const SPREAD_ARCS: Source = source!("spread_arcs.cuh");
/// What a worklist's kernels take, and the words of its memory.
pub const WORKLIST_WORDS: Source = source!("worklist_words.cuh");
/// Where items go, and how they are counted (Ben-Nun et al., *Groute*, section 4.3).
pub const SPLIT: Source = source!("split.cuh");
/// What a worklist's kernels do with items.
pub const WORKLIST: Source = source!("worklist.cuh");
/// The host-driven worklist's kernels.
pub const HOST_DRIVEN: Source = source!("host_driven.cuh");
/// What programs share whose items are vertices.
pub const VERTEX_PROGRAM: Source = source!("vertex_program.cuh");
/// Who owns which vertices.
pub const OWNERS: Source = source!("owners.cuh");
/// What a vertex holds while keys become smaller along arcs.
pub const KEYED_VALUES: Source = source!("keyed_values.cuh");
/// Distances of shortest paths, and how they grow along arcs.
pub const DISTANCES: Source = source!("distances.cuh");
/// Keys that become smaller along arcs, on the worklist: breadth-first search and
/// shortest paths (Ben-Nun et al., *Groute*, section 4.5).
pub const RELAXATION: Source = source!("relaxation.cuh");
/// A vertex and its value on the way to another device.
pub const VERTEX_PACKET: Source = source!("vertex_packet.cuh");
/// Items that a warp has emitted and not sent yet.
pub const EMISSIONS: Source = source!("emissions.cuh");
/// The queue of one block of the fused worker.
pub const LOCAL_QUEUE: Source = source!("local_queue.cuh");
/// The queue of the fused worker, which many blocks take from.
pub const OPEN_QUEUE: Source = source!("open_queue.cuh");
/// Pieces of the arcs of items that have very many.
pub const PIECES: Source = source!("pieces.cuh");
/// The words of a fused run's memory.
pub const FUSED_WORDS: Source = source!("fused_words.cuh");
/// A device of a fused run.
pub const FUSED_DEVICE: Source = source!("fused_device.cuh");
/// The block of the fused worker that starts, leads and ends it.
pub const FUSED_SERVICE: Source = source!("fused_service.cuh");
/// The fused worker (Ben-Nun et al., *Groute*, section 5.2).
pub const FUSED: Source = source!("fused.cuh");
/// Predicate-based filtering (Ben-Nun et al., *Groute*, ACM TOPC 7(3), art. 18,
/// 2020, figure 6).
pub const FILTER: Source = source!("filter.cuh");
/// What kernels of a gang share.
pub const GANG: Source = source!("gang.cuh");
/// A barrier of all blocks of all devices of a gang.
pub const GANG_BARRIER: Source = source!("gang_barrier.cuh");
/// A meeting of the blocks of one device, in a word that counts what they have found.
pub const BLOCK_TALLY: Source = source!("block_tally.cuh");
/// A device of a gang that searches a graph.
pub const GANG_DEVICE: Source = source!("gang_device.cuh");
/// Packet slots in the receiver's memory, filled by peer stores.
pub const PEER_RING: Source = source!("peer_ring.cuh");
/// Links between kernels that stay on their devices.
pub const DEVICE_LINK: Source = source!("device_link.cuh");
/// Packets that are full or empty, and epochs in which they are.
pub const FULL_EMPTY: Source = source!("full_empty.cuh");
/// Floating-point numbers of 16 bits.
pub const HALF: Source = source!("half.cuh");
/// Combining packets of a collective with what is there.
pub const COLLECTIVE_COMBINE: Source = source!("collective_combine.cuh");
/// What kernels of collectives have in common.
pub const COLLECTIVE_RANKS: Source = source!("collective_ranks.cuh");
/// Collectives of short vectors.
pub const COLLECTIVE_LINES: Source = source!("collective_lines.cuh");
/// Collectives of long vectors.
pub const COLLECTIVE_PASS: Source = source!("collective_pass.cuh");
/// Channels of tiles from rank to rank.
pub const COLLECTIVE_CHANNEL: Source = source!("collective_channel.cuh");
/// Reductions and broadcasts of long vectors.
pub const COLLECTIVE_CHAIN: Source = source!("collective_chain.cuh");
/// All-reduces and reduce-scatters of the longest vectors.
pub const COLLECTIVE_RING: Source = source!("collective_ring.cuh");
/// Collectives of a block of a resident kernel.
pub const BLOCK_COLLECTIVES: Source = source!("block_collectives.cuh");

/// Every header.
pub const HEADERS: &[Source] = &[
    ATOMICS,
    LINES,
    GRID,
    LANES,
    SPAN,
    STRUCT_LAYOUT,
    TELL,
    COPY_BYTES,
    QUEUE,
    SHARED_ARCS,
    ROW_INDEX,
    SPREAD_ARCS,
    WORKLIST_WORDS,
    SPLIT,
    WORKLIST,
    HOST_DRIVEN,
    OWNERS,
    VERTEX_PACKET,
    VERTEX_PROGRAM,
    KEYED_VALUES,
    DISTANCES,
    RELAXATION,
    FILTER,
    PEER_RING,
    DEVICE_LINK,
    EMISSIONS,
    LOCAL_QUEUE,
    OPEN_QUEUE,
    PIECES,
    FUSED_WORDS,
    FUSED_DEVICE,
    FUSED_SERVICE,
    FUSED,
    GANG,
    GANG_BARRIER,
    BLOCK_TALLY,
    GANG_DEVICE,
    FULL_EMPTY,
    HALF,
    COLLECTIVE_COMBINE,
    COLLECTIVE_RANKS,
    COLLECTIVE_LINES,
    COLLECTIVE_PASS,
    COLLECTIVE_CHANNEL,
    COLLECTIVE_CHAIN,
    COLLECTIVE_RING,
    BLOCK_COLLECTIVES,
];
