//! Collectives as one kernel on each GPU, which push into each other's memory:
//! `collective_exchange.cuh`. The protocol is in `README.md`.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use millstream_device::{
    CudaSource, DeviceBuffer, Kernel, KernelFault, LinkKind, Parameter, Read, Shared, SharedBuffer,
    SharedSet, Stream, Value, Write,
};

use super::operands::Operands;
use super::operator::{Operator, program as program_of};
use super::plan::Pattern;
use crate::context::Context;
use crate::{Error, Item, Result};

/// Ranks at most: devices of one GPU have a stream each.
const MOST_RANKS: usize = 8;
/// Threads of a block, as in the header.
const THREADS: u32 = 512;
/// Blocks of a kernel: all kernels of a GPU must run at once.
const BLOCKS: usize = 64;
/// Devices of one GPU at most, so that they do.
const MOST_SHARERS: usize = 4;
/// Slots of a ring.
const SLOTS: usize = 8;
/// Bytes of a slot.
const SLOT_BYTES: usize = 32 << 10;
/// Vectors up to this many bytes in all go to everyone as they are: one exchange
/// less, for more bytes.
const WHOLE_BYTES: usize = 256 << 10;
/// Words in the host's memory.
const HOST_STOP: usize = 0;
const HOST_FAULT: usize = 1;
const EVERYONE: u32 = u32::MAX;
/// Entries of the settings' lists.
const LISTED: usize = SharedSet::<u32>::MOST;

/// Items of a buffer, as kernels take them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Items {
    start: u64,
    len: u64,
}

impl From<&Range<usize>> for Items {
    fn from(range: &Range<usize>) -> Items {
        Items { start: range.start as u64, len: range.len() as u64 }
    }
}

/// `ExchangeSettings` of the header.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Settings {
    sends: [Items; LISTED],
    receives: [Items; LISTED],
    gathers: [Items; LISTED],
    patience_ns: u64,
    rank: u32,
    ranks: u32,
    slots: u32,
    slot_bytes: u32,
    in_place: u32,
    combines: u32,
    is_gathered: u32,
    gatherer: u32,
}

type Signature<T> = (Read<T>, Write<T>, SharedSet<u32>, Shared<u32>, Value<Settings>);

/// A kernel that is loaded on all devices.
struct Loaded<T: Item> {
    kernel: Kernel<Signature<T>>,
    /// What the kernel of each rank takes for an input in place.
    none: Vec<DeviceBuffer<T>>,
}

/// The memory of the exchange.
pub(super) struct Exchange {
    /// Of each rank: its rings' words, and the slots of incoming ones.
    memory: Vec<SharedBuffer<u32>>,
    /// What to end the kernels for, and what ended them.
    host: SharedBuffer<u32>,
    patience_ns: u64,
    /// By item type and operator.
    kernels: HashMap<(TypeId, Option<Arc<str>>), Box<dyn Any + Send + Sync>>,
    ranks: usize,
}

impl Exchange {
    /// Whether it can run on these devices.
    pub(super) fn is_possible(context: &Context) -> bool {
        let devices = context.devices();
        (2..=MOST_RANKS).contains(&devices.len())
            && devices.iter().all(|device| device.is_gpu())
            && context.topology().all_peers()
            && most_sharers(context) <= MOST_SHARERS
    }

    pub(super) fn new(context: &Context, patience: Duration) -> Result<Exchange> {
        let ranks = context.devices().len();
        let rings = ranks * BLOCKS;
        let words = (rings * (3 + 2 * SLOTS)).next_multiple_of(4) + rings * SLOTS * SLOT_BYTES / 4;
        let memory = context.devices().iter().map(|device| {
            Ok(device.shared(words)?.with_label(format!("collectives' rings of {device}")))
        });
        Ok(Exchange {
            memory: memory.collect::<Result<_>>()?,
            host: context.host().shared(2)?,
            patience_ns: u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX),
            kernels: HashMap::new(),
            ranks,
        })
    }

    /// Whether items of this type fit.
    pub(super) fn carries<T: Item>() -> bool {
        (1..=SLOT_BYTES).contains(&size_of::<T>())
    }

    /// Ends the kernels, which may wait for one that will not come.
    pub(super) fn stop(&self) {
        let _ = self.host.store(HOST_STOP, 1);
    }

    /// Why the kernels have ended early, if they have.
    pub(super) fn check(&self, streams: &[Stream]) -> Result<()> {
        if self.host.load(HOST_STOP)? == 0 {
            return Ok(());
        }
        let message = match self.host.load(HOST_FAULT)? {
            0 => "it was stopped",
            _ => "a packet did not come in time",
        };
        let devices: Vec<String> = streams.iter().map(|stream| stream.device().name()).collect();
        Err(Error::from(millstream_device::Error::KernelFailed {
            kernel: "exchange".into(),
            device: devices.join(", "),
            message: message.into(),
        }))
    }

    /// Submits the kernels of a collective.
    pub(super) fn run<T: Item>(
        &mut self,
        streams: &[Stream],
        pattern: &Pattern,
        operands: Operands<'_, T>,
        operator: Option<&Operator<T>>,
    ) -> Result<()> {
        let settings = self.settings(pattern, &operands, size_of::<T>());
        self.load(streams, operator)?;
        let key = (TypeId::of::<T>(), operator.map(|operator| Arc::clone(operator.cuda())));
        let Some(loaded) = self.kernels.get(&key).and_then(|any| any.downcast_ref::<Loaded<T>>())
        else {
            return Err(Error::Ended);
        };
        for (rank, settings) in settings.into_iter().enumerate() {
            let output = &mut operands.outputs[rank];
            let input = operands.inputs.map_or(&loaded.none[rank], |inputs| &inputs[rank]);
            self.launch(loaded, &streams[rank], input, output, settings)?;
        }
        Ok(())
    }

    fn launch<T: Item>(
        &self,
        loaded: &Loaded<T>,
        stream: &Stream,
        input: &DeviceBuffer<T>,
        output: &mut DeviceBuffer<T>,
        settings: Settings,
    ) -> Result<()> {
        let memory: Vec<_> = self.memory.iter().collect();
        let arguments = (input, output, &memory[..], &self.host, settings);
        Ok(loaded.kernel.launch(stream, BLOCKS, arguments)?)
    }

    /// Loads the kernel on all devices before any waits for another's: loading may
    /// wait for kernels that run.
    fn load<T: Item>(&mut self, streams: &[Stream], operator: Option<&Operator<T>>) -> Result<()> {
        let key = (TypeId::of::<T>(), operator.map(|operator| Arc::clone(operator.cuda())));
        if self.kernels.contains_key(&key) {
            return Ok(());
        }
        let cuda = operator.map(|operator| &**operator.cuda());
        let no_twin = |_: &_, _: <Signature<T> as Parameter>::View<'_>| {
            Err(KernelFault::new("the exchange runs on GPUs only"))
        };
        let kernel =
            Kernel::from_closure("exchange", no_twin).with_cuda(source(program::<T>(cuda)));
        let none = streams.iter().map(|stream| Ok(stream.device().buffer(0)?));
        let loaded = Loaded { kernel, none: none.collect::<Result<_>>()? };
        for (rank, stream) in streams.iter().enumerate() {
            let mut nothing = stream.device().buffer::<T>(0)?;
            let settings = self.idle(rank);
            self.launch(&loaded, stream, &loaded.none[rank], &mut nothing, settings)?;
            stream.record()?.synchronize()?;
        }
        self.kernels.insert(key, Box::new(loaded));
        Ok(())
    }

    /// Settings of a kernel that does nothing.
    fn idle(&self, rank: usize) -> Settings {
        Settings {
            patience_ns: self.patience_ns,
            rank: rank as u32,
            ranks: self.ranks as u32,
            slots: SLOTS as u32,
            slot_bytes: SLOT_BYTES as u32,
            gatherer: EVERYONE,
            ..Settings::zeroed()
        }
    }

    /// What each rank's kernel does.
    fn settings<T: Item>(
        &self,
        pattern: &Pattern,
        operands: &Operands<'_, T>,
        item: usize,
    ) -> Vec<Settings> {
        let ranks = self.ranks;
        let idle = (0..ranks).map(|rank| {
            let in_place = u32::from(operands.is_in_place());
            Settings { in_place, ..self.idle(rank) }
        });
        let mut all: Vec<Settings> = idle.collect();
        match pattern {
            Pattern::AllReduce { items } => {
                if items.len() * item * (ranks - 1) <= WHOLE_BYTES {
                    to_everyone(&mut all, items, |_| true);
                } else {
                    to_owners(&mut all, &aligned_parts(items, ranks, item), |_| true, EVERYONE);
                }
            }
            Pattern::Reduce { root, items } => {
                to_owners(&mut all, &aligned_parts(items, ranks, item), |_| true, *root as u32);
            }
            Pattern::Broadcast { root, items } => {
                if ranks == 2 || items.len() * item * (ranks - 1) <= WHOLE_BYTES {
                    to_everyone(&mut all, items, |from| from == *root);
                } else {
                    let parts = aligned_parts(items, ranks, item);
                    to_owners(&mut all, &parts, |from| from == *root, EVERYONE);
                }
            }
            Pattern::ReduceScatter { parts } => {
                for (rank, settings) in all.iter_mut().enumerate() {
                    settings.combines = 1;
                    let own = Items::from(&parts[rank]);
                    // Out of place, the part is all of the output.
                    let at = if operands.is_in_place() { own.start } else { 0 };
                    for (other, part) in parts.iter().enumerate() {
                        settings.sends[other] = part.into();
                        settings.receives[other] = Items { start: at, len: own.len };
                    }
                }
            }
            Pattern::AllGather { parts } => {
                for (rank, settings) in all.iter_mut().enumerate() {
                    let own = Items::from(&parts[rank]);
                    let at = if operands.is_in_place() { own.start } else { 0 };
                    for (other, part) in parts.iter().enumerate() {
                        settings.sends[other] = Items { start: at, len: own.len };
                        settings.receives[other] = part.into();
                    }
                }
            }
            Pattern::AllToAll { pieces } => {
                for (rank, settings) in all.iter_mut().enumerate() {
                    for other in 0..ranks {
                        settings.sends[other] = (&pieces[rank][other].items).into();
                        let piece = &pieces[other][rank];
                        let (start, len) = (piece.at as u64, piece.items.len() as u64);
                        settings.receives[other] = Items { start, len };
                    }
                }
            }
        }
        all
    }
}

/// Those who contribute send all items to everyone, who combines them.
fn to_everyone(all: &mut [Settings], items: &Range<usize>, contributes: impl Fn(usize) -> bool) {
    let ranks = all.len();
    for (rank, settings) in all.iter_mut().enumerate() {
        settings.combines = 1;
        for other in 0..ranks {
            let empty = items.start..items.start;
            settings.sends[other] = if contributes(rank) { items } else { &empty }.into();
            settings.receives[other] =
                if contributes(other) || other == rank { items } else { &empty }.into();
        }
    }
}

/// Those who contribute send each part to its owner, who combines them for `gatherer`.
fn to_owners(
    all: &mut [Settings],
    parts: &[Range<usize>],
    contributes: impl Fn(usize) -> bool,
    gatherer: u32,
) {
    for (rank, settings) in all.iter_mut().enumerate() {
        (settings.combines, settings.is_gathered, settings.gatherer) = (1, 1, gatherer);
        let own = &parts[rank];
        for (other, part) in parts.iter().enumerate() {
            let sent = if contributes(rank) { part.clone() } else { part.start..part.start };
            let received = if contributes(other) || other == rank { own.end } else { own.start };
            settings.sends[other] = (&sent).into();
            settings.receives[other] = (&(own.start..received)).into();
            settings.gathers[other] = part.into();
        }
    }
}

/// Nearly equal parts that begin at multiples of 16 bytes, as items allow.
fn aligned_parts(items: &Range<usize>, ranks: usize, item: usize) -> Vec<Range<usize>> {
    let step = if item > 0 && 16 % item == 0 { 16 / item } else { 1 };
    let share = items.len().div_ceil(ranks).next_multiple_of(step);
    let bound = |place: usize| items.end.min(items.start + place * share);
    (0..ranks).map(|rank| bound(rank)..bound(rank + 1)).collect()
}

/// Kernel of a program.
pub(super) fn source(program: String) -> CudaSource {
    CudaSource::generated("exchange.cu", "exchange_items", program)
        .threads(THREADS)
        .blocks(BLOCKS as u32)
}

/// The program for an operator, or for items that are only moved.
pub(super) fn program<T: Item>(operator: Option<&str>) -> String {
    let (size, alignment) = (size_of::<T>(), align_of::<T>());
    let moved = format!(
        "struct alignas({alignment}) Element {{ unsigned char bytes[{size}]; }};\n\
         __device__ Element combine(Element one, Element) {{ return one; }}\n"
    );
    program_of::<T>("collective_exchange.cuh", operator.unwrap_or(&moved), KERNEL)
}

const KERNEL: &str = "
extern \"C\" __global__ void __launch_bounds__(512, 2) exchange_items(
    millstream::Span<const Element> input, millstream::Span<Element> output,
    const __grid_constant__ millstream::SpanSet<millstream::u32> memory,
    millstream::Span<millstream::u32> host,
    const __grid_constant__ millstream::ExchangeSettings settings) {
    millstream::exchange(input, output, memory, host, settings,
                         [](Element one, Element other) { return combine(one, other); });
}
";

/// Devices that share a GPU: their kernels must all fit at once.
fn most_sharers(context: &Context) -> usize {
    let topology = context.topology();
    let ranks = 0..context.devices().len();
    let sharers = |place: usize| {
        let here = |other: &usize| topology.link(place, *other) == LinkKind::Memory;
        ranks.clone().filter(|other| *other == place || here(other)).count()
    };
    ranks.clone().map(sharers).max().unwrap_or(0)
}
