//! Asynchronous multi-GPU dataflow: links, routers, a distributed worklist and
//! graph algorithms on it (Ben-Nun et al., *Groute*, ACM TOPC 7(3), art. 18,
//! 2020). This crate gathers the layers that applications use.
//!
//! ```
//! use millstream::prelude::*;
//!
//! let context = Context::builder().devices(Devices::host(2)).build()?;
//! let graph = CsrGraph::from_edges(4, &[(0, 1), (1, 2)])?;
//! let result = context.block_on(async {
//!     let bfs = Bfs::new(&context, &graph).await?;
//!     bfs.run(&[0]).await
//! })??;
//! assert_eq!(result.levels, [0, 1, 2, millstream::bfs::UNREACHED]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Programs that use GPUs call [`device::set_driver_defaults`] first in `main`.
//!
//! | module | what it is for |
//! |---|---|
//! | [`prelude`] | what most programs need, of all others |
//! | [`flow`] | a [`Context`](flow::Context) of devices; pipelines: links, routers and their policies, segments; collectives; full/empty segments; kernels that wait for each other |
//! | [`device`] | kernels of one's own: devices, streams, events, buffers, CUDA C++ and host twins; topology |
//! | [`graph`] | graphs in memory and in files, generators, partitions, sequential references, validators |
//! | [`bfs`], [`sssp`], [`pagerank`], [`cc`] | graph algorithms: breadth-first search, shortest paths, PageRank, connected components |
//! | [`traversal`] | graph algorithms of one's own, whose work-items are vertices: a graph on the devices, vertex programs |
//! | [`worklist`] | the distributed worklist itself, for work-items that are no vertices |
//!
//! Each module is a crate of that name: where an example says `millstream_flow`, a program that
//! depends on this crate says `millstream::flow`.

#[doc(inline)]
pub use millstream_bfs as bfs;
#[doc(inline)]
pub use millstream_cc as cc;
#[doc(inline)]
pub use millstream_device as device;
#[doc(inline)]
pub use millstream_flow as flow;
#[doc(inline)]
pub use millstream_graph as graph;
#[doc(inline)]
pub use millstream_pagerank as pagerank;
#[doc(inline)]
pub use millstream_sssp as sssp;
#[doc(inline)]
pub use millstream_traversal as traversal;
#[doc(inline)]
pub use millstream_worklist as worklist;

/// The guide's examples are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/algorithms.md")]
mod guide {}

/// What most programs need.
pub mod prelude {
    pub use millstream_bfs::{Bfs, BfsOptions, BfsResult};
    pub use millstream_cc::{Cc, CcOptions, CcResult};
    pub use millstream_device::{
        CudaSource, Device, DeviceBuffer, Event, Kernel, Read, Shared, SharedBuffer, Step, Stream,
        StreamKind, Trace, Trusted, Value, Write, set_driver_defaults,
    };
    pub use millstream_flow::{
        Buffers, Communicator, Context, DeviceLink, Devices, Gang, Graph, Operator, PendingSegment,
        Receiver, Router, RoutingPolicy, Sender, broadcast, first_available, scatter,
    };
    pub use millstream_graph::CsrGraph;
    pub use millstream_graph::read::{ReadOptions, read_graph};
    pub use millstream_graph::write::write_graph;
    pub use millstream_pagerank::{PageRank, PageRankOptions, PageRankResult};
    pub use millstream_sssp::{Delta, Distances, Sssp, SsspOptions, SsspResult};
    pub use millstream_traversal::{
        Columns, DistributedGraph, Place, VertexProgram, VertexView, Vertices,
    };
    pub use millstream_worklist::{
        CudaProgram, DistributedWorklist, Flags, Here, Program, Routing, View, Worker, problem,
    };
}
