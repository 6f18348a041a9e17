//! Files of values, and that none is left half-written.

use crate::common::{Answer, Folder, command, dataset, json, numpy, refused, succeed, words};

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
    let (levels, tree) = (folder.path("levels.npy"), folder.path("tree.npy"));
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
    assert!(said.contains("3 vertices"), "{said}");
}

#[test]
fn files_that_cannot_be_written_leave_nothing() {
    let folder = Folder::new();
    let karate = dataset("karate.mtx");
    let file = folder.file("file", "here first");
    for path in [folder.path("missing/levels.txt"), format!("{file}/levels.txt"), folder.path("")] {
        for option in ["--output", "--predecessors"] {
            let said = refused(&["bfs", &karate, option, &path], 1);
            assert!(said.contains(&path), "{said}");
        }
        refused(
            &["partition", &karate, "--parts", "2", "--partitioner", "edges", "--output", &path],
            1,
        );
    }
    for out in [folder.path("missing/graph.el"), format!("{file}/graph.el")] {
        assert!(refused(&["generate", "grid", "3", "3", &out], 1).contains(&out));
        assert!(refused(&["convert", &karate, &out], 1).contains(&out));
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
    shell.args(["-c", "ulimit -f 1; trap '' XFSZ; exec \"$0\" \"$@\""]);
    shell.arg(bfs.get_program()).args(bfs.get_args());
    let answer = Answer::from(shell.output().unwrap());
    assert_eq!((answer.code, &*answer.stdout), (Some(1), ""), "{answer:?}");
    assert!(answer.stderr.contains(&levels), "{answer:?}");
    assert_eq!(folder.text("levels.txt"), "the old answer");
    assert_eq!(folder.names().len(), 1);
}

#[cfg(unix)]
#[test]
fn answers_can_be_read_by_whom_the_mask_allows() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let plain = folder.file("plain", "");
    let levels = folder.path("levels.txt");
    succeed(&["bfs", &dataset("karate.mtx"), "--output", &levels]);
    let mode = |path: &str| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&levels), mode(&plain));
}
