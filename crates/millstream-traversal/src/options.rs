//! How an algorithm's worklist runs.

use std::sync::Arc;

use millstream_flow::Context;
use millstream_worklist::{DistributedWorklist, Program, Routing, Worker};

/// How an algorithm's worklist runs; the answer does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorklistOptions {
    /// How packets travel.
    pub routing: Routing,
    /// Whether halo copies keep back what is no improvement \[G §4.5\].
    pub halo_filter: bool,
    /// Bytes of a packet at most; the fused worker has packets of a fixed size.
    pub packet_bytes: usize,
    /// Packet buffers of each link, if the host drives.
    pub buffers: usize,
    /// Entries of each queue; `None` for a device's share of the vertices. The fused worker
    /// has room for all.
    pub queue_entries: Option<usize>,
    /// Vertices that one kernel processes at most, if the host drives.
    pub batch: u32,
    /// Who drives the worklist.
    pub worker: Worker,
}

impl Default for WorklistOptions {
    fn default() -> WorklistOptions {
        WorklistOptions {
            routing: Routing::Auto,
            halo_filter: true,
            packet_bytes: 1 << 18,
            buffers: 2,
            queue_entries: None,
            batch: 1 << 18,
            worker: Worker::Auto,
        }
    }
}

impl WorklistOptions {
    /// A worklist of items `0..items` that runs like this, without priorities.
    pub fn worklist<P: Program>(
        &self,
        context: &Context,
        program: Arc<P>,
        problems: Vec<Arc<P::Problem>>,
        items: usize,
    ) -> DistributedWorklist<P> {
        let worklist = DistributedWorklist::new(context, program, problems, items)
            .routing(self.routing)
            .packet_bytes(self.packet_bytes)
            .buffers(self.buffers)
            .batch(self.batch)
            .worker(self.worker);
        match self.queue_entries {
            Some(entries) => worklist.queue_entries(entries),
            None => worklist,
        }
    }
}
