//! The hub of each vertex, which a search by [`Method::OutsideHub`](crate::Method::OutsideHub) looks at
//! first on GPUs: the hub of most vertices is the vertex that the search begins with, or one of its
//! neighbours.

use std::time::{Duration, Instant};

use millstream_device::SharedBuffer;
use millstream_graph::CsrGraph;
use millstream_traversal::internals::find_hubs;
use millstream_traversal::{DistributedGraph, Layout, LayoutKind};

use crate::Result;

/// The hubs of each device's vertices.
#[derive(Debug)]
pub(crate) struct Hubs {
    devices: Vec<SharedBuffer<u32>>,
    /// How long finding them has taken.
    time: Duration,
}

impl Hubs {
    /// Empty, for a search that does not use hubs.
    pub(crate) fn none(distributed: &DistributedGraph) -> Result<Hubs> {
        let devices = distributed.context().devices().iter();
        let devices = devices.map(|device| device.shared(0)).collect::<Result<_, _>>()?;
        Ok(Hubs { devices, time: Duration::ZERO })
    }

    /// Finds the hubs of a graph that the devices have as `distributed`.
    pub(crate) async fn new(graph: &CsrGraph, distributed: &DistributedGraph) -> Result<Hubs> {
        let start = Instant::now();
        let devices = find_hubs(graph, distributed).await?;
        Ok(Hubs { devices, time: start.elapsed() })
    }

    /// The hubs of the vertices of the device at `place`.
    pub(crate) fn of(&self, place: usize) -> &SharedBuffer<u32> {
        &self.devices[place]
    }

    /// What they have cost, if they were found.
    pub(crate) fn layout(&self) -> Option<Layout> {
        let vertices: usize = self.devices.iter().map(|its| its.len()).sum();
        let bytes = (vertices * size_of::<u32>()) as u64;
        (vertices > 0).then_some(Layout { kind: LayoutKind::Hubs, bytes, time: self.time })
    }
}
