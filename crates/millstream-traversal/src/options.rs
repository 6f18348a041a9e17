//! How an algorithm's worklist runs.

use std::sync::Arc;
use std::time::Duration;

use millstream_flow::Context;
use millstream_worklist::{DistributedWorklist, Program, Routing, Worker};

/// How the worklist of a graph algorithm runs; the answer does not depend on it. These are settings
/// of its [`DistributedWorklist`], but for the halo filter, which is the algorithm's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorklistOptions {
    /// How packets travel.
    pub routing: Routing,
    /// Whether halo copies keep back what is no improvement \[G §4.5\].
    pub halo_filter: bool,
    /// Bytes of a packet at most, 256 KiB unless set; those of the fused worker hold 256 items at
    /// most.
    pub packet_bytes: usize,
    /// Packet buffers of each link: `None` for as many as the link chooses, or for 64
    /// between each two blocks of the fused worker that exchange packets.
    pub buffers: Option<usize>,
    /// Entries of each queue; `None` for a device's share of the vertices, or, if the worker is
    /// fused, for what [a queue may need](millstream_worklist::DistributedWorklist::queue_entries).
    pub queue_entries: Option<usize>,
    /// Vertices that one kernel processes at most, if the host drives; 262144 unless set.
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
            buffers: None,
            queue_entries: None,
            batch: 1 << 18,
            worker: Worker::Auto,
        }
    }
}

/// How long a run of a graph algorithm may go on without any change before it fails, unless set.
#[doc(hidden)]
pub const PATIENCE: Duration = Duration::from_secs(10);

impl WorklistOptions {
    /// A worklist of items `0..items` that runs like this, without priorities, and with `patience`.
    #[doc(hidden)]
    pub fn worklist<P: Program>(
        &self,
        context: &Context,
        program: Arc<P>,
        problems: Vec<Arc<P::Problem>>,
        items: usize,
        patience: Duration,
    ) -> DistributedWorklist<P> {
        let mut worklist = DistributedWorklist::new(context, program, problems, items)
            .routing(self.routing)
            .packet_bytes(self.packet_bytes)
            .batch(self.batch)
            .worker(self.worker)
            .patience(patience);
        if let Some(count) = self.buffers {
            worklist = worklist.buffers(count);
        }
        if let Some(entries) = self.queue_entries {
            worklist = worklist.queue_entries(entries);
        }
        worklist
    }
}
