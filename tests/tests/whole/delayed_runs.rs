//! Small BFS runs, each with its own graph, devices, routing and tiny queues,
//! under delay and reordering: always right, never stuck. A failing seed is
//! printed; `MILLSTREAM_SEED=n` replays it, `MILLSTREAM_DELAYED_RUNS` sets how
//! many there are.

use std::process::Command;
use std::time::Duration;

use millstream::bfs::{Bfs, Delta};
use millstream::device::{Injection, LinkKind, Topology};
use millstream::flow::{Context, Devices};
use millstream::graph::{CsrGraph, partition, reference, validate};
use millstream::worklist::Routing;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Set in the child process that runs with the seeded fault.
const WITH_FAULT: &str = "MILLSTREAM_COUNT_AFTER_PUBLISH";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Up to 60 vertices: sparse, dense or a chain with shuffled ids.
fn graph(random: &mut SmallRng) -> CsrGraph {
    let vertices = random.random_range(1..=60u32);
    let arcs = random.random_range(0..=vertices * 4);
    let mut edges: Vec<(u32, u32)> = (0..arcs)
        .map(|_| (random.random_range(0..vertices), random.random_range(0..vertices)))
        .collect();
    if random.random_ratio(1, 4) {
        let step = [7, 11, 13][random.random_range(0..3usize)];
        edges = (1..vertices)
            .map(|place| ((place - 1) * step % vertices, place * step % vertices))
            .collect();
    }
    if random.random() {
        edges.extend(edges.clone().into_iter().map(|(from, to)| (to, from)));
    }
    CsrGraph::from_edges(vertices, &edges).unwrap()
}

/// Devices of which one in three pairs meets in the host's memory only.
fn some_peers(devices: usize, random: &mut SmallRng) -> Topology {
    let apart: Vec<bool> = (0..devices * devices).map(|_| random.random_ratio(1, 3)).collect();
    let names = (0..devices).map(|place| place.to_string());
    Topology::from_links(names, |from, to| {
        let pair = from.min(to) * devices + from.max(to);
        if from != to && apart[pair] { LinkKind::Host } else { LinkKind::Memory }
    })
}

/// One run; an error says what was wrong.
fn run(seed: u64) -> Result<(), String> {
    let mut random = SmallRng::seed_from_u64(seed);
    let graph = graph(&mut random);
    let devices = random.random_range(1..=8usize);
    let mut options = crate::bfs::asynchronous();
    options.worklist.routing = if random.random() { Routing::Ring } else { Routing::Direct };
    options.predecessors = random.random_ratio(1, 3);
    options.worklist.halo_filter = random.random_ratio(3, 4);
    options.delta =
        [Delta::Off, Delta::Step(1.0), Delta::Step(3.0)][random.random_range(0..3usize)];
    options.worklist.packet_bytes = 16 * random.random_range(1..=4usize);
    options.worklist.buffers = Some(random.random_range(1..=3));
    options.worklist.queue_entries = Some(random.random_range(1..=8));
    options.worklist.batch = random.random_range(1..=16);
    let delay = Duration::ZERO..=Duration::from_micros(random.random_range(1..50));
    let injection =
        Injection { seed, delay: Some(delay), reorder: random.random(), ..Injection::default() };
    let builder = Context::builder().devices(Devices::host(devices)).injection(injection);
    // One run in sixteen on real threads, which cannot be replayed exactly.
    let threaded = random.random_ratio(1, 16);
    let mut builder = if threaded { builder.threads(3) } else { builder.simulated(seed) };
    let source = random.random_range(0..graph.vertices());
    if random.random_ratio(1, 4) {
        builder = builder.topology(some_peers(devices, &mut random));
    }
    let context = builder.build().map_err(|error| error.to_string())?;
    let parts = partition::contiguous_blocks(&graph, devices);
    let search = async {
        let bfs = Bfs::with_partition(&context, &graph, parts, options).await?;
        bfs.run(&[source]).await
    };
    let result = context.block_on(search).map_err(|error| error.to_string())?;
    let result = result.map_err(|error| error.to_string())?;
    let expected = reference::bfs_levels(&graph, &[source], options.depth_limit);
    if result.levels != expected {
        return Err(format!("levels {:?} instead of {expected:?}", result.levels));
    }
    if let Some(predecessors) = &result.predecessors {
        validate::bfs_predecessors(&graph, &expected, predecessors)
            .map_err(|fault| fault.to_string())?;
    }
    Ok(())
}

#[test]
fn delayed_runs_are_right_and_never_stuck() {
    let with_fault = std::env::var_os(WITH_FAULT).is_some();
    millstream_worklist::internals::seed_count_after_publish(with_fault);
    let seeds = match number("MILLSTREAM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MILLSTREAM_DELAYED_RUNS").unwrap_or(300),
    };
    let runs = seeds.end - seeds.start;
    for seed in seeds {
        if let Err(reason) = run(seed) {
            panic!("MILLSTREAM_SEED={seed} fails: {reason}");
        }
    }
    println!("{runs} delayed runs, all right");
}

/// The same harness in a child process, with items counted only after their
/// packets are sent, must find a wrong answer, and find it again by its seed.
#[test]
fn delayed_runs_find_counting_after_publishing() {
    let harness = |seed: Option<&str>| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "delayed_runs::delayed_runs_are_right_and_never_stuck"]);
        child.env(WITH_FAULT, "1").env_remove("MILLSTREAM_SEED");
        child.env("MILLSTREAM_DELAYED_RUNS", "500");
        if let Some(seed) = seed {
            child.env("MILLSTREAM_SEED", seed);
        }
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        let failing = text.split("MILLSTREAM_SEED=").nth(1);
        let seed = failing.and_then(|rest| rest.split(' ').next()).map(str::to_string);
        (output.status.success(), seed)
    };
    let (success, seed) = harness(None);
    let seed = seed.unwrap();
    assert!(!success, "the seeded fault was not found");
    assert_eq!(harness(Some(&seed)), (false, Some(seed.clone())), "seed {seed} does not replay");
}
