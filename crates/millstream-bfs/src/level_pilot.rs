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
    /// List the frontier's vertices from the visited bits.
    Gather,
    /// Nothing more.
    Finished,
}

/// When to go top-down, and when bottom-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Vertices that have arcs, or are sources.
    pub(crate) connected: u64,
    pub(crate) depth_limit: u32,
    /// Bottom-up if the frontier's vertices, times this, outnumber those not visited, and the frontier grows.
    pub(crate) alpha: u32,
    /// Top-down again if the frontier's vertices, times this, are fewer than those not visited.
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
    /// The level of the vertices being found.
    pub(crate) level: u32,
    /// The totals when the last frontier was complete.
    kept: Totals,
    /// The rows of the last frontier that did not come from a sweep.
    rows: u64,
}

impl Pilot {
    pub(crate) fn new(rules: Rules) -> Pilot {
        Pilot { rules, phase: Phase::Seed, level: 0, kept: Totals::default(), rows: 0 }
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
                // If it hardly grows, as in a mesh, few unvisited vertices have a visited neighbour.
                let grows = rows * 8 >= std::mem::replace(&mut self.rows, rows) * 9;
                match rows == 0 || self.level == depth_limit {
                    true => Phase::Finished,
                    false if grows && rows * u64::from(alpha) > left => Phase::Sweep,
                    false => Phase::Expand,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The phases after frontiers of these numbers of rows, the first of which is the source's.
    fn phases(connected: u64, frontiers: &[u64]) -> Vec<Phase> {
        let rules = Rules { connected, depth_limit: 99, alpha: 14, beta: 24 };
        let (mut pilot, mut totals) = (Pilot::new(rules), Totals::default());
        let next = |rows: &u64| {
            totals.rows += rows;
            totals.visited += rows;
            pilot.advance(totals);
            pilot.phase
        };
        frontiers.iter().map(next).collect()
    }

    #[test]
    fn frontiers_that_have_grown_are_swept() {
        use Phase::{Expand, Finished, Sweep};
        assert_eq!(phases(1000, &[1, 10, 100]), [Expand, Expand, Sweep]);
        assert_eq!(phases(1000, &[100]), [Sweep]);
        // Growth by an eighth, and by less.
        assert_eq!(phases(1000, &[1, 64, 72]), [Expand, Expand, Sweep]);
        assert_eq!(phases(1000, &[1, 64, 71]), [Expand, Expand, Expand]);
        // Frontiers of 22 and more would be large enough, but grow too slowly.
        let mesh = [1, 8, 16, 20, 22, 24, 26, 28, 30, 32, 33, 33, 32, 0];
        let phases = phases(360, &mesh);
        let (last, others) = phases.split_last().unwrap();
        assert!(*last == Finished && others.iter().all(|phase| *phase == Expand), "{phases:?}");
    }
}
