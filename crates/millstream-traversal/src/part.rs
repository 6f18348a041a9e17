//! One device's part of a graph.

use std::sync::Arc;

use millstream_device::DeviceBuffer;

/// The rows of one device.
#[derive(Debug)]
pub struct Part {
    /// Row index of the owned vertices, from 0.
    pub offsets: Arc<DeviceBuffer<u64>>,
    /// New ids of the targets of their arcs.
    pub targets: Arc<DeviceBuffer<u32>>,
    /// Weights of their arcs.
    pub weights: PartWeights,
    /// Who owns which vertices, as `owners.cuh` takes it.
    pub owners: Arc<DeviceBuffer<u32>>,
}

impl Part {
    /// What the rows take of the device's memory.
    pub fn bytes(&self) -> u64 {
        let weights = match &self.weights {
            PartWeights::None => 0,
            PartWeights::Integer(weights) => weights.len(),
            PartWeights::Real(weights) => weights.len(),
        };
        let words = self.targets.len() + weights;
        (self.offsets.len() * size_of::<u64>() + words * size_of::<u32>()) as u64
    }
}

/// The weights of one device's arcs.
#[derive(Debug)]
pub enum PartWeights {
    /// None are there.
    None,
    /// Unsigned integers.
    Integer(Arc<DeviceBuffer<u32>>),
    /// Reals.
    Real(Arc<DeviceBuffer<f32>>),
}

impl PartWeights {
    /// The weights, if they are integers.
    pub fn integers(&self) -> Option<&Arc<DeviceBuffer<u32>>> {
        match self {
            PartWeights::Integer(weights) => Some(weights),
            PartWeights::None | PartWeights::Real(_) => None,
        }
    }

    /// The weights, if they are reals.
    pub fn reals(&self) -> Option<&Arc<DeviceBuffer<f32>>> {
        match self {
            PartWeights::Real(weights) => Some(weights),
            PartWeights::None | PartWeights::Integer(_) => None,
        }
    }
}
