//! Shortest paths in steps: the memory of a run, and the run. The phases are in
//! `STEPS.md`, the GPUs' side in `steps.cuh`, the host devices' in `step_twin.rs`.

use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    BoundKernel, CudaSource, DeviceBuffer, Kernel, Read, Shared, SharedBuffer, SharedSet, Tell,
    Trusted, Value as Plain, cuda_text,
};
use millstream_flow::{Gang, GangMember, GangMemory};
use millstream_traversal::UNREACHED;
use millstream_traversal::internals::{Answer, GangPlace, GangWork, Outcome, Value, gang_kernel};

use crate::step_graph::StepGraph;
use crate::step_pilot::Rules;
use crate::step_twin;
use crate::{Result, rule::DistanceRule};

/// Rows: offsets, targets and weights.
pub(crate) type Rows<W> = (Read<u64>, Read<u32>, Read<W>);
/// Two lists of near vertices, two sets of marks, and the light arcs of each row.
type Lists = (Shared<u32>, Shared<u32>, Shared<u32>);
/// Of all devices: the vertices that they were told of, the values that they were told, and their own values.
type Exchange<V> = (SharedSet<u32>, SharedSet<V>, SharedSet<V>);
type Signature<W, V> = (
    Rows<W>,
    Rows<W>,
    Shared<V>,
    Lists,
    Exchange<V>,
    SharedSet<u64>,
    (Shared<u32>, Shared<u64>, Tell),
    Plain<Settings>,
);

millstream_device::cuda_struct! {
    /// The settings of a search, as kernels take them.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub(crate) struct Settings as "millstream::StepSettings" {
        pub(crate) place: GangPlace,
        pub(crate) arcs: u64,
        pub(crate) limit: u32,
        delta: u32,
        first_end: u32,
        pull: u32,
        rest: u32,
        lightest: u32,
    }
}

/// How a search goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepOptions {
    /// Keys above this are left out.
    pub(crate) limit: u32,
    /// The width of a step; `None` for a single one.
    pub(crate) delta: Option<f64>,
    pub(crate) pull: u32,
    pub(crate) rest: u32,
    /// How long GPUs wait for each other.
    pub(crate) patience: Duration,
}

/// One GPU's memory.
#[derive(Debug)]
struct Memory<V: Value> {
    values: SharedBuffer<V>,
    near: SharedBuffer<u32>,
    marks: SharedBuffer<u32>,
    lights: SharedBuffer<u32>,
    told_vertices: SharedBuffer<u32>,
    told_values: SharedBuffer<V>,
    gang: GangMemory,
    settings: Settings,
}

/// The rows of one device, with weights of a type.
type RowsOf<'a, W> = (&'a DeviceBuffer<u64>, &'a DeviceBuffer<u32>, &'a DeviceBuffer<W>);

/// A search, on a graph whose weights are those of the rule.
pub(crate) struct StepSearch<'a, R: DistanceRule> {
    pub(crate) graph: &'a StepGraph,
    options: StepOptions,
    /// For each device, the weights of its outgoing and of its incoming arcs.
    weights: Vec<[std::sync::Arc<DeviceBuffer<R::Weight>>; 2]>,
}

impl<'a, R: DistanceRule> StepSearch<'a, R> {
    pub(crate) fn new(graph: &'a StepGraph, options: StepOptions) -> Result<Self> {
        let mut weights = Vec::new();
        let context = graph.incoming.context();
        for (place, device) in context.devices().iter().enumerate() {
            let of = |part| R::weights_on(device, part);
            weights.push([of(graph.outgoing(place))?, of(&graph.incoming.parts()[place])?]);
        }
        Ok(StepSearch { graph, options, weights })
    }

    /// Searches from `sources`, given by original ids.
    pub(crate) async fn run<V: Value>(&self, sources: &[u32]) -> Result<Outcome> {
        let sources = self.graph.incoming.sources(sources)?;
        match self.graph.incoming.context().all_gpus() {
            true => self.run_gang::<V>(&sources).await,
            false => self.run_twins::<V>(&sources).await,
        }
    }

    async fn run_gang<V: Value>(&self, sources: &[u32]) -> Result<Outcome> {
        let incoming = &self.graph.incoming;
        let context = incoming.context();
        let memory = self.memory::<V>(sources).await?;
        let kernel = gang_kernel("steps", trusted::<R, V>);
        let bind = |host: &_, member: GangMember<'_>| self.bind(kernel, &memory, host, member);
        let run_time = Gang::run_kernel(context, kernel, bind).await?;
        let gangs: Vec<_> = memory.iter().map(|its| &its.gang).collect();
        let work = GangWork::reported(&gangs, "steps", "step").await?;
        let told = (size_of::<u32>() + size_of::<V>()) as u64;
        let statistics = GangWork::statistics(&work, context.devices(), told);
        let values = memory.iter().map(|its| its.values.clone());
        Ok(Outcome::gathered(statistics, run_time, Answer::gather(incoming, values)).await?)
    }

    async fn run_twins<V: Value>(&self, sources: &[u32]) -> Result<Outcome> {
        let incoming = &self.graph.incoming;
        let memory = step_twin::Memory::<V>::new(self, sources).await?;
        let (run_time, work) = step_twin::run(self, &memory).await?;
        let listed = size_of::<u32>() as u64;
        let statistics = GangWork::statistics(&work, incoming.context().devices(), listed);
        let values = std::iter::repeat(memory.values);
        Ok(Outcome::gathered(statistics, run_time, Answer::gather(incoming, values)).await?)
    }

    pub(crate) fn rules(&self) -> Rules {
        let Settings { arcs, delta, first_end, pull, rest, .. } = self.settings(0);
        let after = |key, delta| R::beyond(key, bytemuck::cast(delta));
        Rules { arcs, delta, after, first_end, pull, rest }
    }

    async fn memory<V: Value>(&self, sources: &[u32]) -> Result<Vec<Memory<V>>> {
        let incoming = &self.graph.incoming;
        let (context, vertices) = (incoming.context(), incoming.vertices() as usize);
        let source = V::new(0, UNREACHED);
        let values = incoming.filled(context.devices(), V::UNREACHED, sources, source).await?;
        let (patience, reported) = (self.options.patience, GangWork::REPORT_WORDS);
        // One word after the barrier's: `StepDevice::unlisted`.
        let gangs = GangMemory::of_all(context, 1, reported, patience)?;
        let lights = self.lights(self.settings(0).delta).await?;
        let mut memory = Vec::new();
        let places = gangs.into_iter().zip(values).zip(lights);
        for (place, ((gang, values), lights)) in places.enumerate() {
            let device = &context.devices()[place];
            let owned = incoming.partition().range(place).len();
            let told = if context.devices().len() == 1 { 0 } else { 2 * vertices };
            memory.push(Memory {
                values,
                near: device.shared_to_overwrite(2 * owned)?,
                marks: device.shared(2 * owned.div_ceil(32))?,
                lights,
                told_vertices: device.shared_to_overwrite(told)?,
                told_values: device.shared_to_overwrite(told)?,
                gang,
                settings: self.settings(place),
            });
        }
        Ok(memory)
    }

    pub(crate) fn settings(&self, place: usize) -> Settings {
        let StepOptions { limit, delta, pull, rest, patience } = self.options;
        let step = delta.map(R::step);
        Settings {
            place: GangPlace::new(self.graph.incoming.partition(), place, patience),
            arcs: self.graph.arcs,
            limit,
            delta: step.map_or(0, bytemuck::cast),
            first_end: step.map_or(UNREACHED, |step| R::beyond(0, step)),
            pull,
            rest,
            lightest: self.graph.lightest,
        }
    }

    fn bind<V: Value>(
        &self,
        kernel: &Kernel<Signature<R::Weight, V>>,
        memory: &[Memory<V>],
        host: &SharedBuffer<u32>,
        GangMember { place, stream, sharers }: GangMember<'_>,
    ) -> millstream_flow::Result<BoundKernel> {
        let its = &memory[place];
        let told_vertices: Vec<_> = memory.iter().map(|its| &its.told_vertices).collect();
        let told_values: Vec<_> = memory.iter().map(|its| &its.told_values).collect();
        let owned: Vec<_> = memory.iter().map(|its| &its.values).collect();
        let words: Vec<_> = memory.iter().map(|its| &its.gang.words).collect();
        let arguments = (
            self.outgoing(place),
            self.incoming(place),
            &its.values,
            (&its.near, &its.marks, &its.lights),
            (&told_vertices[..], &told_values[..], &owned[..]),
            &words[..],
            (host, &its.gang.report, Tell),
            its.settings,
        );
        Ok(kernel.bind(stream, sharers, arguments)?)
    }

    pub(crate) fn outgoing(&self, place: usize) -> RowsOf<'_, R::Weight> {
        let part = self.graph.outgoing(place);
        (&part.offsets, &part.targets, &self.weights[place][0])
    }

    pub(crate) fn incoming(&self, place: usize) -> RowsOf<'_, R::Weight> {
        let part = &self.graph.incoming.parts()[place];
        (&part.offsets, &part.targets, &self.weights[place][1])
    }
}

/// The text before the kernels': the types of the rule and of vertices' values.
pub(crate) fn types<R: DistanceRule, V: Value>() -> String {
    let (rule, bits) = (*R::CLASS, 8 * size_of::<V>());
    format!(
        "#include \"distances.cuh\"\n#include \"span.cuh\"\nnamespace millstream {{\n\
         using StepRule = {rule};\nusing StepValue = u{bits};\n}}\n"
    )
}

fn trusted<R: DistanceRule, V: Value>() -> Trusted<CudaSource> {
    // SAFETY: the kernel keeps to its arguments as the signature says.
    unsafe { Trusted::new(cuda_source::<R, V>()) }
}

/// The gang's kernel: each file continues the one before.
pub(crate) fn cuda_source<R: DistanceRule, V: Value>() -> CudaSource {
    const TEXT: &str = cuda_text!(
        "step_quarters.cuh",
        "step_device.cuh",
        "step_waiting.cuh",
        "step_push.cuh",
        "step_pull.cuh",
        "steps.cuh"
    );
    let text = types::<R, V>() + TEXT;
    let source = CudaSource::generated("steps.cuh", "steps", text);
    source.structs(&[GangPlace::LAYOUT, Settings::LAYOUT]).threads(1024).resident()
}
