//! BFS, driven by the host, on the three graphs of the measurements, verified and
//! timed. Ignored unless asked for: they need some 16 GiB of host memory.

use std::time::{Duration, Instant};

use millstream::bfs::{Bfs, BfsOptions};
use millstream::graph::generate::{self, GenerateError, GenerateOptions, KEEP_PERMILLE};
use millstream::graph::{CsrGraph, partition, reference, source};
use millstream::worklist::Routing;

use super::context;

const RUNS: usize = 5;

fn search(
    name: &str,
    generate: impl FnOnce(&GenerateOptions) -> Result<CsrGraph, GenerateError>,
    source: impl FnOnce(&CsrGraph) -> Option<u32>,
) {
    let start = Instant::now();
    let graph = generate(&GenerateOptions::default()).unwrap();
    let source = source(&graph).unwrap();
    let generated = start.elapsed();
    let start = Instant::now();
    let expected = reference::bfs_levels(&graph, &[source], None);
    let (vertices, arcs) = (graph.vertices(), graph.arcs());
    println!("{name}: {vertices} vertices, {arcs} arcs, source {source}");
    println!("{name}: {generated:.1?} to generate, {:.1?} for the reference", start.elapsed());
    let context = context();
    let names: Vec<String> =
        context.devices().iter().map(millstream::device::Device::name).collect();
    let start = Instant::now();
    let parts = partition::automatic(&graph, context.devices().len());
    let partitioned = start.elapsed();
    let start = Instant::now();
    let placing = Bfs::with_partition(&context, &graph, parts, BfsOptions::default());
    let mut bfs = context.block_on(placing).unwrap().unwrap();
    let placed = start.elapsed();
    println!("{name}: partition {partitioned:.1?}, renumber and upload {placed:.1?}");
    for routing in [Routing::Ring, Routing::Direct] {
        let mut options = crate::bfs::asynchronous();
        options.worklist.routing = routing;
        bfs.set_options(options).unwrap();
        let (mut runs, mut gathers, mut summary) = (Vec::new(), Vec::new(), String::new());
        // The first is not counted.
        for run in 0..=RUNS {
            let result = context.block_on(bfs.run(&[source])).unwrap().unwrap();
            assert!(result.levels == expected, "{name} {routing:?}: wrong levels in run {run}");
            if run > 0 {
                runs.push(result.run_time);
                gathers.push(result.gather_time);
            }
            let sum = |bytes: fn(&millstream::flow::LinkStatistics) -> u64| {
                result.statistics.links.iter().map(bytes).sum::<u64>()
            };
            summary = format!(
                "{} work items for {} reached, last level {}, {} packets, {} bytes",
                result.statistics.work_items(),
                result.reached(),
                result.max_level().unwrap_or(0),
                sum(|link| link.packets),
                sum(|link| link.bytes)
            );
        }
        let (run, gather) = (median(&mut runs), median(&mut gathers));
        println!(
            "{name} {routing:?} on {}: verified, median of {RUNS}: run {:.3} ms, gather {:.3} ms; \
             {summary}",
            names.join(","),
            run.as_secs_f64() * 1e3,
            gather.as_secs_f64() * 1e3
        );
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
#[ignore = "needs 16 GiB of host memory"]
fn road_4900() {
    let road = |options: &GenerateOptions| generate::road(4900, 4900, KEEP_PERMILLE, options);
    search("road 4900x4900", road, source::center);
}

#[test]
#[ignore = "needs 16 GiB of host memory"]
fn kron_21_48() {
    search("kron 21 48", |options| generate::kron(21, 48, options), source::max_degree);
}

#[test]
#[ignore = "needs 16 GiB of host memory"]
fn social_22_9() {
    search("social 22 9", |options| generate::social(22, 9, options), source::max_degree);
}
