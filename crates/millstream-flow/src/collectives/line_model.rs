//! A model of `collective_exchange.cuh`: blocks of all ranks take their steps in any
//! order, through rings of few slots. It runs the very settings that kernels get.
//! `README.md` maps its steps to the header's lines.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use proptest::prelude::*;

use super::plan::{Pattern, Piece};
use super::settings::{EVERYONE, Items, Settings, Tuning, settings};
use crate::segmenter;

type Packet = Vec<u64>;

struct Model {
    settings: Vec<Settings>,
    inputs: Vec<Vec<u64>>,
    outputs: Vec<Vec<u64>>,
    /// Slots of the rings, by source, destination and block.
    rings: HashMap<(usize, usize, u64), VecDeque<Packet>>,
    slots: usize,
    slot_items: u64,
    blocks: u64,
}

/// A block: which tile it is at, and which step comes next.
struct Block {
    rank: usize,
    number: u64,
    tile: u64,
    step: usize,
}

impl Model {
    fn ranks(&self) -> usize {
        self.settings.len()
    }

    fn tile(&self, piece: Items, tile: u64) -> Range<usize> {
        let start = (tile * self.slot_items).min(piece.len);
        let end = (start + self.slot_items).min(piece.len);
        (piece.start + start) as usize..(piece.start + end) as usize
    }

    fn last(&self, rank: usize) -> u64 {
        let Settings { sends, receives, gathers, .. } = &self.settings[rank];
        let pieces = sends.iter().chain(receives).chain(gathers);
        pieces.map(|piece| piece.len.div_ceil(self.slot_items)).max().unwrap_or(0)
    }

    fn gathers(&self, rank: usize) -> bool {
        let settings = &self.settings[rank];
        settings.is_gathered == 1
            && (settings.gatherer == EVERYONE || settings.gatherer == rank as u32)
    }

    fn input(&self, rank: usize, items: Range<usize>) -> Packet {
        let in_place = self.settings[rank].in_place == 1;
        let source = if in_place { &self.outputs[rank] } else { &self.inputs[rank] };
        source[items].to_vec()
    }

    fn others(&self, rank: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.ranks()).filter(move |other| *other != rank)
    }

    fn has_credit(&self, from: usize, to: usize, block: u64) -> bool {
        self.rings.get(&(from, to, block)).is_none_or(|ring| ring.len() < self.slots)
    }

    fn is_ready(&self, from: usize, to: usize, block: u64) -> bool {
        self.rings.get(&(from, to, block)).is_some_and(|ring| !ring.is_empty())
    }

    fn push(&mut self, from: usize, to: usize, block: u64, packet: Packet) {
        self.rings.entry((from, to, block)).or_default().push_back(packet);
    }

    fn pop(&mut self, from: usize, to: usize, block: u64) -> Packet {
        self.rings.get_mut(&(from, to, block)).unwrap().pop_front().unwrap()
    }

    /// Takes the block's next step; false if it must wait.
    fn advance(&mut self, block: &mut Block) -> bool {
        let (tile, last) = (block.tile, self.last(block.rank));
        let went = match block.step {
            0 => tile >= last || self.scatter(block, tile),
            1 if tile < self.blocks || tile - self.blocks >= last => true,
            1 if self.settings[block.rank].combines == 1 => self.reduce(block, tile - self.blocks),
            1 => self.place(block, tile - self.blocks),
            _ if tile < 2 * self.blocks || !self.gathers(block.rank) => true,
            _ => self.take(block, self.settings[block.rank].gathers, tile - 2 * self.blocks),
        };
        if went {
            block.step += 1;
        }
        if block.step == 3 {
            (block.step, block.tile) = (0, tile + self.blocks);
        }
        went
    }

    fn is_done(&self, block: &Block) -> bool {
        block.tile >= self.last(block.rank) + 2 * self.blocks
    }

    fn scatter(&mut self, block: &Block, tile: u64) -> bool {
        let (rank, sends) = (block.rank, self.settings[block.rank].sends);
        let needs: Vec<_> =
            self.others(rank).filter(|to| !self.tile(sends[*to], tile).is_empty()).collect();
        if !needs.iter().all(|to| self.has_credit(rank, *to, block.number)) {
            return false;
        }
        for to in needs {
            let packet = self.input(rank, self.tile(sends[to], tile));
            self.push(rank, to, block.number, packet);
        }
        true
    }

    fn place(&mut self, block: &Block, tile: u64) -> bool {
        let Settings { sends, receives, .. } = self.settings[block.rank];
        let rank = block.rank;
        let own = self.input(rank, self.tile(sends[rank], tile));
        let to = self.tile(receives[rank], tile);
        if !self.take(block, receives, tile) {
            return false;
        }
        self.outputs[rank][to].copy_from_slice(&own);
        true
    }

    fn take(&mut self, block: &Block, pieces: [Items; 16], tile: u64) -> bool {
        let rank = block.rank;
        let needs: Vec<_> =
            self.others(rank).filter(|from| !self.tile(pieces[*from], tile).is_empty()).collect();
        if !needs.iter().all(|from| self.is_ready(*from, rank, block.number)) {
            return false;
        }
        for from in needs {
            let packet = self.pop(from, rank, block.number);
            let to = self.tile(pieces[from], tile);
            self.outputs[rank][to].copy_from_slice(&packet);
        }
        true
    }

    fn reduce(&mut self, block: &Block, tile: u64) -> bool {
        let (rank, number) = (block.rank, block.number);
        let Settings { sends, receives, is_gathered, .. } = self.settings[rank];
        let needs = |this: &Model, from: usize| !this.tile(receives[from], tile).is_empty();
        let own = self.tile(receives[rank], tile);
        let sources: Vec<_> = self.others(rank).filter(|from| needs(self, *from)).collect();
        let goes = |to: &usize| is_gathered == 1 && !own.is_empty() && self.gathers(*to);
        let targets: Vec<_> = self.others(rank).filter(goes).collect();
        if !sources.iter().all(|from| self.is_ready(*from, rank, number))
            || !targets.iter().all(|to| self.has_credit(rank, *to, number))
        {
            return false;
        }
        let mut parts = vec![self.input(rank, self.tile(sends[rank], tile))];
        parts.extend(sources.into_iter().map(|from| self.pop(from, rank, number)));
        parts.retain(|part| !part.is_empty());
        let sum = |at: usize| parts.iter().map(|part| part[at]).sum();
        let combined: Packet = (0..own.len()).map(sum).collect();
        for to in targets {
            self.push(rank, to, number, combined.clone());
        }
        if is_gathered == 0 || self.gathers(rank) {
            self.outputs[rank][own].copy_from_slice(&combined);
        }
        true
    }

    /// Runs all blocks, the next one chosen by `choose` among so many; false if all
    /// that are left wait.
    fn run(&mut self, mut choose: impl FnMut(usize) -> usize) -> bool {
        let each = (0..self.ranks()).flat_map(|rank| (0..self.blocks).map(move |b| (rank, b)));
        let block = |(rank, number)| Block { rank, number, tile: number, step: 0 };
        let mut blocks: Vec<Block> = each.map(block).collect();
        loop {
            blocks.retain(|block| !self.is_done(block));
            if blocks.is_empty() {
                return self.rings.values().all(VecDeque::is_empty);
            }
            let first = choose(blocks.len());
            let count = blocks.len();
            let next = (0..count).map(|step| (first + step) % count);
            if !next.into_iter().any(|at| self.advance(&mut blocks[at])) {
                return false;
            }
        }
    }
}

/// Item `at` of a rank, so that sums tell who is missing.
fn item(rank: usize, at: usize) -> u64 {
    (at as u64 % 97 + 1) << (7 * rank)
}

fn items(ranks: usize, len: usize) -> Vec<Vec<u64>> {
    (0..ranks).map(|rank| (0..len).map(|at| item(rank, at)).collect()).collect()
}

fn parts(len: usize, ranks: usize) -> Vec<Range<usize>> {
    segmenter::parts(len, ranks).collect()
}

/// Pattern, and what the outputs hold in the end; `None` is unchanged.
fn cases(ranks: usize, len: usize, root: usize) -> Vec<(Pattern, Vec<Vec<Option<u64>>>)> {
    let sum = |at: usize| Some((0..ranks).map(|rank| item(rank, at)).sum::<u64>());
    let all: Vec<Option<u64>> = (0..len).map(sum).collect();
    let of_root: Vec<Option<u64>> = (0..len).map(|at| Some(item(root, at))).collect();
    let mut to_root = vec![vec![None; len]; ranks];
    to_root[root].clone_from(&all);
    let parts = parts(len, ranks);
    let mut scattered = vec![vec![None; len]; ranks];
    let mut gathered = vec![None; len];
    for (rank, part) in parts.iter().enumerate() {
        scattered[rank][part.clone()].copy_from_slice(&all[part.clone()]);
        part.clone().for_each(|at| gathered[at] = Some(item(rank, at)));
    }
    vec![
        (Pattern::Broadcast { root, items: 0..len }, vec![of_root; ranks]),
        (Pattern::Reduce { root, items: 0..len }, to_root),
        (Pattern::AllReduce { items: 0..len }, vec![all; ranks]),
        (Pattern::ReduceScatter { parts: parts.clone() }, scattered),
        (Pattern::AllGather { parts }, vec![gathered; ranks]),
    ]
}

fn check(
    pattern: &Pattern,
    expected: &[Vec<Option<u64>>],
    (slots, slot_items, blocks): (usize, u64, u64),
    item_bytes: usize,
    seed: u64,
) -> bool {
    let (ranks, len) = (expected.len(), expected[0].len());
    let before = items(ranks, len);
    let tuning = Tuning { ranks, tile_bytes: 16, whole_bytes: 256 << 10, patience_ns: 0 };
    let mut model = Model {
        settings: settings(pattern, tuning, true, item_bytes),
        inputs: Vec::new(),
        outputs: before.clone(),
        rings: HashMap::new(),
        slots,
        slot_items,
        blocks,
    };
    let mut state = seed;
    let went = model.run(|count| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % count
    });
    for (rank, expected) in expected.iter().enumerate() {
        for (at, item) in expected.iter().enumerate().filter(|_| went) {
            let item = item.unwrap_or(before[rank][at]);
            assert_eq!(model.outputs[rank][at], item, "{pattern:?}: item {at} of rank {rank}");
        }
    }
    went
}

proptest! {
    #[test]
    fn every_schedule_ends_right(
        ranks in 2usize..9,
        len in 0usize..120,
        root in 0usize..8,
        slots in 4usize..9,
        slot_items in 1u64..9,
        blocks in 1u64..4,
        // Large items take the way of long vectors.
        item_bytes in prop_oneof![Just(4usize), Just(1 << 20)],
        seed: u64,
    ) {
        for (pattern, expected) in cases(ranks, len, root % ranks) {
            let rings = (slots, slot_items, blocks);
            prop_assert!(check(&pattern, &expected, rings, item_bytes, seed), "{pattern:?} stands");
        }
    }

    #[test]
    fn pieces_change_places(
        ranks in 2usize..9, share in 0usize..20, blocks in 1u64..4, seed: u64,
    ) {
        let piece = |to: usize, from: usize| Piece {
            items: to * share..(to + 1) * share,
            at: from * share,
        };
        let row = |from| (0..ranks).map(|to| piece(to, from)).collect();
        let pattern = Pattern::AllToAll { pieces: (0..ranks).map(row).collect() };
        let received = |to: usize| (0..ranks * share)
            .map(move |at| Some(item(at / share, to * share + at % share)))
            .collect();
        let expected: Vec<_> = (0..ranks).map(received).collect();
        prop_assert!(check(&pattern, &expected, (4, 3, blocks), 4, seed));
    }
}

/// With fewer slots than a round may leave behind, ranks wait for each other.
#[test]
fn too_few_slots_are_seen() {
    let (pattern, expected) = cases(4, 100, 0).remove(2);
    let stands =
        |slots| (0..200).any(|seed| !check(&pattern, &expected, (slots, 2, 1), 1 << 20, seed));
    assert!(stands(1) && !stands(4));
}
