//! Short rows, found by the vertex number alone: `packed_rows.cuh`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use millstream_device::{CudaSource, Device, DeviceBuffer, Grid, Kernel, Read, Value, Write};

use crate::Result;

/// Arcs of a packed row.
const ROW_ARCS: usize = 4;
/// In place of a target: no arc.
const NO_VERTEX: u32 = u32::MAX;
/// In place of all targets: a row that is longer.
const LONG_ROW: u32 = u32::MAX - 1;

/// Row index, targets, weights or none, words of a row; the packed rows.
type PackRows<W> = (Read<u64>, Read<u32>, Read<W>, Value<u32>, Write<u32>);

/// What packed rows cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Memory of all devices.
    pub bytes: u64,
    /// Time to pack them, one device after the other, with loading the kernel.
    pub time: Duration,
}

/// The packed rows of one device.
#[derive(Clone, Debug)]
pub(crate) struct PackedRows {
    pub(crate) rows: Arc<DeviceBuffer<u32>>,
    pub(crate) cost: Packing,
}

/// Packs the rows of one device.
pub(crate) async fn pack<W: Pod + Send + Sync>(
    device: &Device,
    offsets: &DeviceBuffer<u64>,
    targets: &DeviceBuffer<u32>,
    weights: Option<&DeviceBuffer<W>>,
) -> Result<PackedRows> {
    let start = Instant::now();
    let rows = offsets.len() - 1;
    let words = if weights.is_some() { 2 * ROW_ARCS } else { ROW_ARCS };
    let mut packed = device.buffer(rows * words)?;
    let none = device.buffer(0)?;
    let stream = device.stream()?;
    let arguments = (offsets, targets, weights.unwrap_or(&none), words as u32, &mut packed);
    if rows > 0 {
        kernel::<W>().launch(&stream, rows, arguments)?;
    }
    stream.record()?.completed().await?;
    let bytes = (packed.len() * size_of::<u32>()) as u64;
    Ok(PackedRows { rows: Arc::new(packed), cost: Packing { bytes, time: start.elapsed() } })
}

/// The kernel's CUDA C++, to be compiled without running it.
#[doc(hidden)]
pub const fn cuda_source() -> CudaSource {
    CudaSource::new("pack_rows.cuh", "pack_rows", include_str!("pack_rows.cuh"))
}

fn kernel<W: Pod + Send + Sync>() -> Kernel<PackRows<W>> {
    let twin = |_: &Grid, (offsets, targets, weights, words, packed): View<'_, W>| {
        for (row, to) in offsets.windows(2).zip(packed.chunks_exact_mut(words as usize)) {
            let arcs = row[0] as usize..row[1] as usize;
            let (to_targets, to_weights) = to.split_at_mut(ROW_ARCS);
            if arcs.len() > ROW_ARCS {
                to_targets.fill(LONG_ROW);
                continue;
            }
            to_targets.fill(NO_VERTEX);
            to_targets[..arcs.len()].copy_from_slice(&targets[arcs.clone()]);
            if !to_weights.is_empty() {
                let weights = bytemuck::cast_slice(&weights[arcs.clone()]);
                to_weights[..arcs.len()].copy_from_slice(weights);
            }
        }
        Ok(())
    };
    Kernel::from_closure("pack_rows", twin).with_cuda(cuda_source())
}

/// What the twin sees.
type View<'a, W> = (&'a [u64], &'a [u32], &'a [W], u32, &'a mut [u32]);

#[cfg(test)]
mod tests {
    use millstream_flow::{Context, Devices};

    use super::*;

    #[test]
    fn short_rows_lie_at_their_number_and_long_ones_are_marked() {
        let context = Context::builder().devices(Devices::host(1)).build().unwrap();
        let device = &context.devices()[0];
        let stream = device.stream().unwrap();
        // Rows of two arcs, none, and five.
        let offsets = stream.uploaded(vec![0, 2, 2, 7]).unwrap();
        let targets = stream.uploaded(vec![2, 1, 0, 1, 2, 0, 1]).unwrap();
        let weights = stream.uploaded(vec![0.5f32, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]).unwrap();
        context.block_on(stream.record().unwrap().completed()).unwrap().unwrap();
        let rows_of = |weights: Option<&DeviceBuffer<f32>>| {
            let packed = context.block_on(pack(device, &offsets, &targets, weights));
            let packed = packed.unwrap().unwrap();
            assert_eq!(packed.cost.bytes, 4 * packed.rows.len() as u64);
            context.block_on(stream.download(&*packed.rows).unwrap()).unwrap().unwrap()
        };
        let row = |first, second| [first, second, NO_VERTEX, NO_VERTEX];
        let (short, none) = (row(2, 1), row(NO_VERTEX, NO_VERTEX));
        assert_eq!(rows_of(None), [short, none, [LONG_ROW; ROW_ARCS]].concat());
        let weighted = rows_of(Some(&weights));
        assert_eq!(weighted[..4], short);
        assert_eq!(weighted[4..8], [0.5f32.to_bits(), 2f32.to_bits(), 0, 0]);
        assert_eq!(weighted[16..20], [LONG_ROW; ROW_ARCS]);
    }
}
