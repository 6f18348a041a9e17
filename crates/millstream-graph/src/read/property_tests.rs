//! Reading options against a naive model, and random bytes as files.

use proptest::prelude::*;

use super::tests::{mill, read, weighted};
use super::*;

/// The documented effect of the options, arc by arc.
fn model(arcs: &[(u64, u64, u32)], options: &ReadOptions) -> CsrGraph {
    let mut ids: Vec<u64> = arcs.iter().flat_map(|arc| [arc.0, arc.1]).collect();
    ids.sort_unstable();
    ids.dedup();
    let number = |id: u64| match options.relabel {
        true => ids.iter().position(|&other| other == id).unwrap() as u32,
        false => id as u32,
    };
    let mut changed = Vec::new();
    for &(from, to, weight) in arcs {
        let (from, to) = (number(from), number(to));
        let (from, to) = if options.transpose { (to, from) } else { (from, to) };
        if from == to && options.drop_self_loops {
            continue;
        }
        changed.push((from, to, weight));
        if options.symmetrize && from != to {
            changed.push((to, from, weight));
        }
    }
    changed.sort_unstable();
    if options.dedupe {
        changed.dedup_by_key(|arc| (arc.0, arc.1));
    }
    let vertices = if options.relabel { ids.len() as u64 } else { ids[ids.len() - 1] + 1 };
    let graph = weighted(vertices as u32, &changed);
    if options.relabel { graph.with_original_ids(ids).unwrap() } else { graph }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn options_do_what_the_model_does(
        arcs in proptest::collection::vec((0u64..12, 0u64..12, 0u32..9), 1..60),
        flags in any::<[bool; 5]>(),
    ) {
        let [symmetrize, dedupe, drop_self_loops, transpose, relabel] = flags;
        let options = ReadOptions { symmetrize, dedupe, drop_self_loops, transpose, relabel };
        let text: String = arcs.iter().map(|(from, to, weight)| format!("{from} {to} {weight}\n")).collect();
        let expected = model(&arcs, &options);
        let single = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let alone = single.install(|| read("a.el", text.as_bytes(), &options));
        prop_assert_eq!(alone.as_ref(), Ok(&expected));
        let together = read("a.el", text.as_bytes(), &options);
        prop_assert_eq!(together.as_ref(), Ok(&expected));
        // A stored graph is changed in the same way.
        let stored = mill(&read("a.el", text.as_bytes(), &ReadOptions { relabel, ..Default::default() }).unwrap());
        prop_assert_eq!(read("a.mill", &stored, &options), Ok(expected));
    }

    #[test]
    fn random_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        text in "[0-9 \t\n.%#aceps,-]{0,200}",
        start in 0usize..8,
    ) {
        let starts: [&[u8]; 8] = [
            b"", b"%%MatrixMarket matrix coordinate real general\n5 5 3\n", b"p sp 9 2\na 1 ",
            b"\x01\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0", &crate::mill::MAGIC,
            b"\x1f\x8b\x08\0\0\0\0\0\0\0", b"\x28\xb5\x2f\xfd", b"4 2 1\n1 2\n",
        ];
        for rest in [&bytes[..], text.as_bytes()] {
            let content = [starts[start], rest].concat();
            for name in ["a.el", "a.mtx", "a.gr", "a.graph", "a.mill"] {
                for relabel in [false, true] {
                    let options = ReadOptions { relabel, ..ReadOptions::default() };
                    let _graph_or_error = read(name, &content, &options);
                }
            }
        }
    }
}
