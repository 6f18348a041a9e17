//! One search over all devices: their memory, the links between them, and the answer.

use std::ops::Range;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use futures_util::try_join;
use millstream_device::{Device, Error as DeviceError, SharedBuffer, Stream};
use millstream_flow::{Buffers, Context, Error as FlowError, Graph, LinkStatistics, tree_reduce};

use crate::cc::{CcOptions, CcResult};
use crate::kernels::{Edge, leaving_words};
use crate::sent_rows::LEAST_WORDS;
use crate::solver::{Arcs, Links, Resident, Solver};
use crate::spread::{MOST_DEVICES, Spread};
use crate::statistics::{CcStatistics, DeviceStatistics};
use crate::{Method, Result, gang};

/// A dataflow graph for one search.
pub(crate) struct Search {
    pub(crate) context: Context,
    pub(crate) graph: Graph,
    vertices: u32,
    options: CcOptions,
}

/// Packet buffers of each device and router, unless set.
const BUFFERS: usize = 2;

impl Search {
    pub(crate) fn new(context: &Context, vertices: u32, options: CcOptions) -> Search {
        Search { context: context.clone(), graph: Graph::new(context), vertices, options }
    }

    /// Buffers for a message of `items` items: no larger than the message, and no more than its packets.
    pub(crate) fn buffers(&self, items: usize) -> Buffers {
        self.packets(items, self.packet_items(items))
    }

    /// The same for sent rows of `words` words.
    pub(crate) fn word_buffers(&self, words: usize) -> Buffers {
        self.packets(words, self.packet_words(words))
    }

    fn packets(&self, items: usize, packet: usize) -> Buffers {
        let packets = items.div_ceil(packet).max(BUFFERS);
        let count = self.options.buffers.map_or(BUFFERS, |count| count.min(packets));
        Buffers::items(packet).count(count)
    }

    /// Items in each packet of a message of `items` items.
    pub(crate) fn packet_items(&self, items: usize) -> usize {
        (self.options.packet_bytes / size_of::<Edge>()).min(items).max(1)
    }

    /// Words in each packet of rows that take `words` words: room for at least one arc.
    pub(crate) fn packet_words(&self, words: usize) -> usize {
        let words = (self.options.packet_bytes / size_of::<u32>()).min(words);
        // The ends of rows within a packet have 32 bits.
        words.clamp(LEAST_WORDS, u32::MAX as usize)
    }

    /// Pairs in a packet between devices: never more than there are vertices.
    fn message_items(&self) -> usize {
        self.packet_items(self.vertices as usize)
    }

    /// The memory of all devices. `arcs` are the resident arcs of each; the other arguments say how vertices
    /// are spread, if the devices are a gang, and how resident arcs are hooked.
    fn solvers(
        &self,
        arcs: impl Iterator<Item = usize>,
        spread: Option<&Spread>,
        method: Option<Method>,
    ) -> Result<Vec<Solver>> {
        let Search { context, vertices, .. } = self;
        let has_members = spread.is_some() && method == Some(Method::OutsideHub);
        // GPUs store four words at a time.
        let members = vertices.div_ceil(128) as usize * 4;
        let devices = context.devices().iter().zip(arcs).enumerate();
        let solvers = devices.map(|(place, (device, arcs))| {
            let range = |ranges: fn(&Spread) -> &Vec<Range<u32>>| {
                spread.map_or(0..*vertices, |spread| ranges(spread)[place].clone())
            };
            let covered = range(|spread| &spread.covered);
            let has_tiles = method == Some(Method::TowardsSmaller);
            let leaving = if has_tiles { leaving_words(covered.len()) } else { 0 };
            let told = spread.map_or([[0; 2]; MOST_DEVICES], |spread| spread.told(place));
            let most_pairs: usize = told.iter().map(|[start, end]| (end - start) as usize).sum();
            Ok(Solver {
                stream: device.stream()?,
                parents: device.shared(*vertices as usize)?,
                covered,
                own: range(|spread| &spread.own),
                told,
                members: device.shared(if has_members { members } else { 0 })?,
                // One word more for their number.
                pairs: device.shared(1 + most_pairs)?,
                shared_arcs: device.shared(shared_arcs_words(arcs))?,
                leaving: device.shared(leaving)?,
                message_items: self.message_items(),
            })
        });
        Ok(solvers.collect::<Result<_, DeviceError>>()?)
    }

    /// Runs all devices on the given arcs, and the task that feeds them. The trees of all devices come over
    /// links to the first device of an order.
    pub(crate) async fn run(
        self,
        arcs: Vec<Arcs<'_>>,
        feeding: impl Future<Output = Result<(), FlowError>>,
    ) -> Result<CcResult> {
        let resident = arcs.iter().map(|arcs| match arcs {
            Arcs::Resident(resident) => resident.part.targets.len(),
            Arcs::Streamed(_) | Arcs::StreamedRows(_) => 0,
        });
        let method = arcs.iter().find_map(|arcs| match arcs {
            Arcs::Resident(resident) => Some(resident.method),
            Arcs::Streamed(_) | Arcs::StreamedRows(_) => None,
        });
        let solvers = self.solvers(resident, None, method)?;
        let buffers = self.buffers(self.vertices as usize);
        let Search { context, graph, .. } = self;
        let statistics = graph.statistics();
        let order = context.topology().ring_order();
        let links = links(&graph, context.devices(), &order, buffers)?;
        let first = &solvers[order.first().copied().unwrap_or(0)];
        solvers.iter().try_for_each(Solver::prepare)?;
        let start = Instant::now();
        let tasks = solvers.iter().zip(arcs).zip(links);
        let tasks = tasks.map(|((solver, arcs), links)| solver.run(arcs, links));
        let search = async {
            let (_, statistics) = try_join!(feeding, try_join_all(tasks))?;
            first.stream.completed()?.await?;
            Ok::<_, FlowError>(statistics)
        };
        let devices = graph.run(search).await?;
        let run_time = start.elapsed();
        let mut result = gathered(std::iter::once(first.labels()), devices, run_time).await?;
        let CcStatistics { devices, links } = &mut result.statistics;
        *links = statistics.links();
        for (device, its) in context.devices().iter().zip(devices) {
            let links = links.iter().filter(|link| link.from == device.name());
            its.sent = links.map(|link| link.bytes).sum::<u64>() / size_of::<Edge>() as u64;
        }
        Ok(result)
    }

    /// Runs resident rows of GPUs that reach each other's memory.
    pub(crate) async fn run_gang(
        self,
        residents: &[Resident<'_>],
        spread: &Spread,
    ) -> Result<CcResult> {
        let arcs = residents.iter().map(|resident| resident.part.targets.len());
        let method = residents.first().map(|its| its.method);
        self.context.wake_links()?;
        let solvers = self.solvers(arcs.clone(), Some(spread), method)?;
        let run_time = gang::run(&self.context, self.options.patience, &solvers, residents).await?;
        let mut told = Vec::new();
        for Solver { stream, pairs, .. } in &solvers {
            told.extend(stream.download_shared(pairs, 0..1)?.await?);
        }
        let all: u64 = told.iter().sum();
        let others = (solvers.len() as u64).saturating_sub(1);
        let devices = arcs.zip(&told).map(|(arcs, own)| {
            let merged = all - own;
            DeviceStatistics { hooked: arcs as u64, merged, sent: own * others, received: merged }
        });
        let labels = solvers.iter().map(Solver::labels);
        let mut result = gathered(labels, devices.collect(), run_time).await?;
        result.statistics.links = links_of_pairs(self.context.devices(), &told);
        Ok(result)
    }
}

/// Gathers the labels that devices have left; `labels` says where, in the devices' order.
pub(crate) async fn gathered(
    labels: impl Iterator<Item = (&Stream, &SharedBuffer<u32>, Range<usize>)>,
    devices: Vec<DeviceStatistics>,
    run_time: Duration,
) -> Result<CcResult> {
    let start = Instant::now();
    let download =
        |(stream, parents, range): (&Stream, &_, _)| stream.download_shared(parents, range);
    let arriving: Result<Vec<_>, _> = labels.map(download).collect();
    let mut labels = Vec::new();
    for its in arriving? {
        its.append_to(&mut labels, |label| label).await?;
    }
    let gather_time = start.elapsed();
    let statistics = CcStatistics { devices, links: Vec::new() };
    Ok(CcResult { labels, method: None, statistics, run_time, gather_time })
}

/// Link statistics for devices each of which has told every other one `told` pairs.
pub(crate) fn links_of_pairs(devices: &[Device], told: &[u64]) -> Vec<LinkStatistics> {
    let mut links = Vec::new();
    for (from, &pairs) in devices.iter().zip(told) {
        for to in devices.iter().filter(|to| to.name() != from.name()) {
            let link = LinkStatistics::new(from.name(), to.name());
            links.push(link.pushed(pairs, size_of::<Edge>() as u64));
        }
    }
    links
}

/// Links along a tree of devices.
fn links(
    graph: &Graph,
    devices: &[Device],
    order: &[usize],
    buffers: Buffers,
) -> Result<Vec<Links>> {
    let tree = order.iter().map(|&place| devices[place].clone());
    let router = graph.router::<Edge>(tree_reduce(tree.collect::<Vec<_>>()))?;
    let link = |(place, device): (usize, &Device)| {
        let is_first = order.first() == Some(&place);
        let above = (!is_first).then(|| router.sender(device)).transpose()?;
        Ok(Links { below: router.receiver(device, buffers)?, above })
    };
    devices.iter().enumerate().map(link).collect()
}

/// Room for all rows that are worth sharing: `SharedArcs` in `shared_arcs.cuh`.
fn shared_arcs_words(arcs: usize) -> usize {
    const MANY: usize = 1024;
    const ENTRY_WORDS: usize = 3;
    1 + arcs / MANY * ENTRY_WORDS
}
