//! How much memory may be allocated, and how much has been.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use sysinfo::{
    CGroupLimits, MemoryRefreshKind, ProcessRefreshKind, ProcessesToUpdate, RefreshKind, System,
};

/// Memory of a device in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Allocated now; shared by all virtual devices of a physical one.
    pub in_use: u64,
    /// The most that was allocated at once.
    pub peak: u64,
    /// What may be allocated, if that is limited.
    pub budget: Option<u64>,
}

/// Memory of a physical device.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    state: Mutex<MemoryUse>,
    /// The budget that this one is part of.
    whole: Option<Arc<MemoryBudget>>,
}

/// The whole process's memory of the host. Without this limit, more could be promised than the
/// machine has, and the process would be killed once the memory is written to.
static MACHINE: LazyLock<Arc<MemoryBudget>> =
    LazyLock::new(|| Arc::new(MemoryBudget::new(machine_bytes())));

impl MemoryBudget {
    /// Memory that is part of nothing larger.
    pub(crate) fn new(budget: Option<u64>) -> MemoryBudget {
        MemoryBudget { state: Mutex::new(MemoryUse { in_use: 0, peak: 0, budget }), whole: None }
    }

    /// Memory of the host; all such budgets together are limited to what the process may have.
    pub(crate) fn of_host(budget: Option<u64>) -> MemoryBudget {
        MemoryBudget { whole: Some(Arc::clone(&MACHINE)), ..MemoryBudget::new(budget) }
    }

    /// What the host and all host devices of the process use together.
    pub(crate) fn of_machine() -> MemoryUse {
        MACHINE.in_use()
    }

    pub(crate) fn in_use(&self) -> MemoryUse {
        *self.state.lock()
    }

    /// Takes `bytes`.
    ///
    /// # Errors
    /// The use of the budget, this one or the larger one, that has fewer bytes left.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), MemoryUse> {
        let mut memory = self.state.lock();
        let wanted = memory.in_use.saturating_add(bytes);
        if memory.budget.is_some_and(|budget| wanted > budget) {
            return Err(*memory);
        }
        if let Some(whole) = &self.whole {
            whole.take(bytes)?;
        }
        memory.in_use = wanted;
        memory.peak = memory.peak.max(wanted);
        Ok(())
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        let mut memory = self.state.lock();
        memory.in_use = memory.in_use.saturating_sub(bytes);
        drop(memory);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }
}

/// The bytes of this machine's memory that the process may use, swapped out or not; `None` if that
/// is unknown.
fn machine_bytes() -> Option<u64> {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::everything());
    let system = System::new_with_specifics(memory).ok()?;
    let machine = system.total_memory().saturating_add(system.total_swap());
    // The limits of the container, and of the job or service, in which the process runs.
    let groups = [system.cgroup_limits(), own_group()].into_iter().flatten();
    let groups = groups.map(|group| group.total_memory.saturating_add(group.free_swap));
    groups.chain([machine]).min().filter(|bytes| *bytes > 0)
}

/// The limits of this process's own group.
fn own_group() -> Option<CGroupLimits> {
    let mut system = System::new().ok()?;
    let process = sysinfo::get_current_pid().ok()?;
    let (processes, nothing) = ([process], ProcessRefreshKind::nothing());
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&processes), false, nothing);
    system.process(process)?.cgroup_limits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_limits_its_parts() {
        let whole = Arc::new(MemoryBudget::new(Some(100)));
        let part =
            |budget| MemoryBudget { whole: Some(Arc::clone(&whole)), ..MemoryBudget::new(budget) };
        let (one, other) = (part(None), part(Some(50)));
        one.take(60).unwrap();
        assert_eq!(other.take(51).unwrap_err().budget, Some(50));
        let refused = other.take(41).unwrap_err();
        assert_eq!((refused.budget, refused.in_use), (Some(100), 60));
        assert_eq!(other.in_use().in_use, 0);
        other.take(40).unwrap();
        one.give_back(60);
        assert_eq!((whole.in_use().in_use, whole.in_use().peak), (40, 100));
    }

    #[test]
    fn the_machine_has_memory() {
        assert!(machine_bytes().is_some_and(|bytes| bytes > 1 << 26));
    }
}
