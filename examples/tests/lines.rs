//! A program of one's own on the worklist is short: host and device code together.

#![allow(clippy::unwrap_used)]

use std::path::Path;

/// Lines of a program stay below this, without its `main.rs`, which makes a graph and checks the answer.
const MOST_LINES: usize = 150;

#[test]
fn programs_of_ones_own_are_short() {
    for example in ["09-widest-path", "10-k-core"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
        let files = folder.read_dir().unwrap().map(|file| file.unwrap().path());
        let lines = files
            .filter(|file| !file.ends_with("main.rs"))
            .map(|file| std::fs::read_to_string(file).unwrap().lines().count());
        let lines: Vec<_> = lines.collect();
        assert!(lines.len() >= 2, "{example}: host and device code");
        let sum: usize = lines.iter().sum();
        assert!(sum < MOST_LINES, "{example} has {sum} lines");
    }
}
