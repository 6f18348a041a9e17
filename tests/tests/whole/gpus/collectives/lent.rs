//! Collectives of memory that the program lends, which begins wherever its items may.

use millstream::device::{Device, DeviceBuffer, Pod, Trusted};
use millstream::flow::{Communicator, Context, Item, Operator};

use super::super::foreign::Own;
use super::super::{Needs, context, skip};
use crate::collective_model::{download, upload};

/// More than the threads of a kernel take at once, so that it combines first and then tells others.
const BYTES: usize = 1 << 22;

/// The program's own memory on a GPU, this many bytes behind where 16 of them begin.
fn lent<T: Pod>(device: &Device, offset: usize) -> Option<DeviceBuffer<T>> {
    let own = Own::take(device, BYTES + offset)?;
    let address = own.address as usize + offset;
    // SAFETY: so many items, aligned, which only this uses until it is dropped.
    Some(unsafe { device.adopt(address, BYTES / size_of::<T>(), own) })
}

/// Outputs begin at these offsets, rank by rank, inputs where 16 bytes do, or in the same way.
fn reduce_into_lent<T: Item + PartialEq + std::fmt::Debug>(
    context: &Context,
    (offsets, also_inputs): (&[usize], bool),
    (operator, combine): (&Operator<T>, fn(T, T) -> T),
    item: impl Fn(usize) -> T,
) -> Option<()> {
    let (devices, len) = (context.devices(), BYTES / size_of::<T>());
    let items = |rank: usize| (0..len).map(|at| item(at * 31 + rank * 7)).collect::<Vec<T>>();
    let all: Vec<_> = (0..devices.len()).map(items).collect();
    let mut inputs = upload(context, &all).unwrap();
    let lend = |(rank, device)| lent(device, offsets[rank % offsets.len()]);
    let mut outputs = devices.iter().enumerate().map(lend).collect::<Option<Vec<_>>>()?;
    if also_inputs {
        for ((rank, device), input) in devices.iter().enumerate().zip(&mut inputs) {
            let mut own = lent(device, offsets[rank % offsets.len()])?;
            let stream = device.stream().unwrap();
            stream.copy(&*input, &mut own).unwrap();
            context.block_on(stream.completed().unwrap()).unwrap().unwrap();
            *input = own;
        }
    }
    let mut communicator = Communicator::new(context).unwrap();
    let reduced = context.block_on(async {
        let mut collectives = communicator.begin().await?;
        collectives.all_reduce((&inputs, &mut outputs), operator)?;
        collectives.completed().await
    });
    reduced.unwrap().unwrap();
    let sum = |at: usize| all.iter().map(|items| items[at]).reduce(combine).unwrap();
    let expected: Vec<T> = (0..len).map(sum).collect();
    for (rank, found) in context.block_on(download(&outputs)).unwrap().unwrap().iter().enumerate() {
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(wrong, None, "rank {rank}, outputs at {offsets:?}, inputs too: {also_inputs}");
    }
    Some(())
}

#[test]
fn sums_into_memory_that_begins_anywhere() {
    let context = context();
    let (sum, add) = (Operator::<u32>::sum(), u32::wrapping_add as fn(u32, u32) -> u32);
    let sums = |offsets: &[usize], also| {
        reduce_into_lent(&context, (offsets, also), (&sum, add), |at| at as u32)
    };
    if sums(&[4], false).is_none() {
        return skip(Needs::Peers, "memory of a GPU that the program lends");
    }
    sums(&[0, 12], false).unwrap();
    sums(&[8], true).unwrap();
    context.device_set().quiesce().unwrap();
}

/// Items of eight bytes that begin where only four do: no vector of 16 bytes begins with one.
#[test]
fn items_that_begin_within_their_size() {
    let context = context();
    let text = "
        struct Element { unsigned words[2]; };
        __device__ Element combine(Element one, Element other) {
            return Element{{one.words[0] + other.words[0], one.words[1] + other.words[1]}};
        }";
    // SAFETY: it touches its arguments only.
    let text = unsafe { Trusted::new(text) };
    let add =
        |one: [u32; 2], other: [u32; 2]| std::array::from_fn(|at| one[at].wrapping_add(other[at]));
    let operator = Operator::new("pairs", text, add);
    let item = |at: usize| [at as u32, !(at as u32)];
    if reduce_into_lent(&context, (&[4], true), (&operator, add), item).is_none() {
        return skip(Needs::Peers, "memory of a GPU that the program lends");
    }
    context.device_set().quiesce().unwrap();
}
