//! `--trace`: what is written, and when nothing is.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::common::{Folder, dataset, refused, succeed};

/// The events of a file that has to be a trace.
fn events(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

#[test]
fn what_devices_and_the_command_did_is_written() {
    let folder = Folder::new();
    let file = folder.path("trace.json");
    let karate = dataset("karate.mtx");
    for command in [
        &["bfs", &*karate][..],
        &["sssp", &karate, "--weights", "unit"],
        &["pagerank", &karate],
        &["cc", &karate],
        &["cc", &karate, "--streamed"],
        &["filter", "--items", "100000"],
    ] {
        succeed(&[command, &["--devices", "host:2", "--trace", &file]].concat());
        let events = events(&file);
        let (names, spans): (Vec<_>, Vec<_>) =
            events.iter().partition(|event| event["ph"] == json!("M"));
        let devices: BTreeSet<_> = names
            .iter()
            .filter(|name| name["name"] == json!("process_name"))
            .map(|name| name["args"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(devices, BTreeSet::from(["host", "host:0", "host:1"]), "{command:?}");
        // Every row has a name, and what it did is in the order of time.
        let row = |event: &Value| (event["pid"].as_u64(), event["tid"].as_u64());
        let rows: BTreeSet<_> = names.iter().map(|name| row(name)).collect();
        assert!(spans.iter().all(|span| rows.contains(&row(span))), "{command:?}");
        for row_of in rows {
            let mut its: Vec<_> = spans
                .iter()
                .filter(|span| row(span) == row_of && span["pid"] != json!(0))
                .map(|span| [&span["ts"], &span["dur"]].map(|time| time.as_f64().unwrap()))
                .collect();
            its.sort_by(|one, other| one[0].total_cmp(&other[0]));
            let overlap = its.windows(2).find(|two| two[0][0] + two[0][1] > two[1][0] + 0.001);
            assert_eq!(overlap, None, "{command:?}");
        }
        let has = |name: &str| spans.iter().any(|span| span["name"] == json!(name));
        let phase = if command[0] == "filter" { "filtering" } else { "reading" };
        assert!(has(phase), "{command:?}");
        assert!(spans.iter().any(|span| span["args"]["bytes"].is_u64()), "{command:?}");
    }
}

#[test]
fn a_trace_takes_nobody_elses_place() {
    let folder = Folder::new();
    let file = folder.path("file");
    let karate = dataset("karate.mtx");
    for (command, option) in [
        ("bfs", "--output"),
        ("bfs", "--predecessors"),
        ("sssp", "--output"),
        ("pagerank", "--output"),
        ("cc", "--output"),
    ] {
        let said = refused(&[command, &karate, option, &file, "--trace", &file], 2);
        assert!(said.contains(option) && said.contains("--trace"), "{said}");
    }
    // Also of what fails there is a trace.
    refused(&["bfs", &karate, "--source", "99", "--trace", &file], 2);
    assert!(!events(&file).is_empty());
}
