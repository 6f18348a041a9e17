//! One device's work: hook, then merge with the others \[G §5.1.4, Fig. 15\].

use millstream_device::{Device, SharedBuffer, Stream};
use millstream_flow::{Counter, Receiver, Result, Sender};
use millstream_traversal::Part;

use crate::kernels::{COMPRESS, Edge, HOOK_EDGES, HOOK_ROWS, PAIRS, START};

/// What one device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStatistics {
    /// Arcs and edges of the graph hooked.
    pub hooked: u64,
    /// Pairs of other devices merged.
    pub merged: u64,
}

/// Where a device's arcs come from.
pub(crate) enum Arcs<'a> {
    /// They are there: rows of the vertices from some on.
    Resident(&'a Part, u32),
    /// They arrive.
    Streamed(Receiver<Edge>),
}

/// One device in a search.
pub(crate) struct Solver {
    pub(crate) host: Device,
    pub(crate) stream: Stream,
    /// Of all vertices.
    pub(crate) parents: SharedBuffer<u32>,
    /// Vertices whose pairs go into a message.
    pub(crate) message_items: usize,
}

impl Solver {
    /// Hooks along all arcs, merges what the devices below found, and passes what
    /// is not trivial on to the one above, unless this is the first. When all have
    /// resolved, the first device's parents are the labels.
    pub(crate) async fn run(
        self,
        arcs: Arcs<'_>,
        below: Receiver<Edge>,
        above: Option<Sender<Edge>>,
    ) -> Result<DeviceStatistics> {
        START.launch(&self.stream, self.parents.len(), (&self.parents,))?;
        let hooked = match arcs {
            Arcs::Resident(part, first_vertex) => {
                let arguments = (&*part.offsets, &*part.targets, &self.parents, first_vertex);
                HOOK_ROWS.launch(&self.stream, part.offsets.len() - 1, arguments)?;
                part.targets.len() as u64
            }
            Arcs::Streamed(edges) => self.hook_all(edges).await?,
        };
        let merged = self.hook_all(below).await?;
        COMPRESS.launch(&self.stream, self.parents.len(), (&self.parents,))?;
        if let Some(above) = above {
            self.pass_on(above).await?;
        }
        self.stream.record()?.completed().await?;
        Ok(DeviceStatistics { hooked, merged })
    }

    /// Hooks along all edges that arrive; how many there were.
    async fn hook_all(&self, mut edges: Receiver<Edge>) -> Result<u64> {
        let mut hooked = 0;
        while let Some(pending) = edges.recv().await? {
            self.stream.wait(&pending)?;
            HOOK_EDGES.launch(&self.stream, pending.len(), (&pending, &self.parents))?;
            hooked += pending.len() as u64;
            pending.release_after(&self.stream)?;
        }
        Ok(hooked)
    }

    /// Sends every vertex that is no root with its root.
    async fn pass_on(&self, mut above: Sender<Edge>) -> Result<()> {
        let scratch = self.stream.device().shared(2)?;
        for first in (0..self.parents.len()).step_by(self.message_items) {
            let room = self.message_items.min(self.parents.len() - first);
            let mut pairs = above.buffer(room).await?;
            let count: Counter = self.host.shared(1)?;
            let arguments = (&self.parents, first as u32, &mut pairs, &scratch, &count);
            PAIRS.launch(&self.stream, room, arguments)?;
            above.send_counted(pairs, count, &self.stream)?;
        }
        above.shutdown()
    }
}
