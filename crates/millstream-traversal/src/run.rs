//! A relaxation from its sources to the values of all vertices \[G §4.6.4\].

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_worklist::WorklistStatistics;

use crate::answer::Answer;
use crate::relaxation::{Problem, Relaxation, Rule, Settings};
use crate::value::{UNREACHED, Value};
use crate::vertex_program::Vertices;
use crate::{DistributedGraph, Result, WorklistOptions};

/// The answer of a relaxation, and what it took.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Keys, perhaps with predecessors.
    pub answer: Answer,
    /// What the devices did.
    pub statistics: WorklistStatistics,
    /// The time from the first item to the last, without moving values to or from the devices.
    pub run_time: Duration,
    /// The time to bring the values to the host.
    pub gather_time: Duration,
}

impl Outcome {
    /// The outcome of a run that took `run_time` and whose answer `gather` brings to the host.
    ///
    /// # Errors
    /// Those of `gather`.
    ///
    /// # Cancel safety
    /// That of `gather`.
    pub async fn gathered<E>(
        statistics: WorklistStatistics,
        run_time: Duration,
        gather: impl Future<Output = Result<Answer, E>>,
    ) -> Result<Outcome, E> {
        let start = Instant::now();
        let answer = gather.await?;
        Ok(Outcome { answer, statistics, run_time, gather_time: start.elapsed() })
    }

    /// The same outcome, with the time of a failed `attempt` before it added.
    #[must_use]
    pub fn after(self, attempt: Duration) -> Outcome {
        Outcome { run_time: attempt + self.run_time, ..self }
    }
}

/// Relaxes from `sources` (original ids), all with key 0, until nothing changes;
/// `delta` is the step of the priority threshold \[G §4.4\]; fails after `patience` without any
/// change.
///
/// # Errors
/// A source that is not a vertex; the first cause of any failure below.
///
/// # Cancel safety
/// Dropping the future stops the devices; the graph stays.
pub async fn run<R: Rule, V: Value>(
    graph: &DistributedGraph,
    sources: &[u32],
    settings: Settings,
    delta: Option<u32>,
    options: &WorklistOptions,
    patience: Duration,
) -> Result<Outcome> {
    let sources = graph.sources(sources)?;
    let partition = graph.partition();
    let program = Arc::new(Vertices::new(graph.owners(), Relaxation::<R, V>::new(settings)));
    let problems = problems::<R, V>(graph, settings, &sources).await?;
    let initial: Vec<(usize, u32)> =
        sources.iter().map(|&source| (partition.owner(source), source)).collect();
    let items = graph.vertices() as usize;
    let context = graph.context();
    let worklist =
        options.worklist(context, program, problems.clone(), items, patience).delta(delta);
    worklist.prepare()?;
    let start = Instant::now();
    let statistics = worklist.run(&initial).await?;
    let run_time = start.elapsed();
    let values = problems.iter().map(|problem| problem.values.clone());
    Outcome::gathered(statistics, run_time, Answer::gather(graph, values)).await
}

/// Initial values on every device: only the sources are reached.
async fn problems<R: Rule, V: Value>(
    graph: &DistributedGraph,
    settings: Settings,
    sources: &[u32],
) -> Result<Vec<Arc<Problem<R, V>>>> {
    let (devices, source) = (graph.context().devices(), V::new(0, UNREACHED));
    let values = graph.filled(devices, V::UNREACHED, sources, source).await?;
    let mut problems = Vec::new();
    let devices = graph.context().devices().iter().zip(graph.parts());
    for ((device, part), values) in devices.zip(values) {
        let weights = R::weights_on(device, part)?;
        problems.push(Arc::new(Problem {
            offsets: Arc::clone(&part.offsets),
            targets: Arc::clone(&part.targets),
            weights,
            values,
            owners: Arc::clone(&part.owners),
            settings,
        }));
    }
    Ok(problems)
}
