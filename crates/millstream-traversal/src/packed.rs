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
    kernel::<W>().launch(&stream, rows, arguments)?;
    stream.record()?.completed().await?;
    let bytes = (packed.len() * size_of::<u32>()) as u64;
    Ok(PackedRows { rows: Arc::new(packed), cost: Packing { bytes, time: start.elapsed() } })
}

fn kernel<W: Pod + Send + Sync>() -> Kernel<PackRows<W>> {
    Kernel::from_closure(
        "pack_rows",
        |_: &Grid, (offsets, targets, weights, words, packed): (&[u64], &[u32], &[W], u32, &mut [u32])| {
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
                    to_weights[..arcs.len()]
                        .copy_from_slice(bytemuck::cast_slice(&weights[arcs]));
                }
            }
            Ok(())
        },
    )
    .with_cuda(CudaSource::new("pack_rows.cuh", "pack_rows", include_str!("pack_rows.cuh")))
}
