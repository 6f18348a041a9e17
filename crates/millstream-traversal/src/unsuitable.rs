//! Why something cannot be searched by near and far piles.

/// A condition of searches by near and far piles that does not hold.
///
/// ```
/// use millstream_traversal::Unsuitable;
///
/// let reason = Unsuitable::Directed.to_string();
/// assert_eq!(reason, "several GPUs need a symmetric graph, and this one is not");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsuitable {
    /// The devices cannot meet.
    #[error(
        "it needs up to 16 host devices, or up to eight GPUs with NVLink, all of which reach each other"
    )]
    Devices,
    /// When the graph was uploaded, another search was asked for, or no layouts.
    #[error("the graph was uploaded for other searches")]
    Upload,
    /// Only BFS asks for thin levels.
    #[error("levels of the graph have 1,024 vertices or more, on average")]
    Levels,
    /// Too many arcs leave some vertices.
    #[error("no vertex may have more than 256 arcs that leave it")]
    Degrees,
    /// Several GPUs need a symmetric graph.
    #[error("several GPUs need a symmetric graph, and this one is not")]
    Directed,
    /// The parts of several GPUs are scattered, or small.
    #[error("the parts of the GPUs have too many neighbours in other parts")]
    Parts,
    /// More vertices, or arcs of rows of more than four arcs, than 31 bits can number on one device.
    /// (Where devices share one memory, the first one has those of all.)
    #[error("a device would have 2,147,483,648 vertices or more, or arcs of long rows")]
    Vertices,
    /// A device has room for the graph, but not for a packed copy of its rows (of host devices, the
    /// first one has the copy of all rows).
    #[error("there is no room for packed rows on a device")]
    Memory,
}
