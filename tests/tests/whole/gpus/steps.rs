//! Shortest paths in steps: graphs that have every phase, many runs, and runs that nobody
//! waits for.

use std::pin::pin;
use std::task::{Context as TaskContext, Waker};
use std::time::{Duration, Instant};

use millstream::flow::Context;
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, Weights, partition, reference, source};
use millstream::sssp::{Algorithm, Delta, Error, Sssp};

use super::{Needs, context, runs, scaled, skip};
use crate::{awkward, sssp, steps};

/// Whether the devices can; says so if not.
pub(super) fn can(context: &Context) -> bool {
    let graph = CsrGraph::from_weighted_edges(2, &[(0, 1, 1u32), (1, 0, 1)]).unwrap();
    let parts = partition::contiguous_blocks(&graph, context.devices().len());
    match steps::run(context, &graph, parts, steps::ways()[0], &[0]) {
        Err(Error::NotStepping) => {
            skip(Needs::Peers, "these devices cannot go in steps");
            false
        }
        result => result.map(|_| true).unwrap(),
    }
}

#[test]
fn steps_on_awkward_graphs() {
    let context = context();
    if !can(&context) {
        return;
    }
    let devices = context.devices().len();
    for (number, (name, graph)) in awkward::graphs().into_iter().enumerate() {
        let (kinds, ways) = (awkward::weights(&graph), steps::ways());
        let some_kinds = scaled(kinds.len(), 2);
        let kinds = kinds.into_iter().enumerate().cycle().skip(number * 2).take(some_kinds);
        for (round, (kind, weights)) in kinds {
            let graph = sssp::with_weights(&graph, weights);
            let some_ways = scaled(ways.len(), 1);
            let ways = ways.iter().cycle().skip(number + round).take(some_ways);
            for (turn, mut options) in ways.copied().enumerate() {
                let turn = turn + round;
                options.predecessors = turn % 2 == 0;
                options.delta = [Delta::Auto, Delta::Off, Delta::Step(3.0)][turn % 3];
                let parts = partition::random(&graph, devices, round as u64);
                let result = steps::run(&context, &graph, parts, options, &[0]).unwrap();
                sssp::check(&format!("{name}, {kind}, {options:?}"), &graph, &[0], &result);
            }
        }
    }
}

#[test]
fn steps_on_generated_graphs() {
    let context = context();
    if !can(&context) {
        return;
    }
    let devices = context.devices().len();
    let options = GenerateOptions { seed: 1, max_weight: Some(64) };
    let mut graphs = steps::one_way(&options);
    let scale = scaled(15, 9);
    let kron = generate::kron(scale, 24, &options).unwrap();
    let real = match kron.weights().unwrap() {
        Weights::Integer(weights) => weights.iter().map(|&weight| weight as f32 / 7.0).collect(),
        Weights::Real(weights) => weights.clone(),
    };
    graphs.push(("kron, reals", sssp::with_weights(&kron, Weights::Real(real))));
    graphs.push(("kron", kron));
    graphs.push(("social", generate::social(scale, 9, &options).unwrap()));
    let permille = generate::KEEP_PERMILLE;
    let side = scaled(100, 25);
    graphs.push(("road", generate::road(side, side, permille, &options).unwrap()));
    for (name, graph) in &graphs {
        let busiest = source::max_degree(graph).unwrap();
        for mut options in steps::ways() {
            for predecessors in [false, true] {
                options.predecessors = predecessors;
                let parts = partition::edge_balanced_blocks(graph, devices);
                let result = steps::run(&context, graph, parts, options, &[busiest, 7]).unwrap();
                sssp::check(&format!("{name}, {options:?}"), graph, &[busiest, 7], &result);
                let (pull, rest) = (options.pull, options.rest);
                println!("{name}, {pull}, {rest}, {predecessors}: {:?}", result.run_time);
            }
        }
    }
}

/// Half of all vertices come nearer in one round, and then the others: their marks say which.
#[test]
fn dense_lists_go_in_order() {
    let context = context();
    if !can(&context) {
        return;
    }
    let half = scaled(600_000, 40_000);
    let edge = |from: u32, to: u32| [(from, to, 1 + to % 3), (to, from, 1 + to % 3)];
    let near = (1..=half).flat_map(|leaf| edge(0, leaf));
    let far = (1..=half).flat_map(|leaf| edge(leaf, half + 1 + leaf * 7 % half));
    let edges: Vec<_> = near.chain(far).collect();
    let graph = CsrGraph::from_weighted_edges(2 * half + 1, &edges).unwrap();
    for predecessors in [false, true] {
        let parts = partition::edge_balanced_blocks(&graph, context.devices().len());
        let mut options = steps::ways()[0];
        (options.predecessors, options.delta) = (predecessors, Delta::Step(100.0));
        // What was not gone through would be found all the same.
        options.pull = 0;
        let result = steps::run(&context, &graph, parts, options, &[0]).unwrap();
        sssp::check(&format!("dense, {predecessors}"), &graph, &[0], &result);
    }
}

/// `MILLSTREAM_RUNS` searches (100 unless set, or 20) of a graph small enough to race hard.
#[test]
fn many_runs_in_steps() {
    let runs = runs(scaled(100, 20));
    let context = context();
    if !can(&context) {
        return;
    }
    let options = GenerateOptions { seed: 1, max_weight: Some(20) };
    let graph = generate::kron(8, 8, &options).unwrap();
    let busiest = source::max_degree(&graph).unwrap();
    let expected = reference::dijkstra(&graph, &[busiest]).unwrap();
    for mut options in steps::ways() {
        options.algorithm = Algorithm::Stepping;
        let parts = partition::edge_balanced_blocks(&graph, context.devices().len());
        let upload = Sssp::with_partition(&context, &graph, parts, options);
        let sssp = context.block_on(upload).unwrap().unwrap();
        for run in 0..runs.div_ceil(5) {
            let result = context.block_on(sssp.run(&[busiest])).unwrap().unwrap();
            assert!(result.distances == expected, "{options:?}, run {run}");
        }
    }
}

/// Dropping the future stops the devices, at whatever point; the next run is right.
#[test]
fn a_run_in_steps_that_is_given_up() {
    let context = context();
    if !can(&context) {
        return;
    }
    let options = GenerateOptions { seed: 1, max_weight: Some(100) };
    let side = scaled(200, 12);
    let graph = generate::road(side, side, generate::KEEP_PERMILLE, &options).unwrap();
    let busiest = source::max_degree(&graph).unwrap();
    let expected = reference::dijkstra(&graph, &[busiest]).unwrap();
    let parts = partition::edge_balanced_blocks(&graph, context.devices().len());
    let mut options = steps::ways()[0];
    options.algorithm = Algorithm::Stepping;
    let upload = Sssp::with_partition(&context, &graph, parts, options);
    let sssp = context.block_on(upload).unwrap().unwrap();
    for microseconds in [0, 50, 200, 1000, 3000] {
        {
            let sources = [busiest];
            let mut run = pin!(sssp.run(&sources));
            let mut task = TaskContext::from_waker(Waker::noop());
            let deadline = Instant::now() + Duration::from_micros(microseconds);
            while Instant::now() < deadline && run.as_mut().poll(&mut task).is_pending() {}
        }
        let result = context.block_on(sssp.run(&[busiest])).unwrap().unwrap();
        assert!(result.distances == expected, "after {microseconds} us");
    }
    context.device_set().quiesce().unwrap();
}
