//! Exit codes of what cannot be done, and what is said about it.

use std::process::Stdio;

use crate::common::{Folder, command, dataset, refused, remarks, run, succeed};

const COMMANDS: [&[&str]; 4] =
    [&["bfs"], &["info"], &["partition", "--parts", "2", "--partitioner", "blocks"], &["convert"]];

#[test]
fn bad_input_is_named_with_its_file_and_line() {
    let folder = Folder::new();
    let mut gzip = std::fs::read(dataset("debian-dependencies.el.gz")).unwrap();
    gzip.truncate(gzip.len() / 2);
    let files: [(&str, &[u8], &str); 14] = [
        ("empty.el", b"", ""),
        ("word.el", b"0 1\n1 x\n", ":2"),
        ("alone.el", b"0 1\n\n7\n", ":3"),
        ("negative.el", b"0 -1\n", ":1"),
        ("nan.wel", b"0 1 nan\n", ":1"),
        ("large.el", b"0 1\n0 4294967295\n", ":2"),
        ("latin.el", b"0 1\n# caf\xe9\n1 \xe9\n", ""),
        ("sizes.mtx", b"%%MatrixMarket matrix coordinate pattern general\n", ""),
        ("entries.mtx", b"%%MatrixMarket matrix coordinate pattern general\n9 9 5\n1 1\n", ""),
        ("range.mtx", b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n3 1\n", ":3"),
        ("complex.mtx", b"%%MatrixMarket matrix coordinate complex general\n1 1 0\n", ":1"),
        ("half.el.gz", &gzip, ""),
        (
            "heading.el",
            b"from to\n0 1\n",
            ":1: \"from\" is not a vertex id; a heading begins with #",
        ),
        ("semicolons.csv", b"0;1\n", ":1: \"0;1\" is not a vertex id; a heading begins with #"),
    ];
    for (name, content, line) in files {
        let path = folder.file(name, content);
        for command in COMMANDS {
            let out = folder.path("out.el");
            let mut arguments = [&command[..1], &[&*path], &command[1..]].concat();
            arguments.extend((command[0] == "convert").then_some(&*out));
            let said = refused(&arguments, 2);
            assert!(said.contains(&format!("{path}{line}")), "{said}");
        }
    }
    assert_eq!(folder.names().len(), 14);
}

#[test]
fn what_is_no_file_is_bad_input() {
    let folder = Folder::new();
    for path in [folder.path("missing.el"), folder.path("")] {
        assert!(refused(&["bfs", &path], 2).contains(&path));
        assert!(refused(&["info", &path], 2).contains(&path));
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let karate = dataset("karate.mtx");
    for (option, values) in [
        ("--devices", &["nonsense", "", "host:0", "host:x", "cuda"][..]),
        ("--delta", &["0", "x", "-1.5"]),
        ("--packet-bytes", &["0", "7", "x"]),
        ("--buffers", &["0", "x"]),
        ("--queue-entries", &["0", "x"]),
        ("--depth-limit", &["x", "4294967296"]),
        ("--routing", &["around"]),
        ("--partitioner", &["halves"]),
        ("--no-such-option", &["1"]),
    ] {
        for value in values {
            let said = refused(&["bfs", &karate, "--algorithm", "asynchronous", option, value], 2);
            assert!(!said.contains("stack backtrace"), "{said}");
        }
    }
    for arguments in [
        &["frobnicate"][..],
        &["bfs"],
        &["bfs", &karate, "--packet-bytes", "0"],
        &["bfs", &karate, "--buffers", "0"],
        &["bfs", &karate, "--algorithm", "sideways"],
        &["filter", "--items", "10", "--packet-bytes", "3"],
        &["filter", "--items", "10", "--buffers", "0"],
        &["filter", "--schedule", "dynamic"],
        &["filter", "--slow", "host:1"],
        &["filter", "--slow", "host:1=0"],
        &["filter", "--devices", "host:2", "--slow", "host:2=4"],
        &["filter", "--devices", "host:2", "--slow", "host:1=4", "--slow", "host:1=2"],
        &["partition", &karate, "--parts", "0", "--partitioner", "blocks"],
        &["partition", &karate, "--parts", "35", "--partitioner", "blocks"],
        &["partition", &karate, "--parts", "1000000000000", "--partitioner", "edges"],
        &["generate", "grid", "3", "-3", "out.el"],
        &["generate", "kron", "10", "99999999999999", "out.el"],
        &["generate", "social", "0", "137438953473", "out.el"],
        &["generate", "random", "9", "18446744073709551615", "out.el"],
        &["topology", "--devices", "nonsense"],
    ] {
        refused(arguments, 2);
    }
}

#[test]
fn options_are_looked_at_before_the_graph() {
    for (arguments, said_of_it) in [
        (&["bfs", "none.el", "--delta", "1e-60"][..], "delta 1e-60 is not"),
        (&["sssp", "none.el", "--cutoff", "-1"], "cutoff -1.0 is not"),
        (&["sssp", "none.el", "--delta", "1e-60"], "delta 1e-60 is not"),
        (&["pagerank", "none.el", "--damping", "1"], "damping 1 is not"),
        (&["pagerank", "none.el", "--tolerance", "nan"], "tolerance NaN is not"),
        (&["cc", "none.el", "--packet-bytes", "7"], "7 bytes"),
        (&["cc", "none.el", "--buffers", "0"], "buffer"),
    ] {
        let said = refused(arguments, 2);
        assert!(said.contains(said_of_it) && !said.contains("none.el"), "{said}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let karate = dataset("karate.mtx");
    let too_large = ["sssp", &karate, "--weights", "random:4294967296"];
    for (arguments, said_of_it) in [
        (&["bfs", &karate, "--source", "center,3"][..], "max-degree and center stand alone"),
        (&["sssp", &karate, "--weights=unit", "--source", "3, max-degree"], "stand alone"),
        (&too_large, "with MAX from 1 to 4294967295"),
        (&["filter", "--divisor", "0"], "'0' for '--divisor"),
    ] {
        let said = refused(arguments, 2);
        assert!(said.contains(said_of_it), "{said}");
    }
}

#[test]
fn a_graph_without_an_answer_is_named() {
    let folder = Folder::new();
    let banner = "%%MatrixMarket matrix coordinate pattern general\n0 0 0\n";
    let (empty, karate) = (folder.file("empty.mtx", banner), dataset("karate.mtx"));
    for (arguments, said_of_it) in [
        (&["bfs", &empty][..], format!("{empty}: the graph has no vertex")),
        (&["sssp", &empty, "--weights", "unit"], format!("{empty}: the graph has no vertex")),
        (
            &["pagerank", &karate, "--weighted"],
            format!("{karate} has no weights; convert gives it some with --weights"),
        ),
    ] {
        let said = refused(arguments, 2);
        assert!(said.contains(&said_of_it), "{said}");
    }
}

#[test]
fn ids_of_other_formats_are_dense() {
    let karate = dataset("karate.mtx");
    let answer = run(&["info", &karate, "--relabel"]);
    let said = remarks(&answer.stderr);
    assert_eq!(answer.code, Some(0), "{said}");
    assert!(said.contains(&format!("--relabel does nothing here: {karate} is no")), "{said}");
}

#[test]
fn negative_numbers_are_values() {
    let karate = dataset("karate.mtx");
    for (arguments, said_of_it) in [
        (&["bfs", &karate, "--source", "-1"][..], "source \"-1\" is neither"),
        (&["sssp", &karate, "--weights", "unit", "--cutoff", "-1"], "cutoff -1.0 is not"),
        (&["sssp", &karate, "--delta", "-1"], "neither auto, off nor positive"),
        (&["pagerank", &karate, "--tolerance", "-1"], "tolerance -1"),
        (&["generate", "grid", "3", "3", "out.el", "--seed", "-1"], "invalid value '-1' for"),
        (&["generate", "grid", "3", "-3", "out.el"], "invalid value '-3' for"),
    ] {
        let said = refused(arguments, 2);
        assert!(said.contains(said_of_it), "{said}");
    }
}

#[test]
fn help_says_what_unreached_is_and_who_divides() {
    let help = |command: &str| {
        let help = succeed(&[command, "--help"]);
        help.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (command, none) in
        [("bfs", "18446744073709551615"), ("sssp", "18446744073709551615"), ("cc", "4294967295")]
    {
        assert!(help(command).contains(none));
        assert_eq!(help(command).contains("have none: inf in text"), command != "cc");
    }
    for command in ["bfs", "sssp", "cc", "pagerank"] {
        let help = help(command);
        assert!(
            help.contains("Unless given, edges, but regions for BFS, and for SSSP other"),
            "{help}"
        );
        assert!(help.contains("host:2x3 (three virtual devices on each of two)"), "{help}");
    }
}

#[test]
fn help_has_headings_and_says_what_values_are() {
    let help = |command: &str| succeed(&[command, "--help"]);
    for command in ["bfs", "sssp", "pagerank"] {
        let help = help(command);
        for heading in
            ["Arguments:", "Graph input:", "Devices:", "Partition:", "Worklist:", "Answer:"]
        {
            assert_eq!(help.matches(&format!("\n{heading}\n")).count(), 1, "{heading} in {help}");
        }
        for option in
            ["--output <FILE>", "--repeat <N>", "--devices <LIST>", "--patience <SECONDS>"]
        {
            assert!(help.contains(option), "{option} is not in {help}");
        }
    }
    // What stands before the first of the other headings.
    let own = |command: &str| help(command).split("\nGraph input:").next().unwrap().to_string();
    for (command, option) in [
        ("bfs", "--source"),
        ("cc", "--streamed"),
        ("partition", "--parts"),
        ("convert", "--weights"),
    ] {
        assert!(own(command).contains(option), "{command}: {}", own(command));
        assert!(own(command).contains("--help"), "{command}: {}", own(command));
    }
    assert!(!own("convert").contains("--dedupe") && own("convert").contains("--format"));
    assert!(help("pagerank").contains("[default: 1e-6]"));
    assert!(help("sssp").contains("--weights <unit|random:MAX>"));
}

#[test]
fn help_and_version_are_answers() {
    let help = succeed(&["--help"]);
    for command in ["bfs", "filter", "generate", "convert", "info", "partition", "topology"] {
        assert!(help.contains(command), "{command}: {help}");
    }
    assert_eq!(succeed(&["--version"]), concat!("millstream ", env!("CARGO_PKG_VERSION"), "\n"));
}

/// A reader that closes early, as `head` does.
#[test]
fn a_closed_pipe_is_no_panic() {
    let mut info = command(&["info", &dataset("karate.mtx")]);
    let mut child = info.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(output.status.code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_printed_is_an_error() {
    for arguments in [&["info", &*dataset("karate.mtx")][..], &["--help"], &["bfs", "--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command(arguments).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("standard output"), "{said}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?} on a closed pipe");
    }
}

/// The exit code is what remains to be said.
#[cfg(target_os = "linux")]
#[test]
fn a_standard_error_that_takes_nothing_changes_no_exit_code() {
    let folder = Folder::new();
    let sparse = folder.file("sparse.el", "10000000000 7\n");
    let karate = dataset("karate.mtx");
    for (arguments, code) in [
        (&["info", &karate][..], 0),
        // Remarks that ids are lost.
        (&["convert", &sparse, &folder.path("out.mtx"), "--relabel"], 0),
        (&["info", "missing.el"], 2),
        (&["info", &karate, "--no-such-option"], 2),
        (&["frobnicate"], 2),
        (&["bfs", &karate, "--devices", "nonsense"], 2),
        (&["bfs", &karate, "--output", "/dev/full"], 1),
        (&["pagerank", &karate, "--max-iterations", "1"], 3),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command(arguments).stderr(full).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?} on a full device");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(arguments).stderr(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?} on a closed pipe");
    }
}
