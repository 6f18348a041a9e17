//! Runs that are repeated to be timed.

use std::time::{Duration, Instant};

use clap::Args;

/// How often an algorithm runs.
#[derive(Debug, Args)]
pub(crate) struct Repeat {
    /// Runs that are timed, after one that is not if there are several; `time_ms` is
    /// their median. The answer is the last run's.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
}

impl Repeat {
    /// The last result of `run`, whose run time becomes the median, and how long that call took
    /// beside its `times`, of the run and of gathering: it makes its memory ready before, and
    /// looks at the answer after.
    ///
    /// # Cancel safety
    /// That of `run`.
    pub(crate) async fn median<T, E>(
        &self,
        mut run: impl AsyncFnMut() -> Result<T, E>,
        times: impl Fn(&mut T) -> (&mut Duration, Duration),
    ) -> Result<(T, Duration), E> {
        let mut all = Vec::new();
        // The first does not count if there are several.
        let uncounted = usize::from(self.repeat > 1);
        let runs = uncounted.saturating_add(self.repeat as usize);
        loop {
            let start = Instant::now();
            let mut result = run().await?;
            let whole = start.elapsed();
            let (run_time, gather_time) = times(&mut result);
            let preparing = whole.saturating_sub(*run_time + gather_time);
            all.push(*run_time);
            if all.len() < runs {
                continue;
            }
            let counted = &mut all[uncounted..];
            counted.sort();
            *run_time = (counted[(counted.len() - 1) / 2] + counted[counted.len() / 2]) / 2;
            return Ok((result, preparing));
        }
    }
}
