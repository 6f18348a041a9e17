//! Rows of a graph with few arcs a vertex, packed into 16 bytes each, so that one access
//! brings a whole row: what a search on GPUs reads while its frontiers are thin
//! (`LEVELS.md`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    CudaSource, Device, DeviceBuffer, Kernel, Read, Shared, SharedBuffer, Value,
};
use millstream_graph::{CsrGraph, Partition};
use millstream_traversal::{DistributedGraph, GangPlace, Halos, Part};
use rayon::prelude::*;

use crate::Result;
use crate::bfs::{Layout, LayoutKind};

/// Targets that a packed row has room for: `PackedRow::most` in `packed_rows.cuh`.
const MOST: usize = 4;
/// In the place of a target where there is none.
const NONE: u32 = u32::MAX;
/// In the first place: the row has more targets than there is room for.
const IS_LONG: u32 = u32::MAX - 1;
/// What a field of `block_tally.cuh` counts to.
const MOST_COUNTED: usize = 1 << 27;
/// Packing is worth it if at most one row in so many is long,
const ROWS_FOR_LONG: usize = 32;
/// and none longer than this: four threads read such a row.
const LONGEST: u64 = 32;
/// Levels between meetings from which on the meetings take less time than the levels.
const MANY_LEVELS: u32 = 8;
/// Vertices told of that a warp looks at together.
const WARP: usize = 32;

/// The packed rows of all devices.
#[derive(Debug)]
pub(crate) struct PackedRows {
    devices: Vec<DeviceRows>,
    /// Levels that devices search by themselves.
    depth: u32,
    /// How long packing has taken.
    time: Duration,
}

/// The rows of one device.
#[derive(Clone, Debug)]
pub(crate) struct DeviceRows {
    /// [`MOST`] words for each owned vertex, then for each of the halo.
    pub(crate) rows: SharedBuffer<u32>,
    /// Targets of rows that are long.
    pub(crate) long_targets: SharedBuffer<u32>,
    /// The halo's vertices, in ascending order.
    pub(crate) halo: Arc<[u32]>,
    /// Owned vertices that lie in the halos of others, as `NearRows` has them.
    pub(crate) exports: Arc<DeviceBuffer<u32>>,
    pub(crate) shape: HaloShape,
}

/// `HaloShape` of `level_halo.cuh`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct HaloShape {
    depth: u32,
    exports: [u32; GangPlace::MOST + 1],
    places: [u32; GangPlace::MOST],
}

/// `PackSettings` of `packed_rows.cuh`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct PackSettings {
    first: u32,
    end: u32,
    vertices: u32,
    place: u32,
}

impl PackedRows {
    /// Whether few rows are long, and none is very long.
    pub(crate) fn suit(graph: &CsrGraph) -> bool {
        let vertices = || (0..graph.vertices()).into_par_iter();
        let long = vertices().filter(|&vertex| is_long(graph, vertex)).count();
        long * ROWS_FOR_LONG <= graph.vertices() as usize
            && !vertices().any(|vertex| graph.degree(vertex) > LONGEST)
    }

    /// Packs the rows of `graph` and of `halos` on the devices that have it as
    /// `distributed`. `None` if there are several, and no halos, or too many vertices.
    pub(crate) async fn new(
        graph: &CsrGraph,
        distributed: &DistributedGraph,
    ) -> Result<Option<PackedRows>> {
        let start = Instant::now();
        let partition = distributed.partition();
        let halos = match partition.parts() {
            1 => Some(Halos::of_one()),
            _ if !graph.is_symmetric() => None,
            _ => Halos::new(graph, partition),
        };
        let Some(halos) = halos.filter(|halos| is_countable(partition, halos)) else {
            return Ok(None);
        };
        let mut devices = Vec::new();
        for place in 0..partition.parts() {
            devices.push(DeviceRows::new(graph, distributed, &halos, place).await?);
        }
        Ok(Some(PackedRows { devices, depth: halos.depth, time: start.elapsed() }))
    }

    /// The rows of the device at `place`.
    pub(crate) fn of(&self, place: usize) -> &DeviceRows {
        &self.devices[place]
    }

    /// Whether devices meet so seldom that thin levels take less time than without order.
    pub(crate) fn is_for_many_levels(&self) -> bool {
        self.depth >= MANY_LEVELS
    }

    /// What it has cost.
    pub(crate) fn layout(&self) -> Layout {
        let words = self
            .devices
            .iter()
            .map(|its| its.rows.len() + its.long_targets.len() + its.exports.len());
        Layout {
            kind: LayoutKind::PackedRows,
            bytes: (words.sum::<usize>() * size_of::<u32>()) as u64,
            time: self.time,
        }
    }
}

impl DeviceRows {
    /// Of a device whose rows are not packed.
    pub(crate) fn none(device: &Device) -> Result<DeviceRows> {
        Ok(DeviceRows {
            rows: device.shared(0)?,
            long_targets: device.shared(0)?,
            halo: Arc::default(),
            exports: Arc::new(device.buffer(0)?),
            shape: HaloShape::default(),
        })
    }

    /// Words of bits for a search: of the halo, and of exports.
    pub(crate) fn bits_words(&self) -> usize {
        self.halo.len().div_ceil(WARP) + self.exports.len() / WARP
    }

    /// Packs the rows of the device at `place`, which lie there, and of its halo.
    async fn new(
        graph: &CsrGraph,
        distributed: &DistributedGraph,
        halos: &Halos,
        place: usize,
    ) -> Result<DeviceRows> {
        let partition = distributed.partition();
        let device = &distributed.context().devices()[place];
        let stream = device.stream()?;
        let (own, halo) = (partition.range(place), &halos.of[place]);
        let (mut offsets, mut targets) = (vec![0], Vec::new());
        for &vertex in halo {
            targets.extend(Halos::neighbours(graph, partition, vertex));
            offsets.push(targets.len() as u64);
        }
        let all = own.clone().into_par_iter().chain(halo.par_iter().copied());
        let all = all.map(|vertex| partition.to_original(vertex));
        let long = all.filter(|&vertex| is_long(graph, vertex)).map(|vertex| graph.degree(vertex));
        let long_targets = device.shared(long.sum::<u64>() as usize)?;
        let rows = device.shared(MOST * (own.len() + halo.len()))?;
        let long_arcs = device.shared(1)?;
        let (exports, shape) = exports(halos, partition, place);
        let halo: Arc<[u32]> = halo.as_slice().into();
        let on_device = stream.uploaded(halo.to_vec())?;
        let exports = Arc::new(stream.uploaded(exports)?);
        let packed = (&rows, &long_targets, &long_arcs);
        let (first, end, vertices) = (own.start, own.end, partition.vertices());
        let Part { offsets: own_offsets, targets: own_targets, .. } = &distributed.parts()[place];
        let settings = PackSettings { first, end, vertices, place: 0 };
        let arguments = (&**own_offsets, &**own_targets, &on_device, packed, settings);
        PACK_ROWS.launch(&stream, own.len(), arguments)?;
        let (offsets, targets) = (stream.uploaded(offsets)?, stream.uploaded(targets)?);
        let settings = PackSettings { place: own.len() as u32, ..settings };
        PACK_ROWS.launch(
            &stream,
            halo.len(),
            (&offsets, &targets, &on_device, packed, settings),
        )?;
        stream.record()?.completed().await?;
        Ok(DeviceRows { rows, long_targets, halo, exports, shape })
    }
}

/// Whether a tally can count all that a device may find in a level, and marks of rows are no
/// vertices or places of halos.
fn is_countable(partition: &Partition, halos: &Halos) -> bool {
    let most_halo = halos.of.iter().map(Vec::len).max().unwrap_or(0);
    let all =
        (0..partition.parts()).map(|place| partition.range(place).len() + halos.of[place].len());
    partition.vertices() as usize + most_halo < IS_LONG as usize
        && (partition.parts() == 1 || all.max().unwrap_or(0) < MOST_COUNTED)
}

fn is_long(graph: &CsrGraph, vertex: u32) -> bool {
    graph.degree(vertex) > MOST as u64
}

/// What a device tells others of, and where it begins in their halos.
fn exports(halos: &Halos, partition: &Partition, place: usize) -> (Vec<u32>, HaloShape) {
    let mut shape = HaloShape { depth: halos.depth, ..HaloShape::default() };
    let mut exports = Vec::new();
    for (to, halo) in halos.of.iter().enumerate() {
        if to != place {
            let places = halos.places(to, partition.range(place));
            shape.places[to] = places.start as u32;
            exports.extend_from_slice(&halo[places]);
            exports.resize(exports.len().next_multiple_of(WARP), NONE);
        }
        shape.exports[to + 1] = exports.len() as u32;
    }
    (exports, shape)
}

type PackSignature =
    (Read<u64>, Read<u32>, Read<u32>, (Shared<u32>, Shared<u32>, Shared<u32>), Value<PackSettings>);

static PACK_ROWS: Kernel<PackSignature> = Kernel::with_source(
    "pack_rows",
    cuda_source(),
    |grid, (offsets, targets, halo, (rows, long_targets, long_arcs), settings)| {
        let PackSettings { first, end, vertices, place } = settings;
        let near_id = |target: &u32| match (first..end).contains(target) {
            true => Some(*target),
            false => halo.binary_search(target).ok().map(|place| vertices + place as u32),
        };
        // The kernel's end publishes all stores.
        let store = |words: &[AtomicU32], values: &[u32]| {
            words.iter().zip(values).for_each(|(word, &value)| word.store(value, Ordering::Relaxed))
        };
        grid.for_each_block(|block| {
            for row in block.range {
                let its = &targets[offsets[row] as usize..offsets[row + 1] as usize];
                let mut its: Vec<u32> = its.iter().filter_map(near_id).collect();
                if its.len() > MOST {
                    let arcs = its.len() as u32;
                    let begin = long_arcs[0].fetch_add(arcs, Ordering::Relaxed);
                    store(&long_targets[begin as usize..], &its);
                    its = vec![IS_LONG, begin, arcs];
                }
                its.resize(MOST, NONE);
                store(&rows[MOST * (place as usize + row)..], &its);
            }
            Ok(())
        })
    },
);

pub(crate) const fn cuda_source() -> CudaSource {
    CudaSource::new("packed_rows.cuh", "pack_rows", include_str!("packed_rows.cuh"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use millstream_flow::{Context, Devices};
    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::partition;
    use millstream_traversal::Columns;

    use super::*;

    /// What each device's packed rows say, by the ids of their vertices in the partition.
    fn rows_of(graph: &CsrGraph, partition: Partition) -> Vec<Vec<(u32, Vec<u32>)>> {
        let devices = Devices::host(partition.parts());
        let context = Context::builder().devices(devices).build().unwrap();
        let gathered = context.block_on(async {
            let columns = Columns::Structure;
            let distributed =
                DistributedGraph::new(&context, graph, partition, columns).await.unwrap();
            let packed = PackedRows::new(graph, &distributed).await.unwrap().unwrap();
            let partition = distributed.partition();
            let mut all = Vec::new();
            for (place, device) in context.devices().iter().enumerate() {
                let its = packed.of(place);
                let stream = device.stream().unwrap();
                let download = |words: &SharedBuffer<u32>| {
                    stream.download_shared(words, 0..words.len()).unwrap()
                };
                let rows = download(&its.rows).await.unwrap();
                let long_targets = download(&its.long_targets).await.unwrap();
                let halo = &its.halo;
                let vertex = |id: u32| match id.checked_sub(partition.vertices()) {
                    Some(place) => halo[place as usize],
                    None => id,
                };
                let ids = partition.range(place).chain(halo.iter().copied());
                all.push(
                    ids.zip(rows.chunks(MOST))
                        .map(|(id, row)| {
                            let targets = match row {
                                [IS_LONG, begin, arcs, _] => {
                                    &long_targets[*begin as usize..][..*arcs as usize]
                                }
                                row => row,
                            };
                            let targets = targets.iter().filter(|&&target| target != NONE);
                            (id, targets.map(|&target| vertex(target)).collect())
                        })
                        .collect(),
                );
            }
            all
        });
        gathered.unwrap()
    }

    #[test]
    fn rows_have_their_targets_also_if_they_are_long() {
        // Rows of 0 to 6 arcs.
        let arcs: Vec<_> = (0..7).flat_map(|from| (0..from).map(move |to| (from, to))).collect();
        let graph = CsrGraph::from_edges(7, &arcs).unwrap();
        let rows = rows_of(&graph, partition::contiguous_blocks(&graph, 1));
        let expected = (0..7).map(|vertex| (vertex, graph.neighbors(vertex).to_vec()));
        assert_eq!(rows, [expected.collect::<Vec<_>>()]);
    }

    #[test]
    fn rows_of_a_halo_lead_to_nothing_farther() {
        let options = GenerateOptions::default();
        let road = generate::road(40, 40, generate::KEEP_PERMILLE, &options).unwrap();
        let parts: Vec<u32> = (0..1600).map(|vertex| vertex % 40 / 10).collect();
        for partition in
            [partition::contiguous_blocks(&road, 4), Partition::from_parts(4, &parts).unwrap()]
        {
            let halos = Halos::new(&road, &partition).unwrap();
            for (place, rows) in rows_of(&road, partition.clone()).into_iter().enumerate() {
                let own = partition.range(place);
                assert_eq!(rows.len(), own.len() + halos.of[place].len());
                for (vertex, targets) in rows {
                    let is_near =
                        |target: &u32| own.contains(target) || halos.of[place].contains(target);
                    let mut expected: Vec<_> =
                        Halos::neighbours(&road, &partition, vertex).filter(is_near).collect();
                    let mut targets = targets;
                    expected.sort_unstable();
                    targets.sort_unstable();
                    assert_eq!(targets, expected, "vertex {vertex} on {place}");
                }
            }
        }
    }

    #[test]
    fn roads_suit_and_hubs_do_not() {
        let options = GenerateOptions::default();
        let road = generate::road(60, 60, generate::KEEP_PERMILLE, &options).unwrap();
        assert!(PackedRows::suit(&road));
        assert!(!PackedRows::suit(&generate::kron(9, 8, &options).unwrap()));
    }
}
