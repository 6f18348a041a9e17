//! Whether a graph spreads like a plane (a road map, say) or so that everything is near: the host
//! finds out by searching the neighbourhoods of a few vertices.

use crate::CsrGraph;

/// Vertices whose neighbourhoods are searched.
const CENTERS: u32 = 4;
/// The most vertices of a neighbourhood.
const NEIGHBOURHOOD: usize = 1 << 15;
/// The most arcs followed in a neighbourhood: 32 for each vertex, many for a mesh.
const ARCS: usize = 1 << 20;
/// Levels of a neighbourhood are thin if they have fewer vertices than this on average.
const THIN: usize = 1 << 10;

/// Twice as many levels reach four times as many vertices in a plane and eight times as many in space, fewer
/// where the graph ends: measured were 3.8 to 4.6 times for two-dimensional meshes, 6.1 to 7.1 for three,
const PLANE: usize = 5;
/// and 15 times or more where everything is near.
const SPACE: usize = 12;
/// This many levels are many: a two-dimensional mesh with 48 arcs a vertex still has them.
const MANY: usize = 24;
/// Fewer levels than this do not show how the graph spreads: a three-dimensional mesh with 26 arcs a vertex
/// has 16.
const FEW: usize = 8;

/// Levels with fewer vertices than this on average take negligible time beside a meeting of host devices,
/// where rows are not packed. On four devices, a road map in scattered parts (100 and more a level) took
/// seven times as long asynchronously, and a chain a tenth.
const CHAIN: usize = 32;

/// The largest neighbourhood of a few vertices of a graph.
///
/// ```
/// use millstream_graph::DepthProbe;
/// use millstream_graph::generate::{self, GenerateOptions};
///
/// let options = GenerateOptions::default();
/// assert!(DepthProbe::new(&generate::grid(100, 100, &options)?).is_deep());
/// assert!(!DepthProbe::new(&generate::kron(9, 8, &options)?).is_deep());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DepthProbe {
    vertices: usize,
    levels: usize,
    /// The first levels that together have half of the vertices: later ones may meet the graph's edge.
    middle: usize,
    /// Vertices of these levels.
    reached: usize,
    /// Vertices of the first half of these levels.
    inner: usize,
    /// Whether the search ended before all reachable vertices were found.
    is_cut: bool,
}

impl DepthProbe {
    /// Searches the neighbourhoods on this thread, each of 32,768 vertices and along a million
    /// arcs at most: milliseconds, however large the graph.
    pub fn new(graph: &CsrGraph) -> DepthProbe {
        let step = graph.vertices() / CENTERS;
        let centers = (0..CENTERS).map(|place| place * step + step / 2);
        let searched = centers.filter(|&center| center < graph.vertices());
        searched.map(|center| DepthProbe::around(graph, center)).max().unwrap_or_default()
    }

    /// Searches the neighbourhood of one vertex in the same way.
    ///
    /// ```
    /// use millstream_graph::{CsrGraph, DepthProbe};
    ///
    /// let star = CsrGraph::from_edges(4, &[(0, 1), (0, 2)])?;
    /// let around_hub = DepthProbe::around(&star, 0);
    /// assert!(around_hub.are_few() && around_hub.reaches(3) && !around_hub.reaches(4));
    /// # Ok::<(), millstream_graph::GraphError>(())
    /// ```
    ///
    /// # Panics
    /// If there is no such vertex.
    pub fn around(graph: &CsrGraph, center: u32) -> DepthProbe {
        // Zeroed pages that are never touched cost nothing, so this is cheap even for large graphs.
        let mut seen = vec![0u64; graph.vertices().div_ceil(64) as usize];
        let mut is_new = |vertex: u32| {
            let (word, bit) = (&mut seen[vertex as usize / 64], 1 << (vertex % 64));
            let before = *word;
            *word |= bit;
            before & bit == 0
        };
        is_new(center);
        let mut frontier = vec![center];
        let (mut vertices, mut arcs, mut ends) = (1, ARCS, Vec::new());
        while !frontier.is_empty() && vertices < NEIGHBOURHOOD && arcs > 0 {
            let mut next = Vec::new();
            for &vertex in &frontier {
                // A hub's row may be as long as the graph.
                let row = graph.neighbors(vertex).iter().take(arcs);
                arcs -= row.len();
                let found = row.copied().filter(|&target| is_new(target));
                next.extend(found.take(NEIGHBOURHOOD - vertices - next.len()));
            }
            vertices += next.len();
            ends.push(vertices);
            frontier = next;
        }
        let is_cut = !frontier.is_empty() || arcs == 0;
        // In bounds: there is at least one level, and the last `end` counts all vertices.
        let (levels, middle) = (ends.len(), ends.partition_point(|&end| end < vertices / 2) + 1);
        let [reached, inner] = [middle, middle.div_ceil(2)].map(|levels| ends[levels - 1]);
        DepthProbe { vertices, levels, middle, reached, inner, is_cut }
    }

    /// Whether levels have fewer than 1,024 vertices on average, or the graph is not
    /// [near](DepthProbe::is_near). Any small graph is thin.
    pub fn is_thin(self) -> bool {
        self.vertices < THIN * self.levels || !self.is_near()
    }

    /// Whether there are at least 24 levels that grow no faster than those of a planar mesh: until half of
    /// the vertices are reached, twice as many levels reach less than five times as many vertices. Devices
    /// should not meet after every level of such a graph.
    pub fn is_deep(self) -> bool {
        !self.are_few() && self.levels >= MANY && self.reached < PLANE * self.inner
    }

    /// Whether fewer than eight levels have half of the vertices, or twice as many levels reach at least
    /// twelve times as many vertices, so that the rest of the graph is likely to add few levels. Large
    /// meshes of two or three dimensions are not near.
    ///
    /// ```
    /// use millstream_graph::DepthProbe;
    /// use millstream_graph::generate::{self, GenerateOptions};
    ///
    /// let options = GenerateOptions::default();
    /// assert!(!DepthProbe::new(&generate::grid(100, 100, &options)?).is_near());
    /// assert!(DepthProbe::new(&generate::kron(9, 8, &options)?).is_near());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_near(self) -> bool {
        self.are_few() || self.reached >= SPACE * self.inner
    }

    /// Whether the graph spreads like a mesh of three dimensions: faster than a planar one, but so slowly that
    /// it is not [near](DepthProbe::is_near).
    ///
    /// ```
    /// use millstream_graph::DepthProbe;
    /// use millstream_graph::generate::{self, GenerateOptions};
    ///
    /// let options = GenerateOptions::default();
    /// assert!(!DepthProbe::new(&generate::grid(100, 100, &options)?).is_space());
    /// assert!(!DepthProbe::new(&generate::kron(9, 8, &options)?).is_space());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_space(self) -> bool {
        !self.is_near() && self.reached >= PLANE * self.inner
    }

    /// Whether less than eight levels have half of the vertices: too few to say how the graph spreads.
    pub fn are_few(self) -> bool {
        self.middle < FEW
    }

    /// Whether the neighbourhood has at least `vertices` vertices, or goes on beyond what was searched.
    pub fn reaches(self, vertices: usize) -> bool {
        self.is_cut || self.vertices >= vertices
    }

    /// Whether the graph is [deep](DepthProbe::is_deep) and its levels have fewer than 32 vertices on
    /// average. Host devices meet faster than they exchange packets, so only in such a graph should they
    /// not meet after every level either.
    pub fn is_chain_like(self) -> bool {
        self.is_deep() && self.vertices < CHAIN * self.levels
    }
}

#[cfg(test)]
mod tests {
    use crate::generate::{self, GenerateOptions};

    use super::*;

    fn is_deep(graph: &CsrGraph) -> bool {
        DepthProbe::new(graph).is_deep()
    }

    #[test]
    fn roads_are_deep_and_kronecker_graphs_are_not() {
        let options = GenerateOptions::default();
        let road = generate::road(300, 300, generate::KEEP_PERMILLE, &options).unwrap();
        assert!(is_deep(&road) && !DepthProbe::new(&road).is_chain_like());
        for scale in [6, 9, 12, 15] {
            assert!(!is_deep(&generate::kron(scale, 8, &options).unwrap()), "{scale}");
            assert!(!is_deep(&generate::social(scale, 9, &options).unwrap()), "{scale}");
        }
    }

    #[test]
    fn sparse_graphs_without_far_ends_are_near_and_not_deep() {
        let random = generate::random(1 << 17, 3 << 17, &GenerateOptions::default()).unwrap();
        let probe = DepthProbe::new(&random);
        assert!(probe.is_near() && !probe.is_thin());
    }

    /// A mesh with 24 arcs a vertex.
    #[test]
    fn a_mesh_of_many_arcs_is_deep() {
        let mut edges = Vec::new();
        for at in 0..300u32 * 300 {
            let below = (0..10).map(|by| at + 300 * (1 + by / 5) + by % 5 - 2);
            for to in [at + 1, at + 2].into_iter().chain(below) {
                edges.extend([(at, to), (to, at)]);
            }
        }
        let mesh = CsrGraph::from_edges(300 * 303, &edges).unwrap();
        let probe = DepthProbe::new(&mesh);
        assert!(!probe.is_near() && probe.is_deep() && !probe.is_chain_like(), "{probe:?}");
        assert!(!probe.is_space(), "{probe:?}");
    }

    /// A cube of 40 vertices a side, each with 6 neighbours, or 26.
    #[test]
    fn space_is_neither_near_nor_deep() {
        const SIDE: i32 = 40;
        for most in [1, 3] {
            let mut edges = Vec::new();
            for (at, step) in (0..SIDE.pow(3)).flat_map(|at| (0..27).map(move |step| (at, step))) {
                let by = [step / 9 - 1, step / 3 % 3 - 1, step % 3 - 1];
                let place = [at / SIDE / SIDE, at / SIDE % SIDE, at % SIDE];
                let to: [i32; 3] = std::array::from_fn(|axis| place[axis] + by[axis]);
                let steps = by.iter().map(|step| step.abs()).sum::<i32>();
                if (1..=most).contains(&steps) && to.iter().all(|to| (0..SIDE).contains(to)) {
                    let [high, middle, low] = to;
                    edges.push((at as u32, ((high * SIDE + middle) * SIDE + low) as u32));
                }
            }
            let cube = CsrGraph::from_edges(SIDE.pow(3) as u32, &edges).unwrap();
            let probe = DepthProbe::new(&cube);
            assert!(probe.is_space() && !probe.is_near() && !probe.is_deep(), "{probe:?}");
        }
    }

    /// Arcs from each vertex to the next four, except that one arc in 251 ends anywhere.
    #[test]
    fn a_small_world_is_near_though_it_has_dozens_of_levels() {
        const VERTICES: u32 = 1 << 20;
        let edges = (0..4 * VERTICES).flat_map(|edge| {
            // Bits of a product by an odd number, as good as random ones.
            let anywhere = edge.wrapping_mul(0x9E37_79B1) % VERTICES;
            let (from, beside) = (edge / 4, (edge / 4 + edge % 4 + 1) % VERTICES);
            let to = if edge % 251 == 0 { anywhere } else { beside };
            [(from, to), (to, from)]
        });
        let world = CsrGraph::from_edges(VERTICES, &edges.collect::<Vec<_>>()).unwrap();
        let probe = DepthProbe::new(&world);
        assert!(probe.is_near() && !probe.are_few() && probe.levels >= MANY, "{probe:?}");
    }

    #[test]
    fn a_chain_is_deep_with_cliques_at_its_ends_and_one_way_too() {
        let one_way: Vec<_> = (0..1000).map(|at| (at, at + 1)).collect();
        let clique = |first: u32| {
            (0..50).flat_map(move |from| (0..50).map(move |to| (first + from, first + to)))
        };
        let barbell: Vec<_> = one_way.iter().copied().chain(clique(0)).chain(clique(951)).collect();
        for edges in [one_way, barbell] {
            assert!(DepthProbe::new(&CsrGraph::from_edges(1001, &edges).unwrap()).is_chain_like());
        }
    }

    #[test]
    fn a_thick_band_is_deep() {
        let band = (0..50_000).flat_map(|from| (1..60).map(move |by| (from, from + by)));
        assert!(is_deep(&CsrGraph::from_edges(50_060, &band.collect::<Vec<_>>()).unwrap()));
    }

    #[test]
    fn small_graphs_and_stars_are_thin_but_not_deep() {
        let star = |leaves: u32| -> Vec<_> { (1..leaves).map(|leaf| (0, leaf)).collect() };
        let into = star(20_000).iter().map(|&(hub, leaf)| (leaf, hub)).collect();
        for edges in [vec![(0, 1)], star(60), into] {
            let probe = DepthProbe::new(&CsrGraph::from_edges(20_000, &edges).unwrap());
            assert!(probe.is_thin() && !probe.is_deep());
        }
        let nothing = DepthProbe::new(&CsrGraph::from_edges(0, &[]).unwrap());
        assert!(!nothing.is_thin() && !nothing.is_deep());
    }
}
