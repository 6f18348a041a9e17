//! The buffers of a collective: one of each device.

use std::fmt;

use millstream_device::DeviceBuffer;

use crate::Item;

/// The buffers that a collective works on, in the order of the ranks: those of the results and,
/// unless it works in place, those of the inputs.
///
/// Made from `&mut outputs` (in place) or `(&inputs, &mut outputs)`.
pub struct Operands<'a, T: Item> {
    /// `None` in place.
    pub(super) inputs: Option<&'a [DeviceBuffer<T>]>,
    pub(super) outputs: &'a mut [DeviceBuffer<T>],
}

impl<T: Item> fmt::Debug for Operands<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operands { inputs, outputs } = self;
        formatter
            .debug_struct("Operands")
            .field("inputs", inputs)
            .field("outputs", outputs)
            .finish()
    }
}

impl<'a, T: Item> Operands<'a, T> {
    /// Where the inputs are.
    pub(super) fn sources(&self) -> &[DeviceBuffer<T>] {
        self.inputs.unwrap_or(self.outputs)
    }

    pub(super) fn is_in_place(&self) -> bool {
        self.inputs.is_none()
    }
}

impl<'a, T: Item> From<&'a mut [DeviceBuffer<T>]> for Operands<'a, T> {
    fn from(outputs: &'a mut [DeviceBuffer<T>]) -> Operands<'a, T> {
        Operands { inputs: None, outputs }
    }
}

impl<'a, T: Item> From<&'a mut Vec<DeviceBuffer<T>>> for Operands<'a, T> {
    fn from(outputs: &'a mut Vec<DeviceBuffer<T>>) -> Operands<'a, T> {
        Operands { inputs: None, outputs }
    }
}

type Pair<'a, T> = (&'a [DeviceBuffer<T>], &'a mut [DeviceBuffer<T>]);

impl<'a, T: Item> From<Pair<'a, T>> for Operands<'a, T> {
    fn from((inputs, outputs): Pair<'a, T>) -> Operands<'a, T> {
        Operands { inputs: Some(inputs), outputs }
    }
}

type VecPair<'a, T> = (&'a Vec<DeviceBuffer<T>>, &'a mut Vec<DeviceBuffer<T>>);

impl<'a, T: Item> From<VecPair<'a, T>> for Operands<'a, T> {
    fn from((inputs, outputs): VecPair<'a, T>) -> Operands<'a, T> {
        Operands { inputs: Some(inputs), outputs }
    }
}
