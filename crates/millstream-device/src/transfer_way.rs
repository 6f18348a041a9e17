//! The ways on which bytes go from one memory to another \[G §2.1\].

use serde::{Deserialize, Serialize};

/// How bytes get from the memory of one device into that of another \[G §2.1,
/// Fig. 2c\].
///
/// ```
/// use millstream_device::TransferWay;
///
/// assert_eq!(TransferWay::ALL.map(|way| way.to_string()), ["copy", "push", "host"]);
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum TransferWay {
    /// A copy engine, which the host tells to (*peer transfer*). Between devices that
    /// do not reach each other's memory, two of them: into memory of the host and out
    /// of it.
    #[default]
    Copy,
    /// A kernel of the source writes into the destination's memory (*direct access*).
    Push,
    /// A kernel of the source writes into mapped memory of the host, and one of the
    /// destination reads it there (*indirect push and pull*).
    Host,
}

impl TransferWay {
    /// Every way.
    pub const ALL: [TransferWay; 3] = [TransferWay::Copy, TransferWay::Push, TransferWay::Host];
}

impl std::fmt::Display for TransferWay {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(match self {
            TransferWay::Copy => "copy",
            TransferWay::Push => "push",
            TransferWay::Host => "host",
        })
    }
}
