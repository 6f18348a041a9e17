//! Components of edges that come from the host \[G §5.1.4\].

use std::ops::Range;

use millstream_flow::{Context, Error as FlowError, SendBuffer, Sender, first_available};
use millstream_graph::CsrGraph;
use rayon::prelude::*;

use crate::cc::{Cc, CcOptions, CcResult};
use crate::kernels::Edge;
use crate::search::Search;
use crate::solver::Arcs;
use crate::{Error, Result};

/// Segments that are filled or copied at a time.
const SEND_BUFFERS: usize = 4;
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
        let result = search_streamed(context, vertices, options, feed).await?;
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
        let feed = async |feed, items| send_rows(feed, graph, items).await;
        search_streamed(context, graph.vertices(), options, feed).await
    }
}

/// Searches edges that are sent by `feed`, so many in a segment.
async fn search_streamed(
    context: &Context,
    vertices: u32,
    options: CcOptions,
    feed: impl AsyncFnOnce(Sender<Edge>, usize) -> Result<(), FlowError>,
) -> Result<CcResult> {
    options.check()?;
    let search = Search::new(context, vertices, options);
    let buffers = search.buffers(options.packet_bytes);
    let router = search.graph.router::<Edge>(first_available())?;
    let sender = router.sender(context.host())?.with_send_buffers(SEND_BUFFERS);
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
    edges.enumerate().map_while(move |(edge, (from, to))| {
        if from.max(to) < vertices {
            return Some([from, to]);
        }
        let (edge, vertex) = (edge as u64, from.max(to));
        *fault = Some(Error::VertexOutOfRange { edge, vertex, vertices });
        None
    })
}

/// Sends edges segment by segment.
async fn send_edges(
    feed: Sender<Edge>,
    mut edges: impl Iterator<Item = Edge>,
    items: usize,
) -> Result<(), FlowError> {
    send_segments(feed, items, |segment| {
        let mut filled = 0;
        let mut places = segment.iter_mut();
        // From within: chains of iterators are slow from outside.
        edges.by_ref().take(places.len()).for_each(|edge| {
            if let Some(place) = places.next() {
                (*place, filled) = (edge, filled + 1);
            }
        });
        filled
    })
    .await
}

/// Sends all arcs of a graph, as edges.
async fn send_rows(feed: Sender<Edge>, graph: &CsrGraph, items: usize) -> Result<(), FlowError> {
    let mut sent = 0;
    let items = items.min(graph.targets().len()).max(1);
    send_segments(feed, items, |segment| {
        let arcs = sent..graph.targets().len().min(sent + segment.len());
        let pieces = segment[..arcs.len()].par_chunks_mut(PIECE).enumerate();
        pieces.for_each(|(piece, edges)| {
            let first = arcs.start + piece * PIECE;
            fill_in(graph, first..first + edges.len(), edges);
        });
        sent = arcs.end;
        arcs.len()
    })
    .await
}

/// The arcs at these positions, as edges.
fn fill_in(graph: &CsrGraph, arcs: Range<usize>, edges: &mut [Edge]) {
    let (offsets, targets) = (graph.offsets(), &graph.targets()[arcs.clone()]);
    // The last row that begins there or before.
    let mut from = offsets.partition_point(|&offset| offset <= arcs.start as u64) - 1;
    let mut places = edges.iter_mut().zip(targets);
    let mut at = arcs.start;
    while at < arcs.end {
        let end = arcs.end.min(offsets[from + 1] as usize);
        for (edge, &to) in places.by_ref().take(end - at) {
            *edge = [from as u32, to];
        }
        (at, from) = (end, from + 1);
    }
}

/// Sends segments of the host's memory, which `fill` fills in until it has nothing left, and says how
/// far.
async fn send_segments(
    mut feed: Sender<Edge>,
    items: usize,
    mut fill: impl FnMut(&mut [Edge]) -> usize,
) -> Result<(), FlowError> {
    let stream = feed.device().stream()?;
    loop {
        let mut segment: SendBuffer<Edge> = feed.buffer(items).await?;
        let filled = fill(segment.host_view_mut()?);
        if filled == 0 {
            return feed.shutdown();
        }
        segment.truncate(filled);
        feed.send(segment, &stream)?;
    }
}
