//! The words by which the kernels of a communicator's ranks meet.

use std::sync::Arc;

use millstream_device::{
    Accesses, Argument, ArgumentWriter, Bound, Parameter, Shared, SharedBuffer, SharedSet,
};

use super::rank_settings::MOST_RANKS;
use crate::Result;
use crate::context::Context;
use crate::gang::{IS_STOPPED, PEER_IS_LATE, STOP};

/// Where the numbers begin: `host_words` of `gang.cuh`.
pub(super) const BEGUN: usize = STOP + 1;

/// What every kernel takes, bound only once: nobody copies the memory, the host's words are touched
/// by atomics only, and all ranks are peers, so a launch has nothing left to check.
#[derive(Debug)]
pub(super) struct PeerWords {
    /// Each rank's memory: the words that the others write, their lines, and the channels.
    memory: Arc<[Bound]>,
    host: Bound,
    /// The reason to end the kernels, if any, and for each rank the number of the last collective
    /// that its GPU has come to.
    host_words: SharedBuffer<u32>,
}

impl PeerWords {
    /// Words of a context's ranks; each rank has `words` of them.
    pub(super) fn new(context: &Context, words: usize) -> Result<PeerWords> {
        let memory = context.devices().iter().map(|device| {
            Ok(device.shared::<u64>(words)?.with_label(format!("collectives' words of {device}")))
        });
        let memory = memory.collect::<Result<Vec<_>>>()?;
        let memory: Vec<_> = memory.iter().collect();
        let host_words = context.host().shared(BEGUN + MOST_RANKS)?;
        let mut accesses = Accesses::default();
        Ok(PeerWords {
            memory: Argument::<SharedSet<u64>>::bind(&memory[..], &mut accesses)?,
            host: Argument::<Shared<u32>>::bind(&host_words, &mut accesses)?,
            host_words,
        })
    }

    /// Why the kernels are to end, if they are.
    pub(super) fn why_stopped(&self) -> Result<Option<&'static str>> {
        Ok(match self.host_words.load(STOP)? {
            0 => None,
            PEER_IS_LATE => Some("a peer did not come in time"),
            _ => Some("it was stopped"),
        })
    }

    /// Ends the kernels: they may be waiting for one that will not come.
    pub(super) fn stop(&self) {
        // A kernel that does not see this runs out of patience.
        let _ = self.host_words.store(STOP, IS_STOPPED);
    }

    /// Whether a rank's GPU is known to have come to the collective of this number.
    pub(super) fn has_begun(&self, rank: u32, epoch: u64) -> bool {
        // The numbers of a series are near each other, so their lower halves tell which one is greater.
        let ahead = |begun: u32| begun.wrapping_sub(epoch as u32) as i32 >= 0;
        // If the word cannot be read, assume that it has, so that nobody waits.
        self.host_words.load(BEGUN + rank as usize).map_or(true, ahead)
    }

    /// Records what a kernel of that rank would.
    #[cfg(test)]
    pub(super) fn say_begun(&self, rank: usize, epoch: u32) -> Result<()> {
        Ok(self.host_words.store(BEGUN + rank, epoch)?)
    }
}

/// The form in which kernels take the words: `SpanSet<u64>` and `Span<u32>`.
// SAFETY: words are given out as words.
unsafe impl Parameter for PeerWords {
    type Bound = Arc<PeerWords>;
    type View<'a> = &'a PeerWords;

    fn write(bound: &Arc<PeerWords>, to: &mut ArgumentWriter) {
        SharedSet::<u64>::write(&bound.memory, to);
        Shared::<u32>::write(&bound.host, to);
    }

    unsafe fn view(bound: &Arc<PeerWords>) -> &PeerWords {
        bound
    }
}

// SAFETY: the words are only used by atomics, whoever uses them.
unsafe impl Argument<PeerWords> for &Arc<PeerWords> {
    fn bind(self, _: &mut Accesses) -> millstream_device::Result<Arc<PeerWords>> {
        Ok(Arc::clone(self))
    }
}
