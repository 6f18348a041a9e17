//! BFS as a program on a distributed worklist \[G §4.5, Fig. 11\].

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use millstream_device::{
    Accesses, Argument, AtomicPod, CudaSource, DeviceBuffer, Parameter, Pod, Read, Result, Shared,
    SharedBuffer, Zeroable,
};
use millstream_worklist::{CudaProgram, Flags, Here, Program};

/// The level of a vertex nobody has reached.
pub const UNREACHED: u32 = u32::MAX;

/// What a vertex holds: its level, perhaps with a predecessor. Smaller values
/// have smaller levels, so the atomic minimum resolves all conflicts \[G §4.6\].
pub trait Value: AtomicPod + Ord {
    /// Fills a [`Packet`] up to a multiple of its alignment.
    type Padding: Pod + Send + Sync + std::fmt::Debug;

    /// A vertex nobody has reached.
    const UNREACHED: Self;
    /// The class of a BFS over such values in CUDA C++.
    const CUDA_CLASS: &'static str;

    /// A vertex at `level`, reached from `predecessor`.
    fn new(level: u32, predecessor: u32) -> Self;
    /// The level.
    fn level(self) -> u32;
    /// The predecessor; [`UNREACHED`] if there is none or it is not kept.
    fn predecessor(self) -> u32;
    /// The value now.
    fn get(atomic: &Self::Atomic) -> Self;
    /// Lowers the value and returns the one before.
    fn lower(atomic: &Self::Atomic, value: Self) -> Self;
}

macro_rules! value {
    ($value:ty, $atomic:ty, $padding:ty, $class:literal, $new:expr, $level:expr, $predecessor:expr) => {
        impl Value for $value {
            type Padding = $padding;

            const UNREACHED: $value = <$value>::MAX;
            const CUDA_CLASS: &'static str = $class;

            fn new(level: u32, predecessor: u32) -> $value {
                $new(level, predecessor)
            }

            fn level(self) -> u32 {
                $level(self)
            }

            fn predecessor(self) -> u32 {
                $predecessor(self)
            }

            fn get(atomic: &$atomic) -> $value {
                // Relaxed: the bit of the queue orders values.
                atomic.load(Ordering::Relaxed)
            }

            fn lower(atomic: &$atomic, value: $value) -> $value {
                // A plain look first: most arcs lead to settled vertices.
                let before = atomic.load(Ordering::Relaxed);
                if before <= value { before } else { atomic.fetch_min(value, Ordering::Relaxed) }
            }
        }
    };
}

value!(
    u32,
    AtomicU32,
    [u32; 0],
    "millstream::Bfs<unsigned int>",
    |level, _| level,
    |value| value,
    |_| UNREACHED
);
value!(
    u64,
    AtomicU64,
    [u32; 1],
    "millstream::Bfs<unsigned long long>",
    |level, predecessor| u64::from(level) << 32 | u64::from(predecessor),
    |value| (value >> 32) as u32,
    |value| value as u32
);

/// A vertex and its value on the way to another device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Packet<V: Value> {
    value: V,
    vertex: u32,
    padding: V::Padding,
}

// SAFETY: plain numbers.
unsafe impl<V: Value> Zeroable for Packet<V> {}
// SAFETY: plain numbers, and `padding` leaves no hidden bytes: 4 + 4 + 0 for a
// 32-bit value, 8 + 4 + 4 for a 64-bit one; there are no other values.
unsafe impl<V: Value> Pod for Packet<V> {}
const _: () = assert!(size_of::<Packet<u32>>() == 8 && size_of::<Packet<u64>>() == 16);

/// One device's part of the graph and its values for all vertices \[G §4.6.1\].
#[derive(Debug)]
pub struct Problem<V: Value> {
    /// Row index of the owned vertices.
    pub(crate) offsets: std::sync::Arc<DeviceBuffer<u64>>,
    /// Targets of their arcs.
    pub(crate) targets: std::sync::Arc<DeviceBuffer<u32>>,
    pub(crate) values: SharedBuffer<V>,
    pub(crate) boundaries: DeviceBuffer<u32>,
    pub(crate) settings: Settings,
}

/// How a search goes, as kernels take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    pub(crate) depth_limit: u32,
    /// 0 or 1.
    pub(crate) halo_filter: u32,
}

// SAFETY: plain numbers.
unsafe impl Zeroable for Settings {}
// SAFETY: plain numbers without padding.
unsafe impl Pod for Settings {}

/// What the callbacks see of a [`Problem`].
#[derive(Debug)]
pub struct View<'a, V: Value> {
    offsets: &'a [u64],
    targets: &'a [u32],
    values: &'a [V::Atomic],
}

/// Asynchronous BFS: pushes levels along arcs, in no particular order.
#[derive(Debug)]
pub struct BfsProgram<V> {
    /// First vertex of each device, and the number of vertices at the end.
    boundaries: Vec<u32>,
    depth_limit: u32,
    halo_filter: bool,
    value: PhantomData<V>,
}

impl<V> BfsProgram<V> {
    pub(crate) fn new(boundaries: Vec<u32>, depth_limit: u32, halo_filter: bool) -> BfsProgram<V> {
        BfsProgram { boundaries, depth_limit, halo_filter, value: PhantomData }
    }

    pub(crate) fn boundaries(&self) -> &[u32] {
        &self.boundaries
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings { depth_limit: self.depth_limit, halo_filter: self.halo_filter.into() }
    }

    pub(crate) fn owner_of(&self, vertex: u32) -> usize {
        // Empty parts have equal boundaries: the last that starts here owns it.
        self.boundaries.partition_point(|&start| start <= vertex).saturating_sub(1)
    }
}

impl<V: Value> Program for BfsProgram<V> {
    type Packet = Packet<V>;
    type Problem = Problem<V>;
    type Signature =
        (Read<u64>, Read<u32>, Shared<V>, Read<u32>, millstream_device::Value<Settings>);
    type View<'a> = View<'a, V>;

    fn bind(
        problem: &Problem<V>,
        accesses: &mut Accesses,
    ) -> Result<<Self::Signature as Parameter>::Bound> {
        let Problem { offsets, targets, values, boundaries, settings } = problem;
        let arguments = (&**offsets, &**targets, values, boundaries, *settings);
        Argument::<Self::Signature>::bind(arguments, accesses)
    }

    fn view(
        (offsets, targets, values, ..): <Self::Signature as Parameter>::View<'_>,
    ) -> View<'_, V> {
        View { offsets, targets, values }
    }

    fn pack(&self, view: &View<'_, V>, _: &Here, vertex: u32) -> Packet<V> {
        Packet { value: V::get(&view.values[vertex as usize]), vertex, padding: Zeroable::zeroed() }
    }

    fn unpack(&self, _: &View<'_, V>, _: &Here, packet: &Packet<V>) -> u32 {
        packet.vertex
    }

    fn on_send(&self, _: &View<'_, V>, here: &Here, vertex: u32) -> Flags {
        if self.owner_of(vertex) == here.device { Flags::Keep } else { Flags::Pass }
    }

    fn on_receive(&self, view: &View<'_, V>, here: &Here, packet: &Packet<V>) -> Flags {
        let before = V::lower(&view.values[packet.vertex as usize], packet.value);
        let improved = packet.value.level() < before.level();
        match self.owner_of(packet.vertex) == here.device {
            true if improved => Flags::Keep,
            true => Flags::Drop,
            // The halo copy says that a better value has gone this way.
            false if improved || !self.halo_filter => Flags::Pass,
            false => Flags::Drop,
        }
    }

    fn priority(&self, view: &View<'_, V>, vertex: u32) -> u32 {
        V::get(&view.values[vertex as usize]).level()
    }

    fn cuda() -> Option<CudaProgram> {
        let text = include_str!("bfs.cuh");
        Some(CudaProgram { file: "bfs.cuh", text, class: V::CUDA_CLASS })
    }

    fn owner(&self, vertex: u32) -> Option<usize> {
        Some(self.owner_of(vertex))
    }

    fn process(
        &self,
        view: &View<'_, V>,
        here: &Here,
        vertex: u32,
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    ) {
        let level = V::get(&view.values[vertex as usize]).level();
        if level >= self.depth_limit {
            return;
        }
        let owned = self.boundaries[here.device]..self.boundaries[here.device + 1];
        let row = (vertex - owned.start) as usize;
        let arcs = view.offsets[row] as usize..view.offsets[row + 1] as usize;
        let value = V::new(level + 1, vertex);
        for &target in &view.targets[arcs] {
            let before = V::lower(&view.values[target as usize], value);
            if value.level() < before.level() {
                emit(target);
            } else if !owned.contains(&target) {
                if self.halo_filter {
                    *filtered += 1;
                } else {
                    emit(target);
                }
            }
        }
    }
}

/// The CUDA C++ of every kind of search, to be compiled without running it.
pub fn cuda_sources() -> Vec<CudaSource> {
    fn source<V: Value>() -> Option<CudaSource> {
        BfsProgram::<V>::cuda().map(|cuda| cuda.kernel::<BfsProgram<V>>("process"))
    }
    source::<u32>().into_iter().chain(source::<u64>()).collect()
}
