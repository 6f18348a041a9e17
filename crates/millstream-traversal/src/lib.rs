//! What graph algorithms share \[G §4.6\] (Ben-Nun et al., *Groute*, ACM TOPC
//! 7(3), art. 18, 2020): a graph spread over the devices of a context
//! ([`DistributedGraph`]), and programs on a distributed worklist whose items are its vertices
//! ([`VertexProgram`]).

mod answer;
mod cuda_sources;
mod depth_probe;
mod error;
mod gang_place;
mod gang_work;
mod graph;
mod halo;
mod hubs;
mod layout;
mod meeting;
mod near_far;
mod near_far_twin;
mod near_rows;
mod options;
mod owners;
mod relaxation;
mod run;
mod value;
mod vertex_program;

pub use depth_probe::DepthProbe;
pub use error::{Error, Result};
pub use graph::{Columns, DistributedGraph, Part, PartWeights};
pub use layout::{Layout, LayoutKind};
pub use options::WorklistOptions;
pub use owners::Owners;
pub use value::{Packet, PacketValue, UNREACHED};
pub use vertex_program::{Place, VertexProgram, VertexView, Vertices};

// What the crates of the algorithms are made of.
#[doc(hidden)]
pub use {
    answer::Answer,
    cuda_sources::cuda_sources,
    gang_place::GangPlace,
    gang_work::GangWork,
    graph::check_partition,
    halo::Halos,
    hubs::find_hubs,
    meeting::{can_meet, check_kernels_push},
    near_far::{Attempt, NearFar},
    near_rows::NearRows,
    relaxation::{CudaRule, Problem, ProblemView, Relaxation, Rule, Settings},
    run::{Outcome, run},
    value::Value,
};
