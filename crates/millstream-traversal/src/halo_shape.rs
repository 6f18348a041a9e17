//! Where halos begin: which vertices devices tell each other of in a search by near and far piles.

use bytemuck::{Pod, Zeroable};
use millstream_graph::Partition;

use crate::gang_place::GangPlace;
use crate::halo::Halos;
use crate::near_rows::NONE;

/// Exported vertices that a warp looks at together.
const WARP: usize = 32;

millstream_device::cuda_struct! {
    /// `HaloShape` of `near_far_device.cuh`.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub(crate) struct HaloShape as "millstream::HaloShape" {
        pub(crate) exports: [u32; GangPlace::MOST + 1],
        pub(crate) told: [u32; GangPlace::MOST],
        pub(crate) places: [u32; GangPlace::MOST],
        pub(crate) halo: [u32; GangPlace::MOST + 1],
    }
}

/// The vertices that a device tells each other device of, where they begin in that device's halo, and
/// where the other devices' vertices begin in this one's.
pub(crate) fn exports(halos: &Halos, partition: &Partition, place: usize) -> (Vec<u32>, HaloShape) {
    let (mut shape, own) = (HaloShape::zeroed(), partition.range(place));
    let mut exports = Vec::new();
    for (other, halo) in halos.of.iter().enumerate() {
        if other != place {
            let places = halos.places(other, own.clone());
            (shape.told[other], shape.places[other]) = (places.len() as u32, places.start as u32);
            exports.extend(halo[places].iter().map(|vertex| vertex - own.start));
            exports.resize(exports.len().next_multiple_of(WARP), NONE);
        }
        shape.exports[other + 1] = exports.len() as u32;
        shape.halo[other + 1] = halos.places(place, partition.range(other)).end as u32;
    }
    (exports, shape)
}
