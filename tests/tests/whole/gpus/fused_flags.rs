//! The fused worker with every answer of the callbacks: items that are kept, passed on, both, or dropped
//! as they are sent or received, in programs with owners and without. Where it cannot run, on host
//! devices, the host drives the same.

mod forest;
mod replicas;

use std::collections::BTreeMap;
use std::time::Duration;

use millstream::flow::Context;
use millstream::worklist::{
    DeviceStatistics, DistributedWorklist, Error, Program, Routing, Worker, WorklistStatistics,
};

use self::forest::{Fate, fate};
use super::fused::delayed;
use super::{Needs, context, fused, runs, scaled, skip};

/// Which items have an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owners {
    All,
    None,
    /// That is all that is checked before a run.
    OfTheFirst,
}

/// How a program runs.
#[derive(Clone, Copy, Debug)]
struct Way {
    routing: Routing,
    owners: Owners,
    /// Bytes of packets, packets of rings, and entries of queues.
    sizes: Option<(usize, usize, usize)>,
    /// The step of the threshold.
    delta: Option<u32>,
}

impl Way {
    fn new(routing: Routing, owners: Owners) -> Way {
        Way { routing, owners, sizes: None, delta: None }
    }

    fn set<P: Program>(
        &self,
        context: &Context,
        worklist: DistributedWorklist<P>,
    ) -> DistributedWorklist<P> {
        let worklist = worklist.worker(fused(context)).routing(self.routing).delta(self.delta);
        // A copy that is not counted right is waited for; emulated GPUs' clocks are slow.
        let worklist = worklist.patience(Duration::from_millis(scaled(10_000, 200)));
        match self.sizes {
            None => worklist,
            Some((bytes, buffers, entries)) => {
                worklist.packet_bytes(bytes).buffers(buffers).queue_entries(entries)
            }
        }
    }

    /// Whether a run that is over went this way.
    fn check(&self, context: &Context, statistics: &WorklistStatistics) {
        assert_eq!(statistics.worker, Some(fused(context)), "{self:?}");
        assert_eq!(statistics.routing, Some(self.routing), "{self:?}");
    }
}

/// A number that looks like chance.
fn mixed(item: u32) -> u32 {
    let item = (item ^ item >> 16).wrapping_mul(0x045d_9f3b);
    let item = (item ^ item >> 15).wrapping_mul(0x2c1b_3c6d);
    item ^ item >> 16
}

/// Sizes as they are, and some that fill up: a packet holds an item or a few.
const SIZES: [Option<(usize, usize, usize)>; 6] = [
    None,
    Some((16, 1, 1)),
    Some((24, 2, 64)),
    Some((1 << 18, 1, 16)),
    Some((64, 64, 1 << 20)),
    Some((8, 1, 2)),
];

/// Every way in which the fused worker routes items, from one to the next a different routing.
fn ways() -> Vec<Way> {
    let sizes = SIZES.into_iter().flat_map(|sizes| [None, Some(16)].map(|delta| (sizes, delta)));
    let routings = [
        (Routing::Direct, Owners::All),
        (Routing::Ring, Owners::None),
        (Routing::Ring, Owners::All),
    ];
    let ways = sizes.flat_map(|(sizes, delta)| {
        routings.map(|(routing, owners)| Way { routing, owners, sizes, delta })
    });
    ways.collect()
}

/// Calls `case` with one way after the other, as often as is asked for, where inboxes are slow every
/// other time.
fn everywhere(usual: u32, case: impl Fn(&Context, &Way, &str)) {
    let ways = ways();
    // It has no factor in common with the number of ways, so that few runs have different ones.
    let step = 7;
    for run in 0..runs(usual) {
        let context = if run % 2 == 0 { context() } else { delayed(run.into()) };
        let way = ways[(run * step) as usize % ways.len()];
        case(&context, &way, &format!("run {run}, {way:?}"));
    }
}

/// What a forest comes to, by walking through it on the host: visits, what each device counts, and the
/// items on each link.
struct Expected {
    visits: Vec<Vec<u32>>,
    devices: Vec<DeviceStatistics>,
    links: BTreeMap<(usize, usize), u64>,
    /// The devices in the order of the ring, and whether items travel along it.
    order: Vec<usize>,
    is_ring: bool,
}

impl Expected {
    fn new(context: &Context, routing: Routing, items: u32) -> Expected {
        let devices = context.devices().len();
        let mut expected = Expected {
            visits: vec![vec![0; items as usize]; devices],
            devices: vec![DeviceStatistics::default(); devices],
            links: BTreeMap::new(),
            order: context.topology().ring_order(),
            is_ring: routing == Routing::Ring,
        };
        // Parents have smaller numbers than their children.
        let mut emitters = vec![None; items as usize];
        for root in 0..forest::ROOTS {
            let home = forest::home(root, devices);
            expected.visit(home, root);
            emitters[root as usize] = Some(home);
        }
        for parent in 0..items {
            let Some(from) = emitters[parent as usize] else { continue };
            for child in forest::children(parent, items) {
                emitters[child as usize] = expected.emit(from, child);
            }
        }
        expected
    }

    fn visit(&mut self, device: usize, item: u32) {
        self.visits[device][item as usize] += 1;
        self.devices[device].work_items += 1;
    }

    /// Emits an item; returns who emits its children.
    fn emit(&mut self, from: usize, item: u32) -> Option<usize> {
        let devices = self.devices.len();
        let home = forest::home(item, devices);
        match fate(item) {
            Fate::Stays => self.visit(from, item),
            Fate::Goes if home == from => self.visit(from, item),
            Fate::Goes | Fate::DiesAbroad if home != from => {
                self.pass(from, home);
                match fate(item) {
                    Fate::Goes => self.keep(home, item),
                    _ => self.devices[home].dropped += 1,
                }
            }
            Fate::Spreads => self.spread(from, item),
            _ => {}
        }
        match fate(item) {
            Fate::Stays => Some(from),
            Fate::Goes => Some(home),
            Fate::Spreads => Some(forest::emitter(item, devices)),
            _ => None,
        }
    }

    /// The devices after one, in the order of the ring.
    fn others(&self, from: usize) -> Vec<usize> {
        let place = self.order.iter().position(|&device| device == from).unwrap();
        let order = self.order.iter().cycle().skip(place + 1);
        order.take(self.order.len() - 1).copied().collect()
    }

    fn hop(&mut self, from: usize, to: usize) {
        self.devices[from].sent += 1;
        self.devices[to].received += 1;
        *self.links.entry((from, to)).or_default() += 1;
    }

    /// An item that was received and stays.
    fn keep(&mut self, device: usize, item: u32) {
        self.devices[device].kept += 1;
        self.visit(device, item);
    }

    fn pass(&mut self, from: usize, to: usize) {
        if !self.is_ring {
            return self.hop(from, to);
        }
        let mut at = from;
        for next in self.others(from) {
            self.hop(at, next);
            if next == to {
                return;
            }
            self.devices[next].passed += 1;
            at = next;
        }
    }

    fn spread(&mut self, from: usize, item: u32) {
        self.visit(from, item);
        let others = self.others(from);
        let mut at = from;
        for &next in &others {
            self.hop(at, next);
            let is_wanted = forest::wants(item, next, self.devices.len());
            let goes_on = self.is_ring && Some(&next) != others.last();
            if is_wanted {
                self.keep(next, item);
            }
            self.devices[next].passed += u64::from(goes_on);
            self.devices[next].dropped += u64::from(!is_wanted && !goes_on);
            at = if self.is_ring { next } else { from };
        }
    }

    fn check(&self, context: &Context, (visits, statistics): forest::Outcome, what: &str) {
        let names: Vec<_> = context.devices().iter().map(|device| device.name()).collect();
        for (place, name) in names.iter().enumerate() {
            let mut seen = statistics.devices[place];
            // How often an item is deferred depends on when it comes.
            seen.deferred = 0;
            assert_eq!(seen, self.devices[place], "{what}, {name}");
            let wrong = (0..visits[place].len())
                .find(|&item| visits[place][item] != self.visits[place][item]);
            assert_eq!(wrong, None, "{what}, {name}");
        }
        let mut bytes = BTreeMap::new();
        for link in statistics.links.iter().filter(|link| link.bytes > 0) {
            *bytes.entry((link.from.clone(), link.to.clone())).or_default() += link.bytes;
        }
        let pair = |&(from, to): &(usize, usize)| (names[from].clone(), names[to].clone());
        let expected = self.links.iter().map(|(link, items)| (pair(link), 8 * items));
        assert_eq!(bytes, expected.collect(), "{what}");
    }
}

/// How large or how often: less where GPUs are emulated, or the host drives, for which every packet is
/// work.
fn sized<T>(usual: T, less: T) -> T {
    if fused(&context()) == Worker::Fused { scaled(usual, less) } else { less }
}

fn items() -> u32 {
    sized(20_000, 3000)
}

/// `MILLSTREAM_RUNS` forests (72 unless set, or 5), one way after the other: every item is
/// where it belongs, once, and all counts are exact.
#[test]
fn many_forests_of_every_flag() {
    let items = items();
    let [direct, ring] =
        [Routing::Direct, Routing::Ring].map(|routing| Expected::new(&context(), routing, items));
    everywhere(sized(72, 5), |context, way, what| {
        let outcome = forest::run(context, way, items);
        let outcome = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
        way.check(context, &outcome.1);
        let deferred: u64 = outcome.1.devices.iter().map(|device| device.deferred).sum();
        assert_eq!(deferred > 0, way.delta.is_some(), "{what}");
        let expected = if way.routing == Routing::Ring { &ring } else { &direct };
        expected.check(context, outcome, what);
    });
}

/// The forests have enough of everything, and the model of them counts right.
#[test]
fn forests_have_every_flag_many_times() {
    let (context, items) = (context(), items());
    let devices = context.devices().len();
    for routing in [Routing::Direct, Routing::Ring] {
        let expected = Expected::new(&context, routing, items);
        let sum = |field: fn(&DeviceStatistics) -> u64| expected.devices.iter().map(field).sum();
        let (sent, received): (u64, u64) = (sum(|it| it.sent), sum(|it| it.received));
        let (kept, dropped): (u64, u64) = (sum(|it| it.kept), sum(|it| it.dropped));
        let passed: u64 = sum(|it| it.passed);
        assert_eq!(sent, received);
        let is_many = |count: u64| count > 100;
        assert_eq!((is_many(kept), is_many(dropped)), (devices > 1, devices > 1));
        assert_eq!(is_many(passed), routing == Routing::Ring && devices > 2);
        let met = |item: u32| expected.visits.iter().any(|visits| visits[item as usize] > 0);
        for wanted in [Fate::Stays, Fate::Goes, Fate::Spreads] {
            let count = (forest::ROOTS..items).filter(|&item| fate(item) == wanted && met(item));
            assert!(is_many(count.count() as u64), "{wanted:?}");
        }
        let parents = (0..items).filter(|&item| met(item));
        let children = parents.flat_map(|parent| forest::children(parent, items));
        let at_home = children.filter(|&child| fate(child) == Fate::DiesAtHome);
        assert!(is_many(at_home.count() as u64));
    }
}

/// `MILLSTREAM_RUNS` times (72 unless set, or 5) all devices hold the same distances in the end,
/// although copies merge on their way.
#[test]
fn many_distances_that_everybody_is_told() {
    let vertices = sized(5000, 150);
    let expected = replicas::expected(vertices);
    let reached = expected.iter().filter(|&&distance| distance != u32::MAX).count() as u64;
    everywhere(sized(72, 5), |context, way, what| {
        let outcome = replicas::run(context, way, vertices);
        let (distances, statistics) = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
        way.check(context, &statistics);
        assert!(distances.iter().all(|distances| *distances == expected), "{what}");
        let is_ring = way.routing == Routing::Ring && context.devices().len() > 1;
        for device in &statistics.devices {
            assert_eq!(device.received, device.kept + device.dropped, "{what}");
            assert_eq!(device.passed, if is_ring { device.kept } else { 0 }, "{what}");
            assert!(device.work_items >= reached, "{what}");
        }
        let sum = |field: fn(&DeviceStatistics) -> u64| statistics.devices.iter().map(field).sum();
        let (sent, received): (u64, u64) = (sum(|it| it.sent), sum(|it| it.received));
        assert_eq!(sent, received, "{what}");
    });
}

/// Routing of its own accord takes the ring; direct routing is refused, before anything runs or as soon
/// as an item is to go to an owner that it has not.
#[test]
fn programs_without_owners_need_the_ring() {
    let (context, items) = (context(), items());
    let worker = fused(&context);
    let automatic = forest::run(&context, &Way::new(Routing::Auto, Owners::None), items).unwrap();
    let settled = (automatic.1.worker, automatic.1.routing);
    assert_eq!(settled, (Some(worker), Some(Routing::Ring)));
    let expected = Expected::new(&context, Routing::Ring, items);
    expected.check(&context, automatic, "automatic");

    let error = forest::run(&context, &Way::new(Routing::Direct, Owners::None), items).unwrap_err();
    assert!(matches!(error, Error::NoOwner { item: 0 }), "{error}");
    assert!(error.to_string().contains("direct routing needs a program that says who owns"));

    if context.devices().len() == 1 {
        return skip(Needs::Several, "no item goes to another device");
    }
    let way = Way::new(Routing::Direct, Owners::OfTheFirst);
    let error = forest::run(&context, &way, items).unwrap_err().to_string();
    println!("{error}");
    if worker == Worker::Fused {
        assert!(error.contains("is passed on, but no other device owns it"), "{error}");
        for device in context.devices() {
            assert!(error.contains(&format!("; {device}: ")), "{device}: {error}");
        }
    } else {
        assert!(error.contains("on to its owner, no device"), "{error}");
    }
    // The devices are as good as new.
    let again = forest::run(&context, &Way::new(Routing::Direct, Owners::All), items).unwrap();
    Expected::new(&context, Routing::Direct, items).check(&context, again, "again");
}
