//! Turns of gangs, whose kernels wait for each other: if two gangs shared a GPU, each might hold
//! what the other needs to start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use futures_util::lock::Mutex;
use millstream_device::Device;
use parking_lot::Mutex as ShortMutex;

use crate::gang_permit::GangPermit;

type Turn = Arc<Mutex<()>>;

/// The turns of all GPUs that contexts of this process use, by GPU number.
static GPUS: ShortMutex<BTreeMap<usize, Weak<Mutex<()>>>> = ShortMutex::new(BTreeMap::new());

/// The turns that a context's gangs take. GPUs are shared with all other gangs of the process; a
/// context of host devices only has a turn of its own.
#[derive(Clone, Debug)]
pub(crate) struct GangTurns(Arc<[Turn]>);

impl GangTurns {
    pub(crate) fn new(devices: &[Device]) -> GangTurns {
        // Virtual devices of one GPU have its number.
        let gpus: BTreeSet<_> = devices.iter().filter_map(Device::gpu_number).collect();
        if gpus.is_empty() {
            return GangTurns(Arc::new([Turn::default()]));
        }
        let mut known = GPUS.lock();
        known.retain(|_, turn| turn.strong_count() > 0);
        let mut turn = |gpu| {
            let turn = known.get(&gpu).and_then(Weak::upgrade).unwrap_or_default();
            known.insert(gpu, Arc::downgrade(&turn));
            turn
        };
        GangTurns(gpus.into_iter().map(&mut turn).collect())
    }

    /// Waits until no gang runs on the devices; the permit ends when it is dropped.
    pub(crate) async fn take(&self) -> GangPermit {
        // Everybody takes turns in the order of GPU numbers, so no cycle of waiting can arise.
        let mut turns = Vec::with_capacity(self.0.len());
        for turn in self.0.iter() {
            turns.push(Arc::clone(turn).lock_owned().await);
        }
        GangPermit::new(turns)
    }
}
