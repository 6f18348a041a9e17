//! A search by near and far piles: the memory of a run on GPUs, and the run. The protocol is in
//! `NEAR_FAR.md`, the kernel in `near_far.cuh`, and the search on host devices in `near_far_twin.rs`.

use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use futures_util::future::try_join_all;
use millstream_device::{
    BoundKernel, CudaSource, DeviceBuffer, Kernel, Read, Shared, SharedBuffer, SharedSet, Tell,
    Trusted, Value as Plain, cuda_text,
};
use millstream_flow::{Gang, GangMember, GangMemory};

use crate::answer::Answer;
use crate::gang_kernel::gang_kernel;
use crate::gang_place::GangPlace;
use crate::gang_work::GangWork;
use crate::halo_shape::HaloShape;
use crate::near_rows::{NearRows, TooWide};
use crate::relaxation::Rule;
use crate::row_width::RowWidth;
use crate::run::Outcome;
use crate::value::{UNREACHED, Value};
use crate::{DistributedGraph, Result, near_far_twin};

/// Words after the barrier's: those of the tally, and three more.
const WORDS: usize = 40;
/// Rows, targets and weights of long rows, and the halo.
type Graph = (Shared<u32>, Shared<u32>, Shared<u32>, Read<u32>);
/// Values, sources, piles and log.
type Lists<V> = (Shared<V>, Read<u32>, Shared<u64>, Shared<u64>);
/// Exports, what was told of them, and all inboxes.
type Exchange = (Read<u32>, Shared<u32>, SharedSet<u64>);
type Signature<V> =
    (Graph, Lists<V>, Exchange, SharedSet<u64>, (Shared<u32>, Shared<u64>, Tell), Plain<Settings>);

millstream_device::cuda_struct! {
    /// The settings of a search, as the kernel takes them.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    struct Settings as "millstream::NearFarSettings" {
        place: GangPlace,
        limit: u32,
        delta: u32,
        first_end: u32,
        padding: u32,
        shape: HaloShape,
    }
}

/// The word of a report that says whether a GPU had no room for all near vertices.
const TOO_WIDE: usize = GangWork::REPORT_WORDS;
/// Small enough for the tally's field to count a whole log.
const MOST_WAITING: usize = 1 << 26;

/// A search by near and far piles (Davidson, Baxter, Garland and Owens, IPDPS 2014): vertices whose
/// keys have become smaller than a threshold go first, until none is left; the next threshold is
/// `delta` beyond the nearest of the others.
#[derive(Debug)]
pub struct NearFar<'a, R: Rule> {
    /// The graph, on devices that [can meet](crate::meeting::can_meet).
    pub graph: &'a DistributedGraph,
    /// Its rows.
    pub rows: &'a NearRows,
    /// Larger keys are left out.
    pub limit: u32,
    /// How far the threshold is beyond the nearest vertex; `None` for a single pile.
    pub delta: Option<R::Weight>,
    /// Whether every arc makes a key larger.
    pub grows: bool,
    /// How many near vertices may wait on a GPU at a time, and twice as many far ones, of which each block
    /// has an equal part. Host devices have no such limit.
    pub waiting: usize,
    /// How long GPUs wait for each other before the search fails.
    pub patience: Duration,
}

/// How a search by near and far piles ended.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// The answer.
    Found(Outcome),
    /// No answer, since another way is better; and how long it took to find that out.
    GivenUp(Duration),
}

/// One GPU's memory.
struct Memory<V: Value> {
    values: SharedBuffer<V>,
    sources: DeviceBuffer<u32>,
    far: SharedBuffer<u64>,
    log: SharedBuffer<u64>,
    told: SharedBuffer<u32>,
    inbox: SharedBuffer<u64>,
    gang: GangMemory,
    settings: Settings,
}

impl<R: Rule> NearFar<'_, R> {
    /// The default of [`NearFar::waiting`]: few graphs need more.
    pub const WAITING: usize = 1 << 19;

    /// Searches from `sources` (original ids), all with key 0. Gives up if there was not room for all the
    /// vertices that had to wait on a GPU, in this search or in an earlier one of the same rows with no
    /// smaller [`NearFar::waiting`] and no larger [`NearFar::delta`]. Does not begin on several GPUs if
    /// predecessors could form a cycle (`NEAR_FAR.md`).
    ///
    /// # Errors
    /// A source that is not a vertex; the first cause of any failure below.
    ///
    /// # Cancel safety
    /// Dropping the future stops the devices; the graph stays.
    ///
    /// # Device ordering
    /// When it resolves, the devices are done and the answer is on the host.
    pub async fn run<V: Value>(&self, sources: &[u32]) -> Result<Attempt> {
        let sources = self.graph.sources(sources)?;
        match self.graph.context().all_gpus() {
            true => self.run_gang::<V>(&sources).await,
            false => near_far_twin::run::<R, V>(self, &sources).await.map(Attempt::Found),
        }
    }

    async fn run_gang<V: Value>(&self, sources: &[u32]) -> Result<Attempt> {
        let context = self.graph.context();
        let is_alone = context.devices().len() == 1;
        let is_right = !V::KEEPS_PREDECESSOR || self.grows || is_alone;
        let attempt = TooWide { waiting: self.room(), delta: self.first_end() };
        if !is_right || self.rows.are_too_wide(attempt) {
            return Ok(Attempt::GivenUp(Duration::ZERO));
        }
        let memory = &self.memory::<V>(sources).await?[..];
        let kernel = match self.rows.width() {
            RowWidth::Four => self.kernel::<V, { RowWidth::Four as u32 }>(),
            RowWidth::Eight => self.kernel::<V, { RowWidth::Eight as u32 }>(),
            RowWidth::Sixteen => self.kernel::<V, { RowWidth::Sixteen as u32 }>(),
            RowWidth::ThirtyTwo => self.kernel::<V, { RowWidth::ThirtyTwo as u32 }>(),
        };
        let bind = |host: &_, member: GangMember<'_>| self.bind(kernel, memory, host, member);
        let run_time = Gang::run_kernel(context, kernel, bind).await?;
        let Some(done) = reported(memory).await? else {
            self.rows.set_too_wide(attempt);
            return Ok(Attempt::GivenUp(run_time));
        };
        let statistics = GangWork::statistics(&done, context.devices(), size_of::<u64>() as u64);
        let values = memory.iter().map(|its| its.values.clone());
        let gather = Answer::gather_owned(self.graph, values);
        Outcome::gathered(statistics, run_time, gather).await.map(Attempt::Found)
    }

    fn kernel<V: Value, const THREADS: u32>(&self) -> &'static Kernel<Signature<V>> {
        match self.grows {
            true => gang_kernel("near_far", trusted::<R, V, THREADS, true>),
            false => gang_kernel("near_far", trusted::<R, V, THREADS, false>),
        }
    }

    fn room(&self) -> usize {
        self.waiting.min(MOST_WAITING)
    }

    async fn memory<V: Value>(&self, sources: &[u32]) -> Result<Vec<Memory<V>>> {
        let context = self.graph.context();
        let gangs = GangMemory::of_all(context, WORDS, TOO_WIDE + 1, self.patience)?;
        let waiting = self.room();
        let (mut memory, mut completions) = (Vec::new(), Vec::new());
        for (place, gang) in gangs.into_iter().enumerate() {
            let (device, rows) = (&context.devices()[place], self.rows.of(place));
            let own = self.graph.partition().range(place);
            let stream = device.stream()?;
            let near = own.len() + rows.halo.len();
            let values = device.shared_to_overwrite(near)?;
            let told = device.shared_to_overwrite(rows.exports.len())?;
            stream.fill_shared(&values, 0..near, V::UNREACHED)?;
            stream.fill_shared(&told, 0..told.len(), UNREACHED)?;
            let place_of = |source: &u32| match own.contains(source) {
                true => Some(source - own.start),
                false => rows.halo.binary_search(source).ok().map(|at| (own.len() + at) as u32),
            };
            let sources: Vec<u32> = sources.iter().filter_map(place_of).collect();
            memory.push(Memory {
                values,
                sources: stream.uploaded(sources)?,
                // Two piles, each of twice as many. The log's size is a power of two: 32-bit places wrap
                // around.
                far: device.shared(4 * waiting)?,
                log: device.shared(waiting.next_power_of_two())?,
                told,
                inbox: device.shared(2 * rows.halo.len())?,
                gang,
                settings: self.settings(place),
            });
            completions.push(stream.completed()?);
        }
        try_join_all(completions).await?;
        Ok(memory)
    }

    /// The first threshold.
    pub(crate) fn first_end(&self) -> u32 {
        // A weight's bits are the key at that distance from 0.
        self.delta.map_or(UNREACHED, bytemuck::cast)
    }

    fn settings(&self, place: usize) -> Settings {
        Settings {
            place: GangPlace::new(self.graph.partition(), place, self.patience),
            limit: self.limit,
            delta: self.delta.map_or(0, bytemuck::cast),
            first_end: self.first_end(),
            padding: 0,
            shape: self.rows.of(place).shape,
        }
    }

    fn bind<V: Value>(
        &self,
        kernel: &Kernel<Signature<V>>,
        memory: &[Memory<V>],
        host: &SharedBuffer<u32>,
        GangMember { place, stream, sharers }: GangMember<'_>,
    ) -> millstream_flow::Result<BoundKernel> {
        let (its, rows) = (&memory[place], self.rows.of(place));
        let inboxes: Vec<_> = memory.iter().map(|its| &its.inbox).collect();
        let graph = (&rows.rows, &rows.long_targets, &rows.long_weights, &rows.halo_ids);
        let exchange = (&rows.exports, &its.told, &inboxes[..]);
        let lists = (&its.values, &its.sources, &its.far, &its.log);
        let words: Vec<_> = memory.iter().map(|its| &its.gang.words).collect();
        let reports = (host, &its.gang.report, Tell);
        let arguments = (graph, lists, exchange, &words[..], reports, its.settings);
        Ok(kernel.bind(stream, sharers, arguments)?)
    }
}

/// What GPUs report that they did; `None` if one had no room for all near vertices.
async fn reported<V: Value>(memory: &[Memory<V>]) -> Result<Option<Vec<GangWork>>> {
    for its in memory {
        if its.gang.report.load(TOO_WIDE)? != 0 {
            return Ok(None);
        }
    }
    let gangs: Vec<_> = memory.iter().map(|its| &its.gang).collect();
    GangWork::reported(&gangs, "near_far", "threshold").await.map(Some)
}

fn trusted<R: Rule, V: Value, const THREADS: u32, const GROWS: bool>() -> Trusted<CudaSource> {
    // SAFETY: the kernel keeps to its arguments as the signature says.
    unsafe { Trusted::new(cuda_source::<R, V>(THREADS, GROWS)) }
}

/// The gang's kernel, in which `threads` threads visit a row: each file continues the one before.
pub(crate) fn cuda_source<R: Rule, V: Value>(threads: u32, grows: bool) -> CudaSource {
    const TEXT: &str = cuda_text!("near_row.cuh", "near_far_device.cuh", "near_far.cuh");
    let (rule, bits, weighs) = (*R::CLASS, 8 * size_of::<V>(), u32::from(R::WEIGHS));
    let text = format!(
        "#include \"distances.cuh\"\n#define MILLSTREAM_ROW_WEIGHS {weighs}\n\
         namespace millstream {{\nusing NearFarRule = {rule};\nusing NearFarValue = u{bits};\n\
         constexpr bool near_far_grows = {grows};\n\
         constexpr u32 near_far_threads = {threads};\n}}\n{TEXT}"
    );
    let structs = [GangPlace::LAYOUT, HaloShape::LAYOUT, Settings::LAYOUT];
    let source = CudaSource::generated("near_far.cuh", "near_far", text).structs(&structs);
    source.threads(1024).resident()
}
