//! Small files of each format with the exact graph that they contain, and bad files with the exact message.

use std::io::Write;
use std::time::{Duration, Instant};

use super::*;
use crate::Weights;
use crate::mill::{Header, WeightKind};

/// Reads a file of this name and content. If that fails, returns the part of the message behind the folder.
pub(super) fn read(name: &str, content: &[u8], options: &ReadOptions) -> Result<CsrGraph, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    read_graph(&path, options).map_err(|error| {
        let message = error.to_string();
        let prefix = format!("{}/", folder.path().display());
        message.strip_prefix(&prefix).expect("the message names the file").to_string()
    })
}

fn plain(name: &str, content: impl AsRef<[u8]>) -> Result<CsrGraph, String> {
    read(name, content.as_ref(), &ReadOptions::default())
}

pub(super) fn unweighted(vertices: u32, arcs: &[(u32, u32)]) -> CsrGraph {
    CsrGraph::from_edges(vertices, arcs).unwrap()
}

pub(super) fn weighted<W: crate::build::ArcWeight>(
    vertices: u32,
    arcs: &[(u32, u32, W)],
) -> CsrGraph {
    CsrGraph::from_weighted_edges(vertices, arcs).unwrap()
}

/// A Galois file: numbers of 64 bits, then numbers of 32 bits.
fn galois(longs: &[u64], words: &[u32]) -> Vec<u8> {
    let longs = longs.iter().flat_map(|long| long.to_le_bytes());
    longs.chain(words.iter().flat_map(|word| word.to_le_bytes())).collect()
}

pub(super) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn text_files_are_their_graphs() {
    let mtx = |rest: &str| format!("%%MatrixMarket matrix coordinate {rest}");
    for (name, content, expected) in [
        ("a.el", "0 2\n2 0\n0 1".into(), unweighted(3, &[(0, 1), (0, 2), (2, 0)])),
        ("a.el", "# c\n\n% c\r\n 1\t0 \r\n".into(), unweighted(2, &[(1, 0)])),
        ("a.csv", "0,1,7\n1,2,8\n".into(), weighted(3, &[(0, 1, 7u32), (1, 2, 8)])),
        (
            "a.csv",
            "# of edges\nsource,target,weight\n0,1,7\n1,2,8\n".into(),
            weighted(3, &[(0, 1, 7u32), (1, 2, 8)]),
        ),
        (
            "a.csv",
            "\"node 1\", \"node 2\"\r\n0,1\r\n1,2\r\n".into(),
            unweighted(3, &[(0, 1), (1, 2)]),
        ),
        ("a.tsv", "from\tto\n0\t1\n1\t2\n".into(), unweighted(3, &[(0, 1), (1, 2)])),
        ("a.csv", "# ,,\n0 , 1\n,\n2 0, ".into(), unweighted(3, &[(0, 1), (2, 0)])),
        ("a.csv", "\u{feff}0, 1\n1, 2,\n".into(), unweighted(3, &[(0, 1), (1, 2)])),
        ("a.wel", "0 1 7\n1 0 0.5\n".into(), weighted(2, &[(0, 1, 7f32), (1, 0, 0.5)])),
        ("a.wel", "0 1 -7\n1 0 5\n".into(), weighted(2, &[(0, 1, -7f32), (1, 0, 5.0)])),
        ("a.mtx", mtx("pattern general\n3 2 2\n3 1\n1 2\n"), unweighted(3, &[(2, 0), (0, 1)])),
        ("a.mtx", mtx("pattern general\n2 5 0\n"), unweighted(5, &[])),
        (
            "a.mtx",
            mtx("integer symmetric\n% c\n\n3 3 2\n2 1 9\n% c\n3 3 4\n"),
            weighted(3, &[(1, 0, 9u32), (0, 1, 9), (2, 2, 4)]),
        ),
        ("a.mtx", mtx("integer general\n2 2 1\n1 2 -4\n"), weighted(2, &[(0, 1, -4f32)])),
        ("a.mtx", mtx("REAL General\n2 2 1\n1 2 1e-3\n"), weighted(2, &[(0, 1, 1e-3f32)])),
        ("a.mtx", mtx("real general\n2 2 1\n1 2 3\n"), weighted(2, &[(0, 1, 3f32)])),
        (
            "a.mtx",
            mtx("real general\n1 1 1\n1 1 4294967296\n"),
            weighted(1, &[(0, 0, 2f32.powi(32))]),
        ),
        ("a.mtx", mtx("real general\n2 2 0\n"), weighted::<f32>(2, &[])),
        ("a.mtx", mtx("integer general\n0 0 0"), weighted::<u32>(0, &[])),
        (
            "a.gr",
            "c road\nc\np sp 4 2\nc arcs\na 1 4 10\na 4 1 0\n".into(),
            weighted(4, &[(0, 3, 10u32), (3, 0, 0)]),
        ),
        ("a.gr", "p sp 2 1\na 2 1 -3".into(), weighted(2, &[(1, 0, -3f32)])),
        (
            "a.graph",
            "% c\n4 2\n2\n% c\n1 3\n2\n\n".into(),
            unweighted(4, &[(0, 1), (1, 0), (1, 2), (2, 1)]),
        ),
        ("a.graph", "2 1 001\n2 7\n1 7\n\n\n".into(), weighted(2, &[(0, 1, 7u32), (1, 0, 7)])),
        (
            "a.graph",
            "2 1 111 2\n5 1 2 2 7\n5 1 2 1 7".into(),
            weighted(2, &[(0, 1, 7u32), (1, 0, 7)]),
        ),
        ("a.graph", "2 1 10\n9 2\n9 1\n".into(), unweighted(2, &[(0, 1), (1, 0)])),
        ("a.graph", "2 1 0\n2\n1\n".into(), unweighted(2, &[(0, 1), (1, 0)])),
        ("a.graph", "3 0\n\n\n\n".into(), unweighted(3, &[])),
    ] {
        let content: String = content;
        for name in [name.to_string(), format!("{name}.gz")] {
            let bytes = if name.ends_with("gz") {
                gzip(content.as_bytes())
            } else {
                content.clone().into()
            };
            assert_eq!(plain(&name, bytes).as_ref(), Ok(&expected), "{name}: {content:?}");
        }
    }
}

#[test]
fn galois_files_are_their_graphs() {
    let expected = CsrGraph::from_csr(vec![0, 2, 2, 3], vec![2, 1, 0], None).unwrap();
    let longs = [1, 0, 3, 3, 2, 2, 3];
    assert_eq!(plain("a.gr", galois(&longs, &[2, 1, 0, 0])), Ok(expected.clone()));
    assert_eq!(plain("padding.gr", galois(&longs, &[2, 1, 0])), Ok(expected.clone()));
    let weights = Some(Weights::Integer(vec![7, 8, 9]));
    let expected = expected.with_weights(weights).unwrap();
    let longs = [1, 4, 3, 3, 2, 2, 3];
    let content = galois(&longs, &[2, 1, 0, u32::MAX, 7, 8, 9]);
    assert_eq!(plain("a.el", &content).as_ref(), Ok(&expected), "content decides");
    assert_eq!(plain("a.gr", gzip(&content)), Ok(expected));
    assert_eq!(plain("none.gr", galois(&[1, 0, 0, 0], &[])), Ok(unweighted(0, &[])));
}

#[test]
fn content_decides_before_the_extension() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, content, format) in [
        (
            "a.el",
            &b"%%matrixmarket matrix coordinate pattern general\n1 1 0\n"[..],
            Format::MatrixMarket,
        ),
        ("b.graph", b"c x\np sp 1 0\n", Format::Dimacs),
        ("c.mtx", b"p sp 1 0\n", Format::Dimacs),
        ("d.graph", b"1 0\n\n", Format::Metis),
        ("e.unknown", b"0 0\n", Format::EdgeList),
        ("f.txt.gz", b"% 1\n0 0\n", Format::EdgeList),
        ("g.gr", &galois(&[1, 0, 0, 0], &[]), Format::Galois),
        ("i.tsv", b"c\tp\n0\t1\n", Format::EdgeList),
        ("j.tsv", b"p\tspan\n0\t1\n", Format::EdgeList),
        ("k.tsv", b"c\tx\nc\n\np\tsp 2 0\n", Format::Dimacs),
    ] {
        std::fs::write(path(name), content).unwrap();
        assert_eq!(detect(&path(name)).unwrap(), format, "{name}");
        let read = read_graph_with_format(path(name), &ReadOptions::default());
        assert_eq!(read.unwrap().1, format, "{name}");
    }
    std::fs::write(path("h.el"), gzip(b"c x\np sp 1 0\n")).unwrap();
    assert_eq!(detect(&path("h.el")).unwrap(), Format::Dimacs);
}

#[test]
fn bad_text_is_named_with_its_line() {
    let mtx = "%%MatrixMarket matrix coordinate";
    let long = "7".repeat(50);
    for (name, content, said) in [
        ("a.el", "".into(), "a.el: the file is empty"),
        ("a.el", " \n\n".into(), "a.el: nothing but blanks"),
        ("a.el", "# c\n".into(), "a.el: no arc in the file"),
        ("a.el", "0 1\n1 x\n".into(), "a.el:2: \"x\" is not a vertex id"),
        ("a.el", "0 1\n\n7\n".into(), "a.el:3: an arc needs two vertices"),
        ("a.el", "7\n0 1 2\n".into(), "a.el:1: an arc needs two vertices"),
        ("a.el", "0 1 2\n1 2\n".into(), "a.el:2: some lines have a weight and some have none"),
        ("a.el", "0 1\n1 2 3\n".into(), "a.el:2: some lines have a weight and some have none"),
        ("a.el", "0 1 nan\n".into(), "a.el:1: \"nan\" is not a number"),
        ("a.el", "0 1 1\n0 1 inf\n".into(), "a.el:2: \"inf\" is infinite"),
        ("a.el", "0 1 1\n0 1 z\n".into(), "a.el:2: \"z\" is not a weight"),
        ("a.el", "0 1 1 9\n".into(), "a.el:1: \"9\" is one field too many"),
        ("a.csv", "0,,5\n".into(), "a.csv:1: a field is empty"),
        ("a.csv", "from,to\n0,1\nfrom,to\n".into(), "a.csv:3: \"from\" is not a vertex id"),
        ("a.csv", "from,1\n0,1\n".into(), "a.csv:1: \"from\" is not a vertex id"),
        // With a column before the ends, as libraries write tables.
        ("a.csv", ",source,target\n0,5,7\n".into(), "a.csv:1: a field is empty"),
        ("a.csv", "id,source,target\n0,5,7\n".into(), "a.csv:1: \"id\" is not a vertex id"),
        ("a.csv", "a,b,weight,kind\n0,5,7,1\n".into(), "a.csv:1: \"a\" is not a vertex id"),
        ("a.tsv", "\tfrom\tto\n0\t5\t7\n".into(), "a.tsv:1: a field is empty"),
        ("a.el", "from to\n0 1\n".into(), "a.el:1: \"from\" is not a vertex id"),
        ("a.csv", "from,to\n0,4000000000\n".into(), "a.csv:2: 4000000001 vertices are not c"),
        ("a.csv", "from,to\n".into(), "a.csv: no arc in the file"),
        ("a.csv", ",0,5\n".into(), "a.csv:1: a field is empty"),
        ("a.csv", "0,1,5\n# ,,\n\n0,1,2\n0\t, ,5\n1,,5".into(), "a.csv:5: a field is empty"),
        ("a.csv", "0 1 5\n0 1,5,,\n".into(), "a.csv:2: a field is empty"),
        ("a.tsv", "0\t1\t5\n0\t\t5\n".into(), "a.tsv:2: a field is empty"),
        ("a.tsv", "\t0\t1\n".into(), "a.tsv:1: a field is empty"),
        ("a.el", "-1 1\n".into(), "a.el:1: \"-1\" is not a vertex id"),
        ("a.el", "1.5 1\n".into(), "a.el:1: \"1.5\" is not a vertex id"),
        (
            "a.el",
            "0 4294967295\n".into(),
            "a.el:1: vertex id 4294967295 is larger than 4294967294; use --relabel",
        ),
        (
            "a.el",
            format!("0 1\n# c\n\n4000000000 1\n{}1 4000000000\n", "1 2\n".repeat(100)),
            "a.el:4: 4000000001 vertices are not credible for 103 arcs",
        ),
        ("a.csv", "0,1,9\n7,4000000000,7\n".into(), "a.csv:2: 4000000001 vertices are not c"),
        ("a.el", format!("0 {long}\n"), "a.el:1: \"77777777777777777777777777777777...\" does not"),
        (
            "a.el",
            "0 4294967294\n".into(),
            "a.el:1: 4294967295 vertices are not credible for 1 arcs (",
        ),
        ("a.mtx", "1 1 0\n".into(), "a.mtx:1: the first line does not start with %%MatrixMarket"),
        ("a.mtx", "%%MatrixMarket tensor\n".into(), "a.mtx:1: \"tensor\" is not a matrix"),
        (
            "a.mtx",
            "%%MatrixMarket matrix array real general\n".into(),
            "a.mtx:1: \"array\" is not a c",
        ),
        ("a.mtx", format!("{mtx} complex general\n"), "a.mtx:1: field \"complex\" is not supp"),
        ("a.mtx", format!("{mtx} real hermitian\n"), "a.mtx:1: symmetry \"hermitian\" is not"),
        ("a.mtx", format!("{mtx}\n"), "a.mtx:1: field \"\" is not supported"),
        ("a.mtx", format!("{mtx} real general x\n"), "a.mtx:1: \"x\" is one field too many"),
        (
            "a.mtx",
            format!("{mtx} real general\n% c\n"),
            "a.mtx:3: the line with the sizes is missing",
        ),
        ("a.mtx", format!("{mtx} real general\n2 2\n"), "a.mtx:2: a number of entries is missing"),
        (
            "a.mtx",
            format!("{mtx} real general\n2 2 x\n"),
            "a.mtx:2: \"x\" is not a number of entries",
        ),
        ("a.mtx", format!("{mtx} real symmetric\n2 3 0\n"), "a.mtx:2: a symmetric matrix that is"),
        (
            "a.mtx",
            format!("{mtx} pattern general\n2 2 1\n0 1\n"),
            "a.mtx:3: vertex id 0 is not in 1 to 2",
        ),
        (
            "a.mtx",
            format!("{mtx} pattern general\n2 4 1\n3 1\n"),
            "a.mtx:3: vertex id 3 is not in 1 to 2",
        ),
        (
            "a.mtx",
            format!("{mtx} pattern general\n4 2 1\n3 3\n"),
            "a.mtx:3: vertex id 3 is not in 1 to 2",
        ),
        (
            "a.mtx",
            format!("{mtx} pattern general\n2 2 2\n1 1\n%%%%%%\n"),
            "a.mtx:2: 2 entries promised, but there are 1",
        ),
        (
            "a.mtx",
            format!("{mtx} pattern general\n2 2 1\n1 1\n2 2\n"),
            "a.mtx:2: 1 entries promised, but there are 2",
        ),
        (
            "a.mtx",
            format!("{mtx} pattern general\n2 2 1\n1 1 1\n"),
            "a.mtx:3: \"1\" is one field too many",
        ),
        ("a.mtx", format!("{mtx} integer general\n2 2 1\n1 1\n"), "a.mtx:3: the weight is missing"),
        (
            "a.mtx",
            format!("{mtx} integer general\n2 2 1\n1 1 1.5\n"),
            "a.mtx:3: \"1.5\" is not an integer",
        ),
        (
            "a.mtx",
            format!("{mtx} integer general\n2 2 1\n1 1 4294967296\n"),
            "a.mtx:3: \"4294967296\" does not fit 32",
        ),
        (
            "a.mtx",
            format!("{mtx} real general\n2 2 1\n1 1 NaN\n"),
            "a.mtx:3: \"NaN\" is not a number",
        ),
        ("a.wel", "0 1 1\n1 2 4294967296\n".into(), "a.wel:2: \"4294967296\" does not fit 32"),
        ("a.gr", "0 1\n".into(), "a.gr:1: \"0\" where the problem, p sp, should be"),
        ("a.gr", "c\n".into(), "a.gr:2: the line with the problem, p sp, is missing"),
        ("a.gr", "c\np edge 3 2\n".into(), "a.gr:2: \"edge\" is not the shortest path problem, sp"),
        ("a.gr", "p sp 3\n".into(), "a.gr:1: a number of arcs is missing"),
        ("a.gr", "p sp 3 0 0\n".into(), "a.gr:1: \"0\" is one field too many"),
        ("a.gr", "p sp 3 1\ne 1 2 3\n".into(), "a.gr:2: \"e\" where an arc, a, should be"),
        ("a.gr", "p sp 3 1\na 1 4 3\n".into(), "a.gr:2: vertex id 4 is not in 1 to 3"),
        (
            "a.gr",
            "p sp 3 2\na 1 2\na 2 3\n".into(),
            "a.gr:1: 2 arcs promised, but what follows has room for 1",
        ),
        ("a.gr", "p sp 3 1\na 0 2 3\n".into(), "a.gr:2: vertex id 0 is not in 1 to 3"),
        ("a.gr", "p sp 3 1\na 1 2    \n".into(), "a.gr:2: the weight is missing"),
        ("a.gr", "p sp 3 1\na 1 2 0.5\n".into(), "a.gr:2: \"0.5\" is not an integer weight"),
        ("a.gr", "p sp 3 1\na 1 2 3\na 1 2 3\n".into(), "a.gr:1: 1 arcs promised, but there are 2"),
        (
            "a.gr",
            "p sp 3 2\na 1 2 3\nccccccccc\n".into(),
            "a.gr:1: 2 arcs promised, but there are 1",
        ),
        (
            "a.gr",
            "p sp 3 1\na 1 2 3\np sp 3 1\n".into(),
            "a.gr:3: \"p\" where an arc, a, should be",
        ),
        ("a.graph", "% c\n".into(), "a.graph:2: the line with the sizes is missing"),
        ("a.graph", "2\n".into(), "a.graph:1: a number of edges is missing"),
        ("a.graph", "2 1 012\n\n\n".into(), "a.graph:1: \"012\" is not up to three digits 0 or 1"),
        ("a.graph", "2 1 0001\n\n\n".into(), "a.graph:1: \"0001\" is not up to three digits"),
        ("a.graph", "3 1\n2\n1\n".into(), "a.graph:1: 3 vertices promised, but 2 lines follow"),
        ("a.graph", "2 1\n2\n1\n1\n".into(), "a.graph:4: a line after those of 2 vertices"),
        ("a.graph", "2 1\n3\n1\n".into(), "a.graph:2: vertex id 3 is not in 1 to 2"),
        ("a.graph", "2 1\n2\n0\n".into(), "a.graph:3: vertex id 0 is not in 1 to 2"),
        ("a.graph", "2 1\n2\n\n".into(), "a.graph:1: 1 edges promised, but there are 1 neighbours"),
        ("a.graph", "2 1 1\n2 5\n1\n".into(), "a.graph:3: the weight is missing"),
        (
            "a.graph",
            "2 1 10 2\n1 1 2\n1\n".into(),
            "a.graph:3: a size or weight of the vertex is missing",
        ),
        ("a.graph", "2 1 1\n2 0.5\n1 1\n".into(), "a.graph:2: \"0.5\" is not an integer weight"),
        (
            "a.graph",
            "3 1\n2 3\n\n\n".into(),
            "a.graph:2: a METIS file lists an edge at both of its ends, with one weight; the lines of vertex 1 \
             and its neighbours do not",
        ),
        (
            "a.graph",
            "% sizes\n3 2 1\n2 3\n% two\n1 3 3 5\n2 4\n".into(),
            "a.graph:5: a METIS file lists an edge at both of its ends, with one weight; the lines of vertex 2 \
             and its neighbours do not",
        ),
    ] {
        let content: String = content;
        let error = plain(name, &content).expect_err(&content);
        assert!(error.starts_with(said), "{content:?}: {error}");
    }
}

#[test]
fn the_first_of_many_faults_is_named() {
    let mut text = "0 1\n".repeat(500);
    text.push_str("0 x\n");
    text.push_str(&"0 1\n".repeat(100));
    text.push_str("0 y\n");
    let error = plain("a.el", &text).unwrap_err();
    assert!(error.starts_with("a.el:501: \"x\" is not a vertex id"), "{error}");
}

#[test]
fn bad_bytes_are_named_with_their_offset() {
    let longs = [1, 4, 2, 1, 1, 1];
    let good = galois(&longs, &[1, 0, 5]);
    assert_eq!(plain("a.gr", &good), Ok(weighted(2, &[(0, 1, 5u32)])));
    for (content, said) in [
        (good[..20].to_vec(), "at byte 20: the file ends in its header of 32 bytes"),
        (good[..good.len() - 1].to_vec(), "at byte 16: the header promises 2 vertices and 1 arcs"),
        ([&good[..], &[0]].concat(), "at byte 16: the header promises 2 vertices and 1 arcs"),
        (galois(&[2, 4, 2, 1, 1, 1], &[1, 0, 5]), "at byte 0: version 2 is not supported"),
        (galois(&[7 << 56, 4, 2, 1], &[]), "at byte 0: version 504403158265495552 is not"),
        (galois(&[1, 8, 2, 1, 1, 1], &[1, 0, 5]), "at byte 8: arc data of 8 bytes"),
        (galois(&[1, 0, 1 << 32, 1, 1, 1], &[1, 0]), "at byte 16: 4294967296 vertices do not"),
        (galois(&[1, 0, 2, 1 << 62, 1, 1], &[1, 0]), "at byte 16: the header promises"),
        (galois(&[1, 0, u64::MAX, u64::MAX, 1, 1], &[1, 0]), "at byte 16: 18446744073709551615"),
        (galois(&[1, 0, 2, u64::MAX, 1, 1], &[1, 0]), "at byte 16: the header promises"),
        (galois(&[1, 0, 2, 1, 1, 0], &[1, 0]), "at byte 40: offsets are not a row index of 1"),
        (galois(&[1, 0, 2, 1, 1, 1], &[2, 0]), "at byte 48: arc 0 names vertex 2, but"),
    ] {
        let error = plain("a.gr", content).unwrap_err();
        assert!(error.starts_with(&format!("a.gr: {said}")), "{error}");
    }
    for (name, content) in
        [("a.el", &b"\xff\xfe0 1\n"[..]), ("a.graph", b"\0\0\0"), ("a.gr", b"PNG")]
    {
        let error = plain(name, content).unwrap_err();
        assert!(error.starts_with(&format!("{name}:1: \"")), "{error}");
    }
}

pub(super) fn mill(graph: &CsrGraph) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mill");
    crate::write::write_graph(&path, graph, None).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn bad_mill_files_are_named_with_their_offset() {
    let good = mill(&weighted(3, &[(0, 1, 2.5f32), (2, 0, 1.5)]));
    let change = |place: usize, byte: u8| {
        let mut content = good.clone();
        content[place] = byte;
        content
    };
    for (content, said) in [
        (b"0 1\n".to_vec(), "at byte 0: wrong magic"),
        (good[..30].to_vec(), "at byte 30: the file ends in its header"),
        (good[..good.len() - 4].to_vec(), "at byte 16: the header promises 3 vertices and 2 arcs"),
        ([&good[..], b"x"].concat(), "at byte 16: the header promises 3 vertices and 2 arcs"),
        (change(8, 2), "at byte 8: version 2 is not supported"),
        (change(16, 2), "at byte 60: the checksum of the header"),
        (change(70, 2), "at byte 64: the checksum of the offsets"),
        (change(128, 2), "at byte 128: the checksum of the targets"),
        (change(192, 2), "at byte 192: the checksum of the weights"),
    ] {
        let error = plain("a.mill", content).unwrap_err();
        assert!(error.starts_with(&format!("a.mill: {said}")), "{error}");
    }
}

/// Valid checksums do not make a valid graph.
#[test]
fn mill_files_are_validated_beyond_their_checksums() {
    for (offsets, target, weight, said) in [
        ([0u64, 2, 1], 1u32, 1f32, "at byte 80: offsets are not a row index of 1 arcs"),
        ([0, 1, 1], 2, 1.0, "at byte 128: arc 0 names vertex 2, but there are only 2"),
        ([0, 1, 1], 1, f32::NAN, "at byte 192: the weight of arc 0 is not a finite number"),
    ] {
        let sections: [Vec<u8>; 4] = [
            offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect(),
            target.to_le_bytes().to_vec(),
            weight.to_le_bytes().to_vec(),
            Vec::new(),
        ];
        let header = Header {
            vertices: 2,
            arcs: 1,
            weights: WeightKind::Real,
            lattice_width: None,
            has_original_ids: false,
            checksums: [0, 1, 2, 3].map(|section: usize| crc32fast::hash(&sections[section])),
        };
        let mut content = header.encode().to_vec();
        for (section, place) in sections.iter().zip(header.sections().unwrap()) {
            content.resize(place.start as usize, 0);
            content.extend_from_slice(section);
        }
        let error = plain("a.mill", content).unwrap_err();
        assert!(error.starts_with(&format!("a.mill: {said}")), "{error}");
    }
}

#[test]
fn headers_that_lie_cost_nothing() {
    let lying_mill = |vertices, arcs| {
        let header = Header {
            vertices,
            arcs,
            weights: WeightKind::None,
            lattice_width: None,
            has_original_ids: true,
            checksums: [0; 4],
        };
        header.encode().to_vec()
    };
    let pattern = "%%MatrixMarket matrix coordinate pattern general\n";
    let start = Instant::now();
    for (name, content, said) in [
        ("a.mtx", format!("{pattern}4000000000 4000000000 1\n1 1\n").into(), "2: 4000000000 vert"),
        ("a.mtx", format!("{pattern}1 99999999999 1\n1 1\n").into(), "2: 99999999999 vertices do"),
        ("a.mtx", format!("{pattern}9 9 99999999999\n1 1\n").into(), "2: 99999999999 entries prom"),
        ("a.mtx", format!("{pattern}9 9 99999999999999999999999\n").into(), "2: \"99999999999"),
        ("a.gr", b"p sp 4000000000 1\na 1 1 1\n".to_vec(), "1: 4000000000 vertices are not cred"),
        ("a.gr", b"p sp 3 4000000000\na 1 1 1\n".to_vec(), "1: 4000000000 arcs promised, but"),
        ("a.graph", b"4000000000 1\n1\n".to_vec(), "1: 4000000000 vertices promised, but only"),
        ("a.graph", b"1 18446744073709551615\n\n".to_vec(), "1: 18446744073709551615 edges prom"),
        ("a.graph", b"1 0 11 18446744073709551615\n1\n".to_vec(), "2: a size or weight of the ver"),
        ("a.gr", galois(&[1, 4, 4_000_000_000, 9, 1], &[]), " at byte 16: the header promises"),
        ("a.mill", lying_mill(4_000_000_000, 0), " at byte 16: the header promises"),
        ("a.mill", lying_mill(0, 1 << 60), " at byte 16: the header promises"),
        (
            "a.mill",
            lying_mill(u64::MAX, u64::MAX),
            " at byte 16: 18446744073709551615 vertices and",
        ),
        ("a.el", b"4294967294 0\n".to_vec(), "1: 4294967295 vertices are not credible"),
    ] {
        let content: Vec<u8> = content;
        for content in [gzip(&content), content] {
            let error = plain(name, &content).unwrap_err();
            assert!(error.starts_with(&format!("{name}:{said}")), "{error}");
        }
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
