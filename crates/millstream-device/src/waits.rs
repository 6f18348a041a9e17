//! What tasks of the layers above wait for, beside the operations of devices.

use std::sync::Weak;

use parking_lot::Mutex;

/// Something whose tasks may wait for each other, such as a dataflow graph. A simulation that
/// stands still asks it what they wait for
/// ([`DeviceSet::report_waits_of`](crate::DeviceSet::report_waits_of)).
pub trait Waits: Send + Sync {
    /// What is waited for at present, a line each. It must not wait for anybody.
    fn waits(&self) -> Vec<String>;
}

/// Those to be asked.
#[derive(Default)]
pub(crate) struct WaitReports {
    of: Mutex<Vec<Weak<dyn Waits>>>,
}

impl WaitReports {
    pub(crate) fn add(&self, of: Weak<dyn Waits>) {
        let mut all = self.of.lock();
        // They come and go: a look for those that are gone is made when it is cheap.
        if all.len() == all.capacity() {
            all.retain(|known| known.strong_count() > 0);
            let live = all.len();
            all.reserve(live);
        }
        all.push(of);
    }

    /// What they say.
    pub(crate) fn lines(&self) -> Vec<String> {
        // Asked without the lock: the last reference to one may go here.
        let all = self.of.lock().clone();
        all.iter().filter_map(Weak::upgrade).flat_map(|of| of.waits()).collect()
    }
}
