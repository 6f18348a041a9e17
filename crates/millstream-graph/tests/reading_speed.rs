//! How fast a large edge list becomes a graph. Run it with
//! `cargo test --release -p millstream-graph --test reading_speed -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use millstream_graph::read::{ReadOptions, read_graph};
use millstream_graph::write::write_graph;

const BYTES: usize = 200 << 20;
const VERTICES: u64 = 1 << 20;

fn edge_list(columns: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(BYTES + 64);
    let mut state = 1u64;
    let mut next = move |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % most
    };
    while text.len() < BYTES {
        text.extend(format!("{} {}", next(VERTICES), next(VERTICES)).bytes());
        if columns == 3 {
            text.extend(format!(" {}", next(1000)).bytes());
        }
        text.push(b'\n');
    }
    text
}

/// The best of some runs, the first of which warms the cache.
fn best<T>(mut run: impl FnMut() -> T) -> Duration {
    let measure = |_| {
        let start = Instant::now();
        drop(run());
        start.elapsed()
    };
    (0..4).map(measure).min().unwrap_or_default()
}

#[test]
#[ignore = "takes long, and has a meaning in release only"]
fn edge_lists_are_read_at_a_hundred_megabytes_per_second() {
    let folder = tempfile::tempdir().unwrap();
    for columns in [2, 3] {
        let path = folder.path().join("large.el");
        let text = edge_list(columns);
        std::fs::write(&path, &text).unwrap();
        let megabytes = text.len() as f64 / 1e6;
        drop(text);
        let rate = |time: Duration| megabytes / time.as_secs_f64();
        let time = best(|| read_graph(&path, &ReadOptions::default()).unwrap());
        println!("{columns} columns: {:.0} MB/s of text into rows", rate(time));
        let mut options = ReadOptions::default();
        options.relabel = true;
        let relabelled = best(|| read_graph(&path, &options).unwrap());
        println!("{columns} columns: {:.0} MB/s relabelled", rate(relabelled));
        let graph = read_graph(&path, &ReadOptions::default()).unwrap();
        let copy = folder.path().join("large.mill");
        let written = best(|| write_graph(&path, &graph, None).unwrap());
        println!("{columns} columns: {:.0} MB/s of text written", rate(written));
        write_graph(&copy, &graph, None).unwrap();
        let mapped = best(|| read_graph(&copy, &ReadOptions::default()).unwrap());
        println!("{columns} columns: {:.3} s for the same graph in .mill", mapped.as_secs_f64());
        assert!(rate(time) > 100.0, "{:.0} MB/s", rate(time));
    }
}
