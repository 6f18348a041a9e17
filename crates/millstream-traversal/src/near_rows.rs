//! Rows of a graph with few arcs a vertex, packed into 32 bytes each, or 16 without weights, so
//! that one access brings them: what a search by near and far piles reads (`NEAR_FAR.md`).

use std::ops::Range;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use millstream_device::{DeviceBuffer, SharedBuffer};
use millstream_graph::pieces::InPieces;
use millstream_graph::{CsrGraph, Partition, Weights};
use parking_lot::Mutex;
use rayon::prelude::*;

use crate::beside::beside;
use crate::halo::Halos;
use crate::halo_shape::{HaloShape, exports};
use crate::meeting::can_meet;
use crate::pack_near_rows::{PackSettings, pack_kernel};
use crate::relaxation::Rule;
use crate::row_width::RowWidth;
use crate::survey::Survey;
use crate::{DistributedGraph, Layout, LayoutKind, Part, Result, Unsuitable};

/// Targets that a row has room for: `NearRow::most` in `near_row.cuh`.
pub(crate) const MOST: usize = 4;

/// Words of a row.
pub(crate) const fn row_words<R: Rule>() -> usize {
    if R::WEIGHS { 2 * MOST } else { MOST }
}

/// Targets are smaller than this; larger words have a special meaning.
pub(crate) const SPECIAL: u32 = 1 << 31;
/// Fills the places of a row that have no target.
pub(crate) const NONE: u32 = u32::MAX;
/// In the first and the last place of a row that has more targets than there is room for.
pub(crate) const IS_LONG: u32 = u32::MAX - 1;
/// Halos fewer arcs deep than this belong to parts that touch nearly everywhere: paths cross between parts
/// all the time, and devices must meet each time.
const DEEP: u32 = 4;

/// The packed rows of a graph: each GPU has those of its part and its halo; of host devices the first
/// one has all rows.
#[derive(Debug)]
pub struct NearRows {
    devices: Vec<DeviceRows>,
    width: RowWidth,
    depth: u32,
    time: Duration,
    too_wide: Mutex<Vec<TooWide>>,
}

/// A search in which too many vertices had to wait: how many there was room for, and the bits of its
/// threshold's step. A search with no more room and no smaller step is too wide as well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooWide {
    pub(crate) waiting: usize,
    pub(crate) delta: u32,
}

/// The rows of one device. Vertices are named by place: owned vertices first, then the halo.
#[derive(Debug)]
pub(crate) struct DeviceRows {
    /// [`row_words`] words for each vertex.
    pub(crate) rows: SharedBuffer<u32>,
    /// Targets and weights of the long rows.
    pub(crate) long_targets: SharedBuffer<u32>,
    pub(crate) long_weights: SharedBuffer<u32>,
    /// New ids of the halo's vertices, in ascending order.
    pub(crate) halo: Vec<u32>,
    pub(crate) halo_ids: DeviceBuffer<u32>,
    /// Owned vertices that lie in other devices' halos, in the layout of `NearFarExchange`.
    pub(crate) exports: DeviceBuffer<u32>,
    pub(crate) shape: HaloShape,
}

impl NearRows {
    /// Packs the rows of `graph`, whose weights are those of the rule, on the devices that have it as
    /// `distributed`. Or says why not: devices [cannot meet](can_meet); rows have no
    /// [width](RowWidth::of); the graph, or a part with its halo, has 2^31 vertices or more, or the graph
    /// has wide rows and 2^31 arcs or more; on several GPUs, the graph is not symmetric, or parts have too
    /// many neighbours for [`Halos`]; or a device has no room (an error if the rows are `needed`, since
    /// this search was asked for).
    ///
    /// # Errors
    /// A device failed, or has no room for rows that are `needed`; a kernel that does not compile.
    ///
    /// # Cancel safety
    /// Cancel safe: what was packed is dropped.
    ///
    /// # Device ordering
    /// When it resolves, the rows are in the devices' memory.
    pub async fn new<R: Rule>(
        graph: &CsrGraph,
        distributed: &DistributedGraph,
        width: Option<RowWidth>,
        needed: bool,
    ) -> Result<Result<NearRows, Unsuitable>> {
        if !can_meet(distributed.context()) {
            return Ok(Err(Unsuitable::Devices));
        }
        let Some(width) = width else {
            return Ok(Err(Unsuitable::Degrees));
        };
        let have_halos = distributed.context().all_gpus() && distributed.parts().len() > 1;
        match NearRows::packed::<R>(graph, distributed, width, have_halos).await {
            Err(error) if error.is_out_of_memory() && !needed => Ok(Err(Unsuitable::Memory)),
            packed => packed,
        }
    }

    async fn packed<R: Rule>(
        graph: &CsrGraph,
        distributed: &DistributedGraph,
        width: RowWidth,
        have_halos: bool,
    ) -> Result<Result<NearRows, Unsuitable>> {
        let start = Instant::now();
        let partition = distributed.partition();
        let halos = match have_halos {
            false => Some(Halos::of_one()),
            true if !Survey::of_structure(distributed).await?.is_symmetric => {
                return Ok(Err(Unsuitable::Directed));
            }
            true => Halos::new(graph, partition, beside(distributed).await?, width.halo_depth()),
        };
        let parts_of = |place| if have_halos { place..place + 1 } else { 0..partition.parts() };
        let are_places = |halos: &Halos| {
            let near = |(place, halo): (usize, &Vec<u32>)| {
                owned(partition, &parts_of(place)).len() + halo.len()
            };
            // With the least width, long rows are few and at most 32 arcs long: together they have at most
            // as many arcs as there are vertices.
            let are_many_long = width != RowWidth::Four;
            // One device may have the whole graph.
            graph.vertices() < SPECIAL
                && !(are_many_long && graph.arcs() >= u64::from(SPECIAL))
                && halos.of.iter().enumerate().map(near).all(|near| near < SPECIAL as usize)
        };
        let halos = match halos {
            None => return Ok(Err(Unsuitable::Parts)),
            Some(halos) if !are_places(&halos) => return Ok(Err(Unsuitable::Vertices)),
            Some(halos) => halos,
        };
        let mut devices = Vec::new();
        for place in 0..halos.of.len() {
            let parts = parts_of(place);
            devices.push(DeviceRows::new::<R>(graph, distributed, &halos, parts).await?);
        }
        let (depth, too_wide) = (halos.depth, Mutex::default());
        Ok(Ok(NearRows { devices, width, depth, time: start.elapsed(), too_wide }))
    }

    /// Whether halos are deep enough for devices to meet seldom: then near and far piles are worth it.
    pub fn meet_seldom(&self) -> bool {
        self.depth >= DEEP
    }

    /// How many arcs of a row a GPU visits at once.
    pub fn width(&self) -> RowWidth {
        self.width
    }

    /// Whether an earlier search with no less room and no larger step was too wide.
    pub(crate) fn are_too_wide(&self, its: TooWide) -> bool {
        let known = self.too_wide.lock();
        known.iter().any(|known| its.waiting <= known.waiting && its.delta >= known.delta)
    }

    /// Records that a search was too wide.
    pub(crate) fn set_too_wide(&self, its: TooWide) {
        self.too_wide.lock().push(its);
    }

    /// What they have cost.
    pub fn layout(&self) -> Layout {
        let words = |its: &DeviceRows| {
            let long = its.long_targets.len() + its.long_weights.len();
            its.rows.len() + long + its.halo.len() + its.exports.len()
        };
        let bytes = (self.devices.iter().map(words).sum::<usize>() * size_of::<u32>()) as u64;
        Layout { kind: LayoutKind::PackedRows, bytes, time: self.time }
    }

    /// The rows of the device at `place`.
    pub(crate) fn of(&self, place: usize) -> &DeviceRows {
        &self.devices[place]
    }
}

impl DeviceRows {
    /// Packs the rows of some parts, and of the halo, into memory of the first part's device.
    async fn new<R: Rule>(
        graph: &CsrGraph,
        distributed: &DistributedGraph,
        halos: &Halos,
        parts: Range<usize>,
    ) -> Result<DeviceRows> {
        let partition = distributed.partition();
        let place = parts.start;
        let device = &distributed.context().devices()[place];
        let (own, halo) = (owned(partition, &parts), &halos.of[place]);
        let all = own.clone().into_par_iter().chain(halo.par_iter().copied()).in_pieces();
        let all = all.map(|vertex| partition.to_original(vertex));
        let long = all.filter(|&vertex| is_long(graph, vertex)).map(|vertex| graph.degree(vertex));
        let long = long.sum::<u64>() as usize;
        let long_targets = device.shared(long)?;
        let long_weights = device.shared(if R::WEIGHS { long } else { 0 })?;
        let rows = device.shared(row_words::<R>() * (own.len() + halo.len()))?;
        let long_arcs = device.shared(1)?;
        let packed = (&rows, &long_targets, &long_weights, &long_arcs);
        let kernel = pack_kernel::<R>();
        let settings = PackSettings { first: own.start, end: own.end, place: 0, padding: 0 };
        let stream = device.stream()?;
        let halo_ids = stream.lent(halo.clone())?;
        // The streams of all parts read `halo_ids`.
        stream.completed()?.await?;
        let mut completions = Vec::new();
        for place in parts {
            // Each part is packed by the device that has it.
            let device = &distributed.context().devices()[place];
            let stream = device.stream()?;
            let Part { offsets, targets, .. } = &distributed.parts()[place];
            let weights = R::weights_on(device, &distributed.parts()[place])?;
            let part = partition.range(place);
            let settings = PackSettings { place: part.start - own.start, ..settings };
            let arguments = (&**offsets, &**targets, &*weights, &halo_ids, packed, settings);
            kernel.launch(&stream, part.len(), arguments)?;
            completions.push(stream.completed()?);
        }
        let (offsets, targets, weights) = rows_of_halo::<R>(graph, partition, halo);
        let (offsets, targets) = (stream.lent(offsets)?, stream.lent(targets)?);
        let weights = stream.lent(weights)?;
        let settings = PackSettings { place: own.len() as u32, ..settings };
        let arguments = (&offsets, &targets, &weights, &halo_ids, packed, settings);
        kernel.launch(&stream, halo.len(), arguments)?;
        let (exports, shape) = exports(halos, partition, place);
        let exports = stream.lent(exports)?;
        completions.push(stream.completed()?);
        try_join_all(completions).await?;
        let halo = halo.clone();
        Ok(DeviceRows { rows, long_targets, long_weights, halo, halo_ids, exports, shape })
    }
}

/// The vertices of some parts.
fn owned(partition: &Partition, parts: &Range<usize>) -> Range<u32> {
    partition.boundaries()[parts.start]..partition.boundaries()[parts.end]
}

fn is_long(graph: &CsrGraph, vertex: u32) -> bool {
    graph.degree(vertex) > MOST as u64
}

/// Offsets, targets by new ids, and weights of the rows of a halo.
fn rows_of_halo<R: Rule>(
    graph: &CsrGraph,
    partition: &Partition,
    halo: &[u32],
) -> (Vec<u64>, Vec<u32>, Vec<R::Weight>) {
    let row = |vertex| graph.row(partition.to_original(vertex));
    let rows = halo.par_iter().copied().in_pieces();
    let arcs: Vec<usize> = rows.flat_map_iter(row).collect();
    let ends = halo.iter().scan(0, |end, &vertex| {
        *end += row(vertex).len() as u64;
        Some(*end)
    });
    let offsets = std::iter::once(0).chain(ends).collect();
    let arcs = arcs.par_iter().copied().in_pieces();
    let targets = arcs.clone().map(|arc| partition.to_new(graph.targets()[arc])).collect();
    let bits = |arc: usize| match graph.weights() {
        None => 0,
        Some(Weights::Integer(weights)) => weights[arc],
        Some(Weights::Real(weights)) => weights[arc].to_bits(),
    };
    let weights = arcs.map(|arc| bytemuck::cast(bits(arc))).collect();
    (offsets, targets, weights)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use millstream_device::Trusted;
    use millstream_flow::{Context, Devices};
    use millstream_graph::generate::{self, GenerateOptions};
    use std::sync::Arc;

    use millstream_graph::partition;
    use millstream_worklist::CudaProgram;

    use super::*;
    use crate::Columns;
    use crate::relaxation::Settings;

    /// A rule with integer weights.
    #[derive(Debug)]
    struct Weighted;

    impl Rule for Weighted {
        type Weight = u32;

        // SAFETY: a class of `distances.cuh`.
        const CLASS: Trusted<&'static str> = unsafe { Trusted::new("IntegerDistances") };
        const WEIGHS: bool = true;

        fn weights(part: &Part) -> Option<Arc<DeviceBuffer<u32>>> {
            part.weights.integers().cloned()
        }

        fn beyond(key: u32, weight: u32) -> u32 {
            key + weight
        }

        fn priority(key: u32, _: &Settings) -> u32 {
            key
        }

        fn cuda(_: bool) -> Trusted<CudaProgram> {
            unreachable!("host devices run no CUDA")
        }
    }

    /// A row: a vertex, and targets and weights of its arcs, in ascending order.
    type Row = (u32, Vec<(u32, u32)>);

    /// The rows that each device has packed (without halos, only the first one's), by the partition's ids.
    fn rows_of(graph: &CsrGraph, partition: Partition, have_halos: bool) -> Vec<Vec<Row>> {
        let devices = Devices::host(partition.parts());
        let context = Context::builder().devices(devices).build().unwrap();
        let gathered = context.block_on(async {
            let columns = Columns::Weighted;
            let distributed =
                DistributedGraph::new(&context, graph, partition, columns).await.unwrap();
            let near =
                NearRows::packed::<Weighted>(graph, &distributed, RowWidth::Four, have_halos).await;
            let near = near.unwrap().unwrap();
            let mut all = Vec::new();
            for (place, its) in near.devices.iter().enumerate() {
                let device = &context.devices()[place];
                let parts = if have_halos { place..place + 1 } else { 0..context.devices().len() };
                let own = owned(distributed.partition(), &parts);
                let stream = device.stream().unwrap();
                let download = |words: &SharedBuffer<u32>| {
                    stream.download_shared(words, 0..words.len()).unwrap()
                };
                let rows = download(&its.rows).await.unwrap();
                let long_targets = download(&its.long_targets).await.unwrap();
                let long_weights = download(&its.long_weights).await.unwrap();
                let id = |place: u32| match place.checked_sub(own.len() as u32) {
                    Some(place) => its.halo[place as usize],
                    None => own.start + place,
                };
                let ids = own.clone().chain(its.halo.iter().copied());
                let arcs = |row: &[u32]| {
                    let (targets, weights) = match row {
                        [IS_LONG, begin, arcs, ..] => {
                            let [begin, arcs] = [begin, arcs].map(|word| word - SPECIAL);
                            let its = begin as usize..(begin + arcs) as usize;
                            (&long_targets[its.clone()], &long_weights[its])
                        }
                        row => row.split_at(MOST),
                    };
                    let arcs = targets.iter().zip(weights).filter(|(target, _)| **target != NONE);
                    let mut arcs: Vec<_> =
                        arcs.map(|(&target, &weight)| (id(target), weight)).collect();
                    arcs.sort_unstable();
                    arcs
                };
                all.push(ids.zip(rows.chunks(2 * MOST)).map(|(id, row)| (id, arcs(row))).collect());
            }
            all
        });
        gathered.unwrap()
    }

    #[test]
    fn rows_have_their_arcs_also_if_they_are_long() {
        // Rows of 0 to 6 arcs.
        let arcs = (0..7).flat_map(|from| (0..from).map(move |to| (from, to, 10 * from + to)));
        let graph = CsrGraph::from_weighted_edges(7, &arcs.collect::<Vec<_>>()).unwrap();
        let expected =
            (0..7).map(|from| (from, (0..from).map(|to| (to, 10 * from + to)).collect()));
        let expected: Vec<_> = expected.collect();
        let one = partition::contiguous_blocks(&graph, 1);
        assert_eq!(rows_of(&graph, one, false), [expected]);
    }

    #[test]
    fn rows_of_several_parts_are_together() {
        // Long ones in several parts, and parts without vertices.
        let arcs = (0..40u32).flat_map(|from| {
            (0..from % 8).map(move |by| (from, (7 * from + by) % 40, 10 * from + by))
        });
        let graph = CsrGraph::from_weighted_edges(40, &arcs.collect::<Vec<_>>()).unwrap();
        let Some(Weights::Integer(weights)) = graph.weights() else { panic!("integers") };
        for ends in [[1, 2], [0, 2], [0, 1], [2, 3]] {
            let parts: Vec<u32> =
                (0..40).map(|vertex| ends[usize::from(vertex % 3 == 0)]).collect();
            let partition = Partition::from_parts(4, &parts).unwrap();
            let row = |new: u32| {
                let row = graph.row(partition.to_original(new));
                let arc = |arc: usize| (partition.to_new(graph.targets()[arc]), weights[arc]);
                let mut arcs: Vec<_> = row.map(arc).collect();
                arcs.sort_unstable();
                (new, arcs)
            };
            let expected: Vec<_> = (0..40).map(row).collect();
            assert_eq!(rows_of(&graph, partition.clone(), false), [expected], "{ends:?}");
        }
    }

    #[test]
    fn rows_of_a_halo_lead_to_nothing_farther() {
        let options = GenerateOptions { max_weight: Some(1000), ..GenerateOptions::default() };
        let road = generate::road(40, 40, generate::KEEP_PERMILLE, &options).unwrap();
        let Some(Weights::Integer(weights)) = road.weights() else { panic!("integers") };
        let parts: Vec<u32> = (0..1600).map(|vertex| vertex % 40 / 10).collect();
        for partition in
            [partition::contiguous_blocks(&road, 4), Partition::from_parts(4, &parts).unwrap()]
        {
            let halos = crate::halo::tests::halos(&road, &partition, 64).unwrap();
            for (place, rows) in rows_of(&road, partition.clone(), true).into_iter().enumerate() {
                let own = partition.range(place);
                assert_eq!(rows.len(), own.len() + halos.of[place].len());
                for (vertex, arcs) in rows {
                    let is_near =
                        |target: &u32| own.contains(target) || halos.of[place].contains(target);
                    let row = road.row(partition.to_original(vertex));
                    let expected =
                        row.map(|arc| (partition.to_new(road.targets()[arc]), weights[arc]));
                    let mut expected: Vec<_> =
                        expected.filter(|(target, _)| is_near(target)).collect();
                    expected.sort_unstable();
                    assert_eq!(arcs, expected, "vertex {vertex} on {place}");
                }
            }
        }
    }
}
