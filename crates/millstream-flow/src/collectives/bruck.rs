//! All-to-all in as few rounds as a tree has (Bruck's algorithm): a piece moves on in the rounds of
//! those bits that are set in its distance, the lowest first.

use super::plan::{Piece, Place, Plan, Round, Transfer};

/// The plan. What passes through a rank lies there in slots, one for each distance, all as long as
/// the longest piece. What comes in a round takes the place of what goes in it.
pub(super) fn plan(pieces: &[Vec<Piece>]) -> Plan {
    let ranks = pieces.len();
    let longest = pieces.iter().flatten().map(|piece| piece.items.len()).max().unwrap_or(0);
    let round = |bit: u32| -> Round {
        let hop = 1 << bit;
        let distances = (1..ranks).filter(|distance| distance & hop != 0);
        let step = |origin: usize, distance: usize| {
            let piece = &pieces[origin][(origin + distance) % ranks];
            let gone = distance % hop;
            let slot = distance * longest;
            let (items, takes) = match gone {
                0 => (piece.items.clone(), Place::Own),
                _ => (slot..slot + piece.items.len(), Place::Passing),
            };
            let (at, puts) = match distance - gone - hop {
                0 => (piece.at, Place::Own),
                _ => (slot, Place::Passing),
            };
            let (from, to) = ((origin + gone) % ranks, (origin + gone + hop) % ranks);
            Transfer { from, to, items, at, takes, puts, combines: false }
        };
        distances
            .flat_map(|distance| (0..ranks).map(move |origin| (origin, distance)))
            .map(|(origin, distance)| step(origin, distance))
            .collect()
    };
    (0..ranks.next_power_of_two().trailing_zeros()).map(round).collect()
}
