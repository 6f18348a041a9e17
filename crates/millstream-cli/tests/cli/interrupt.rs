//! Ctrl-C.

#![cfg(unix)]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Answer, Folder, command, dataset, remarks};

/// Starts a command that takes minutes, interrupts it while its devices run, and
/// waits for its end.
fn interrupt(arguments: &[&str]) -> Answer {
    interrupt_after(arguments, || sleep(Duration::from_secs(2)))
}

fn interrupt_after(arguments: &[&str], wait: impl FnOnce()) -> Answer {
    let mut command = command(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait();
    assert!(child.try_wait().unwrap().is_none(), "{arguments:?} ended before it was interrupted");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("{arguments:?} goes on after it was interrupted");
        }
        sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap().into()
}

fn assert_interrupted(answer: &Answer) {
    assert_eq!((answer.code, &*answer.stdout), (Some(130), ""), "{answer:?}");
    assert_eq!(remarks(&answer.stderr), "millstream: interrupted");
}

#[test]
fn an_interrupted_search_writes_nothing() {
    let folder = Folder::new();
    // A level for each vertex, and a round trip for each level.
    let chain: String = (0..400_000).map(|vertex| format!("{vertex} {}\n", vertex + 1)).collect();
    let graph = folder.file("chain.el", chain);
    let levels = folder.path("levels.txt");
    let by_levels = ["bfs", &graph, "--source", "0", "--algorithm", "level-synchronous"];
    assert_interrupted(&interrupt(&[&by_levels[..], &["--output", &levels]].concat()));
    assert_eq!(folder.names(), ["chain.el".as_ref() as &std::path::Path]);
}

/// More runs than numbers of 32 bits count, with the one that is not timed.
#[test]
fn the_most_repetitions_go_on_until_they_are_interrupted() {
    let repeated = ["bfs", &dataset("karate.mtx"), "--repeat", "4294967295"];
    assert_interrupted(&interrupt(&repeated));
}

#[test]
fn an_interrupted_filter_answers_nothing() {
    let options = ["--items", "40000000", "--packet-bytes", "64", "--buffers", "1"];
    assert_interrupted(&interrupt(&[&["filter"], &options[..]].concat()));
}

#[test]
fn a_file_that_is_not_complete_is_gone() {
    let folder = Folder::new();
    let out = folder.path("random.el.gz");
    let is_written = || {
        let names = folder.names();
        let length = |name: &PathBuf| std::fs::metadata(folder.path(name.to_str().unwrap()));
        names.iter().any(|name| length(name).is_ok_and(|file| file.len() > 0))
    };
    let wait = || {
        let start = Instant::now();
        while !is_written() && start.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(2));
        }
    };
    assert_interrupted(&interrupt_after(&["generate", "random", "100000", "2000000", &out], wait));
    assert!(folder.names().is_empty());
}
