//! The collectives that benches time.

use std::fmt::Display;

use millstream::flow::{Number, bf16, f16};

/// The items of vectors.
pub trait Element: Number + PartialEq + Display {
    /// The type's name.
    const NAME: &'static str;
    /// `ncclDataType_t` of this type.
    const NCCL: i32;

    /// A whole number up to 256, which each of these types holds exactly.
    fn of(number: u16) -> Self;
}

impl Element for f32 {
    const NAME: &str = "f32";
    const NCCL: i32 = 7;

    fn of(number: u16) -> f32 {
        f32::from(number)
    }
}

impl Element for f16 {
    const NAME: &str = "f16";
    const NCCL: i32 = 6;

    fn of(number: u16) -> f16 {
        f16::from_f32(f32::from(number))
    }
}

impl Element for bf16 {
    const NAME: &str = "bf16";
    const NCCL: i32 = 9;

    fn of(number: u16) -> bf16 {
        bf16::from_f32(f32::from(number))
    }
}

/// An operation of all ranks on a vector each, in place but for all-to-all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// The first rank's vector, to all.
    Broadcast,
    /// The sum of all vectors, to the first rank.
    Reduce,
    /// The sum of all vectors, to all.
    AllReduce,
    /// The sum of all vectors, to each rank its part.
    ReduceScatter,
    /// Each rank's part, to all.
    AllGather,
    /// From each rank to each the part with the receiver's number.
    AllToAll,
}

impl Collective {
    /// All of them.
    pub const ALL: [Collective; 6] = [
        Collective::Broadcast,
        Collective::Reduce,
        Collective::AllReduce,
        Collective::ReduceScatter,
        Collective::AllGather,
        Collective::AllToAll,
    ];

    /// The usual name.
    pub fn name(self) -> &'static str {
        match self {
            Collective::Broadcast => "broadcast",
            Collective::Reduce => "reduce",
            Collective::AllReduce => "all-reduce",
            Collective::ReduceScatter => "reduce-scatter",
            Collective::AllGather => "all-gather",
            Collective::AllToAll => "all-to-all",
        }
    }

    /// What of a vector each link carries among `ranks`, if the algorithm is the best
    /// there is: bus bandwidth, as NCCL's own tests count it.
    pub fn share(self, ranks: usize) -> f64 {
        let others = (ranks as f64 - 1.0) / ranks as f64;
        match self {
            Collective::Broadcast | Collective::Reduce => 1.0,
            Collective::AllReduce => 2.0 * others,
            Collective::ReduceScatter | Collective::AllGather | Collective::AllToAll => others,
        }
    }
}
