//! What the calls of a graph wait for.

use std::fmt;

/// What a pending call of a graph, or a message that has not gone out, waits for: see
/// [`GraphStatistics::waits`](crate::GraphStatistics::waits).
///
/// Displayed, it is one line of readable text:
///
/// ```
/// use millstream_flow::Wait;
///
/// let (to, open_senders) = ("cuda:0".to_string(), vec!["host".to_string(), "cuda:1".to_string()]);
/// let wait = Wait::Packet { to, open_senders, held: 1, packet_buffers: 2 };
/// assert_eq!(wait.to_string(), "cuda:0 waits for a packet from host or cuda:1, and holds 1 of its \
///     2 packet buffers");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// [`Receiver::recv`](crate::Receiver::recv) waits for a packet.
    Packet {
        /// The endpoint that receives.
        to: String,
        /// Endpoints whose senders can reach this receiver, and which have not shut down or still
        /// have messages that were not offered.
        open_senders: Vec<String>,
        /// Packet buffers that have been received or are being written in place, and were not given back yet.
        held: usize,
        /// Packet buffers that the receiver has in all.
        packet_buffers: usize,
    },
    /// Messages, or calls of [`Sender::packet`](crate::Sender::packet), wait for packet buffers of a
    /// receiver.
    PacketBuffers {
        /// The endpoint that receives.
        to: String,
        /// Number of messages and calls that wait.
        offers: usize,
        /// Packets that have arrived, and that nobody has taken with
        /// [`Receiver::recv`](crate::Receiver::recv).
        arrived: usize,
        /// Packet buffers that have been received or are being written in place, and were not given back yet.
        held: usize,
        /// Packet buffers that the receiver has in all.
        packet_buffers: usize,
    },
    /// [`Sender::buffer`](crate::Sender::buffer) waits for a send buffer.
    SendBuffer {
        /// The endpoint that sends.
        from: String,
        /// Number of send buffers that may be out at once; all of them are.
        send_buffers: usize,
    },
    /// [`Sender::flushed`](crate::Sender::flushed) or [`Sender::send_all`](crate::Sender::send_all)
    /// waits until messages have packet buffers.
    Flushed {
        /// The endpoint that sends.
        from: String,
        /// Messages of this sender that still lack a packet buffer for some packet, or are not produced yet.
        messages: usize,
    },
    /// [`Sent`](crate::Sent) waits until its message has been copied.
    Sent {
        /// The endpoint that sends.
        from: String,
    },
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Packet { to, open_senders, held, packet_buffers } => {
                let awaited = match open_senders.is_empty() {
                    true => "the rest of what was sent".to_string(),
                    false => format!("a packet from {}", open_senders.join(" or ")),
                };
                let holds = format!("holds {held} of its {packet_buffers} packet buffers");
                write!(formatter, "{to} waits for {awaited}, and {holds}")
            }
            Wait::PacketBuffers { to, offers, arrived, held, packet_buffers } => {
                let wait = if *offers == 1 { "message waits" } else { "messages wait" };
                write!(
                    formatter,
                    "{offers} {wait} for packet buffers of {to}, which holds {held} of \
                     {packet_buffers} and has not received {arrived}"
                )
            }
            Wait::SendBuffer { from, send_buffers } => {
                write!(formatter, "{from} waits for a send buffer, and all {send_buffers} are out")
            }
            Wait::Flushed { from, messages } => {
                let messages = match messages {
                    1 => "a message of its own has".to_string(),
                    _ => format!("{messages} messages of its own have"),
                };
                write!(formatter, "{from} waits until {messages} packet buffers")
            }
            Wait::Sent { from } => {
                write!(formatter, "{from} waits until a message out of its own buffer is copied")
            }
        }
    }
}
