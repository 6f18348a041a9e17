//! Checks that NCCL's collectives give the right results: a call with wrong arguments is fast.

use std::ops::Range;

use super::{Error, Nccl, Result, Series};
use crate::collective::{Collective, Element};

/// Items of a vector in a check.
pub(super) fn len(ranks: usize) -> usize {
    ranks * 1000
}

/// An item of a rank's input: a number so small that sums of sixteen are exact.
fn given(rank: usize, item: usize) -> u16 {
    ((rank * 7 + item * 11) % 17) as u16
}

/// The item that a rank should have afterwards.
fn expected(collective: Collective, (rank, ranks): (usize, usize), item: usize) -> u16 {
    let part = len(ranks) / ranks;
    match collective {
        Collective::Broadcast => given(0, item),
        Collective::Reduce | Collective::AllReduce | Collective::ReduceScatter => {
            (0..ranks).map(|rank| given(rank, item)).sum()
        }
        Collective::AllGather => given(item / part, item),
        Collective::AllToAll => given(item / part, rank * part + item % part),
    }
}

/// The range of a rank's vector in which results are.
fn results(collective: Collective, (rank, ranks): (usize, usize)) -> Range<usize> {
    let part = len(ranks) / ranks;
    match collective {
        Collective::Reduce if rank > 0 => 0..0,
        Collective::ReduceScatter => rank * part..(rank + 1) * part,
        _ => 0..len(ranks),
    }
}

impl<T: Element> Nccl<T> {
    /// Runs each collective once.
    pub(super) fn check(&mut self) -> Result<()> {
        let ranks = self.ranks.len();
        for collective in Collective::ALL {
            for (number, rank) in self.ranks.iter().enumerate() {
                let items = (0..len(ranks)).map(|item| T::of(given(number, item)));
                rank.fill(&items.collect::<Vec<_>>())?;
            }
            // `seconds` submits one operation that it does not count: no more are needed.
            self.seconds(collective, Series { len: len(ranks), rounds: 0, awaited: false });
            let buffer = usize::from(collective == Collective::AllToAll);
            for (number, rank) in self.ranks.iter().enumerate() {
                let items = rank.read(buffer, len(ranks))?;
                for item in results(collective, (number, ranks)) {
                    let (found, expected) =
                        (items[item], T::of(expected(collective, (number, ranks), item)));
                    if found != expected {
                        return Err(Error::Wrong {
                            collective: collective.name(),
                            rank: number,
                            item,
                            found: found.to_string(),
                            expected: expected.to_string(),
                        });
                    }
                }
            }
        }
        Ok(())
    }
}
