//! The ring: each rank sends to the next one only. All links carry equally much, so large vectors
//! move at the speed of one link, whatever the number of ranks.

use std::ops::Range;

use super::plan::{Pattern, Plan, Round, Transfer, shares};

/// The plan over ranks in this order.
pub(super) fn plan(order: &[usize], pattern: &Pattern) -> Plan {
    match pattern {
        Pattern::Broadcast { root, items } => {
            let chain = from(order, *root);
            let hop = |pair: &[usize]| vec![Transfer::new(pair[0], pair[1], items, false)];
            chain.windows(2).map(hop).collect()
        }
        Pattern::Reduce { root, items } => {
            // The chain ends at the root: move it from first to last.
            let mut chain = from(order, *root);
            chain.rotate_left(1.min(order.len()));
            let hop = |pair: &[usize]| vec![Transfer::new(pair[0], pair[1], items, true)];
            chain.windows(2).map(hop).collect()
        }
        Pattern::AllReduce { items } => {
            let parts = shares(items, order.len());
            let mut plan = reduce_scatter(order, &parts);
            plan.extend(all_gather(order, &parts));
            plan
        }
        Pattern::AllGather { parts } => all_gather(order, parts),
        Pattern::ReduceScatter { parts } => reduce_scatter(order, parts),
        // Every rank sends to the next one, then to the one after that, and so on.
        Pattern::AllToAll { pieces } => (1..order.len())
            .map(|distance| {
                let pairs = order.iter().zip(order.iter().cycle().skip(distance));
                let send = |(&from, &to): (&usize, &usize)| {
                    Transfer::of_piece(from, to, &pieces[from][to])
                };
                pairs.map(send).collect()
            })
            .collect(),
    }
}

/// The ring in order, beginning at `start`.
fn from(order: &[usize], start: usize) -> Vec<usize> {
    let place = order.iter().position(|rank| *rank == start).unwrap_or(0);
    order[place..].iter().chain(&order[..place]).copied().collect()
}

/// In round `k`, the rank at place `p` passes on the part of the rank at place `p - k - shift`.
fn pass(order: &[usize], parts: &[Range<usize>], shift: usize, combines: bool) -> Plan {
    let ranks = order.len();
    let round = |round: usize| -> Round {
        (0..ranks)
            .map(|place| {
                let owner = order[(place + 2 * ranks - round - shift) % ranks];
                let (from, to) = (order[place], order[(place + 1) % ranks]);
                Transfer::new(from, to, &parts[owner], combines)
            })
            .collect()
    };
    (0..ranks.saturating_sub(1)).map(round).collect()
}

fn all_gather(order: &[usize], parts: &[Range<usize>]) -> Plan {
    pass(order, parts, 0, false)
}

fn reduce_scatter(order: &[usize], parts: &[Range<usize>]) -> Plan {
    // A part starts at the rank after its owner, and ends at its owner.
    pass(order, parts, 1, true)
}
