//! Steps of the priority threshold \[G §4.4\].

use crate::{Error, Result};

/// Steps of the priority threshold, in the unit of what an algorithm minimizes: vertices nearer than
/// the threshold go first, the others are deferred \[G §4.4\].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Delta {
    /// What suits the algorithm and the graph.
    #[default]
    Auto,
    /// No priorities: everything goes at once.
    Off,
    /// This much.
    Step(f64),
}

impl Delta {
    /// Checks that an explicit step can be used.
    ///
    /// # Errors
    /// A step that is not positive, or that distances cannot be divided by.
    #[doc(hidden)]
    pub fn check(self) -> Result<()> {
        match self {
            Delta::Step(delta) if !(delta > 0.0 && (1.0 / delta as f32).is_normal()) => {
                Err(Error::Delta { delta })
            }
            _ => Ok(()),
        }
    }

    /// The step; `None` without priorities.
    #[doc(hidden)]
    pub fn step(self, automatic: Option<f64>) -> Option<f64> {
        match self {
            Delta::Auto => automatic,
            Delta::Off => None,
            Delta::Step(delta) => Some(delta),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_are_none_are_refused() {
        for delta in [0.0, -1.0, f64::NAN, 1e-60, f64::INFINITY] {
            let refused = Delta::Step(delta).check();
            assert!(matches!(refused, Err(Error::Delta { .. })), "{delta}");
        }
        for delta in [Delta::Auto, Delta::Off, Delta::Step(2.5)] {
            delta.check().unwrap();
        }
        let steps = [Delta::Step(2.5), Delta::Off, Delta::Auto].map(|delta| delta.step(Some(3.0)));
        assert_eq!(steps, [Some(2.5), None, Some(3.0)]);
    }
}
