//! One device's work: hook, then merge with the others \[G §5.1.4, Fig. 15\].

use std::ops::Range;
use std::slice;

use millstream_device::{Device, SharedBuffer, Stream};
use millstream_flow::{Counter, Receiver, Result, Sender};
use millstream_traversal::Part;

use crate::Method;
use crate::kernels::{
    Edge, HOOK_EDGES, HOOK_ROWS, PAIRS, SAMPLE, START, START_TILES, TILE, TILE_THREADS,
};
use crate::merge::{Ranges, label_all};

/// What one device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStatistics {
    /// Arcs and edges hooked, or left out because others say the same.
    pub hooked: u64,
    /// Pairs of other devices merged.
    pub merged: u64,
}

/// Where a device's arcs come from.
pub(crate) enum Arcs<'a> {
    /// They are there.
    Resident(Resident<'a>),
    /// They arrive.
    Streamed(Receiver<Edge>),
}

/// Rows of arcs, and what to do with them.
pub(crate) struct Resident<'a> {
    pub(crate) part: &'a Part,
    /// Whose row is the first.
    pub(crate) first_vertex: u32,
    pub(crate) method: Method,
    /// The vertex of most arcs.
    pub(crate) hub: u32,
}

/// Links to the devices below and above, where the host moves what is merged.
pub(crate) struct Links {
    pub(crate) below: Receiver<Edge>,
    /// The first device has none.
    pub(crate) above: Option<Sender<Edge>>,
}

/// One device in a search.
pub(crate) struct Solver {
    pub(crate) host: Device,
    pub(crate) stream: Stream,
    /// Of all vertices.
    pub(crate) parents: SharedBuffer<u32>,
    /// The vertices whose trees begin here.
    pub(crate) covered: Range<u32>,
    /// The vertices that are labelled here, once the devices have merged their trees.
    pub(crate) own: Range<u32>,
    /// The vertices of whose trees the device tells.
    pub(crate) told: Ranges,
    /// What it tells: see `Told` in `merging.rs`.
    pub(crate) members: SharedBuffer<u32>,
    pub(crate) pairs: SharedBuffer<u64>,
    /// Where the warps of a GPU share hubs' arcs.
    pub(crate) shared_arcs: SharedBuffer<u64>,
    /// Vertices whose pairs go into a message.
    pub(crate) message_items: usize,
}

impl Solver {
    /// Hooks along all arcs; if there are links, merges what the devices below
    /// found and passes what is not trivial on to the one above. Resident arcs
    /// without links: resolves when all is submitted.
    pub(crate) async fn run(
        &self,
        arcs: Arcs<'_>,
        links: Option<Links>,
    ) -> Result<DeviceStatistics> {
        let hooked = match arcs {
            Arcs::Resident(resident) => self.hook_rows(&resident)?,
            Arcs::Streamed(edges) => {
                // No row begins a tree.
                let device = self.stream.device();
                let (offsets, targets) = (device.buffer(1)?, device.buffer(0)?);
                let covered = [self.covered.start, self.covered.end];
                let arguments = (&offsets, &targets, 0, &self.parents, covered);
                START.launch(&self.stream, self.covered.len(), arguments)?;
                self.hook_all(edges).await?
            }
        };
        let mut merged = 0;
        if let Some(Links { below, above }) = links {
            merged = self.hook_all(below).await?;
            if let Some(above) = above {
                label_all(slice::from_ref(self), 0)?;
                self.pass_on(above).await?;
            }
        }
        Ok(DeviceStatistics { hooked, merged })
    }

    /// Hooks along the device's own arcs; how many it has.
    fn hook_rows(&self, resident: &Resident<'_>) -> Result<u64> {
        let Resident { part, first_vertex, method, hub } = *resident;
        let (offsets, targets) = (&*part.offsets, &*part.targets);
        let (stream, parents, rows) = (&self.stream, &self.parents, offsets.len() - 1);
        let covered = [self.covered.start, self.covered.end];
        let arguments = (offsets, targets, first_vertex, parents, covered);
        match method {
            Method::TowardsSmaller => {
                let tiles = self.covered.len().div_ceil(TILE);
                START_TILES.launch(stream, tiles * TILE_THREADS, arguments)?;
            }
            _ => START.launch(stream, self.covered.len(), arguments)?,
        }
        for range in stages(sampled(resident)) {
            let bounds = [range.start, range.end];
            let arguments = (offsets, targets, first_vertex, parents, bounds);
            SAMPLE.launch(stream, range.len(), arguments)?;
        }
        let (method, shared) = (method as u32, &self.shared_arcs);
        let arguments = (offsets, targets, first_vertex, parents, covered, method, hub, shared);
        HOOK_ROWS.launch(stream, rows, arguments)?;
        Ok(targets.len() as u64)
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

/// Rows of the sample, the first ones of a device.
pub(crate) fn sampled(resident: &Resident<'_>) -> u32 {
    const SAMPLED: u32 = 8;
    match resident.method {
        Method::OutsideHub => (resident.part.offsets.len() - 1) as u32 / SAMPLED,
        _ => 0,
    }
}

/// The rows of the sample, in stages, each as large as all before by a factor: where
/// all begin at once they get in each other's way at the same few roots.
fn stages(sampled: u32) -> impl Iterator<Item = Range<u32>> {
    const FIRST: u32 = 2048;
    const FACTOR: u32 = 4;
    let ends = std::iter::successors(Some(FIRST), |end| end.checked_mul(FACTOR));
    let ends = ends
        .map(move |end| end.min(sampled))
        .scan(0, |start, end| Some(std::mem::replace(start, end)..end));
    ends.take_while(|stage| !stage.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_each_other() {
        for sampled in [0, 1, 2047, 2048, 1 << 17, 1 << 29] {
            let mut end = 0;
            for stage in stages(sampled) {
                assert!(stage.start == end && !stage.is_empty());
                end = stage.end;
            }
            assert_eq!(end, sampled);
        }
        assert_eq!(stages(1 << 17).count(), 4);
    }
}
