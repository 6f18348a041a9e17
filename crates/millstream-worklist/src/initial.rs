//! Items that a worklist begins with.

use rayon::prelude::*;

use crate::program::Program;
use crate::{Error, Result};

/// The fewest items that a thread checks.
const PIECE: usize = 1 << 16;

/// Checks that all initial items exist, and are given to the devices that own them: other devices may
/// have no memory for what an item stands for.
pub(crate) fn check_initial<P: Program>(
    program: &P,
    initial: &[(usize, u32)],
    items: usize,
    devices: usize,
) -> Result<()> {
    let check = |&(device, item): &(usize, u32)| {
        if device >= devices || item as usize >= items {
            return Err(Error::InitialItem { device, item, items, devices });
        }
        match program.owner(item).filter(|&owner| owner != device) {
            Some(owner) => Err(Error::NotTheOwner { device, item, owner }),
            None => Ok(()),
        }
    };
    match initial.len() {
        ..PIECE => initial.iter().try_for_each(check),
        _ => initial.par_iter().with_min_len(PIECE).try_for_each(check),
    }
}
