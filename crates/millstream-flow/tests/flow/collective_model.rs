//! Collectives beside a sequential model, on whatever devices a context has. Also
//! used by the cases of GPUs.

use std::fmt::Debug;
use std::ops::Range;

use millstream_device::{DeviceBuffer, Trusted};
use millstream_flow::{
    Algorithm, Collectives, Communicator, CommunicatorOptions, Context, Item, Operands, Operator,
    Result, bf16, f16,
};

/// All of them.
pub const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Auto, Algorithm::Ring, Algorithm::Tree, Algorithm::Direct];

/// These, and the rest as usual.
pub fn options(algorithm: Algorithm, packet_bytes: usize) -> CommunicatorOptions {
    let mut options = CommunicatorOptions::default();
    (options.algorithm, options.packet_bytes) = (algorithm, packet_bytes);
    options
}

/// Buffers of the devices with these items.
pub fn upload<T: Item>(context: &Context, items: &[Vec<T>]) -> Result<Vec<DeviceBuffer<T>>> {
    let pairs = context.devices().iter().zip(items);
    pairs
        .map(|(device, items)| {
            let stream = device.stream()?;
            let buffer = stream.uploaded(items.clone())?;
            stream.record()?.synchronize()?;
            Ok(buffer)
        })
        .collect()
}

/// What the buffers hold.
pub async fn download<T: Item>(buffers: &[DeviceBuffer<T>]) -> Result<Vec<Vec<T>>> {
    let mut all = Vec::new();
    for buffer in buffers {
        all.push(buffer.device().stream()?.download(buffer)?.await?);
    }
    Ok(all)
}

/// Ranges of the ranks' parts.
pub fn parts(len: usize, ranks: usize) -> Vec<Range<usize>> {
    let end = |rank: usize| rank * (len / ranks) + rank.min(len % ranks);
    (0..ranks).map(|rank| end(rank)..end(rank + 1)).collect()
}

/// What a case works with.
pub struct Case<'a, T: Item> {
    pub context: &'a Context,
    pub inputs: Vec<Vec<T>>,
    /// What outputs hold before.
    pub empty: T,
    pub operator: Operator<T>,
    pub combine: fn(T, T) -> T,
    pub root: usize,
}

impl<T: Item + PartialEq + Debug> Case<'_, T> {
    fn combined(&self) -> Vec<T> {
        let mut combined = self.inputs[0].clone();
        for input in &self.inputs[1..] {
            combined.iter_mut().zip(input).for_each(|(to, from)| *to = (self.combine)(*to, *from));
        }
        combined
    }

    fn outputs(&self, len: impl Fn(usize) -> usize) -> Vec<Vec<T>> {
        (0..self.inputs.len()).map(|rank| vec![self.empty; len(rank)]).collect()
    }

    /// One operation, in place and not, whose results are checked. What outputs hold
    /// before is `before`, and after, `expected`; the same in place.
    async fn check(
        &self,
        communicator: &mut Communicator,
        what: &str,
        (before, expected): (Vec<Vec<T>>, Vec<Vec<T>>),
        in_place: Option<Vec<Vec<T>>>,
        operation: impl Fn(&mut Collectives<'_>, Operands<'_, T>) -> Result<()>,
    ) -> Result<()> {
        let inputs = upload(self.context, &self.inputs)?;
        let mut outputs = upload(self.context, &before)?;
        let mut buffers = upload(self.context, &self.inputs)?;
        let mut collectives = communicator.begin().await?;
        operation(&mut collectives, (&inputs, &mut outputs).into())?;
        if in_place.is_some() {
            operation(&mut collectives, (&mut buffers).into())?;
        }
        collectives.completed().await?;
        assert_eq!(download(&outputs).await?, expected, "{what}");
        assert_eq!(download(&inputs).await?, self.inputs, "inputs of {what}");
        if let Some(in_place) = in_place {
            assert_eq!(download(&buffers).await?, in_place, "{what} in place");
        }
        Ok(())
    }

    /// Every operation.
    pub async fn all(&self, communicator: &mut Communicator) -> Result<()> {
        let Case { inputs, root, operator, empty, .. } = self;
        let (ranks, len, root) = (inputs.len(), inputs[0].len(), *root);
        let combined = self.combined();
        let parts = parts(len, ranks);
        let whole = self.outputs(|_| len);

        let everywhere = vec![inputs[root].clone(); ranks];
        let outcome = (whole.clone(), everywhere.clone());
        self.check(
            communicator,
            "broadcast",
            outcome,
            Some(everywhere),
            |collectives, operands| collectives.broadcast(root, operands),
        )
        .await?;

        let (mut expected, mut in_place) = (whole.clone(), inputs.clone());
        (expected[root], in_place[root]) = (combined.clone(), combined.clone());
        let outcome = (whole.clone(), expected);
        self.check(communicator, "reduce", outcome, Some(in_place), |collectives, operands| {
            collectives.reduce(root, operands, operator)
        })
        .await?;

        let everywhere = vec![combined.clone(); ranks];
        let outcome = (whole.clone(), everywhere.clone());
        self.check(
            communicator,
            "all-reduce",
            outcome,
            Some(everywhere),
            |collectives, operands| collectives.all_reduce(operands, operator),
        )
        .await?;

        let mut in_place = inputs.clone();
        for (rank, part) in parts.iter().enumerate() {
            in_place[rank][part.clone()].copy_from_slice(&combined[part.clone()]);
        }
        let expected = parts.iter().map(|part| combined[part.clone()].to_vec()).collect();
        let outcome = (self.outputs(|rank| parts[rank].len()), expected);
        self.check(
            communicator,
            "reduce-scatter",
            outcome,
            Some(in_place),
            |collectives, operands| collectives.reduce_scatter(operands, operator),
        )
        .await?;

        let gathered: Vec<T> = inputs.concat();
        let mut in_place = vec![*empty; len];
        for (rank, part) in parts.iter().enumerate() {
            in_place[part.clone()].copy_from_slice(&inputs[rank][part.clone()]);
        }
        let outcome = (self.outputs(|_| gathered.len()), vec![gathered.clone(); ranks]);
        let in_place = Some(vec![in_place; ranks]);
        self.check(communicator, "all-gather", outcome, in_place, |collectives, operands| {
            collectives.all_gather(operands)
        })
        .await?;

        let received = |to: usize| -> Vec<T> {
            inputs.iter().flat_map(|input| input[parts[to].clone()].to_vec()).collect()
        };
        let expected: Vec<Vec<T>> = (0..ranks).map(received).collect();
        let in_place = len.is_multiple_of(ranks).then(|| expected.clone());
        let outcome = (self.outputs(|rank| ranks * parts[rank].len()), expected);
        self.check(communicator, "all-to-all", outcome, in_place, |collectives, operands| {
            collectives.all_to_all(operands)
        })
        .await
    }
}

/// Every operation in every way on these devices.
pub async fn all_types(context: &Context, len: usize, packet_bytes: usize) -> Result<()> {
    let ranks = context.devices().len();
    for algorithm in ALGORITHMS {
        let mut communicator =
            Communicator::with_options(context, options(algorithm, packet_bytes))?;
        macro_rules! case {
            ($number:ty, $from:expr, $operator:expr, $combine:expr) => {{
                let item = |rank: usize, at: usize| $from(((at * 7 + rank * 13) % 101) as u8);
                let inputs = (0..ranks).map(|rank| (0..len).map(|at| item(rank, at)).collect());
                let (inputs, empty) = (inputs.collect(), $from(99_u8));
                let (operator, combine) = ($operator, $combine as fn($number, $number) -> $number);
                let root = len % ranks;
                let case = Case { context, inputs, empty, operator, combine, root };
                case.all(&mut communicator).await?;
            }};
        }
        case!(u32, u32::from, Operator::sum(), u32::wrapping_add);
        case!(u64, u64::from, Operator::min(), std::cmp::min);
        case!(i32, i32::from, Operator::max(), std::cmp::max);
        case!(f32, f32::from, Operator::sum(), |one, other| one + other);
        case!(f64, f64::from, Operator::max(), f64::max);
        case!(u64, u64::from, bits(), |one, other| one ^ other);
        // So few that every sum is a number of 11 bits.
        case!(f16, f16::from, Operator::sum(), |one, other| one + other);
        case!(bf16, bf16::from, Operator::min(), |one, other| if one < other {
            one
        } else {
            other
        });
    }
    Ok(())
}

/// Items of a program's own, none of which fill 8 or 16 bytes: three bytes, nine words, and more than
/// a slot of a chain. By kernels of peers, in lines and without, and in packets.
pub async fn odd_types(context: &Context, len: usize) -> Result<()> {
    let ranks = context.devices().len();
    let mut without_lines = options(Algorithm::Auto, 1000);
    without_lines.line_bytes = 0;
    let in_packets = options(Algorithm::Ring, 1000);
    for options in [options(Algorithm::Auto, 1000), without_lines, in_packets] {
        let mut communicator = Communicator::with_options(context, options)?;
        macro_rules! case {
            ($len:expr, $empty:expr, $item:expr, $operator:expr, $combine:expr) => {{
                let (len, root) = ($len, $len % ranks);
                let inputs = (0..ranks).map(|rank| (0..len).map(|at| $item(rank, at)).collect());
                let (inputs, operator, combine) = (inputs.collect(), $operator, $combine);
                let case = Case { context, inputs, empty: $empty, operator, combine, root };
                case.all(&mut communicator).await?;
            }};
        }
        let bytes = |rank: usize, at: usize| [at as u8, (at * 7) as u8, (at + rank * 13) as u8];
        case!(len, [99; 3], bytes, sums(), add_bytes as Combine<[u8; 3]>);
        let words =
            |rank: usize, at: usize| [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|word| (word * at) ^ rank);
        let words = |rank, at| words(rank, at).map(|word| word as u64);
        let differ = differ_words as Combine<[u64; 9]>;
        case!(len, [99; 9], words, differences(9, differ), differ);
        let page = |rank: usize, at: usize| [[(at * 31 + rank) as u64; 256]; 9];
        let differ = differ_pages as Combine<Page>;
        case!(len % 9, [[99; 256]; 9], page, differences(9 * 256, differ), differ);
    }
    Ok(())
}

type Combine<T> = fn(T, T) -> T;
type Page = [[u64; 256]; 9];

fn add_bytes(one: [u8; 3], other: [u8; 3]) -> [u8; 3] {
    [0, 1, 2].map(|at| one[at].wrapping_add(other[at]))
}

fn differ_words<const N: usize>(mut one: [u64; N], other: [u64; N]) -> [u64; N] {
    one.iter_mut().zip(other).for_each(|(to, from)| *to ^= from);
    one
}

fn differ_pages(mut one: Page, other: Page) -> Page {
    one.iter_mut().zip(other).for_each(|(to, from)| *to = differ_words(*to, from));
    one
}

fn sums() -> Operator<[u8; 3]> {
    let cuda = "struct Element { unsigned char bytes[3]; };
                __device__ Element combine(Element one, Element other) {
                    for (int at = 0; at < 3; ++at) one.bytes[at] += other.bytes[at];
                    return one;
                }";
    // SAFETY: it touches its arguments only.
    Operator::new("sums of bytes", unsafe { Trusted::new(cuda) }, add_bytes)
}

/// Of items of so many words.
fn differences<T: Item>(words: usize, combine: Combine<T>) -> Operator<T> {
    let cuda = format!(
        "struct Element {{ millstream::u64 words[{words}]; }};
         __device__ Element combine(Element one, Element other) {{
             for (int at = 0; at < {words}; ++at) one.words[at] ^= other.words[at];
             return one;
         }}"
    );
    // SAFETY: it touches its arguments only.
    Operator::new("differences of words", unsafe { Trusted::new(cuda) }, combine)
}

/// One of a program's own.
pub fn bits() -> Operator<u64> {
    let cuda = "using Element = millstream::u64;
                __device__ Element combine(Element one, Element other) { return one ^ other; }";
    // SAFETY: it touches its arguments only.
    Operator::new("exclusive or", unsafe { Trusted::new(cuda) }, |one, other| one ^ other)
}
