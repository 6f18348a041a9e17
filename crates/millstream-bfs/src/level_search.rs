//! Level-synchronous, direction-optimizing BFS: the memory of a run, and the run. The
//! phases are in `LEVELS.md`, the GPUs' side in `levels.cuh`, the host devices' in
//! `level_twin.rs`.

use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use futures_util::future::try_join_all;
use millstream_device::{
    BoundKernel, CudaSource, DeviceBuffer, Kernel, Read, Shared, SharedBuffer, SharedSet, Stream,
    Tell, Trusted, Value, cuda_text,
};
use millstream_flow::{Gang, GangMember, GangMemory};
use millstream_traversal::internals::{
    Answer, GangPlace, GangWork, Outcome, OwnedValues, gang_kernel,
};
use millstream_traversal::{DistributedGraph, UNREACHED};

use crate::Result;
use crate::hubs::{DeviceHubs, Hubs, SplitRow};
use crate::isolated::{Beginning, Isolated};
use crate::level_pilot::Rules;
use crate::level_twin;

/// Rows: the offset of each owned vertex's row, and targets.
pub(crate) type Rows = (Read<u64>, Read<u32>);
/// Levels and predecessors.
type Values = (Shared<u32>, Shared<u32>);
/// The log, and the sources.
type Lists = (Shared<u64>, Read<u64>);
/// Visited bits and inboxes of all devices.
type Exchange = (SharedSet<u32>, SharedSet<u64>);
/// Hubs, targets of split rows, and the row to begin with.
type HubArguments = (Shared<u32>, Read<u32>, Value<SplitRow>);
/// Rows of outgoing and of incoming arcs, values, lists, the exchange, the words of all devices,
/// reports, settings and hubs.
type Signature = (
    Rows,
    Rows,
    Values,
    Lists,
    Exchange,
    SharedSet<u64>,
    (Shared<u32>, Shared<u64>, Tell),
    Value<Settings>,
    HubArguments,
);

/// The rows of one device.
type RowsOf<'a> = (&'a DeviceBuffer<u64>, &'a DeviceBuffer<u32>);

/// The most arcs of a row that one log entry covers.
const PIECE: u64 = 128;

millstream_device::cuda_struct! {
    /// The settings of a search, as kernels take them.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    struct Settings as "millstream::LevelSettings" {
        place: GangPlace,
        connected: u32,
        depth_limit: u32,
        alpha: u32,
        beta: u32,
        degree: u32,
        /// Not 0 if a rush only visits: see `LEVELS.md`.
        reaches_late: u32,
        /// The source, if it is the only one and its row is not split; else `UNREACHED`.
        source: u32,
        unused: u32,
    }
}

/// The word of a report that says how many words of visited bits a GPU has published.
const PUBLISHED: usize = GangWork::REPORT_WORDS;

/// A search.
#[derive(Debug)]
pub(crate) struct LevelSearch<'a> {
    pub(crate) graph: &'a DistributedGraph,
    /// The graph's transpose; `None` to go top-down only.
    pub(crate) incoming: Option<&'a DistributedGraph>,
    pub(crate) isolated: &'a Isolated,
    /// Used by GPUs to go bottom-up.
    pub(crate) hubs: Option<&'a Hubs>,
    pub(crate) depth_limit: u32,
    pub(crate) predecessors: bool,
    pub(crate) alpha: u32,
    pub(crate) beta: u32,
    /// How long GPUs wait for each other.
    pub(crate) patience: Duration,
}

/// One GPU's memory.
#[derive(Debug)]
struct Memory {
    levels: SharedBuffer<u32>,
    predecessors: SharedBuffer<u32>,
    hubs: DeviceHubs,
    /// The row that the search begins with.
    source: SplitRow,
    log: SharedBuffer<u64>,
    sources: DeviceBuffer<u64>,
    visited: SharedBuffer<u32>,
    inboxes: SharedBuffer<u64>,
    gang: GangMemory,
    settings: Settings,
}

/// How a search starts.
struct Start<'a> {
    beginning: Beginning<'a>,
    /// Each device's part of the row to begin with, if that row is split.
    split: Option<Vec<SplitRow>>,
    /// The only source, if GPUs expand its row before they first meet.
    only: Option<u32>,
    /// Sources that their owners must claim in the first phase.
    claimed: &'a [u32],
}

impl LevelSearch<'_> {
    /// Searches from `sources`, given by new ids.
    pub(crate) async fn run(&self, sources: &[u32]) -> Result<Outcome> {
        match self.graph.context().all_gpus() {
            true => self.run_gang(sources).await,
            false => self.run_twins(sources).await,
        }
    }

    async fn run_gang(&self, sources: &[u32]) -> Result<Outcome> {
        let context = self.graph.context();
        let memory = self.memory(sources).await?;
        let kernel = match memory.len() {
            1 => gang_kernel("levels", trusted::<true>),
            _ => gang_kernel("levels", trusted::<false>),
        };
        let bind = |host: &_, member: GangMember<'_>| self.bind(kernel, &memory, host, member);
        let run_time = Gang::run_kernel(context, kernel, bind).await?;
        let work = reported(&memory).await?;
        let sent = size_of::<u64>() as u64;
        let statistics = GangWork::statistics(&work, context.devices(), sent);
        let values = memory.iter().map(|its| (&its.levels, &its.predecessors, 0));
        Outcome::gathered(statistics, run_time, self.gather(values)).await
    }

    async fn run_twins(&self, sources: &[u32]) -> Result<Outcome> {
        let memory = level_twin::Memory::new(self, sources).await?;
        let (run_time, work) = level_twin::run(self, &memory, sources).await?;
        let (devices, listed) = (self.graph.context().devices(), size_of::<u32>() as u64);
        let statistics = GangWork::statistics(&work, devices, listed);
        let of = |place| {
            let first = self.graph.partition().range(place).start;
            (&memory.levels, &memory.predecessors, first as usize)
        };
        Outcome::gathered(statistics, run_time, self.gather((0..devices.len()).map(of))).await
    }

    pub(crate) fn rules(&self, connected: u32) -> Rules {
        let Self { depth_limit, beta, .. } = *self;
        Rules { connected: u64::from(connected), depth_limit, alpha: self.alpha(), beta }
    }

    /// 0 if the search must not go bottom-up.
    fn alpha(&self) -> u32 {
        if self.incoming.is_some() { self.alpha } else { 0 }
    }

    async fn memory(&self, sources: &[u32]) -> Result<Vec<Memory>> {
        let context = self.graph.context();
        let start = self.start(sources);
        let gangs = GangMemory::of_all(context, 0, PUBLISHED + 1, self.patience)?;
        let (mut memory, mut completions) = (Vec::new(), Vec::new());
        for (place, gang) in gangs.into_iter().enumerate() {
            let stream = context.devices()[place].stream()?;
            memory.push(self.memory_of(place, &stream, gang, &start)?);
            completions.push(stream.completed()?);
        }
        try_join_all(completions).await?;
        Ok(memory)
    }

    /// How a search from these sources starts.
    fn start<'a>(&'a self, sources: &'a [u32]) -> Start<'a> {
        let mut beginning = self.isolated.beginning(sources);
        let hubs = self.hubs.filter(|_| self.depth_limit > 1);
        let split =
            hubs.and_then(|hubs| hubs.begins_with(sources, self.alpha, beginning.connected));
        let only = self.begins_with_one(sources).filter(|_| split.is_none());
        let mut claimed = sources;
        if split.is_some() || only.is_some() {
            // All devices visit the source's targets at once, so it must be marked before any could claim it.
            beginning.visit(sources);
            claimed = &[];
        }
        Start { beginning, split, only, claimed }
    }

    /// The memory of device `place`, ready when the work given to its `stream` is done.
    fn memory_of(
        &self,
        place: usize,
        stream: &Stream,
        gang: GangMemory,
        Start { beginning, split, only, claimed }: &Start<'_>,
    ) -> Result<Memory> {
        let context = self.graph.context();
        let (device, part) = (&context.devices()[place], &self.graph.parts()[place]);
        let range = self.graph.partition().range(place);
        let owned = range.len();
        let levels = device.shared_to_overwrite(owned)?;
        stream.fill_shared(&levels, 0..owned, UNREACHED)?;
        let kept = if self.predecessors { owned } else { 0 };
        let predecessors = device.shared_to_overwrite(kept)?;
        stream.fill_shared(&predecessors, 0..kept, UNREACHED)?;
        let hubs = match self.hubs {
            Some(hubs) => hubs.of(place).clone(),
            None => DeviceHubs::none(device)?,
        };
        let visited = device.shared_to_overwrite(2 * beginning.words())?;
        for copy in 0..2 {
            beginning.write(stream, place, &visited, copy * beginning.words())?;
        }
        let rows = owned as u64 + part.targets.len() as u64 / PIECE + 1;
        let own = claimed.iter().filter(|&source| range.contains(source));
        let item = |source: &u32| u64::from(UNREACHED) << 32 | u64::from(*source);
        Ok(Memory {
            levels,
            predecessors,
            log: device.shared_to_overwrite(2 * rows as usize)?,
            sources: stream.uploaded(own.map(item).collect::<Vec<_>>())?,
            visited,
            inboxes: device.shared_to_overwrite(owned * (context.devices().len() - 1))?,
            gang,
            settings: self.settings(place, beginning.connected, *only),
            hubs,
            source: split.as_ref().map_or(SplitRow::NONE, |parts| parts[place]),
        })
    }

    /// The only source, if GPUs are to expand its row before they first meet.
    fn begins_with_one(&self, sources: &[u32]) -> Option<u32> {
        match sources {
            &[source] if self.depth_limit > 0 => Some(source),
            _ => None,
        }
    }

    fn settings(&self, place: usize, connected: u32, source: Option<u32>) -> Settings {
        let partition = self.graph.partition();
        let arcs: usize = self.graph.parts().iter().map(|part| part.targets.len()).sum();
        Settings {
            place: self.place(place),
            connected,
            depth_limit: self.depth_limit,
            alpha: self.alpha(),
            beta: self.beta,
            degree: (arcs / partition.vertices().max(1) as usize) as u32,
            reaches_late: (!self.predecessors).into(),
            source: source.unwrap_or(UNREACHED),
            unused: 0,
        }
    }

    pub(crate) fn place(&self, device: usize) -> GangPlace {
        GangPlace::new(self.graph.partition(), device, self.patience)
    }

    pub(crate) fn outgoing(&self, place: usize) -> RowsOf<'_> {
        let part = &self.graph.parts()[place];
        (&part.offsets, &part.targets)
    }

    pub(crate) fn incoming(&self, place: usize) -> RowsOf<'_> {
        let part = &self.incoming.unwrap_or(self.graph).parts()[place];
        (&part.offsets, &part.targets)
    }

    fn bind(
        &self,
        kernel: &Kernel<Signature>,
        memory: &[Memory],
        host: &SharedBuffer<u32>,
        GangMember { place, stream, sharers }: GangMember<'_>,
    ) -> millstream_flow::Result<BoundKernel> {
        let its = &memory[place];
        let visited: Vec<_> = memory.iter().map(|its| &its.visited).collect();
        let inboxes: Vec<_> = memory.iter().map(|its| &its.inboxes).collect();
        let words: Vec<_> = memory.iter().map(|its| &its.gang.words).collect();
        let arguments = (
            self.outgoing(place),
            self.incoming(place),
            (&its.levels, &its.predecessors),
            (&its.log, &its.sources),
            (&visited[..], &inboxes[..]),
            &words[..],
            (host, &its.gang.report, Tell),
            its.settings,
            (&its.hubs.of, &*its.hubs.targets, its.source),
        );
        Ok(kernel.bind(stream, sharers, arguments)?)
    }

    /// Gathers levels and predecessors; each device's vertices begin at the given place of its buffers.
    async fn gather<'a>(
        &self,
        values: impl Iterator<Item = (&'a SharedBuffer<u32>, &'a SharedBuffer<u32>, usize)>,
    ) -> Result<Answer> {
        let partition = self.graph.partition();
        let (mut levels, mut predecessors) = (Vec::new(), Vec::new());
        for (place, (its_levels, its_predecessors, begin)) in values.enumerate() {
            let stream = self.graph.context().devices()[place].stream()?;
            let its = begin..begin + partition.range(place).len();
            let kept = if self.predecessors { its.clone() } else { 0..0 };
            levels.push(stream.download_shared(its_levels, its)?);
            predecessors.push(stream.download_shared(its_predecessors, kept)?);
        }
        let levels = OwnedValues::arrived(partition, levels).await?;
        let predecessors = OwnedValues::arrived(partition, predecessors).await?;
        let original = |_, new| if new == UNREACHED { new } else { partition.to_original(new) };
        let predecessors = self.predecessors.then(|| predecessors.restored(original));
        let keys = levels.restored(|_, level: u32| level)?;
        Ok(Answer { keys, predecessors: predecessors.transpose()? })
    }
}

/// What GPUs report that they did.
async fn reported(memory: &[Memory]) -> Result<Vec<GangWork>> {
    let gangs: Vec<_> = memory.iter().map(|its| &its.gang).collect();
    let mut all = GangWork::reported(&gangs, "levels", "level").await?;
    for (work, gang) in all.iter_mut().zip(gangs) {
        work.published = gang.report.load(PUBLISHED)?;
    }
    Ok(all)
}

/// The text of the gang's kernel: each file continues the one before.
macro_rules! text {
    ($is_alone:literal) => {
        concat!(
            "#define MILLSTREAM_IS_ALONE ",
            $is_alone,
            "\n",
            cuda_text!(
                "level_device.cuh",
                "level_log.cuh",
                "level_top_down.cuh",
                "level_bottom_up.cuh",
                "level_source.cuh",
                "levels.cuh"
            ),
        )
    };
}

/// The gang's kernel, for one device or for several.
pub(crate) fn cuda_source(is_alone: bool) -> CudaSource {
    let text = if is_alone { text!("true") } else { text!("false") };
    let structs = [GangPlace::LAYOUT, Settings::LAYOUT, SplitRow::LAYOUT];
    let source = CudaSource::new("levels.cuh", "levels", text).structs(&structs);
    source.threads(1024).resident()
}

fn trusted<const IS_ALONE: bool>() -> Trusted<CudaSource> {
    // SAFETY: the kernel keeps to its arguments as the signature says.
    unsafe { Trusted::new(cuda_source(IS_ALONE)) }
}
