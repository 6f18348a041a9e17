//! Relaxation as a program on a distributed worklist \[G §4.5, Fig. 11\]: the
//! twin of `relaxation.cuh`.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    Accesses, Argument, DeviceBuffer, Parameter, Read, Result, Shared, SharedBuffer,
};
use millstream_worklist::{CudaProgram, Flags, Here, Program};

use crate::graph::Part;
use crate::value::{Packet, Value};

/// How a key grows along arcs.
pub trait Rule: std::fmt::Debug + Send + Sync + 'static {
    /// What an arc weighs.
    type Weight: Pod + Send + Sync;

    /// Every arc adds this much at least.
    const LEAST_STEP: u32;

    /// The weights that a part has; `None` if the rule needs none.
    fn weights(part: &Part) -> Option<Arc<DeviceBuffer<Self::Weight>>>;

    /// The key at the end of an arc whose start has `key`: not smaller, and
    /// growing with it.
    fn extended(key: u32, weights: &[Self::Weight], arc: usize) -> u32;

    /// Vertices with lower priority run first.
    fn priority(key: u32, settings: &Settings) -> u32;

    /// The rule in CUDA C++: the class `Relaxation<rule, value>`, where the value
    /// has 64 bits if it keeps predecessors.
    fn cuda(keeps_predecessors: bool) -> CudaProgram;
}

/// How a relaxation goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Larger keys are left out.
    pub limit: u32,
    /// Whether halo copies keep back what is no improvement: 0 or 1.
    pub halo_filter: u32,
    /// For rules whose keys are reals: priorities a unit.
    pub priority_scale: f32,
}

/// [`Settings`] and the vertices of one device, as kernels take them.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct DeviceSettings {
    limit: u32,
    halo_filter: u32,
    priority_scale: f32,
    first_vertex: u32,
    end_vertex: u32,
}

impl DeviceSettings {
    pub(crate) fn new(settings: Settings, vertices: Range<u32>) -> DeviceSettings {
        let Settings { limit, halo_filter, priority_scale } = settings;
        let Range { start: first_vertex, end: end_vertex } = vertices;
        DeviceSettings { limit, halo_filter, priority_scale, first_vertex, end_vertex }
    }
}

/// One device's part of the graph and its values for all vertices \[G §4.6.1\].
#[derive(Debug)]
pub struct Problem<W: Pod, V: Value> {
    pub(crate) offsets: Arc<DeviceBuffer<u64>>,
    pub(crate) targets: Arc<DeviceBuffer<u32>>,
    pub(crate) weights: Arc<DeviceBuffer<W>>,
    pub(crate) values: SharedBuffer<V>,
    pub(crate) boundaries: DeviceBuffer<u32>,
    pub(crate) settings: DeviceSettings,
}

/// What the callbacks see of a [`Problem`].
#[derive(Debug)]
pub struct View<'a, W, V: Value> {
    offsets: &'a [u64],
    targets: &'a [u32],
    weights: &'a [W],
    values: &'a [V::Atomic],
}

/// Asynchronous relaxation: pushes keys along arcs, in no particular order, until
/// no arc makes a key smaller.
#[derive(Debug)]
pub struct Relaxation<R, V> {
    /// First vertex of each device, and the number of vertices at the end.
    boundaries: Vec<u32>,
    settings: Settings,
    kind: PhantomData<(R, V)>,
}

impl<R, V> Relaxation<R, V> {
    pub(crate) fn new(boundaries: Vec<u32>, settings: Settings) -> Relaxation<R, V> {
        Relaxation { boundaries, settings, kind: PhantomData }
    }

    pub(crate) fn owner_of(&self, vertex: u32) -> usize {
        // Empty parts have equal boundaries: the last that starts here owns it.
        self.boundaries.partition_point(|&start| start <= vertex).saturating_sub(1)
    }

    fn owns(&self, here: &Here, vertex: u32) -> bool {
        (self.boundaries[here.device]..self.boundaries[here.device + 1]).contains(&vertex)
    }
}

impl<R: Rule, V: Value> Program for Relaxation<R, V> {
    type Packet = Packet<V>;
    type Problem = Problem<R::Weight, V>;
    type Signature = (
        Read<u64>,
        Read<u32>,
        Read<R::Weight>,
        Shared<V>,
        Read<u32>,
        millstream_device::Value<DeviceSettings>,
    );
    type View<'a> = View<'a, R::Weight, V>;

    fn bind(
        problem: &Self::Problem,
        accesses: &mut Accesses,
    ) -> Result<<Self::Signature as Parameter>::Bound> {
        let Problem { offsets, targets, weights, values, boundaries, settings } = problem;
        let arguments = (&**offsets, &**targets, &**weights, values, boundaries, *settings);
        Argument::<Self::Signature>::bind(arguments, accesses)
    }

    fn view(
        (offsets, targets, weights, values, ..): <Self::Signature as Parameter>::View<'_>,
    ) -> View<'_, R::Weight, V> {
        View { offsets, targets, weights, values }
    }

    fn pack(&self, view: &Self::View<'_>, _: &Here, vertex: u32) -> Packet<V> {
        Packet::new(V::get(&view.values[vertex as usize]), vertex)
    }

    fn unpack(&self, _: &Self::View<'_>, _: &Here, packet: &Packet<V>) -> u32 {
        packet.vertex
    }

    fn on_send(&self, _: &Self::View<'_>, here: &Here, vertex: u32) -> Flags {
        if self.owns(here, vertex) { Flags::Keep } else { Flags::Pass }
    }

    fn on_receive(&self, view: &Self::View<'_>, here: &Here, packet: &Packet<V>) -> Flags {
        let before = V::lower(&view.values[packet.vertex as usize], packet.value);
        let improved = packet.value.key() < before.key();
        match self.owns(here, packet.vertex) {
            true if improved => Flags::Keep,
            true => Flags::Drop,
            // The halo copy says that a better value has gone this way.
            false if improved || self.settings.halo_filter == 0 => Flags::Pass,
            false => Flags::Drop,
        }
    }

    fn priority(&self, view: &Self::View<'_>, vertex: u32) -> u32 {
        R::priority(V::get(&view.values[vertex as usize]).key(), &self.settings)
    }

    fn owner(&self, vertex: u32) -> Option<usize> {
        Some(self.owner_of(vertex))
    }

    fn cuda() -> Option<CudaProgram> {
        Some(R::cuda(V::KEEPS_PREDECESSOR))
    }

    fn process(
        &self,
        view: &Self::View<'_>,
        here: &Here,
        vertex: u32,
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    ) {
        let key = V::get(&view.values[vertex as usize]).key();
        if key.saturating_add(R::LEAST_STEP) > self.settings.limit {
            return;
        }
        let row = (vertex - self.boundaries[here.device]) as usize;
        for arc in view.offsets[row] as usize..view.offsets[row + 1] as usize {
            let extended = R::extended(key, view.weights, arc);
            if extended > self.settings.limit {
                continue;
            }
            let target = view.targets[arc];
            let before = V::lower(&view.values[target as usize], V::new(extended, vertex));
            if extended < before.key() {
                emit(target);
            } else if !self.owns(here, target) {
                if self.settings.halo_filter == 0 {
                    emit(target);
                } else {
                    *filtered += 1;
                }
            }
        }
    }
}
