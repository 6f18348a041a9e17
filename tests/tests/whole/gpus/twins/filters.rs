//! Filters: the command's kernel, which is `filter.cuh` with a predicate.

use std::sync::atomic::Ordering;

use millstream::device::{CudaSource, Kernel, Read, Shared, Trusted, Value, Write};
use millstream::flow::Context;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{cases, contexts};

const SOURCE: &str = include_str!("../../../../../crates/millstream-cli/src/filter/filter.cu");

type Signature = (Read<u32>, Write<u32>, Shared<u32>, Shared<u32>, Value<u32>, Value<u32>);

static FILTER: Kernel<Signature> = Kernel::with_source(
    "filter",
    // SAFETY: the kernel keeps to its arguments as the signature says, as its twin does.
    unsafe { Trusted::new(CudaSource::new("filter.cu", "filter", SOURCE)) },
    |_, (input, kept, _, count, divisor, _)| {
        let matching = input.iter().filter(|item| item.is_multiple_of(divisor));
        let number = kept.iter_mut().zip(matching).map(|(to, item)| *to = *item).count();
        count[0].store(number as u32, Ordering::Release);
        Ok(())
    },
);

/// What is kept, sorted, each time the kernel runs: its scratch memory is as it was.
async fn filtered(context: &Context, items: &[u32], divisor: u32, cost: u32) -> [Vec<u32>; 2] {
    let device = &context.devices()[0];
    let stream = device.stream().unwrap();
    let input = stream.uploaded(items.to_vec()).unwrap();
    let mut output = device.buffer(items.len()).unwrap();
    let scratch = device.shared::<u32>(2).unwrap();
    let count = context.host().shared::<u32>(1).unwrap();
    let mut found = [Vec::new(), Vec::new()];
    for kept in &mut found {
        let arguments = (&input, &mut output, &scratch, &count, divisor, cost);
        FILTER.launch(&stream, items.len(), arguments).unwrap();
        stream.record().unwrap().completed().await.unwrap();
        let number = count.load(0).unwrap() as usize;
        if number > 0 {
            *kept = stream.download(output.part(0..number).unwrap()).unwrap().await.unwrap();
            kept.sort_unstable();
        }
    }
    found
}

#[test]
fn the_commands_filter() {
    let [context, twin] = contexts();
    for seed in cases() {
        let random = &mut SmallRng::seed_from_u64(seed);
        let items = random.random_range(1..5000);
        let items: Vec<u32> = (0..items).map(|_| random.random_range(0..1 << 20)).collect();
        let (divisor, cost) = (random.random_range(1..9), random.random_range(1..4));
        let found = context.block_on(filtered(&context, &items, divisor, cost)).unwrap();
        let expected = twin.block_on(filtered(&twin, &items, divisor, cost)).unwrap();
        assert!(found == expected, "MILLSTREAM_SEED={seed}: {divisor}, {found:?}, {expected:?}");
    }
}
