//! A device's place among those of a gang that search a graph together.

use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use millstream_device::{SharedSet, patience_ns};
use millstream_graph::Partition;

millstream_device::cuda_struct! {
    /// Which device this is, and who owns which vertices: `GangPlace` of `gang_device.cuh`,
    /// with which the settings of a search begin.
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
        /// One behind the last that it owns.
        pub end: u32,
        /// The first vertex of each device, and the number of vertices behind the last.
        pub boundaries: [u32; GangPlace::MOST + 1],
    }
}

impl GangPlace {
    /// Devices at most.
    pub const MOST: usize = SharedSet::<u32>::MOST;

    /// Of the device with the part `device` of a graph, which has no more than
    /// [`GangPlace::MOST`]; it waits for others as long as its `patience`.
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
