//! What is made on all devices of a context when a graph is uploaded.

use std::panic::resume_unwind;
use std::thread::{self, Builder};

use futures_util::future::try_join_all;
use millstream_device::{Completion, Device, Error as DeviceError, Stream};
use millstream_flow::Context;

/// Calls `make` for each device with its one of `items`, waits for the streams, and returns what was made,
/// in the order of devices. Large uploads block the thread that calls them, so each of several GPUs gets
/// its own thread here.
///
/// # Errors
/// The error of `make` on the first device for which it fails; a device that failed; no thread.
///
/// # Cancel safety
/// Cancel safe: what was made is dropped.
///
/// # Device ordering
/// When it resolves, what was made is visible to every stream of its device.
pub async fn on_each_device<I: Send, T: Send, E: From<DeviceError> + Send>(
    context: &Context,
    items: impl IntoIterator<Item = I>,
    make: impl Fn(usize, &Stream, I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let make = |place: usize, device: &Device, item: I| -> Result<(T, Completion), E> {
        let stream = device.stream()?;
        let made = make(place, &stream, item)?;
        Ok((made, stream.completed()?))
    };
    let devices = context.devices().iter().zip(items).enumerate();
    let made: Result<Vec<(T, Completion)>, E> = match context.all_gpus()
        && context.devices().len() > 1
    {
        false => devices.map(|(place, (device, item))| make(place, device, item)).collect(),
        true => thread::scope(|scope| {
            let make = &make;
            let begin = |(place, (device, item))| {
                let thread = Builder::new().name("millstream-upload".to_string());
                let thread = thread.spawn_scoped(scope, move || make(place, device, item));
                thread.map_err(|error| DeviceError::Start { reason: error.to_string() })
            };
            let threads = devices.map(begin).collect::<Result<Vec<_>, _>>()?;
            threads.into_iter().map(|it| it.join().unwrap_or_else(|it| resume_unwind(it))).collect()
        }),
    };
    let (made, completions): (Vec<_>, Vec<_>) = made?.into_iter().unzip();
    try_join_all(completions).await?;
    Ok(made)
}
