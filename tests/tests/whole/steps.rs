//! Shortest paths in steps against Dijkstra's algorithm: on awkward graphs, directed ones
//! too, device counts, partitioners, and with every phase.

use millstream::flow::{Context, Devices};
use millstream::graph::generate::{self, GenerateOptions};
use millstream::graph::{CsrGraph, Partition, Weights, partition, source};
use millstream::sssp::{Algorithm, Delta, Distances, Error, Sssp, SsspOptions, SsspResult};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::sssp::{
    check, delaying, for_seeds, random_graph, run_as, weights_that_overflow, with_weights,
};
use crate::{awkward, levels};

pub(crate) fn run(
    context: &Context,
    graph: &CsrGraph,
    parts: Partition,
    options: SsspOptions,
    sources: &[u32],
) -> Result<SsspResult, Error> {
    let result = run_as(Algorithm::Stepping, context, graph, parts, options, sources)?;
    let work: u64 = result.statistics.devices.iter().map(|device| device.work_items).sum();
    assert!(work >= result.reached(), "{work} work items, {} vertices", result.reached());
    Ok(result)
}

/// Options that pull and never stop stepping, that only push, as usual, and that have no
/// order after the first step.
pub(crate) fn ways() -> Vec<SsspOptions> {
    [(u32::MAX, u32::MAX), (0, u32::MAX), (4, 16), (u32::MAX, 0), (0, 0)]
        .into_iter()
        .map(|(pull, rest)| {
            let mut options = SsspOptions::default();
            (options.pull, options.rest) = (pull, rest);
            options
        })
        .collect()
}

#[test]
fn every_graph_weight_way_and_device_count_agrees_with_dijkstra() {
    for devices in [1, 2, 3, 4, 8] {
        let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
        for (name, graph) in awkward::graphs() {
            let parts = [
                partition::contiguous_blocks(&graph, devices),
                partition::random(&graph, devices, 1),
                partition::edge_balanced_blocks(&graph, devices),
            ];
            for (round, (kind, weights)) in awkward::weights(&graph).into_iter().enumerate() {
                let graph = with_weights(&graph, weights);
                for (turn, mut options) in ways().into_iter().enumerate() {
                    let turn = devices + round + turn;
                    options.predecessors = turn % 2 == 0;
                    options.delta = [Delta::Auto, Delta::Off, Delta::Step(3.0)][turn % 3];
                    let what = format!("{name}, {kind} weights, {devices} devices, {options:?}");
                    let parts = parts[turn / 2 % 3].clone();
                    let result = run(&context, &graph, parts, options, &[0]).unwrap();
                    check(&what, &graph, &[0], &result);
                }
            }
        }
    }
}

/// Steps so narrow that reals cannot tell where they end; the search goes on without.
#[test]
fn steps_that_reals_cannot_tell_apart() {
    let edges: Vec<_> = (0..40u32).map(|at| (at, at + 1, 1e7 + at as f32)).collect();
    let graph = CsrGraph::from_weighted_edges(41, &edges).unwrap();
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    for delta in [0.3, 1.0, 40.0] {
        let mut options = ways().swap_remove(0);
        options.delta = Delta::Step(delta);
        let parts = partition::contiguous_blocks(&graph, 2);
        let result = run(&context, &graph, parts, options, &[0]).unwrap();
        check(&format!("steps of {delta}"), &graph, &[0], &result);
    }
}

/// Arcs there and back that weigh differently, and arcs without a way back.
pub(crate) fn one_way(options: &GenerateOptions) -> Vec<(&'static str, CsrGraph)> {
    let kron = generate::kron(10, 8, options).unwrap();
    let uneven = (0..kron.arcs() as u32).map(|arc| arc.wrapping_mul(2_654_435_761) >> 26);
    let uneven = Weights::Integer(uneven.collect());
    let directed = (0..kron.vertices()).flat_map(|from| {
        let row = kron.neighbors(from).iter();
        let there = row.filter(move |&&to| (from ^ to) % 3 != from % 3);
        there.map(move |&to| (from, to, (from ^ to) as f32 / 7.0))
    });
    let directed: Vec<_> = directed.collect();
    vec![
        ("directed", CsrGraph::from_weighted_edges(kron.vertices(), &directed).unwrap()),
        ("uneven", with_weights(&kron, uneven)),
    ]
}

#[test]
fn directed_graphs_with_hubs() {
    for (name, graph) in one_way(&GenerateOptions::default()) {
        assert!(!graph.is_symmetric_with_weights());
        let busiest = source::max_degree(&graph).unwrap();
        for devices in [1, 3, 4] {
            let context = Context::builder().devices(Devices::host(devices)).build().unwrap();
            let parts = [
                partition::edge_balanced_blocks(&graph, devices),
                partition::random(&graph, devices, 5),
            ];
            for parts in parts {
                for mut options in ways() {
                    options.predecessors = true;
                    let sources = [busiest, 5];
                    let result = run(&context, &graph, parts.clone(), options, &sources).unwrap();
                    check(name, &graph, &sources, &result);
                }
            }
        }
    }
}

#[test]
fn a_cutoff_in_every_way() {
    let random = awkward::graphs().swap_remove(7).1;
    let graph = with_weights(&random, generate::random_weights(&random, 50, 3));
    let context = Context::builder().devices(Devices::host(3)).build().unwrap();
    for mut options in ways() {
        options.delta = Delta::Step(7.0);
        let search = |options| {
            let parts = partition::contiguous_blocks(&graph, 3);
            match run(&context, &graph, parts, options, &[3, 250, 3]).unwrap().distances {
                Distances::Integer(all) => all,
                Distances::Real(_) => panic!("integers"),
            }
        };
        let all = search(options);
        options.cutoff = Some(40.0);
        let near = |&distance: &u32| if distance > 40 { u32::MAX } else { distance };
        let expected: Vec<u32> = all.iter().map(near).collect();
        assert!(expected != all);
        assert_eq!(search(options), expected, "{options:?}");
    }
}

#[test]
fn overflow_is_an_error() {
    let context = Context::builder().devices(Devices::host(2)).build().unwrap();
    for (weights, most) in weights_that_overflow() {
        let graph = CsrGraph::from_edges(4, &[(0, 1), (1, 2), (2, 3)]).unwrap();
        let graph = with_weights(&graph, weights);
        for mut options in ways() {
            let search = |options| {
                run(&context, &graph, partition::contiguous_blocks(&graph, 2), options, &[0])
            };
            assert!(matches!(search(options), Err(Error::Overflow { vertex: 2 })), "{options:?}");
            options.cutoff = Some(most);
            assert_eq!(search(options).unwrap().reached(), 2);
            options.cutoff = Some(most * 1.1);
            assert!(matches!(search(options), Err(Error::Overflow { vertex: 2 })), "{options:?}");
        }
    }
}

fn delayed(seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let graph = random_graph(&mut random);
    let devices = random.random_range(1..=8usize);
    let mut options = ways().swap_remove(random.random_range(0..5usize));
    options.predecessors = random.random();
    options.delta = [Delta::Off, Delta::Auto, Delta::Step(2.0)][random.random_range(0..3usize)];
    let context = delaying(&mut random, seed, devices);
    let source = random.random_range(0..graph.vertices());
    let parts = partition::contiguous_blocks(&graph, devices);
    let what = format!("MILLSTREAM_SEED={seed}, {options:?}");
    match run(&context, &graph, parts, options, &[source]) {
        Ok(result) => check(&what, &graph, &[source], &result),
        Err(error) => panic!("{what}: {error}"),
    }
}

/// `MILLSTREAM_SEED=n` replays one.
#[test]
fn delayed_searches_in_steps_are_right() {
    for_seeds(100, delayed);
}

#[test]
fn low_diameter_graphs_go_in_steps_and_mesh_like_ones_do_not() {
    let options = GenerateOptions { seed: 1, max_weight: Some(100) };
    let context = Context::builder().devices(Devices::host(4)).build().unwrap();
    for (graph, algorithm) in [
        (generate::kron(14, 16, &options).unwrap(), Algorithm::Stepping),
        (generate::road(150, 150, 605, &options).unwrap(), Algorithm::NearFar),
    ] {
        let sssp = context.block_on(Sssp::new(&context, &graph)).unwrap().unwrap();
        assert_eq!(sssp.algorithm(), algorithm);
        let busiest = source::max_degree(&graph).unwrap();
        for algorithm in [Algorithm::Asynchronous, Algorithm::Stepping, algorithm] {
            let parts = partition::region_blocks(&graph, 4);
            let options = SsspOptions::default();
            let result = run_as(algorithm, &context, &graph, parts, options, &[busiest]).unwrap();
            check("either way", &graph, &[busiest], &result);
            let (items, reached) = (result.statistics.work_items(), result.reached());
            let time = result.run_time;
            println!("{algorithm:?}: {items} work items for {reached} vertices in {time:?}");
        }
    }
}

#[test]
fn devices_that_do_not_reach_each_other_cannot() {
    let builder = Context::builder().devices(Devices::host(2));
    let apart = r#"{ "links": [["memory", "host"], ["host", "memory"]] }"#;
    let context = builder.topology(apart.parse().unwrap()).build().unwrap();
    let options = GenerateOptions { seed: 1, max_weight: Some(9) };
    let graph = generate::kron(8, 8, &options).unwrap();
    let sssp = context.block_on(Sssp::new(&context, &graph)).unwrap().unwrap();
    assert_eq!(sssp.algorithm(), Algorithm::Asynchronous);
    let parts = partition::contiguous_blocks(&graph, 2);
    let error = run(&context, &graph, parts, SsspOptions::default(), &[0]).unwrap_err();
    assert!(matches!(error, Error::NotStepping));
}

/// Steps need arcs both ways; other searches do not.
#[test]
fn where_steps_have_no_room_searches_go_another_way() {
    let graph = levels::one_way(&generate::kron(13, 32, &GenerateOptions::default()).unwrap());
    let weights = (0..graph.arcs() as u32).map(|arc| 1 + arc * 7 % 60).collect();
    let graph = with_weights(&graph, Weights::Integer(weights));
    let search = |budget, algorithm| {
        let context = Context::builder().devices(Devices::host(1)).memory_budget(budget);
        let context = context.build().unwrap();
        let mut options = SsspOptions::default();
        options.algorithm = algorithm;
        let sssp = context.block_on(Sssp::with_options(&context, &graph, options)).unwrap()?;
        Ok::<_, Error>((context.block_on(sssp.run(&[0])).unwrap()?, sssp.algorithm()))
    };
    let rows = 8 * graph.arcs() + 8 * u64::from(graph.vertices());
    let error = search(rows * 3 / 2, Algorithm::Stepping).map(drop).unwrap_err().to_string();
    assert!(error.contains("bytes requested"), "{error}");
    for (budget, way) in [(rows * 3 / 2, Algorithm::Asynchronous), (rows * 3, Algorithm::Stepping)]
    {
        let (result, its) = search(budget, Algorithm::Auto).unwrap();
        assert_eq!(its, way, "{budget}");
        check(&format!("{budget} bytes"), &graph, &[0], &result);
    }
}
