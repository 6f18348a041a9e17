//! Paths to vertices.

use millstream_traversal::internals::path_to;

use crate::BfsResult;

impl BfsResult {
    /// The vertices of a shortest path from a source to a vertex, both among them; `None` where none leads,
    /// or if [predecessors](crate::BfsOptions::predecessors) were not asked for.
    ///
    /// ```
    /// use millstream_bfs::{Bfs, BfsOptions};
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::CsrGraph;
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let graph = CsrGraph::from_edges(5, &[(0, 1), (1, 2), (0, 3)])?;
    /// let mut options = BfsOptions::default();
    /// options.predecessors = true;
    /// let result = context.block_on(async {
    ///     Bfs::with_options(&context, &graph, options).await?.run(&[0]).await
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
