//! Rows of arcs in [slices](crate::slices), made by the GPUs that have them: `slice_rows.cuh`.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    CudaSource, DeviceBuffer, Download, Kernel, Read, Shared, Stream, Trusted, Value, Write,
    cuda_text,
};
use millstream_graph::{Partition, RowIndex};
use millstream_traversal::internals::{gang_kernel, on_each_device};
use millstream_traversal::{DistributedGraph, Part, PartWeights};

use crate::Result;
use crate::real::Real;
use crate::slices::{Slices, originals};

/// The rows of one GPU.
pub(crate) struct GpuSlices<R: Real> {
    pub(crate) slices: Slices,
    pub(crate) offsets: Arc<DeviceBuffer<u64>>,
    /// The sources of arcs, by new id.
    pub(crate) sources: Arc<DeviceBuffer<u32>>,
    pub(crate) weights: Arc<DeviceBuffer<R>>,
    /// A bit for each vertex, set if another GPU owns the vertex and the rows name it; empty if there is
    /// no other GPU.
    pub(crate) asked: Vec<u32>,
}

/// Slices of the arcs that enter vertices, which the GPUs have as `rows`. `degrees` says how many enter
/// each vertex, by original id.
pub(crate) async fn on_gpus<R: Real>(
    rows: &DistributedGraph,
    degrees: &RowIndex,
) -> Result<Vec<GpuSlices<R>>> {
    let make = |place: usize, stream: &Stream, part: &Part| -> Result<_> {
        let slices = Slices::new(degrees, &originals(rows.partition(), place));
        let offsets = stream.lent(slices.offsets.clone())?;
        let (sources, weights) = sliced(stream, part, &slices, &offsets)?;
        let (sources, weights) = (Arc::new(sources), Arc::new(weights));
        let (offsets, asked) = (Arc::new(offsets), Vec::new());
        let slices = GpuSlices { slices, offsets, sources, weights, asked };
        Ok((slices, asked_bits(stream, part, rows.partition(), place)?))
    };
    let mut all = Vec::new();
    for (mut slices, asked) in on_each_device(rows.context(), rows.parts(), make).await? {
        slices.asked = asked.await?;
        all.push(slices);
    }
    Ok(all)
}

/// The bits of the other parts' vertices that a part's rows name.
fn asked_bits(
    stream: &Stream,
    part: &Part,
    partition: &Partition,
    place: usize,
) -> Result<Download<u32>> {
    let words = if partition.parts() > 1 { partition.vertices().div_ceil(32) } else { 0 };
    let (own, asked) = (partition.range(place), stream.device().shared(words as usize)?);
    if words > 0 {
        let arguments = (&*part.targets, own.start, own.end, &asked);
        mark_kernel().launch(stream, part.targets.len(), arguments)?;
    }
    Ok(stream.download_shared(&asked, 0..words as usize)?)
}

/// Sources and weights of a part's arcs, in the order of its slices.
fn sliced<R: Real>(
    stream: &Stream,
    part: &Part,
    slices: &Slices,
    offsets: &DeviceBuffer<u64>,
) -> Result<(DeviceBuffer<u32>, DeviceBuffer<R>)> {
    let device = stream.device();
    let mut sources = device.buffer_to_overwrite(slices.places())?;
    let weighted = if matches!(part.weights, PartWeights::None) { 0 } else { slices.places() };
    let mut weights = device.buffer_to_overwrite(weighted)?;
    let to = (offsets, &mut sources, &mut weights);
    let settings = |is_real| SliceSettings { long_rows: slices.long_rows, is_real };
    // Enough threads for a warp to each slice, and for more to long rows.
    let size = part.targets.len().max(slices.offsets.len());
    match &part.weights {
        PartWeights::None => {
            let none = device.buffer::<u32>(0)?;
            let from = (&*part.offsets, &*part.targets, &none);
            slice_kernel::<R, u32>().launch(stream, size, (from, to, settings(0)))?;
        }
        PartWeights::Integer(all) => {
            let from = (&*part.offsets, &*part.targets, &**all);
            slice_kernel::<R, u32>().launch(stream, size, (from, to, settings(0)))?;
        }
        PartWeights::Real(all) => {
            let from = (&*part.offsets, &*part.targets, &**all);
            slice_kernel::<R, f32>().launch(stream, size, (from, to, settings(1)))?;
        }
    }
    Ok((sources, weights))
}

millstream_device::cuda_struct! {
    /// `SliceSettings` of `slice_rows.cuh`.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    struct SliceSettings as "millstream::SliceSettings" {
        long_rows: u32,
        is_real: u32,
    }
}

/// Offsets, sources and weights of rows; the same of slices.
type SliceSignature<R, W> =
    ((Read<u64>, Read<u32>, Read<W>), (Read<u64>, Write<u32>, Write<R>), Value<SliceSettings>);

/// The kernels have no twins: host devices get what the host makes.
fn slice_kernel<R: Real, W: Pod + Send + Sync>() -> &'static Kernel<SliceSignature<R, W>> {
    // SAFETY: the kernel keeps to its arguments as the signature says.
    gang_kernel("slice_rows", || unsafe { Trusted::new(cuda_source(R::IS_DOUBLE, "slice_rows")) })
}

fn mark_kernel() -> &'static Kernel<(Read<u32>, Value<u32>, Value<u32>, Shared<u32>)> {
    // SAFETY: as above.
    gang_kernel("mark_asked", || unsafe { Trusted::new(cuda_source(false, "mark_asked")) })
}

fn cuda_source(is_double: bool, entry: &'static str) -> CudaSource {
    const SINGLE: &str = concat!("using SlicedReal = float;\n", cuda_text!("slice_rows.cuh"));
    const DOUBLE: &str = concat!("using SlicedReal = double;\n", cuda_text!("slice_rows.cuh"));
    let source = CudaSource::new("slice_rows.cuh", entry, if is_double { DOUBLE } else { SINGLE });
    source.structs(&[SliceSettings::LAYOUT])
}

pub(crate) fn cuda_sources() -> [CudaSource; 3] {
    [
        cuda_source(false, "slice_rows"),
        cuda_source(true, "slice_rows"),
        cuda_source(false, "mark_asked"),
    ]
}
