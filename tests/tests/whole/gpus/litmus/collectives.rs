//! The begin and the end of a pass, the tiles of a chain and of a ring, and blocks that meet between
//! two collectives, in kernels of many rounds. Lines are in `gpus::collectives::resident_kernels`.

use std::time::Instant;

use millstream::device::{CudaSource, Kernel, Shared, SharedSet, Trusted, Value};
use millstream::flow::Gang;

use super::super::{Needs, context, skip};
use super::share_of_rounds;

pub(super) const TEXT: &str = include_str!("collectives.cuh");

/// Of each kernel: all run at once.
pub(super) const BLOCKS: usize = 4;

/// Of each rank: `rank_words`, and channels that begin at a line of memory, with their slots.
const MEMORY: usize = 1040 + BLOCKS * (32 + 4 * 16);

type Signature = (SharedSet<u64>, Shared<u32>, SharedSet<u32>, Shared<u32>, Value<[u32; 4]>);

/// A kernel that runs on all devices with vectors of `items`; each of its blocks consumes so
/// often what others publish in a round.
pub(super) struct Case {
    pub(super) text: &'static str,
    pub(super) entry: &'static str,
    pub(super) blocks: usize,
    pub(super) items: usize,
    pub(super) often: usize,
}

impl Case {
    pub(super) fn check(&self) {
        let context = context();
        if !Gang::can_meet(&context) {
            return skip(Needs::Peers, "only GPUs with NVLink between all meet");
        }
        let &Case { text, entry, blocks, items, often } = self;
        let source = CudaSource::new("gang.cu", entry, text);
        // SAFETY: it uses its spans.
        let source = unsafe { Trusted::new(source.blocks(blocks as u32).threads(64)) };
        let kernel: Kernel<Signature> = Gang::kernel(entry, source);
        let devices = context.devices();
        let memory = devices.iter().map(|device| device.shared::<u64>(MEMORY).unwrap());
        let memory: Vec<_> = memory.collect();
        let vectors = devices.iter().map(|device| device.shared::<u32>(items).unwrap());
        let vectors: Vec<_> = vectors.collect();
        let memory: Vec<_> = memory.iter().collect();
        let vectors: Vec<_> = vectors.iter().collect();
        let ranks = devices.len();
        let report = context.host().shared::<u32>(2 * ranks * blocks).unwrap();
        let rounds = share_of_rounds(blocks * often);
        let start = Instant::now();
        let run = Gang::run_kernel(&context, &kernel, |host, member| {
            let run = [member.place as u32, ranks as u32, rounds, 7];
            let arguments = (&memory[..], host, &vectors[..], &report, run);
            Ok(kernel.bind(member.stream, member.sharers, arguments)?)
        });
        context.block_on(run).unwrap().unwrap();
        let word = |place: usize| report.load(place).unwrap();
        let found = (0..ranks * blocks).map(|at| (word(2 * at), word(2 * at + 1)));
        let found: Vec<_> = found.collect();
        println!("{entry}, {ranks} devices, {rounds} rounds in {:?}", start.elapsed());
        assert_eq!(found, vec![(0, rounds); ranks * blocks]);
    }
}

fn check(entry: &'static str, items: usize, often: usize) {
    Case { text: TEXT, entry, blocks: BLOCKS, items, often }.check();
}

/// A begin and an end in each round.
#[test]
fn passes_begin_and_end() {
    check("passes", 509, 2);
}

/// Three tiles of a channel in each round.
#[test]
fn tiles_of_a_chain() {
    check("chains", 2 * (2 * 32 * BLOCKS + 17), 3);
}

/// As many of each part between two GPUs; between more, shorter parts, and channels with no tile.
#[test]
fn tiles_of_a_ring() {
    check("rings", 2 * 2 * (2 * 32 * BLOCKS + 17), 3);
}
