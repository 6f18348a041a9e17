//! Trees whose items go everywhere: where an item goes is a hash of its number, and each is emitted
//! once, so that every count is exact whatever the order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream::device::{Device, Shared, Trusted, Value};
use millstream::flow::Context;
use millstream::worklist::{
    CudaProgram, DistributedWorklist, Flags, Here, Program, Result, View, WorklistStatistics,
    problem,
};

use super::{Owners, Way, mixed};

/// Items that nobody emits. The first one has so many children that their arcs go in pieces, all
/// others have a few.
pub(super) const ROOTS: u32 = 40;
const FIRST_CHILDREN: u32 = 2100;
const CHILDREN: u32 = 3;

const FOREST: &str = concat!(
    include_str!("mixed.cuh"),
    r#"
struct Forest {
    struct Problem { Span<u32> origins; Span<u32> visits; u32 owners; };
    struct Arc { u32 target; };
    using State = u32;
    struct Packet { u32 item; u32 origin; };
    enum Fate { stays, goes, spreads, dies_at_home, dies_abroad, is_not_born };
    static constexpr u32 roots = 40;
    static constexpr u32 first_children = 2100;
    static constexpr u32 children = 3;

    __device__ static Fate fate(u32 item) {
        switch (mixed(item) % 10) {
            case 0: case 1: return stays;
            case 2: case 3: return goes;
            case 4: case 5: case 6: return spreads;
            case 7: return dies_at_home;
            case 8: return dies_abroad;
            default: return is_not_born;
        }
    }
    __device__ static bool is_home(const Here& here, u32 item) {
        return item % here.devices == here.device;
    }
    // Of an item that spreads, one device emits the children, and some want no copy.
    __device__ static bool is_emitter(const Here& here, u32 item) {
        return (mixed(item) >> 8) % here.devices == here.device;
    }
    __device__ static bool wants(const Here& here, u32 item) {
        return is_emitter(here, item) || mixed(item * 31 + here.device) % 3 != 0;
    }
    __device__ static u32 unpack(const Problem&, const Here&, const Packet& packet) {
        return packet.item;
    }
    __device__ static Packet pack(const Problem& problem, const Here&, u32 item) {
        return {item, load_relaxed_gpu(&problem.origins[item])};
    }
    __device__ static Flags on_send(const Problem&, const Here& here, u32 item) {
        switch (fate(item)) {
            case goes: return is_home(here, item) ? Flags::keep : Flags::pass;
            case spreads: return Flags::both;
            case dies_at_home: return Flags::drop;
            case dies_abroad: return is_home(here, item) ? Flags::drop : Flags::pass;
            default: return Flags::keep;
        }
    }
    __device__ static Flags on_receive(const Problem& problem, const Here& here,
                                       const Packet& packet) {
        store_relaxed_gpu(&problem.origins[packet.item], packet.origin);
        if (fate(packet.item) != spreads) {
            if (!is_home(here, packet.item)) return Flags::pass;
            return fate(packet.item) == goes ? Flags::keep : Flags::drop;
        }
        const bool is_wanted = wants(here, packet.item);
        if (here.next == nobody) return is_wanted ? Flags::both : Flags::drop;
        if (here.next == packet.origin) return is_wanted ? Flags::keep : Flags::drop;
        return is_wanted ? Flags::both : Flags::pass;
    }
    __device__ static u32 priority(const Problem&, u32 item) { return mixed(item) >> 8 & 63; }
    __device__ static u32 owner(const Problem& problem, u32 item) {
        return problem.owners == 0 ? nobody : item % problem.owners;
    }
    __device__ static u32 begin(const Problem& problem, const Here& here, u32 item, u64* first,
                                u64* last) {
        fetch_add_relaxed_gpu(&problem.visits[item], 1u);
        *first = *last = 0;
        if (item >= roots && fate(item) == spreads && !is_emitter(here, item)) return 0;
        const u64 items = problem.visits.len;
        const u64 from = item == 0 ? roots : roots + first_children + u64(item - 1) * children;
        const u64 to = from + (item == 0 ? first_children : children);
        *first = from < items ? from : items;
        *last = to < items ? to : items;
        return 0;
    }
    __device__ static Arc arc(const Problem&, u64 at) { return {u32(at)}; }
    __device__ static bool visit(const Problem& problem, const Here& here, u32, const Arc& arc,
                                 u32* priority, u32*) {
        *priority = Forest::priority(problem, arc.target);
        store_relaxed_gpu(&problem.origins[arc.target], here.device);
        return fate(arc.target) != is_not_born;
    }
};
"#
);

problem! {
    struct ForestProblem, ForestView {
        /// The device that has emitted an item, once it is known.
        origins: Shared<u32>,
        visits: Shared<u32>,
        /// How many devices own items; 0 if none do.
        owners: Value<u32>,
    }
}

/// What becomes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is kept where it is emitted.
    Stays,
    /// It is kept by the device whose number it has, modulo the number of devices.
    Goes,
    /// It is kept where it is emitted and by all others that want a copy.
    Spreads,
    /// It is dropped as it is sent.
    DiesAtHome,
    /// It is dropped by the device that would keep it if it were one that goes.
    DiesAbroad,
    /// The arc to it emits nothing.
    IsNotBorn,
}

pub(super) fn fate(item: u32) -> Fate {
    match mixed(item) % 10 {
        0 | 1 => Fate::Stays,
        2 | 3 => Fate::Goes,
        4..7 => Fate::Spreads,
        7 => Fate::DiesAtHome,
        8 => Fate::DiesAbroad,
        _ => Fate::IsNotBorn,
    }
}

/// The device that an item goes to.
pub(super) fn home(item: u32, devices: usize) -> usize {
    item as usize % devices
}

/// The device that emits the children of an item that spreads.
pub(super) fn emitter(item: u32, devices: usize) -> usize {
    (mixed(item) >> 8) as usize % devices
}

/// Whether a device wants a copy of an item that spreads.
pub(super) fn wants(item: u32, device: usize, devices: usize) -> bool {
    let random = mixed(item.wrapping_mul(31).wrapping_add(device as u32));
    emitter(item, devices) == device || !random.is_multiple_of(3)
}

pub(super) fn children(item: u32, items: u32) -> std::ops::Range<u32> {
    let (from, count) = match item {
        0 => (ROOTS, FIRST_CHILDREN),
        _ => (ROOTS + FIRST_CHILDREN + (item - 1) * CHILDREN, CHILDREN),
    };
    from.min(items)..(from + count).min(items)
}

#[derive(Debug)]
struct Forest {
    devices: usize,
    owners: Owners,
}

impl Program for Forest {
    type Packet = [u32; 2];
    type Problem = ForestProblem;

    fn pack(&self, view: &View<'_, Self>, _: &Here, item: u32) -> [u32; 2] {
        [item, view.origins[item as usize].load(Ordering::Relaxed)]
    }

    fn unpack(&self, _: &View<'_, Self>, _: &Here, packet: &[u32; 2]) -> u32 {
        packet[0]
    }

    fn on_send(&self, _: &View<'_, Self>, here: &Here, item: u32) -> Flags {
        let is_home = home(item, here.devices) == here.device;
        match fate(item) {
            Fate::Goes | Fate::DiesAbroad if !is_home => Flags::Pass,
            Fate::Spreads => Flags::Both,
            Fate::DiesAtHome | Fate::DiesAbroad => Flags::Drop,
            _ => Flags::Keep,
        }
    }

    fn on_receive(&self, view: &View<'_, Self>, here: &Here, packet: &[u32; 2]) -> Flags {
        let [item, origin] = *packet;
        view.origins[item as usize].store(origin, Ordering::Relaxed);
        let is_wanted = match fate(item) {
            Fate::Spreads => wants(item, here.device, here.devices),
            _ if home(item, here.devices) != here.device => return Flags::Pass,
            fate => return if fate == Fate::Goes { Flags::Keep } else { Flags::Drop },
        };
        let is_last = here.next == Some(origin as usize);
        match (is_wanted, here.next) {
            (true, _) => {
                if is_last {
                    Flags::Keep
                } else {
                    Flags::Both
                }
            }
            (false, Some(_)) if !is_last => Flags::Pass,
            (false, _) => Flags::Drop,
        }
    }

    fn priority(&self, _: &View<'_, Self>, item: u32) -> u32 {
        mixed(item) >> 8 & 63
    }

    fn owner(&self, item: u32) -> Option<usize> {
        let has_owner = match self.owners {
            Owners::All => true,
            Owners::None => false,
            Owners::OfTheFirst => item == 0,
        };
        has_owner.then(|| home(item, self.devices))
    }

    fn cuda() -> Option<Trusted<CudaProgram>> {
        let program =
            CudaProgram { file: "forest.cuh", text: FOREST, class: "Forest", structs: &[] };
        // SAFETY: as the twins.
        Some(unsafe { Trusted::new(program) })
    }

    fn process(
        &self,
        view: &View<'_, Self>,
        here: &Here,
        item: u32,
        emit: &mut impl FnMut(u32),
        _: &mut u64,
    ) {
        view.visits[item as usize].fetch_add(1, Ordering::Relaxed);
        let is_copy = item >= ROOTS && fate(item) == Fate::Spreads;
        if is_copy && emitter(item, here.devices) != here.device {
            return;
        }
        let born = children(item, view.visits.len() as u32);
        for child in born.filter(|&child| fate(child) != Fate::IsNotBorn) {
            view.origins[child as usize].store(here.device as u32, Ordering::Relaxed);
            emit(child);
        }
    }
}

/// How often each device visited each item, and what it counted.
pub(super) type Outcome = (Vec<Vec<u32>>, WorklistStatistics);

/// Runs the forest of so many items; each root begins at home.
pub(super) fn run(context: &Context, way: &Way, items: u32) -> Result<Outcome> {
    let (devices, count) = (context.devices(), items as usize);
    let owners = if way.owners == Owners::All { devices.len() as u32 } else { 0 };
    let problem = |device: &Device| {
        let (origins, visits) = (device.shared(count)?, device.shared(count)?);
        Ok(Arc::new(ForestProblem { origins, visits, owners }))
    };
    let problems = devices.iter().map(problem).collect::<Result<Vec<_>>>()?;
    let program = Arc::new(Forest { devices: devices.len(), owners: way.owners });
    let worklist = DistributedWorklist::new(context, program, problems.clone(), count);
    let worklist = way.set(context, worklist);
    let initial: Vec<_> = (0..ROOTS).map(|root| (home(root, devices.len()), root)).collect();
    let outcome = async {
        let statistics = worklist.run(&initial).await?;
        let mut visits = Vec::new();
        for (device, problem) in devices.iter().zip(&problems) {
            let stream = device.stream()?;
            visits.push(stream.download_shared(&problem.visits, 0..count)?.await?);
        }
        Ok((visits, statistics))
    };
    context.block_on(outcome)?
}
