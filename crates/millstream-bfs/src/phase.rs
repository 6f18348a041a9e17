//! What host devices that search level by level do next: the twin of
//! `LevelSearch::decide` in `levels.cuh`. See `LEVELS.md`.

/// What the devices do until they meet again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Claim the sources.
    Seed,
    /// Top-down: claim the vertices at the ends of the frontier's arcs.
    Expand,
    /// Bottom-up: look for visited neighbours.
    Sweep,
    /// Make a list of the frontier from bits.
    Gather,
    /// Nothing.
    Finished,
}

/// When to go which way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Vertices that have arcs, or are sources.
    pub(crate) connected: u64,
    pub(crate) depth_limit: u32,
    /// Bottom-up if the frontier times this is more than what is not visited.
    pub(crate) alpha: u32,
    /// Top-down if the frontier times this is less.
    pub(crate) beta: u32,
}

/// What all devices have counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) rows: u64,
    pub(crate) visited: u64,
}

/// Follows a search.
#[derive(Clone, Debug)]
pub(crate) struct Pilot {
    pub(crate) rules: Rules,
    pub(crate) phase: Phase,
    /// Of the vertices being found.
    pub(crate) level: u32,
    /// Totals when the last frontier was complete.
    kept: Totals,
}

impl Pilot {
    pub(crate) fn new(rules: Rules) -> Pilot {
        Pilot { rules, phase: Phase::Seed, level: 0, kept: Totals::default() }
    }

    /// Goes on to the next phase.
    pub(crate) fn advance(&mut self, totals: Totals) {
        self.phase = self.next(totals);
        if matches!(self.phase, Phase::Expand | Phase::Sweep) {
            self.level += 1;
        }
    }

    fn next(&mut self, totals: Totals) -> Phase {
        let Rules { connected, depth_limit, alpha, beta } = self.rules;
        let left = connected - totals.visited;
        match self.phase {
            Phase::Gather => {
                self.kept.rows = totals.rows;
                Phase::Expand
            }
            Phase::Sweep => {
                let found = totals.visited - self.kept.visited;
                self.kept.visited = totals.visited;
                match found == 0 || self.level == depth_limit {
                    true => Phase::Finished,
                    false if found * u64::from(beta) < left => Phase::Gather,
                    false => Phase::Sweep,
                }
            }
            _ => {
                let rows = totals.rows - self.kept.rows;
                self.kept = totals;
                match rows == 0 || self.level == depth_limit {
                    true => Phase::Finished,
                    false if rows * u64::from(alpha) <= left => Phase::Expand,
                    false => Phase::Sweep,
                }
            }
        }
    }
}
