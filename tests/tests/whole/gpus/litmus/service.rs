//! What the service blocks of the fused worker tell each other, in kernels of many rounds: raised
//! thresholds and what they are counted for, and the state of the gang.

use super::collectives::{BLOCKS, Case};

pub(super) const TEXT: &str = include_str!("service.cuh");

/// Of each device: gang words and a queue's, or gang words and a cell.
const WORDS: usize = 64;

/// One leader, who tells all devices in each round.
#[test]
fn raised_thresholds() {
    Case { text: TEXT, entry: "thresholds", blocks: 1, items: WORDS, often: 1 }.check();
}

/// All blocks of all devices find out in each round that one of them stops the gang.
#[test]
fn states_of_a_gang() {
    Case { text: TEXT, entry: "states", blocks: BLOCKS, items: WORDS, often: 2 }.check();
}
