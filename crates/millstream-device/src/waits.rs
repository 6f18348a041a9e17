//! What tasks of the layers above wait for, in addition to operations of devices.

use std::sync::Weak;

use parking_lot::Mutex;

/// Something whose tasks may wait for each other, such as a dataflow graph. A simulation that
/// stands still asks it what they wait for
/// ([`DeviceSet::report_waits_of`](crate::DeviceSet::report_waits_of)).
pub trait Waits: Send + Sync {
    /// What is being waited for at present, one line each. This must not wait for anybody.
    fn waits(&self) -> Vec<String>;
}

/// The parts that can report what they wait for.
#[derive(Default)]
pub(crate) struct WaitReports {
    of: Mutex<Vec<Weak<dyn Waits>>>,
}

impl WaitReports {
    pub(crate) fn add(&self, of: Weak<dyn Waits>) {
        let mut all = self.of.lock();
        // They come and go: remove dead ones whenever that is cheap.
        if all.len() == all.capacity() {
            all.retain(|known| known.strong_count() > 0);
            let live = all.len();
            all.reserve(live);
        }
        all.push(of);
    }

    /// The lines of all reports.
    pub(crate) fn lines(&self) -> Vec<String> {
        // Asked without the lock: the last reference to one of them may be dropped here.
        let all = self.of.lock().clone();
        all.iter().filter_map(Weak::upgrade).flat_map(|of| of.waits()).collect()
    }
}
