//! Bringing a search's answer home.

use std::ops::Range;

use millstream_device::SharedBuffer;

use crate::owned_values::OwnedValues;
use crate::value::{UNREACHED, Value};
use crate::{DistributedGraph, Result};

/// What a search has found of all vertices, by original id.
#[derive(Clone, Debug)]
pub struct Answer {
    /// [`UNREACHED`] for vertices that no path reaches.
    pub keys: Vec<u32>,
    /// The previous vertex on such a path; [`UNREACHED`] for sources and unreached vertices.
    /// `None` if the values keep no predecessors.
    pub predecessors: Option<Vec<u32>>,
}

impl Answer {
    /// Each vertex's value from its owner; the buffers have a value for every vertex.
    ///
    /// # Errors
    /// A device failed, or still works on a buffer.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn gather<V: Value>(
        graph: &DistributedGraph,
        buffers: impl Iterator<Item = SharedBuffer<V>>,
    ) -> Result<Answer> {
        Answer::gather_from(graph, buffers.zip(graph.owned())).await
    }

    /// As [`Answer::gather`], from buffers that begin with the values of the owned vertices and
    /// may have others after them.
    ///
    /// # Errors
    /// Likewise.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn gather_owned<V: Value>(
        graph: &DistributedGraph,
        buffers: impl Iterator<Item = SharedBuffer<V>>,
    ) -> Result<Answer> {
        let owned = graph.owned().map(|owned| 0..owned.len());
        Answer::gather_from(graph, buffers.zip(owned)).await
    }

    async fn gather_from<V: Value>(
        graph: &DistributedGraph,
        values: impl Iterator<Item = (SharedBuffer<V>, Range<usize>)>,
    ) -> Result<Answer> {
        let partition = graph.partition();
        let values = OwnedValues::arrived(partition, graph.downloads(values)?).await?;
        let keys = values.restored(|_, value: V| value.key())?;
        let original = |_, value: V| match value.predecessor() {
            UNREACHED => UNREACHED,
            predecessor => partition.to_original(predecessor),
        };
        let predecessors = V::KEEPS_PREDECESSOR.then(|| values.restored(original));
        Ok(Answer { keys, predecessors: predecessors.transpose()? })
    }
}
