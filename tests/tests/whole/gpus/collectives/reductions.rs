//! Reductions whose root changes from one to the next.

use millstream::device::{DeviceBuffer, Trusted};
use millstream::flow::{
    Collectives, Communicator, CommunicatorOptions, Context, Item, Operands, Operator,
};

use super::{context, scaled};
use crate::collective_model::{download, upload};

/// Vectors that are reduced again and again, and what they must then hold.
struct Reduced<T: Item> {
    operator: Operator<T>,
    combine: fn(T, T) -> T,
    vectors: Vec<DeviceBuffer<T>>,
    outputs: Vec<DeviceBuffer<T>>,
    expected: [Vec<Vec<T>>; 2],
}

impl<T: Item + PartialEq + std::fmt::Debug> Reduced<T> {
    fn new(
        context: &Context,
        len: usize,
        (operator, combine): (Operator<T>, fn(T, T) -> T),
        item: impl Fn(usize) -> T,
    ) -> Reduced<T> {
        let items = |rank: usize| (0..len).map(|at| item(at * 31 + rank * 7)).collect();
        let items: Vec<Vec<T>> = (0..context.devices().len()).map(items).collect();
        let vectors = upload(context, &items).unwrap();
        let outputs = upload(context, &items).unwrap();
        Reduced { operator, combine, vectors, outputs, expected: [items.clone(), items] }
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

    async fn check(&self) {
        assert_eq!(download(&self.vectors).await.unwrap(), self.expected[0], "in place");
        assert_eq!(download(&self.outputs).await.unwrap(), self.expected[1], "to outputs");
    }
}

/// `MILLSTREAM_RUNS` (300 unless set, 24 where GPUs are emulated) times: reductions to one
/// root after the other, of items that do and do not fill 16 bytes, with other collectives in
/// between and no pause. Few blocks, each of which has several tiles.
#[test]
fn reductions_to_changing_roots() {
    let runs =
        std::env::var("MILLSTREAM_RUNS").map_or(scaled(300, 24), |runs| runs.parse().unwrap());
    let context = context();
    let ranks = context.devices().len();
    // SAFETY: they touch their arguments only.
    let (byte_text, word_text) = unsafe { (Trusted::new(BYTES), Trusted::new(WORDS)) };
    let bytes = (
        Operator::new("bytes", byte_text, |one: [u8; 3], other: [u8; 3]| {
            std::array::from_fn(|at| one[at].wrapping_add(other[at]))
        }),
        (|one, other| std::array::from_fn(|at| one[at].wrapping_add(other[at])))
            as fn([u8; 3], [u8; 3]) -> [u8; 3],
    );
    let words = (
        Operator::new("words", word_text, |one: [u64; 9], other: [u64; 9]| {
            std::array::from_fn(|at| one[at] ^ other[at])
        }),
        (|one, other| std::array::from_fn(|at| one[at] ^ other[at]))
            as fn([u64; 9], [u64; 9]) -> [u64; 9],
    );
    let number = (Operator::sum(), u32::wrapping_add as fn(u32, u32) -> u32);
    let mut short = Reduced::new(&context, 100, number.clone(), |seed| seed as u32);
    let mut long = Reduced::new(&context, scaled(1_000_003, 40_003), number, |seed| seed as u32);
    let mut bytes = Reduced::new(&context, 50_001, bytes, |seed| [seed as u8, 1, 2]);
    let mut words = Reduced::new(&context, 1003, words, |seed| [seed as u64; 9]);
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
