//! Vectors that collectives change again and again, beside what they must then hold.

use std::fmt::Debug;
use std::ops::Range;

use millstream::device::{DeviceBuffer, Trusted};
use millstream::flow::{Collectives, Context, Item, Operands, Operator};

use super::scaled;
use crate::collective_model::{download, parts, upload};

/// `MILLSTREAM_RUNS`, or 300, or 24 where GPUs are emulated.
pub(super) fn runs() -> usize {
    std::env::var("MILLSTREAM_RUNS").map_or(scaled(300, 24), |runs| runs.parse().unwrap())
}

pub(super) type Combined<T> = (Operator<T>, fn(T, T) -> T);

/// Buffers of all ranks, and what they must hold.
struct Held<T: Item> {
    buffers: Vec<DeviceBuffer<T>>,
    expected: Vec<Vec<T>>,
}

impl<T: Item + PartialEq + Debug> Held<T> {
    fn new(context: &Context, expected: Vec<Vec<T>>) -> Held<T> {
        Held { buffers: upload(context, &expected).unwrap(), expected }
    }

    /// Those of all ranks, combined.
    fn combined(&self, combine: fn(T, T) -> T) -> Vec<T> {
        let mut combined = self.expected[0].clone();
        for vector in &self.expected[1..] {
            combined.iter_mut().zip(vector).for_each(|(one, other)| *one = combine(*one, *other));
        }
        combined
    }

    async fn check(&self, what: &str) {
        assert_eq!(download(&self.buffers).await.unwrap(), self.expected, "{what}");
    }
}

/// A vector of each rank, of one length, an output as long, and one of the rank's part.
pub(super) struct Vectors<T: Item> {
    combined: Combined<T>,
    parts: Vec<Range<usize>>,
    vectors: Held<T>,
    outputs: Held<T>,
    shares: Held<T>,
}

impl<T: Item + PartialEq + Debug> Vectors<T> {
    pub(super) fn new(
        context: &Context,
        len: usize,
        combined: Combined<T>,
        item: impl Fn(usize) -> T,
    ) -> Vectors<T> {
        let ranks = context.devices().len();
        let items = |rank: usize| (0..len).map(|at| item(at * 31 + rank * 7)).collect();
        let items: Vec<Vec<T>> = (0..ranks).map(items).collect();
        let parts = parts(len, ranks);
        let shares = parts.iter().zip(&items).map(|(part, items)| items[part.clone()].to_vec());
        let shares = Held::new(context, shares.collect());
        let (vectors, outputs) = (Held::new(context, items.clone()), Held::new(context, items));
        Vectors { combined, parts, vectors, outputs, shares }
    }

    pub(super) fn reduce(&mut self, to: &mut Collectives<'_>, root: usize, in_place: bool) {
        let Vectors { vectors, outputs, combined: (operator, combine), .. } = self;
        let combined = vectors.combined(*combine);
        let operands: Operands<'_, T> = if in_place {
            vectors.expected[root] = combined;
            (&mut vectors.buffers).into()
        } else {
            outputs.expected[root] = combined;
            (&vectors.buffers, &mut outputs.buffers).into()
        };
        to.reduce(root, operands, operator).unwrap();
    }

    /// From the vectors to outputs; in place, of outputs, so that vectors stay as different as they
    /// are.
    pub(super) fn broadcast(&mut self, by: &mut Collectives<'_>, root: usize, in_place: bool) {
        let Vectors { vectors, outputs, .. } = self;
        let from = if in_place { &*outputs } else { &*vectors };
        let moved = from.expected[root].clone();
        outputs.expected.fill(moved);
        let operands: Operands<'_, T> = match in_place {
            true => (&mut outputs.buffers).into(),
            false => (&vectors.buffers, &mut outputs.buffers).into(),
        };
        by.broadcast(root, operands).unwrap();
    }

    pub(super) fn all_reduce(&mut self, by: &mut Collectives<'_>, in_place: bool) {
        let Vectors { vectors, outputs, combined: (operator, combine), .. } = self;
        let combined = vectors.combined(*combine);
        let operands: Operands<'_, T> = if in_place {
            vectors.expected.fill(combined);
            (&mut vectors.buffers).into()
        } else {
            outputs.expected.fill(combined);
            (&vectors.buffers, &mut outputs.buffers).into()
        };
        by.all_reduce(operands, operator).unwrap();
    }

    /// From the vectors to shares, or in place, after which all vectors differ.
    pub(super) fn reduce_scatter(&mut self, by: &mut Collectives<'_>, in_place: bool) {
        let Vectors { vectors, shares, combined: (operator, combine), parts, .. } = self;
        let combined = vectors.combined(*combine);
        for (rank, part) in parts.iter().enumerate() {
            match in_place {
                true => &mut vectors.expected[rank][part.clone()],
                false => &mut shares.expected[rank],
            }
            .copy_from_slice(&combined[part.clone()]);
        }
        let operands: Operands<'_, T> = match in_place {
            true => (&mut vectors.buffers).into(),
            false => (&vectors.buffers, &mut shares.buffers).into(),
        };
        by.reduce_scatter(operands, operator).unwrap();
    }

    /// From shares to outputs, or in place, of the vectors.
    pub(super) fn all_gather(&mut self, by: &mut Collectives<'_>, in_place: bool) {
        let Vectors { vectors, outputs, shares, parts, .. } = self;
        let operands: Operands<'_, T> = if in_place {
            let own = parts.iter().zip(&vectors.expected).map(|(part, own)| &own[part.clone()]);
            let gathered = own.collect::<Vec<_>>().concat();
            vectors.expected.fill(gathered);
            (&mut vectors.buffers).into()
        } else {
            outputs.expected.fill(shares.expected.concat());
            (&shares.buffers, &mut outputs.buffers).into()
        };
        by.all_gather(operands).unwrap();
    }

    pub(super) async fn check(&self) {
        self.vectors.check("in place").await;
        self.outputs.check("to outputs").await;
        self.shares.check("to shares").await;
    }
}

pub(super) fn numbers() -> Combined<u32> {
    (Operator::sum(), u32::wrapping_add)
}

/// Sums that never end at 0, as others do where vectors of as many ranks as are a power of two are
/// added up in place again and again.
pub(super) fn remainders<T: Item>(
    (element, prime): (&str, &str),
    combine: fn(T, T) -> T,
) -> Combined<T> {
    let text = format!(
        "using Element = {element};
         __device__ Element combine(Element one, Element other) {{
             return Element((one + other) % {prime});
         }}"
    );
    // SAFETY: it touches its arguments only.
    (Operator::new("remainders", unsafe { Trusted::new(text) }, combine), combine)
}

/// Items that do not fill 16 bytes.
pub(super) fn bytes() -> Combined<[u8; 3]> {
    let combine =
        |one: [u8; 3], other: [u8; 3]| std::array::from_fn(|at| one[at].wrapping_add(other[at]));
    // SAFETY: it touches its arguments only.
    (Operator::new("bytes", unsafe { Trusted::new(BYTES) }, combine), combine)
}

/// The same.
pub(super) fn words() -> Combined<[u64; 9]> {
    let combine = |one: [u64; 9], other: [u64; 9]| std::array::from_fn(|at| one[at] ^ other[at]);
    // SAFETY: it touches its arguments only.
    (Operator::new("words", unsafe { Trusted::new(WORDS) }, combine), combine)
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
