//! Ctrl-C, and other signals that end a command.

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
    signal_after("INT", command(arguments), wait)
}

/// Starts a command, sends it a signal, and waits for its end.
fn signal_after(signal: &str, mut command: Command, wait: impl FnOnce()) -> Answer {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait();
    assert!(child.try_wait().unwrap().is_none(), "{command:?} ended before it was interrupted");
    send(signal, child.id());
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("{command:?} goes on after it was interrupted");
        }
        sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap().into()
}

fn send(signal: &str, process: u32) {
    let kill = Command::new("kill").args([&format!("-{signal}"), &process.to_string()]).status();
    assert!(kill.unwrap().success());
}

fn assert_interrupted(answer: &Answer) {
    assert_eq!((answer.code, &*answer.stdout), (Some(130), ""), "{answer:?}");
    assert_eq!(remarks(&answer.stderr), "millstream: interrupted");
}

#[test]
fn an_interrupted_search_writes_nothing() {
    let folder = Folder::new();
    // A level for each vertex, and more runs than anybody waits for.
    let chain: String = (0..400_000).map(|vertex| format!("{vertex} {}\n", vertex + 1)).collect();
    let graph = folder.file("chain.el", chain);
    let levels = folder.path("levels.txt");
    let by_levels = ["bfs", &graph, "--source", "0", "--algorithm", "level-synchronous"];
    let often = ["--repeat", "100000", "--output", &levels];
    assert_interrupted(&interrupt(&[&by_levels[..], &often].concat()));
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
    for signal in ["INT", "TERM", "HUP"] {
        if signal == "HUP" && ignores_hangups() {
            println!("SIGHUP is left out: these tests ignore it, and so does what they start");
            continue;
        }
        let folder = Folder::new();
        let out = folder.path("random.el.gz");
        // Takes seconds to write, however fast the machine is.
        let generate = command(&["generate", "random", "400000", "8000000", &out]);
        assert_interrupted(&signal_after(signal, generate, || until_written(&folder)));
        assert!(folder.names().is_empty(), "SIG{signal}");
    }
}

/// METIS handles this signal itself as long as it runs, which takes seconds.
#[test]
fn a_partition_that_is_terminated_ends_at_once() {
    let folder = Folder::new();
    let graph = folder.path("road.mill");
    let made = command(&["generate", "road", "2000", "1500", &graph]).output().unwrap();
    assert!(made.status.success());
    for milliseconds in [500, 1000, 1500] {
        let divide = command(&["partition", &graph, "--parts", "64", "--partitioner", "metis"]);
        let wait = || sleep(Duration::from_millis(milliseconds));
        assert_interrupted(&signal_after("TERM", divide, wait));
    }
}

/// Whether the tests were started as `nohup` does it.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    // Signal 1 is bit 0.
    ignored.is_some_and(|bits| bits & 1 == 1)
}

/// Waits until something has been written in a folder.
fn until_written(folder: &Folder) {
    let is_written = || {
        let names = folder.names();
        let length = |name: &PathBuf| std::fs::metadata(folder.path(name.to_str().unwrap()));
        names.iter().any(|name| length(name).is_ok_and(|file| file.len() > 0))
    };
    let start = Instant::now();
    while !is_written() {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing is written");
        sleep(Duration::from_millis(2));
    }
}

/// The devices stop first.
#[test]
fn a_terminated_search_writes_nothing() {
    let folder = Folder::new();
    let levels = folder.path("levels.txt");
    let repeated = ["bfs", &dataset("karate.mtx"), "--repeat", "1000000000", "--output", &levels];
    let wait = || sleep(Duration::from_secs(2));
    assert_interrupted(&signal_after("TERM", command(&repeated), wait));
    assert!(folder.names().is_empty());
}

/// As `nohup` starts a command, which then outlives its terminal.
#[test]
fn an_ignored_hangup_stays_ignored() {
    let repeated = command(&["bfs", &dataset("karate.mtx"), "--repeat", "1000000000"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]);
    shell.arg(repeated.get_program()).args(repeated.get_args());
    shell.env("MILLSTREAM_DEVICES", "host:2").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    sleep(Duration::from_secs(2));
    send("HUP", child.id());
    sleep(Duration::from_secs(1));
    let has_ended = child.try_wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(has_ended, None);
}
