//! The vertices of other parts that arcs of a part lead to, where its halo begins.

use std::sync::atomic::Ordering;

use millstream_device::{
    CudaSource, Download, Kernel, KernelFault, Read, Shared, Stream, Trusted, Value,
};

use crate::on_each_device::on_each_device;
use crate::part::Part;
use crate::{DistributedGraph, Result};

const BITS: u32 = u32::BITS;

/// For each device the vertices of others, by new ids in ascending order, that its arcs lead to.
///
/// # Errors
/// No memory; a kernel that does not compile; a failed device.
///
/// # Cancel safety
/// Cancel safe: the graph is only read.
pub(crate) async fn beside(graph: &DistributedGraph) -> Result<Vec<Vec<u32>>> {
    let words = graph.vertices().div_ceil(BITS) as usize;
    let mark = |place, stream: &Stream, part: &Part| -> Result<Download<u32>> {
        let own = graph.partition().range(place);
        let bits = stream.device().shared(words)?;
        MARK.launch(stream, part.targets.len(), (&*part.targets, own.start, own.end, &bits))?;
        Ok(stream.download_shared(&bits, 0..words)?)
    };
    let mut beside = Vec::new();
    for marked in on_each_device(graph.context(), graph.parts(), mark).await? {
        let words = marked.await?;
        let words = (0u32..).step_by(BITS as usize).zip(words.iter().copied());
        beside.push(
            words.flat_map(|(first, word)| set_bits(word).map(move |bit| first + bit)).collect(),
        );
    }
    Ok(beside)
}

/// The positions of the bits that are set.
fn set_bits(mut word: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < BITS).then_some(bit)
    })
}

type Signature = (Read<u32>, Value<u32>, Value<u32>, Shared<u32>);

static MARK: Kernel<Signature> = Kernel::with_source(
    "mark_beside",
    // SAFETY: like its twin, the kernel uses its arguments only as the signature says.
    unsafe { Trusted::new(cuda_source()) },
    |grid, (targets, first, end, bits)| {
        grid.for_each_block(|block| {
            for &target in &targets[block.range] {
                if !(first..end).contains(&target) {
                    // The kernel's end publishes it.
                    bits[(target / BITS) as usize]
                        .fetch_or(1 << (target % BITS), Ordering::Relaxed);
                }
            }
            Ok::<(), KernelFault>(())
        })
    },
);

pub(crate) const fn cuda_source() -> CudaSource {
    CudaSource::new("beside.cuh", "mark_beside", include_str!("beside.cuh"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use millstream_flow::{Context, Devices};
    use millstream_graph::generate::{self, GenerateOptions};
    use millstream_graph::partition;

    use super::*;
    use crate::Columns;
    use crate::halo::tests;

    /// Virtual devices and emulated GPUs by `MILLSTREAM_DEVICES`, else three host devices.
    #[test]
    fn vertices_beside_parts_are_found_once() {
        let devices = match std::env::var("MILLSTREAM_DEVICES") {
            Ok(list) => list.parse().unwrap(),
            Err(_) => Devices::host(3),
        };
        let context = Context::builder().devices(devices).build().unwrap();
        let graph = generate::random(1001, 1500, &GenerateOptions::default()).unwrap();
        let parts = partition::random(&graph, context.devices().len(), 1);
        let found = context.block_on(async {
            let rows =
                DistributedGraph::new(&context, &graph, parts.clone(), Columns::Structure).await?;
            beside(&rows).await
        });
        assert_eq!(found.unwrap().unwrap(), tests::beside(&graph, &parts));
        assert_eq!(set_bits(0x8000_0005).collect::<Vec<_>>(), [0, 2, 31]);
        assert_eq!(set_bits(0).count(), 0);
    }
}
