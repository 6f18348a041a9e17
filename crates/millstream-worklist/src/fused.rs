//! The fused worker \[G §5.2\]: a gang of persistent kernels, one a device, that run
//! the worklist among themselves; the host starts them and can stop them. The
//! kernels' side is `fused.cuh`; the protocol is in `FUSED.md`.

use std::sync::Arc;
use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    BoundKernel, Kernel, Shared, SharedBuffer, SharedSet, Trusted, Value, patience_ns,
};
use millstream_flow::{Context, Gang, GangMember, LinkStatistics};

use crate::common::{Common, CommonArgument, Place, SCRATCH_WORDS};
use crate::coordinator::ThresholdSteps;
use crate::program::{Program, Routing, Worker};
use crate::statistics::{COUNTERS, Counter, Counters, WorklistStatistics};
use crate::status::{self, DEFERRED_ENTRIES, FAULT, LOWEST_DEFERRED, READY_ENTRIES, fault_text};
use crate::watch::{progress_text, traffic_text};
use crate::worklist::WorklistDevice;
use crate::{Error, Result};

/// Packets of a peer ring, unless set.
const SLOTS: usize = 64;
/// The most items of a packet: one for each thread of the block that sends it.
const MOST_SLOT_ITEMS: usize = 256;
/// The most bytes of a packet, which that block holds in its shared memory.
const MOST_SLOT_BYTES: usize = 1 << 15;
/// The most packets of a peer ring.
const MOST_SLOTS: usize = 1 << 16;
/// Words of a device's gang memory; `GangWord` of `fused_words.cuh` names the first ones.
const GANG_WORDS: usize = 16;
const GANG_THRESHOLD: usize = 1;
/// Words of a kernel's scratch memory: besides `SCRATCH_WORDS`, a header of four, and three for each
/// piece of an item with many arcs; `Pieces` of `pieces.cuh`.
const GANG_SCRATCH_WORDS: usize = SCRATCH_WORDS + 4 + 3 * status::PIECES;

const NO_CUDA: &str = "the program has no CUDA C++";

/// What the kernel takes beside [`Common`]: the status, the gang's words, the inboxes and the credits of
/// all devices; the host's words; settings.
type Signature<P> = (
    Common<P>,
    SharedSet<u64>,
    SharedSet<u32>,
    SharedSet<u32>,
    SharedSet<u32>,
    Shared<u32>,
    Value<GangSettings>,
);

millstream_device::cuda_struct! {
    /// The settings of a gang, as kernels take them.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    pub(crate) struct GangSettings as "millstream::GangSettings" {
        patience_ns: u64,
        falls_after: u64,
        delta: u32,
        threshold: u32,
        slots: u32,
        slot_items: u32,
        previous: u32,
        lanes: u32,
        seed: u32,
        least_delay_ns: u32,
        most_delay_ns: u32,
        ring_words: u32,
    }
}

/// Why the fused worker cannot run a program on these devices.
pub(crate) fn obstacle<P: Program>(context: &Context) -> Option<&'static str> {
    let obstacles = [
        (P::cuda().is_none(), NO_CUDA),
        (size_of::<P::Packet>() > MOST_SLOT_BYTES, "an item's packet takes more than 32 KiB"),
        (!Gang::is_possible(context), "it needs GPUs alone, up to eight that are all peers"),
        (!context.kernels_push(), "it pushes, and packets are to go another way"),
    ];
    obstacles.into_iter().find_map(|(is_there, what)| is_there.then_some(what))
}

/// How many entries a queue of `items` items gets that should have at least `entries`: lap numbers, which
/// tell tickets for the same place apart, have only the bits that an item leaves free, and a gang holds
/// fewer than 2^19 tickets at once.
pub(crate) fn entries(entries: usize, items: usize) -> usize {
    let laps = (u32::MAX as usize + 1) / (items + 32).next_power_of_two();
    entries.max((1 << 19) / laps.max(1))
}

/// A gang and the kernel of a program, loaded on all its devices.
pub(crate) struct FusedGang<P: Program> {
    gang: Gang,
    kernel: Kernel<Signature<P>>,
    /// The fewest blocks that a device runs at once.
    blocks: u32,
}

impl<P: Program> FusedGang<P> {
    /// Compiles and loads the kernel.
    pub(crate) fn prepared(context: &Context) -> Result<FusedGang<P>> {
        let (gang, kernel) = (Gang::new(context)?, kernel::<P>()?);
        let blocks = gang.prepare(&kernel)?;
        Ok(FusedGang { gang, kernel, blocks })
    }

    /// Why it cannot run with this number of outboxes a device, if it cannot: `run` of `fused.cuh` needs one
    /// block that looks after the device, two for each outbox, and at least one that works.
    pub(crate) fn obstacle(&self, outboxes: usize) -> Option<&'static str> {
        let is_too_small = (self.blocks as usize) < 2 + 2 * outboxes;
        is_too_small.then_some(
            "a GPU has too few multiprocessors for its part of the gang; fewer devices need less, \
             and so does a ring",
        )
    }
}

/// A run whose initial items are queued.
pub(crate) struct FusedRun<P: Program> {
    pub(crate) context: Context,
    pub(crate) devices: Vec<Arc<WorklistDevice<P>>>,
    pub(crate) is_ring: bool,
    /// The number of outboxes of each device, which has as many inboxes.
    pub(crate) outboxes: usize,
    pub(crate) steps: ThresholdSteps,
    pub(crate) patience: Duration,
    pub(crate) rings: Rings,
}

/// How large peer rings are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rings {
    /// Packets of a ring, a power of two.
    slots: usize,
    /// Items of a packet.
    slot_items: usize,
}

impl Rings {
    /// Rings of `buffers` packets, each of up to `bytes` of items, within the limits of a block.
    pub(crate) fn new<T>(buffers: Option<usize>, bytes: usize) -> Result<Rings> {
        let item_bytes = size_of::<T>();
        let most = bytes.min(MOST_SLOT_BYTES).checked_div(item_bytes);
        let slot_items = most.unwrap_or(0).min(MOST_SLOT_ITEMS);
        if slot_items == 0 {
            return Err(millstream_flow::Error::PacketTooSmall { bytes, item_bytes }.into());
        }
        let slots = match buffers {
            Some(0) => return Err(millstream_flow::Error::NoBuffers.into()),
            Some(count) => count.min(MOST_SLOTS).next_power_of_two(),
            None => SLOTS,
        };
        Ok(Rings { slots, slot_items })
    }

    /// Words of a ring: four for each slot (see `SlotWords`), then the payloads; rounded up, so that the next
    /// ring is aligned for its slots.
    fn words<P: Program>(self) -> usize {
        let payloads = (self.slots * self.slot_items * size_of::<P::Packet>()).div_ceil(4);
        (4 * self.slots + payloads).next_multiple_of(4)
    }
}

/// The memory of all devices that their kernels share with each other.
struct Memory {
    words: Vec<SharedBuffer<u32>>,
    inboxes: Vec<SharedBuffer<u32>>,
    credits: Vec<SharedBuffer<u32>>,
    scratches: Vec<SharedBuffer<u64>>,
    reports: Vec<SharedBuffer<u64>>,
}

impl<P: Program> FusedRun<P> {
    /// Runs to the end.
    pub(crate) async fn run(self, gang: FusedGang<P>) -> Result<WorklistStatistics> {
        let FusedGang { gang, kernel, blocks } = gang;
        self.context.wake_links()?;
        let lanes = self.lanes(blocks);
        let memory = self.memory(lanes).await?;
        let words = gang.words().clone();
        let settings = |place| self.settings(place, lanes);
        let run = gang.run(|member| {
            Ok(self.bind(&kernel, &memory, &words, settings(member.place), member)?.submit()?)
        });
        match run.await {
            Ok(_) => self.results(&memory),
            Err(cause) => Err(self.failed(cause, &memory)),
        }
    }

    /// How many rings go from one device to another, each with a block of its own at both ends: one block
    /// could not keep up with what all others emit. As measured to be best, an eighth of a device's blocks
    /// send, and as many receive.
    fn lanes(&self, blocks: u32) -> usize {
        (blocks as usize / 8 / self.outboxes.max(1)).max(1)
    }

    async fn memory(&self, lanes: usize) -> Result<Memory> {
        let rings = self.outboxes * lanes;
        let ring_words = self.rings.words::<P>();
        let host = self.context.host();
        let mut memory = Memory {
            words: Vec::new(),
            inboxes: Vec::new(),
            credits: Vec::new(),
            scratches: Vec::new(),
            reports: Vec::new(),
        };
        for member in &self.devices {
            let device = &member.device;
            let words = device.shared(GANG_WORDS)?;
            let stream = device.stream()?;
            let first: Arc<[u32]> = Arc::new([self.steps.first()]);
            stream.upload_shared(first, &words, GANG_THRESHOLD..GANG_THRESHOLD + 1)?;
            stream.completed()?.await?;
            memory.words.push(words);
            memory.inboxes.push(device.shared((rings * ring_words).max(1))?);
            memory.credits.push(device.shared((rings * 2).max(1))?);
            memory.scratches.push(device.shared(GANG_SCRATCH_WORDS)?);
            let words = status::outbox_standing(self.outboxes, self.outboxes);
            memory.reports.push(host.shared(words)?);
        }
        Ok(memory)
    }

    fn bind(
        &self,
        kernel: &Kernel<Signature<P>>,
        memory: &Memory,
        host: &SharedBuffer<u32>,
        settings: GangSettings,
        GangMember { place, stream, sharers }: GangMember<'_>,
    ) -> millstream_flow::Result<BoundKernel> {
        let statuses: Vec<_> = self.devices.iter().map(|device| &device.status).collect();
        let words: Vec<_> = memory.words.iter().collect();
        let inboxes: Vec<_> = memory.inboxes.iter().collect();
        let credits: Vec<_> = memory.credits.iter().collect();
        let member = &self.devices[place];
        let common: CommonArgument<'_, P> = CommonArgument {
            problem: &member.problem,
            queues: &member.queues,
            status: &member.status,
            scratch: &memory.scratches[place],
            report: &memory.reports[place],
            place: Place::new(&member.here),
        };
        let (statuses, words) = (&statuses[..], &words[..]);
        let (inboxes, credits) = (&inboxes[..], &credits[..]);
        let arguments = (common, statuses, words, inboxes, credits, host, settings);
        Ok(kernel.bind(stream, sharers, arguments)?)
    }

    fn settings(&self, place: usize, lanes: usize) -> GangSettings {
        let previous = self.devices.iter().position(|device| device.here.next == Some(place));
        let injection = self.context.device_set().injection();
        // A GPU thread can sleep for at most a millisecond.
        let delay = |delay: &Duration| delay.as_nanos().min(1_000_000) as u32;
        let delays = injection.delay.as_ref();
        GangSettings {
            patience_ns: patience_ns(self.patience),
            falls_after: self.steps.falls_after.unwrap_or(u64::MAX),
            delta: self.steps.delta.unwrap_or(0),
            threshold: self.steps.first(),
            slots: self.rings.slots as u32,
            slot_items: self.rings.slot_items as u32,
            previous: previous.unwrap_or(0) as u32,
            lanes: lanes as u32,
            seed: injection.seed as u32,
            least_delay_ns: delays.map_or(0, |range| delay(range.start())),
            most_delay_ns: delays.map_or(0, |range| delay(range.end())),
            ring_words: self.rings.words::<P>() as u32,
        }
    }

    /// What the kernels have counted, or why they have ended.
    fn results(&self, memory: &Memory) -> Result<WorklistStatistics> {
        let (worker, routing) = (Some(Worker::Fused), Some(Routing::settled(self.is_ring)));
        let mut statistics = WorklistStatistics { worker, routing, ..Default::default() };
        for (place, report) in memory.reports.iter().enumerate() {
            let entries = self.devices[place].queue_entries();
            if let Some(message) = fault_text(report.load(FAULT)?, entries) {
                let patience = self.patience;
                let message = format!(
                    "{message}{}; patience {patience:?}",
                    self.counters(memory, traffic_text)?
                );
                return Err(Error::from(millstream_device::Error::KernelFailed {
                    kernel: "the fused worklist's".into(),
                    device: self.devices[place].device.name(),
                    message: message.into(),
                }));
            }
            statistics.devices.push(known(report)?.statistics());
            statistics.links.extend(self.links(place, report)?);
        }
        Ok(statistics)
    }

    fn links(&self, place: usize, report: &SharedBuffer<u64>) -> Result<Vec<LinkStatistics>> {
        let member = &self.devices[place];
        let mut links = Vec::new();
        for outbox in 0..self.outboxes {
            let to = match member.here.next {
                Some(next) => next,
                None => outbox + usize::from(outbox >= place),
            };
            let at = status::outbox_traffic(self.outboxes, outbox);
            let (packets, items) = (report.load(at)?, report.load(at + 1)?);
            let mut link =
                LinkStatistics::new(member.device.name(), self.devices[to].device.name());
            (link.packets, link.bytes) = (packets, items * size_of::<P::Packet>() as u64);
            link.packets_pushed = packets;
            // The sizes of single packets are not recorded; this is an upper bound.
            let most = self.rings.slot_items * size_of::<P::Packet>();
            link.largest_packet_bytes = link.bytes.min(most as u64);
            links.push(link);
        }
        Ok(links)
    }

    /// The error of kernels that cannot report any more, with the counters that they last told the host,
    /// if any.
    fn failed(&self, cause: millstream_flow::Error, memory: &Memory) -> Error {
        let has_told = |report: &SharedBuffer<u64>| report.load(Counter::Produced as usize);
        // What they have exchanged, they would have counted at their end.
        match self.counters(memory, |_| String::new()) {
            Ok(counters) if memory.reports.iter().any(|it| has_told(it).is_ok_and(|it| it > 0)) => {
                Error::Fused { cause, counters }
            }
            _ => Error::Flow(cause),
        }
    }

    /// Where every counter stands, for an error, with what `traffic` says of a device's.
    fn counters(&self, memory: &Memory, traffic: fn(&Counters) -> String) -> Result<String> {
        let mut text = String::new();
        for (member, report) in self.devices.iter().zip(&memory.reports) {
            let known = known(report)?;
            text += &progress_text(&member.device, &known);
            text += &traffic(&known);
            text += &self.standing(report)?;
        }
        Ok(text)
    }

    /// The same for values of a device that do not only grow.
    fn standing(&self, report: &SharedBuffer<u64>) -> millstream_device::Result<String> {
        let [lowest, ready, deferred] =
            [LOWEST_DEFERRED, READY_ENTRIES, DEFERRED_ENTRIES].map(|word| report.load(word));
        let (lowest, ready, deferred) = (lowest?, entries_in(ready?), entries_in(deferred?));
        let threshold = report.load(status::words(self.outboxes))?;
        let mut text = format!(
            ", threshold {threshold}, lowest deferred {lowest}, entries: {ready} ready, \
             {deferred} deferred"
        );
        for outbox in 0..self.outboxes {
            let at = status::outbox_standing(self.outboxes, outbox);
            let [entries, tail, head] = [at, at + 1, at + 2].map(|word| report.load(word));
            let (entries, tail, head) = (entries_in(entries?), tail?, head?);
            text += &format!(", outbox {outbox}: {entries}; {tail} packets sent, {head} taken");
        }
        Ok(text)
    }
}

/// Entries of a queue, from its word in a report; 0 if there are more tickets than entries.
fn entries_in(word: u64) -> i32 {
    (word as u32).cast_signed().max(0)
}

/// What a device has counted.
fn known(report: &SharedBuffer<u64>) -> Result<Counters> {
    let words: millstream_device::Result<Vec<u64>> =
        (0..COUNTERS).map(|place| report.load(place)).collect();
    let counters = Counters::default();
    counters.update(words?.into_iter());
    Ok(counters)
}

/// The kernel of a program. It has no twin: host devices are driven by the host.
fn kernel<P: Program>() -> Result<Kernel<Signature<P>>> {
    let Some(cuda) = P::cuda() else {
        return Err(Error::NotFused { reason: NO_CUDA });
    };
    // SAFETY: the code around the callbacks keeps to the signature; the program's `Trusted` vouches for them.
    Ok(Gang::kernel("fused", unsafe { Trusted::new(cuda.fused::<P>()) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `OpenQueue` counts laps: in the bits above those of an item plus one.
    fn laps(items: usize) -> u64 {
        let words_of_bits = items.div_ceil(32).max(1) as u64 * 32;
        1 << words_of_bits.leading_zeros().saturating_sub(32)
    }

    #[test]
    fn small_queues_tell_all_tickets_apart() {
        for items in [0, 1, 31, 32, 33, 95, 1000, (1 << 25) - 1, 1 << 25, (1 << 31) - (1 << 19)] {
            let entries = entries(1, items).next_power_of_two() as u64;
            assert!(entries * laps(items) >= 1 << 19, "{items} items, {entries} entries");
        }
        assert_eq!(entries(1, 1000), 1);
        assert_eq!(entries(5000, 1 << 25), 1 << 13);
    }

    #[test]
    fn rings_are_as_large_as_asked_and_begin_where_packets_may() {
        for (buffers, bytes, slots, slot_items) in [
            (None, 1 << 18, 64, 256),
            (Some(1), 8, 1, 1),
            (Some(3), 100, 4, 12),
            (Some(usize::MAX), 8, MOST_SLOTS, 1),
        ] {
            let rings = Rings::new::<[u32; 2]>(buffers, bytes).unwrap();
            assert_eq!((rings.slots, rings.slot_items), (slots, slot_items));
        }
        assert!(Rings::new::<[u32; 2]>(None, 7).is_err());
        assert!(Rings::new::<[u32; 2]>(Some(0), 8).is_err());
    }
}
