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

/// How threads fill segments in.
#[derive(Clone, Copy)]
struct Filling {
    /// Segments at a time.
    at_once: usize,
    /// Edges of a thread at least.
    piece: usize,
}

/// Waking threads takes longer than filling a segment.
const FOR_GPUS: Filling = Filling { at_once: 16, piece: 1 << 16 };

/// These work on the same cores, which larger pieces would wait for.
const FOR_HOST_DEVICES: Filling = Filling { at_once: 1, piece: 1 << 13 };

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
        let filling = if context.any_gpu() { FOR_GPUS } else { FOR_HOST_DEVICES };
        let feed = async |feed, items| send_rows(feed, graph, (items, filling)).await;
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
    feed: Sender<Edge>,
    mut edges: impl Iterator<Item = Edge>,
    items: usize,
) -> Result<(), FlowError> {
    send_segments(feed, (items, 1), |segments| {
        let mut filled = 0;
        let mut places = segments.iter_mut().flat_map(|segment| segment.iter_mut());
        // From within: chains of iterators are slow from outside.
        edges.by_ref().take(items).for_each(|edge| {
            if let Some(place) = places.next() {
                (*place, filled) = (edge, filled + 1);
            }
        });
        filled
    })
    .await
}

/// Sends all arcs of a graph, as edges.
async fn send_rows(
    feed: Sender<Edge>,
    graph: &CsrGraph,
    (items, Filling { at_once, piece }): (usize, Filling),
) -> Result<(), FlowError> {
    let (mut sent, all) = (0, graph.targets().len());
    let items = items.min(all).max(1);
    let at_once = all.div_ceil(items).clamp(1, at_once);
    send_segments(feed, (items, at_once), |segments| {
        let first = sent;
        let pieces = segments.par_iter_mut().enumerate().flat_map(|(number, segment)| {
            let pieces = segment.par_chunks_mut(piece).enumerate();
            pieces.map(move |(place, edges)| (first + number * items + place * piece, edges))
        });
        pieces.filter(|(at, _)| *at < all).for_each(|(at, edges)| {
            let arcs = at..all.min(at + edges.len());
            fill_in(graph, arcs.clone(), &mut edges[..arcs.len()]);
        });
        sent = all.min(first + items * segments.len());
        sent - first
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

/// Sends segments of the host's memory, so many at a time, which `fill` fills in one after the other
/// until it has nothing left, and says with how many items.
async fn send_segments(
    feed: Sender<Edge>,
    (items, at_once): (usize, usize),
    mut fill: impl FnMut(&mut [&mut [Edge]]) -> usize,
) -> Result<(), FlowError> {
    // While some are copied, others are filled.
    let mut feed = feed.with_send_buffers(2 * at_once.max(2));
    let stream = feed.device().stream()?;
    loop {
        let mut segments: Vec<SendBuffer<Edge>> = Vec::with_capacity(at_once);
        while segments.len() < at_once {
            segments.push(feed.buffer(items).await?);
        }
        let views = segments.iter_mut().map(SendBuffer::host_view_mut);
        let mut filled = fill(&mut views.collect::<Result<Vec<_>, FlowError>>()?);
        let is_over = filled == 0;
        for mut segment in segments {
            segment.truncate(filled);
            filled -= segment.len();
            if !segment.is_empty() {
                feed.send(segment, &stream)?;
            }
        }
        if is_over {
            return feed.shutdown();
        }
    }
}
