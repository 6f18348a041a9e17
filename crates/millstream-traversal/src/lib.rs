//! What the graph algorithms share \[G §4.6\] (Ben-Nun et al., *Groute*, ACM TOPC
//! 7(3), art. 18, 2020): a graph spread over the devices of a context, and
//! *relaxation*, the program on a distributed worklist that breadth-first search
//! and shortest paths are cases of.

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

pub use answer::Answer;
pub use cuda_sources::cuda_sources;
pub use depth_probe::DepthProbe;
pub use error::{Error, Result};
pub use gang_place::GangPlace;
pub use gang_work::GangWork;
pub use graph::{Columns, DistributedGraph, Part, PartWeights, check_partition};
pub use halo::Halos;
pub use hubs::find_hubs;
pub use layout::{Layout, LayoutKind};
pub use meeting::{can_meet, check_kernels_push};
pub use near_far::{Attempt, NearFar};
pub use near_rows::NearRows;
pub use options::WorklistOptions;
pub use owners::Owners;
pub use relaxation::{CudaRule, Problem, ProblemView, Relaxation, Rule, Settings};
pub use run::{Outcome, run};
pub use value::{Packet, PacketValue, UNREACHED, Value};
pub use vertex_program::{Place, VertexProgram, VertexView, Vertices};
