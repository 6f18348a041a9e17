//! Ids that vertices had before: of edge lists and in `.mill` files.

use super::tests::{mill, read, unweighted, weighted};
use super::*;

#[test]
fn ids_can_be_relabelled() {
    let options = ReadOptions { relabel: true, ..ReadOptions::default() };
    let text = b"18446744073709551614 5 1\n70000000000 5 2\n5 5 3\n";
    let graph = read("a.el", text, &options).unwrap();
    let expected = weighted(3, &[(2, 0, 1u32), (1, 0, 2), (0, 0, 3)]);
    let expected = expected.with_original_ids(vec![5, 70_000_000_000, u64::MAX - 1]).unwrap();
    assert_eq!(graph, expected);
    let error = read("a.el", b"1 18446744073709551615\n", &options).unwrap_err();
    let expected = "a.el:1: vertex id 18446744073709551615 is larger than 18446744073709551614";
    assert_eq!(error, expected);
    let error = read("a.el", b"1 18446744073709551616\n", &options).unwrap_err();
    assert_eq!(error, "a.el:1: \"18446744073709551616\" does not fit 64 bits");
}

#[test]
fn original_ids_ascend_and_are_some() {
    for (ids, wrong) in [
        ([5, 5, 7], 1),
        ([9, 5, 7], 1),
        ([1, 7, 6], 2),
        ([1, 2, u64::MAX], 2),
        ([u64::MAX, 1, 2], 0),
    ] {
        let given = unweighted(3, &[(0, 1)]).with_original_ids(ids.to_vec());
        let vertex = match given {
            Err(GraphError::OriginalIdOrder { vertex }) => vertex,
            other => panic!("{ids:?}: {other:?}"),
        };
        assert_eq!(vertex, wrong, "{ids:?}");
    }
}

#[test]
fn mapped_graphs_keep_their_extras_when_they_are_changed() {
    let graph = unweighted(3, &[(0, 1), (2, 2)]).with_lattice_width(Some(3));
    let graph = graph.with_original_ids(vec![4, 5, 9]).unwrap();
    let options = ReadOptions { transpose: true, ..ReadOptions::default() };
    let changed = read("a.mill", &mill(&graph), &options).unwrap();
    let expected = unweighted(3, &[(1, 0), (2, 2)]).with_lattice_width(Some(3));
    assert_eq!(changed, expected.with_original_ids(vec![4, 5, 9]).unwrap());
}
