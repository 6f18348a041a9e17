//! Which arcs are hooked.

use std::fmt;

use millstream_graph::{CsrGraph, DepthProbe};

/// Which arcs of a resident graph are hooked. This is not an option: the graph's shape decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u32)]
pub enum Method {
    /// All arcs, since not every arc has its reverse. GPUs that reach each other's memory avoid
    /// this by making the reverses at the upload, if they have room for them and the graph has at
    /// least as many arcs as vertices.
    EveryArc,
    /// Arcs towards smaller vertices, since every arc has its reverse (Jaiganesh and Burtscher,
    /// ECL-CC, HPDC 2018), beginning with those within tiles of consecutive vertices. For graphs of
    /// few arcs, and for meshes; but for three-dimensional meshes only if they have fewer than 16
    /// arcs per vertex.
    TowardsSmaller,
    /// First a search from the hub, the vertex with the most arcs (Slota, Rajamanickam and Madduri,
    /// Multistep, IPDPS 2014), then the arcs of each vertex that it has not found. Arcs of found
    /// vertices are not needed: since every arc has its reverse, the vertices at their other ends
    /// have them, too. For all other graphs of many arcs, in which much is near the hub.
    OutsideHub,
}

/// A search is worth it, since it leaves out most arcs, with this many arcs a vertex or more,
const WORTH_A_SEARCH: u64 = 4;
/// or, in a three-dimensional mesh, where more is near the hub than in two dimensions, with this many,
const WORTH_A_SEARCH_IN_SPACE: u64 = 16;
/// if the hub's component has at least one in this many vertices.
const REACHED: usize = 4;

impl Method {
    /// The method for a graph whose `arcs` arcs all have their reverses, by the neighbourhood of its hub:
    /// in a mesh a search would find little before hooking takes over.
    pub(crate) fn of_symmetric(graph: &CsrGraph, arcs: u64, around_hub: DepthProbe) -> Method {
        let worth = if around_hub.are_few() { WORTH_A_SEARCH } else { WORTH_A_SEARCH_IN_SPACE };
        let are_many = arcs >= worth * u64::from(graph.vertices());
        // If reverses were added, more can be reached than was probed.
        let is_much =
            arcs > graph.arcs() || around_hub.reaches(graph.vertices() as usize / REACHED);
        match are_many && is_much && !around_hub.is_deep() {
            true => Method::OutsideHub,
            false => Method::TowardsSmaller,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Method::EveryArc => "every-arc",
            Method::TowardsSmaller => "towards-smaller",
            Method::OutsideHub => "outside-hub",
        })
    }
}
