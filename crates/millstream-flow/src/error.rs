//! What can go wrong in a dataflow graph.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use millstream_device::{DeviceId, StreamKind, panic_text};

/// The result of a dataflow operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a dataflow graph, or a call on it, failed.
///
/// Cheap to clone: when a graph fails, every pending call gets the same first
/// cause.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device refused or failed an operation.
    #[error(transparent)]
    Device(#[from] millstream_device::Error),
    /// A task of the graph returned an error of its own: see [`Error::task`].
    #[error(transparent)]
    Task(Arc<dyn std::error::Error + Send + Sync>),
    /// A panic in a task of the graph, in a routing policy, or in the closure that launches a gang's kernels.
    #[error("the program's code panicked: {message}")]
    TaskPanicked {
        /// What the panic said.
        message: String,
    },
    /// A link from an endpoint to itself \[G §3\].
    #[error("{endpoint} cannot have a link to itself")]
    SelfLoop {
        /// The endpoint.
        endpoint: String,
    },
    /// A second link between the same endpoints \[G §3\]; use another router.
    #[error("there is a link from {from} to {to} already: another one needs a router of its own")]
    DuplicateLink {
        /// Source.
        from: String,
        /// Destination.
        to: String,
    },
    /// An endpoint that the graph's context does not manage.
    #[error("{name} does not belong to this context, but to another")]
    ForeignDevice {
        /// The device.
        device: DeviceId,
        /// Its name.
        name: String,
    },
    /// A link or router added to a graph that already runs.
    #[error("the graph runs: links and routers can no longer be added")]
    Sealed,
    /// A message sent before the graph runs.
    #[error("the graph does not run yet: nothing can be sent")]
    NotRunning,
    /// The graph has ended.
    #[error("the graph has ended")]
    Ended,
    /// The graph, or the future that runs it, was dropped.
    #[error("the graph was cancelled")]
    Cancelled,
    /// A packet that cannot hold one item.
    #[error("packets of {bytes} bytes cannot hold an item of {item_bytes} bytes")]
    PacketTooSmall {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes of one item.
        item_bytes: usize,
    },
    /// A link with no buffers.
    #[error("a link needs at least one buffer")]
    NoBuffers,
    /// A routing policy that named no destination.
    #[error("the routing policy names no destination for a message from {from}")]
    EmptyRoute {
        /// Source of the message.
        from: String,
    },
    /// A routing policy that named an endpoint the source cannot reach.
    #[error("the routing policy sends a message from {from} to {to}, which it cannot reach")]
    UnreachableDestination {
        /// Source of the message.
        from: String,
        /// The destination named.
        to: String,
    },
    /// A sender dropped without `shutdown`.
    #[error("the sender of {from} was dropped without a shutdown, which says that all is sent")]
    SenderDropped {
        /// Its endpoint.
        from: String,
    },
    /// A receiver dropped before the end of its stream.
    #[error("the receiver of {to} was dropped before the end of its stream")]
    ReceiverDropped {
        /// Its endpoint.
        to: String,
    },
    /// A buffer given up while an operation on it is not known to be over.
    #[error("{buffer} was {action} in flight: {access}{}", remedy(action))]
    InFlight {
        /// The buffer, with its label.
        buffer: String,
        /// "dropped", "released" or "forwarded"; of segments "begun anew", and of their packets
        /// "filled", "read", "copied" or "emptied".
        action: &'static str,
        /// The operation and the event to wait for.
        access: String,
    },
    /// A segment to be forwarded by a sender of an endpoint other than the one that the segment lies on.
    #[error("a segment on {found} cannot be forwarded from {expected}")]
    SegmentElsewhere {
        /// The sender's endpoint.
        expected: String,
        /// The segment's endpoint.
        found: String,
    },
    /// A send buffer of another link.
    #[error("a send buffer of {of} belongs to another link than that from {from}")]
    ForeignBuffer {
        /// The endpoint that it was made for.
        of: String,
        /// The sender's endpoint.
        from: String,
    },
    /// A counted send whose count exceeds the buffer.
    #[error("{count} items counted in a send buffer of {capacity}")]
    CountTooLarge {
        /// What the device counted.
        count: usize,
        /// Items in the buffer.
        capacity: usize,
    },
    /// Devices whose kernels cannot wait for each other.
    #[error(
        "kernels that wait for each other need up to {} devices that are all peers, GPUs or host devices alone, not these {devices}",
        crate::Gang::MOST
    )]
    NotAGang {
        /// How many they are.
        devices: usize,
    },
    /// A kernel that waits for others while it runs was launched on a stream of the wrong kind.
    #[error(
        "{kernel} waits while it runs: it needs a stream of kind {}, not {found}",
        StreamKind::Gang
    )]
    NotAGangStream {
        /// The kernel.
        kernel: String,
        /// The kind of its stream.
        found: StreamKind,
    },
    /// A kernel of a gang that has waited for another for longer than its patience.
    #[error("a kernel of the gang has waited for another for as long as its patience allows")]
    PeerIsLate,
    /// A kernel calls resident collectives that an earlier kernel has not left: that kernel was
    /// stopped, or ended without [leaving](crate::BlockCollectives::leave).
    #[error("a kernel before has not left its resident collectives: make them anew")]
    CollectivesNotLeft,
    /// A kernel calls resident collectives from more blocks than they were made for.
    #[error("a block calls resident collectives that were made for fewer blocks")]
    CollectivesWithoutMemory,
    /// A link between kernels of which one is a GPU's and the other a host twin.
    #[error("a link between kernels of {from} and {to}: both must be GPUs, or neither")]
    MixedLink {
        /// Source.
        from: String,
        /// Destination.
        to: String,
    },
    /// An end of a link between kernels that has waited for the other for longer than its patience.
    #[error("an end of the {link} did not come within {patience:?}")]
    LinkTimeout {
        /// The link.
        link: String,
        /// How long the other end has waited.
        patience: Duration,
    },
    /// A collective with buffers of too few or too many ranks.
    #[error("{operation} needs one buffer of each of {expected} ranks, not {found}")]
    BufferCount {
        /// The collective.
        operation: &'static str,
        /// Ranks.
        expected: usize,
        /// Buffers given.
        found: usize,
    },
    /// A collective with a buffer of another device than its rank's.
    #[error("{operation}: the buffer of rank {rank} is on {found}, not on {expected}")]
    BufferElsewhere {
        /// The collective.
        operation: &'static str,
        /// The rank.
        rank: usize,
        /// Its device.
        expected: String,
        /// The buffer's.
        found: String,
    },
    /// A collective with a buffer of the wrong length.
    #[error("{operation}: the buffer of rank {rank} has {found} items, not {expected}")]
    BufferLength {
        /// The collective.
        operation: &'static str,
        /// The rank.
        rank: usize,
        /// Items that it must have.
        expected: usize,
        /// Items that it has.
        found: usize,
    },
    /// A collective from or to a rank that does not exist.
    #[error("{operation} with root {root} of {ranks} ranks")]
    NoSuchRank {
        /// The collective.
        operation: &'static str,
        /// The rank asked for.
        root: usize,
        /// Ranks.
        ranks: usize,
    },
    /// A packet that was not filled, or not emptied, in time.
    #[error("packet {packet} of {segment} did not come within {patience:?}")]
    PacketTimeout {
        /// The segment.
        segment: String,
        /// The packet.
        packet: usize,
        /// How long it was waited for.
        patience: Duration,
    },
    /// The program has ended all waiting for packets.
    #[error("waiting for packets was ended: all were released")]
    Released,
    /// Host code filled a packet that was already full, while a kernel that has the segment may be
    /// reading that packet.
    #[error(
        "packet {packet} of {segment} is full, and a kernel may be reading it; fill it when it is empty again"
    )]
    PacketFull {
        /// The segment.
        segment: String,
        /// The packet.
        packet: usize,
    },
    /// A packet that was read before it was full.
    #[error("packet {packet} of {segment} is not full")]
    PacketEmpty {
        /// The segment.
        segment: String,
        /// The packet.
        packet: usize,
    },
    /// Host code looked at packets of a segment that was made
    /// [unseen by the host](crate::PacketShape::unseen_by_host).
    #[error("{segment} was made unseen by the host")]
    UnseenPackets {
        /// The segment.
        segment: String,
    },
    /// A packet that is copied to itself.
    #[error("packet {packet} of {segment} cannot be copied to itself")]
    PacketOntoItself {
        /// The segment.
        segment: String,
        /// The packet.
        packet: usize,
    },
    /// A packet that a segment does not have.
    #[error("packet {packet} of {segment}, which has {packets}")]
    NoSuchPacket {
        /// The segment.
        segment: String,
        /// The packet.
        packet: usize,
        /// Packets that it has.
        packets: usize,
    },
}

/// What else the caller can do about a buffer in flight.
fn remedy(action: &str) -> &'static str {
    match action {
        "dropped" | "released" => ", or give it back after the stream that uses it",
        _ => "",
    }
}

impl Error {
    /// What a caught panic said.
    pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Error {
        let message = panic_text(panic).unwrap_or_else(|| "no message".to_string());
        Error::TaskPanicked { message }
    }

    /// Wraps the error of a task.
    ///
    /// ```
    /// let error = millstream_flow::Error::task(std::fmt::Error);
    /// assert!(matches!(error, millstream_flow::Error::Task(_)));
    /// ```
    pub fn task(error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Task(Arc::new(error))
    }
}

/// The error of a task, as `?` gives it.
impl From<Box<dyn std::error::Error + Send + Sync>> for Error {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
        Error::Task(Arc::from(error))
    }
}
