//! Components of edges that come from the host \[G §5.1.4\].

use millstream_device::{Grid, Kernel, Value, Write};
use millstream_flow::{Context, Error as FlowError, Sender, first_available};
use millstream_graph::CsrGraph;
use rayon::prelude::*;

use crate::cc::{Cc, CcOptions, CcResult};
use crate::kernels::{Edge, visit_rows};
use crate::search::Search;
use crate::solver::Arcs;
use crate::{Error, Result};

/// Segments that are filled in side by side, and bytes of them.
const FILLED_AT_ONCE: usize = 16;
const FILLED_BYTES: usize = 32 << 20;

/// Edges that a thread fills in at least.
const PIECE: usize = 1 << 13;

impl Cc {
    /// Finds the components of the vertices `0..vertices` and of edges that come
    /// from the host: segments of them go to whichever device is free, through one
    /// router, while the devices hook those that have arrived. So the graph need
    /// not fit in the devices' memory. One thread takes the edges from the iterator; a graph that lies
    /// in memory as rows goes faster by [`Cc::run_streamed_graph`].
    ///
    /// ```
    /// use millstream_cc::{Cc, CcOptions};
    /// use millstream_flow::{Context, Devices};
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let edges = [(1, 0), (3, 2), (4, 3)];
    /// let search = Cc::run_streamed(&context, 5, edges, CcOptions::default());
    /// assert_eq!(context.block_on(search)??.labels, [0, 0, 2, 2, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Options that have no meaning; an edge that names a vertex of `vertices` or more; the first
    /// cause of any failure below.
    ///
    /// # Cancel safety
    /// Dropping the future stops the devices.
    pub async fn run_streamed(
        context: &Context,
        vertices: u32,
        edges: impl IntoIterator<Item = (u32, u32)>,
        options: CcOptions,
    ) -> Result<CcResult> {
        let mut fault = None;
        let edges = checked(edges.into_iter(), vertices, &mut fault);
        let feed = async |feed, items| send_edges(feed, edges, items).await;
        let result = search_streamed(context, vertices, usize::MAX, options, feed).await?;
        match fault {
            Some(fault) => Err(fault),
            None => Ok(result),
        }
    }

    /// As [`Cc::run_streamed`], of the arcs of a graph whose rows stay in the host's memory: all
    /// threads of the host make edges of them.
    ///
    /// ```
    /// use millstream_cc::{Cc, CcOptions};
    /// use millstream_flow::{Context, Devices};
    /// use millstream_graph::CsrGraph;
    ///
    /// let context = Context::builder().devices(Devices::host(2)).build()?;
    /// let graph = CsrGraph::from_edges(5, &[(1, 0), (3, 2), (4, 3)])?;
    /// let search = Cc::run_streamed_graph(&context, &graph, CcOptions::default());
    /// assert_eq!(context.block_on(search)??.labels, [0, 0, 2, 2, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Options that have no meaning; the first cause of any failure below.
    ///
    /// # Cancel safety
    /// Dropping the future stops the devices.
    pub async fn run_streamed_graph(
        context: &Context,
        graph: &CsrGraph,
        options: CcOptions,
    ) -> Result<CcResult> {
        let feed = async |feed, items| send_rows(feed, graph.structure(), items).await;
        let edges = graph.targets().len();
        search_streamed(context, graph.vertices(), edges, options, feed).await
    }
}

/// Searches `edges` at most, which are sent by `feed`, so many in a segment.
async fn search_streamed(
    context: &Context,
    vertices: u32,
    edges: usize,
    options: CcOptions,
    feed: impl AsyncFnOnce(Sender<Edge>, usize) -> Result<(), FlowError>,
) -> Result<CcResult> {
    options.check()?;
    let search = Search::new(context, vertices, options);
    let buffers = search.buffers(edges);
    let router = search.graph.router::<Edge>(first_available())?;
    let sender = router.sender(context.host())?;
    let receiver = |device| Ok(Arcs::Streamed(router.receiver(device, buffers)?));
    let arcs = context.devices().iter().map(receiver).collect::<Result<Vec<_>, FlowError>>()?;
    search.run(arcs, feed(sender, options.packet_bytes / size_of::<Edge>())).await
}

/// Edges up to the first that is none, which becomes the fault.
fn checked(
    edges: impl Iterator<Item = (u32, u32)>,
    vertices: u32,
    fault: &mut Option<Error>,
) -> impl Iterator<Item = Edge> {
    let checked = edges.enumerate().map_while(move |(edge, (from, to))| {
        if from.max(to) < vertices {
            return Some([from, to]);
        }
        let (edge, vertex) = (edge as u64, from.max(to));
        *fault = Some(Error::VertexOutOfRange { edge, vertex, vertices });
        None
    });
    // It is asked again for what would come after the first that is none.
    checked.fuse()
}

/// Sends edges segment by segment.
async fn send_edges(
    mut feed: Sender<Edge>,
    mut edges: impl Iterator<Item = Edge>,
    items: usize,
) -> Result<(), FlowError> {
    let stream = feed.device().stream()?;
    loop {
        let mut segment = feed.buffer(items).await?;
        let mut places = segment.host_view_mut()?.iter_mut();
        let mut filled = 0;
        // From within: chains of iterators are slow from outside.
        edges.by_ref().take(items).for_each(|edge| {
            if let Some(place) = places.next() {
                (*place, filled) = (edge, filled + 1);
            }
        });
        if filled == 0 {
            return feed.shutdown();
        }
        segment.truncate(filled);
        feed.send(segment, &stream)?;
    }
}

/// Sends all arcs of a graph, as edges, which kernels of the host fill in.
async fn send_rows(feed: Sender<Edge>, graph: CsrGraph, items: usize) -> Result<(), FlowError> {
    let all = graph.targets().len();
    let at_once = (FILLED_BYTES / (items * size_of::<Edge>())).clamp(1, FILLED_AT_ONCE);
    // While some are copied, others are filled in.
    let mut feed = feed.with_send_buffers(2 * at_once);
    let streams = (0..at_once).map(|_| feed.device().stream());
    let streams = streams.collect::<Result<Vec<_>, _>>()?;
    let fill = filling(graph);
    for (first, stream) in (0..all).step_by(items).zip(streams.iter().cycle()) {
        let mut segment = feed.buffer(items.min(all - first)).await?;
        fill.launch(stream, segment.len(), (&mut segment, first as u64))?;
        feed.send(segment, stream)?;
    }
    feed.shutdown()
}

/// Fills in edges, from an arc of the graph on.
fn filling(graph: CsrGraph) -> Kernel<(Write<Edge>, Value<u64>)> {
    Kernel::from_closure("fill in edges", move |_: &Grid, (edges, first): (&mut [Edge], u64)| {
        let pieces = edges.par_chunks_mut(PIECE).enumerate();
        pieces.for_each(|(number, piece)| fill_in(&graph, first as usize + number * PIECE, piece));
        Ok(())
    })
}

/// The arcs from a position on, as edges.
fn fill_in(graph: &CsrGraph, first: usize, edges: &mut [Edge]) {
    let arcs = first..first + edges.len();
    let mut filled = 0;
    visit_rows(graph.offsets(), graph.targets(), arcs, |from, targets| {
        let places = &mut edges[filled..filled + targets.len()];
        for (place, &to) in places.iter_mut().zip(targets) {
            *place = [from as u32, to];
        }
        filled += targets.len();
    });
}
