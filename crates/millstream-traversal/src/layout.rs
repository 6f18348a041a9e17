//! What searches read beside a graph's rows, and what it costs.

use std::fmt;
use std::time::Duration;

/// What a search reads beside a graph's rows, or in their place; made at the upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What it is.
    pub kind: LayoutKind,
    /// What it takes of the devices' memory.
    pub bytes: u64,
    /// How long making it has taken.
    pub time: Duration,
}

/// What a search reads beside a graph's rows, or in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutKind {
    /// The vertices of each device numbered by their degrees.
    DegreeOrder,
    /// The vertices of each device are those of neighbouring regions.
    Regions,
    /// Short rows in 16 bytes each, or 32 with weights, for near and far piles.
    PackedRows,
    /// Each vertex's neighbour with the most arcs; for searches by levels also the longest rows
    /// divided into parts, for frontiers of most vertices.
    Hubs,
    /// The arcs that enter vertices, for levels that go bottom-up.
    Transpose,
    /// Rows in ascending order of weight, with the arcs that enter vertices, for a search in
    /// steps.
    SteppingRows,
    /// Rows of the arcs that enter vertices, sorted by length and sliced, for sweeps that pull.
    SlicedRows,
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            LayoutKind::DegreeOrder => "degree order",
            LayoutKind::Regions => "regions",
            LayoutKind::PackedRows => "packed rows",
            LayoutKind::Hubs => "hubs",
            LayoutKind::Transpose => "transpose",
            LayoutKind::SteppingRows => "stepping rows",
            LayoutKind::SlicedRows => "sliced rows",
        })
    }
}
