//! Runs that are repeated to be timed.

use std::time::Duration;

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
    /// The last result of `run`, whose `time` becomes the median.
    ///
    /// # Cancel safety
    /// That of `run`.
    pub(crate) async fn median<T, E>(
        &self,
        mut run: impl AsyncFnMut() -> Result<T, E>,
        time: impl Fn(&mut T) -> &mut Duration,
    ) -> Result<T, E> {
        let mut result = run().await?;
        if self.repeat == 1 {
            return Ok(result);
        }
        let mut times = Vec::new();
        for _ in 0..self.repeat {
            result = run().await?;
            times.push(*time(&mut result));
        }
        times.sort();
        *time(&mut result) = times[times.len() / 2];
        Ok(result)
    }
}
