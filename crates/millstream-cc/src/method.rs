//! Which arcs are hooked.

use std::fmt;

/// Which arcs of a resident graph are hooked. Nobody asks for one: the graph's
/// shape decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u32)]
pub enum Method {
    /// All of them: not every arc has its reverse. GPUs that reach each other's memory make the reverses of
    /// many arcs at the upload, if they have room for them, and search.
    EveryArc,
    /// Those towards smaller vertices, since every arc has its reverse (Jaiganesh
    /// and Burtscher, ECL-CC, HPDC 2018): for graphs of few arcs. First those within
    /// tiles of consecutive vertices.
    TowardsSmaller,
    /// First a search from the hub, the vertex of most arcs (Slota, Rajamanickam and
    /// Madduri, Multistep, IPDPS 2014). Then the arcs of each vertex that it has not found:
    /// what it has found meets the others on their side, since every arc has its reverse. For
    /// graphs of many arcs, whose hub is in the largest component as a rule.
    OutsideHub,
}

/// From how many arcs a vertex on a search leaves most arcs out.
const ARCS_WORTH_A_SEARCH: u64 = 4;

impl Method {
    pub(crate) fn of(is_symmetric: bool, vertices: u32, arcs: u64) -> Method {
        match is_symmetric {
            false => Method::EveryArc,
            true if arcs < ARCS_WORTH_A_SEARCH * u64::from(vertices) => Method::TowardsSmaller,
            true => Method::OutsideHub,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Method::EveryArc => "every arc",
            Method::TowardsSmaller => "arcs towards smaller vertices",
            Method::OutsideHub => "a search from the hub, then arcs outside",
        })
    }
}
