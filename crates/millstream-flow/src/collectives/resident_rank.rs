//! What a rank's kernels take in order to call collectives themselves: `ResidentCollectives` of
//! `block_collectives.cuh`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use millstream_device::{
    Accesses, Argument, ArgumentWriter, Error, KernelFault, Parameter, Shared, SharedBuffer,
    SharedSet, Value,
};
use parking_lot::{Mutex, MutexGuard};

use super::block_collectives::{BlockCollectives, Standing};
use super::resident::{BlockSettings, ResidentCollectives};
use crate::Context;
use crate::full_empty::Attention;
use crate::gang::{NO_MEMORY, NOT_LEFT, PEER_IS_LATE, give_up, stop_word};
use crate::patience::Patience;

/// [`ResidentCollectives`] as a kernel's parameter, at its rank. GPUs take
/// `millstream::ResidentCollectives` by value; the twin sees [`ResidentRankView`]. A launch passes
/// the collectives, the gang's words and the rank, which is the device's place in the context:
/// `(&collectives, &words, member.place)`.
#[derive(Debug)]
pub struct ResidentRank;

type Parts = (SharedSet<u64>, Shared<u32>, Value<BlockSettings>);

/// Collectives that a launch holds.
#[derive(Debug)]
#[doc(hidden)]
pub struct HeldRank {
    parts: <Parts as Parameter>::Bound,
    /// One for each block; `None` before its first step.
    standings: Box<[Mutex<Option<Standing>>]>,
    patience: Patience,
    context: Context,
    /// Set while a twin waits; GPUs look at the time themselves.
    attention: OnceLock<Attention>,
}

// SAFETY: the parts keep the promise, and are given out as what they are.
unsafe impl Parameter for ResidentRank {
    type Bound = HeldRank;
    type View<'a> = ResidentRankView<'a>;

    fn write(bound: &HeldRank, to: &mut ArgumentWriter) {
        Parts::write(&bound.parts, to);
    }

    unsafe fn view(bound: &HeldRank) -> ResidentRankView<'_> {
        // SAFETY: the caller's promise covers every part.
        let (memory, host, settings) = unsafe { Parts::view(&bound.parts) };
        bound.attention.get_or_init(|| bound.context.watcher().attend());
        ResidentRankView { memory, host, settings, held: bound }
    }
}

/// The collectives, the words of the gang, and the rank, which must exist.
// SAFETY: the parts keep the promise, and nothing else is held.
unsafe impl Argument<ResidentRank> for (&ResidentCollectives, &SharedBuffer<u32>, usize) {
    fn bind(self, accesses: &mut Accesses) -> millstream_device::Result<HeldRank> {
        let (collectives, host, rank) = self;
        let memory: Vec<_> = collectives.memory.iter().collect();
        if rank >= memory.len() {
            let (buffer, len) = ("memory of resident collectives".to_string(), memory.len());
            return Err(Error::OutOfRange {
                buffer,
                start: rank,
                end: rank.saturating_add(1),
                len,
            });
        }
        let settings = collectives.settings(rank);
        Ok(HeldRank {
            parts: Argument::<Parts>::bind((&memory[..], host, settings), accesses)?,
            standings: (0..settings.blocks()).map(|_| Mutex::new(None)).collect(),
            patience: collectives.patience(),
            context: collectives.context.clone(),
            attention: OnceLock::new(),
        })
    }
}

/// What the host twin of a kernel sees of [`ResidentCollectives`]: its blocks'
/// [collectives](Self::block).
#[derive(Debug)]
pub struct ResidentRankView<'a> {
    pub(super) memory: Vec<&'a [AtomicU64]>,
    host: &'a [AtomicU32],
    pub(super) settings: BlockSettings,
    held: &'a HeldRank,
}

impl<'a> ResidentRankView<'a> {
    /// The rank.
    pub fn rank(&self) -> usize {
        self.settings.rank()
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.settings.ranks()
    }

    /// The collectives of `block`, at the place where the block is in its calls.
    ///
    /// # Errors
    /// A block whose collectives were already taken in this step.
    /// [Early returns](KernelFault::early_return), for which the gang fails: a block for which
    /// there is no memory; a block that did not [leave](BlockCollectives::leave) in an earlier
    /// kernel.
    pub fn block(&self, block: usize) -> Result<BlockCollectives<'_>, KernelFault> {
        let standing = self.held.standings.get(block).zip(self.own(block));
        let (standing, own) = standing.ok_or_else(|| self.give_up(NO_MEMORY))?;
        let has_it = || KernelFault::new(format!("block {block} has its collectives already"));
        let mut standing = standing.try_lock().ok_or_else(has_it)?;
        if standing.is_none() {
            *standing = Some(Standing::enter(own).ok_or_else(|| self.give_up(NOT_LEFT))?);
        }
        let standing = MutexGuard::try_map(standing, Option::as_mut).map_err(|_| has_it())?;
        Ok(BlockCollectives::new(self, block, own, standing))
    }

    /// The word that keeps a block's epoch.
    fn own(&self, block: usize) -> Option<&'a AtomicU64> {
        self.memory.get(self.rank())?.get(block)
    }

    /// Makes those who wait look again.
    pub(super) fn ring(&self) {
        self.held.context.device_set().bell().ring();
    }

    /// Whether a twin should go on waiting for a line that it has missed since `since`.
    pub(super) fn goes_on(&self, since: Instant) -> Result<(), KernelFault> {
        // Relaxed: the word itself is all that is communicated.
        if stop_word(self.host)?.load(Ordering::Relaxed) != 0 {
            return Err(KernelFault::early_return());
        }
        if self.held.patience.is_over(since) {
            return Err(self.give_up(PEER_IS_LATE));
        }
        Ok(())
    }

    /// Fails the gang for this reason, unless it has been stopped already, and makes the others stop.
    fn give_up(&self, reason: u32) -> KernelFault {
        let fault = stop_word(self.host).map(|stop| give_up(stop, reason));
        self.ring();
        fault.unwrap_or_else(|fault| fault)
    }
}
