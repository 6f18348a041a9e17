//! How many arcs of each row stay within a step, counted by quarters of the step: GPUs look the counts
//! up (`step_quarters.cuh`), host devices compare weights as they go.

use futures_util::future::try_join_all;
use millstream_device::{
    CudaSource, Kernel, Read, Shared, SharedBuffer, Trusted, Value, cuda_text,
};

use crate::Result;
use crate::rule::DistanceRule;
use crate::step_search::{StepSearch, types};

/// Counts of a row: `StepQuarters` of `step_quarters.cuh`.
const QUARTERS: usize = 4;

type Signature<W> = (Read<u64>, Read<W>, Shared<u32>, Value<u32>);

/// How many light arcs each row has, by quarters of a step, for one step width; kept from search to search.
#[derive(Debug)]
pub(crate) struct LightArcCounts {
    /// The bits of the step's width.
    delta: u32,
    of_devices: Vec<SharedBuffer<u32>>,
}

impl<R: DistanceRule> StepSearch<'_, R> {
    /// Each device's counts for steps of `delta`, computed anew if the last search had another step.
    /// Searches only read them.
    ///
    /// # Cancel safety
    /// Cancel safe: incomplete counts are not kept.
    pub(crate) async fn lights(&self, delta: u32) -> Result<Vec<SharedBuffer<u32>>> {
        let mut known = self.graph.lights.lock().await;
        if let Some(lights) = known.as_ref().filter(|lights| lights.delta == delta) {
            return Ok(lights.of_devices.clone());
        }
        let of_devices = self.count_lights(delta).await?;
        *known = Some(LightArcCounts { delta, of_devices: of_devices.clone() });
        Ok(of_devices)
    }

    async fn count_lights(&self, delta: u32) -> Result<Vec<SharedBuffer<u32>>> {
        let context = self.graph.incoming.context();
        let kernel = kernel::<R>();
        let (mut counted, mut completions) = (Vec::new(), Vec::new());
        for (place, device) in context.devices().iter().enumerate() {
            let (offsets, _, weights) = self.outgoing(place);
            let (rows, stream) = (offsets.len() - 1, device.stream()?);
            let lights = device.shared(rows * QUARTERS)?;
            kernel.launch(&stream, rows, (offsets, weights, &lights, delta))?;
            completions.push(stream.completed()?);
            counted.push(lights);
        }
        try_join_all(completions).await?;
        Ok(counted)
    }
}

fn kernel<R: DistanceRule>() -> Kernel<Signature<R::Weight>> {
    // SAFETY: the kernel keeps to its arguments as the signature says.
    let source = unsafe { Trusted::new(cuda_source::<R>()) };
    Kernel::without_twin("lights", source, "host devices look at weights as they go")
}

pub(crate) fn cuda_source<R: DistanceRule>() -> CudaSource {
    const TEXT: &str = cuda_text!("step_quarters.cuh", "step_lights.cuh");
    CudaSource::generated("step_lights.cuh", "lights", types::<R, u32>() + TEXT)
}
