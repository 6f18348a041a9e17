//! Collectives that kernels call by themselves, on host devices: threaded and simulated.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millstream_device::{Kernel, KernelFault, Shared, SharedBuffer, Step, Stream, Value};
use millstream_flow::{
    BlockCollectives, Context, Devices, Error, Gang, GangMemory, Item, ResidentCollectives,
    ResidentRank, ResidentRankView, Result,
};

use crate::common::everywhere;

const PATIENCE: Duration = Duration::from_secs(20);
const BLOCKS: usize = 2;
/// Of each operation.
const LENGTHS: [usize; 5] = [0, 1, 5, 37, 150];
const OPERATIONS: usize = 7;

/// Item `at` of a rank's in a block's call.
type Make<T> = fn(rank: usize, at: usize) -> T;

/// Runs a gang; `launch` is given its words, the device's place and its stream.
async fn run(
    context: &Context,
    launch: impl Fn(&SharedBuffer<u32>, usize, &Stream) -> Result<()>,
) -> Result<()> {
    let gang = Gang::new(context)?;
    let words = gang.words().clone();
    gang.run(|member| launch(&words, member.place, member.stream)).await?;
    Ok(())
}

/// A rank's part of so many items.
fn part(rank: usize, ranks: usize, len: usize) -> Range<usize> {
    let end = |rank: usize| rank * (len / ranks) + rank.min(len % ranks);
    end(rank)..end(rank + 1)
}

fn check<T: PartialEq + Debug>(
    found: Option<Vec<T>>,
    expected: impl Iterator<Item = T>,
) -> std::result::Result<bool, KernelFault> {
    let Some(found) = found else { return Ok(false) };
    match expected.collect::<Vec<_>>() {
        expected if expected == found => Ok(true),
        expected => Err(KernelFault::new(format!("{found:?} in place of {expected:?}"))),
    }
}

/// The operation and the length that are the block's turn; false if it must wait.
fn turn<T: Item + PartialEq + Debug>(
    collectives: &mut BlockCollectives<'_>,
    [rank, ranks]: [usize; 2],
    make: Make<T>,
    combine: fn(T, T) -> T,
) -> std::result::Result<bool, KernelFault> {
    let (turn, root) = (collectives.completed(), collectives.completed() % ranks);
    let len = LENGTHS[turn / OPERATIONS % LENGTHS.len()];
    // Others each time.
    let item = |rank: usize, at: usize| make(rank + turn, at);
    let input: Vec<T> = (0..len).map(|at| item(rank, at)).collect();
    let combined = |at| (1..ranks).fold(item(0, at), |all, other| combine(all, item(other, at)));
    let own = part(rank, ranks, len);
    match turn % OPERATIONS {
        0 => check(collectives.all_reduce(&input, combine)?, (0..len).map(combined)),
        1 => {
            let expected = if rank == root { 0..len } else { 0..0 };
            check(collectives.reduce(root, &input, combine)?, expected.map(combined))
        }
        2 => check(collectives.reduce_scatter(&input, combine)?, own.map(combined)),
        3 => check(collectives.broadcast(root, &input)?, (0..len).map(|at| item(root, at))),
        4 => {
            let all = (0..ranks).flat_map(|from| part(from, ranks, len).map(move |at| (from, at)));
            let expected = all.map(|(from, at)| item(from, at));
            check(collectives.all_gather(&input[own], len)?, expected)
        }
        5 => {
            let each = len / ranks;
            let all = (0..ranks).flat_map(|from| (0..each).map(move |at| (from, at)));
            let expected = all.map(|(from, at)| item(from, rank * each + at));
            check(collectives.all_to_all(&input[..each * ranks])?, expected)
        }
        _ => collectives.barrier(),
    }
}

/// Each operation of each length, twice.
fn every_collective<T: Item + PartialEq + Debug>(
    make: Make<T>,
    combine: fn(T, T) -> T,
) -> Kernel<(ResidentRank,)> {
    Kernel::<(ResidentRank,)>::of_step_closure("every_collective", move |block, (resident,)| {
        let mut collectives = resident.block(block)?;
        let place = [resident.rank(), resident.ranks()];
        while collectives.completed() < 2 * OPERATIONS * LENGTHS.len() {
            if !turn(&mut collectives, place, make, combine)? {
                return Ok(Step::Waits);
            }
        }
        collectives.leave();
        Ok(Step::Done)
    })
}

/// In two launches, the second of which goes on with the first one's lines, of which there are as
/// few as can be: a long vector goes in several exchanges.
fn all_are_right<T: Item + PartialEq + Debug>(make: Make<T>, combine: fn(T, T) -> T) {
    for ranks in 1..=4 {
        let results = everywhere(ranks, |context| async move {
            let kernel = every_collective(make, combine);
            let collectives = ResidentCollectives::new(&context, BLOCKS, 1, PATIENCE)?;
            for _ in 0..2 {
                run(&context, |words, place, stream| {
                    Ok(kernel.launch(stream, BLOCKS, ((&collectives, words, place),))?)
                })
                .await?;
            }
            Ok::<_, Error>(())
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}

#[test]
fn every_collective_of_numbers() {
    all_are_right(|rank, at| (rank * 1000 + at) as u32, |one, other| one + other);
}

/// Sums of floats depend on the order.
#[test]
fn ranks_are_combined_in_their_order() {
    all_are_right(|rank, at| 1e10_f64 / (1 + rank * rank + at) as f64, |one, other| one + other);
}

#[test]
fn items_that_are_no_whole_lines_and_items_of_several() {
    all_are_right(
        |rank, at| [rank as u8, at as u8, 7],
        |one, other| [one[0].wrapping_add(other[0]), one[1] ^ other[1], one[2].max(other[2])],
    );
    all_are_right(
        |rank, at| [rank as u64; 9].map(|word| word << 32 | at as u64),
        |one, other| std::array::from_fn(|word| one[word].wrapping_add(other[word])),
    );
}

/// Each word of them in a line of its own.
#[test]
fn items_as_large_as_lines_take() {
    all_are_right(
        |rank, at| [rank as u64; 32].map(|word| word << 32 | at as u64),
        |one, other| std::array::from_fn(|word| one[word].wrapping_add(other[word])),
    );
    all_are_right(
        |rank, at| [rank as u8; 31].map(|byte| byte ^ at as u8),
        |one, other| std::array::from_fn(|byte| one[byte].wrapping_add(other[byte])),
    );
}

/// Between two barriers each block reads what all others have written.
#[test]
fn a_barrier_makes_what_was_done_visible() {
    type Signature = (ResidentRank, Shared<u32>);
    const ROUNDS: u32 = 20;
    let kernel = || {
        Kernel::<Signature>::of_step_closure("rounds", |block, (resident, cells)| {
            let mut collectives = resident.block(block)?;
            loop {
                let round = collectives.completed() as u32 / 2;
                if round == ROUNDS {
                    collectives.leave();
                    return Ok(Step::Done);
                }
                let is_first = collectives.completed() % 2 == 0;
                if is_first {
                    cells[resident.rank()].store(round, Ordering::Relaxed);
                }
                if !collectives.barrier()? {
                    return Ok(Step::Waits);
                }
                // Once only: others go on when this block is in the next one.
                if is_first && cells.iter().any(|cell| cell.load(Ordering::Relaxed) != round) {
                    return Err(KernelFault::new(format!("{cells:?} in round {round}")));
                }
            }
        })
    };
    let results = everywhere(3, |context| async move {
        let (kernel, cells) = (kernel(), context.host().shared::<u32>(3)?);
        let collectives = ResidentCollectives::new(&context, 1, 1, PATIENCE)?;
        run(&context, |words, place, stream| {
            Ok(kernel.launch(stream, 1, ((&collectives, words, place), &cells))?)
        })
        .await
    });
    results.into_iter().for_each(|result| result.unwrap());
}

fn context(ranks: usize) -> Context {
    Context::builder().devices(Devices::host(ranks)).build().unwrap()
}

/// One all-reduce, after which the block leaves, or does not.
fn one_sum() -> Kernel<(ResidentRank, Value<u32>)> {
    Kernel::<(ResidentRank, Value<u32>)>::of_step_closure("one_sum", |block, (resident, leaves)| {
        let mut collectives = resident.block(block)?;
        if collectives.all_reduce(&[1_u32], |one, other| one + other)?.is_none() {
            return Ok(Step::Waits);
        }
        if *leaves == 1 {
            collectives.leave();
        }
        Ok(Step::Done)
    })
}

#[test]
fn a_rank_that_does_not_come_ends_the_others() {
    let context = context(3);
    let kernel = one_sum();
    let patience = Duration::from_millis(20);
    let collectives = ResidentCollectives::new(&context, 1, 1, patience).unwrap();
    let run = run(&context, |words, place, stream| match place {
        2 => Ok(()),
        _ => Ok(kernel.launch(stream, 1, ((&collectives, words, place), 1))?),
    });
    let error = context.block_on(run).unwrap().unwrap_err();
    assert!(matches!(error, Error::PeerIsLate), "{error}");
}

/// On simulated devices nobody loses patience: that all wait is found.
#[test]
fn a_rank_that_does_not_come_is_a_deadlock_of_simulated_devices() {
    let context = Context::builder().devices(Devices::host(2)).simulated(3).build().unwrap();
    let kernel = one_sum();
    let collectives = ResidentCollectives::new(&context, 1, 1, Duration::ZERO).unwrap();
    let run = run(&context, |words, place, stream| match place {
        1 => Ok(()),
        _ => Ok(kernel.launch(stream, 1, ((&collectives, words, place), 1))?),
    });
    let error = context.block_on(run).unwrap_err().to_string();
    assert!(error.contains("deadlock"), "{error}");
}

#[test]
fn a_gang_that_nobody_waits_for_is_stopped() {
    let context = context(2);
    let kernel = one_sum();
    let collectives = ResidentCollectives::new(&context, 1, 1, PATIENCE).unwrap();
    {
        let run = run(&context, |words, place, stream| match place {
            1 => Ok(()),
            _ => Ok(kernel.launch(stream, 1, ((&collectives, words, place), 1))?),
        });
        let mut run = std::pin::pin!(run);
        let waker = std::task::Waker::noop();
        let poll = run.as_mut().poll(&mut std::task::Context::from_waker(waker));
        assert!(poll.is_pending());
    }
    context.device_set().quiesce().unwrap();
}

#[test]
fn memory_that_a_kernel_has_not_left_is_of_no_use() {
    let context = context(2);
    let kernel = one_sum();
    let collectives = ResidentCollectives::new(&context, 1, 1, PATIENCE).unwrap();
    let launch = |leaves| {
        let run = run(&context, |words, place, stream| {
            Ok(kernel.launch(stream, 1, ((&collectives, words, place), leaves))?)
        });
        context.block_on(run).unwrap()
    };
    launch(1).unwrap();
    launch(0).unwrap();
    for _ in 0..2 {
        let error = launch(1).unwrap_err();
        assert!(matches!(error, Error::CollectivesNotLeft), "{error}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    type Wrong = fn(&ResidentRankView<'_>) -> std::result::Result<(), KernelFault>;
    let cases: [(&str, Wrong); 10] = [
        ("made for fewer blocks", |rank| rank.block(1).map(drop)),
        ("has its collectives already", |rank| {
            let _first = rank.block(0)?;
            rank.block(0).map(drop)
        }),
        ("no rank 2 of 2", |rank| rank.block(0)?.broadcast(2, &[1_u32]).map(drop)),
        ("no rank 9 of 2", |rank| rank.block(0)?.reduce(9, &[1_u32], |one, _| one).map(drop)),
        ("gathers 2 items in place of 1", |rank| {
            rank.block(0)?.all_gather(&[1_u32, 2], 2).map(drop)
        }),
        ("3 items for 2 ranks", |rank| rank.block(0)?.all_to_all(&[1_u8, 2, 3]).map(drop)),
        ("do not hold items of 33 bytes", |rank| {
            rank.block(0)?.broadcast(0, &[[[0_u8; 11]; 3]]).map(drop)
        }),
        ("do not hold items of 66 bytes", |rank| {
            rank.block(0)?.broadcast(0, &[[[0_u16; 11]; 3]]).map(drop)
        }),
        ("do not hold items of 264 bytes", |rank| {
            rank.block(0)?.broadcast(0, &[[[0_u64; 11]; 3]]).map(drop)
        }),
        ("another collective", |rank| {
            let mut collectives = rank.block(0)?;
            assert_eq!(collectives.broadcast(1, &[1_u32])?, None);
            collectives.broadcast(1, &[1_u8]).map(drop)
        }),
    ];
    for (expected, wrong) in cases {
        let context = context(2);
        let kernel = Kernel::<(ResidentRank,)>::of_step_closure("wrong", move |_, (resident,)| {
            wrong(resident).map(|()| Step::Done)
        });
        // What an item may have does not depend on the room, as on GPUs.
        let collectives = ResidentCollectives::new(&context, 1, 8192, PATIENCE).unwrap();
        let run = run(&context, |words, place, stream| match place {
            0 => Ok(kernel.launch(stream, 1, ((&collectives, words, place),))?),
            _ => Ok(()),
        });
        let error = context.block_on(run).unwrap().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, not {expected}");
    }
    let context = context(2);
    let collectives = ResidentCollectives::new(&context, 1, 1, PATIENCE).unwrap();
    let run = run(&context, |words, _, stream| {
        Ok(one_sum().launch(stream, 1, ((&collectives, words, 2), 1))?)
    });
    let error = context.block_on(run).unwrap().unwrap_err().to_string();
    assert!(error.contains("memory of resident collectives"), "{error}");
    let many = self::context(Gang::MOST + 1);
    let refused = ResidentCollectives::new(&many, 1, 1, PATIENCE);
    assert!(matches!(refused, Err(Error::NotAGang { devices: 9 })));
    let refused = GangMemory::of_all(&many, 1, 1, PATIENCE);
    assert!(matches!(refused, Err(Error::NotAGang { devices: 9 })));
}
