//! Building blocks of graph algorithms \[G §4.6\] (Ben-Nun et al., *Groute*, ACM TOPC
//! 7(3), art. 18, 2020): a graph spread over the devices of a context
//! ([`DistributedGraph`]), and programs on a distributed worklist whose items are its vertices
//! ([`VertexProgram`]).

mod answer;
mod beside;
mod checks;
mod cuda_sources;
mod degree_order;
mod delta;
mod entering;
mod error;
mod gang_kernel;
mod gang_place;
mod gang_work;
mod gpu_rows;
mod graph;
mod halo;
mod halo_shape;
mod hubs;
mod index_rows;
mod layout;
mod meeting;
mod near_far;
mod near_far_twin;
mod near_rows;
mod on_each_device;
mod options;
mod owned_values;
mod owners;
mod pack_near_rows;
mod part;
mod path;
mod regions;
mod relaxation;
mod reversed_rows;
mod row_width;
mod run;
mod shared_course;
mod sort_rows;
mod survey;
mod sync;
mod turned;
mod twin_lists;
mod twin_meetings;
mod unsuitable;
mod value;
mod vertex_program;

pub use degree_order::DegreeOrder;
pub use delta::Delta;
pub use error::{Error, Result};
pub use graph::{Columns, DistributedGraph};
pub use layout::{Layout, LayoutKind};
pub use meeting::sends_packets;
pub use options::WorklistOptions;
pub use owners::Owners;
pub use part::{Part, PartWeights};
pub use unsuitable::Unsuitable;
pub use value::{Packet, PacketValue, UNREACHED};
pub use vertex_program::{Place, VertexProgram, VertexView, Vertices};

/// What the algorithm crates share; applications need none of it.
#[doc(hidden)]
pub mod internals {
    pub use crate::answer::Answer;
    pub use crate::checks::{check_partition, check_rows};
    pub use crate::cuda_sources::cuda_sources;
    pub use crate::entering::Entering;
    pub use crate::gang_kernel::gang_kernel;
    pub use crate::gang_place::GangPlace;
    pub use crate::gang_work::GangWork;
    pub use crate::halo::Halos;
    pub use crate::hubs::find_hubs;
    pub use crate::index_rows::rows_with_arcs;
    pub use crate::meeting::{can_meet, check_kernels_push};
    pub use crate::near_far::{Attempt, NearFar};
    pub use crate::near_rows::NearRows;
    pub use crate::on_each_device::on_each_device;
    pub use crate::options::PATIENCE;
    pub use crate::owned_values::OwnedValues;
    pub use crate::path::path_to;
    pub use crate::regions::Regions;
    pub use crate::relaxation::{Problem, ProblemView, Relaxation, Rule, Settings};
    pub use crate::reversed_rows::{ToReverse, reversed_rows};
    pub use crate::row_width::RowWidth;
    pub use crate::run::{Outcome, run};
    pub use crate::survey::Survey;
    pub use crate::twin_lists::{TwinLists, claim};
    pub use crate::twin_meetings::{TwinMeetings, streams};
    pub use crate::value::Value;
}
