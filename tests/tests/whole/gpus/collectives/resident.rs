//! Collectives of resident kernels, of more types and operators than their litmus case has.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millstream::device::{CudaSource, Kernel, Shared, Step, Trusted, Value};
use millstream::flow::{Context, Error, Gang, ResidentCollectives, ResidentRank, Result};

use super::super::{Needs, context, is_gpu, scaled, skip};

/// Of litmus cases: `MILLSTREAM_LITMUS_ROUNDS`, or fewer where they publish nothing of a GPU's.
pub(super) fn rounds(context: &Context) -> u32 {
    let are_gpus = context.devices().iter().all(is_gpu);
    let usual = if are_gpus { scaled(1_000_000, 800) } else { 800 };
    let rounds = std::env::var("MILLSTREAM_LITMUS_ROUNDS");
    rounds.map_or(usual, |rounds| rounds.parse().unwrap())
}

const BLOCKS: usize = 4;
/// Items of a vector: more than fit in the lines, if they are large.
const MOST: usize = 150;
/// Of the largest items, two vectors of a block.
const WORDS: usize = 2 * MOST * 9;

type Signature = (ResidentRank, Shared<u64>, Shared<u32>, Value<[u32; 4]>);

fn source() -> CudaSource {
    let text = include_str!("block_operators.cu");
    let source = CudaSource::new("block_operators.cu", "block_operators", text);
    source.blocks(BLOCKS as u32).threads(64)
}

/// Sums, minima and maxima of numbers, and a program's own operators of items of 3, 8 and 72
/// bytes, in turns; one of them to one rank and in parts, too.
#[test]
fn items_and_operators() {
    let context = context();
    if !Gang::is_possible(&context) {
        return skip(Needs::Peers, "twins with other items are tested in millstream-flow");
    }
    // SAFETY: each block uses its area of the spans.
    let kernel = Gang::kernel::<Signature>("block_operators", unsafe { Trusted::new(source()) });
    let ranks = context.devices().len();
    let areas = context.devices().iter();
    let areas: Vec<_> = areas.map(|device| device.shared::<u64>(BLOCKS * WORDS).unwrap()).collect();
    let patience = Duration::from_secs(5);
    let collectives = ResidentCollectives::new(&context, BLOCKS, 1 << 10, patience).unwrap();
    let report = context.host().shared::<u32>(2 * ranks * BLOCKS).unwrap();
    let rounds = rounds(&context) / 4 / BLOCKS as u32;
    let start = Instant::now();
    let run = Gang::run_kernel(&context, &kernel, |host, member| {
        let run = [rounds, MOST as u32, 3, 0];
        let rank = (&collectives, host, member.place);
        let arguments = (rank, &areas[member.place], &report, run);
        Ok(kernel.bind(member.stream, member.sharers, arguments)?)
    });
    context.block_on(run).unwrap().unwrap();
    let word = |place: usize| report.load(place).unwrap();
    let found: Vec<_> = (0..ranks * BLOCKS).map(|at| (word(2 * at), word(2 * at + 1))).collect();
    println!("{rounds} rounds, {ranks} ranks, after {:?}", start.elapsed());
    assert_eq!(found, vec![(0, rounds); ranks * BLOCKS], "bits of what was wrong, and rounds");
}

const FORGETFUL: &str = r#"
#include "block_collectives.cuh"
using namespace millstream;

extern "C" __global__ void forgetful(const __grid_constant__ ResidentCollectives resident,
                                     Span<u32> report, u32 leaves) {
    BlockCollectives collectives(resident);
    if (!collectives.barrier()) return;
    if (leaves) collectives.leave();
    u32* const own = &report[collectives.rank() * gridDim.x + blockIdx.x];
    if (threadIdx.x == 0) store_relaxed_sys(own, 1u);
}
"#;

/// The collectives, what blocks of all ranks report, and whether they leave.
type Forgetful = (ResidentRank, Shared<u32>, Value<u32>);

/// One barrier of so many blocks.
fn forgetful(blocks: u32) -> Kernel<Forgetful> {
    let source = CudaSource::new("forgetful.cu", "forgetful", FORGETFUL).blocks(blocks).threads(64);
    Kernel::of_steps(
        "forgetful",
        // SAFETY: it calls collectives, and reports where its signature says.
        unsafe { Trusted::new(source) },
        |block, (resident, report, leaves)| {
            let mut collectives = resident.block(block)?;
            if !collectives.barrier()? {
                return Ok(Step::Waits);
            }
            if *leaves == 1 {
                collectives.leave();
            }
            let blocks = report.len() / resident.ranks();
            report[resident.rank() * blocks + block].store(1, Ordering::Relaxed);
            Ok(Step::Done)
        },
    )
}

/// One after the other, on collectives of one block.
struct ForgetfulRuns {
    context: Context,
    kernel: Kernel<Forgetful>,
    blocks: usize,
    collectives: ResidentCollectives,
}

impl ForgetfulRuns {
    /// `None` where there are no resident collectives.
    fn new(blocks: usize, patience: Duration) -> Option<ForgetfulRuns> {
        let context = context();
        if !ResidentCollectives::are_possible(&context) {
            skip(Needs::Peers, "resident kernels run on peers, or on host devices alone");
            return None;
        }
        let kernel = forgetful(blocks as u32);
        let collectives = ResidentCollectives::new(&context, 1, 1 << 10, patience).unwrap();
        Some(ForgetfulRuns { context, kernel, blocks, collectives })
    }

    /// On the first devices; what blocks report.
    fn run(&self, devices: usize, leaves: u32) -> (Result<Duration>, Vec<u32>) {
        let gang = Gang::new(&self.context).unwrap();
        gang.prepare(&self.kernel).unwrap();
        let host = gang.words().clone();
        let blocks = self.blocks * self.context.devices().len();
        let report = self.context.host().shared::<u32>(blocks).unwrap();
        let run = gang.run(|member| match member.place < devices {
            true => {
                let arguments = ((&self.collectives, &host, member.place), &report, leaves);
                Ok(self.kernel.launch(member.stream, self.blocks, arguments)?)
            }
            false => Ok(()),
        });
        let ended = self.context.block_on(run).unwrap();
        (ended, (0..blocks).map(|at| report.load(at).unwrap()).collect())
    }
}

/// After kernels that ended without leaving, their memory is of no use: gangs fail, and not their
/// streams.
#[test]
fn kernels_that_did_not_leave() {
    let Some(runs) = ForgetfulRuns::new(1, Duration::from_secs(5)) else { return };
    let ranks = runs.context.devices().len();
    for leaves in [1, 0] {
        let (ended, found) = runs.run(ranks, leaves);
        ended.unwrap();
        assert_eq!(found, vec![1; ranks], "{leaves}");
    }
    for _ in 0..2 {
        let (ended, found) = runs.run(ranks, 1);
        let error = ended.unwrap_err();
        assert!(matches!(error, Error::CollectivesNotLeft), "{error}");
        assert_eq!(found, vec![0; ranks]);
    }
    runs.context.device_set().quiesce().unwrap();
}

/// Blocks that there is no memory for are refused, and the gang fails.
#[test]
fn kernels_of_too_many_blocks() {
    let Some(runs) = ForgetfulRuns::new(2, Duration::from_secs(5)) else { return };
    let (ended, found) = runs.run(runs.context.devices().len(), 1);
    let error = ended.unwrap_err();
    assert!(matches!(error, Error::CollectivesWithoutMemory), "{error}");
    // The others may have met before they were stopped.
    assert!(found.iter().skip(1).step_by(2).all(|&met| met == 0), "{found:?}");
}

/// A rank whose kernel is not there ends the others, and the gang with an error: what they have is
/// no result.
#[test]
fn a_rank_that_does_not_come() {
    let Some(runs) = ForgetfulRuns::new(1, Duration::from_millis(50)) else { return };
    let ranks = runs.context.devices().len();
    if ranks == 1 {
        return skip(Needs::Several, "nobody waits");
    }
    let (ended, found) = runs.run(ranks - 1, 1);
    let error = ended.unwrap_err();
    assert!(matches!(error, Error::PeerIsLate), "{error}");
    assert_eq!(found, vec![0; ranks]);
}

/// Needs NVRTC, and no GPU. So many collectives in one kernel may spill, and take long: for one
/// architecture.
#[cfg(feature = "cuda")]
#[test]
fn items_and_operators_compile() {
    match source().compile(90) {
        Ok((code, _)) => assert!(!code.is_empty()),
        Err(millstream::device::Error::DriverUnavailable { reason, .. })
            if std::env::var_os("MILLSTREAM_REQUIRE_NVRTC").is_none() =>
        {
            println!("not compiled: {reason}");
        }
        Err(error) => panic!("{error}"),
    }
}
