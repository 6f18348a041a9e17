//! The callbacks of breadth-first search and shortest paths.

use std::fmt::Debug;

use millstream::bfs::Levels;
use millstream::flow::Context;
use millstream::sssp::{IntegerDistances, RealDistances};
use millstream::traversal::internals::{Problem, Relaxation, Rule, Settings, Value};
use millstream::traversal::{Owners, Packet, UNREACHED, Vertices};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{Case, Seen, cases, contexts, downloaded, on, shared};

/// What a device knows of distances, and what it hears.
#[derive(Debug)]
struct Relaxations<V> {
    case: Case,
    weights: Vec<u32>,
    values: Vec<V>,
    arriving: Vec<V>,
    settings: Settings,
}

impl<V: Value + Debug> Relaxations<V> {
    fn new(seed: u64, key: fn(u32) -> u32) -> Relaxations<V> {
        let random = &mut SmallRng::seed_from_u64(seed);
        // Of two predecessors as good, the first one stays.
        let is_order_free = !V::KEEPS_PREDECESSOR && random.random::<bool>();
        let case = Case::new(random, is_order_free);
        let vertices = case.vertices();
        let mut value = || match random.random_range(0..3) {
            0 => V::UNREACHED,
            _ => V::new(key(random.random_range(0..60)), random.random_range(0..vertices as u32)),
        };
        let values = (0..vertices).map(|_| value()).collect();
        let arriving = case.receivers.iter().map(|_| value()).collect();
        let weights = case.targets.iter().map(|_| random.random_range(0..20)).collect();
        let settings = Settings {
            limit: if random.random::<bool>() { UNREACHED - 1 } else { key(70) },
            halo_filter: random.random_range(0..2),
            priority_scale: 1.0,
        };
        Relaxations { case, weights, values, arriving, settings }
    }

    /// What is seen, and the values in the end.
    async fn run<R: Rule>(
        &self,
        context: &Context,
        weight: fn(u32) -> R::Weight,
    ) -> (Seen, Vec<V>) {
        let (case, device) = (&self.case, &context.devices()[0]);
        let values = shared(device, self.values.clone()).await;
        let weights: Vec<_> = self.weights.iter().copied().map(weight).collect();
        let problem = Problem::<R, V> {
            offsets: on(device, &case.offsets),
            targets: on(device, &case.targets),
            weights: on(device, &weights),
            values: values.clone(),
            owners: on(device, &case.boundaries),
            settings: self.settings,
        };
        let program = Relaxation::<R, V>::new(self.settings);
        let program = Vertices::new(Owners::new(&case.boundaries), program);
        let packets = self.arriving.iter().zip(&case.receivers);
        let packets = packets.map(|(&value, &vertex)| Packet::new(value, vertex)).collect();
        let seen = case.run(context, (program, problem), packets).await;
        (seen, downloaded(device, &values).await)
    }
}

fn compare<R: Rule, V: Value + Debug>(key: fn(u32) -> u32, weight: fn(u32) -> R::Weight) {
    let [context, twin] = contexts();
    let (mut deferred, mut passed, mut filtered) = (0, 0, 0);
    for seed in cases() {
        let case = Relaxations::<V>::new(seed, key);
        let seen = context.block_on(case.run::<R>(&context, weight)).unwrap();
        let expected = twin.block_on(case.run::<R>(&twin, weight)).unwrap();
        assert!(seen == expected, "MILLSTREAM_SEED={seed}: {case:?}\n{seen:?}\n{expected:?}");
        let (expected, _) = expected;
        deferred += expected.deferred();
        passed += expected.passed();
        filtered += expected.statistics.iter().map(|counts| counts.filtered).sum::<u64>();
    }
    // All cases together are about something.
    let counts = [deferred as u64, passed as u64, filtered];
    assert!(cases().count() == 1 || counts.iter().all(|&count| count > 0), "{counts:?}");
}

#[test]
fn breadth_first_search() {
    compare::<Levels, u32>(|key| key, |weight| weight);
    compare::<Levels, u64>(|key| key, |weight| weight);
}

#[test]
fn shortest_paths() {
    compare::<IntegerDistances, u32>(|key| key, |weight| weight);
    compare::<IntegerDistances, u64>(|key| key, |weight| weight);
    compare::<RealDistances, u32>(|key| (key as f32 / 3.0).to_bits(), |weight| weight as f32 / 7.0);
}
