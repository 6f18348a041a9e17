//! Collectives of resident kernels, of more types and operators than their litmus case has.

use std::time::{Duration, Instant};

use millstream::device::{CudaSource, Shared, Trusted, Value};
use millstream::flow::{Context, Error, Gang, ResidentCollectives, ResidentRank};

use super::super::{Needs, context, is_gpu, scaled, skip};

/// Of litmus cases: `MILLSTREAM_LITMUS_ROUNDS`, or fewer where they publish nothing of a GPU's.
pub(super) fn rounds(context: &Context) -> u32 {
    let are_gpus = context.devices().iter().all(is_gpu);
    let usual = if are_gpus { scaled(1_000_000, 800) } else { 800 };
    let rounds = std::env::var("MILLSTREAM_LITMUS_ROUNDS");
    rounds.map_or(usual, |rounds| rounds.parse().unwrap())
}

/// Why cases of what kernels are answered run on GPUs alone.
pub(super) const TWINS_FAIL: &str =
    "kernels of GPUs end where twins fail, which is tested in millstream-flow";

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

/// A rank whose kernel is not there ends the others, and the gang with an error: what they have is
/// no result.
#[test]
fn a_rank_that_does_not_come() {
    let context = context();
    if !Gang::is_possible(&context) {
        return skip(Needs::Peers, TWINS_FAIL);
    }
    let ranks = context.devices().len();
    if ranks == 1 {
        return skip(Needs::Several, "nobody waits");
    }
    // SAFETY: each block uses its area of the spans.
    let kernel = Gang::kernel::<Signature>("block_operators", unsafe { Trusted::new(source()) });
    let area = context.devices()[0].shared::<u64>(BLOCKS * WORDS).unwrap();
    let report = context.host().shared::<u32>(2 * ranks * BLOCKS).unwrap();
    let patience = Duration::from_millis(50);
    let collectives = ResidentCollectives::new(&context, BLOCKS, 1 << 10, patience).unwrap();
    let gang = Gang::new(&context).unwrap();
    gang.prepare(&kernel).unwrap();
    let host = gang.words().clone();
    let run = gang.run(|member| match member.place {
        0 => {
            let run = [8, MOST as u32, 3, 0];
            let arguments = ((&collectives, &host, 0), &area, &report, run);
            Ok(kernel.launch(member.stream, member.sharers, arguments)?)
        }
        _ => Ok(()),
    });
    let error = context.block_on(run).unwrap().unwrap_err();
    assert!(matches!(error, Error::PeerIsLate), "{error}");
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
