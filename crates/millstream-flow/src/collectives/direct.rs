//! The direct algorithm: each rank sends straight to those that need its items, in one round or two.

use std::ops::Range;

use super::plan::{Pattern, Plan, Round, Transfer, shares};

/// The plan.
pub(super) fn plan(ranks: usize, pattern: &Pattern) -> Plan {
    match pattern {
        Pattern::Broadcast { root, items } => {
            let others = (0..ranks).filter(|to| to != root);
            vec![others.map(|to| Transfer::new(*root, to, items, false)).collect()]
        }
        Pattern::Reduce { root, items } => {
            let others = (0..ranks).filter(|from| from != root);
            vec![others.map(|from| Transfer::new(from, *root, items, true)).collect()]
        }
        Pattern::AllReduce { items } => {
            let parts = shares(items, ranks);
            vec![scatter(&parts), gather(&parts)]
        }
        Pattern::AllGather { parts } => vec![gather(parts)],
        Pattern::ReduceScatter { parts } => vec![scatter(parts)],
        Pattern::AllToAll { pieces } => {
            let send = |(from, to): (usize, usize)| Transfer::of_piece(from, to, &pieces[from][to]);
            vec![pairs(ranks).map(send).collect()]
        }
    }
}

/// All pairs. Each rank begins with the one after it, so that not all send to the same rank at once.
fn pairs(ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..ranks)
        .flat_map(move |distance| (0..ranks).map(move |from| (from, (from + distance) % ranks)))
}

fn scatter(parts: &[Range<usize>]) -> Round {
    pairs(parts.len()).map(|(from, to)| Transfer::new(from, to, &parts[to], true)).collect()
}

fn gather(parts: &[Range<usize>]) -> Round {
    pairs(parts.len()).map(|(from, to)| Transfer::new(from, to, &parts[from], false)).collect()
}
