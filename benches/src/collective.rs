//! The collectives that benches time.

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
