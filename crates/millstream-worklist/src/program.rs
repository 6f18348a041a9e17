//! What a programmer gives a distributed worklist \[G §4.3, Fig. 10\].

use millstream_device::{CudaSource, Parameter, StructLayout, Trusted};
use millstream_flow::Item;

use crate::common::Place;
use crate::fused::GangSettings;
use crate::problem::{Problem, layout_checks};

/// What becomes of a work-item \[G §4.3\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flags {
    /// It stays on this device.
    Keep,
    /// It goes on: to its owner (direct routing) or to the next device (ring).
    Pass,
    /// Both: it stays, and a copy goes to every other device once (direct, when
    /// sent; items have [owners](Program::owner) there all the same) or to the next device (ring). A
    /// ring program that answers `Both` has the device where the item comes from in its packets, and
    /// answers `Keep` when that is the next device.
    Both,
    /// It is not needed any more.
    Drop,
}

/// How packets travel \[G §4.3\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// Every device sends to the next one of the topology's ring.
    Ring,
    /// Every device sends to the owner.
    Direct,
    /// Direct where all devices are peers, else ring.
    #[default]
    Auto,
}

impl Routing {
    /// The routing that a run uses.
    pub(crate) fn settled(is_ring: bool) -> Routing {
        if is_ring { Routing::Ring } else { Routing::Direct }
    }
}

/// Who drives a worklist \[G §5.2\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Worker {
    /// Kernels that stay on the devices and do everything among themselves. The devices must be
    /// GPUs that are all peers and [push](millstream_flow::Context::kernels_push), each with room
    /// for two blocks and two more for each further device (in a ring, for four in all). The
    /// program must have CUDA C++, and at most 2^31 - 2^19 items. Packets, buffers and queues are
    /// used as they are set, within limits of this worker; batches are not used.
    Fused,
    /// The host, which launches kernels for batches and moves packets over links:
    /// on any devices.
    HostDriven,
    /// Fused where that is possible, else host-driven.
    #[default]
    Auto,
}

/// Where a callback runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    /// This device's place among the context's devices.
    pub device: usize,
    /// Devices in all.
    pub devices: usize,
    /// The next device of the ring; `None` with direct routing or one device.
    pub next: Option<usize>,
}

/// What a program's callbacks see of its memory on a device.
pub type View<'a, P> = <<P as Program>::Problem as Parameter>::View<'a>;

/// A program's callbacks in CUDA C++: a class with the members that `worklist.cuh` asks for. Its
/// `Problem` must have the same members as the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaProgram {
    /// What the compiler's messages call the text.
    pub file: &'static str,
    /// Includes `worklist.cuh`.
    pub text: &'static str,
    /// The class, such as `millstream::Relaxation<millstream::Levels, millstream::u32>`.
    pub class: &'static str,
    /// Structures of the text that Rust writes, such as settings in the `Problem`: see
    /// [`cuda_struct!`](millstream_device::cuda_struct!).
    pub structs: &'static [StructLayout<'static>],
}

impl CudaProgram {
    /// The kernel of the fused worker.
    pub(crate) fn fused<P: Program>(&self) -> CudaSource {
        let source = self.source::<P>("fused.cuh", "MILLSTREAM_FUSED");
        let source = CudaSource::generated(self.file, "fused", source);
        source.structs(&[GangSettings::LAYOUT]).resident()
    }

    /// The host-driven worklist's kernels.
    pub(crate) fn host_driven<P: Program>(&self) -> String {
        self.source::<P>("host_driven.cuh", "MILLSTREAM_WORKLIST")
    }

    /// The source of the kernels that a macro of a header defines.
    fn source<P: Program>(&self, header: &str, kernels: &str) -> String {
        let CudaProgram { file, text, class, structs } = self;
        let packet_bytes = size_of::<P::Packet>();
        let checks = layout_checks::<P::Problem>("TheProgram");
        let structs = structs.iter().chain([&Place::LAYOUT]).map(StructLayout::checks);
        let structs = structs.collect::<String>();
        format!(
            "#line 1 \"{file}\"\n{text}\n#line 1 \"kernels.cu\"\n#include \"{header}\"\n\
             using TheProgram = {class};\n\
             static_assert(sizeof(TheProgram::Packet) == {packet_bytes}, \
             \"a packet in CUDA C++ and in Rust\");\n\
             {kernels}(TheProgram)\n{checks}{structs}"
        )
    }

    /// The kernels of both workers: those of the host-driven worklist in one source, those of the
    /// fused worker in the other. They can be [compiled](CudaSource::compile) without running them.
    pub fn cuda_sources<P: Program>(&self) -> Vec<CudaSource> {
        let host_driven = CudaSource::generated(self.file, "process", self.host_driven::<P>());
        vec![host_driven, self.fused::<P>()]
    }
}

/// A program on a distributed worklist: five callbacks, an owner, and the work.
///
/// A work-item is a number below the worklist's `items`, for instance a vertex. Its value lies in
/// the program's memory on each device, directly indexed \[G §4.6.1\]. The value is written
/// *before* the item is sent on, by an atomic operation that may be applied in any order, and it is
/// read when the item is processed or packed. Queueing an item that is queued already merges the
/// two.
///
/// The callbacks here are the host twins, which run on host devices. They must not wait. GPUs run
/// [`cuda`](Program::cuda).
///
/// ```
/// use std::sync::{Arc, atomic::Ordering::Relaxed};
///
/// use millstream_device::{Error as DeviceError, Shared};
/// use millstream_flow::{Context, Devices};
/// use millstream_worklist::{DistributedWorklist, Flags, Here, Program, View, problem};
///
/// problem! {
///     /// Numbers that have been met.
///     pub struct Problem, Numbers {
///         met: Shared<u32>,
///     }
/// }
///
/// /// From each number up to 99 to its double and the one after that.
/// struct Doubling;
///
/// impl Program for Doubling {
///     type Packet = u32;
///     type Problem = Problem;
///
///     fn pack(&self, _: &View<'_, Self>, _: &Here, number: u32) -> u32 {
///         number
///     }
///
///     fn unpack(&self, _: &View<'_, Self>, _: &Here, packet: &u32) -> u32 {
///         *packet
///     }
///
///     fn on_send(&self, _: &View<'_, Self>, here: &Here, number: u32) -> Flags {
///         if self.owner(number) == Some(here.device) { Flags::Keep } else { Flags::Pass }
///     }
///
///     fn on_receive(&self, view: &View<'_, Self>, _: &Here, packet: &u32) -> Flags {
///         if view.met[*packet as usize].swap(1, Relaxed) == 0 { Flags::Keep } else { Flags::Drop }
///     }
///
///     fn owner(&self, number: u32) -> Option<usize> {
///         Some(number as usize % 2)
///     }
///
///     fn process(
///         &self,
///         view: &View<'_, Self>,
///         here: &Here,
///         number: u32,
///         emit: &mut impl FnMut(u32),
///         _: &mut u64,
///     ) {
///         for next in [2 * number, 2 * number + 1].into_iter().filter(|next| *next < 100) {
///             let is_own = self.owner(next) == Some(here.device);
///             if !is_own || view.met[next as usize].swap(1, Relaxed) == 0 {
///                 emit(next);
///             }
///         }
///     }
/// }
///
/// let context = Context::builder().devices(Devices::host(2)).build()?;
/// let problem = |device: &millstream_device::Device| {
///     Ok::<_, DeviceError>(Arc::new(Problem { met: device.shared(100)? }))
/// };
/// let problems = context.devices().iter().map(problem).collect::<Result<_, _>>()?;
/// let worklist = DistributedWorklist::new(&context, Arc::new(Doubling), problems, 100);
/// let statistics = context.block_on(worklist.run(&[(1, 1)]))??;
/// assert_eq!(statistics.work_items(), 99);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Program: Sized + Send + Sync + 'static {
    /// What goes over links for one item: of any size, but no more than 32 KiB for the fused worker.
    type Packet: Item;
    /// The program's memory on one device \[G §4.6.3\], made by
    /// [`problem!`](crate::problem!).
    type Problem: Problem;

    /// Makes a packet of an item, with its value as it is now.
    fn pack(&self, view: &View<'_, Self>, here: &Here, item: u32) -> Self::Packet;

    /// The item of a packet.
    fn unpack(&self, view: &View<'_, Self>, here: &Here, packet: &Self::Packet) -> u32;

    /// What becomes of an item that [`process`](Program::process) emitted.
    fn on_send(&self, view: &View<'_, Self>, here: &Here, item: u32) -> Flags;

    /// Applies a packet's value and says what becomes of its item.
    fn on_receive(&self, view: &View<'_, Self>, here: &Here, packet: &Self::Packet) -> Flags;

    /// The priority of an item. Items with priorities up to the threshold run, and all others wait
    /// until it has risen, so lower priorities go first \[G §4.4\]. By default all items have the
    /// same priority.
    fn priority(&self, _view: &View<'_, Self>, _item: u32) -> u32 {
        0
    }

    /// The device that owns an item; `None` if the program has no owners and
    /// needs the ring.
    fn owner(&self, item: u32) -> Option<usize>;

    /// How many of the `items` a queue may hold at once when packets go straight to owners: the
    /// most that one device keeps, or that go from one device to another. The fused worker's queues
    /// have room for this many, and a run that needs more may fail. The default is all items. If
    /// devices keep only what they own, it is the most items that one device owns.
    fn most_queued(&self, items: usize) -> usize {
        items
    }

    /// The same callbacks in CUDA C++; `None` for a program that runs on host
    /// devices only.
    fn cuda() -> Option<Trusted<CudaProgram>> {
        None
    }

    /// Processes an item: changes values and emits the items whose values
    /// changed. Adds to `filtered` the changes that are not worth sending
    /// \[G §4.5, halo\].
    fn process(
        &self,
        view: &View<'_, Self>,
        here: &Here,
        item: u32,
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    );

    /// Processes some items that a host device has taken out of its queue, in any order. The
    /// default processes one after the other; a program may do otherwise, for instance fetch the
    /// memory of several items at once.
    fn process_block(
        &self,
        view: &View<'_, Self>,
        here: &Here,
        items: &[u32],
        emit: &mut impl FnMut(u32),
        filtered: &mut u64,
    ) {
        for &item in items {
            self.process(view, here, item, emit, filtered);
        }
    }
}
