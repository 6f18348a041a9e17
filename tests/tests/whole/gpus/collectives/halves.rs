//! Sums of floating-point numbers of 16 bits, rounded alike on all devices.

use std::fmt::Debug;
use std::ops::Add;

use millstream::flow::{Communicator, Context, Number, Operator, bf16, f16};

use super::super::{Needs, context, scaled, skip};
use crate::collective_model::{download, upload};

/// Every number of 16 bits, and another one.
fn pairs() -> impl Iterator<Item = (u16, u16)> {
    // Numbers of about the same size, of which sums have to be rounded, and of any.
    let others = [0x03ff, 0x8155, 0x0801, 0x9abc, 0x7fff, 0x0001];
    others.into_iter().take(scaled(6, 2)).flat_map(|other| {
        let any = move |bits: u16| bits.wrapping_mul(0x9e37).wrapping_add(other);
        (0..=u16::MAX).flat_map(move |bits| [(bits, bits ^ other), (bits, any(bits))])
    })
}

/// Adds up pairs on two devices; others have `nothing`, which changes no sum.
fn check<T: Number + Add<Output = T> + Debug>(
    context: &Context,
    from: fn(u16) -> T,
    (nothing, is_nan): (T, fn(T) -> bool),
    bits: fn(T) -> u16,
) {
    let (ones, others): (Vec<_>, Vec<_>) =
        pairs().map(|(one, other)| (from(one), from(other))).unzip();
    let mut inputs = vec![vec![nothing; ones.len()]; context.devices().len()];
    (inputs[0], inputs[1]) = (ones, others);
    let mut buffers = upload(context, &inputs).unwrap();
    let mut communicator = Communicator::new(context).unwrap();
    let run = async {
        let mut collectives = communicator.begin().await?;
        collectives.all_reduce(&mut buffers, &Operator::sum())?;
        collectives.completed().await
    };
    context.block_on(run).unwrap().unwrap();
    for sums in context.block_on(download(&buffers)).unwrap().unwrap() {
        for ((&one, &other), &sum) in inputs[0].iter().zip(&inputs[1]).zip(&sums) {
            let expected = one + other;
            let is_right = bits(sum) == bits(expected) || is_nan(sum) && is_nan(expected);
            assert!(is_right, "{one:?} and {other:?}: {sum:?}, not {expected:?}");
        }
    }
}

#[test]
fn halves_are_rounded_as_on_the_host() {
    let context = context();
    if context.devices().len() < 2 {
        return skip(Needs::Several, "one device adds nothing up");
    }
    check(&context, f16::from_bits, (f16::NEG_ZERO, f16::is_nan), f16::to_bits);
    check(&context, bf16::from_bits, (bf16::NEG_ZERO, bf16::is_nan), bf16::to_bits);
    context.device_set().quiesce().unwrap();
}
