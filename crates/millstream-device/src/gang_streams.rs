//! The streams of a gang, made together.

use crate::Result;
use crate::device::Device;
#[cfg(feature = "cuda")]
use crate::device::DevicePlace;
use crate::stream::Stream;
use crate::stream_kind::StreamKind;

impl Stream {
    /// A new stream of each device for kernels that wait for each other. Those of one GPU, up to
    /// eight, run side by side, whoever else makes streams meanwhile, if the driver has
    /// [connections](crate::set_driver_defaults) for them: of streams made [one by one](Device::stream_of) that
    /// holds only while nobody does.
    ///
    /// ```
    /// use millstream_device::{DeviceList, DeviceSet, Stream};
    ///
    /// let set = DeviceSet::builder().devices(DeviceList::host(3)).build()?;
    /// let streams = Stream::of_gang(set.devices())?;
    /// assert_eq!(streams[2].device(), &set.devices()[2]);
    /// # Ok::<(), millstream_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// None on host devices.
    pub fn of_gang(devices: &[Device]) -> Result<Vec<Stream>> {
        let stream =
            |(device, turn): (&Device, _)| Stream::new(device.clone(), StreamKind::Gang, turn);
        devices.iter().zip(turns_of(devices)).map(stream).collect()
    }
}

/// The turn at its GPU's lanes that each device takes.
#[cfg(feature = "cuda")]
fn turns_of(devices: &[Device]) -> Vec<Option<usize>> {
    let gpu = |device: &'_ Device| match &device.core.place {
        DevicePlace::Gpu(gpu) => Some(std::sync::Arc::clone(gpu)),
        DevicePlace::Host => None,
    };
    let gpus: Vec<_> = devices.iter().map(gpu).collect();
    let gpus: Vec<_> = gpus.iter().map(Option::as_deref).collect();
    turns(&gpus, crate::cuda::Gpu::take_turns_of_gang)
}

#[cfg(not(feature = "cuda"))]
fn turns_of(devices: &[Device]) -> Vec<Option<usize>> {
    vec![None; devices.len()]
}

/// For each GPU, takes as many consecutive turns at once as it has devices here, so that nobody
/// else's turn lies in between.
#[cfg(feature = "cuda")]
fn turns<G>(gpus: &[Option<&G>], take: impl Fn(&G, usize) -> usize) -> Vec<Option<usize>> {
    let mut turns = vec![None; gpus.len()];
    for gpu in gpus.iter().flatten() {
        let is_its = |place: &usize| gpus[*place].is_some_and(|other| std::ptr::eq(other, *gpu));
        let places: Vec<usize> = (0..gpus.len()).filter(is_its).collect();
        if turns[places[0]].is_none() {
            let first = take(gpu, places.len());
            (first..).zip(places).for_each(|(turn, place)| turns[place] = Some(turn));
        }
    }
    turns
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn those_of_one_gpu_have_lanes_of_their_own_whoever_else_takes_turns() {
        const LANES: usize = 8;
        let (one, other) = (Cell::new(0), Cell::new(3));
        let take = |gpu: &Cell<usize>, count| {
            // Somebody else takes a turn after each call.
            gpu.replace(gpu.get() + count + 1)
        };
        let mut gpus = vec![Some(&one); LANES];
        gpus.splice(2..2, [Some(&other), None, Some(&other)]);
        for _ in 0..LANES {
            let mut turns = turns(&gpus, take);
            let others: Vec<_> = turns.drain(2..5).collect();
            assert!(others[1].is_none() && others[2] == others[0].map(|turn| turn + 1));
            let mut lanes: Vec<_> = turns.iter().flatten().map(|turn| turn % LANES).collect();
            lanes.sort();
            assert!(lanes.into_iter().eq(0..LANES), "{turns:?}");
        }
    }
}
