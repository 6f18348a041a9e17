//! Distances that all devices hold: each device visits a part of every vertex's arcs, and whoever
//! finds a shorter way tells all others. Copies merge with those that wait in the same outbox.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream::device::{Device, Shared, Trusted, Value};
use millstream::flow::Context;
use millstream::worklist::{
    CudaProgram, DistributedWorklist, Flags, Here, Program, Result, View, WorklistStatistics,
    problem,
};

use super::{Owners, Way, mixed};

/// Arcs that leave a vertex.
const DEGREE: u32 = 8;

const REPLICAS: &str = concat!(
    include_str!("mixed.cuh"),
    r#"
#include "keyed_values.cuh"
struct Replicas {
    struct Problem { Span<u32> distances; u32 owners; };
    struct Arc { u32 target; u32 length; };
    using State = u32;
    struct Packet { u32 vertex; u32 distance; };
    static constexpr u32 degree = 8;

    __device__ static u32 unpack(const Problem&, const Here&, const Packet& packet) {
        return packet.vertex;
    }
    __device__ static Packet pack(const Problem& problem, const Here&, u32 vertex) {
        return {vertex, load_relaxed_gpu(&problem.distances[vertex])};
    }
    __device__ static Flags on_send(const Problem&, const Here&, u32) { return Flags::both; }
    __device__ static Flags on_receive(const Problem& problem, const Here&,
                                       const Packet& packet) {
        u32* const known = &problem.distances[packet.vertex];
        // What has come round the ring is no news any more.
        return lower_value(known, packet.distance) > packet.distance ? Flags::both : Flags::drop;
    }
    __device__ static u32 priority(const Problem& problem, u32 vertex) {
        return load_relaxed_gpu(&problem.distances[vertex]);
    }
    __device__ static u32 owner(const Problem& problem, u32 vertex) {
        return problem.owners == 0 ? nobody : vertex % problem.owners;
    }
    __device__ static u32 begin(const Problem& problem, const Here& here, u32 vertex, u64* first,
                                u64* last) {
        const bool is_start = vertex == problem.distances.len - 1;
        *first = u64(vertex) * degree + (is_start ? 0 : here.device * degree / here.devices);
        *last = u64(vertex) * degree + (is_start ? 1 : (here.device + 1) * degree / here.devices);
        return load_relaxed_gpu(&problem.distances[vertex]);
    }
    // The start has one arc, to the first vertex.
    __device__ static Arc arc(const Problem& problem, u64 at) {
        const u32 vertices = problem.distances.len - 1;
        if (at / degree == vertices) return {0, 0};
        return {mixed(u32(at)) % vertices, 1 + (mixed(u32(at)) >> 20) % 15};
    }
    __device__ static bool visit(const Problem& problem, const Here&, u32 distance,
                                 const Arc& arc, u32* priority, u32*) {
        *priority = distance + arc.length;
        return lower_value(&problem.distances[arc.target], *priority) > *priority;
    }
};
"#
);

problem! {
    struct ReplicasProblem, ReplicasView {
        /// Of all vertices, and of the start.
        distances: Shared<u32>,
        /// How many devices own items; 0 if none do.
        owners: Value<u32>,
    }
}

/// Where an arc leads, and its length.
fn arc(at: u32, vertices: u32) -> (u32, u32) {
    if at / DEGREE == vertices {
        return (0, 0);
    }
    (mixed(at) % vertices, 1 + (mixed(at) >> 20) % 15)
}

/// The arcs that a device visits.
fn arcs(vertex: u32, vertices: u32, here: &Here) -> Range<u32> {
    let part = |device: usize| vertex * DEGREE + device as u32 * DEGREE / here.devices as u32;
    match vertex == vertices {
        true => vertex * DEGREE..vertex * DEGREE + 1,
        false => part(here.device)..part(here.device + 1),
    }
}

#[derive(Debug)]
struct Replicas {
    devices: usize,
    owners: Owners,
}

impl Program for Replicas {
    type Packet = [u32; 2];
    type Problem = ReplicasProblem;

    fn pack(&self, view: &View<'_, Self>, _: &Here, vertex: u32) -> [u32; 2] {
        [vertex, self.priority(view, vertex)]
    }

    fn unpack(&self, _: &View<'_, Self>, _: &Here, packet: &[u32; 2]) -> u32 {
        packet[0]
    }

    fn on_send(&self, _: &View<'_, Self>, _: &Here, _: u32) -> Flags {
        Flags::Both
    }

    fn on_receive(&self, view: &View<'_, Self>, _: &Here, packet: &[u32; 2]) -> Flags {
        let [vertex, distance] = *packet;
        let before = view.distances[vertex as usize].fetch_min(distance, Ordering::Relaxed);
        if before > distance { Flags::Both } else { Flags::Drop }
    }

    fn priority(&self, view: &View<'_, Self>, vertex: u32) -> u32 {
        view.distances[vertex as usize].load(Ordering::Relaxed)
    }

    fn owner(&self, vertex: u32) -> Option<usize> {
        (self.owners == Owners::All).then(|| vertex as usize % self.devices)
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        let program =
            CudaProgram { file: "replicas.cuh", text: REPLICAS, class: "Replicas", structs: &[] };
        // SAFETY: as the twins.
        Some(unsafe { Trusted::new(program) })
    }

    fn process(
        &self,
        view: &View<'_, Self>,
        here: &Here,
        vertex: u32,
        emit: &mut impl FnMut(u32),
        _: &mut u64,
    ) {
        let vertices = view.distances.len() as u32 - 1;
        let distance = self.priority(view, vertex);
        for at in arcs(vertex, vertices, here) {
            let (target, length) = arc(at, vertices);
            let further = distance + length;
            if view.distances[target as usize].fetch_min(further, Ordering::Relaxed) > further {
                emit(target);
            }
        }
    }
}

/// The shortest distances from the first vertex.
pub(super) fn expected(vertices: u32) -> Vec<u32> {
    let mut distances = vec![u32::MAX; vertices as usize];
    let mut left = BinaryHeap::from([Reverse((0, 0))]);
    while let Some(Reverse((distance, vertex))) = left.pop() {
        if distance >= distances[vertex as usize] {
            continue;
        }
        distances[vertex as usize] = distance;
        for at in vertex * DEGREE..(vertex + 1) * DEGREE {
            let (target, length) = arc(at, vertices);
            left.push(Reverse((distance + length, target)));
        }
    }
    distances
}

/// The distances that each device has in the end, and what was counted.
pub(super) type Outcome = (Vec<Vec<u32>>, WorklistStatistics);

/// Runs on a graph of so many vertices.
pub(super) fn run(context: &Context, way: &Way, vertices: u32) -> Result<Outcome> {
    let (devices, count) = (context.devices(), vertices as usize);
    let start = count % devices.len();
    let owners = if way.owners == Owners::All { devices.len() as u32 } else { 0 };
    let outcome = async {
        let mut problems = Vec::new();
        for (place, device) in devices.iter().enumerate() {
            let (distances, stream) = (device.shared(count + 1)?, device.stream()?);
            let mut first = vec![u32::MAX; count + 1];
            first[count] = if place == start { 0 } else { u32::MAX };
            stream.upload_shared(first, &distances, 0..count + 1)?;
            stream.completed()?.await?;
            problems.push(Arc::new(ReplicasProblem { distances, owners }));
        }
        let program = Arc::new(Replicas { devices: devices.len(), owners: way.owners });
        let worklist = DistributedWorklist::new(context, program, problems.clone(), count + 1);
        let statistics = way.set(context, worklist).run(&[(start, vertices)]).await?;
        let download = async |(device, problem): (&Device, &Arc<ReplicasProblem>)| {
            device.stream()?.download_shared(&problem.distances, 0..count)?.await
        };
        let mut distances = Vec::new();
        for it in devices.iter().zip(&problems) {
            distances.push(download(it).await?);
        }
        Ok((distances, statistics))
    };
    context.block_on(outcome)?
}
