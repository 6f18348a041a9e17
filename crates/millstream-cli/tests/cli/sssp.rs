//! `millstream sssp`.

use serde_json::json;

use crate::common::{Folder, WORKLIST_OPTIONS, dataset, json, refused, succeed};

/// 0 -9-> 1, 0 -2-> 2 -3-> 1 -0-> 3; 4 on its own.
const GRAPH: &str = "0 1 9\n0 2 2\n2 1 3\n1 3 0\n4 4 1\n";

#[test]
fn json_has_the_keys_of_the_contract() {
    let folder = Folder::new();
    let graph = folder.file("graph.wel", GRAPH);
    let report = json(&["sssp", &graph, "--devices", "host:2", "--source", "0", "--verify"]);
    for (key, value) in [
        ("algorithm", json!("sssp")),
        ("graph", json!(graph)),
        ("vertices", json!(5)),
        ("edges", json!(5)),
        ("devices", json!(["host:0", "host:1"])),
        ("source", json!([0])),
        ("useful_work_items", json!(4)),
        ("verified", json!(true)),
        ("reached", json!(4)),
        ("max_distance", json!(5)),
    ] {
        assert_eq!(report[key], value, "{key}");
    }
    assert!(report["work_items"].as_u64().unwrap() >= 4);
    assert!(report["time_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(report["phases_ms"]["run"], report["time_ms"]);
    assert_eq!(report["per_device"].as_array().unwrap().len(), 2);
    for method in ["asynchronous", "stepping"] {
        let report = json(&["sssp", &graph, "--source", "0", "--algorithm", method]);
        assert_eq!(report["method"], json!(method));
        let layouts = report["layouts"].as_array().unwrap();
        let kinds: Vec<_> = layouts.iter().map(|layout| layout["kind"].as_str().unwrap()).collect();
        let expected = if method == "stepping" { &["stepping rows"][..] } else { &[] };
        assert_eq!(kinds, expected, "{method}");
        assert!(
            layouts.iter().all(|layout| layout["bytes"].as_u64() > Some(5 * 2 * 8)),
            "{report}"
        );
    }
}

#[test]
fn distances_and_predecessors_go_to_files() {
    let folder = Folder::new();
    let graph = folder.file("graph.wel", GRAPH);
    let real = folder.file("real.wel", GRAPH.replace(" 9\n", " 9.5\n").replace(" 2\n", " 0.25\n"));
    let (distances, predecessors) = (folder.path("distances"), folder.path("predecessors"));
    let run = |graph: &str, more: &[&str]| {
        let fixed = ["sssp", graph, "--source", "0", "--verify", "--output", &distances];
        let said = succeed(&[&fixed[..], &["--predecessors", &predecessors], more].concat());
        assert!(said.ends_with("verified\n"), "{said}");
        folder.text("distances")
    };
    assert_eq!(run(&graph, &[]), "0 0\n1 5\n2 2\n3 5\n4 inf\n");
    assert_eq!(folder.text("predecessors"), "0 inf\n1 2\n2 0\n3 1\n4 inf\n");
    assert_eq!(run(&real, &[]), "0 0\n1 3.25\n2 0.25\n3 3.25\n4 inf\n");
    assert_eq!(run(&graph, &["--cutoff", "4", "--delta", "1"]), "0 0\n1 inf\n2 2\n3 inf\n4 inf\n");
    assert_eq!(
        run(&graph, &["--weights", "unit", "--delta", "off"]),
        "0 0\n1 1\n2 1\n3 2\n4 inf\n"
    );
}

#[test]
fn the_answer_does_not_depend_on_how_it_is_found() {
    let folder = Folder::new();
    let graph = dataset("debian-dependencies.el.gz");
    let distances = |name: &str, options: &[&str]| {
        let path = folder.path(name);
        let fixed = ["sssp", &graph, "--symmetrize", "--weights", "random:64", "--output", &path];
        assert!(succeed(&[&fixed[..], &["--verify"], options].concat()).ends_with("verified\n"));
        folder.text(name)
    };
    let expected = distances("one", &["--devices", "host:1"]);
    for options in [
        ["--routing", "ring", "--partitioner", "random"],
        ["--routing", "direct", "--delta", "off"],
        ["--packet-bytes", "4096", "--buffers", "1"],
        ["--algorithm", "asynchronous", "--delta", "3"],
        ["--algorithm", "stepping", "--delta", "off"],
        ["--algorithm", "stepping", "--partitioner", "random"],
    ] {
        assert_eq!(distances("several", &options), expected, "{options:?}");
    }
}

#[test]
fn an_option_of_the_worklist_asks_for_it() {
    let folder = Folder::new();
    let graph = folder.path("kron.mill");
    succeed(&["generate", "kron", "10", "16", &graph, "--max-weight", "64"]);
    let method = |options: &[&str]| {
        let method = json(&[&["sssp", &graph, "--verify"], options].concat())["method"].clone();
        method.as_str().unwrap().to_string()
    };
    for options in [&[][..], &["--routing", "auto", "--delta", "3"]] {
        assert_eq!(method(options), "stepping", "{options:?}");
    }
    for option in WORKLIST_OPTIONS {
        assert_eq!(method(&option), "asynchronous", "{option:?}");
        let forced = ["sssp", &graph, "--algorithm", "stepping"];
        let said = refused(&[&forced[..], &option].concat(), 2);
        let expected = format!("{} has no meaning with --algorithm stepping", option[0]);
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn nothing_beyond_the_cutoff_matters() {
    let folder = Folder::new();
    // The last vertex is too far for the type of the weights.
    let graph = folder.file("graph.wel", "0 1 7\n1 2 4294967295\n");
    let real = folder.file("real.wel", "0 1 0.5\n1 2 3e38\n2 3 3e38\n");
    let (distances, predecessors) = (folder.path("distances"), folder.path("predecessors"));
    for algorithm in ["asynchronous", "stepping"] {
        let run = |graph: &str, cutoff: &str| {
            let fixed = ["sssp", graph, "--source", "0", "--algorithm", algorithm, "--verify"];
            let files = ["--output", &distances, "--predecessors", &predecessors, cutoff];
            let said = succeed(&[&fixed[..], &files].concat());
            assert!(said.ends_with("verified\n"), "{said}");
            folder.text("distances")
        };
        assert_eq!(run(&graph, "--cutoff=7"), "0 0\n1 7\n2 inf\n");
        assert_eq!(folder.text("predecessors"), "0 inf\n1 0\n2 inf\n");
        assert_eq!(run(&real, "--cutoff=1"), "0 0\n1 0.5\n2 inf\n3 inf\n");
        for zero in ["--cutoff=0", "--cutoff=-0.0"] {
            assert_eq!(run(&real, zero), "0 0\n1 inf\n2 inf\n3 inf\n", "{zero}");
        }
    }
}

#[test]
fn a_cutoff_has_the_type_of_the_weights() {
    let folder = Folder::new();
    let graph = folder.file("real.wel", "0 1 0.1\n1 2 0.2\n");
    let distances = folder.path("distances");
    for algorithm in ["asynchronous", "stepping", "near-far"] {
        let fixed = ["sssp", &graph, "--source", "0", "--algorithm", algorithm];
        let fixed = [&fixed[..], &["--verify", "--devices", "host:1"]].concat();
        let report = json(&[&fixed[..], &["--cutoff", "0.1", "--output", &distances]].concat());
        assert_eq!(folder.text("distances"), "0 0\n1 0.1\n2 inf\n", "{algorithm}");
        assert_eq!(report["max_distance"], json!(0.1), "{algorithm}");
        succeed(&[&fixed[..], &["--cutoff", "0.0999999", "--output", &distances]].concat());
        assert_eq!(folder.text("distances"), "0 0\n1 inf\n2 inf\n", "{algorithm}");
    }
}

#[test]
fn numbers_are_not_longer_than_they_need_to_be() {
    let karate = dataset("karate.mtx");
    let sssp = ["sssp", &karate, "--weights", "unit", "--algorithm", "asynchronous", "--delta"];
    for delta in ["1e-300", "1e300"] {
        let said = refused(&[&sssp[..], &[delta]].concat(), 2);
        assert!(said.contains(&format!("delta {delta} is not")), "{said}");
    }
    let table = succeed(&[&sssp[..], &["1e30"]].concat());
    // As integers have it.
    assert!(table.contains("4.295e9"), "{table}");
}

#[test]
fn the_step_is_told_as_it_is_used() {
    let folder = Folder::new();
    let graph = folder.file("graph.wel", GRAPH);
    let real = folder.file("real.wel", GRAPH.replace(" 9\n", " 9.5\n"));
    for algorithm in ["asynchronous", "stepping", "near-far"] {
        for (graph, asked, used) in [
            (&graph, "1.5", json!(2.0)),
            (&graph, "1e-30", json!(1.0)),
            (&real, "1.5", json!(1.5)),
            (&real, "0.1", json!(0.1)),
            (&real, "off", json!(null)),
        ] {
            let devices = ["--devices", "host:1", "--algorithm", algorithm];
            let fixed = ["sssp", graph, "--source", "0", "--delta", asked];
            let report = json(&[fixed.as_slice(), &devices].concat());
            assert_eq!(report["delta"], used, "{asked}, {algorithm}");
        }
    }
}

#[test]
fn patience_that_is_none_is_refused() {
    let karate = dataset("karate.mtx");
    for (command, more) in [("sssp", &["--weights=unit"][..]), ("bfs", &[]), ("cc", &[])] {
        for patience in ["0", "1e-9", "-1", "nan", "inf"] {
            let option = format!("--patience={patience}");
            let said = refused(&[&[command, &karate, &option], more].concat(), 2);
            assert!(said.contains("not a number of seconds from 0.001 on"), "{said}");
        }
        succeed(&[&[command, &karate, "--patience=60"], more].concat());
    }
}

#[test]
fn edges_are_those_that_a_search_goes_along() {
    let folder = Folder::new();
    // Half of the arcs leave the first vertex, half enter the first forty.
    let arcs = (0..4000).map(|vertex| format!("0 {vertex} 1\n{vertex} {} 1\n", vertex % 40));
    let graph = folder.file("in.wel", arcs.collect::<String>());
    let items = |options: &[&str]| {
        let fixed = ["sssp", &graph, "--devices", "host:4", "--algorithm", "stepping"];
        let report = json(&[&fixed[..], &["--source", "0"], options].concat());
        let devices = report["per_device"].as_array().unwrap().clone();
        devices.iter().map(|device| device["work_items"].clone()).collect::<Vec<_>>()
    };
    let edges = items(&["--partitioner", "edges"]);
    assert_eq!(edges, items(&[]));
    assert_eq!(items(&["--partitioner", "blocks"]), [1000; 4]);
    assert_ne!(edges, [1000; 4]);
}

#[test]
fn no_more_work_is_useful_than_was_done() {
    let graph = dataset("debian-dependencies.el.gz");
    for devices in ["host:1", "host:4"] {
        let fixed = ["sssp", &graph, "--symmetrize", "--weights", "random:64"];
        let stepping = ["--algorithm", "stepping", "--devices", devices];
        let report = json(&[&fixed[..], &stepping].concat());
        let number = |key: &str| report[key].as_u64().unwrap();
        assert_eq!(number("useful_work_items"), number("reached"), "{report}");
        assert!(number("work_items") >= number("reached"), "{report}");
    }
}

#[test]
fn graphs_without_answers_are_refused() {
    let folder = Folder::new();
    let karate = dataset("karate.mtx");
    let unweighted = folder.file("unweighted.el", "0 1\n");
    assert!(refused(&["sssp", &unweighted], 2).contains("--weights unit or --weights random:MAX"));
    let negative = folder.file("negative.wel", "30 10 2.5\n20 50 2\n10 40 -1\n");
    for relabel in [&[][..], &["--relabel"]] {
        let said = refused(&[&["sssp", &negative], relabel].concat(), 2);
        assert!(said.contains(&format!("{negative}: arc 10 -> 40 weighs -1")), "{said}");
    }
    let long = folder.file("long.wel", "70 80 4294967295\n80 90 1\n");
    for relabel in [&[][..], &["--relabel"]] {
        let said = refused(&[&["sssp", &long, "--source", "70"], relabel].concat(), 1);
        assert!(said.contains(&format!("{long}: the distance of vertex 80 overflows")), "{said}");
        assert!(said.contains("--cutoff stops before"), "{said}");
    }
    for (option, value) in [
        ("--weights", "random:0"),
        ("--weights", "some"),
        ("--delta", "0"),
        ("--delta", "nan"),
        ("--cutoff", "-1"),
        ("--cutoff", "nan"),
        ("--source", "99"),
    ] {
        let option = format!("{option}={value}");
        let weights = if option.starts_with("--weights") { &[][..] } else { &["--weights=unit"] };
        refused(&[&["sssp", &karate, &option], weights].concat(), 2);
    }
}
