//! Settings that the CUDA driver reads when it starts.

use crate::environment::variable;

/// The driver's settings: environment variable, value, and what may happen without it.
const DEFAULTS: [(&str, &str, &str); 2] = [
    ("CUDA_DEVICE_MAX_CONNECTIONS", "12", "kernels that wait may hold up other streams"),
    ("CUDA_MODULE_LOADING", "EAGER", "loading a kernel may wait for those that run"),
];

/// Sets `CUDA_DEVICE_MAX_CONNECTIONS` to 12 and `CUDA_MODULE_LOADING` to `EAGER`, unless they are
/// already set. The driver reads both when it starts. Twelve hardware queues are enough that a
/// kernel that waits does not block unrelated streams; more would make opening and closing a GPU
/// slower. Eager loading makes sure that kernels are loaded before they are launched, since loading
/// one waits for those that run. Programs call this first in `main`. If there may be a second
/// thread, which could be reading the environment, nothing is changed, and
/// [`DeviceSet::warnings`](crate::DeviceSet::warnings) says so. `#[tokio::main]` starts threads
/// before `main` begins; with tokio, call this first, and then build the runtime by hand.
///
/// ```
/// fn main() -> millstream_device::Result<()> {
///     millstream_device::set_driver_defaults();
///     let set = millstream_device::DeviceSet::builder().build()?;
///     assert_eq!(set.devices().len(), 4);
///     Ok(())
/// }
/// ```
pub fn set_driver_defaults() {
    if !is_only_thread() {
        return;
    }
    for (name, value, _) in DEFAULTS {
        if variable(name).is_none() {
            // SAFETY: no other thread runs that could read the environment meanwhile, and only
            // this one could start any.
            unsafe { std::env::set_var(name, value) };
        }
    }
}

/// Whether the process is known to have one thread.
fn is_only_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// What it may cost that the driver did not get these settings.
#[cfg_attr(not(feature = "cuda"), expect(dead_code))]
pub(crate) fn warning() -> Option<String> {
    let unset: Vec<_> = DEFAULTS.iter().filter(|(name, ..)| variable(name).is_none()).collect();
    let names: Vec<_> = unset.iter().map(|(name, ..)| *name).collect();
    let costs: Vec<_> = unset.iter().map(|(.., cost)| *cost).collect();
    let values: Vec<_> = unset.iter().map(|(name, value, _)| format!("{name}={value}")).collect();
    let verb = if unset.len() == 1 { "is" } else { "are" };
    (!unset.is_empty()).then(|| {
        format!(
            "{} {verb} not set, so that {}; set {}, or call \
             millstream::device::set_driver_defaults first in main, before an executor starts threads",
            names.join(" and "),
            costs.join(", and "),
            values.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test runs in a thread beside the process's first.
    #[test]
    fn nothing_is_set_beside_other_threads() {
        assert!(!is_only_thread());
        let before = DEFAULTS.map(|(name, ..)| std::env::var_os(name));
        set_driver_defaults();
        assert_eq!(DEFAULTS.map(|(name, ..)| std::env::var_os(name)), before);
    }
}
