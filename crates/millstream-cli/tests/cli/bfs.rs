//! `millstream bfs`.

use serde_json::json;

use crate::common::{Folder, WORKLIST_OPTIONS, dataset, json, refused, succeed};

/// 0 -> 1 -> 2 -> 3, 0 -> 2, 5 -> 3; 4 on its own.
const GRAPH: &str = "0 1\n1 2\n2 3\n0 2\n5 3\n";

#[test]
fn the_table_says_what_was_found_and_that_it_is_verified() {
    let answer = succeed(&["bfs", &dataset("karate.mtx"), "--verify"]);
    assert!(answer.contains("34 vertices, 156 arcs"), "{answer}");
    assert!(answer.contains("34, last level 4"), "{answer}");
    assert!(answer.contains("host:0 host:1 host:2 host:3"), "{answer}");
    assert_eq!(answer.lines().last(), Some("verified"));
    let unverified = succeed(&["bfs", &dataset("karate.mtx")]);
    assert!(!unverified.contains("verified"), "{unverified}");
}

#[test]
fn json_has_the_keys_of_the_contract() {
    let karate = dataset("karate.mtx");
    let report = json(&["bfs", &karate, "--devices", "host:2", "--verify"]);
    for (key, value) in [
        ("algorithm", json!("bfs")),
        ("graph", json!(karate)),
        ("vertices", json!(34)),
        ("edges", json!(156)),
        ("devices", json!(["host:0", "host:1"])),
        ("source", json!([33])),
        ("useful_work_items", json!(34)),
        ("verified", json!(true)),
        ("reached", json!(34)),
        ("max_level", json!(4)),
    ] {
        assert_eq!(report[key], value, "{key}");
    }
    assert!(report["work_items"].as_u64().unwrap() >= 34);
    let time = report["time_ms"].as_f64().unwrap();
    // Every arc leaves a reached vertex.
    let teps = report["teps"].as_f64().unwrap();
    assert!(time > 0.0 && (teps * time / 1e3 - 156.0).abs() < 1e-6, "{teps} {time}");
    for phase in ["read", "partition", "upload", "prepare", "run", "gather"] {
        assert!(report["phases_ms"][phase].as_f64().unwrap() >= 0.0, "{phase}");
    }
    assert_eq!(report["phases_ms"]["run"], report["time_ms"]);
    assert_eq!(json(&["bfs", &karate])["verified"], json!(null));
    assert_eq!(report["method"], json!("level-synchronous"));
    let asynchronous = json(&["bfs", &karate, "--algorithm", "asynchronous"]);
    assert_eq!(asynchronous["method"], json!("asynchronous"));
}

#[test]
fn json_has_the_time_of_each_run_that_counts() {
    for (repeat, runs) in [("1", 1), ("4", 4)] {
        let report = json(&["bfs", &dataset("karate.mtx"), "--repeat", repeat]);
        let times = report["times_ms"].as_array().unwrap();
        let mut times: Vec<f64> = times.iter().map(|time| time.as_f64().unwrap()).collect();
        assert_eq!(times.len(), runs, "{report}");
        times.sort_by(f64::total_cmp);
        let median = (times[(runs - 1) / 2] + times[runs / 2]) / 2.0;
        assert!((report["time_ms"].as_f64().unwrap() - median).abs() < 1e-5, "{report}");
    }
}

#[test]
fn json_says_what_layouts_cost() {
    let folder = Folder::new();
    // Directed, with too many arcs for a mesh.
    let arcs = (0..40).flat_map(|from| (0..from).map(move |to| format!("{from} {to}\n")));
    let graph = folder.file("graph.el", arcs.collect::<String>());
    let layouts = |options: &[&str]| {
        json(&[&["bfs", &graph, "--devices", "host:2"], options].concat())["layouts"].clone()
    };
    let made = layouts(&[]);
    let [transpose] = &made.as_array().unwrap()[..] else { panic!("{made}") };
    assert_eq!(transpose["kind"], json!("transpose"));
    // Where the rows of 40 vertices begin and end on two devices, and 780 arcs.
    assert_eq!(transpose["bytes"], json!(42 * 8 + 780 * 4));
    assert!(transpose["time_ms"].as_f64().unwrap() > 0.0, "{transpose}");
    assert_eq!(layouts(&["--algorithm", "asynchronous"]), json!([]));
    assert_eq!(layouts(&["--routing", "ring"]), json!([]));
}

#[test]
fn json_counts_links_and_devices() {
    let report = json(&["bfs", &dataset("karate.mtx"), "--devices", "host:3"]);
    let links = report["links"].as_array().unwrap();
    assert!(!links.is_empty());
    for link in links {
        assert!(link["from"].as_str().unwrap().starts_with("host:"), "{link}");
        assert_ne!(link["from"], link["to"]);
        assert!(link["packets"].as_u64().unwrap() > 0, "{link}");
        assert!(link["bytes"].as_u64().unwrap() > 0, "{link}");
    }
    let devices = report["per_device"].as_array().unwrap();
    let sum = |key| devices.iter().map(|device| device[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(devices.len(), 3);
    assert_eq!(json!(sum("work_items")), report["work_items"]);
    assert!(sum("sent") > 0 && sum("received") > 0);
    assert!(devices.iter().all(|device| device["filtered"].is_u64()));
}

#[test]
fn answers_say_how_the_worklist_ran() {
    let run = |options: &[&str]| {
        let fixed = ["bfs", &dataset("karate.mtx"), "--devices", "host:3"];
        let report = json(&[&fixed[..], options].concat());
        [report["worker"].clone(), report["routing"].clone()]
    };
    assert_eq!(run(&[]), [json!(null), json!(null)]);
    assert_eq!(run(&["--algorithm", "asynchronous"]), [json!("host"), json!("direct")]);
    assert_eq!(run(&["--routing", "ring"]), [json!("host"), json!("ring")]);
    let table = succeed(&["bfs", &dataset("karate.mtx"), "--routing", "ring"]);
    assert!(table.contains("worklist    host, ring"), "{table}");
}

#[test]
fn changes_are_kept_back_unless_told_otherwise() {
    let count = |options: &[&str], key: &str| {
        let fixed = ["bfs", &dataset("karate.mtx"), "--devices", "host:3", "--verify"];
        let report = json(&[&fixed[..], &["--algorithm", "asynchronous"], options].concat());
        let devices = report["per_device"].as_array().unwrap();
        devices.iter().map(|device| device[key].as_u64().unwrap()).sum::<u64>()
    };
    assert!(count(&[], "filtered") > 0);
    assert_eq!(count(&["--no-halo-filter"], "filtered"), 0);
    assert!(count(&["--no-halo-filter"], "sent") > count(&[], "sent"));
}

#[test]
fn sources_are_vertices_several_or_found() {
    let folder = Folder::new();
    let graph = folder.file("graph.el", GRAPH);
    let source = |source: &str| json(&["bfs", &graph, "--source", source]);
    assert_eq!(source("1")["reached"], json!(3));
    assert_eq!(source("1,5")["reached"], json!(4));
    assert_eq!(source("1, 5")["source"], json!([1, 5]));
    assert_eq!(source("max-degree")["source"], json!([0]));
    // Nothing has degree 3: the vertex with the most arcs.
    assert_eq!(source("center")["source"], json!([0]));
    let star = folder.file("star.el", "0 1\n1 0\n1 2\n2 1\n1 3\n3 1\n3 4\n4 3\n");
    assert_eq!(json(&["bfs", &star, "--source", "center"])["source"], json!([1]));
    for source in ["6", "x", "", "1,,2", "4294967296", "0.5"] {
        let said = refused(&["bfs", &graph, "--source", source], 2);
        assert!(said.contains("6 vertices"), "{said}");
    }
}

#[test]
fn the_depth_limit_is_the_last_level() {
    let folder = Folder::new();
    let graph = folder.file("graph.el", GRAPH);
    for (limit, reached) in [("0", 1), ("1", 3), ("2", 4), ("7", 4)] {
        let report = json(&["bfs", &graph, "--source", "0", "--depth-limit", limit, "--verify"]);
        assert_eq!(report["reached"], json!(reached), "limit {limit}");
        assert_eq!(report["verified"], json!(true));
    }
}

#[test]
fn the_answer_does_not_depend_on_how_it_is_found() {
    let folder = Folder::new();
    let graph = dataset("debian-dependencies.el.gz");
    let levels = |name: &str, options: &[&str]| {
        let path = folder.path(name);
        let fixed = ["bfs", &graph, "--source", "46515", "--verify", "--output", &path];
        assert!(succeed(&[&fixed, options].concat()).ends_with("verified\n"), "{options:?}");
        folder.text(name)
    };
    let expected = levels("one", &["--devices", "host:1"]);
    assert_eq!(expected.lines().filter(|line| !line.ends_with(" inf")).count(), 1_234);
    for options in [
        ["--routing", "ring", "--partitioner", "random"],
        ["--routing", "direct", "--partitioner", "blocks"],
        ["--packet-bytes", "64", "--buffers", "1"],
        ["--delta", "3", "--devices", "host:2x2"],
        ["--delta", "auto", "--partitioner", "metis"],
    ] {
        assert_eq!(levels("several", &options), expected, "{options:?}");
    }
    for algorithm in ["asynchronous", "level-synchronous"] {
        let options = ["--algorithm", algorithm, "--partitioner", "random"];
        assert_eq!(levels("several", &options), expected, "{options:?}");
    }
}

#[test]
fn an_option_of_the_worklist_asks_for_it() {
    let karate = dataset("karate.mtx");
    let method = |options: &[&str]| {
        let method = json(&[&["bfs", &karate, "--verify"], options].concat())["method"].clone();
        method.as_str().unwrap().to_string()
    };
    let any = ["--routing", "auto", "--worker", "auto", "--delta", "auto", "--patience", "5"];
    for options in [&[][..], &any] {
        assert_eq!(method(options), "level-synchronous", "{options:?}");
        let forced = [options, &["--algorithm", "level-synchronous"]].concat();
        assert_eq!(method(&forced), "level-synchronous", "{options:?}");
    }
    for option in WORKLIST_OPTIONS.into_iter().chain([["--delta", "3"]]) {
        assert_eq!(method(&option), "asynchronous", "{option:?}");
        let forced = ["bfs", &karate, "--algorithm", "level-synchronous"];
        let said = refused(&[&forced[..], &option].concat(), 2);
        let expected = format!("{} has no meaning with --algorithm level-synchronous", option[0]);
        assert!(said.contains(&expected), "{said}");
    }
    for options in [&["--worker", "host"][..], &["--delta", "3"], &["--algorithm", "asynchronous"]]
    {
        let said = refused(&[&["bfs", &karate, "--no-layouts"], options].concat(), 2);
        let what =
            if options[0] == "--algorithm" { "--algorithm asynchronous" } else { options[0] };
        let expected = format!("--no-layouts has no meaning with {what}");
        assert!(said.contains(&expected), "{said}");
        assert_eq!(said.contains("--algorithm"), options[0] == "--algorithm", "{said}");
    }
    let said = refused(&["bfs", &karate, "--algorithm", "near-far", "--no-layouts"], 2);
    assert!(said.contains("--no-layouts does not go with --algorithm near-far"), "{said}");
}

#[test]
fn a_way_that_cannot_be_says_why() {
    let folder = Folder::new();
    let road = folder.path("road.mill");
    succeed(&["generate", "road", "60", "60", &road]);
    let arcs = (0..300).flat_map(|from| (0..300).map(move |to| format!("{from} {to}\n")));
    let clique = folder.file("clique.el", arcs.collect::<String>());
    let leaves = (1..4000).map(|leaf| format!("0 {leaf}\n{leaf} 0\n"));
    let star = folder.file("star.el", leaves.collect::<String>());
    let many = ["--devices", "host:17"];
    let copied = ["--transfer", "copy"];
    for (command, graph, algorithm, options, reason) in [
        ("bfs", &clique, "near-far", &[][..], "more than 256 arcs"),
        ("bfs", &star, "near-far", &[], "1,024 vertices or more"),
        ("bfs", &road, "near-far", &many, "up to 16 host devices"),
        ("bfs", &road, "near-far", &copied, "transfers by copy"),
        ("bfs", &road, "level-synchronous", &many, "up to 16 host devices"),
        ("bfs", &road, "level-synchronous", &copied, "transfers by copy"),
        ("sssp", &clique, "near-far", &[], "more than 256 arcs"),
        ("sssp", &road, "near-far", &many, "up to 16 host devices"),
        ("sssp", &road, "stepping", &many, "up to 16 host devices"),
        ("sssp", &road, "stepping", &copied, "transfers by copy"),
    ] {
        let weights = if command == "sssp" { &["--weights", "unit"][..] } else { &[] };
        let forced = [&[command, graph, "--algorithm", algorithm], options, weights].concat();
        let said = refused(&forced, 2);
        assert!(said.contains(&format!("--algorithm {algorithm}: ")), "{said}");
        assert!(said.contains(reason) && said.ends_with("; leave --algorithm out"), "{said}");
    }
}

#[test]
fn queues_have_no_more_entries_than_there_are_vertices() {
    let karate = dataset("karate.mtx");
    for entries in ["1000000000", "18446744073709551615"] {
        let report = json(&["bfs", &karate, "--queue-entries", entries, "--verify"]);
        assert_eq!(report["verified"], json!(true), "{entries}");
    }
}

#[test]
fn the_step_is_that_of_the_worklist_or_of_the_piles() {
    let folder = Folder::new();
    let road = folder.path("road.mill");
    succeed(&["generate", "road", "60", "60", &road]);
    let by_piles = ["--devices", "host:2", "--algorithm", "near-far"];
    for (options, step) in [
        (&by_piles[..], json!(128)),
        (&[&by_piles[..], &["--delta", "2.5"]].concat(), json!(3)),
        (&[&by_piles[..], &["--delta", "off"]].concat(), json!(null)),
        (&["--algorithm", "asynchronous"], json!(32)),
        (&["--delta", "7"], json!(7)),
        (&["--algorithm", "level-synchronous"], json!(null)),
    ] {
        let report = json(&[&["bfs", &road, "--verify"], options].concat());
        assert_eq!((&report["delta"], &report["verified"]), (&step, &json!(true)), "{options:?}");
    }
}

#[test]
fn predecessors_form_a_tree() {
    let folder = Folder::new();
    let graph = folder.file("graph.el", GRAPH);
    let path = folder.path("predecessors.txt");
    succeed(&["bfs", &graph, "--source", "0", "--predecessors", &path, "--verify"]);
    assert_eq!(folder.text("predecessors.txt"), "0 inf\n1 0\n2 0\n3 2\n4 inf\n5 inf\n");
}

#[test]
fn reader_options_change_the_graph() {
    let folder = Folder::new();
    let graph = folder.file("graph.el", "0 1\n0 1\n1 1\n1 2\n");
    let facts = |options: &[&str]| {
        let report = json(&[&["bfs", &graph, "--source", "0"], options].concat());
        (report["edges"].as_u64().unwrap(), report["reached"].as_u64().unwrap())
    };
    assert_eq!(facts(&[]), (4, 3));
    assert_eq!(facts(&["--dedupe"]), (3, 3));
    assert_eq!(facts(&["--drop-self-loops"]), (3, 3));
    assert_eq!(facts(&["--dedupe", "--drop-self-loops", "--symmetrize"]), (4, 3));
    assert_eq!(facts(&["--transpose"]), (4, 1));
}
