//! A search whose devices work on it together: GPUs as a gang, host devices by twins.

use std::time::{Duration, Instant};

use millstream_device::{BoundKernel, Kernel, Parameter, SharedBuffer};
use millstream_flow::{Context, Gang, GangMember};

/// Runs a search: how long it took, and what the devices did. Where all of them are GPUs, they run
/// `kernel` as a gang (see [`Gang::run_kernel`]), and what they did is `reported` then; else `twins`
/// search.
///
/// # Errors
/// Those of [`Gang::run_kernel`], `reported` and `twins`.
///
/// # Cancel safety
/// That of [`Gang::run_kernel`] and of `twins`.
pub async fn run_gang_or_twins<S: Parameter + 'static, T, E: From<millstream_flow::Error>>(
    context: &Context,
    kernel: impl FnOnce() -> &'static Kernel<S>,
    mut bind: impl FnMut(
        &Kernel<S>,
        &SharedBuffer<u32>,
        GangMember<'_>,
    ) -> millstream_flow::Result<BoundKernel>,
    reported: impl Future<Output = Result<T, E>>,
    twins: impl Future<Output = Result<T, E>>,
) -> Result<(Duration, T), E> {
    if context.all_gpus() {
        let kernel = kernel();
        let bind = |host: &_, member: GangMember<'_>| bind(kernel, host, member);
        let time = Gang::run_kernel(context, kernel, bind).await?;
        Ok((time, reported.await?))
    } else {
        let start = Instant::now();
        let done = twins.await?;
        Ok((start.elapsed(), done))
    }
}
