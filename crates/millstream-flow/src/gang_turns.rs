//! Whose turn it is to run kernels that wait for each other: of two such gangs on a GPU at once each
//! might hold what the other needs to start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use futures_util::lock::Mutex;
use millstream_device::Device;
use parking_lot::Mutex as ShortMutex;

use crate::gang_permit::GangPermit;

type Turn = Arc<Mutex<()>>;

/// Of each GPU that a context of the process has, by its number.
static GPUS: ShortMutex<BTreeMap<usize, Weak<Mutex<()>>>> = ShortMutex::new(BTreeMap::new());

/// The turns that a context's gangs take: on its GPUs with all others of the process, on host devices
/// alone among themselves.
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
        // In the order of the GPUs' numbers, as everybody: nobody waits in a circle.
        let mut turns = Vec::with_capacity(self.0.len());
        for turn in self.0.iter() {
            turns.push(Arc::clone(turn).lock_owned().await);
        }
        GangPermit::new(turns)
    }
}
