//! Whether the levels of a graph are thin and many, as a road map's are: found out by
//! searching the neighbourhoods of a few vertices on the host.

use millstream_graph::CsrGraph;

/// Vertices whose neighbourhoods are searched.
const CENTERS: u32 = 4;
/// Vertices of a neighbourhood at most. A mesh has hundreds of levels in so many, a
/// graph in which everything is near has one or two dozen.
const NEIGHBOURHOOD: usize = 1 << 15;
/// Arcs of a neighbourhood at most: many to a vertex, for a mesh.
const ARCS: usize = 1 << 20;
/// Levels of a neighbourhood are thin if they have fewer vertices, on average.
const THIN: usize = 512;
/// Levels are many from here on: a whole neighbourhood of thin ones has more.
const MANY: usize = NEIGHBOURHOOD / THIN;

/// A neighbourhood of fewer levels is no mesh's of two dimensions: such a one of 24 arcs a vertex has 45.
const NEAR: usize = 24;

/// Vertices of a level on average, less than which are nothing beside a meeting of host devices, where
/// rows are not packed: on four, a road map in scattered parts, of a hundred and more, took seven times
/// as long asynchronously, and a chain a tenth.
const CHAIN: usize = 32;

/// The largest neighbourhood of a few vertices of a graph.
///
/// ```
/// use millstream_graph::generate::{self, GenerateOptions};
/// use millstream_traversal::DepthProbe;
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
}

impl DepthProbe {
    /// Searches the neighbourhoods on this thread, each of 32,768 vertices and along a million
    /// arcs at most: milliseconds, however large the graph.
    pub fn new(graph: &CsrGraph) -> DepthProbe {
        let step = graph.vertices() / CENTERS;
        let centers = (0..CENTERS).map(|place| place * step + step / 2);
        let searched = centers.filter(|&center| center < graph.vertices());
        searched.map(|center| neighbourhood(graph, center)).max().unwrap_or_default()
    }

    /// Whether levels have few vertices each, on average; so have those of any small graph.
    pub fn is_thin(self) -> bool {
        self.vertices < THIN * self.levels
    }

    /// Whether levels are thin and so many that devices should not meet after each.
    pub fn is_deep(self) -> bool {
        self.is_thin() && self.levels >= MANY
    }

    /// Whether there are so few levels, less than 24, that the rest of the graph is likely to have few
    /// more.
    pub fn is_near(self) -> bool {
        self.levels < NEAR
    }

    /// Whether, of such levels, most have a few vertices only: host devices, which meet sooner
    /// than they exchange packets, should not meet after each of these either.
    pub fn is_chain_like(self) -> bool {
        self.is_deep() && self.vertices < CHAIN * self.levels
    }
}

/// Vertices around one, up to [`NEIGHBOURHOOD`] and along [`ARCS`], and their levels.
fn neighbourhood(graph: &CsrGraph, center: u32) -> DepthProbe {
    // Zeros that nobody touches cost nothing, so that these are cheap for large graphs.
    let mut seen = vec![0u64; graph.vertices().div_ceil(64) as usize];
    let mut is_new = |vertex: u32| {
        let (word, bit) = (&mut seen[vertex as usize / 64], 1 << (vertex % 64));
        let before = *word;
        *word |= bit;
        before & bit == 0
    };
    is_new(center);
    let mut frontier = vec![center];
    let (mut vertices, mut levels, mut arcs) = (1, 0, ARCS);
    while !frontier.is_empty() && vertices < NEIGHBOURHOOD && arcs > 0 {
        levels += 1;
        let mut next = Vec::new();
        for &vertex in &frontier {
            // A hub's row may be as long as the graph.
            let row = graph.neighbors(vertex).iter().take(arcs);
            arcs -= row.len();
            let found = row.copied().filter(|&target| is_new(target));
            next.extend(found.take(NEIGHBOURHOOD - vertices - next.len()));
        }
        vertices += next.len();
        frontier = next;
    }
    DepthProbe { vertices, levels }
}

#[cfg(test)]
mod tests {
    use millstream_graph::generate::{self, GenerateOptions};

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

    /// Of 24 arcs a vertex.
    #[test]
    fn a_mesh_of_many_arcs_is_neither_near_nor_deep() {
        let mut edges = Vec::new();
        for at in 0..300u32 * 300 {
            let below = (0..10).map(|by| at + 300 * (1 + by / 5) + by % 5 - 2);
            for to in [at + 1, at + 2].into_iter().chain(below) {
                edges.extend([(at, to), (to, at)]);
            }
        }
        let mesh = CsrGraph::from_edges(300 * 303, &edges).unwrap();
        let probe = DepthProbe::new(&mesh);
        assert!(!probe.is_near() && !probe.is_deep(), "{probe:?}");
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
