//! `millstream generate`, `convert` and `info`.

use serde_json::{Value, json};

use crate::common::{Folder, dataset, json, refused, remarks, run, succeed};

fn info(path: &str) -> Value {
    json(&["info", path])
}

#[test]
fn info_counts_a_graph_drawn_by_hand() {
    let folder = Folder::new();
    let path = folder.file("graph.wel", "0 1 4\n0 1 9\n1 0 2\n1 1 7\n1 2 3\n3 4 5\n");
    let expected = json!({
        "graph": path,
        "format": "edge list",
        "vertices": 5,
        "edges": 6,
        "weights": {"kind": "integer", "min": 2, "max": 9},
        "self_loops": 1,
        "duplicate_arcs": 1,
        "symmetric": false,
        "degrees": {"min": 0, "mean": 1.2, "max": 3, "histogram": [
            {"from": 0, "to": 0, "vertices": 2},
            {"from": 1, "to": 1, "vertices": 1},
            {"from": 2, "to": 3, "vertices": 2},
        ]},
        "components": 2,
        "largest": 3,
        "lattice_width": null,
        "original_ids": false,
    });
    assert_eq!(info(&path), expected);
    let real = folder.file("real.wel", "0 1 -0.1\n1 0 2.7\n");
    let weights = json!({"kind": "real", "min": -0.1, "max": 2.7});
    assert_eq!(info(&real)["weights"], weights);
    assert_eq!(info(&real)["symmetric"], json!(true));
}

#[test]
fn the_table_of_info_says_the_same() {
    let answer = succeed(&["info", &dataset("karate.mtx")]);
    let squeezed: Vec<String> =
        answer.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "vertices 34",
        "arcs 156",
        "weights none",
        "symmetric yes",
        "components 1, the largest of 34",
        "original ids no",
        "degrees 1 to 17, mean 4.588",
        "16 to 31 2",
    ] {
        assert!(squeezed.iter().any(|found| found == line), "{line:?} is not in {answer}");
    }
}

#[test]
fn each_generator_makes_its_graph() {
    let folder = Folder::new();
    let generate = |arguments: &[&str]| {
        let out = folder.path("graph.mill");
        let report = json(&[&["generate"], arguments, &[&*out]].concat());
        let info = info(&out);
        assert_eq!((&report["graph"], &report["vertices"]), (&json!(out), &info["vertices"]));
        assert_eq!(report["edges"], info["edges"]);
        assert_eq!(info["symmetric"], json!(true), "{arguments:?}");
        assert_eq!((&info["self_loops"], &info["duplicate_arcs"]), (&json!(0), &json!(0)));
        info
    };
    let kron = generate(&["kron", "10", "8"]);
    assert_eq!(kron["vertices"], json!(1024));
    assert!(kron["degrees"]["max"].as_u64().unwrap() > 100, "{kron}");
    let social = generate(&["social", "10", "8"]);
    assert_eq!(social["vertices"], json!(1024));
    assert!(social["degrees"]["max"].as_u64() < kron["degrees"]["max"].as_u64(), "{social}");
    let road = generate(&["road", "40", "30"]);
    assert_eq!((&road["vertices"], &road["lattice_width"]), (&json!(1200), &json!(40)));
    assert!((2.2..2.6).contains(&road["degrees"]["mean"].as_f64().unwrap()), "{road}");
    let grid = generate(&["grid", "40", "30"]);
    assert_eq!(grid["edges"], json!(2 * (39 * 30 + 40 * 29)));
    assert_eq!(generate(&["road", "40", "30", "--keep", "1000"])["edges"], grid["edges"]);
    assert_eq!(generate(&["road", "40", "30", "--keep", "0"])["components"], json!(1200));
    let random = generate(&["random", "500", "2000", "--max-weight", "64"]);
    assert_eq!(random["vertices"], json!(500));
    assert_eq!(random["weights"], json!({"kind": "integer", "min": 1, "max": 64}));
}

#[test]
fn a_seed_is_a_graph() {
    let folder = Folder::new();
    let graph = |name: &str, seed: &str| {
        let table = succeed(&["generate", "kron", "8", "4", &folder.path(name), "--seed", seed]);
        assert!(table.contains("256"), "{table}");
        folder.text(name)
    };
    let first = graph("first.mtx", "7");
    assert_eq!(graph("again.mtx", "7"), first);
    assert_ne!(graph("other.mtx", "8"), first);
}

#[test]
fn the_center_of_a_lattice_is_known_from_its_file() {
    let folder = Folder::new();
    let out = folder.path("grid.mill");
    succeed(&["generate", "grid", "5", "5", &out]);
    assert_eq!(json(&["bfs", &out, "--source", "center"])["source"], json!([14]));
}

#[test]
fn converting_there_and_back_changes_nothing() {
    let folder = Folder::new();
    let original = folder.path("original.el");
    succeed(&["generate", "random", "60", "200", &original, "--max-weight", "9"]);
    for name in ["a.mtx", "a.gr", "a.graph", "a.wel.gz", "a.mill", "a.csv.zst", "a.tsv"] {
        let (there, back) = (folder.path(name), folder.path("back.el"));
        succeed(&["convert", &original, &there]);
        succeed(&["convert", &there, &back]);
        assert_eq!(folder.text("back.el"), folder.text("original.el"), "{name}");
    }
    let (text, binary) = (folder.path("text.gr"), folder.path("binary.gr"));
    succeed(&["convert", &original, &text]);
    succeed(&["convert", &original, &binary, "--format", "galois"]);
    assert_eq!(info(&text)["weights"], info(&binary)["weights"]);
    assert_ne!(info(&text)["format"], info(&binary)["format"]);
}

#[test]
fn converting_keeps_original_ids_or_says_so() {
    let folder = Folder::new();
    let sparse = folder.file("sparse.el", "7 10000000000\n30 7\n");
    let (mill, back) = (folder.path("sparse.mill"), folder.path("back.el"));
    succeed(&["convert", &sparse, &mill, "--relabel"]);
    succeed(&["convert", &mill, &back]);
    assert_eq!(folder.text("back.el"), folder.text("sparse.el"));
    assert_eq!(info(&mill)["original_ids"], json!(true));
    let out = folder.path("out.mtx");
    let answer = run(&["convert", &mill, &out]);
    let said = remarks(&answer.stderr);
    assert_eq!((answer.code, said.lines().count()), (Some(0), 1), "{said}");
    assert!(said.contains(&out) && said.contains("original ids"), "{said}");
}

#[test]
fn names_that_stand_for_another_format_are_refused() {
    let folder = Folder::new();
    let (missing, out) = (folder.path("missing.el"), folder.path("out.txt"));
    let said = refused(&["convert", &missing, &out, "--format", "metis"], 2);
    assert!(said.ends_with("METIS would be read as edge list"), "{said}");
    for (name, format, extension, named) in [
        ("out.mtx", "galois", "Matrix Market", "Galois"),
        ("out.mtx.gz", "dimacs", "Matrix Market", "DIMACS"),
        ("out.gr", "millstream", "DIMACS", "Millstream"),
        ("out.mill", "matrix-market", "Millstream", "Matrix Market"),
    ] {
        let out = folder.path(name);
        let expected =
            format!("{out}: the extension is that of {extension}, --format that of {named}");
        for graph in [&["generate", "random", "10", "5"][..], &["convert", &missing]] {
            let said = refused(&[graph, &[&out, "--format", format]].concat(), 2);
            assert!(said.contains(&expected), "{said}");
        }
    }
    assert!(folder.names().is_empty());
}

#[test]
fn converting_may_replace_what_it_reads() {
    let folder = Folder::new();
    let arcs = |path: &str| info(path)["edges"].clone();
    for name in ["graph.wel", "graph.wel.gz", "graph.mill"] {
        let path = folder.path(name);
        succeed(&["convert", &folder.file("one.wel", "0 1 5\n1 2 7\n"), &path]);
        succeed(&["convert", &path, &path, "--symmetrize"]);
        assert_eq!(arcs(&path), 4, "{name}");
        succeed(&["convert", &path, &path, "--transpose"]);
        assert_eq!(arcs(&path), 4, "{name}");
    }
}

#[test]
fn converting_obeys_the_reader_options() {
    let folder = Folder::new();
    let path = folder.file("graph.el", "0 1\n0 1\n1 1\n1 2\n");
    let convert = |options: &[&str]| {
        let out = folder.path("out.el");
        succeed(&[&["convert", &path, &out], options].concat());
        let text = folder.text("out.el");
        let arcs = text.lines().filter(|line| !line.starts_with(['#', '%']));
        arcs.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(convert(&[]), "0 1, 0 1, 1 1, 1 2");
    assert_eq!(convert(&["--transpose"]), "1 0, 1 0, 1 1, 2 1");
    assert_eq!(convert(&["--dedupe", "--drop-self-loops", "--symmetrize"]), "0 1, 1 0, 1 2, 2 1");
}

#[test]
fn converting_changes_weights() {
    let folder = Folder::new();
    let (real, out) = (folder.file("real.wel", "0 1 0.5\n1 2 7.5\n"), folder.path("out.gr"));
    let said = refused(&["convert", &real, &out], 2);
    assert!(said.contains("its weights are reals; --weights none, unit or random:MAX"), "{said}");
    for (weights, expected) in [
        ("none", json!(null)),
        ("unit", json!({"kind": "integer", "min": 1, "max": 1})),
        ("random:1", json!({"kind": "integer", "min": 1, "max": 1})),
    ] {
        let out = folder.path("out.mtx");
        succeed(&["convert", &real, &out, "--weights", weights]);
        assert_eq!(info(&out)["weights"], expected, "{weights}");
    }
    // What sssp goes by.
    let karate = dataset("karate.mtx");
    let distances = |graph: &str, options: &[&str]| {
        let path = folder.path("distances");
        succeed(&[&["sssp", graph, "--output", &path], options].concat());
        folder.text("distances")
    };
    let out = folder.path("out.wel");
    for (weights, kind) in
        [("random:64", "integer"), ("random:64.0", "real"), ("random:.5", "real")]
    {
        succeed(&["convert", &karate, &out, "--weights", weights]);
        assert_eq!(info(&out)["weights"]["kind"], kind);
        assert_eq!(distances(&out, &[]), distances(&karate, &["--weights", weights]));
    }
    assert!(info(&out)["weights"]["max"].as_f64().is_some_and(|max| max <= 0.5));
    for weights in ["some", "random:0", "random:0.0", "random:-1.5", "random:1.e99", "random:."] {
        let said = refused(&["convert", &real, &out, "--weights", weights], 2);
        assert!(said.contains("not none, and neither unit nor random:MAX"), "{said}");
    }
    refused(&["sssp", &karate, "--weights", "none"], 2);
}

#[test]
fn an_edge_list_does_not_lose_vertices() {
    let folder = Folder::new();
    let banner = "%%MatrixMarket matrix coordinate pattern symmetric\n";
    let last = folder.file("last.mtx", format!("{banner}3 3 1\n2 1\n"));
    let said = refused(&["convert", &last, &folder.path("out.el")], 2);
    assert!(said.contains("every other format keeps it"), "{said}");
    for (name, format) in [("a.mtx", None), ("a.gr", None), ("a.graph", None), ("a.mill", None)]
        .into_iter()
        .chain([("b.gr", Some("galois"))])
    {
        let out = folder.path(name);
        let format: Vec<_> = format.iter().flat_map(|&format| ["--format", format]).collect();
        succeed(&[&["convert", &last, &out], &format[..]].concat());
        assert_eq!(info(&out)["vertices"], json!(3), "{name}");
    }
}

#[test]
fn impossible_graphs_are_refused_and_nothing_is_written() {
    let folder = Folder::new();
    let out = folder.path("graph.el");
    for (arguments, reason) in [
        (&["kron", "32", "1"][..], "32-bit ids"),
        (&["kron", "31", "1000000000000"], "more than 2^37"),
        (&["social", "64", "1"], "2^64 vertices do not fit 32-bit ids"),
        (&["grid", "65536", "65536"], "32-bit ids"),
        (&["random", "4294967295", "1"], "32-bit ids"),
        (&["random", "10", "10", "--max-weight", "0"], "'0' for '--max-weight"),
        (&["road", "10", "10", "--keep", "1001"], "'1001' for '--keep"),
    ] {
        let said = refused(&[&["generate"], arguments, &[&*out]].concat(), 2);
        assert!(said.contains(reason), "{said}");
    }
    for name in ["graph", "graph.png"] {
        let out = folder.path(name);
        assert!(refused(&["generate", "grid", "3", "3", &out], 2).contains(&out));
        assert!(refused(&["convert", &dataset("karate.mtx"), &out], 2).contains(&out));
    }
    assert!(folder.names().is_empty());
}
