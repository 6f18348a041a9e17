//! The kernel that packs rows: `pack_near_rows.cuh`, and its twin.

use std::sync::atomic::{AtomicU32, Ordering};

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    CudaSource, Grid, Kernel, KernelResult, Parameter, Read, Shared, Trusted, Value, cuda_text,
};

use crate::near_rows::{IS_LONG, MOST, NONE, SPECIAL, row_words};
use crate::relaxation::Rule;

millstream_device::cuda_struct! {
    /// `PackSettings` of `pack_near_rows.cuh`.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub(crate) struct PackSettings as "millstream::PackSettings" {
        pub(crate) first: u32,
        pub(crate) end: u32,
        pub(crate) place: u32,
        pub(crate) padding: u32,
    }
}

/// Rows, targets and weights of long rows, and how many arcs of long rows are packed so far.
type Packed = (Shared<u32>, Shared<u32>, Shared<u32>, Shared<u32>);
/// Offsets, targets and weights of the rows of some vertices, the halo, and where packed rows go.
pub(crate) type PackSignature<W> =
    (Read<u64>, Read<u32>, Read<W>, Read<u32>, Packed, Value<PackSettings>);

pub(crate) fn pack_kernel<R: Rule>() -> Kernel<PackSignature<R::Weight>> {
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    let source = unsafe { Trusted::new(cuda_source::<R>()) };
    Kernel::<PackSignature<R::Weight>>::with_source("pack_near_rows", source, twin::<R>)
}

fn twin<R: Rule>(
    grid: &Grid,
    view: <PackSignature<R::Weight> as Parameter>::View<'_>,
) -> KernelResult {
    let (offsets, targets, weights, halo, packed, settings) = view;
    let (rows, long_targets, long_weights, long_arcs) = packed;
    let PackSettings { first, end, place, .. } = settings;
    let place_of = |target: u32| match (first..end).contains(&target) {
        true => Some(target - first),
        false => halo.binary_search(&target).ok().map(|at| end - first + at as u32),
    };
    // The kernel's end publishes all stores.
    let store = |words: &[AtomicU32], values: &[u32]| {
        words.iter().zip(values).for_each(|(word, &value)| word.store(value, Ordering::Relaxed))
    };
    grid.for_each_block(|block| {
        // Reserves room for all long rows of the block at once: other blocks reserve theirs concurrently.
        let lengths = offsets[block.range.start..=block.range.end].windows(2);
        let lengths = lengths.map(|ends| ends[1] - ends[0]);
        let all_long = lengths.filter(|&arcs| arcs > MOST as u64).sum::<u64>() as u32;
        let mut next_long = long_arcs[0].fetch_add(all_long, Ordering::Relaxed);
        for row in block.range {
            let arcs = offsets[row] as usize..offsets[row + 1] as usize;
            let bits = |arc: usize| match R::WEIGHS {
                true => bytemuck::cast::<R::Weight, u32>(weights[arc]),
                false => 0,
            };
            let near =
                arcs.filter_map(|arc| Some((place_of(targets[arc])?, bits(arc)))).enumerate();
            let (mut its_targets, mut its_weights) = ([NONE; MOST], [0; MOST]);
            let mut count = 0;
            for (at, (target, weight)) in near.clone() {
                count = at as u32 + 1;
                if at < MOST {
                    (its_targets[at], its_weights[at]) = (target, weight);
                }
            }
            if count as usize > MOST {
                let begin = next_long;
                next_long += count;
                for (at, (target, weight)) in near {
                    long_targets[begin as usize + at].store(target, Ordering::Relaxed);
                    if R::WEIGHS {
                        long_weights[begin as usize + at].store(weight, Ordering::Relaxed);
                    }
                }
                its_targets = [IS_LONG, begin | SPECIAL, count | SPECIAL, IS_LONG];
                its_weights = [0; MOST];
            }
            let begin = row_words::<R>() * (place as usize + row);
            store(&rows[begin..], &its_targets);
            if R::WEIGHS {
                store(&rows[begin + MOST..], &its_weights);
            }
        }
        Ok(())
    })
}

pub(crate) fn cuda_source<R: Rule>() -> CudaSource {
    const TEXT: &str = cuda_text!("near_row.cuh", "pack_near_rows.cuh");
    let (class, weighs) = (*R::CLASS, u32::from(R::WEIGHS));
    let text = format!(
        "#include \"distances.cuh\"\n#define MILLSTREAM_ROW_WEIGHS {weighs}\n\
         using PackWeight = millstream::{class}::Weight;\n{TEXT}"
    );
    let source = CudaSource::generated("pack_near_rows.cuh", "pack_near_rows", text);
    source.structs(&[PackSettings::LAYOUT])
}
