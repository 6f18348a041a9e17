//! What host devices run in place of `block_collectives.cu`: the same rounds, items and checks.

use std::sync::atomic::{AtomicU32, Ordering};

use millstream::device::{KernelFault, Parameter, Shared, SharedSet, Step, Value};
use millstream::flow::{BlockCollectives, ResidentRank};

/// The collectives, areas of all ranks, the report, and `Run`: rounds, items of a vector, a seed.
pub(super) type Resident = (ResidentRank, SharedSet<u32>, Shared<u32>, Value<[u32; 4]>);

/// Cells of an area, behind two vectors: one for each rank.
const CELLS: usize = 8;
/// Collectives of seven rounds, the last of which has two.
const CALLS: usize = 8;

pub(super) fn twin(
    block: usize,
    (resident, areas, report, run): &<Resident as Parameter>::View<'_>,
) -> Result<Step, KernelFault> {
    let mut collectives = resident.block(block)?;
    let own = 2 * (report.len() / 2 / resident.ranks() * resident.rank() + block);
    loop {
        let (turns, at) = (collectives.completed() / CALLS, collectives.completed() % CALLS);
        let round = turns * (CALLS - 1) + at.min(CALLS - 2);
        if round == run[0] as usize {
            collectives.leave();
            report[own + 1].store(run[0], Ordering::Relaxed);
            return Ok(Step::Done);
        }
        let place = [resident.rank(), resident.ranks(), block];
        let case = Case { place, seed: run[2], most: run[1] as usize, round: round as u32 };
        match case.turn(&mut collectives, areas, at)? {
            None => return Ok(Step::Waits),
            Some(is_right) => report[own].fetch_or(u32::from(!is_right), Ordering::Relaxed),
        };
    }
}

fn hash(x: u32) -> u32 {
    let x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
    let x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}

struct Case {
    /// Rank, ranks and block.
    place: [usize; 3],
    seed: u32,
    most: usize,
    round: u32,
}

impl Case {
    fn draw(&self, what: u32) -> u32 {
        let block = (self.place[2] as u32).wrapping_mul(0x9e37_79b9);
        let round = hash(self.round.wrapping_mul(8).wrapping_add(what));
        hash(self.seed.wrapping_add(round).wrapping_add(block))
    }

    fn item(&self, rank: usize, at: usize) -> u32 {
        let place = (rank as u32).wrapping_mul(0x10001).wrapping_add(at as u32);
        hash(self.draw(7).wrapping_add(place))
    }

    fn items(&self, rank: usize, len: usize) -> Vec<u32> {
        (0..len).map(|at| self.item(rank, at)).collect()
    }

    fn sums(&self, len: usize) -> Vec<u32> {
        let sum =
            |at| (0..self.place[1]).fold(0_u32, |sum, rank| sum.wrapping_add(self.item(rank, at)));
        (0..len).map(sum).collect()
    }

    /// Whether the collective that is the block's turn gave what it must; `None` if it waits.
    fn turn(
        &self,
        collectives: &mut BlockCollectives<'_>,
        areas: &[&[AtomicU32]],
        at: usize,
    ) -> Result<Option<bool>, KernelFault> {
        let [rank, ranks, _] = self.place;
        let root = self.draw(0) as usize % ranks;
        let range = if self.draw(1).is_multiple_of(4) { self.most + 1 } else { 64 };
        let len = self.draw(2) as usize % range;
        let start = |rank: usize| rank * (len / ranks) + rank.min(len % ranks);
        let own = start(rank)..start(rank + 1);
        let input = self.items(rank, len);
        match at {
            0 => is(collectives.all_reduce(&input, u32::wrapping_add)?, || self.sums(len)),
            1 => is(collectives.reduce(root, &input, u32::wrapping_add)?, || {
                if rank == root { self.sums(len) } else { Vec::new() }
            }),
            2 => is(collectives.reduce_scatter(&input, u32::wrapping_add)?, || {
                self.sums(len)[own].to_vec()
            }),
            3 => is(collectives.broadcast(root, &input)?, || self.items(root, len)),
            4 => is(collectives.all_gather(&input[..own.len()], len)?, || {
                let part = |from| self.items(from, start(from + 1) - start(from));
                (0..ranks).flat_map(part).collect()
            }),
            5 => {
                let each = len / ranks;
                is(collectives.all_to_all(&input[..each * ranks])?, || {
                    let piece =
                        |from| self.items(from, len).into_iter().skip(rank * each).take(each);
                    (0..ranks).flat_map(piece).collect()
                })
            }
            6 => {
                for area in areas {
                    self.cells(area)[rank].store(self.round, Ordering::Relaxed);
                }
                let is_over = collectives.barrier()?;
                let cells = &self.cells(areas[rank])[..ranks];
                let is_right = |cell: &AtomicU32| cell.load(Ordering::Relaxed) == self.round;
                Ok(is_over.then(|| cells.iter().all(is_right)))
            }
            _ => Ok(collectives.barrier()?.then_some(true)),
        }
    }

    /// Of the block's area.
    fn cells<'a>(&self, area: &'a [AtomicU32]) -> &'a [AtomicU32] {
        let first = self.place[2] * (2 * self.most + CELLS) + 2 * self.most;
        &area[first..first + CELLS]
    }
}

/// Whether what was found is what it must be; `None` if there is nothing yet.
fn is(
    found: Option<Vec<u32>>,
    expected: impl FnOnce() -> Vec<u32>,
) -> Result<Option<bool>, KernelFault> {
    Ok(found.map(|found| found == expected()))
}
