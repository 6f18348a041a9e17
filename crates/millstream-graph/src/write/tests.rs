//! Every format gives back what was written, and also survives operations on its files.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::Weights;
use crate::read::{ReadError, ReadOptions, read_graph, read_graph_with_format};

/// File names for all formats; Galois must be asked for explicitly.
const NAMES: [(&str, Format); 10] = [
    ("a.mtx", Format::MatrixMarket),
    ("a.gr", Format::Dimacs),
    ("b.gr", Format::Galois),
    ("a.graph", Format::Metis),
    ("a.el", Format::EdgeList),
    ("a.wel", Format::EdgeList),
    ("a.txt", Format::EdgeList),
    ("a.csv", Format::EdgeList),
    ("a.tsv", Format::EdgeList),
    ("a.mill", Format::Millstream),
];

/// Writes a graph under each kind of compression, and reads it back.
fn there_and_back(graph: &CsrGraph, name: &str, format: Format) -> Vec<CsrGraph> {
    let folder = tempfile::tempdir().unwrap();
    let names = [name.to_string(), format!("{name}.gz"), format!("{name}.zst")];
    let round = |name: String| {
        let path = folder.path().join(name);
        write_graph(&path, graph, Some(format)).unwrap();
        let (graph, found) = read_graph_with_format(&path, &ReadOptions::default()).unwrap();
        assert_eq!(found, format);
        graph
    };
    names.map(round).into()
}

fn not_representable(graph: &CsrGraph, name: &str, format: Format) -> String {
    let folder = tempfile::tempdir().unwrap();
    let error = write_graph(&folder.path().join(name), graph, Some(format)).unwrap_err();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "something is left");
    match error {
        WriteError::NotRepresentable { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

/// Arcs of a graph whose last vertex has an arc, as edge lists require.
fn arcs() -> impl Strategy<Value = Vec<(u32, u32, u32)>> {
    let weight = prop_oneof![0u32..5, any::<u32>()];
    let arcs = proptest::collection::vec((0u32..40, 0u32..40, weight), 0..80);
    arcs.prop_map(|mut arcs| {
        arcs.push((39, 1, 6));
        arcs
    })
}

fn finite() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(f32::from_bits).prop_filter("finite", |real| real.is_finite())
}

fn graphs(arcs: &[(u32, u32, u32)], reals: &[f32]) -> [CsrGraph; 3] {
    let ends: Vec<_> = arcs.iter().map(|arc| (arc.0, arc.1)).collect();
    let real = |(index, arc): (usize, &(u32, u32, u32))| (arc.0, arc.1, reals[index % reals.len()]);
    let reals: Vec<_> = arcs.iter().enumerate().map(real).collect();
    [
        CsrGraph::from_edges(40, &ends).unwrap(),
        CsrGraph::from_weighted_edges(40, arcs).unwrap(),
        CsrGraph::from_weighted_edges(40, &reals).unwrap(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_written_is_read(
        arcs in arcs(),
        reals in proptest::collection::vec(finite(), 1..20),
    ) {
        for graph in graphs(&arcs, &reals) {
            for (name, format) in NAMES {
                let is_real = matches!(graph.weights(), Some(Weights::Real(_)));
                let wants_integers = matches!(format, Format::Dimacs | Format::Galois);
                if format == Format::Metis {
                    continue;
                }
                if is_real && wants_integers {
                    let written = write_graph(name.as_ref(), &graph, Some(format));
                    prop_assert!(matches!(written, Err(WriteError::RealWeights { .. })), "{}", name);
                    continue;
                }
                let mut expected = graph.clone();
                if format == Format::Dimacs && graph.weights().is_none() {
                    let ones = Weights::Integer(vec![1; graph.arcs() as usize]);
                    expected = expected.with_weights(Some(ones)).unwrap();
                }
                for back in there_and_back(&graph, name, format) {
                    prop_assert_eq!(&back, &expected, "{}", name);
                }
            }
        }
    }

    #[test]
    fn undirected_graphs_survive_metis(arcs in arcs()) {
        let edges = arcs.iter().filter(|arc| arc.0 != arc.1);
        let both: Vec<_> = edges.flat_map(|&(from, to, weight)| [(from, to, weight), (to, from, weight)]).collect();
        for graph in &graphs(&both, &[0.5])[..2] {
            for back in there_and_back(graph, "a.graph", Format::Metis) {
                prop_assert_eq!(&back, graph);
            }
        }
    }

    #[test]
    fn mill_keeps_everything(
        arcs in arcs(),
        reals in proptest::collection::vec(finite(), 1..20),
        width in any::<Option<u32>>(),
        ids in proptest::option::of(proptest::collection::btree_set(0..u64::MAX, 40)),
    ) {
        for graph in graphs(&arcs, &reals) {
            let mut graph = graph.with_lattice_width(width);
            if let Some(ids) = &ids {
                graph = graph.with_original_ids(ids.iter().copied().collect()).unwrap();
            }
            for back in there_and_back(&graph, "a.mill", Format::Millstream) {
                prop_assert_eq!(&back, &graph);
            }
        }
    }

    #[test]
    fn damaged_files_never_panic(
        arcs in arcs(),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
        cut in proptest::option::of(any::<u16>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let edges = arcs.iter().filter(|arc| arc.0 != arc.1);
        let both: Vec<_> = edges.flat_map(|&(from, to, weight)| [(from, to, weight), (to, from, weight)]).collect();
        for graph in &graphs(&both, &[0.5])[..2] {
            for (name, format) in NAMES {
                for ending in ["", ".gz", ".zst"] {
                    let path = folder.path().join(format!("{name}{ending}"));
                    write_graph(&path, graph, Some(format)).unwrap();
                    let mut content = fs::read(&path).unwrap();
                    for &(place, byte) in &changes {
                        let place = usize::from(place) % content.len();
                        content[place] = byte;
                    }
                    if let Some(cut) = cut {
                        content.truncate(usize::from(cut) % content.len());
                    }
                    fs::write(&path, &content).unwrap();
                    if let Err(error) = read_graph(&path, &ReadOptions::default()) {
                        prop_assert!(error.to_string().starts_with(&path.display().to_string()));
                    }
                }
            }
        }
    }
}

#[test]
fn cut_binary_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let graph = CsrGraph::from_weighted_edges(3, &[(0, 1, 5u32), (1, 2, 6), (2, 0, 7)]).unwrap();
    for (name, format) in [("a.mill", Format::Millstream), ("b.gr", Format::Galois)] {
        let path = folder.path().join(name);
        write_graph(&path, &graph, Some(format)).unwrap();
        let content = fs::read(&path).unwrap();
        for end in 8..content.len() {
            fs::write(&path, &content[..end]).unwrap();
            let error = read_graph(&path, &ReadOptions::default()).unwrap_err();
            assert!(matches!(error, ReadError::Offset { .. }), "{name} cut at {end}: {error}");
        }
    }
}

#[test]
fn files_look_as_their_formats_want() {
    let folder = tempfile::tempdir().unwrap();
    let graph = CsrGraph::from_weighted_edges(2, &[(0, 1, 2.0f32), (1, 0, -1e-9)]).unwrap();
    let ends = CsrGraph::from_edges(3, &[(0, 2), (2, 0)]).unwrap();
    for (name, graph, expected) in [
        (
            "a.mtx",
            &graph,
            "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 2.0\n2 1 -1e-9\n",
        ),
        ("a.mtx", &ends, "%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 3\n3 1\n"),
        ("a.csv", &graph, "0,1,2.0\n1,0,-1e-9\n"),
        ("a.tsv", &ends, "0\t2\n2\t0\n"),
        ("a.gr", &ends, "p sp 3 2\na 1 3 1\na 3 1 1\n"),
        ("a.graph", &ends, "3 1\n3\n\n1\n"),
    ] {
        let path = folder.path().join(name);
        write_graph(&path, graph, None).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }
}

#[test]
fn what_a_format_cannot_hold_is_refused() {
    let empty = CsrGraph::from_edges(3, &[]).unwrap();
    let tail = CsrGraph::from_edges(3, &[(0, 1)]).unwrap();
    let self_loop = CsrGraph::from_edges(2, &[(0, 1), (1, 0), (1, 1)]).unwrap();
    let uneven = CsrGraph::from_weighted_edges(2, &[(0, 1, 5u32), (1, 0, 6)]).unwrap();
    for (graph, name, format, said) in [
        (&empty, "a.el", Format::EdgeList, "it has no arc"),
        (&tail, "a.el", Format::EdgeList, "it has no arc from or to the last of its 3 vertices"),
        (&tail, "a.graph", Format::Metis, "it is not symmetric: arcs from and to vertex 0 differ"),
        (&uneven, "a.graph", Format::Metis, "it is not symmetric: arcs from and to vertex 0"),
        (&self_loop, "a.graph", Format::Metis, "vertex 1 has an arc to itself"),
    ] {
        let reason = not_representable(graph, name, format);
        assert!(reason.starts_with(said), "{reason}");
    }
    for (name, format) in
        [("a.mtx", Format::MatrixMarket), ("a.mill", Format::Millstream), ("a.gr", Format::Galois)]
    {
        assert_eq!(there_and_back(&empty, name, format)[0], empty);
    }
}

/// No reader would accept them.
#[test]
fn many_vertices_with_few_arcs_are_not_written_as_text() {
    use Format::{Dimacs, EdgeList, Galois, MatrixMarket};
    let most = (1 << 20) + 2;
    let graph = |vertices| CsrGraph::from_edges(vertices, &[(0, vertices - 1)]).unwrap();
    let (some, many) = (graph(most), graph(most + 1));
    for (name, format) in [("a.mtx", MatrixMarket), ("a.gr", Dimacs), ("a.el", EdgeList)] {
        let reason = not_representable(&many, name, format);
        assert!(reason.starts_with("1048579 vertices are not credible for 1 arcs"), "{reason}");
        assert_eq!(there_and_back(&some, name, format)[0].vertices(), most);
    }
    assert_eq!(there_and_back(&many, "a.gr", Galois)[0], many);
}

#[test]
fn edge_lists_keep_original_ids_and_errors_name_them() {
    let (folder, relabel) =
        (tempfile::tempdir().unwrap(), ReadOptions { relabel: true, ..ReadOptions::default() });
    let graph = |arcs: &[(u32, u32)]| {
        let graph = CsrGraph::from_edges(3, arcs).unwrap();
        graph.with_original_ids(vec![7, 30, 10_000_000_000]).unwrap()
    };
    let (path, whole) = (folder.path().join("a.csv"), graph(&[(2, 0), (0, 1)]));
    write_graph(&path, &whole, None).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "7,30\n10000000000,7\n");
    assert_eq!(read_graph(&path, &relabel).unwrap(), whole);
    for (arcs, name, format, said) in [
        (&[(0, 2)][..], "a.el", Format::EdgeList, "it has no arc from or to vertex 30,"),
        (&[(1, 1)], "a.graph", Format::Metis, "vertex 30 has an arc to itself"),
        (&[(1, 2)], "a.graph", Format::Metis, "it is not symmetric: arcs from and to vertex 30 "),
    ] {
        let reason = not_representable(&graph(arcs), name, format);
        assert!(reason.starts_with(said), "{reason}");
    }
}

#[test]
fn names_that_stand_for_other_formats_are_refused() {
    use Format::{Dimacs, EdgeList, MatrixMarket, Metis, Millstream};
    for (name, format, read_as) in [
        ("a.txt", Metis, Some(EdgeList)),
        ("a.dat.gz", Metis, Some(EdgeList)),
        ("a.mtx", Metis, Some(MatrixMarket)),
        ("a.graph", EdgeList, Some(Metis)),
        ("a.gr.zst", EdgeList, Some(Dimacs)),
        ("a.dat", EdgeList, None),
        ("a.graph.gz", Metis, None),
        ("a.txt", Millstream, None),
    ] {
        match (format_of_file(Path::new(name), Some(format)), read_as) {
            (Ok(found), None) => assert_eq!(found, format),
            (Err(WriteError::Misnamed { read_as: found, .. }), Some(read_as)) => {
                assert_eq!(found, read_as, "{name}");
            }
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
    // Files of the other formats are told apart by their beginnings.
    let graph = CsrGraph::from_edges(2, &[(0, 1), (1, 0)]).unwrap();
    for (name, format) in [("a.dat", EdgeList), ("a.txt", MatrixMarket), ("a.mtx", Dimacs)] {
        assert_eq!(there_and_back(&graph, name, format).len(), 3);
    }
}

#[test]
fn rows_keep_their_order_in_binary_formats() {
    let weights = Some(Weights::Integer(vec![1, 2, 3]));
    let graph = CsrGraph::from_csr(vec![0, 2, 3], vec![1, 0, 0], weights).unwrap();
    for (name, format) in [("a.mill", Format::Millstream), ("b.gr", Format::Galois)] {
        assert!(there_and_back(&graph, name, format).iter().all(|back| *back == graph));
    }
}

#[test]
fn a_file_is_replaced_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let graph = CsrGraph::from_edges(2, &[(0, 1)]).unwrap();
    let options = ReadOptions::default();
    let path = folder.path().join("a.mill");
    write_graph(&path, &graph, None).unwrap();
    // The graph is mapped from the file that is replaced, and must stay as it was.
    let mapped = read_graph(&path, &options).unwrap();
    write_graph(&path, &CsrGraph::from_edges(3, &[(2, 1)]).unwrap(), None).unwrap();
    assert_eq!(mapped, graph);
    assert_eq!(read_graph(&path, &options).unwrap().vertices(), 3);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    let missing = folder.path().join("none/a.mill");
    let error = write_graph(&missing, &graph, None).unwrap_err();
    assert!(error.to_string().starts_with(&missing.display().to_string()), "{error}");
    let error = write_graph(folder.path(), &graph, Some(Format::Millstream)).unwrap_err();
    assert!(error.to_string().ends_with("is a directory"), "{error}");
    let error = write_graph(Path::new("a.png"), &graph, None).unwrap_err();
    assert!(matches!(error, WriteError::UnknownExtension { .. }), "{error}");
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let graph = CsrGraph::from_edges(2, &[(0, 1)]).unwrap();
    let (path, link) = (folder.path().join("a.el"), folder.path().join("link.el"));
    write_graph(&path, &graph, None).unwrap();
    let usual = folder.path().join("usual");
    fs::write(&usual, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&usual));
    symlink(&path, &link).unwrap();
    fs::write(&path, "").unwrap();
    write_graph(&link, &graph, None).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&path).unwrap(), "0 1\n");
}
