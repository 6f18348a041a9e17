//! `millstream pagerank`.

use serde_json::{Value, json};

use crate::common::{Answer, Folder, dataset, json, refused, remarks, run, succeed};

#[test]
fn json_has_the_keys_of_the_contract() {
    let karate = dataset("karate.mtx");
    for (algorithm, precision) in [("pull", "f32"), ("push", "f64")] {
        let fixed = ["pagerank", &karate, "--devices", "host:2", "--verify"];
        let report = json(&[&fixed[..], &["--algorithm", algorithm]].concat());
        for (key, value) in [
            ("algorithm", json!("pagerank")),
            ("graph", json!(karate)),
            ("vertices", json!(34)),
            ("edges", json!(156)),
            ("devices", json!(["host:0", "host:1"])),
            ("source", json!(null)),
            ("verified", json!(true)),
            ("converged", json!(true)),
            ("method", json!(algorithm)),
            ("precision", json!(precision)),
        ] {
            assert_eq!(report.get(key), Some(&value), "{key}");
        }
        assert!(report["iterations"].as_u64().unwrap() > 0);
        assert!(report["delta"].as_f64().unwrap() <= 1e-6);
        assert!(report["time_ms"].as_f64().unwrap() > 0.0);
        assert!(!report["links"].as_array().unwrap().is_empty());
        assert!(report["work_items"].as_u64().unwrap() > 0);
        assert_eq!(report["per_device"].as_array().unwrap().len(), 2);
        let layouts = report["layouts"].as_array().unwrap();
        assert_eq!(layouts.len(), usize::from(algorithm == "pull"), "{report}");
        assert!(layouts.iter().all(|layout| layout["bytes"].as_u64() > Some(156 * 4)), "{report}");
    }
}

#[test]
fn arcs_count_once_where_nobody_knows_how_often() {
    let rate = |algorithm: &str| {
        let report = json(&["pagerank", &dataset("karate.mtx"), "--algorithm", algorithm]);
        let arcs = report["teps"].as_f64().unwrap() * report["time_ms"].as_f64().unwrap() / 1e3;
        (arcs.round() as u64, report["iterations"].as_u64().unwrap())
    };
    let (arcs, sweeps) = rate("pull");
    assert_eq!(arcs, 156 * sweeps);
    assert_eq!(rate("push").0, 156);
    let said = refused(&["pagerank", &dataset("karate.mtx"), "--no-halo-filter"], 2);
    assert!(said.contains("every residual is sent"), "{said}");
}

/// The ranks in a file of them.
fn ranks(text: &str) -> Vec<f64> {
    text.lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect()
}

#[test]
fn ranks_go_to_files() {
    let folder = Folder::new();
    // A step from 0 leads to 1, one from 1 anywhere.
    let graph = folder.file("graph.el", "0 1\n");
    let path = folder.path("ranks");
    let answer = |options: &[&str]| {
        let fixed = ["pagerank", &graph, "--verify", "--tolerance", "1e-10", "--output", &path];
        assert!(succeed(&[&fixed[..], options].concat()).ends_with("verified\n"), "{options:?}");
        ranks(&folder.text("ranks"))
    };
    let near = |found: Vec<f64>, expected: [f64; 2]| {
        let distance = (found[0] - expected[0]).abs() + (found[1] - expected[1]).abs();
        assert!(found.len() == 2 && distance < 1e-8, "{found:?}");
    };
    // x = (1 - d + d y) / 2 and x + y = 1.
    let (low, high) = (1.0 / 2.85, 1.85 / 2.85);
    near(answer(&[]), [low, high]);
    near(answer(&["--algorithm", "push"]), [low, high]);
    near(answer(&["--unnormalized"]), [2.0 * low, 2.0 * high]);
    near(answer(&["--damping", "0", "--personalize", "1"]), [0.0, 1.0]);
}

#[test]
fn what_does_not_converge_is_written_and_said() {
    let folder = Folder::new();
    let (karate, path) = (dataset("karate.mtx"), folder.path("ranks"));
    let arguments = ["pagerank", &karate, "--max-iterations", "2", "--output", &path];
    let answer = run(&arguments);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.stderr.contains("not converged") && answer.stdout.contains("not converged"));
    assert_eq!(ranks(&folder.text("ranks")).len(), 34);
    let said = run(&["pagerank", &karate, "--max-iterations", "0"]).stderr;
    assert!(said.contains("not converged after 0 iterations"), "{said}");
    let report = json(&[&arguments[..], &["--allow-unconverged"]].concat());
    assert_eq!((&report["converged"], &report["iterations"]), (&json!(false), &json!(2)));
    // Verified is what the ranks are said to be: so close, and not closer. What is said of the first
    // sweeps' ranks is true of all.
    for (algorithm, sweeps, verified) in
        [("pull", "9", json!(true)), ("push", "3", json!(true)), ("pull", "0", json!(null))]
    {
        let verify = ["--algorithm", algorithm, "--max-iterations", sweeps, "--verify"];
        let arguments = [&["pagerank", &karate][..], &verify].concat();
        let answer = run(&arguments);
        assert_eq!(answer.code, Some(3), "{answer:?}");
        assert_eq!(answer.stdout.ends_with("verified\n"), verified == true, "{answer:?}");
        assert!(answer.stderr.contains("; --max-iterations allows more"), "{answer:?}");
        assert_eq!(answer.stderr.contains("not verified: "), verified != true, "{answer:?}");
        let answer = run(&[&arguments[..], &["--allow-unconverged", "--json"]].concat());
        let report: Value = serde_json::from_str(&answer.stdout).unwrap();
        // What is asked for and not done is no success.
        assert_eq!(answer.code, Some(if verified == true { 0 } else { 3 }), "{answer:?}");
        assert_eq!((&report["converged"], &report["verified"]), (&json!(false), &verified));
    }
}

/// More sweeps do not help.
#[test]
fn ranks_are_no_closer_than_their_rounding() {
    let fixed = ["pagerank", &dataset("debian-dependencies.el.gz"), "--tolerance", "1e-300"];
    for (options, remedy) in [
        (&[][..], "f64 comes no closer: raise --tolerance"),
        (&["--max-iterations", "100"], "--max-iterations allows more"),
        (&["--precision", "f32"], "--precision f64 rounds less"),
    ] {
        let answer = run(&[&fixed[..], options].concat());
        assert_eq!(answer.code, Some(3), "{answer:?}");
        assert!(answer.stderr.contains(&format!("iterations; {remedy}\n")), "{answer:?}");
    }
}

/// Pulling, a device has the arcs that enter its vertices, pushing, those that leave them.
#[test]
fn edges_are_what_is_balanced_unless_another_partitioner_is_given() {
    let graph = dataset("debian-dependencies.el.gz");
    let items = |algorithm: &str, options: &[&str]| {
        let fixed = ["pagerank", &graph, "--devices", "host:4", "--algorithm", algorithm];
        let report = json(&[&fixed[..], &["--damping", "0"], options].concat());
        let devices = report["per_device"].as_array().unwrap().clone();
        devices.iter().map(|device| device["work_items"].clone()).collect::<Vec<_>>()
    };
    for algorithm in ["pull", "push"] {
        let edges = items(algorithm, &["--partitioner", "edges"]);
        assert_eq!(items(algorithm, &[]), edges, "{algorithm}");
    }
    assert_ne!(items("pull", &[]), items("pull", &["--partitioner", "blocks"]));
}

#[test]
fn ranks_are_even_without_any_iteration() {
    let folder = Folder::new();
    let (karate, path) = (dataset("karate.mtx"), folder.path("ranks"));
    for algorithm in ["pull", "push"] {
        for options in [&[][..], &["--partitioner", "random"], &["--personalize", "3"]] {
            let fixed = ["pagerank", &karate, "--max-iterations", "0", "--allow-unconverged"];
            let rest = ["--algorithm", algorithm, "--output", &path];
            succeed(&[&fixed[..], &rest, options].concat());
            let ranks = ranks(&folder.text("ranks"));
            assert_eq!(ranks.len(), 34, "{algorithm} {options:?}");
            let is_even = |rank: &f64| (rank - 1.0 / 34.0).abs() < 1e-8;
            assert!(ranks.iter().all(is_even), "{algorithm} {options:?}: {ranks:?}");
        }
    }
}

#[test]
fn an_option_of_the_worklist_asks_for_it() {
    let karate = dataset("karate.mtx");
    let pushes = |options: &[&str]| {
        let report = json(&[&["pagerank", &karate, "--verify"], options].concat());
        report["method"] == "push"
    };
    for option in [["--routing", "ring"], ["--worker", "host"], ["--queue-entries", "64"]] {
        assert!(pushes(&option), "{option:?}");
        let said =
            refused(&[&["pagerank", &karate, "--algorithm", "pull"], &option[..]].concat(), 2);
        let expected = format!("{} has no meaning with --algorithm pull", option[0]);
        assert!(said.contains(&expected), "{said}");
    }
    for options in [&[][..], &["--routing", "auto"]] {
        assert!(!pushes(options), "{options:?}");
    }
    // Sweeps have packets, too, where devices do not reach each other's memory.
    let packets = &["--packet-bytes", "4096", "--buffers", "1"][..];
    for (transfer, does_nothing) in [("push", true), ("copy", false), ("host", false)] {
        let pagerank = ["pagerank", &karate, "--transfer", transfer, "--json"];
        let Answer { stdout, stderr: said, .. } = run(&[&pagerank[..], packets].concat());
        assert_eq!(said.contains("--packet-bytes does nothing here"), does_nothing, "{said}");
        assert_eq!(said.contains("unless --transfer is copy or host"), does_nothing, "{said}");
        let answer: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(answer["method"], "pull");
    }
}

#[test]
fn pushed_ranks_are_f64() {
    let pagerank = ["pagerank", &dataset("karate.mtx"), "--precision", "f32", "--json"];
    for (options, precision) in [(&[][..], "f32"), (&["--algorithm", "push"], "f64")] {
        let Answer { stdout, stderr: said, .. } = run(&[&pagerank[..], options].concat());
        let answer: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(answer["precision"], precision, "{said}");
        assert_eq!(said.contains("pushed ranks are f64"), precision == "f64", "{said}");
    }
}

#[test]
fn questions_without_answers_are_refused() {
    let folder = Folder::new();
    let graph = folder.file("graph.el", "0 1\n");
    let negative = folder.file("negative.wel", "0 1 -2.5\n");
    for option in ["--damping=1", "--damping=-0.1", "--tolerance=nan", "--tolerance=-1"] {
        refused(&["pagerank", &graph, option], 2);
    }
    let said = refused(&["pagerank", &graph, "--personalize", "1,7"], 2);
    assert!(said.contains("--personalize \"7\" is not one of the 2 vertices"), "{said}");
    assert!(refused(&["pagerank", &graph, "--weighted"], 2).contains("no weights"));
    assert!(refused(&["pagerank", &negative, "--weighted"], 2).contains("-2.5"));
    let ids = folder.file("ids.wel", "100 700 -1.5\n");
    for algorithm in ["pull", "push"] {
        let relabel = ["pagerank", &ids, "--relabel", "--weighted", "--algorithm", algorithm];
        let said = refused(&relabel, 2);
        assert!(said.contains(&format!("{ids}: arc 100 -> 700 weighs -1.5")), "{said}");
    }
}

/// To be as near as this says nothing of ranks.
#[test]
fn ranks_that_could_as_well_be_zeros_are_not_verified() {
    let karate = dataset("karate.mtx");
    let loose = ["pagerank", &karate, "--tolerance", "0.1"];
    assert_eq!(json(&loose)["verified"], json!(null));
    let answer = run(&[&loose[..], &["--verify", "--json"]].concat());
    assert_eq!(answer.code, Some(3), "{answer:?}");
    let said = remarks(&answer.stderr);
    assert!(said.contains("not verified: ") && said.contains("zeros would pass"), "{said}");
    let report: Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!(report.get("verified"), Some(&json!(null)));
}
