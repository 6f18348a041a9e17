//! `millstream topology`, and `--topology` of the other commands.

use serde_json::{Value, json};

use crate::common::{Folder, command, dataset, json, refused, succeed};

/// Eight devices in two quadruplets [G §2.1].
const QUADRUPLETS: &str =
    include_str!("../../../millstream-device/tests/shapes/two-quadruplets.json");

#[test]
fn names_devices_links_and_ring() {
    let report = json(&["topology", "--devices", "host:3"]);
    assert_eq!(report["devices"], json!(["host:0", "host:1", "host:2"]));
    assert_eq!(report["links"], json!(vec![vec!["memory"; 3]; 3]));
    assert_eq!(report["locations"], json!([null, null, null]));
    assert_eq!(report["ring"], json!([0, 1, 2]));
    assert_eq!(report["transfers"], json!([]));
    let table = succeed(&["topology", "--devices", "host:2"]);
    assert!(table.contains("ring: host:0 -> host:1"), "{table}");
}

#[test]
fn shapes_of_other_machines() {
    let folder = Folder::new();
    let shape = folder.file("quadruplets.json", QUADRUPLETS);
    let report = json(&["topology", "--devices", "host:8", "--topology", &shape]);
    assert_eq!((&report["links"][0][3], &report["links"][0][4]), (&json!("pcie"), &json!("host")));
    // What the command says of a machine is a shape too.
    let again = folder.file("again.json", report.to_string());
    assert_eq!(json(&["topology", "--devices", "host:8", "--topology", &again]), report);
    let karate = dataset("karate.mtx");
    let options = ["--devices", "host:8", "--topology", &shape, "--verify"];
    let searched = json(&[&["bfs", &karate], &options[..]].concat());
    assert_eq!(searched["verified"], json!(true));
    // Not all are peers: around the ring.
    assert_eq!(searched["links"].as_array().unwrap().len(), 8, "{searched}");
    let filtered = json(&[&["filter", "--items", "1000"], &options[..]].concat());
    assert_eq!(filtered["verified"], json!(true));
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    let shape = folder.file("quadruplets.json", QUADRUPLETS);
    let said = refused(&["topology", "--devices", "host:4", "--topology", &shape], 2);
    assert!(said.contains("has 8 devices, but 4 are to be opened"), "{said}");
    let bad = folder.file("bad.json", r#"{"links": [["host"]]}"#);
    let said = refused(&["filter", "--devices", "host:1", "--topology", &bad], 2);
    assert!(said.contains("bad.json: device 0 has no memory link to itself"), "{said}");
    let said = refused(&["topology", "--devices", "host:1", "--topology", "/dev/zero"], 2);
    assert!(said.contains("/dev/zero: longer than"), "{said}");
    let absent = folder.path("absent.json");
    let said = refused(&["filter", "--topology", &absent], 2);
    assert!(said.contains("absent.json"), "{said}");
    refused(&["topology", "--calibrate", "--topology", &shape], 2);
}

/// `millstream topology --json` with a cache: its answer and its remarks.
fn with_cache(cache: &str, arguments: &[&str]) -> (Value, String) {
    answer_with_cache(cache, arguments, 0)
}

/// The same, when it ends with this exit code.
fn answer_with_cache(cache: &str, arguments: &[&str], code: i32) -> (Value, String) {
    let mut command =
        command(&[&["topology", "--devices", "host:2", "--json"], arguments].concat());
    let output = command.env("MILLSTREAM_CACHE", cache).output().unwrap();
    let remarks = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{remarks}");
    (serde_json::from_slice(&output.stdout).unwrap(), remarks)
}

#[test]
fn what_is_measured_is_kept() {
    let folder = Folder::new();
    let cache = folder.path("cache");
    let (measured, _) = with_cache(&cache, &["--calibrate"]);
    let transfers = measured["transfers"].as_array().unwrap();
    // Host devices share one memory, in which they copy and push.
    assert_eq!(transfers.len(), 16);
    for transfer in transfers {
        assert_eq!((&transfer["from"], &transfer["to"]), (&json!("host"), &json!("host")));
        assert!(transfer["bytes"].as_u64().unwrap() >= 4096);
        for key in ["time_us", "latency_us", "bytes_per_second"] {
            assert!(transfer[key].as_f64().unwrap() > 0.0, "{transfer}");
        }
    }
    let (kept, remarks) = with_cache(&cache, &[]);
    assert_eq!((&kept["transfers"], &*remarks), (&measured["transfers"], ""));
    let file = std::path::Path::new(&cache).read_dir().unwrap().next().unwrap().unwrap().path();
    std::fs::write(&file, "{").unwrap();
    let (without, remarks) = with_cache(&cache, &[]);
    assert_eq!(without["transfers"], json!([]));
    assert!(remarks.contains("no transfer table"), "{remarks}");
    let (_, remarks) = with_cache(&cache, &["--calibrate"]);
    assert!(!remarks.contains("transfer table"), "{remarks}");
}

/// What was measured goes with the shape, to other devices too.
#[test]
fn shapes_bring_what_was_measured() {
    let folder = Folder::new();
    let (measured, _) = with_cache(&folder.path("cache"), &["--calibrate"]);
    let shape = folder.file("measured.json", measured.to_string());
    let (shaped, _) = with_cache("", &["--topology", &shape]);
    let transfers = |report: &Value, from: &str, to: &str| {
        let all = report["transfers"].as_array().unwrap().iter();
        let of_pair = all.filter(|transfer| transfer["from"] == from && transfer["to"] == to);
        let times =
            of_pair.map(|transfer| (transfer["bytes"].clone(), transfer["time_us"].clone()));
        times.collect::<Vec<_>>()
    };
    let expected = transfers(&measured, "host", "host");
    assert_eq!(expected.len(), 16);
    for (from, to) in [("host:0", "host:1"), ("host:1", "host:0"), ("host", "host:1")] {
        assert_eq!(transfers(&shaped, from, to), expected, "{from} to {to}");
    }
    // The same again.
    let again = folder.file("again.json", shaped.to_string());
    assert_eq!(with_cache("", &["--topology", &again]).0, shaped);
}

#[test]
fn what_cannot_be_kept_is_shown_all_the_same() {
    let (measured, said) = answer_with_cache("/dev/null", &["--calibrate"], 1);
    assert_eq!(measured["transfers"].as_array().unwrap().len(), 16);
    assert!(said.contains("cache /dev/null: "), "{said}");
    assert!(said.contains("set MILLSTREAM_CACHE to another folder"), "{said}");
    assert!(!said.contains("--calibrate"), "{said}");
    let (_, remarks) = with_cache("/dev/null", &[]);
    assert!(remarks.contains("Not a directory"), "{remarks}");
    assert!(!remarks.contains("--calibrate"), "{remarks}");
}
