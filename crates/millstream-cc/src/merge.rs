//! Devices that reach each other's memory merge their trees of vertices along a
//! binary tree of devices \[G §5.1.4\] without the host between: each reads what
//! the ones below it have found.

use std::ops::Range;

use millstream_flow::Result;

use crate::kernels::MERGE;
use crate::solver::Solver;
use crate::survey::union;

/// Pairs of places in an order, `(above, below)`, so that whoever is below has
/// merged all of its own before.
fn pairs(devices: usize) -> impl Iterator<Item = (usize, usize)> {
    let distances = (0..usize::BITS).map(|bit| 1 << bit).take_while(move |&by| by < devices);
    distances
        .flat_map(move |by: usize| {
            (0..devices).step_by(2 * by).map(move |above| (above, above + by))
        })
        .filter(move |&(_, below)| below < devices)
}

/// The vertices that each device's trees may have by then, when these are its own;
/// the first one of the order has all.
pub(crate) fn covered(named: &[Range<u32>], order: &[usize], vertices: u32) -> Vec<Range<u32>> {
    let mut covered = named.to_vec();
    for (above, below) in pairs(order.len()) {
        covered[order[above]] = union(&covered[order[above]], &covered[order[below]]);
    }
    if let Some(&first) = order.first() {
        covered[first] = 0..vertices;
    }
    covered
}

/// Merges all trees on the first device of the order.
pub(crate) fn merge(solvers: &[Solver], order: &[usize]) -> Result<()> {
    for (above, below) in pairs(order.len()) {
        let (above, below) = (&solvers[order[above]], &solvers[order[below]]);
        above.stream.wait(&below.stream.record()?)?;
        let Range { start, end } = below.covered;
        let arguments = (&above.parents, &below.parents, [start, end], &above.merged);
        MERGE.launch(&above.stream, below.covered.len(), arguments)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_is_merged_once_and_after_those_below_it() {
        for devices in 0..=16 {
            let mut is_done = vec![false; devices];
            for (above, below) in pairs(devices) {
                assert!(!is_done[above] && !is_done[below], "{above}, {below} of {devices}");
                is_done[below] = true;
            }
            assert!(is_done.iter().skip(1).all(|&done| done));
        }
    }

    #[test]
    fn trees_cover_what_is_merged_into_them() {
        let named = [0..4, 2..6, 9..9, 5..8];
        assert_eq!(covered(&named, &[1, 0, 2, 3], 10), [0..4, 0..10, 5..8, 5..8]);
    }
}
