//! `millstream cc`.

use serde_json::{Value, json};

use crate::common::{Folder, dataset, json, refused, remarks, run, succeed};

#[test]
fn json_has_the_keys_of_the_contract() {
    let folder = Folder::new();
    let graph = folder.file("graph.el", "1 0\n3 2\n4 3\n6 6\n");
    for streamed in [&[][..], &["--streamed"]] {
        let fixed = ["cc", &graph, "--devices", "host:3", "--verify"];
        let report = json(&[&fixed[..], streamed].concat());
        for (key, value) in [
            ("algorithm", json!("cc")),
            ("vertices", json!(7)),
            ("edges", json!(4)),
            ("devices", json!(["host:0", "host:1", "host:2"])),
            ("source", json!(null)),
            ("verified", json!(true)),
            ("components", json!(4)),
            ("largest", json!(3)),
        ] {
            assert_eq!(report.get(key), Some(&value), "{key}");
        }
        assert!(report["time_ms"].as_f64().unwrap() > 0.0);
        let per_device = report["per_device"].as_array().unwrap();
        let sum = per_device.iter().map(|device| device["work_items"].as_u64().unwrap()).sum();
        assert_eq!(per_device.len(), 3);
        assert!(sum > 0 && report["work_items"].as_u64() == Some(sum), "{report}");
        let links = report["links"].as_array().unwrap();
        for (device, name) in per_device.iter().zip(["host:0", "host:1", "host:2"]) {
            let its = links.iter().filter(|link| link["from"] == name);
            let bytes = its.map(|link| link["bytes"].as_u64().unwrap()).sum::<u64>();
            // A vertex and its root.
            assert_eq!(json!(bytes / 8), device["sent"], "{report}");
        }
    }
}

#[test]
fn devices_receive_what_is_sent_to_them() {
    let folder = Folder::new();
    let apart = r#"{ "links": [["memory", "host"], ["host", "memory"]] }"#;
    let topology = folder.file("apart.json", apart);
    let graph = dataset("debian-dependencies.el.gz");
    for (options, from_host) in [
        (&["--partitioner", "random", "--transfer", "copy"][..], false),
        (&["--topology", &topology], false),
        (&["--streamed", "--packet-bytes", "65536"], true),
    ] {
        let report = json(&[&["cc", &graph, "--devices", "host:2"], options].concat());
        let sum = |key: &str| {
            let devices = report["per_device"].as_array().unwrap();
            devices.iter().map(|device| device[key].as_u64().unwrap()).sum::<u64>()
        };
        let fed = if from_host { report["edges"].as_u64().unwrap() } else { 0 };
        assert!(sum("sent") > 0, "{report}");
        assert_eq!(sum("received"), sum("sent") + fed, "{report}");
        let links = report["links"].as_array().unwrap();
        let is_fed = |link: &&Value| link["from"] == "host";
        let bytes =
            |all: Vec<&Value>| all.iter().map(|link| link["bytes"].as_u64().unwrap()).sum::<u64>();
        let pairs = bytes(links.iter().filter(|link| !is_fed(link)).collect());
        assert!(links.is_empty() || pairs == 8 * sum("sent"), "{report}");
        // A word an arc, another a row, and two a packet.
        let rows = bytes(links.iter().filter(is_fed).collect());
        let most = 4 * (fed + report["vertices"].as_u64().unwrap()) * 5 / 4;
        assert!(rows >= 4 * fed && rows <= most, "{report}");
    }
}

#[test]
fn packets_are_no_more_than_there_are() {
    let graph = dataset("debian-dependencies.el.gz");
    for option in [["--buffers", "9999999999"], ["--packet-bytes", "999999999999"]] {
        for links in [&["--streamed"][..], &["--transfer", "copy"]] {
            let report = json(&[&["cc", &graph, "--verify"], links, &option].concat());
            assert_eq!(report["verified"], json!(true), "{option:?}");
        }
    }
}

#[test]
fn options_of_packets_want_packets() {
    let karate = dataset("karate.mtx");
    for option in [["--buffers", "9"], ["--packet-bytes", "64"]] {
        let said = remarks(&run(&[&["cc", &karate][..], &option].concat()).stderr);
        assert!(said.contains(&format!("{} does nothing here", option[0])), "{said}");
        for links in [&["--streamed"][..], &["--transfer", "copy"], &["--devices", "host:17"]] {
            succeed(&[&["cc", &karate], links, &option].concat());
        }
    }
}

#[test]
fn the_method_is_named() {
    let folder = Folder::new();
    let one_way = folder.file("one-way.el", "1 0\n3 2\n4 3\n");
    let path = folder.file("path.el", "0 1\n1 0\n1 2\n2 1\n");
    for (graph, options, expected) in [
        (one_way, &[][..], "every-arc"),
        (path.clone(), &[], "towards-smaller"),
        (dataset("karate.mtx"), &[], "outside-hub"),
        (path, &["--streamed"], "streamed"),
    ] {
        let report = json(&[&["cc", &graph, "--devices", "host:2"], options].concat());
        assert_eq!(report["method"], json!(expected), "{report}");
    }
}

#[test]
fn the_table_says_how_large_components_are() {
    let folder = Folder::new();
    let table = succeed(&["cc", &folder.file("graph.el", "0 0\n1 1\n")]);
    assert!(table.contains("2, the largest of 1\n"), "{table}");
}

#[test]
fn nothing_takes_no_time() {
    let folder = Folder::new();
    let header = "%%MatrixMarket matrix coordinate pattern general\n0 0 0\n";
    let graph = folder.file("empty.mtx", header);
    for command in ["cc", "pagerank"] {
        assert_eq!(json(&[command, &graph])["teps"], json!(0.0), "{command}");
        assert!(!succeed(&[command, &graph]).contains("NaN"), "{command}");
    }
}

#[test]
fn labels_go_to_files_by_their_ids() {
    let folder = Folder::new();
    let graph = folder.file("graph.el", "11 7\n3 20\n20 4\n");
    let path = folder.path("labels");
    let said = succeed(&["cc", &graph, "--relabel", "--verify", "--output", &path]);
    assert!(said.ends_with("verified\n"), "{said}");
    assert_eq!(folder.text("labels"), "3 3\n4 3\n7 7\n11 7\n20 3\n");
    refused(&["cc", &graph, "--packet-bytes", "1"], 2);
    refused(&["cc", &folder.path("missing.el")], 2);
}

#[test]
fn the_answer_does_not_depend_on_how_it_is_found() {
    let folder = Folder::new();
    let graph = dataset("debian-dependencies.el.gz");
    let labels = |name: &str, options: &[&str]| {
        let path = folder.path(name);
        let fixed = ["cc", &graph, "--verify", "--output", &path];
        assert!(succeed(&[&fixed[..], options].concat()).ends_with("verified\n"), "{options:?}");
        folder.text(name)
    };
    let expected = labels("one", &["--devices", "host:1"]);
    for options in [
        &["--partitioner", "random"][..],
        &["--partitioner", "metis", "--devices", "host:2x2"],
        &["--streamed", "--packet-bytes", "65536", "--buffers", "1"],
    ] {
        assert!(labels("several", options) == expected, "{options:?}");
    }
}

#[test]
fn streamed_runs_are_repeated_and_not_divided() {
    let karate = dataset("karate.mtx");
    let report = json(&["cc", &karate, "--streamed", "--repeat", "3", "--verify"]);
    assert_eq!((&report["components"], &report["verified"]), (&json!(1), &json!(true)));
    assert_eq!(report["times_ms"].as_array().unwrap().len(), 3);
    let said = refused(&["cc", &karate, "--streamed", "--partitioner", "blocks"], 2);
    assert!(said.contains("--partitioner does not go with --streamed"), "{said}");
}
