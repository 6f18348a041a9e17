//! Trouble on purpose: delays, reordering and failures of host devices; delays on GPUs.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::{Error, Result};

/// What to inject, the same way for the same seed (on simulated devices).
///
/// ```
/// use millstream_device::{InjectedFault, Injection};
///
/// let injection = Injection {
///     seed: 7,
///     faults: vec![InjectedFault::new("copy").on("host:1").occurrence(3)],
///     ..Injection::default()
/// };
/// # let _ = injection;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injection {
    /// Chooses delays.
    pub seed: u64,
    /// How long each operation of a host device waits before it runs: real time on
    /// threads, virtual time in a simulation. On GPUs, how long the fused worker leaves a
    /// packet in its inbox, a millisecond at most. An empty range is refused when the devices
    /// are opened.
    pub delay: Option<RangeInclusive<Duration>>,
    /// Simulated devices favour some streams for a while, instead of choosing
    /// evenly: schedules that starve somebody.
    pub reorder: bool,
    /// Operations that fail.
    pub faults: Vec<InjectedFault>,
}

impl Injection {
    pub(crate) fn check(&self) -> Result<()> {
        match &self.delay {
            Some(delay) if delay.is_empty() => {
                let (start, end) = (delay.start(), delay.end());
                let reason =
                    format!("the delay's least, {start:?}, is more than its most, {end:?}");
                Err(Error::Injection { reason })
            }
            _ => Ok(()),
        }
    }

    /// Checks that all faults name existing devices.
    pub(crate) fn check_devices<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<()> {
        let names: Vec<_> = names.collect();
        let mut wanted = self.faults.iter().filter_map(|fault| fault.device.as_deref());
        match wanted.find(|wanted| !names.contains(wanted)) {
            None => Ok(()),
            Some(wanted) => {
                let reason = format!("no device {wanted}, only {}", names.join(", "));
                Err(Error::Injection { reason })
            }
        }
    }
}

/// An operation that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedFault {
    pub(crate) operation: String,
    pub(crate) device: Option<String>,
    pub(crate) occurrence: u64,
}

impl InjectedFault {
    /// The first operation whose name contains `operation`: a [kernel's name](crate::Kernel::name),
    /// `copy`, `upload`, `download`, `fill` or `allocate`; a [trace](crate::DeviceSetBuilder::trace)
    /// has the names of what runs. If there is none, nothing fails: see
    /// [`DeviceSet::faults_left`](crate::DeviceSet::faults_left).
    pub fn new(operation: impl Into<String>) -> InjectedFault {
        InjectedFault { operation: operation.into(), device: None, occurrence: 0 }
    }

    /// Counts operations of this device only, which must be one of those that are opened.
    #[must_use]
    pub fn on(self, device: impl Into<String>) -> InjectedFault {
        InjectedFault { device: Some(device.into()), ..self }
    }

    /// Fails after `occurrence` operations that match.
    #[must_use]
    pub fn occurrence(self, occurrence: u64) -> InjectedFault {
        InjectedFault { occurrence, ..self }
    }
}
