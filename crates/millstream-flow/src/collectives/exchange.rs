//! Collectives as one kernel on each GPU, which push into each other's memory:
//! `collective_exchange.cuh`. The protocol is in `README.md`.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use millstream_device::{
    CudaSource, DeviceBuffer, Kernel, KernelFault, LinkKind, Parameter, Read, Shared, SharedBuffer,
    SharedSet, Stream, Value, Write,
};

use super::communicator::CommunicatorOptions;
use super::operands::Operands;
use super::operator::{Operator, program as program_of};
use super::plan::Pattern;
use super::settings::{SLOTS, Settings, Tuning, settings};
use crate::context::Context;
use crate::{Error, Item, Result};

/// Ranks at most: devices of one GPU have a stream each.
const MOST_RANKS: usize = 8;
/// Threads of a block, as in the header.
const THREADS: u32 = 512;
/// Blocks of all kernels of a GPU: they must all run at once, two a multiprocessor.
const MOST_BLOCKS: usize = 200;
/// Words in the host's memory.
const HOST_STOP: usize = 0;
const HOST_FAULT: usize = 1;

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
    /// By item type and operator.
    kernels: HashMap<(TypeId, Option<Arc<str>>), Box<dyn Any + Send + Sync>>,
    blocks: usize,
    tuning: Tuning,
}

impl Exchange {
    /// Whether it can run on these devices.
    pub(super) fn is_possible(context: &Context) -> bool {
        let devices = context.devices();
        (2..=MOST_RANKS).contains(&devices.len())
            && devices.iter().all(|device| device.is_gpu())
            && context.topology().all_peers()
    }

    pub(super) fn new(context: &Context, options: &CommunicatorOptions) -> Result<Exchange> {
        let ranks = context.devices().len();
        let blocks = options.blocks.min(MOST_BLOCKS / most_sharers(context)).max(1);
        let tile_bytes = options.tile_bytes.next_multiple_of(16).max(16);
        let rings = ranks * blocks;
        let words = (rings * (3 + 2 * SLOTS)).next_multiple_of(4) + rings * SLOTS * tile_bytes / 4;
        let memory = context.devices().iter().map(|device| {
            Ok(device.shared(words)?.with_label(format!("collectives' rings of {device}")))
        });
        Ok(Exchange {
            memory: memory.collect::<Result<_>>()?,
            host: context.host().shared(2)?,
            kernels: HashMap::new(),
            blocks,
            tuning: Tuning {
                ranks,
                tile_bytes,
                whole_bytes: options.whole_bytes,
                patience_ns: u64::try_from(options.patience.as_nanos()).unwrap_or(u64::MAX),
            },
        })
    }

    /// Whether items of this type fit.
    pub(super) fn carries<T: Item>(&self) -> bool {
        (1..=self.tuning.tile_bytes).contains(&size_of::<T>())
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
        let in_place = operands.is_in_place();
        let settings = settings(pattern, self.tuning, in_place, size_of::<T>());
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
        Ok(loaded.kernel.launch(stream, self.blocks, arguments)?)
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
        let kernel = Kernel::from_closure("exchange", no_twin)
            .with_cuda(source(program::<T>(cuda), self.blocks));
        let none = streams.iter().map(|stream| Ok(stream.device().buffer(0)?));
        let loaded = Loaded { kernel, none: none.collect::<Result<_>>()? };
        for (rank, stream) in streams.iter().enumerate() {
            let mut nothing = stream.device().buffer::<T>(0)?;
            let settings = Settings::idle(rank, self.tuning);
            self.launch(&loaded, stream, &loaded.none[rank], &mut nothing, settings)?;
            stream.record()?.synchronize()?;
        }
        self.kernels.insert(key, Box::new(loaded));
        Ok(())
    }
}

/// Kernel of a program.
pub(super) fn source(program: String, blocks: usize) -> CudaSource {
    CudaSource::generated("exchange.cu", "exchange_items", program)
        .threads(THREADS)
        .blocks(blocks as u32)
}

/// The program for an operator, or for items that are only moved.
pub(super) fn program<T: Item>(operator: Option<&str>) -> String {
    let (size, alignment) = (size_of::<T>(), align_of::<T>());
    // Words as wide as alignment allows: bytes would each take a register.
    let word = match alignment {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned int",
        _ => "unsigned long long",
    };
    let words = size / alignment.min(8);
    let moved = format!(
        "struct alignas({alignment}) Element {{ {word} words[{words}]; }};\n\
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
    ranks.clone().map(sharers).max().unwrap_or(1)
}
