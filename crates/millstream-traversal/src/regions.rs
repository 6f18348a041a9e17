//! The parts of a graph whose ids say nothing of where vertices lie.

use std::time::{Duration, Instant};

use millstream_flow::Context;
use millstream_graph::{CsrGraph, Partition, partition};

use crate::{DistributedGraph, Layout, LayoutKind};

/// What dividing a graph into [regions](partition::region_blocks) has taken.
#[derive(Clone, Copy, Debug)]
pub struct Regions {
    time: Duration,
}

impl Regions {
    /// The parts of a search: those that are `given`, else [`partition::automatic`] for several devices with
    /// GPUs among them, and blocks with equally many arcs for others. Host devices share one memory, so cut
    /// arcs cost them little.
    pub fn of(
        context: &Context,
        graph: &CsrGraph,
        given: Option<Partition>,
    ) -> (Partition, Option<Regions>) {
        if let Some(partition) = given {
            return (partition, None);
        }
        let (start, devices) = (Instant::now(), context.devices().len());
        let partition = match context.any_gpu() {
            true => partition::automatic(graph, devices),
            false => partition::edge_balanced_blocks(graph, devices),
        };
        let regions = partition.is_renumbered().then(|| Regions { time: start.elapsed() });
        (partition, regions)
    }

    /// What the regions have cost: no device memory, only the time to find them and to renumber the arcs of
    /// `graph`.
    pub fn layout(self, graph: &DistributedGraph) -> Layout {
        let time = self.time + graph.renumbering_time();
        Layout { kind: LayoutKind::Regions, bytes: 0, time }
    }
}
