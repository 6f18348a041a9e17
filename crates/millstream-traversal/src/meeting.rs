//! Which devices can go from phase to phase together.

use millstream_device::SharedSet;
use millstream_flow::{Context, Gang};

use crate::{Error, Result};

/// Whether the devices of a context can go from phase to phase together and change each other's
/// memory meanwhile: GPUs with NVLink, which meet in the barrier of a gang, or host devices,
/// whose twins meet. All must reach each other's memory, and packets must not be set to travel
/// [another way](Context::kernels_push) than by pushing.
///
/// ```
/// use millstream_flow::{Context, Devices};
/// use millstream_traversal::internals::can_meet;
///
/// assert!(can_meet(&Context::builder().devices(Devices::host(4)).build()?));
/// # Ok::<(), millstream_flow::Error>(())
/// ```
pub fn can_meet(context: &Context) -> bool {
    let are_hosts = || {
        context.devices().len() <= SharedSet::<u32>::MOST
            && !context.any_gpu()
            && context.topology().all_have_atomics()
    };
    context.kernels_push() && (Gang::can_meet(context) || are_hosts())
}

/// Whether PageRank by pulling and connected components of an uploaded graph send packets over links on
/// these devices. They do not where all devices reach each other's memory with atomics (up to eight GPUs
/// with NVLink, or up to 16 host devices, not both kinds), unless another [way](Context::transfer) than
/// pushing is asked for. Components of rows that are streamed always do.
///
/// ```
/// use millstream_device::TransferWay;
/// use millstream_flow::{Context, Devices};
/// use millstream_traversal::sends_packets;
///
/// let builder = || Context::builder().devices(Devices::host(4));
/// assert!(!sends_packets(&builder().build()?));
/// assert!(sends_packets(&builder().transfer(TransferWay::Copy).build()?));
/// # Ok::<(), millstream_flow::Error>(())
/// ```
pub fn sends_packets(context: &Context) -> bool {
    !can_meet(context)
}

/// Refuses a search whose devices meet if the context asks for another way for packets than pushing,
/// whatever its devices are.
///
/// # Errors
/// [`Error::NotPushed`].
pub fn check_kernels_push(context: &Context) -> Result<()> {
    match context.transfer() {
        Some(way) if !context.kernels_push() => Err(Error::NotPushed { way }),
        _ => Ok(()),
    }
}
