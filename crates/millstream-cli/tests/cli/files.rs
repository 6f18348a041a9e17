//! Files of values, and that none is left half-written.

use crate::common::{
    Answer, Folder, command, dataset, json, numpy, refused, remarks, run, succeed, words,
};

const GRAPH: &str = "0 1\n1 2\n4 4\n";

#[test]
fn text_has_a_line_for_each_vertex() {
    let folder = Folder::new();
    let (graph, levels) = (folder.file("graph.el", GRAPH), folder.path("levels.txt"));
    succeed(&["bfs", &graph, "--source", "0", "--output", &levels]);
    assert_eq!(folder.text("levels.txt"), "0 0\n1 1\n2 2\n3 inf\n4 inf\n");
}

#[test]
fn numpy_files_hold_an_array() {
    let folder = Folder::new();
    let graph = folder.file("graph.el", GRAPH);
    let (levels, tree) = (folder.path("levels.npy"), folder.path("tree.NPY"));
    succeed(&["bfs", &graph, "--source", "0", "--output", &levels, "--predecessors", &tree]);
    let expected = "{'descr': '<u4', 'fortran_order': False, 'shape': (5,), }";
    let none = u32::MAX;
    let (description, bytes) = numpy(&levels);
    assert_eq!((&*description, words(&bytes)), (expected, vec![0, 1, 2, none, none]));
    let (description, bytes) = numpy(&tree);
    assert_eq!((&*description, words(&bytes)), (expected, vec![none, 0, 1, none, none]));
}

#[test]
fn relabelled_vertices_keep_their_ids() {
    let folder = Folder::new();
    let graph = folder.file("sparse.el", "10000000000 7\n7 30\n");
    let (levels, tree) = (folder.path("levels.txt"), folder.path("tree.txt"));
    let relabel = ["bfs", &graph, "--relabel", "--source", "10000000000", "--verify"];
    succeed(&[&relabel[..], &["--output", &levels, "--predecessors", &tree]].concat());
    assert_eq!(folder.text("levels.txt"), "7 1\n30 2\n10000000000 0\n");
    assert_eq!(folder.text("tree.txt"), "7 10000000000\n30 7\n10000000000 inf\n");
    let array = folder.path("levels.npy");
    succeed(&[&relabel[..], &["--output", &array]].concat());
    let (description, bytes) = numpy(&array);
    assert!(description.contains("[('vertex', '<u8'), ('value', '<u4')]"), "{description}");
    let record = |record: &[u8]| {
        (u64::from_le_bytes(record[..8].try_into().unwrap()), words(&record[8..])[0])
    };
    let records: Vec<(u64, u32)> = bytes.chunks(12).map(record).collect();
    assert_eq!(records, [(7, 1), (30, 2), (10_000_000_000, 0)]);
    let report = json(&relabel);
    assert_eq!(
        (&report["vertices"], &report["source"]),
        (&3.into(), &[10_000_000_000u64][..].into())
    );
    let said = refused(&["bfs", &graph, "--relabel", "--source", "0"], 2);
    assert!(said.contains("3 vertices, which keep the ids of an edge list, such as 7"), "{said}");
}

#[test]
fn files_that_cannot_be_written_leave_nothing() {
    let folder = Folder::new();
    let karate = dataset("karate.mtx");
    let file = folder.file("file", "here first");
    // The graph is not even looked for.
    let missing = folder.path("missing.el");
    for path in [
        folder.path("missing/levels.el"),
        format!("{file}/levels.el"),
        folder.path(""),
        folder.path("folder.el/"),
    ] {
        for option in ["--output", "--predecessors"] {
            for command in ["bfs", "sssp"] {
                let said = refused(&[command, &missing, option, &path], 2);
                assert!(said.contains(&path), "{said}");
            }
        }
        let partition = ["partition", &missing, "--parts", "2", "--partitioner", "edges"];
        refused(&[&partition[..], &["--output", &path]].concat(), 2);
        refused(&["cc", &missing, "--output", &path], 2);
        refused(&["filter", "--trace", &path], 2);
        let format = ["--format", "edge-list"];
        for graph in [&["generate", "grid", "3", "3"][..], &["convert", &karate]] {
            assert!(refused(&[graph, &[&path], &format].concat(), 2).contains(&path));
        }
    }
    assert_eq!(folder.names(), ["file".as_ref() as &std::path::Path]);
    assert_eq!(folder.text("file"), "here first");
}

/// A shell limits files to one block, as a full disk would.
#[cfg(unix)]
#[test]
fn an_old_answer_outlives_a_disk_that_fills_up() {
    let folder = Folder::new();
    let levels = folder.file("levels.txt", "the old answer");
    let graph = dataset("debian-dependencies.el.gz");
    let bfs = command(&["bfs", &graph, "--output", &levels]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\""]);
    shell.arg(bfs.get_program()).args(bfs.get_args());
    let answer = Answer::from(shell.output().unwrap());
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.stdout.contains("reached"), "{answer:?}");
    let said = remarks(&answer.stderr);
    assert!(said.starts_with(&format!("millstream: {levels}: ")), "{said}");
    assert!(!said.contains(".millstream-"), "{said}");
    assert_eq!(folder.text("levels.txt"), "the old answer");
    assert_eq!(folder.names().len(), 1);
}

/// A shell limits memory to a gibibyte.
#[cfg(target_os = "linux")]
#[test]
fn a_header_that_lies_costs_less_than_a_gibibyte() {
    let folder = Folder::new();
    let banner = "%%MatrixMarket matrix coordinate pattern general";
    // The most that one arc is believed.
    let most = (1 << 20) + 2;
    let lying = folder.file("lying.mtx", format!("{banner}\n{most} {most} 1\n1 2\n"));
    for arguments in [
        &["info", &lying, "--transpose", "--dedupe"][..],
        &["bfs", &lying],
        &["bfs", &lying, "--predecessors", "/dev/null"],
        &["cc", &lying],
        &["pagerank", &lying],
        &["pagerank", &lying, "--algorithm", "push"],
        &["sssp", &lying, "--weights", "unit", "--predecessors", "/dev/null"],
        &["partition", &lying, "--parts", "1000000", "--partitioner", "blocks"],
    ] {
        let mut arguments = arguments.to_vec();
        if !["info", "partition"].contains(&arguments[0]) {
            arguments.extend(["--devices", "host:32"]);
        }
        let command = command(&[&arguments[..], &["--json"]].concat());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -d 1048576; exec \"$0\" \"$@\""]);
        shell.arg(command.get_program()).args(command.get_args());
        // Threads have stacks, and the allocator may use what it has mapped beforehand.
        shell.env("RAYON_NUM_THREADS", "2").env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
        let answer = Answer::from(shell.output().unwrap());
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(answer.stdout.contains(&format!("\"vertices\":{most}")), "{answer:?}");
    }
    let one_more = most + 1;
    for lying in [
        folder.file("more.mtx", format!("{banner}\n{one_more} {one_more} 1\n1 2\n")),
        folder.file("more.el", format!("{most} 0\n")),
    ] {
        let said = refused(&["pagerank", &lying], 2);
        assert!(said.contains(&format!("{one_more} vertices are not credible for 1 ")), "{said}");
        assert!(said.contains(".mill") && said.contains("--relabel"), "{said}");
    }
}

#[cfg(unix)]
#[test]
fn answers_can_be_read_by_whom_the_mask_allows() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let plain = folder.file("plain", "");
    let levels = folder.path("levels.txt");
    let bfs = ["bfs", &dataset("karate.mtx"), "--output", &levels];
    succeed(&bfs);
    let mode = |path: &str| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&levels), mode(&plain));
    std::fs::set_permissions(&levels, std::fs::Permissions::from_mode(0o600)).unwrap();
    succeed(&bfs);
    assert_eq!(mode(&levels) & 0o777, 0o600);
}

#[test]
fn two_answers_are_two_files() {
    let folder = Folder::new();
    let (missing, file) = (folder.path("missing.el"), folder.path("file"));
    for same in [file.clone(), folder.path("./file")] {
        for command in ["bfs", "sssp"] {
            let said = refused(&[command, &missing, "--output", &file, "--predecessors", &same], 2);
            assert!(said.contains("the same file") && said.contains(&file), "{said}");
        }
    }
    assert!(folder.names().is_empty());
}

#[cfg(unix)]
#[test]
fn no_answer_takes_the_place_of_the_graph() {
    let folder = Folder::new();
    let graph = folder.file("graph.el", GRAPH);
    let (dotted, link) = (folder.path("./graph.el"), folder.path("link.el"));
    std::os::unix::fs::symlink("graph.el", &link).unwrap();
    let partition = ["--parts", "2", "--partitioner", "blocks"];
    for (command, more, options) in [
        ("bfs", &[][..], &["--output", "--predecessors", "--trace"][..]),
        ("sssp", &["--weights", "unit"], &["--output", "--predecessors", "--trace"]),
        ("pagerank", &[], &["--output", "--trace"]),
        ("cc", &[], &["--output", "--trace"]),
        ("partition", &partition, &["--output"]),
    ] {
        for option in options {
            for (read, written) in
                [(&graph, &graph), (&graph, &dotted), (&graph, &link), (&link, &graph)]
            {
                let said = refused(&[&[command, read, option, written], more].concat(), 2);
                let expected = format!("GRAPH and {option} are the same file, ");
                assert!(said.contains(&expected) && said.contains(&graph), "{said}");
            }
        }
    }
    assert_eq!(folder.text("graph.el"), GRAPH);
    assert_eq!(folder.names().len(), 2);
}

#[test]
fn no_answer_takes_the_place_of_the_topology() {
    let folder = Folder::new();
    let topology = succeed(&["topology", "--devices", "host:2", "--json"]);
    let shape = folder.file("shape.json", &topology);
    let (graph, dotted) = (folder.file("graph.el", GRAPH), folder.path("./shape.json"));
    for (command, options) in [
        (&["bfs", &*graph][..], &["--output", "--predecessors", "--trace"][..]),
        (&["sssp", &graph, "--weights", "unit"], &["--output", "--predecessors", "--trace"]),
        (&["pagerank", &graph], &["--output", "--trace"]),
        (&["cc", &graph], &["--output", "--trace"]),
        (&["filter"], &["--trace"]),
    ] {
        for option in options {
            let files = ["--devices", "host:2", "--topology", &shape, option, &dotted];
            let said = refused(&[command, &files].concat(), 2);
            let expected = format!("--topology and {option} are the same file, {shape}");
            assert!(said.contains(&expected), "{said}");
        }
    }
    assert_eq!(folder.text("shape.json"), topology);
}

#[test]
fn a_last_extension_compresses() {
    let folder = Folder::new();
    let karate = dataset("karate.mtx");
    let read = |name: &str| std::fs::read(folder.path(name)).unwrap();
    let unzipped = |name: &str| {
        let mut content = Vec::new();
        let file = read(name);
        std::io::copy(&mut flate2::read::GzDecoder::new(&*file), &mut content).unwrap();
        content
    };
    let [plain, gzip, zstandard] = ["", ".gz", ".ZST"];
    for compression in [plain, gzip, zstandard] {
        let path = |name: &str| folder.path(&format!("{name}{compression}"));
        let (levels, tree, trace) = (path("levels.npy"), path("tree"), path("trace.json"));
        let bfs = ["bfs", &karate, "--output", &levels, "--predecessors", &tree];
        succeed(&[&bfs[..], &["--trace", &trace]].concat());
        let partition = ["partition", &karate, "--parts", "3", "--partitioner", "edges"];
        succeed(&[&partition[..], &["--output", &path("parts.txt")]].concat());
    }
    for name in ["levels.npy", "tree", "parts.txt"] {
        let expected = read(name);
        assert_eq!(unzipped(&format!("{name}.gz")), expected, "{name}");
        let decoded = zstd::decode_all(&*read(&format!("{name}.ZST"))).unwrap();
        assert_eq!(decoded, expected, "{name}");
    }
    assert!(unzipped("trace.json.gz").starts_with(b"{"));
}

#[cfg(unix)]
#[test]
fn what_stands_at_a_path_stays_what_it_is() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let folder = Folder::new();
    let graph = folder.file("graph.el", GRAPH);
    let expected = "0 0\n1 1\n2 2\n3 inf\n4 inf\n";
    let (target, link) = (folder.file("target", "old"), folder.path("link"));
    symlink(&target, &link).unwrap();
    let pipe = folder.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let read = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    let bfs = ["bfs", &graph, "--source", "0", "--output"];
    for path in [&*link, &*pipe, "/dev/null"] {
        succeed(&[&bfs[..], &[path, "--predecessors", "/dev/null"]].concat());
    }
    assert_eq!((folder.text("target"), read.join().unwrap()), (expected.into(), expected.into()));
    assert!(std::path::Path::new(&link).is_symlink());
    let kind = |path: &str| std::fs::metadata(path).unwrap().file_type();
    assert!(kind(&pipe).is_fifo() && kind("/dev/null").is_char_device());
    let convert = succeed(&["convert", &graph, "/dev/null", "--format", "millstream"]);
    assert!(convert.contains("/dev/null"), "{convert}");
}

/// JSON follows the values, in a pipe as in a file; a table does not.
#[cfg(unix)]
#[test]
fn values_can_go_to_standard_output() {
    let folder = Folder::new();
    let graph = folder.file("graph.el", GRAPH);
    let bfs = ["bfs", &graph, "--source", "0", "--json", "--output", "/dev/stdout"];
    let piped = succeed(&bfs);
    let path = folder.file("out", "");
    let file = std::fs::File::create(&path).unwrap();
    assert!(command(&bfs).stdout(file).status().unwrap().success());
    for text in [piped, folder.text("out")] {
        let answer = text.strip_prefix("0 0\n1 1\n2 2\n3 inf\n4 inf\n").unwrap();
        assert!(answer.starts_with('{') && answer.ends_with("}\n"), "{text}");
    }
    let partition = ["partition", &graph, "--parts", "2", "--partitioner", "blocks"];
    for (arguments, values) in [
        (
            &["bfs", &*graph, "--source", "0", "--output", "/dev/stdout"][..],
            "0 0\n1 1\n2 2\n3 inf\n4 inf\n",
        ),
        (
            &["bfs", &graph, "--source", "0", "--predecessors", "/dev/stdout"],
            "0 inf\n1 0\n2 1\n3 inf\n4 inf\n",
        ),
        (&[&partition[..], &["--output", "/dev/stdout"]].concat(), "0 0\n1 0\n2 1\n3 1\n4 1\n"),
        (&["convert", &graph, "/dev/stdout", "--format", "edge-list"], GRAPH),
    ] {
        let answer = run(arguments);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let table = answer.stdout.strip_prefix(values).unwrap();
        assert!(table.contains("graph"), "{answer:?}");
    }
}

/// As `head` does after a line.
#[cfg(unix)]
#[test]
fn a_reader_of_values_may_leave_early() {
    let folder = Folder::new();
    let graph = dataset("debian-dependencies.el.gz");
    for arguments in [
        &["bfs", &graph, "--output", "/dev/stdout"][..],
        &["bfs", &graph, "--output", "/dev/null", "--predecessors", "/dev/stdout"],
        &["cc", &graph, "--output", "/dev/stdout"],
        &["convert", &graph, "/dev/stdout", "--format", "edge-list"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let said = folder.path("said");
        let mut command = command(arguments);
        command.stdout(writer).stderr(std::fs::File::create(&said).unwrap());
        let code = command.status().unwrap().code();
        assert_eq!(code, Some(0), "{arguments:?}");
        assert!(!remarks(&folder.text("said")).contains("millstream: "), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_is_printed_though_a_file_could_not_be_written() {
    let folder = Folder::new();
    let graph = folder.file("graph.wel", "0 1 2\n");
    let tree = folder.path("tree");
    for command in ["bfs", "sssp", "cc", "partition"] {
        let _ = std::fs::remove_file(&tree);
        let more = match command {
            "cc" => &[][..],
            "partition" => &["--parts", "2", "--partitioner", "blocks"],
            _ => &["--predecessors", &tree],
        };
        let answer = run(&[&[command, &graph, "--output", "/dev/full"], more].concat());
        assert_eq!(answer.code, Some(1), "{answer:?}");
        assert!(answer.stdout.contains(&graph), "{answer:?}");
        assert!(remarks(&answer.stderr).starts_with("millstream: /dev/full: "), "{answer:?}");
        let has_tree = folder.names().contains(&"tree".into());
        assert_eq!(has_tree, matches!(command, "bfs" | "sssp"), "{command}");
    }
}
