//! Builds rows from arcs that can be enumerated twice: a parallel counting sort by source, which
//! never holds a list of the arcs.
//!
//! The first pass counts the arcs of each source, the second scatters them to
//! their places; then each row is sorted. Beside the graph itself nothing is
//! allocated, so a generator of arcs needs no more memory than its graph.

use std::mem::size_of_val;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytemuck::Zeroable;
use bytemuck::allocation::{cast_vec, try_zeroed_vec};
use rayon::prelude::*;

use crate::pieces::InPieces;
use crate::rows::{remove_duplicates, sort_rows_by_target};
use crate::{CsrGraph, GraphError, Weights};

/// Arcs in chunks, the same ones each time a chunk is gone through.
///
/// ```
/// use millstream_graph::build::{ArcSource, Duplicates, from_arcs};
///
/// /// The cycle 0 → 1 → ... → 0.
/// struct Cycle(u32);
///
/// impl ArcSource for Cycle {
///     type Weight = ();
///     fn chunks(&self) -> usize {
///         1
///     }
///     fn for_each(&self, _chunk: usize, mut emit: impl FnMut(u32, u32, ())) {
///         (0..self.0).for_each(|vertex| emit(vertex, (vertex + 1) % self.0, ()));
///     }
/// }
///
/// let graph = from_arcs(4, &Cycle(4), Duplicates::Keep)?;
/// assert_eq!(graph.targets(), &[1, 2, 3, 0]);
/// # Ok::<(), millstream_graph::GraphError>(())
/// ```
pub trait ArcSource: Sync {
    /// The type of the arcs' weights: `u32`, `f32`, or `()`.
    type Weight: ArcWeight;

    /// Number of chunks, which are enumerated in parallel.
    fn chunks(&self) -> usize;

    /// Calls `emit(source, target, weight)` for each arc of `chunk`.
    fn for_each(&self, chunk: usize, emit: impl FnMut(u32, u32, Self::Weight));
}

/// A weight that rows can be sorted by. Implemented for `u32`, `f32` and `()`.
pub trait ArcWeight: Copy + Send + Sync + 'static + private::Sealed {
    /// Whether weights are stored.
    const STORED: bool;

    /// Bits that are ordered as the weights are.
    fn to_key(self) -> u32;

    /// The weight with these bits.
    fn from_key(key: u32) -> Self;

    /// The weights with these bits.
    fn from_keys(keys: Vec<u32>) -> Option<Weights>;
}

mod private {
    pub trait Sealed {}
    impl Sealed for () {}
    impl Sealed for u32 {}
    impl Sealed for f32 {}
}

impl ArcWeight for () {
    const STORED: bool = false;

    fn to_key(self) -> u32 {
        0
    }

    fn from_key(_: u32) {}

    fn from_keys(_: Vec<u32>) -> Option<Weights> {
        None
    }
}

impl ArcWeight for u32 {
    const STORED: bool = true;

    fn to_key(self) -> u32 {
        self
    }

    fn from_key(key: u32) -> u32 {
        key
    }

    fn from_keys(keys: Vec<u32>) -> Option<Weights> {
        Some(Weights::Integer(keys))
    }
}

const SIGN: u32 = 1 << 31;

impl ArcWeight for f32 {
    const STORED: bool = true;

    fn to_key(self) -> u32 {
        let bits = self.to_bits();
        if bits & SIGN == 0 { bits | SIGN } else { !bits }
    }

    fn from_key(key: u32) -> f32 {
        f32::from_bits(if key & SIGN == 0 { !key } else { key ^ SIGN })
    }

    fn from_keys(mut keys: Vec<u32>) -> Option<Weights> {
        keys.par_iter_mut().in_pieces().for_each(|key| *key = f32::from_key(*key).to_bits());
        Some(Weights::Real(cast_vec(keys)))
    }
}

/// What to do with several arcs between the same two vertices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// Store all of them.
    #[default]
    Keep,
    /// Store the lightest of them.
    KeepLightest,
}

/// Builds the graph of the arcs that `for_each(chunk, emit)` emits for each of
/// `chunks` chunks. It is called twice a chunk, in parallel, and must emit the
/// same arcs both times. For speed, or to drop duplicates, see [`from_arcs`].
///
/// # Errors
/// An arc that names a vertex of `vertices` or more, a weight that is not
/// finite, or a second pass unlike the first.
pub fn from_arc_chunks<W: ArcWeight>(
    vertices: u32,
    chunks: usize,
    for_each: impl Fn(usize, &mut dyn FnMut(u32, u32, W)) + Sync,
) -> Result<CsrGraph, GraphError> {
    from_arcs(
        vertices,
        &Chunks { chunks, for_each, weight: std::marker::PhantomData },
        Duplicates::Keep,
    )
}

struct Chunks<F, W> {
    chunks: usize,
    for_each: F,
    weight: std::marker::PhantomData<W>,
}

impl<W: ArcWeight, F: Fn(usize, &mut dyn FnMut(u32, u32, W)) + Sync> ArcSource for Chunks<F, W> {
    type Weight = W;

    fn chunks(&self) -> usize {
        self.chunks
    }

    fn for_each(&self, chunk: usize, mut emit: impl FnMut(u32, u32, W)) {
        (self.for_each)(chunk, &mut emit);
    }
}

/// Builds the graph of all arcs of `source`, each row in ascending order of
/// target, then weight: the same graph whatever the chunks and the threads.
///
/// # Errors
/// An arc that names a vertex of `vertices` or more, a weight that is not
/// finite, or a second pass unlike the first.
pub fn from_arcs<S: ArcSource>(
    vertices: u32,
    source: &S,
    duplicates: Duplicates,
) -> Result<CsrGraph, GraphError> {
    let mut offsets = zeroed::<u64>(u64::from(vertices) + 1)?;
    count(source, vertices, as_atomic(&mut offsets[1..]))
        .map_err(|()| first_fault(source, vertices))?;
    let mut arcs = 0;
    for offset in &mut offsets[1..] {
        // The place where the row begins; scattering moves it on, to the row's end.
        arcs += std::mem::replace(offset, arcs);
    }
    let expected =
        fingerprint(offsets.iter().skip(2).copied().chain([arcs]).take(vertices as usize));
    let mut targets = zeroed::<u32>(arcs)?;
    let mut keys = zeroed::<u32>(if S::Weight::STORED { arcs } else { 0 })?;
    scatter(source, as_atomic(&mut offsets[1..]), as_atomic(&mut targets), as_atomic(&mut keys))?;
    // Each row ends where the next one began.
    if fingerprint(offsets[1..].iter().copied()) != expected {
        return Err(GraphError::ArcsChanged);
    }
    sort_rows_by_target(&offsets, &mut targets, &mut keys);
    if duplicates == Duplicates::KeepLightest {
        remove_duplicates(&mut offsets, &mut targets, &mut keys);
    }
    CsrGraph::from_csr(offsets, targets, S::Weight::from_keys(keys))
}

/// A number that other row ends share by accident with a probability of 1 in 2^64.
fn fingerprint(ends: impl Iterator<Item = u64>) -> u64 {
    // FNV-1a, one word at a time.
    ends.fold(0xcbf2_9ce4_8422_2325, |hash, end| (hash ^ end).wrapping_mul(0x100_0000_01b3))
}

/// How many arcs later a thread needs what it has asked memory for. Rows lie anywhere: without asking, each atomic
/// addition would wait for its row, and for all stores before it.
const AHEAD: usize = 16;

/// What is on its way through a loop: comes out when [`AHEAD`] more have gone in.
struct Delayed<T> {
    items: [Option<T>; AHEAD],
    oldest: usize,
}

impl<T: Copy> Delayed<T> {
    fn new() -> Delayed<T> {
        Delayed { items: [None; AHEAD], oldest: 0 }
    }

    /// Takes one in, and gives the oldest out.
    fn pass(&mut self, item: Option<T>) -> Option<T> {
        let place = self.oldest % AHEAD;
        self.oldest = place + 1;
        std::mem::replace(&mut self.items[place], item)
    }
}

/// Asks memory for a cell that is to be changed.
fn ask_for<T>(cell: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a hint, which neither reads nor writes what a program can see; processors without it do nothing.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(cell).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = cell;
}

/// Raises `degrees[source]` for each arc; fails if one is out of range.
fn count<'a, S: ArcSource>(source: &S, vertices: u32, degrees: &'a [AtomicU64]) -> Result<(), ()> {
    (0..source.chunks()).into_par_iter().try_for_each(|chunk| {
        let mut in_range = true;
        let mut delayed = Delayed::new();
        let mut raise = |degree: Option<&'a AtomicU64>| {
            if let Some(degree) = delayed.pass(degree) {
                // Relaxed: the end of the parallel loop orders the counts.
                degree.fetch_add(1, Ordering::Relaxed);
            }
        };
        source.for_each(chunk, |from, to, _| match degrees.get(from as usize) {
            Some(degree) if to < vertices => {
                ask_for(degree);
                raise(Some(degree));
            }
            _ => in_range = false,
        });
        (0..AHEAD).for_each(|_| raise(None));
        in_range.then_some(()).ok_or(())
    })
}

/// Puts each arc into its source's next place, and moves that place on.
fn scatter<'a, S: ArcSource>(
    source: &S,
    places: &'a [AtomicU64],
    targets: &[AtomicU32],
    keys: &[AtomicU32],
) -> Result<(), GraphError> {
    (0..source.chunks()).into_par_iter().try_for_each(|chunk| {
        let (mut is_known, mut has_place) = (true, true);
        let (mut before_places, mut before_stores) = (Delayed::new(), Delayed::new());
        let mut put = |arc: Option<(&'a AtomicU64, u32, S::Weight)>| {
            let placed = before_places.pass(arc).and_then(|(place, to, weight)| {
                // Relaxed, here and below: each place is taken by one arc only, and read after the
                // parallel loop has ended.
                let place = place.fetch_add(1, Ordering::Relaxed) as usize;
                let Some(target) = targets.get(place) else {
                    has_place = false;
                    return None;
                };
                ask_for(target);
                if S::Weight::STORED {
                    ask_for(&keys[place]);
                }
                Some((target, place, to, weight))
            });
            if let Some((target, place, to, weight)) = before_stores.pass(placed) {
                target.store(to, Ordering::Relaxed);
                if S::Weight::STORED {
                    keys[place].store(weight.to_key(), Ordering::Relaxed);
                }
            }
        };
        source.for_each(chunk, |from, to, weight| match places.get(from as usize) {
            Some(place) if (to as usize) < places.len() => {
                ask_for(place);
                put(Some((place, to, weight)));
            }
            _ => is_known = false,
        });
        (0..2 * AHEAD).for_each(|_| put(None));
        (is_known && has_place).then_some(()).ok_or(GraphError::ArcsChanged)
    })
}

/// The first arc, in the order of chunks, with an end that is not a vertex.
fn first_fault<S: ArcSource>(source: &S, vertices: u32) -> GraphError {
    let (mut arc, mut fault) = (0, None);
    for chunk in 0..source.chunks() {
        source.for_each(chunk, |from, to, _| {
            let vertex = from.max(to);
            if vertex >= vertices && fault.is_none() {
                let vertices = u64::from(vertices);
                fault = Some(GraphError::VertexOutOfRange { arc, vertex, vertices });
            }
            arc += 1;
        });
    }
    fault.unwrap_or(GraphError::ArcsChanged)
}

/// The length may be absurd: then the caller gets an error, instead of the process being killed.
/// The system provides zeroed pages to whichever thread touches them first, so that all threads
/// share that work.
pub(crate) fn zeroed<T: Zeroable>(length: u64) -> Result<Vec<T>, GraphError> {
    let out_of_memory =
        |()| GraphError::OutOfMemory { bytes: length.saturating_mul(size_of::<T>() as u64) };
    let count = usize::try_from(length).unwrap_or(usize::MAX);
    try_zeroed_vec(count).map_err(out_of_memory)
}

/// Integers that can be viewed as atomics.
pub(crate) trait Atomic {
    type View;
}

impl Atomic for u32 {
    type View = AtomicU32;
}

impl Atomic for u64 {
    type View = AtomicU64;
}

/// The cells, for several threads.
pub(crate) fn as_atomic<T: Atomic>(cells: &mut [T]) -> &[T::View] {
    let bytes = size_of_val(cells);
    // SAFETY: an atomic integer has the size, the representation and, on 64-bit
    // targets, the alignment of its integer; the exclusive borrow lasts as long
    // as the view, so nobody accesses the cells in another way.
    let view: &[T::View] =
        unsafe { std::slice::from_raw_parts(cells.as_mut_ptr().cast(), cells.len()) };
    debug_assert_eq!(size_of_val(view), bytes);
    view
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use proptest::prelude::*;

    use super::*;

    fn build<W: ArcWeight>(vertices: u32, arcs: &[(u32, u32, W)], chunk: usize) -> CsrGraph {
        let chunks: Vec<_> = arcs.chunks(chunk).collect();
        let emit_chunk = |chunk: usize, emit: &mut dyn FnMut(u32, u32, W)| {
            chunks[chunk].iter().for_each(|&(source, target, weight)| emit(source, target, weight));
        };
        from_arc_chunks(vertices, chunks.len(), emit_chunk).unwrap()
    }

    #[test]
    fn keys_keep_the_order_of_reals() {
        let weights = [-f32::MAX, -1.5, -0.0, 0.0, f32::MIN_POSITIVE, 2.0, f32::MAX];
        let keys = weights.map(ArcWeight::to_key);
        assert!(keys.is_sorted());
        let Some(Weights::Real(back)) = f32::from_keys(keys.to_vec()) else { unreachable!() };
        assert_eq!(back.map_bits(), weights.to_vec().map_bits());
    }

    trait MapBits {
        fn map_bits(self) -> Vec<u32>;
    }

    impl MapBits for Vec<f32> {
        fn map_bits(self) -> Vec<u32> {
            self.into_iter().map(f32::to_bits).collect()
        }
    }

    #[test]
    fn arcs_out_of_range_are_named() {
        let arcs = [(0, 1), (1, 0), (1, 3)];
        let emit = |chunk: usize, emit: &mut dyn FnMut(u32, u32, ())| {
            emit(arcs[chunk].0, arcs[chunk].1, ());
        };
        let fault = GraphError::VertexOutOfRange { arc: 2, vertex: 3, vertices: 3 };
        assert_eq!(from_arc_chunks(3, 3, emit).unwrap_err(), fault);
    }

    #[test]
    fn a_second_pass_unlike_the_first_is_an_error() {
        let passes = AtomicUsize::new(0);
        let emit = |_, emit: &mut dyn FnMut(u32, u32, ())| {
            let pass = passes.fetch_add(1, Ordering::Relaxed) as u32;
            emit(pass, 0, ());
        };
        assert_eq!(from_arc_chunks(2, 1, emit).unwrap_err(), GraphError::ArcsChanged);
    }

    #[test]
    fn a_pass_that_gives_the_arcs_of_one_row_to_another_is_found() {
        let passes = AtomicUsize::new(0);
        let emit = |_: usize, emit: &mut dyn FnMut(u32, u32, ())| {
            let is_first = passes.fetch_add(1, Ordering::Relaxed) == 0;
            let rows = if is_first { [2, 2, 2] } else { [3, 1, 2] };
            for (from, arcs) in rows.into_iter().enumerate() {
                (0..arcs).for_each(|_| emit(from as u32, 2, ()));
            }
        };
        assert_eq!(from_arc_chunks(3, 1, emit).unwrap_err(), GraphError::ArcsChanged);
    }

    #[test]
    fn weights_that_are_no_numbers_are_errors() {
        let emit = |_, emit: &mut dyn FnMut(u32, u32, f32)| emit(0, 0, f32::NAN);
        let fault = GraphError::WeightNotFinite { arc: 0 };
        assert_eq!(from_arc_chunks(1, 1, emit).unwrap_err(), fault);
    }

    proptest! {
        #[test]
        fn rows_are_the_sorted_arcs(
            mut arcs in proptest::collection::vec((0u32..20, 0u32..20, 0u32..5), 0..200),
            chunk in 1usize..50,
        ) {
            let graph = build(20, &arcs, chunk);
            arcs.sort_unstable();
            let targets: Vec<u32> = arcs.iter().map(|arc| arc.1).collect();
            let weights = Weights::Integer(arcs.iter().map(|arc| arc.2).collect());
            prop_assert_eq!(graph.targets(), &targets[..]);
            prop_assert_eq!(graph.weights(), Some(&weights));
            for vertex in 0..20 {
                let start = arcs.partition_point(|arc| arc.0 < vertex) as u64;
                prop_assert_eq!(graph.offsets()[vertex as usize], start);
            }
        }

        #[test]
        fn the_lightest_of_duplicates_stays(
            arcs in proptest::collection::vec((0u32..5, 0u32..5, -2i8..3), 0..100),
        ) {
            struct Arcs(Vec<(u32, u32, i8)>);
            impl ArcSource for Arcs {
                type Weight = f32;
                fn chunks(&self) -> usize {
                    1
                }
                fn for_each(&self, _: usize, mut emit: impl FnMut(u32, u32, f32)) {
                    self.0.iter().for_each(|&(from, to, weight)| emit(from, to, weight.into()));
                }
            }
            let mut expected = std::collections::BTreeMap::new();
            for &(from, to, weight) in &arcs {
                let lightest = expected.entry((from, to)).or_insert(weight);
                *lightest = weight.min(*lightest);
            }
            let graph = from_arcs(5, &Arcs(arcs), Duplicates::KeepLightest).unwrap();
            let targets: Vec<u32> = expected.keys().map(|arc| arc.1).collect();
            let weights = expected.values().map(|&weight| weight.into()).collect();
            prop_assert_eq!(graph.targets(), &targets[..]);
            prop_assert_eq!(graph.weights(), Some(&Weights::Real(weights)));
        }
    }
}
