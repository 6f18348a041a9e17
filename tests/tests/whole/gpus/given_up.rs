//! Runs that would take for ever, in rounds that are too short for anybody to wait long: they end
//! when nobody waits for them.

use std::pin::pin;
use std::task::{Context as TaskContext, Waker};
use std::time::{Duration, Instant};

use millstream::bfs::{self, Bfs, BfsOptions};
use millstream::graph::CsrGraph;
use millstream::pagerank::{PageRank, PageRankOptions, Precision};
use millstream::sssp::{self, Error as SsspError, Sssp, SsspOptions};
use millstream::traversal::internals::can_meet;

use super::child::{in_child, in_child_with};
use super::{Needs, context, scaled, skip};

const LIMIT: Duration = Duration::from_secs(100);
/// From the end of the future to that of the kernels.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A path of so many vertices, in both directions: a round for each of them.
fn chain(vertices: u32) -> CsrGraph {
    let arcs = (1..vertices).flat_map(|at| [(at - 1, at), (at, at - 1)]);
    CsrGraph::from_edges(vertices, &arcs.collect::<Vec<_>>()).unwrap()
}

/// Lets a run go on for a while, and gives it up; how long the devices went on.
fn give_up<T>(run: impl Future<Output = T>) -> Duration {
    {
        let mut run = pin!(run);
        let mut task = TaskContext::from_waker(Waker::noop());
        let deadline = Instant::now() + Duration::from_millis(500);
        while Instant::now() < deadline {
            assert!(run.as_mut().poll(&mut task).is_pending(), "it has ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let start = Instant::now();
    context().device_set().quiesce().unwrap();
    start.elapsed()
}

#[test]
fn endless_sweeps() {
    // A lone block waits for nobody, where it is emulated.
    let alone = [("MILLSTREAM_EMULATED_MULTIPROCESSORS", "1")];
    in_child_with("gpus::given_up::endless_sweeps", LIMIT, &alone, || {
        let (context, chain) = (context(), chain(100));
        for precision in [Precision::F32, Precision::F64] {
            let mut options = PageRankOptions::default();
            options.precision = precision;
            (options.tolerance, options.max_iterations) = (0.0, u32::MAX);
            // Ranks that never stop to change: the mass goes to and fro.
            options.damping = 0.999_999_9;
            let ranks = context
                .block_on(PageRank::with_options(&context, &chain, options))
                .unwrap()
                .unwrap();
            let stopped = give_up(ranks.run());
            println!("{precision:?}: stopped after {stopped:?}");
            assert!(stopped < STOP_LIMIT, "{precision:?}: {stopped:?}");
        }
    });
}

#[test]
fn many_levels() {
    if !can_meet(&context()) {
        return skip(Needs::Peers, "devices that do not meet refuse to search by levels");
    }
    in_child("gpus::given_up::many_levels", LIMIT, || {
        let (context, chain) = (context(), chain(scaled(10_000_000, 1_000_000)));
        let mut options = BfsOptions::default();
        options.algorithm = bfs::Algorithm::LevelSynchronous;
        let upload = Bfs::with_options(&context, &chain, options);
        let bfs = context.block_on(upload).unwrap().unwrap();
        let stopped = give_up(bfs.run(&[0]));
        println!("levels: stopped after {stopped:?}");
        assert!(stopped < STOP_LIMIT, "{stopped:?}");
    });
}

#[test]
fn many_steps() {
    in_child("gpus::given_up::many_steps", LIMIT, || {
        let (context, chain) = (context(), chain(scaled(10_000_000, 1_000_000)));
        let arcs = chain.arcs() as usize;
        let weights = millstream::graph::Weights::Integer(vec![1; arcs]);
        let chain = chain.with_weights(Some(weights)).unwrap();
        let mut runs = 0;
        for algorithm in [sssp::Algorithm::Stepping, sssp::Algorithm::NearFar] {
            let parts =
                millstream::graph::partition::contiguous_blocks(&chain, context.devices().len());
            let mut options = SsspOptions::default();
            options.algorithm = algorithm;
            let upload = Sssp::with_partition(&context, &chain, parts, options);
            let sssp = match context.block_on(upload).unwrap() {
                Ok(sssp) => sssp,
                Err(error @ (SsspError::NotStepping | SsspError::NotNearFar { .. })) => {
                    println!("{algorithm:?}: {error}");
                    continue;
                }
                Err(error) => panic!("{algorithm:?}: {error}"),
            };
            let stopped = give_up(sssp.run(&[0]));
            println!("{algorithm:?}: stopped after {stopped:?}");
            assert!(stopped < STOP_LIMIT, "{algorithm:?}: {stopped:?}");
            runs += 1;
        }
        if runs == 0 {
            skip(Needs::Peers, "neither search goes on without them");
        }
    });
}
