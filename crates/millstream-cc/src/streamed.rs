//! Components of edges that come from the host \[G §5.1.4\].

use millstream_device::Pod;
use millstream_flow::{Buffers, Context, Error as FlowError, Receiver, Sender, first_available};
use millstream_graph::CsrGraph;

use crate::cc::{Cc, CcOptions, CcResult};
use crate::kernels::Edge;
use crate::search::Search;
use crate::sent_rows::{HEAD, Stretch, filling};
use crate::solver::Arcs;
use crate::{Error, Result};

/// The most segments that are filled in at the same time, and the most bytes of them together.
const FILLED_AT_ONCE: usize = 16;
const FILLED_BYTES: usize = 32 << 20;

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
        options.check()?;
        let search = Search::new(context, vertices, options);
        let (buffers, items) = (search.buffers(usize::MAX), search.packet_items(usize::MAX));
        let feed = async |feed| send_edges(feed, edges, items).await;
        let result = search_streamed(search, buffers, Arcs::Streamed, feed).await?;
        match fault {
            Some(fault) => Err(fault),
            None => Ok(result),
        }
    }

    /// As [`Cc::run_streamed`], of the arcs of a graph whose rows stay in the host's memory: they go
    /// as they lie, 4 bytes an arc and 4 a row, in packets that all threads of the host fill.
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
        options.check()?;
        let search = Search::new(context, graph.vertices(), options);
        let words = HEAD + graph.vertices() as usize + graph.targets().len();
        let (buffers, words) = (search.word_buffers(words), search.packet_words(words));
        let feed = async |feed| send_rows(feed, graph.structure(), words).await;
        search_streamed(search, buffers, Arcs::StreamedRows, feed).await
    }
}

/// Runs a search on what `feed` sends; `arcs` says what kind of arcs a device's receiver brings.
async fn search_streamed<T: Pod + Send + Sync>(
    search: Search,
    buffers: Buffers,
    arcs: impl Fn(Receiver<T>) -> Arcs<'static>,
    feed: impl AsyncFnOnce(Sender<T>) -> Result<(), FlowError>,
) -> Result<CcResult> {
    let router = search.graph.router::<T>(first_available())?;
    let sender = router.sender(search.context.host())?;
    let receiver = |device| Ok(arcs(router.receiver(device, buffers)?));
    let arcs = search.context.devices().iter().map(receiver);
    let arcs = arcs.collect::<Result<Vec<_>, FlowError>>()?;
    search.run(arcs, feed(sender)).await
}

/// The edges up to the first invalid one, which becomes the fault.
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
    // Fused: the sender asks for more edges even after the first invalid one.
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
        // Internal iteration: an external loop over chained iterators is slow.
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

/// Sends all arcs of a graph in packets of `words` words, which kernels on the host fill in.
async fn send_rows(feed: Sender<u32>, graph: CsrGraph, words: usize) -> Result<(), FlowError> {
    let at_once = (FILLED_BYTES / (words * size_of::<u32>())).clamp(1, FILLED_AT_ONCE);
    // Twice as many, so that some can be filled in while others are copied.
    let mut feed = feed.with_send_buffers(2 * at_once);
    let streams = (0..at_once).map(|_| feed.device().stream());
    let streams = streams.collect::<Result<Vec<_>, _>>()?;
    let (fill, mut arc) = (filling(graph.clone()), 0);
    for stream in streams.iter().cycle() {
        if arc == graph.targets().len() {
            break;
        }
        let stretch = Stretch::from(graph.offsets(), arc, words);
        let mut segment = feed.buffer(stretch.words()).await?;
        fill.launch(stream, segment.len(), (&mut segment, arc as u64))?;
        feed.send(segment, stream)?;
        arc = stretch.arcs.end;
    }
    feed.shutdown()
}
