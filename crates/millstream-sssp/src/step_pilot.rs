//! What host devices that search in steps do next: the twin of `StepSearch::decide` in
//! `steps.cuh`. See `STEPS.md`.

use millstream_traversal::UNREACHED;

/// What the devices do until they meet again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// List the vertices whose keys are in the step.
    Collect,
    /// Relax the light arcs of the listed vertices.
    Expand,
    /// As `Collect`, after unsettled vertices have pulled along the arcs that enter them.
    Pull,
    /// Relax the arcs of the step's vertices that lead beyond the step.
    Push,
    /// In the last step: vertices that may come nearer look again, at the arcs from other unsettled
    /// vertices.
    Review,
    /// Nothing more.
    Finished,
}

/// When to do what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// All arcs.
    pub(crate) arcs: u64,
    /// The bits of a step's width, and the function that gives the key at a step's end.
    pub(crate) delta: u32,
    pub(crate) after: fn(key: u32, delta: u32) -> u32,
    /// Where the first step ends.
    pub(crate) first_end: u32,
    /// Pull if the unsettled arcs are fewer than those just settled, times this.
    pub(crate) pull: u32,
    /// Make the next step the last if the unsettled arcs, times this, are fewer than all arcs.
    pub(crate) rest: u32,
}

/// What all devices have counted since the start, and seen since they last met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) listed: u64,
    /// Arcs that enter vertices that have come into a step.
    pub(crate) settled: u64,
    /// The least key beyond the step.
    pub(crate) nearest: Option<u32>,
}

/// Follows a search.
#[derive(Clone, Debug)]
pub(crate) struct Pilot {
    rules: Rules,
    pub(crate) phase: Phase,
    /// Steps begun.
    pub(crate) steps: u64,
    /// Where the step before began.
    pub(crate) from: u32,
    /// The step: keys from `begin`, less than `end`.
    pub(crate) begin: u32,
    pub(crate) end: u32,
    kept: Totals,
    /// Vertices that are reviewed.
    reviewed: u64,
}

/// Vertices are reviewed again if more than one in this many has come nearer.
const FEW: u64 = 64;

impl Pilot {
    pub(crate) fn new(rules: Rules) -> Pilot {
        let (phase, kept) = (Phase::Collect, Totals::default());
        Pilot { rules, phase, steps: 1, from: 0, begin: 0, end: rules.first_end, kept, reviewed: 0 }
    }

    /// Goes on to the next phase.
    pub(crate) fn advance(&mut self, totals: Totals) {
        self.phase = self.next(totals);
    }

    fn next(&mut self, totals: Totals) -> Phase {
        let left = self.rules.arcs - totals.settled;
        match self.phase {
            Phase::Finished => Phase::Finished,
            Phase::Push => self.plan(Phase::Collect, self.end, left),
            _ if totals.listed != self.kept.listed => {
                let listed = totals.listed - self.kept.listed;
                self.kept.listed = totals.listed;
                self.go_on(listed)
            }
            Phase::Collect | Phase::Pull => match totals.nearest {
                None => Phase::Finished,
                // The step is empty: on to the one of the nearest key.
                Some(nearest) => self.plan(Phase::Collect, nearest, left),
            },
            _ if left == 0 || self.end == UNREACHED => Phase::Finished,
            Phase::Expand | Phase::Review => {
                let now = totals.settled - self.kept.settled;
                self.kept.settled = totals.settled;
                match left < now * u64::from(self.rules.pull) {
                    true => self.plan(Phase::Pull, self.end, left),
                    false => Phase::Push,
                }
            }
        }
    }

    /// The next phase after vertices have been listed.
    fn go_on(&mut self, listed: u64) -> Phase {
        match self.phase {
            Phase::Pull if self.end == UNREACHED => {
                self.reviewed = listed;
                Phase::Review
            }
            Phase::Review if listed * FEW > self.reviewed => Phase::Review,
            _ => Phase::Expand,
        }
    }

    /// Goes on to the next step. The last one has no end.
    fn plan(&mut self, phase: Phase, begin: u32, left: u64) -> Phase {
        self.steps += 1;
        (self.from, self.begin) = (self.begin, begin);
        let end = (self.rules.after)(begin, self.rules.delta);
        let is_last = end <= begin || left * u64::from(self.rules.rest) < self.rules.arcs;
        self.end = if is_last { UNREACHED } else { end };
        phase
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pilot() -> Pilot {
        let after = |key: u32, delta: u32| key.saturating_add(delta);
        let (arcs, delta, pull, rest) = (100, 10, 4, 16);
        Pilot::new(Rules { arcs, delta, after, first_end: 10, pull, rest })
    }

    #[test]
    fn lists_are_expanded_until_a_step_is_settled() {
        let mut pilot = pilot();
        let totals = |listed, settled| Totals { listed, settled, nearest: None };
        pilot.advance(totals(1, 3));
        assert_eq!(pilot.phase, Phase::Expand);
        pilot.advance(totals(4, 10));
        assert_eq!(pilot.phase, Phase::Expand);
        // 90 arcs are left, 10 were settled.
        pilot.advance(totals(4, 10));
        assert_eq!((pilot.phase, pilot.end), (Phase::Push, 10));
        pilot.advance(totals(4, 10));
        assert_eq!((pilot.phase, pilot.begin, pilot.end), (Phase::Collect, 10, 20));
        pilot.advance(totals(5, 60));
        pilot.advance(totals(5, 60));
        assert_eq!((pilot.phase, pilot.from, pilot.begin), (Phase::Pull, 10, 20));
        pilot.advance(totals(6, 95));
        pilot.advance(totals(6, 95));
        assert_eq!((pilot.phase, pilot.end, pilot.steps), (Phase::Pull, UNREACHED, 4));
        // 100 may come nearer; two do, then one, which is few.
        pilot.advance(totals(106, 95));
        assert_eq!(pilot.phase, Phase::Review);
        pilot.advance(totals(108, 95));
        assert_eq!(pilot.phase, Phase::Review);
        pilot.advance(totals(109, 95));
        assert_eq!(pilot.phase, Phase::Expand);
        pilot.advance(totals(109, 95));
        assert_eq!(pilot.phase, Phase::Finished);
    }

    #[test]
    fn steps_without_vertices_are_left_out() {
        let mut pilot = pilot();
        pilot.advance(Totals { nearest: Some(70), ..Totals::default() });
        assert_eq!((pilot.phase, pilot.begin, pilot.end), (Phase::Collect, 70, 80));
        pilot.advance(Totals { nearest: Some(u32::MAX - 3), ..Totals::default() });
        // A step whose end would not lie beyond its begin has no end.
        assert_eq!((pilot.phase, pilot.end), (Phase::Collect, UNREACHED));
        pilot.advance(Totals::default());
        assert_eq!(pilot.phase, Phase::Finished);
    }
}
