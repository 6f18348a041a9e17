//! One device's work: hook, then merge with the others \[G §5.1.4, Fig. 15\].

use std::ops::Range;

use millstream_device::{SharedBuffer, Stream};
use millstream_flow::{Receiver, Result, Sender};
use millstream_traversal::Part;

use crate::Method;
use crate::kernels::{
    COMPRESS, Edge, HOOK_EDGES, HOOK_LEAVING, HOOK_ROWS, HOOK_SENT, PAIRS, START, START_TILES,
};
use crate::spread::Ranges;
use crate::statistics::DeviceStatistics;

/// Where a device's arcs come from.
pub(crate) enum Arcs<'a> {
    /// They are on the device already.
    Resident(Resident<'a>),
    /// They arrive as edges.
    Streamed(Receiver<Edge>),
    /// They arrive in rows: see [`SentRows`](crate::sent_rows::SentRows).
    StreamedRows(Receiver<u32>),
}

/// Rows of arcs, and what to do with them.
pub(crate) struct Resident<'a> {
    pub(crate) part: &'a Part,
    /// The hub of each of its vertices; empty if the search uses none.
    pub(crate) hubs: &'a SharedBuffer<u32>,
    /// The vertex of the first row.
    pub(crate) first_vertex: u32,
    pub(crate) method: Method,
    /// The vertex that the most arcs leave.
    pub(crate) hub: u32,
}

/// Links to the devices below and above in the reduction tree, over which the host moves pairs to merge.
pub(crate) struct Links {
    pub(crate) below: Receiver<Edge>,
    /// The first device has none.
    pub(crate) above: Option<Sender<Edge>>,
}

/// One device in a search.
pub(crate) struct Solver {
    pub(crate) stream: Stream,
    /// The parents of all vertices.
    pub(crate) parents: SharedBuffer<u32>,
    /// The vertices for which this device starts trees.
    pub(crate) covered: Range<u32>,
    /// The vertices that this device labels, once the devices have merged their trees.
    pub(crate) own: Range<u32>,
    /// The vertices about whose trees the device tells others.
    pub(crate) told: Ranges,
    /// What it tells others: see `merge.cuh`.
    pub(crate) members: SharedBuffer<u32>,
    pub(crate) pairs: SharedBuffer<u64>,
    /// Words in which the warps of a GPU share hubs' arcs.
    pub(crate) shared_arcs: SharedBuffer<u64>,
    /// Which rows have arcs that leave their tile, if the covered vertices are cut into tiles.
    pub(crate) leaving: SharedBuffer<u32>,
    /// The most vertices whose pairs go into one message.
    pub(crate) message_items: usize,
}

impl Solver {
    /// The labels that are left on this device.
    pub(crate) fn labels(&self) -> (&Stream, &SharedBuffer<u32>, Range<usize>) {
        (&self.stream, &self.parents, self.own.start as usize..self.own.end as usize)
    }

    /// Compiles and loads the kernels, which are in one text.
    pub(crate) fn prepare(&self) -> Result<()> {
        START.prepare(self.stream.device(), self.covered.len())?;
        Ok(())
    }

    /// Hooks along all arcs, merges the trees of the devices below, and passes pairs of vertex and root,
    /// except of roots, on to the device above.
    pub(crate) async fn run(&self, arcs: Arcs<'_>, links: Links) -> Result<DeviceStatistics> {
        let (hooked, from_host) = match arcs {
            Arcs::Resident(resident) => {
                self.hook_rows(&self.stream, &resident)?;
                (resident.part.targets.len() as u64, 0)
            }
            Arcs::Streamed(edges) => {
                self.start_alone()?;
                let hooked = self.hook_all(edges).await?;
                (hooked, hooked)
            }
            Arcs::StreamedRows(rows) => {
                self.start_alone()?;
                let hooked = self.hook_sent(rows).await?;
                (hooked, hooked)
            }
        };
        let merged = self.hook_all(links.below).await?;
        self.compress()?;
        if let Some(above) = links.above {
            self.pass_on(above).await?;
        }
        // How much is sent is known only once all has been sent.
        Ok(DeviceStatistics { hooked, merged, sent: 0, received: from_host + merged })
    }

    /// Makes all parents roots; the first device's parents are then the labels.
    fn compress(&self) -> Result<()> {
        Ok(COMPRESS.launch(&self.stream, self.parents.len(), (&self.parents,))?)
    }

    /// Makes every covered vertex a tree of its own.
    pub(crate) fn start_alone(&self) -> Result<()> {
        // Without rows, no vertex gets a target for a parent.
        let device = self.stream.device();
        let (offsets, targets) = (device.buffer(1)?, device.buffer(0)?);
        let covered = [self.covered.start, self.covered.end];
        let arguments = (&offsets, &targets, 0, &self.parents, covered);
        Ok(START.launch(&self.stream, self.covered.len(), arguments)?)
    }

    /// Hooks along the device's own arcs.
    pub(crate) fn hook_rows(&self, stream: &Stream, resident: &Resident<'_>) -> Result<()> {
        let Resident { part, first_vertex, method, hub, .. } = *resident;
        let (offsets, targets) = (&*part.offsets, &*part.targets);
        let (parents, shared) = (&self.parents, &self.shared_arcs);
        let (vertices, covered) = (self.covered.len(), [self.covered.start, self.covered.end]);
        if method == Method::TowardsSmaller {
            let leaving = &self.leaving;
            let arguments = (offsets, targets, first_vertex, parents, covered, leaving, shared);
            START_TILES.launch(stream, vertices, arguments)?;
            return Ok(HOOK_LEAVING.launch(stream, vertices, arguments)?);
        }
        START.launch(stream, vertices, (offsets, targets, first_vertex, parents, covered))?;
        let arguments = (offsets, targets, first_vertex, parents, method as u32, hub, shared);
        Ok(HOOK_ROWS.launch(stream, offsets.len() - 1, arguments)?)
    }

    /// Hooks along all edges that arrive. Returns how many there were.
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

    /// The same along all rows that arrive.
    async fn hook_sent(&self, mut rows: Receiver<u32>) -> Result<u64> {
        let hooked = self.stream.device().shared(1)?;
        while let Some(pending) = rows.recv().await? {
            self.stream.wait(&pending)?;
            HOOK_SENT.launch(&self.stream, pending.len(), (&pending, &self.parents, &hooked))?;
            pending.release_after(&self.stream)?;
        }
        Ok(self.stream.download_shared(&hooked, 0..1)?.await?.iter().sum())
    }

    /// Sends every vertex that is not a root, with its root.
    async fn pass_on(&self, mut above: Sender<Edge>) -> Result<()> {
        let scratch = self.stream.device().shared(2)?;
        for first in (0..self.parents.len()).step_by(self.message_items) {
            let room = self.message_items.min(self.parents.len() - first);
            let mut pairs = above.buffer(room).await?;
            let count = above.counter()?;
            let arguments = (&self.parents, first as u32, &mut pairs, &scratch, &count);
            PAIRS.launch(&self.stream, room, arguments)?;
            above.send_counted(pairs, count, &self.stream)?;
        }
        above.shutdown()
    }
}
