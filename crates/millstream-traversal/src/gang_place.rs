//! A device's place among those of a gang that search a graph together.

use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use millstream_device::{SharedSet, patience_ns};
use millstream_graph::Partition;

millstream_device::cuda_struct! {
    /// Which device this is, and who owns which vertices: `GangPlace` of `gang_device.cuh`, the
    /// first field of a search's settings.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub struct GangPlace as "millstream::GangPlace" {
        patience_ns: u64,
        /// This device's number.
        pub device: u32,
        /// Devices of the gang.
        pub devices: u32,
        /// Vertices of the graph.
        pub vertices: u32,
        /// The first that this device owns.
        pub first: u32,
        /// The one after the last that it owns.
        pub end: u32,
        /// The first vertex of each device; all entries after these are the number of vertices.
        pub boundaries: [u32; GangPlace::MOST + 1],
    }
}

impl GangPlace {
    /// The most devices of a gang.
    pub const MOST: usize = SharedSet::<u32>::MOST;

    /// The place of the device that has part `device` of a graph, which has at most
    /// [`GangPlace::MOST`] parts; the device waits no longer than `patience` for others.
    pub fn new(partition: &Partition, device: usize, patience: Duration) -> GangPlace {
        let mut boundaries = [partition.vertices(); GangPlace::MOST + 1];
        boundaries.iter_mut().zip(partition.boundaries()).for_each(|(to, &from)| *to = from);
        GangPlace {
            patience_ns: patience_ns(patience),
            device: device as u32,
            devices: partition.parts() as u32,
            vertices: partition.vertices(),
            first: boundaries[device],
            end: boundaries[device + 1],
            boundaries,
        }
    }
}
