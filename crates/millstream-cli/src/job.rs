//! What the commands of all algorithms have in common: they upload a graph, run, check the result,
//! and answer.

use std::fmt::Display;
use std::time::Duration;

use millstream::bfs::BfsResult;
use millstream::cc::CcResult;
use millstream::flow::Context;
use millstream::graph::CsrGraph;
use millstream::pagerank::PageRankResult;
use millstream::sssp::SsspResult;
use millstream::traversal::Layout;
use serde::Serialize;

use crate::error::Error;
use crate::input::Input;
use crate::interrupt::run_interruptibly;
use crate::output::answer;
use crate::progress::phase;
use crate::repeat::Repeated;
use crate::report::{Answer, Clock, Common, LayoutReport};

/// What an algorithm found, with the time it took.
pub(crate) trait Timed {
    /// The times of the run and of gathering.
    fn times(&mut self) -> (&mut Duration, Duration);
}

macro_rules! timed {
    ($($result:ty),*) => {$(
        impl Timed for $result {
            fn times(&mut self) -> (&mut Duration, Duration) {
                (&mut self.run_time, self.gather_time)
            }
        }
    )*};
}

timed!(BfsResult, CcResult, PageRankResult, SsspResult);

/// A command of an algorithm under way: how it answers, and what is known so far.
pub(crate) struct Job<'a> {
    how: &'a Answer,
    context: &'a Context,
    clock: Clock,
    run_time: Duration,
    /// What is wrong with the answer.
    fault: Option<String>,
    pub(crate) common: Common,
}

impl<'a> Job<'a> {
    /// For a graph that was read since `clock` started.
    pub(crate) fn new(
        algorithm: &'static str,
        (input, how): (&Input, &'a Answer),
        (context, graph): (&'a Context, &CsrGraph),
        mut clock: Clock,
    ) -> Job<'a> {
        let mut common = Common::new(algorithm, input, graph, context);
        common.phases_ms.read = clock.lap();
        Job { how, context, clock, run_time: Duration::ZERO, fault: None, common }
    }

    /// Notes that the graph has been divided.
    pub(crate) fn partitioned(&mut self) {
        self.common.phases_ms.partition = self.clock.lap();
    }

    /// Uploads, and runs as often as requested. Returns the result, and the layouts that were made.
    pub(crate) fn run<A, T: Timed, E>(
        &mut self,
        what: &'static str,
        upload: impl Future<Output = Result<A, E>>,
        layouts: impl FnOnce(&A) -> Vec<Layout>,
        run: impl AsyncFn(&A) -> Result<T, E>,
    ) -> Result<Result<(T, Vec<LayoutReport>), E>, Error> {
        let (clock, repeat) = (&mut self.clock, &self.how.repeat);
        let search = async {
            let algorithm = upload.await?;
            let uploaded = (clock.lap(), layouts(&algorithm));
            Ok((uploaded, repeat.median(async || run(&algorithm).await, T::times).await?))
        };
        let searched = phase(what, || run_interruptibly(self.context, search))?;
        Ok(searched.map(|((upload, layouts), ran)| {
            self.common.phases_ms.upload = upload;
            (self.ran(ran), LayoutReport::of_all(layouts))
        }))
    }

    /// As [`Job::run`], with nothing to upload.
    pub(crate) fn run_streamed<T: Timed, E>(
        &mut self,
        what: &'static str,
        run: impl AsyncFnMut() -> Result<T, E>,
    ) -> Result<Result<T, E>, Error> {
        let search = self.how.repeat.median(run, T::times);
        let searched = phase(what, || run_interruptibly(self.context, search))?;
        Ok(searched.map(|ran| self.ran(ran)))
    }

    fn ran<T: Timed>(&mut self, repeated: Repeated<T>) -> T {
        let Repeated { mut result, prepare, times } = repeated;
        let (&mut run, gather) = result.times();
        self.run_time = run;
        self.common.ran(prepare, (run, &times), gather);
        result
    }

    /// Notes how many arcs a run followed.
    pub(crate) fn went_along(&mut self, arcs: u64) {
        // If there was nothing to do, the run time may be 0.
        if !self.run_time.is_zero() {
            self.common.teps = arcs as f64 / self.run_time.as_secs_f64();
        }
    }

    /// Checks the answer, if requested.
    pub(crate) fn verify<T, F: Display>(&mut self, check: impl FnOnce() -> Result<T, F>) {
        if self.how.verify {
            let checked = phase("verifying", check);
            self.common.verified = Some(checked.is_ok());
            self.fault = checked.err().map(|fault| fault.to_string());
        }
    }

    /// Makes the command fail in the end if a check was requested, which is impossible for a `reason`.
    pub(crate) fn cannot_verify(&mut self, reason: &str) {
        self.fault = self.how.verify.then(|| reason.to_string());
    }

    /// Prints the report beside the `files` of the command, and fails with what went wrong before:
    /// files that were not `written`, or else a wrong answer.
    pub(crate) fn answer<R: Serialize>(
        self,
        report: impl FnOnce(Common) -> R,
        table: impl FnOnce(&R) -> String,
        written: Result<(), Error>,
    ) -> Result<(), Error> {
        answer(&report(self.common), self.how.json, table)?;
        written?;
        self.fault.map_or(Ok(()), |fault| Err(Error::NotVerified(fault)))
    }
}
