//! The fused worker: many runs, and runs that nobody waits for. Where it cannot run,
//! on host devices, the host drives the same.

use std::future::Future;
use std::pin::pin;
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use millstream::bfs::{Bfs, BfsOptions};
use millstream::flow::Context;
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{reference, source};
use millstream::worklist::Routing;

use super::{context, fused, scaled};

/// A graph small enough to race hard; `MILLSTREAM_RUNS` searches (100 on GPUs, unless set)
/// with each routing and step of the threshold.
#[test]
fn many_fused_runs() {
    let runs = scaled(100, 12);
    let runs = std::env::var("MILLSTREAM_RUNS").map_or(runs, |runs| runs.parse().unwrap());
    let context = context();
    let graph = generate::kron(scaled(8, 6), 8, &GenerateOptions::default()).unwrap();
    let busiest = source::max_degree(&graph).unwrap();
    let expected = reference::bfs_levels(&graph, &[busiest], u32::MAX);
    for routing in [Routing::Ring, Routing::Direct] {
        for delta in [None, Some(1), Some(2)] {
            let mut options = crate::bfs::asynchronous();
            (options.worklist.routing, options.delta) = (routing, delta);
            options.worklist.worker = fused(&context);
            let bfs = context.block_on(Bfs::new(&context, &graph)).unwrap().unwrap();
            let bfs = bfs.with_options(options);
            for run in 0..runs / 6 {
                let result = context.block_on(bfs.run(&[busiest])).unwrap().unwrap();
                assert!(result.levels == expected, "{routing:?} {delta:?} run {run}");
            }
        }
    }
}

fn options_of(context: &Context) -> BfsOptions {
    let mut options = crate::bfs::asynchronous();
    options.worklist.worker = fused(context);
    options
}

/// Dropping the future stops the devices, at whatever point; the next run is right.
#[test]
fn a_run_that_is_given_up() {
    let context = context();
    let options = GenerateOptions::default();
    let side = scaled(400, 30);
    let graph = generate::road(side, side, generate::KEEP_PERMILLE, &options).unwrap();
    let busiest = source::max_degree(&graph).unwrap();
    let expected = reference::bfs_levels(&graph, &[busiest], u32::MAX);
    let bfs = context.block_on(Bfs::new(&context, &graph)).unwrap().unwrap();
    let bfs = bfs.with_options(options_of(&context));
    for microseconds in [0, 50, 200, 1000, 3000] {
        {
            let sources = [busiest];
            let mut run = pin!(bfs.run(&sources));
            let mut task = TaskContext::from_waker(Waker::noop());
            let deadline = std::time::Instant::now() + Duration::from_micros(microseconds);
            while std::time::Instant::now() < deadline {
                if run.as_mut().poll(&mut task).is_ready() {
                    break;
                }
            }
        }
        let result = context.block_on(bfs.run(&[busiest])).unwrap().unwrap();
        assert!(result.levels == expected, "after {microseconds} us");
    }
    context.device_set().quiesce().unwrap();
}

/// Two searches at once take turns; each is right.
#[test]
fn two_fused_runs_at_once() {
    let context = context();
    let graph = generate::kron(scaled(10, 7), 8, &GenerateOptions::default()).unwrap();
    let sources = [source::max_degree(&graph).unwrap(), 1];
    let bfs = context.block_on(Bfs::new(&context, &graph)).unwrap().unwrap();
    let bfs = bfs.with_options(options_of(&context));
    let [one, other] = sources.map(|source| reference::bfs_levels(&graph, &[source], u32::MAX));
    let both = async { futures_util::join!(bfs.run(&sources[..1]), bfs.run(&sources[1..])) };
    let results = context.block_on(both).unwrap();
    assert!(results.0.unwrap().levels == one);
    assert!(results.1.unwrap().levels == other);
}
