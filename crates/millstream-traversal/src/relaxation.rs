//! Relaxation as a program on a distributed worklist \[G §4.5, Fig. 11\]: the
//! twin of `relaxation.cuh`.

use std::marker::PhantomData;
use std::sync::Arc;

use millstream_device::{Device, DeviceBuffer, Pod, Read, Shared, Trusted, Zeroable};
use millstream_worklist::{CudaProgram, problem};

use crate::part::Part;
use crate::value::Value;
use crate::vertex_program::{Place, VertexProgram, VertexView};

/// How a key grows along arcs.
pub trait Rule: std::fmt::Debug + Send + Sync + 'static {
    /// What an arc weighs.
    type Weight: Pod + Send + Sync;

    /// How keys grow in CUDA C++: a class of `distances.cuh`.
    const CLASS: Trusted<&'static str>;
    /// Whether arcs have weights; else each weighs 1.
    const WEIGHS: bool;

    /// The weights that a part has; `None` if the rule needs none.
    fn weights(part: &Part) -> Option<Arc<DeviceBuffer<Self::Weight>>>;

    /// The weights of a part on `device`, as kernels take them: empty if the rule needs none.
    ///
    /// # Errors
    /// A device that failed.
    fn weights_on(
        device: &Device,
        part: &Part,
    ) -> millstream_device::Result<Arc<DeviceBuffer<Self::Weight>>> {
        match Self::weights(part) {
            Some(weights) => Ok(weights),
            None => Ok(Arc::new(device.buffer(0)?)),
        }
    }

    /// The key at distance `weight` beyond `key`: never smaller than `key`, nor decreasing in it.
    fn beyond(key: u32, weight: Self::Weight) -> u32;

    /// The key at the end of an arc whose start has `key`; an arc without a weight counts 1.
    #[inline]
    fn extended(key: u32, weights: &[Self::Weight], arc: usize) -> u32 {
        Self::beyond(key, if Self::WEIGHS { weights[arc] } else { bytemuck::cast(1u32) })
    }

    /// Vertices with lower priority run first.
    fn priority(key: u32, settings: &Settings) -> u32;

    /// The rule in CUDA C++: the class `Relaxation<rule, value>`, where the value
    /// has 64 bits if it keeps predecessors.
    fn cuda(keeps_predecessors: bool) -> Trusted<CudaProgram>;
}

millstream_device::cuda_struct! {
    /// How a relaxation goes, as kernels take it.
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    pub struct Settings as "millstream::RelaxationSettings" {
        /// Larger keys are left out.
        pub limit: u32,
        /// Whether halo copies hold back values that do not improve them: 0 or 1.
        pub halo_filter: u32,
        /// For rules whose keys are reals: priority levels in a unit of distance.
        pub priority_scale: f32,
    }
}

problem! {
    /// One device's part of the graph and its values for all vertices \[G §4.6.1\].
    pub struct Problem<R: Rule, V: Value>, ProblemView {
        /// As [`Part`] has them.
        pub offsets: Read<u64>,
        /// As [`Part`] has them.
        pub targets: Read<u32>,
        /// What [`Rule::weights`] says; empty if the rule needs none.
        pub weights: Read<R::Weight>,
        /// Of all vertices.
        pub values: Shared<V>,
        /// As [`Part`] has them.
        pub owners: Read<u32>,
        /// As the program's.
        pub settings: millstream_device::Value<Settings>,
    }
}

/// Asynchronous relaxation: pushes keys along arcs, in no particular order, until
/// no arc makes a key smaller.
#[derive(Debug)]
pub struct Relaxation<R, V> {
    settings: Settings,
    kind: PhantomData<(R, V)>,
}

impl<R, V> Relaxation<R, V> {
    /// A relaxation that goes like this.
    pub fn new(settings: Settings) -> Relaxation<R, V> {
        Relaxation { settings, kind: PhantomData }
    }
}

impl<R: Rule, V: Value> VertexProgram for Relaxation<R, V> {
    type Value = V;
    type Problem = Problem<R, V>;

    fn value(&self, view: &VertexView<'_, Self>, vertex: u32) -> V {
        V::get(&view.values[vertex as usize])
    }

    fn receive(&self, view: &VertexView<'_, Self>, vertex: u32, value: V, is_own: bool) -> bool {
        let before = V::lower(&view.values[vertex as usize], value);
        // If the halo copy is no larger, a value as good has already been sent to the owner.
        value.key() < before.key() || !is_own && self.settings.halo_filter == 0
    }

    fn priority(&self, view: &VertexView<'_, Self>, vertex: u32) -> u32 {
        R::priority(V::get(&view.values[vertex as usize]).key(), &self.settings)
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        Some(R::cuda(V::KEEPS_PREDECESSOR))
    }

    fn process(
        &self,
        view: &VertexView<'_, Self>,
        place: &Place<'_>,
        vertex: u32,
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    ) {
        self.process_block(view, place, &[vertex], emit, filtered);
    }

    /// Reads first, one kind after the other, and lowers values last: the processor executes
    /// ahead past reads, but neither past atomic operations nor past mispredicted branches.
    fn process_block(
        &self,
        view: &VertexView<'_, Self>,
        place: &Place<'_>,
        vertices: &[u32],
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    ) {
        let (mut rows, mut offers) = ([(0, 0, 0); ROWS], [(0, V::UNREACHED); OFFERS]);
        let mut count = 0;
        for vertices in vertices.chunks(ROWS) {
            for (row, &vertex) in rows.iter_mut().zip(vertices) {
                let arcs = place.arcs(view.offsets, vertex);
                *row = (V::get(&view.values[vertex as usize]).key(), arcs.start, arcs.end);
            }
            for (&(key, start, end), &vertex) in rows.iter().zip(vertices) {
                if !self.is_near(key.saturating_add(u32::from(!R::WEIGHS))) {
                    continue;
                }
                for (arc, &target) in (start..end).zip(&view.targets[start..end]) {
                    offers[count] = (target, V::new(R::extended(key, view.weights, arc), vertex));
                    count += 1;
                    if count == OFFERS {
                        self.make(&mut offers, view, place, emit, filtered);
                        count = 0;
                    }
                }
            }
        }
        self.make(&mut offers[..count], view, place, emit, filtered);
    }
}

/// Rows that are read together, and offers that are made together: few enough to lie on the stack,
/// in the first-level cache.
const ROWS: usize = 64;
const OFFERS: usize = 256;

impl<R: Rule, V: Value> Relaxation<R, V> {
    /// Lowers the values of the vertices that are offered smaller ones.
    #[inline]
    fn make(
        &self,
        offers: &mut [(u32, V)],
        view: &VertexView<'_, Self>,
        place: &Place<'_>,
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    ) {
        let owned = place.owned();
        // Most arcs lead to settled vertices. Their offers are dropped without a branch, which
        // would wait for the value.
        let mut count = 0;
        for place in 0..offers.len() {
            let (target, value) = offers[place];
            let is_nearer = value.key() < V::get(&view.values[target as usize]).key();
            let is_made = (is_nearer | !owned.contains(&target)) & self.is_near(value.key());
            offers[count] = (target, value);
            count += usize::from(is_made);
        }
        for &(target, value) in &offers[..count] {
            let before = V::lower(&view.values[target as usize], value);
            if value.key() < before.key() {
                emit(target);
            } else if !owned.contains(&target) {
                if self.settings.halo_filter == 0 {
                    emit(target);
                } else {
                    *filtered += 1;
                }
            }
        }
    }

    #[inline]
    fn is_near(&self, key: u32) -> bool {
        key <= self.settings.limit
    }
}
