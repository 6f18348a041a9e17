//! Paths to vertices.

use millstream_traversal::internals::path_to;

use crate::SsspResult;

impl SsspResult {
    /// The vertices of a shortest path from a source to a vertex, both among them; `None` where none leads,
    /// or if [predecessors](crate::SsspOptions::predecessors) were not asked for.
    ///
    /// ```
    /// use millstream_sssp::{Sssp, SsspOptions};
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::CsrGraph;
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let graph = CsrGraph::from_weighted_edges(5, &[(0, 1, 4u32), (1, 2, 3), (0, 2, 9), (0, 3, 1)])?;
    /// let mut options = SsspOptions::default();
    /// options.predecessors = true;
    /// let result = context.block_on(async {
    ///     Sssp::with_options(&context, &graph, options).await?.run(&[0]).await
    /// })??;
    /// assert_eq!(result.path_to(2), Some(vec![0, 1, 2]));
    /// assert_eq!(result.path_to(0), Some(vec![0]));
    /// assert_eq!(result.path_to(4), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn path_to(&self, vertex: u32) -> Option<Vec<u32>> {
        let predecessors = self.predecessors.as_ref().filter(|_| self.is_reached(vertex))?;
        Some(path_to(predecessors, vertex))
    }
}
