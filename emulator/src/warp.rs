//! What a thread waits for, and who else must come.

/// Values of the lanes of a warp.
pub(crate) type Values = [u64; 32];

/// What a lane that is no part of an operation seems to say.
pub(crate) const NOBODY: u64 = 0xA5A5_A5A5_A5A5_A5A5;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wait {
    /// The lanes of a mask, in the same operation; where the values are wanted.
    Lanes { mask: u32, operation: u32, value: u64, values: *mut Values },
    /// Threads of the block at one of its barriers.
    Barrier(usize),
}

impl std::fmt::Display for Wait {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wait::Lanes { mask, operation, .. } => {
                let names = ["shuffle", "vote", "reduction", "match", "__syncwarp"];
                let name = names.get(*operation as usize).unwrap_or(&"operation");
                write!(formatter, "lanes {mask:#x} in a {name}")
            }
            Wait::Barrier(which) => write!(formatter, "barrier {which}"),
        }
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// `None` if it runs, or could.
    pub(crate) wait: Option<Wait>,
    /// What the last barrier answered.
    pub(crate) answer: u32,
    pub(crate) has_ended: bool,
}

/// The values of the lanes of `mask`, if all of them wait for each other; lanes that have
/// ended say 0.
pub(crate) fn meet(lanes: &[State], mask: u32, operation: u32) -> Option<Values> {
    let mut values = [NOBODY; 32];
    for (lane, value) in values.iter_mut().enumerate().filter(|(lane, _)| mask >> lane & 1 == 1) {
        *value = match lanes.get(lane) {
            None | Some(State { has_ended: true, .. }) => 0,
            Some(State {
                wait: Some(Wait::Lanes { mask: others, operation: other, value, .. }),
                ..
            }) if (*others, *other) == (mask, operation) => *value,
            Some(_) => return None,
        };
    }
    Some(values)
}
