//! Reductions and broadcasts whose root changes from one to the next.

use millstream::device::{DeviceBuffer, Trusted};
use millstream::flow::{
    Collectives, Communicator, CommunicatorOptions, Context, Item, Operands, Operator,
};

use super::{context, scaled};
use crate::collective_model::{download, upload};

/// Vectors that go along chains again and again, and what they and outputs must then hold.
struct Chained<T: Item> {
    operator: Operator<T>,
    combine: fn(T, T) -> T,
    vectors: Vec<DeviceBuffer<T>>,
    outputs: Vec<DeviceBuffer<T>>,
    expected: [Vec<Vec<T>>; 2],
}

impl<T: Item + PartialEq + std::fmt::Debug> Chained<T> {
    fn new(
        context: &Context,
        len: usize,
        (operator, combine): (Operator<T>, fn(T, T) -> T),
        item: impl Fn(usize) -> T,
    ) -> Chained<T> {
        let items = |rank: usize| (0..len).map(|at| item(at * 31 + rank * 7)).collect();
        let items: Vec<Vec<T>> = (0..context.devices().len()).map(items).collect();
        let vectors = upload(context, &items).unwrap();
        let outputs = upload(context, &items).unwrap();
        Chained { operator, combine, vectors, outputs, expected: [items.clone(), items] }
    }

    fn reduce(&mut self, to: &mut Collectives<'_>, root: usize, in_place: bool) {
        let mut combined = self.expected[0][0].clone();
        for vector in &self.expected[0][1..] {
            let pairs = combined.iter_mut().zip(vector);
            pairs.for_each(|(one, other)| *one = (self.combine)(*one, *other));
        }
        self.expected[usize::from(!in_place)][root] = combined;
        let operands: Operands<'_, T> = match in_place {
            true => (&mut self.vectors).into(),
            false => (&self.vectors, &mut self.outputs).into(),
        };
        to.reduce(root, operands, &self.operator).unwrap();
    }

    /// From the vectors to outputs; in place, of outputs, so that vectors stay as different as they
    /// are.
    fn broadcast(&mut self, by: &mut Collectives<'_>, root: usize, in_place: bool) {
        let moved = self.expected[usize::from(in_place)][root].clone();
        self.expected[1].fill(moved);
        let operands: Operands<'_, T> = match in_place {
            true => (&mut self.outputs).into(),
            false => (&self.vectors, &mut self.outputs).into(),
        };
        by.broadcast(root, operands).unwrap();
    }

    /// Some of both, one after the other.
    fn broadcast_and_reduce(&mut self, by: &mut Collectives<'_>, draw: usize) {
        let ranks = self.vectors.len();
        let (one, other) = (draw % ranks, (draw + draw / ranks + 1) % ranks);
        self.reduce(by, one, true);
        self.broadcast(by, one, false);
        if !draw.is_multiple_of(3) {
            self.reduce(by, other, false);
            self.broadcast(by, if draw.is_multiple_of(2) { one } else { other }, true);
        }
    }

    async fn check(&self) {
        assert_eq!(download(&self.vectors).await.unwrap(), self.expected[0], "in place");
        assert_eq!(download(&self.outputs).await.unwrap(), self.expected[1], "to outputs");
    }
}

type Combined<T> = (Operator<T>, fn(T, T) -> T);

fn numbers() -> Combined<u32> {
    (Operator::sum(), u32::wrapping_add)
}

/// Items that do not fill 16 bytes.
fn bytes() -> Combined<[u8; 3]> {
    let combine =
        |one: [u8; 3], other: [u8; 3]| std::array::from_fn(|at| one[at].wrapping_add(other[at]));
    // SAFETY: it touches its arguments only.
    (Operator::new("bytes", unsafe { Trusted::new(BYTES) }, combine), combine)
}

/// The same.
fn words() -> Combined<[u64; 9]> {
    let combine = |one: [u64; 9], other: [u64; 9]| std::array::from_fn(|at| one[at] ^ other[at]);
    // SAFETY: it touches its arguments only.
    (Operator::new("words", unsafe { Trusted::new(WORDS) }, combine), combine)
}

fn runs() -> usize {
    std::env::var("MILLSTREAM_RUNS").map_or(scaled(300, 24), |runs| runs.parse().unwrap())
}

/// `MILLSTREAM_RUNS` (300 unless set, 24 where GPUs are emulated) times: reductions to one
/// root after the other, of items that do and do not fill 16 bytes, with other collectives in
/// between and no pause. Few blocks, each of which has several tiles.
#[test]
fn reductions_to_changing_roots() {
    let runs = runs();
    let context = context();
    let ranks = context.devices().len();
    let mut short = Chained::new(&context, 100, numbers(), |seed| seed as u32);
    let mut long = Chained::new(&context, scaled(1_000_003, 40_003), numbers(), |seed| seed as u32);
    let mut bytes = Chained::new(&context, 50_001, bytes(), |seed| [seed as u8, 1, 2]);
    let mut words = Chained::new(&context, 1003, words(), |seed| [seed as u64; 9]);
    // Only in the way.
    let mut moved = upload(&context, &vec![vec![1u32; 3000]; ranks]).unwrap();
    for blocks in [2, 128] {
        let mut options = CommunicatorOptions::default();
        (options.blocks, options.line_bytes) = (blocks, 1 << 10);
        let mut communicator = Communicator::with_options(&context, options).unwrap();
        let run = async {
            let mut collectives = communicator.begin().await?;
            for run in 0..runs {
                let (root, in_place) = ((run + run / 7) % ranks, run % 5 < 3);
                match run % 6 {
                    0 | 3 => short.reduce(&mut collectives, root, in_place),
                    1 | 4 => long.reduce(&mut collectives, root, in_place),
                    2 => bytes.reduce(&mut collectives, root, in_place),
                    _ => words.reduce(&mut collectives, root, in_place),
                }
                if run % 4 == 1 {
                    collectives.broadcast(root, &mut moved)?;
                }
            }
            collectives.completed().await
        };
        context.block_on(run).unwrap().unwrap();
        let checked = async {
            short.check().await;
            long.check().await;
            bytes.check().await;
            words.check().await;
        };
        context.block_on(checked).unwrap();
    }
}

/// A sixth as often: broadcasts and reductions in turns, each from or to another root, of lengths
/// around those that take one more tile or channel. Four channels, two of them for short vectors.
#[test]
fn broadcasts_between_reductions() {
    let context = context();
    let item = |seed: usize| (seed as u32).wrapping_mul(0x9e37_79b1);
    let lens = [1, 4095, 8192, 8193, 12_288, 12_289, 16_384, 16_385, 40_003];
    let mut numbers = lens.map(|len| Chained::new(&context, len, numbers(), item));
    let mut bytes = Chained::new(&context, 21_847, bytes(), |seed| [seed as u8, 1, 2]);
    let mut words = Chained::new(&context, 1003, words(), |seed| [seed as u64; 9]);
    let mut options = CommunicatorOptions::default();
    (options.blocks, options.line_bytes) = (2, 0);
    let mut communicator = Communicator::with_options(&context, options).unwrap();
    let run = async {
        for run in 0..runs().div_ceil(6) {
            let mut collectives = communicator.begin().await?;
            for (place, numbers) in numbers.iter_mut().enumerate() {
                numbers.broadcast_and_reduce(&mut collectives, 7 * run + place);
                match (run + place) % 3 {
                    0 => bytes.broadcast_and_reduce(&mut collectives, run + place),
                    1 => words.broadcast_and_reduce(&mut collectives, run + place),
                    _ => {}
                }
            }
            collectives.completed().await?;
            for numbers in &numbers {
                numbers.check().await;
            }
            bytes.check().await;
            words.check().await;
        }
        Ok::<(), millstream::flow::Error>(())
    };
    context.block_on(run).unwrap().unwrap();
}

const BYTES: &str = "
    struct Element { unsigned char bytes[3]; };
    __device__ Element combine(Element one, Element other) {
        for (int at = 0; at < 3; ++at) one.bytes[at] += other.bytes[at];
        return one;
    }";

const WORDS: &str = "
    struct Element { millstream::u64 words[9]; };
    __device__ Element combine(Element one, Element other) {
        for (int at = 0; at < 9; ++at) one.words[at] ^= other.words[at];
        return one;
    }";
