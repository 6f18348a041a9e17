//! Items that a worklist begins with.

use crate::program::Program;
use crate::{Error, Result};

/// Whether all initial items exist, on devices that own them: others have no memory for what an item
/// stands for.
pub(crate) fn check_initial<P: Program>(
    program: &P,
    initial: impl IntoIterator<Item = (usize, u32)>,
    items: usize,
    devices: usize,
) -> Result<()> {
    for (device, item) in initial {
        if device >= devices || item as usize >= items {
            return Err(Error::InitialItem { device, item, items, devices });
        }
        if let Some(owner) = program.owner(item).filter(|&owner| owner != device) {
            return Err(Error::NotTheOwner { device, item, owner });
        }
    }
    Ok(())
}
