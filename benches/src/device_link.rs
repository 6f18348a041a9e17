//! Links between kernels that stay on their devices: the throughput of a pair, the latency of a
//! packet, and chains of links that pass on what they receive.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use millstream::device::{
    CudaSource, Device, Guarded, GuardedBuffer, Kernel, Shared, SharedBuffer, Step, StreamKind,
    Trusted, Value,
};
use millstream::flow::{Context, DeviceLink, DeviceLinkEnd, Gang, GangMember, LinkRoom, Result};

/// What packets are made of: 16 bytes, `uint4` of the kernels.
pub type Item = [u32; 4];
/// Bytes of it.
pub const ITEM_BYTES: usize = size_of::<Item>();

/// How long the kernels wait for each other.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most channels: as many blocks as an H200 has multiprocessors, except those that a gang needs.
const MOST_CHANNELS: usize = 128;

const SOURCE: &str = include_str!("device_link/kernels.cu");

const fn source(entry: &'static str) -> Trusted<CudaSource> {
    let source = CudaSource::new("device_link.cu", entry, SOURCE).resident().threads(1024);
    // SAFETY: like their twins, the kernels use their arguments only as the signatures say.
    unsafe { Trusted::new(source) }
}

/// Words of the report for each end: the number of blocks that gave up, and of packets that were wrong.
const WORDS_OF_END: usize = 2;
const WRONG: usize = 1;

fn first_word(channel: usize, packet: u32) -> u32 {
    packet.wrapping_mul(1024).wrapping_add(channel as u32).wrapping_mul(2_654_435_761)
}

fn fill_slot(slot: &mut [Item], base: u32) -> usize {
    for (word, to) in slot.as_flattened_mut().iter_mut().enumerate() {
        *to = base.wrapping_add(word as u32);
    }
    slot.len()
}

fn is_right(packet: &[Item], base: u32) -> bool {
    let words = packet.as_flattened().iter().enumerate();
    words.fold(true, |right, (word, found)| right & (*found == base.wrapping_add(word as u32)))
}

type End = DeviceLinkEnd<Item>;
type OneEnd = (End, Shared<u32>, Shared<u32>, Value<[u32; 2]>);

static FILL: Kernel<OneEnd> = Kernel::of_steps("fill", source("fill"), |block, arguments| {
    let (link, _, _, [_, end]) = arguments;
    let link = link.channel(block)?;
    while link.sent() != *end {
        let base = first_word(block, link.sent());
        if !link.try_claim(|slot| fill_slot(slot, base))? {
            return Ok(Step::Waits);
        }
    }
    Ok(Step::Done)
});

static CHECK: Kernel<OneEnd> = Kernel::of_steps("check", source("check"), |block, arguments| {
    let (link, _, report, [_, end]) = arguments;
    let link = link.channel(block)?;
    while link.received() != *end {
        let base = first_word(block, link.received());
        let Some(right) = link.try_take(|packet| is_right(packet, base))? else {
            return Ok(Step::Waits);
        };
        report[WORDS_OF_END + WRONG].fetch_add(u32::from(!right), Ordering::Relaxed);
    }
    Ok(Step::Done)
});

/// Rounds of a link by their numbers, and whether this end begins.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
#[doc(hidden)]
pub struct Rounds {
    first: u32,
    end: u32,
    begins: u32,
    unused: u32,
}

static ECHO: Kernel<(End, End, Shared<u32>, Shared<u32>, Value<Rounds>)> =
    Kernel::of_steps("echo", source("echo"), |_, (there, back, _, report, rounds)| {
        while there.sent() != rounds.end || back.received() != rounds.end {
            // The end that begins is one packet ahead.
            let sends = there.sent() == back.received().wrapping_add(rounds.begins).wrapping_sub(1)
                && there.sent() != rounds.end;
            let went = match sends {
                true => {
                    let base = first_word(0, there.sent());
                    there.try_claim(|slot| fill_slot(slot, base))?
                }
                false => {
                    let base = first_word(0, back.received());
                    let right = back.try_take(|packet| is_right(packet, base))?;
                    let word = (1 - rounds.begins as usize) * WORDS_OF_END + WRONG;
                    let wrong = u32::from(right == Some(false));
                    report[word].fetch_add(wrong, Ordering::Relaxed);
                    right.is_some()
                }
            };
            if !went {
                return Ok(Step::Waits);
            }
        }
        Ok(Step::Done)
    });

/// What a device of a chain does, and for how many rounds.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
#[doc(hidden)]
pub struct Relay {
    rounds: u32,
    place: u32,
    receives: u32,
    sends: u32,
}

/// Packets of one channel of a chain.
struct Share {
    channel: usize,
    channels: usize,
    packet_items: usize,
    len: usize,
}

impl Share {
    /// Packets of this channel in a round.
    fn packets(&self) -> usize {
        let packets = self.len.div_ceil(self.packet_items);
        packets.saturating_sub(self.channel).div_ceil(self.channels)
    }

    /// The items of a packet, whose number is counted over all rounds.
    fn range(&self, packet: u32) -> Range<usize> {
        let in_round = packet as usize % self.packets().max(1);
        let first = (in_round * self.channels + self.channel) * self.packet_items;
        first..(first + self.packet_items).min(self.len)
    }
}

type Chain = (End, End, Shared<u32>, Shared<u32>, Guarded<Item>, Value<Relay>);

static RELAY: Kernel<Chain> = Kernel::of_steps("relay", source("relay"), |block, arguments| {
    let (from, to, _, report, memory, relay) = arguments;
    let (room, len) = (from.room(), memory.len());
    let (channels, packet_items) = (room.channel_count(), room.packet_items());
    let share = Share { channel: block, channels, packet_items, len };
    let (from, to) = (from.channel(block)?, to.channel(block)?);
    let all = relay.rounds * share.packets() as u32;
    let wrong = &report[relay.place as usize * WORDS_OF_END + WRONG];
    loop {
        let received = if relay.receives == 1 { from.received() } else { all };
        let sent = if relay.sends == 1 { to.sent() } else { all };
        let went = if sent < received {
            let claim = |items: &[Item]| to.try_send(items);
            memory.try_read(share.range(sent), claim)?.transpose()? == Some(true)
        } else if received < all {
            let take = |items: &mut [Item]| {
                from.try_take(|packet| match packet.len() == items.len() {
                    true => items.copy_from_slice(packet),
                    false => drop(wrong.fetch_add(1, Ordering::Relaxed)),
                })
            };
            memory.try_write(share.range(received), take)?.transpose()?.flatten().is_some()
        } else {
            return Ok(Step::Done);
        };
        if !went {
            return Ok(Step::Waits);
        }
    }
});

/// Whether kernels of all these devices can have links to each other: GPUs alone, or host devices
/// alone.
pub fn are_possible(devices: &[Device]) -> bool {
    devices.iter().all(|device| device.is_gpu() == devices[0].is_gpu())
}

/// As many channels as all devices run blocks at once, at most; four on host devices.
pub fn most_channels(context: &Context) -> Result<usize> {
    if !context.devices().iter().any(Device::is_gpu) {
        return Ok(4);
    }
    let gang = Gang::new(context)?;
    let blocks = [gang.prepare(&FILL)?, gang.prepare(&CHECK)?, gang.prepare(&RELAY)?];
    Ok(blocks.into_iter().min().map_or(1, |blocks| blocks as usize).min(MOST_CHANNELS))
}

/// The size of a launch with a block for each channel.
fn size(context: &Context, member: &GangMember<'_>, channels: usize) -> usize {
    if context.devices()[member.place].is_gpu() { member.sharers } else { channels }
}

/// Checks that everything arrived as it was sent, and that nobody gave up.
fn assert_sound(report: &SharedBuffer<u32>) -> Result<()> {
    for word in 0..report.len() {
        assert_eq!(report.load(word)?, 0, "word {word}: packets lost or wrong");
    }
    Ok(())
}

/// Multiplies the number of packets, at least by two, until `run` takes about as long as `target`;
/// `run` gets the first packet and the end. Returns the number of packets of the last run, and its
/// time.
async fn calibrated(
    target: Duration,
    mut run: impl AsyncFnMut(u32, u32) -> Result<Duration>,
) -> Result<(u32, Duration)> {
    let (mut first, mut packets) = (0_u32, 8_u32);
    loop {
        let end = first.wrapping_add(packets);
        let time = run(first, end).await?;
        if time >= target / 2 || packets > 1 << 24 {
            return Ok((packets, time));
        }
        first = end;
        let factor = (target.as_secs_f64() / time.as_secs_f64().max(1e-6)).clamp(2.0, 32.0);
        packets = (f64::from(packets) * factor) as u32;
    }
}

/// Bytes a second from kernels of one device to kernels of another, which fill packets and look
/// at all of them, in a run that takes about so long.
pub async fn rate(
    context: &Context,
    [from, to]: [usize; 2],
    room: LinkRoom,
    target: Duration,
) -> Result<f64> {
    let [one, other] = [from, to].map(|place| &context.devices()[place]);
    let link = DeviceLink::<Item>::new(context, one, other, room, PATIENCE)?;
    let report = context.host().shared(2 * WORDS_OF_END)?;
    let channels = room.channel_count();
    let (packets, time) = calibrated(target, async |first, end| {
        let gang = Gang::new(context)?;
        gang.prepare(&FILL)?;
        gang.prepare(&CHECK)?;
        let host = gang.words().clone();
        gang.run(|member| {
            let size = size(context, &member, channels);
            let arguments = (&link, &host, &report, [first, end]);
            match member.place {
                place if place == from => Ok(FILL.launch(member.stream, size, arguments)?),
                place if place == to => Ok(CHECK.launch(member.stream, size, arguments)?),
                _ => Ok(()),
            }
        })
        .await
    })
    .await?;
    assert_sound(&report)?;
    let bytes = packets as usize * channels * room.packet_items() * ITEM_BYTES;
    Ok(bytes as f64 / time.as_secs_f64())
}

/// Half of the time that a packet takes there and back, filled and looked at at both ends.
pub async fn one_way(
    context: &Context,
    [from, to]: [usize; 2],
    packet_items: usize,
    target: Duration,
) -> Result<Duration> {
    let [one, other] = [from, to].map(|place| &context.devices()[place]);
    let link = |from, to| DeviceLink::<Item>::new(context, from, to, (4, packet_items), PATIENCE);
    let (there, back) = (link(one, other)?, link(other, one)?);
    let report = context.host().shared(2 * WORDS_OF_END)?;
    let (rounds, time) = calibrated(target, async |first, end| {
        let gang = Gang::new(context)?;
        gang.prepare(&ECHO)?;
        let host = gang.words().clone();
        gang.run(|member| {
            let size = size(context, &member, 1);
            let rounds = |begins| Rounds { first, end, begins, unused: 0 };
            match member.place {
                place if place == from => {
                    let arguments = (&there, &back, &host, &report, rounds(1));
                    Ok(ECHO.launch(member.stream, size, arguments)?)
                }
                place if place == to => {
                    let arguments = (&back, &there, &host, &report, rounds(0));
                    Ok(ECHO.launch(member.stream, size, arguments)?)
                }
                _ => Ok(()),
            }
        })
        .await
    })
    .await?;
    assert_sound(&report)?;
    Ok(time / (2 * rounds))
}

/// Packets of a channel of a chain: one is filled while the others are read.
const CHAIN_PACKETS: usize = 4;

/// From the first device of a chain to all others, by kernels that stay there for all rounds:
/// the mean time of a round, which does not wait for the one before. A packet is what all
/// channels move at once. What all have at the end is compared with what was sent.
pub async fn chain(
    context: &Context,
    order: &[usize],
    (bytes, packet_bytes): (usize, usize),
    rounds: u32,
) -> Result<Duration> {
    let len = bytes / ITEM_BYTES;
    let channels = most_channels(context)?.min(64).min(packet_bytes.div_ceil(4096));
    let packet_items = packet_bytes.min(bytes).div_ceil(channels * ITEM_BYTES);
    let room = LinkRoom::new(CHAIN_PACKETS, packet_items).channels(channels);
    let device = |hop: usize| &context.devices()[order[hop]];
    let links = (1..order.len())
        .map(|hop| DeviceLink::<Item>::new(context, device(hop - 1), device(hop), room, PATIENCE));
    let links = links.collect::<Result<Vec<_>>>()?;
    let memory = order.iter().map(|&place| context.devices()[place].guarded::<Item>(len));
    let memory = memory.collect::<millstream::device::Result<Vec<_>>>()?;
    let sent: Vec<Item> = (0..len as u32).map(|at| [at, !at, at.rotate_left(16), 7]).collect();
    put(device(0), &sent, &memory[0]).await?;
    let report = context.host().shared(order.len() * WORDS_OF_END)?;
    let gang = Gang::new(context)?;
    gang.prepare(&RELAY)?;
    let host = gang.words().clone();
    let time = gang
        .run(|member| {
            let hop = order.iter().position(|place| *place == member.place);
            let Some(hop) = hop else { return Ok(()) };
            let (receives, sends) = (hop > 0, hop < links.len());
            // At either end of the chain, only one of the two is used.
            let from = &links[if receives { hop - 1 } else { hop }];
            let to = &links[if sends { hop } else { hop - 1 }];
            let [receives, sends] = [receives, sends].map(u32::from);
            let relay = Relay { rounds, place: hop as u32, receives, sends };
            let arguments = (from, to, &host, &report, &memory[hop], relay);
            Ok(RELAY.launch(member.stream, size(context, &member, channels), arguments)?)
        })
        .await?;
    assert_sound(&report)?;
    for (hop, memory) in memory.iter().enumerate().skip(1) {
        assert!(get(device(hop), memory).await? == sent, "{} has something else", device(hop));
    }
    Ok(time / rounds)
}

async fn put(device: &Device, items: &[Item], to: &GuardedBuffer<Item>) -> Result<()> {
    let stream = device.stream_of(StreamKind::Copy)?;
    let here = stream.uploaded(items.to_vec())?;
    // SAFETY: nobody uses the items before the copy is over.
    stream.copy(&here, unsafe { to.part_mut(0..items.len())? })?;
    Ok(stream.completed()?.await?)
}

async fn get(device: &Device, from: &GuardedBuffer<Item>) -> Result<Vec<Item>> {
    let stream = device.stream_of(StreamKind::Copy)?;
    Ok(stream.download(from.part(0..from.len())?)?.await?)
}
