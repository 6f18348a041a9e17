//! Bringing a search's answer home.

use millstream_device::SharedBuffer;
use rayon::prelude::*;

use crate::value::{UNREACHED, Value};
use crate::{DistributedGraph, Result};

/// What a search has found of all vertices, by original id.
#[derive(Clone, Debug)]
pub struct Answer {
    /// [`UNREACHED`] where no path leads.
    pub keys: Vec<u32>,
    /// The vertex before on such a path; [`UNREACHED`] for sources and where there is none.
    /// `None` for values that keep none.
    pub predecessors: Option<Vec<u32>>,
}

impl Answer {
    /// The owners' values, of buffers that have one for every vertex.
    ///
    /// # Errors
    /// A device failed, or still works on a buffer.
    pub async fn gather<V: Value>(
        graph: &DistributedGraph,
        buffers: impl Iterator<Item = SharedBuffer<V>>,
    ) -> Result<Answer> {
        let partition = graph.partition();
        if !V::KEEPS_PREDECESSOR {
            let keys = partition.restore(graph.gather(buffers, V::key).await?);
            return Ok(Answer { keys, predecessors: None });
        }
        let values = graph.gather(buffers, |value| value).await?;
        let keys = partition.restore(values.par_iter().map(|value| value.key()).collect());
        let original = |value: &V| match value.predecessor() {
            UNREACHED => UNREACHED,
            predecessor => partition.to_original(predecessor),
        };
        let predecessors = partition.restore(values.par_iter().map(original).collect());
        Ok(Answer { keys, predecessors: Some(predecessors) })
    }
}
