//! `--transfer`: the way that packets take, and what is said of it.

use serde_json::{Value, json};

use crate::common::{Folder, dataset, json, refused, succeed};

/// The links of a verified answer.
fn links_of(command: &[&str], options: &[&str]) -> Vec<Value> {
    let report = json(&[command, &["--verify"], options].concat());
    assert_eq!(report["verified"], json!(true));
    report["links"].as_array().unwrap().clone()
}

/// The links of shortest paths over these devices.
fn links(options: &[&str]) -> Vec<Value> {
    let karate = dataset("karate.mtx");
    links_of(&["sssp", &karate, "--weights", "unit", "--worker", "host"], options)
}

/// Whether all packets of a link went one way.
fn goes_by(link: &Value, way: &str) -> bool {
    let ways = ["copy", "push", "host"];
    let packets = |of: &str| if of == way { link["packets"].clone() } else { json!(0) };
    ways.iter().all(|of| link["ways"][of] == packets(of))
}

#[test]
fn packets_go_the_way_they_are_sent() {
    for way in ["copy", "push", "host"] {
        let links = links(&["--devices", "host:3", "--transfer", way]);
        assert!(links.iter().any(|link| link["packets"] != json!(0)));
        assert!(links.iter().all(|link| goes_by(link, way)), "{way}: {links:?}");
    }
    let said = refused(&["filter", "--transfer", "swim"], 2);
    assert!(said.contains("swim") && said.contains("push"), "{said}");
}

#[test]
fn algorithms_whose_devices_push_leave_it_for_another_way() {
    let karate = &*dataset("karate.mtx");
    // Of vertices that a search from the hub finds nothing is told, and those of karate are all. Host
    // devices that push have one forest, or distances in common, and tell each other nothing.
    let florentine = &*dataset("florentine.mtx");
    let commands: [&[&str]; 5] = [
        &["bfs", karate],
        &["sssp", karate, "--weights", "unit"],
        &["pagerank", karate],
        &["pagerank", karate, "--algorithm", "push"],
        &["cc", florentine],
    ];
    for command in commands {
        for way in ["copy", "push", "host"] {
            let links = links_of(command, &["--devices", "host:3", "--transfer", way]);
            let tells = !["cc", "sssp"].contains(&command[0]) || way != "push";
            let told = links.iter().any(|link| link["packets"] != json!(0));
            assert_eq!(told, tells, "{command:?} {way}");
            assert!(links.iter().all(|link| goes_by(link, way)), "{command:?} {way}: {links:?}");
        }
    }
}

#[test]
fn searches_that_only_push_are_refused_another_way() {
    let karate = &*dataset("karate.mtx");
    let searches = [
        (["bfs", karate, "--algorithm", "level-synchronous"], vec![]),
        (["bfs", karate, "--algorithm", "near-far"], vec![]),
        (["sssp", karate, "--algorithm", "stepping"], vec!["--weights", "unit"]),
        (["sssp", karate, "--algorithm", "near-far"], vec!["--weights", "unit"]),
    ];
    for (search, options) in searches {
        for way in ["copy", "host"] {
            let transfer = ["--devices", "host:2", "--transfer", way];
            let said = refused(&[&search[..], &options, &transfer].concat(), 2);
            assert!(said.contains(&format!("transfers by {way} do not go")), "{said}");
        }
    }
    // One device tells nobody.
    let alone = ["--algorithm", "level-synchronous", "--devices", "host:1", "--transfer", "copy"];
    assert_eq!(links_of(&["bfs", karate], &alone), [] as [Value; 0]);
}

#[test]
fn nothing_is_sent_to_show_devices() {
    let said = refused(&["topology", "--transfer", "push"], 2);
    assert!(said.contains("--transfer"), "{said}");
}

#[test]
fn quadruplets_meet_in_the_host() {
    let folder = Folder::new();
    let shape = include_str!("../../../millstream-device/tests/shapes/two-quadruplets.json");
    let shape = folder.file("quadruplets.json", shape);
    let options = ["--devices", "host:8", "--topology", &shape];
    let place = |name: &Value| name.as_str().unwrap()["host:".len()..].parse::<u32>().unwrap();
    for (asked_for, within) in [(None, "copy"), (Some("push"), "push")] {
        let asked_for = asked_for.map_or(vec![], |way| vec!["--transfer", way]);
        for link in links(&[&options[..], &asked_for].concat()) {
            let are_peers = place(&link["from"]) / 4 == place(&link["to"]) / 4;
            assert!(goes_by(&link, if are_peers { within } else { "host" }), "{link}");
        }
    }
}

#[test]
fn the_host_itself_copies_and_is_pushed_to() {
    let filter = ["filter", "--items", "100000", "--verify", "--transfer", "push"];
    let report = json(&filter);
    for link in report["links"].as_array().unwrap() {
        let way = if link["from"] == json!("host") { "copy" } else { "push" };
        assert!(goes_by(link, way), "{link}");
    }
    let table = succeed(&filter);
    let header = table.lines().find(|row| row.trim_start().starts_with("link")).unwrap();
    let columns: Vec<_> = header.split_whitespace().collect();
    assert_eq!(columns, ["link", "packets", "bytes", "copy", "push", "host"]);
}
