//! Runs that are repeated to be timed.

use std::time::{Duration, Instant};

use clap::{Args, value_parser};

/// How often an algorithm runs.
#[derive(Debug, Args)]
pub(crate) struct Repeat {
    /// Number of timed runs, after one untimed run if there are several; `time_ms` is
    /// their median. The answer is the last run's.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    repeat: u32,
}

/// The result of repeated runs.
pub(crate) struct Repeated<T> {
    /// The last run's result, but with the median as its run time.
    pub(crate) result: T,
    /// How long the last run took beyond its own times: to prepare memory before, and to check the answer
    /// after.
    pub(crate) prepare: Duration,
    /// Run times that count, in the order of runs.
    pub(crate) times: Vec<Duration>,
}

impl Repeat {
    /// Runs repeatedly. `times` gives the times of the run and of gathering in a result.
    ///
    /// # Cancel safety
    /// That of `run`.
    pub(crate) async fn median<T, E>(
        &self,
        mut run: impl AsyncFnMut() -> Result<T, E>,
        times: impl Fn(&mut T) -> (&mut Duration, Duration),
    ) -> Result<Repeated<T>, E> {
        let mut all = Vec::new();
        // The first does not count if there are several.
        let uncounted = usize::from(self.repeat > 1);
        let runs = uncounted.saturating_add(self.repeat as usize);
        loop {
            let start = Instant::now();
            let mut result = run().await?;
            let whole = start.elapsed();
            let (run_time, gather_time) = times(&mut result);
            let prepare = whole.saturating_sub(*run_time + gather_time);
            all.push(*run_time);
            if all.len() < runs {
                continue;
            }
            let times = all.split_off(uncounted);
            *run_time = median(times.clone());
            return Ok(Repeated { result, prepare, times });
        }
    }
}

/// The median; there must be at least one time.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2
}
