//! `millstream filter` and `partition`.

use serde_json::{Value, json};

use crate::common::{Folder, dataset, json, succeed};

#[test]
fn filter_keeps_the_multiples() {
    for schedule in ["first-available", "static"] {
        let report = json(&[
            "filter",
            "--items",
            "100000",
            "--divisor",
            "7",
            "--verify",
            "--schedule",
            schedule,
        ]);
        assert_eq!((&report["algorithm"], &report["items"]), (&json!("filter"), &json!(100_000)));
        assert_eq!(report["divisor"], json!(7));
        assert_eq!((&report["kept"], &report["verified"]), (&json!(14_286), &json!(true)));
        assert!(report["items_per_second"].as_f64().unwrap() > 0.0);
        assert_eq!(report["devices"].as_array().unwrap().len(), 4);
    }
    let table = succeed(&["filter", "--items", "100", "--divisor", "3", "--verify"]);
    assert!(table.contains("100, 34 kept") && table.ends_with("verified\n"), "{table}");
    assert_eq!(json(&["filter", "--items", "0"])["kept"], json!(0));
}

#[test]
fn filter_says_who_took_what() {
    let options = "--items 100000 --divisor 7 --devices host:3 --packet-bytes 4000 --verify";
    let options = ["filter"].into_iter().chain(options.split(' ')).collect::<Vec<_>>();
    for (schedule, packets) in [("first-available", 100), ("static", 102)] {
        let slow = ["--schedule", schedule, "--slow", "host:1=4", "--slow", "host:2=2"];
        let report = json(&[&options[..], &slow].concat());
        assert_eq!((&report["schedule"], &report["verified"]), (&json!(schedule), &json!(true)));
        let devices = report["per_device"].as_array().unwrap();
        let all = |key: &str| -> Vec<Value> { devices.iter().map(|of| of[key].clone()).collect() };
        let numbers = |key: &str| -> Vec<f64> {
            all(key).iter().map(|value| value.as_f64().unwrap()).collect()
        };
        assert_eq!(all("device"), ["host:0", "host:1", "host:2"]);
        assert_eq!(all("slow"), [1, 4, 2]);
        assert_eq!(numbers("items").iter().sum::<f64>(), 1e5);
        assert_eq!(numbers("packets").iter().sum::<f64>(), f64::from(packets));
        assert!((numbers("ideal_items").iter().sum::<f64>() - 1e5).abs() < 1.0, "{report}");
        assert!(numbers("alone_items_per_second").iter().all(|&rate| rate > 0.0), "{report}");
        let time = report["time_ms"].as_f64().unwrap();
        assert!(numbers("time_ms").iter().all(|&until| until <= time), "{report}");
        assert!(report["ideal_time_ms"].as_f64().unwrap() > 0.0);
        if schedule == "static" {
            assert_eq!(numbers("packets"), [34.0, 34.0, 34.0]);
            assert!(numbers("items").iter().all(|&items| (items - 1e5 / 3.0).abs() < 1.0));
        }
    }
    let table = succeed(&[&options[..], &["--slow", "host:1=4"]].concat());
    assert!(table.contains("ideal items") && table.contains("host:1"), "{table}");
    assert!(succeed(&["filter", "--items", "0"]).contains("ideal items"));
}

#[test]
fn filter_takes_no_more_packets_than_there_are() {
    for (option, value) in [("--buffers", "9999999999"), ("--packet-bytes", "999999999999")] {
        let report = json(&["filter", "--items", "1000000", "--verify", option, value]);
        assert_eq!(report["verified"], json!(true), "{option}");
        let devices = report["per_device"].as_array().unwrap();
        let bytes = |device: &Value| device["packet_bytes"].as_u64().unwrap();
        assert!(devices.iter().all(|device| bytes(device) <= 4_000_000), "{report}");
    }
}

#[test]
fn rows_of_tables_end_without_blanks() {
    let karate = dataset("karate.mtx");
    for arguments in [
        &["bfs", &*karate, "--algorithm", "asynchronous"][..],
        &["filter", "--items", "100"],
        &["info", &karate],
        &["partition", &karate, "--parts", "2", "--partitioner", "blocks"],
        &["topology"],
    ] {
        let table = succeed(arguments);
        assert!(!table.lines().any(|row| row.ends_with(' ')), "{table}");
    }
}

#[test]
fn partition_says_how_well_it_divides() {
    let karate = dataset("karate.mtx");
    for partitioner in ["blocks", "edges", "random", "regions", "metis"] {
        let folder = Folder::new();
        let parts = folder.path("parts.txt");
        let options = ["--parts", "3", "--partitioner", partitioner, "--output", &parts];
        let report = json(&[&["partition", &karate], &options[..]].concat());
        assert_eq!((&report["vertices"], &report["parts"]), (&json!(34), &json!(3)));
        assert!(report["vertex_balance"].as_f64().unwrap() >= 1.0, "{partitioner}: {report}");
        assert!(report["arc_balance"].as_f64().unwrap() >= 1.0, "{partitioner}: {report}");
        let cut = report["edge_cut"].as_u64().unwrap();
        assert!(0 < cut && cut < 156, "{partitioner} cuts {cut}");
        let text = folder.text("parts.txt");
        let lines: Vec<(usize, usize)> = text
            .lines()
            .map(|line| {
                let (vertex, part) = line.split_once(' ').unwrap();
                (vertex.parse().unwrap(), part.parse().unwrap())
            })
            .collect();
        assert!(lines.iter().map(|line| line.0).eq(0..34), "{text}");
        assert!((0..3).all(|part| lines.iter().any(|line| line.1 == part)), "{text}");
        assert!(lines.iter().all(|line| line.1 < 3), "{text}");
    }
    let table = succeed(&["partition", &karate, "--parts", "2", "--partitioner", "blocks"]);
    assert!(table.contains("part 0: 17 vertices"), "{table}");
    assert!(table.contains("part 1: 17 vertices"), "{table}");
}

/// METIS says on C's standard output what it makes of so many parts.
#[test]
fn answers_are_all_that_is_on_standard_output() {
    let folder = Folder::new();
    let star: String = (1..16).map(|leaf| format!("0 {leaf}\n")).collect();
    let star = folder.file("star.el", star);
    let report = json(&["partition", &star, "--parts", "11", "--partitioner", "metis"]);
    assert_eq!(report["sizes"].as_array().unwrap().len(), 11);
    for algorithm in ["bfs", "cc"] {
        let metis = ["--partitioner", "metis"];
        let report =
            json(&[&[algorithm, &star, "--devices", "host:11", "--verify"][..], &metis].concat());
        assert_eq!(report["verified"], true, "{algorithm}");
    }
}
